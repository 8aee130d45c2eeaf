/* Rows on their way between the ranks that hold them and rank 0, which uses the file. Each rank keeps one block, and
 * sends it when rank 0 has asked for it; one that fails says so instead, and is asked no more. */
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "checkpoint_internal.h"

enum {
  TAG_TURN = 7101,
  TAG_ROWS = 7102,
  TAG_COLUMNS = 7103,
  PIECE_BYTES = 1 << 30 /* MPI counts in an int */
};
enum turn { TURN_STOP, TURN_GO };

static int send_turn(const exchange *x, int rank, int turn, error *e) {
  MPI_TRY(e, MPI_Send(&turn, 1, MPI_INT, rank, TAG_TURN, x->comm));
  return 0;
}

static int receive_turn(const exchange *x, int rank, int *turn, error *e) {
  MPI_Request request;
  MPI_TRY(e, MPI_Irecv(turn, 1, MPI_INT, rank, TAG_TURN, x->comm, &request));
  MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  return 0;
}

static int piece(uint64_t bytes) {
  return bytes < PIECE_BYTES ? (int)bytes : PIECE_BYTES;
}

/* Synchronous: a fast sender of small blocks must not fill the memory of a slow receiver. */
static int send_bytes(const exchange *x, int rank, const char *from, uint64_t bytes, error *e) {
  MPI_Request request;
  for (; bytes; from += piece(bytes), bytes -= (uint64_t)piece(bytes)) {
    MPI_TRY(e, MPI_Issend(from, piece(bytes), MPI_BYTE, rank, TAG_ROWS, x->comm, &request));
    MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  }
  return 0;
}

static int receive_bytes(const exchange *x, int rank, char *to, uint64_t bytes, error *e) {
  MPI_Request request;
  for (; bytes; to += piece(bytes), bytes -= (uint64_t)piece(bytes)) {
    MPI_TRY(e, MPI_Irecv(to, piece(bytes), MPI_BYTE, rank, TAG_ROWS, x->comm, &request));
    MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  }
  return 0;
}

static int64_t block_at(const exchange *x, int64_t row, int64_t end) {
  return end - row < x->block ? end - row : x->block;
}

/* Bytes of a row that the rank of this share holds. */
static uint64_t share_bytes(const exchange *x, const checkpoint_share *s) {
  return x->a->by_columns ? (uint64_t)s->columns * checkpoint_value_bytes(x->a->type) : x->row_bytes;
}

static checkpoint_share share_of(const checkpoint_array *a, uint64_t row_bytes) {
  checkpoint_share s = {.first = a->first, .count = a->count};
  if (a->by_columns)
    s = (checkpoint_share){.count = a->column_count > 0 ? a->shape[0] : 0, .columns = a->column_count};
  if (row_bytes == 0) s.count = 0; /* rows without values */
  s.left = s.count;
  return s;
}

/* NULL after a failure only. */
static void *allocate(uint64_t bytes, error *e) {
  void *p = bytes < SIZE_MAX ? malloc((size_t)bytes + 1) : NULL;
  if (!p) FAIL(e, OUT_OF_MEMORY, (size_t)bytes, "a block of a checkpoint");
  return p;
}

static void allocate_blocks(exchange *x, error *e) {
  int64_t most = x->rank == 0 ? x->a->shape[0] : x->own.count;
  if (x->block > most) x->block = most;
  uint64_t own = (uint64_t)x->block * x->own_bytes, whole = (uint64_t)x->block * x->row_bytes;
  if (x->rank == 0) own = whole; /* it holds those of others in turn */
  x->part = x->rows = allocate(own, e);
  if (x->rank == 0 && x->a->by_columns) x->rows = allocate(whole, e);
  if (x->rank == 0) x->shares = allocate((uint64_t)x->ranks * sizeof *x->shares, e);
}

/* Rank 0 learns everybody's columns, one rank after another. */
static int gather_columns(exchange *x, error *e) {
  uint64_t count = 0;
  const checkpoint_array *a = x->a;
  for (int r = 0; x->rank == 0 && r < x->ranks; r++) count += (uint64_t)x->shares[r].columns;
  if (x->rank == 0) x->columns = allocate(count * sizeof *x->columns, e);
  TRY(error_agree(e, x->comm));
  if (x->rank > 0 && x->own.columns)
    MPI_TRY(e, MPI_Send(a->columns, a->column_count, MPI_INT, 0, TAG_COLUMNS, x->comm));
  int *to = x->columns;
  for (int r = 0; x->rank == 0 && r < x->ranks; to += x->shares[r++].columns) {
    int n = (int)x->shares[r].columns;
    if (r == 0 && n) memcpy(to, a->columns, (size_t)n * sizeof *to);
    if (r > 0 && n) MPI_TRY(e, MPI_Recv(to, n, MPI_INT, r, TAG_COLUMNS, x->comm, MPI_STATUS_IGNORE));
  }
  return 0;
}

