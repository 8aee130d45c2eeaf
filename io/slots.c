#include "slots.h"
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "base/error_mpi.h"
#include "halo/shared_pages.h"
#include "io_internal.h"

enum {
  SLOT_BYTES = 4 << 20, /* large enough for any disk; small beside a slab */
  TAG_TURN = 7002,
  TAG_PLANES = 7003
};
enum turn { TURN_STOP, TURN_SEND };

/* --- opening ---------------------------------------------------------------------------------------------------- */

static void unmap(slots *s) {
  if (s->memory != MAP_FAILED) munmap(s->memory, s->shared);
  s->memory = NULL;
  s->shared = 0;
}

static void plan(slots *s, const field_io *io) {
  s->planes = field_io_planes(io, io->block_bytes < SLOT_BYTES ? io->block_bytes : SLOT_BYTES);
  s->floats = (size_t)s->planes * (size_t)io->slab->ny * (size_t)io->slab->nx;
  /* Of planes beyond 4 MiB only two. */
  s->count = field_io_ranks(io) == 1 ? 1 : s->floats * sizeof(float) > SLOT_BYTES ? 2 : SLOTS_MAX;
}

/* Rank 0 lends its memory, the others of its node borrow it; `lent` stays lent until shared_pages_end. Not MPI's shared
 * windows: Open MPI 4 takes them from /dev/shm, and waits for ever where that has too little room, as in some
 * containers. */
static int lend(slots *s, lent_pages *lent, MPI_Comm node, int rank, error *e) {
  s->memory = mmap(NULL, s->shared, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  error why = {0};
  int failed = s->memory == MAP_FAILED || (rank == 0 && shared_pages_lend(s->memory, s->shared, lent, &why));
  MPI_TRY(e, MPI_Bcast(lent, sizeof *lent, MPI_BYTE, 0, node));
  if (!failed && rank) failed = !lent->process || shared_pages_borrow(s->memory, lent, &why);
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, node));
  if (!failed) return 0;
  unmap(s); /* the planes pass as messages, then */
  return 0;
}

/* Memory of rank 0's that the ranks of its node map; on other nodes nothing happens. */
static int share(slots *s, const field_io *io, error *e) {
  const int rank = field_io_rank(io);
  const size_t page = shared_pages_size(), bytes = (size_t)s->count * s->floats * sizeof(float);
  int first = rank, size;
  lent_pages lent = {0};
  MPI_Comm node;
  MPI_TRY(e, MPI_Comm_split_type(io->comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &node));
  MPI_TRY(e, MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN));
  MPI_TRY(e, MPI_Bcast(&first, 1, MPI_INT, 0, node));
  MPI_TRY(e, MPI_Comm_size(node, &size));
  if (first == 0 && size > 1) {
    s->shared = (bytes + page - 1) / page * page;
    lend(s, &lent, node, rank, e);
    if (rank == 0) shared_pages_end(&lent);
  }
  MPI_Comm_free(&node);
  return e->id;
}

static int take_memory(slots *s, const field_io *io, error *e) {
  const size_t count = field_io_rank(io) ? 1 : (size_t)s->count, bytes = count * s->floats * sizeof(float);
  s->mapped = calloc((size_t)field_io_ranks(io), sizeof *s->mapped);
  if (s->mapped && !s->shared) s->memory = malloc(bytes);
  return s->mapped && s->memory ? 0 : FAIL(e, OUT_OF_MEMORY, bytes, "a block of file data");
}

int slots_open(slots *s, const field_io *io, bool shared, error *e) {
  *s = (slots){.count = 0};
  plan(s, io);
  if (shared && s->count > 1) share(s, io, e);
  take_memory(s, io, e);
  TRY(error_agree(e, io->comm));
  const bool mine = s->shared > 0;
  MPI_TRY(e, MPI_Allgather(&mine, 1, MPI_C_BOOL, s->mapped, 1, MPI_C_BOOL, io->comm));
  return 0;
}

void slots_close(slots *s) {
  if (!s->count) return;
  free(s->mapped);
  if (s->shared)
    unmap(s);
  else
    free(s->memory);
  *s = (slots){0};
}

/* --- blocks ----------------------------------------------------------------------------------------------------- */

/* All blocks of a field are numbered, in order, alike on every rank: block n goes through slot n % count. The first
 * ones find their slots empty; later ones wait for a turn, which rank 0 gives when it has written the block before in
 * that slot. */
typedef struct block {
  int number, rank, z, planes; /* z: global */
} block;
static const block BEFORE_ALL = {.number = -1};

static bool next_block(const slots *s, const field_io *io, block *b) {
  b->z += b->planes;
  b->number++;
  while (b->rank < field_io_ranks(io) && b->z >= field_io_first_plane(io, b->rank + 1)) b->rank++;
  if (b->rank == field_io_ranks(io)) return false;
  const int left = field_io_first_plane(io, b->rank + 1) - b->z;
  b->planes = left < s->planes ? left : s->planes;
  return true;
}

typedef struct passing {
  const slots *s;
  const field_io *io;
  const slots_ends *ends;
  MPI_Datatype row; /* nx floats: blocks are counted in rows, since floats may exceed an int */
  /* rank 0: */
  MPI_Request requests[SLOTS_MAX];
  int said[SLOTS_MAX]; /* planes that a rank has put there */
  int expected;        /* number of the last block that is to come */
  int told;            /* the last rank that was told to stop */
  bool stop;           /* something has failed, here or there */
} passing;

