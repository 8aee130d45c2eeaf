#include "rows.h"
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include <zlib.h>
#include "base/clock.h"
#include "base/error_mpi.h"
#include "base/thread.h"

enum {
  WRITTEN_BACK = 64 << 10, /* bytes from which on the system starts to write a piece to disk at once */
  LARGE_BYTES = 256 << 20, /* bytes that the blocks of all threads may take */
  ROWS_TAG = 7301,
};

/* --- blocks ----------------------------------------------------------------------------------------------------- */

/* Shared by the threads of a rank. */
typedef struct rows_moving {
  const io_access *access;
  const row_file *f;
  row_part *parts;
  int count;
  bool requests;            /* this rank moves its blocks through rank 0, which alone uses the file */
  char *held;               /* rank 0: a block of another rank; owned */
  size_t bytes, most_bytes; /* of the largest block in memory; of the largest in the file */
  int64_t blocks;           /* of all parts */
  _Atomic int64_t next;     /* the block to be moved next */
  /* Limits concurrent writers: threads that wait in write() keep their cores busy. */
  sem_t writers;
  pthread_mutex_t lock;
  int64_t failed; /* the first block that failed; guarded by lock, as is `failure` */
  error failure;
} rows_moving;

typedef struct rows_worker {
  rows_moving *m;
  char *buffer;           /* a block as it is in the file; owned */
  char *plain, *shuffled; /* for deflate: a block, and the bytes of a row shuffled; owned */
} rows_worker;

/* Rows of one block of this part. */
static int64_t rows_in_block(const rows_moving *m, const row_part *p) {
  const uint64_t rows = p->row_bytes ? m->access->block_bytes / p->row_bytes : 0;
  return rows > 1 ? (int64_t)rows : 1;
}

static int64_t rows_blocks(const rows_moving *m, const row_part *p) {
  const int64_t rows = rows_in_block(m, p);
  return p->row_bytes ? (p->count + rows - 1) / rows : 0;
}

static void rows_plan(rows_moving *m) {
  for (int i = 0; i < m->count; i++) {
    const row_part *p = &m->parts[i];
    const int64_t rows = rows_in_block(m, p), most = rows < p->count ? rows : p->count;
    m->blocks += rows_blocks(m, p);
    if ((uint64_t)most * p->row_bytes > m->bytes) m->bytes = (size_t)((uint64_t)most * p->row_bytes);
  }
  m->most_bytes = m->f->deflate ? compressBound(m->bytes) : m->bytes;
}

/* Block `number` of all: its part, first row and rows. */
static const row_part *rows_find_block(const rows_moving *m, int64_t number, int64_t *row, int64_t *rows) {
  const row_part *p = m->parts;
  for (int64_t blocks; number >= (blocks = rows_blocks(m, p)); p++) number -= blocks;
  *rows = rows_in_block(m, p);
  *row = p->first + number * *rows;
  const int64_t left = p->first + p->count - *row;
  if (*rows > left) *rows = left;
  return p;
}

/* --- a file's bytes --------------------------------------------------------------------------------------------- */