/* Does every share lie within the array? */
static bool shares_fit(const exchange *x) {
  const int64_t *shape = x->a->shape;
  const int *column = x->columns;
  for (int r = 0; r < x->ranks; r++) {
    const checkpoint_share *s = &x->shares[r];
    if (s->count && (s->first < 0 || s->count < 0 || s->first > shape[0] || s->count > shape[0] - s->first))
      return false;
    for (int64_t i = 0; i < s->columns; i++, column++)
      if (*column < 0 || *column >= shape[1]) return false;
  }
  return true;
}

int exchange_open(exchange *x, MPI_Comm comm, const checkpoint_array *a, size_t block_bytes, error *e) {
  *x = (exchange){.comm = comm, .a = a, .row_bytes = checkpoint_row_bytes(a->type, a->axes, a->shape)};
  MPI_TRY(e, MPI_Comm_rank(comm, &x->rank));
  MPI_TRY(e, MPI_Comm_size(comm, &x->ranks));
  x->own = share_of(a, x->row_bytes);
  x->own_bytes = share_bytes(x, &x->own);
  if (!block_bytes) block_bytes = FILE_BLOCK;
  x->block = x->row_bytes && x->row_bytes < block_bytes ? (int64_t)(block_bytes / x->row_bytes) : 1;
  allocate_blocks(x, e);
  TRY(error_agree(e, comm));
  enum { NUMBERS = sizeof(checkpoint_share) / sizeof(int64_t) };
  MPI_Request request;
  MPI_TRY(e, MPI_Igather(&x->own, NUMBERS, MPI_INT64_T, x->shares, NUMBERS, MPI_INT64_T, 0, comm, &request));
  MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  if (a->by_columns) TRY(gather_columns(x, e));
  if (x->rank == 0 && !shares_fit(x)) FAIL(e, CHECKPOINT_SHARES, a->name);
  return error_agree(e, comm);
}

void exchange_close(exchange *x) {
  if (x->rows != x->part) free(x->rows);
  free(x->part);
  free(x->shares);
  free(x->columns);
  x->rows = x->part = NULL;
  x->shares = NULL;
  x->columns = NULL;
}

bool exchange_covers(const exchange *x) {
  int64_t next = 0, count = 0;
  if (!x->row_bytes || !x->a->shape[0]) return true;
  for (int r = 0; r < x->ranks; r++) {
    const checkpoint_share *s = &x->shares[r];
    if (!x->a->by_columns && s->count && s->first != next) return false;
    next += s->count, count += s->columns;
  }
  if (!x->a->by_columns) return next == x->a->shape[0];
  /* As many columns as there are, and none of them twice: a bit each. */
  size_t bytes = (size_t)count / 8 + 1;
  unsigned char *seen = count == x->a->shape[1] ? calloc(1, bytes) : NULL;
  bool once = seen;
  for (int64_t i = 0; once && i < count; i++) {
    int c = x->columns[i];
    once = !(seen[c / 8] & 1 << c % 8);
    seen[c / 8] |= (unsigned char)(1 << c % 8);
  }
  free(seen);
  return once;
}

/* Rank 0: gets rows from whoever holds them into x->part. False where that has failed, here or there. */
static bool take(exchange *x, int rank, int64_t row, int64_t rows, error *e) {
  checkpoint_share *s = &x->shares[rank];
  int turn = TURN_STOP;
  s->left -= rows;
  if (rank == 0) return !x->a->source(x->a->context, row, rows, x->part, e);
  if (send_turn(x, rank, TURN_GO, e) || receive_turn(x, rank, &turn, e)) return false;
  if (turn == TURN_GO) return !receive_bytes(x, rank, x->part, (uint64_t)rows * share_bytes(x, s), e);
  s->left = 0; /* it says why when the ranks agree */
  return false;
}

/* Rank 0: gives rows in x->part to who wants them. */
static bool give(exchange *x, int rank, int64_t row, int64_t rows, error *e) {
  checkpoint_share *s = &x->shares[rank];
  s->left -= rows;
  if (rank == 0) return !x->a->sink(x->a->context, row, rows, x->part, e);
  return !send_turn(x, rank, TURN_GO, e) &&
         !send_bytes(x, rank, x->part, (uint64_t)rows * share_bytes(x, s), e);
}