static float *slot_of(const passing *p, const block *b) {
  return p->s->memory + (size_t)(b->number % p->s->count) * p->s->floats;
}

/* --- rank 0 ----------------------------------------------------------------------------------------------------- */

/* Lets a block come, or its rank stop. */
static int expect(passing *p, const block *b, error *e) {
  const slots *s = p->s;
  const int at = b->number % s->count, turn = p->stop ? TURN_STOP : TURN_SEND;
  if (b->number >= s->count && b->rank != 0 && b->rank != p->told)
    MPI_TRY(e, MPI_Send(&turn, 1, MPI_INT, b->rank, TAG_TURN, p->io->comm));
  if (b->number >= s->count && p->stop) {
    p->told = b->rank;
    return 0;
  }
  p->expected = b->number;
  if (b->rank == 0) return 0;
  if (s->mapped[b->rank])
    MPI_TRY(e, MPI_Irecv(&p->said[at], 1, MPI_INT, b->rank, TAG_PLANES, p->io->comm, &p->requests[at]));
  else
    MPI_TRY(e, MPI_Irecv(slot_of(p, b), b->planes * p->io->slab->ny, p->row, b->rank, TAG_PLANES, p->io->comm,
                         &p->requests[at]));
  return 0;
}

/* Waits until a block is in its slot; of rank 0's own, puts it there. `*planes`: 0 where its rank has failed. */
static int await(passing *p, const block *b, int *planes, error *e) {
  MPI_Status status;
  int rows;
  const int at = b->number % p->s->count;
  *planes = 0;
  if (b->rank == 0) {
    if (p->stop) return 0;
    TRY(p->ends->source(p->ends->from, b->z - p->io->slab->z0, b->planes, slot_of(p, b), e));
    *planes = b->planes;
    return 0;
  }
  MPI_TRY(e, mpi_wait(&p->requests[at], &status));
  if (p->s->mapped[b->rank]) {
    atomic_thread_fence(memory_order_acquire); /* of the rank's that put the planes there */
    *planes = p->said[at];
    return 0;
  }
  MPI_TRY(e, MPI_Get_count(&status, p->row, &rows));
  *planes = rows / p->io->slab->ny;
  return 0;
}

/* Every block that is expected gets an answer, whatever fails meanwhile. */
static int collect(passing *p, error *e) {
  block now = BEFORE_ALL, ahead = BEFORE_ALL;
  bool more = next_block(p->s, p->io, &ahead);
  for (int i = 0; i < p->s->count && more; i++) {
    TRY(expect(p, &ahead, e));
    more = next_block(p->s, p->io, &ahead);
  }
  while (next_block(p->s, p->io, &now)) {
    int planes = 0;
    if (now.number <= p->expected) await(p, &now, &planes, e);
    if (planes && !p->stop) p->ends->sink(p->ends->to, now.z, planes, slot_of(p, &now), e);
    p->stop = p->stop || !planes || e->id;
    if (more) {
      expect(p, &ahead, e);
      more = next_block(p->s, p->io, &ahead);
    }
  }
  return e->id;
}

/* --- the other ranks -------------------------------------------------------------------------------------------- */

static int await_turn(const passing *p, int *turn, error *e) {
  MPI_Request request;
  MPI_TRY(e, MPI_Irecv(turn, 1, MPI_INT, 0, TAG_TURN, p->io->comm, &request));
  MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  return 0;
}

/* Synchronous where the values travel: a fast sender must not fill the memory of a slow receiver. */
static int answer(const passing *p, int planes, error *e) {
  MPI_Request request;
  if (p->s->shared) {
    atomic_thread_fence(memory_order_release);
    MPI_TRY(e, MPI_Isend(&planes, 1, MPI_INT, 0, TAG_PLANES, p->io->comm, &request));
  } else
    MPI_TRY(e,
            MPI_Issend(p->s->memory, planes * p->io->slab->ny, p->row, 0, TAG_PLANES, p->io->comm, &request));
  MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  return 0;
}

/* Answers every turn; after a failure with no planes. */
static int hand_over(const passing *p, error *e) {
  const int rank = field_io_rank(p->io);
  for (block b = BEFORE_ALL; next_block(p->s, p->io, &b);) {
    int turn = TURN_SEND;
    if (b.rank != rank) continue;
    if (b.number >= p->s->count) TRY(await_turn(p, &turn, e));
    if (turn == TURN_STOP) break; /* whoever has failed says why when the ranks agree */
    float *values = p->s->shared ? slot_of(p, &b) : p->s->memory;
    if (!e->id) p->ends->source(p->ends->from, b.z - p->io->slab->z0, b.planes, values, e);
    TRY(answer(p, e->id ? 0 : b.planes, e));
  }
  return e->id;
}

int slots_pass(const slots *s, const field_io *io, const slots_ends *ends, bool *whole, error *e) {
  passing p = {.s = s, .io = io, .ends = ends, .stop = e->id != 0, .expected = -1, .told = -1};
  MPI_TRY(e, MPI_Type_contiguous(io->slab->nx, MPI_FLOAT, &p.row));
  MPI_TRY(e, MPI_Type_commit(&p.row));
  if (field_io_rank(io) == 0)
    collect(&p, e);
  else
    hand_over(&p, e);
  MPI_Type_free(&p.row);
  *whole = !p.stop;
  return e->id;
}