int row_file_put(const row_file *f, uint64_t at, const void *values, size_t bytes, error *e) {
  for (const char *from = values; bytes;) {
    const ssize_t n = pwrite(f->fd, from, bytes, (off_t)at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return FAIL(e, FILE_WRITE, f->name, strerror(n ? errno : ENOSPC));
    if (n >=
        WRITTEN_BACK) /* shortens fsync; smaller pieces share pages with other writers, which would wait */
      (void)sync_file_range(f->fd, (off_t)at, n, SYNC_FILE_RANGE_WRITE);
    from += n, at += (uint64_t)n, bytes -= (size_t)n;
  }
  return 0;
}

int row_file_get(const row_file *f, uint64_t at, void *values, size_t bytes, error *e) {
  for (char *to = values; bytes;) {
    const ssize_t n = pread(f->fd, to, bytes, (off_t)at);
    if (n < 0 && errno == EINTR) continue;
    const char *why = n < 0 ? strerror(errno) : "the file ends too early";
    if (n <= 0 && f->checkpoint) return FAIL(e, CHECKPOINT_DAMAGED, f->name, why);
    if (n <= 0) return FAIL(e, FIELD_DAMAGED, f->name, why);
    to += n, at += (uint64_t)n, bytes -= (size_t)n;
  }
  return 0;
}

int rows_all(const io_access *w, bool mine, bool *all, error *e) {
  *all = mine;
  if (w->ranks == 1) return 0; /* several threads of the only rank may be here */
  MPI_AWAIT(e, MPI_Iallreduce(&mine, all, 1, MPI_C_BOOL, MPI_LAND, w->comm, &request));
  return 0;
}

int rows_open_new(const io_access *w, new_file *f, error *e) {
  error refused = {0};
  if (w->rank == 0) f->fd = open(f->plan.temporary, O_RDWR | O_CLOEXEC);
  if (w->rank == 0 && f->fd < 0) FAIL(e, FILE_WRITE, f->name, strerror(errno));
  if (f->fd >= 0) shared_file_lend(f->fd, &f->plan.lent, &refused);
  if (w->ranks > 1) MPI_AWAIT(e, MPI_Ibcast(&f->plan, sizeof f->plan, MPI_BYTE, 0, w->comm, &request));
  if (w->rank && w->together) f->fd = open(f->plan.temporary, O_RDWR | O_CLOEXEC);
  if (w->rank && w->together && f->fd < 0) FAIL(e, FILE_WRITE, f->name, strerror(errno));
  if (w->rank && !w->together && w->near) f->fd = shared_file_borrow(&f->plan.lent, &refused);
  return rows_all(w, f->fd >= 0, &f->direct, e);
}

int rows_close_new(new_file *f, bool sync, error *e) {
  if (f->fd < 0) return e->id;
  if (sync && !e->id && fsync(f->fd)) FAIL(e, FILE_WRITE, f->name, strerror(errno));
  if (close(f->fd)) FAIL(e, FILE_WRITE, f->name, strerror(errno));
  f->fd = -1;
  return e->id;
}

/* Writes bytes at a place of the file, or reads them. */
static int rows_use_file(rows_moving *m, uint64_t at, void *bytes, size_t count, error *e) {
  const row_file *f = m->f;
  if (!f->write && !f->move) return row_file_get(f, at, bytes, count, e);
  while (sem_wait(&m->writers) && errno == EINTR) continue;
  f->move ? f->move(f->context, at, bytes, count, e) : row_file_put(f, at, bytes, count, e);
  sem_post(&m->writers);
  return e->id;
}

/* --- through rank 0 --------------------------------------------------------------------------------------------- */

/* Sends, or receives, a message of any length. */
static int rows_pass(const rows_moving *m, int rank, bool send, void *bytes, size_t count, error *e) {
  enum { MOST = 1 << 30 /* at once: MPI counts in an int */ };
  const MPI_Comm comm = m->access->comm;
  for (size_t at = 0; at < count; at += MOST) {
    char *piece = (char *)bytes + at;
    const int size = (int)(count - at < MOST ? count - at : MOST);
    if (send)
      MPI_AWAIT(e, MPI_Isend(piece, size, MPI_BYTE, rank, ROWS_TAG, comm, &request));
    else
      MPI_AWAIT(e, MPI_Irecv(piece, size, MPI_BYTE, rank, ROWS_TAG, comm, &request));
  }
  return 0;
}

/* A request to rank 0: to write the bytes that follow at a place of the file, or to read bytes there. The answer has
 * the same form; bytes that were read follow it. */
typedef struct rows_request {
  uint64_t at, bytes; /* bytes = 0: in a request, the last one, without an answer; in an answer, a failure */
} rows_request;

/* Asks rank 0 to write `buffer`, or to read into it. Returns -1 where rank 0 has failed: its error comes when the
 * ranks agree. */
static int rows_rank0_moves(rows_moving *m, uint64_t at, void *buffer, size_t bytes, error *e) {
  rows_request r = {at, bytes};
  TRY(rows_pass(m, 0, true, &r, sizeof r, e));
  if (!bytes) return 0;
  if (m->f->write) TRY(rows_pass(m, 0, true, buffer, bytes, e));
  TRY(rows_pass(m, 0, false, &r, sizeof r, e));
  if (!r.bytes) return -1;
  return m->f->write ? 0 : rows_pass(m, 0, false, buffer, bytes, e);
}

/* Waits for a request and returns the rank that sent it. */
static int rows_next_rank(const rows_moving *m, int *rank, error *e) {
  const double LONGEST = 500e-6; /* s */
  pace p = {.begin = clock_seconds()};
  MPI_Status status;
  for (int there = 0; !there;) {
    MPI_TRY(e, MPI_Iprobe(MPI_ANY_SOURCE, ROWS_TAG, m->access->comm, &there, &status));
    if (!there) pace_wait(&p, LONGEST);
  }
  *rank = status.MPI_SOURCE;
  return 0;
}

/* Rank 0 answers requests until each rank has sent its last one. After a failure it moves no bytes. */
static int rows_serve(rows_moving *m, error *e) {
  error failure = {0};
  for (int others = m->access->ranks - 1, rank; others > 0;) {
    rows_request r;
    TRY(rows_next_rank(m, &rank, e));
    TRY(rows_pass(m, rank, false, &r, sizeof r, e));
    others -= !r.bytes;
    if (!r.bytes) continue;
    if (m->f->write) TRY(rows_pass(m, rank, false, m->held, r.bytes, e));
    if (!failure.id) rows_use_file(m, r.at, m->held, r.bytes, &failure);
    if (failure.id) r.bytes = 0;
    TRY(rows_pass(m, rank, true, &r, sizeof r, e));
    if (!m->f->write) TRY(rows_pass(m, rank, true, m->held, r.bytes, e));
  }
  if (!e->id) *e = failure;
  return e->id;
}

/* Rank 0 allocates memory for a block of any rank. Collective, agreed. */
static int rows_open_serving(rows_moving *m, error *e) {
  uint64_t most = m->most_bytes;
  bool all;
  MPI_AWAIT(e, MPI_Iallreduce(MPI_IN_PLACE, &most, 1, MPI_UINT64_T, MPI_MAX, m->access->comm, &request));
  if (m->access->rank == 0) m->held = malloc(most + 1);
  TRY(rows_all(m->access, m->access->rank > 0 || m->held, &all, e));
  return all ? 0 : FAIL(e, OUT_OF_MEMORY, (size_t)most, "a block of file data");
}

/* --- moving ----------------------------------------------------------------------------------------------------- */

static int rows_move_room(const rows_worker *w, uint64_t at, size_t bytes, error *e) {
  return (w->m->requests ? rows_rank0_moves : rows_use_file)(w->m, at, w->buffer, bytes, e);
}

/* Writes one row as HDF5's filters shuffle and deflate do: compressed, all first bytes of the float32 values first,
 * then all second ones, and so on. */
static int rows_write_packed(const rows_worker *w, uint64_t at, const char *row, size_t bytes, error *e) {
  const size_t count = bytes / sizeof(float);
  uLongf size = w->m->most_bytes;
  for (size_t k = 0; k < sizeof(float); k++)
    for (size_t i = 0; i < count; i++) w->shuffled[k * count + i] = row[i * sizeof(float) + k];
  if (compress2((Bytef *)w->buffer, &size, (const Bytef *)w->shuffled, bytes, w->m->f->deflate) != Z_OK)
    return FAIL(e, FILE_WRITE, w->m->f->name, "zlib could not compress it");
  return rows_move_room(w, at, size, e);
}

/* Collects rows at `to` and computes their checksums. */
static int rows_make_block(const row_part *p, int64_t row, int64_t rows, char *to, error *e) {
  const size_t bytes = (size_t)p->row_bytes;
  TRY(p->move(p->context, row, rows, to, e));
  for (int64_t i = 0; p->sums && i < rows; i++)
    p->sums[row - p->first + i] = XXH3_64bits(to + (size_t)i * bytes, bytes);
  return 0;
}

static int rows_write_block(const rows_worker *w, const row_part *p, int64_t row, int64_t rows, error *e) {
  const size_t bytes = (size_t)p->row_bytes;
  if (!w->m->f->deflate) {
    TRY(rows_make_block(p, row, rows, w->buffer, e));
    return rows_move_room(w, p->at + (uint64_t)row * p->row_bytes, (size_t)rows * bytes, e);
  }
  TRY(rows_make_block(p, row, rows, w->plain, e));
  for (int64_t i = 0; i < rows; i++)
    TRY(rows_write_packed(w, p->at + (uint64_t)(row + i), w->plain + (size_t)i * bytes, bytes, e));
  return 0;
}

static int rows_read_block(const rows_worker *w, const row_part *p, int64_t row, int64_t rows, error *e) {
  const size_t bytes = (size_t)p->row_bytes;
  TRY(rows_move_room(w, p->at + (uint64_t)row * p->row_bytes, (size_t)rows * bytes, e));
  for (int64_t i = 0; p->sums && i < rows; i++)
    if (p->sums[row - p->first + i] != XXH3_64bits(w->buffer + (size_t)i * bytes, bytes)) {
      char what[128];
      snprintf(what, sizeof what, "array %s, row %" PRId64 " has changed since it was written", p->array,
               row + i);
      return FAIL(e, CHECKPOINT_DAMAGED, w->m->f->name, what);
    }
  return p->move ? p->move(p->context, row, rows, w->buffer, e) : 0;
}

/* Notes a failed block. Blocks are taken in order, so all blocks before it are moved, and the first failure is
 * known. */
static void rows_failed(rows_moving *m, int64_t block, const error *e) {
  pthread_mutex_lock(&m->lock);
  if (block < m->failed) {
    m->failed = block;
    m->failure = *e;
  }
  pthread_mutex_unlock(&m->lock);
  atomic_store(&m->next, m->blocks);
}

static int rows_take_memory(rows_worker *w, error *e) {
  const rows_moving *m = w->m;
  w->buffer = malloc(m->most_bytes);
  bool whole = w->buffer;
  if (m->f->deflate) {
    w->plain = malloc(m->bytes);
    w->shuffled = malloc((size_t)m->parts[0].row_bytes);
    whole = whole && w->plain && w->shuffled;
  }
  return whole ? 0 : FAIL(e, OUT_OF_MEMORY, m->bytes, "a block of file data");
}

static void *rows_main(void *argument) {
  rows_moving *m = argument;
  rows_worker w = {.m = m};
  error e = {0};
  if (m->blocks && rows_take_memory(&w, &e)) rows_failed(m, -1, &e);
  for (int64_t n, row, rows; (n = atomic_fetch_add(&m->next, 1)) < m->blocks;) {
    const row_part *p = rows_find_block(m, n, &row, &rows);
    if (m->f->write ? rows_write_block(&w, p, row, rows, &e) : rows_read_block(&w, p, row, rows, &e)) {
      rows_failed(m, n, &e);
      break;
    }
  }
  error ended = {0};
  if (m->requests && rows_rank0_moves(m, 0, NULL, 0, &ended)) rows_failed(m, m->blocks, &ended);
  free(w.buffer);
  free(w.plain);
  free(w.shuffled);
  return NULL;
}

static int rows_workers(const rows_moving *m) {
  const size_t most = m->bytes ? LARGE_BYTES / m->bytes : 1;
  int count = m->f->deflate || !m->f->write ? m->access->compressors : m->access->threads;
  if (m->requests) return 1; /* the worker calls MPI */
  if ((size_t)count > most) count = most ? (int)most : 1;
  if (count > m->blocks) count = m->blocks ? (int)m->blocks : 1;
  return count;
}

static void *rows_run_workers(void *argument) {
  thread_run(rows_workers(argument), rows_main, argument);
  return NULL;
}

/* Moves the blocks, in this thread too unless it serves other ranks. */
static void rows_run(rows_moving *m, bool serves, error *e) {
  pthread_t others;
  const bool started = serves && !thread_start(&others, rows_run_workers, m);
  if (serves) rows_serve(m, e);
  if (started)
    pthread_join(others, NULL);
  else
    rows_run_workers(m);
}

int rows_move(io_access *w, const row_file *f, bool direct, row_part *parts, int count, error *e) {
  rows_moving m = {.access = w, .f = f, .parts = parts, .count = count, .failed = INT64_MAX};
  const bool alone = direct || w->ranks == 1, serves = !alone && w->rank == 0;
  error mine = {0};
  m.requests = !alone && w->rank > 0;
  if (!e->id) rows_plan(&m);
  if (!alone && rows_open_serving(&m, &mine)) {
    free(m.held);
    if (!e->id) *e = mine;
    return e->id;
  }
  pthread_mutex_init(&m.lock, NULL);
  sem_init(&m.writers, 0, f->move ? 1 : (unsigned)w->threads);
  rows_run(&m, serves, &mine);
  free(m.held);
  sem_destroy(&m.writers);
  pthread_mutex_destroy(&m.lock);
  if (!e->id) *e = m.failure.id ? m.failure : mine;
  return e->id;
}