/* Moves a rank's columns between whole rows and its part of them. */
static void move_columns(const exchange *x, const int *columns, int64_t count, int64_t rows, bool to_rows) {
  size_t value = checkpoint_value_bytes(x->a->type);
  char *part = x->part;
  for (int64_t row = 0; row < rows; row++)
    for (int64_t i = 0; i < count; i++, part += value) {
      char *place = x->rows + (uint64_t)row * x->row_bytes + (size_t)columns[i] * value;
      memcpy(to_rows ? place : part, to_rows ? part : place, value);
    }
}

static bool write_block(exchange *x, stored_array *s, int64_t row, int64_t rows, const int *disk_error,
                        error *e) {
  if (!stored_transfer(s, FIELD_WRITE, row, rows, x->rows, e) && *disk_error)
    FAIL(e, FILE_WRITE, s->file, strerror(*disk_error));
  return !e->id;
}

/* Rank 0: one rank after another. `disk_error` is NULL to read. */
static void pass_rows(exchange *x, stored_array *s, const int *disk_error, error *e) {
  for (int r = 0; r < x->ranks; r++) {
    int64_t row = x->shares[r].first, end = row + x->shares[r].count, rows;
    for (; row < end; row += rows) {
      rows = block_at(x, row, end);
      bool done = disk_error
                      ? take(x, r, row, rows, e) && write_block(x, s, row, rows, disk_error, e)
                      : !stored_transfer(s, FIELD_READ, row, rows, x->rows, e) && give(x, r, row, rows, e);
      if (!done) return;
    }
  }
}

/* Rank 0: a block of whole rows after another, of which every rank has a part. */
static void pass_columns(exchange *x, stored_array *s, const int *disk_error, error *e) {
  int64_t end = x->row_bytes ? x->a->shape[0] : 0, rows;
  for (int64_t row = 0; row < end; row += rows) {
    const int *columns = x->columns;
    rows = block_at(x, row, end);
    if (!disk_error && stored_transfer(s, FIELD_READ, row, rows, x->rows, e)) return;
    for (int r = 0; r < x->ranks; columns += x->shares[r++].columns) {
      int64_t count = x->shares[r].columns;
      if (!count) continue;
      if (disk_error && !take(x, r, row, rows, e)) return;
      move_columns(x, columns, count, rows, disk_error);
      if (!disk_error && !give(x, r, row, rows, e)) return;
    }
    if (disk_error && !write_block(x, s, row, rows, disk_error, e)) return;
  }
}

static void pass(exchange *x, stored_array *s, const int *disk_error, error *e) {
  if (x->a->by_columns)
    pass_columns(x, s, disk_error, e);
  else
    pass_rows(x, s, disk_error, e);
}

/* Rank 0: whoever still waits learns that no more will come. */
static void dismiss(exchange *x, error *e) {
  for (int r = 1; r < x->ranks; r++)
    if (x->shares[r].left) send_turn(x, r, TURN_STOP, e);
}

/* The other ranks hand over their rows, a block a turn. */
static int provide(const exchange *x, error *e) {
  int64_t row = x->own.first, end = row + x->own.count, rows;
  for (; row < end; row += rows) {
    int turn;
    TRY(receive_turn(x, 0, &turn, e));
    if (turn == TURN_STOP) return 0; /* whoever has failed says why when the ranks agree */
    rows = block_at(x, row, end);
    x->a->source(x->a->context, row, rows, x->part, e);
    TRY(send_turn(x, 0, e->id ? TURN_STOP : TURN_GO, e));
    TRY(e->id);
    TRY(send_bytes(x, 0, x->part, (uint64_t)rows * x->own_bytes, e));
  }
  return 0;
}

/* The other ranks take theirs, also after a failure of their own, which must not stop rank 0. */
static int receive(const exchange *x, error *e) {
  int64_t row = x->own.first, end = row + x->own.count, rows;
  for (; row < end; row += rows) {
    int turn;
    rows = block_at(x, row, end);
    TRY(receive_turn(x, 0, &turn, e));
    if (turn == TURN_STOP) return 0;
    TRY(receive_bytes(x, 0, x->part, (uint64_t)rows * x->own_bytes, e));
    if (!e->id) x->a->sink(x->a->context, row, rows, x->part, e);
  }
  return e->id;
}

int exchange_write(exchange *x, stored_array *s, const int *disk_error, error *e) {
  if (x->rank > 0)
    provide(x, e);
  else
    pass(x, s, disk_error, e), dismiss(x, e);
  return error_agree(e, x->comm);
}

int exchange_read(exchange *x, stored_array *s, error *e) {
  if (x->rank > 0)
    receive(x, e);
  else
    pass(x, s, NULL, e), dismiss(x, e);
  return error_agree(e, x->comm);
}
