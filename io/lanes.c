#include "lanes.h"
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <sys/mman.h>
#include "base/error_mpi.h"
#include "base/clock.h"
#include "base/numbers.h"
#include "base/thread.h"
#include "halo/shared_memory.h"

enum { TAG_REQUEST = 7301, TAG_BYTES = 7302 };

/* A request, or its answer. */
typedef struct lane_request {
  uint64_t at, bytes; /* 0 bytes: the last request, which has no answer; the answer after a failure */
} lane_request;

/* What precedes the room in common memory. */
typedef struct lane_control {
  sem_t asked, answered;
  lane_request request;
} lane_control;

typedef struct lane {
  struct lanes *lanes;
  int rank;             /* at the other end */
  lane_control *shared; /* NULL: messages */
  char *room;
  bool waits;       /* not on rank 0: for an answer */
  pthread_t thread; /* rank 0: serves it */
  bool started;
} lane;

struct lanes {
  MPI_Comm comm;
  int rank, ranks;
  size_t room, stride; /* bytes of a room, and of a lane in common memory */
  char *memory;        /* of the shared ones */
  size_t bytes;
  char *
      own; /* the room of lanes that are messages; rank 0 serves them one after another, and has one for all */
  lane *all; /* rank 0: of all ranks; else this rank's */
  int count;
  int remote; /* lanes that are messages */
  bool put;   /* else requests get bytes */
  const lanes_keeper *keeper;
  pthread_mutex_t lock;
  error failure; /* guarded by lock: the first of the keeper's */
};

/* --- opening ---------------------------------------------------------------------------------------------------- */

/* Rank 0 lends the memory of all lanes, the others of its node borrow it. Not MPI's shared windows: Open MPI 4 takes them
 * from /dev/shm, and waits for ever where that has too little room, as in some containers. Where it fails, there is none. */
static int lanes_lend(lanes *l, MPI_Comm node, error *e) {
  lent_pages lent = {0};
  error why = {0};
  l->memory = mmap(NULL, l->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int failed =
      l->memory == MAP_FAILED || (l->rank == 0 && shared_pages_lend(l->memory, l->bytes, &lent, &why));
  MPI_TRY(e, MPI_Bcast(&lent, sizeof lent, MPI_BYTE, 0, node));
  if (!failed && l->rank) failed = !lent.process || shared_pages_borrow(l->memory, &lent, &why);
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, &failed, 1, MPI_INT, MPI_MAX, node));
  if (l->rank == 0) shared_pages_end(&lent);
  if (!failed) return 0;
  if (l->memory != MAP_FAILED) munmap(l->memory, l->bytes);
  l->memory = NULL;
  return 0;
}

/* Memory for the ranks of rank 0's node; `shared`: the lanes of each rank that lie there. */
static int lanes_share(lanes *l, int each, int *shared, error *e) {
  MPI_Comm node;
  const bool near = each > 0;
  MPI_TRY(e, MPI_Comm_split_type(l->comm, MPI_COMM_TYPE_SHARED, l->rank, MPI_INFO_NULL, &node));
  MPI_TRY(e, MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN));
  if (l->rank == 0) each = 0;
  MPI_TRY(e, MPI_Allgather(&each, 1, MPI_INT, shared, 1, MPI_INT, l->comm));
  for (int r = 0; r < l->ranks; r++) l->bytes += (size_t)shared[r] * l->stride;
  if (near && l->bytes) lanes_lend(l, node, e);
  for (int r = 0; !l->memory && r < l->ranks; r++) shared[r] = 0;
  MPI_Comm_free(&node);
  return e->id;
}

/* Adds a lane to or from rank `r`, in common memory at `at` or, where there is none, with messages. */
static void lanes_add(lanes *l, int r, char *at) {
  lane *n = &l->all[l->count++];
  *n = (lane){.lanes = l, .rank = l->rank == 0 ? r : 0, .room = l->own};
  if (!at) return;
  n->shared = (lane_control *)(void *)at;
  n->room = at + page_bytes();
  if (l->rank == 0) sem_init(&n->shared->asked, 1, 0), sem_init(&n->shared->answered, 1, 0);
}

/* Those of this rank, or, on rank 0, of all others. */
static int lanes_list(lanes *l, const int *shared, error *e) {
  size_t most = 1, at = 0;
  for (int r = 1; r < l->ranks; r++) {
    most += (size_t)(shared[r] ? shared[r] : 1);
    l->remote += !shared[r] && (l->rank == 0 || l->rank == r);
  }
  l->all = calloc(most, sizeof *l->all);
  l->own = malloc(l->remote ? l->room : 1);
  if (!l->all || !l->own) return FAIL(e, OUT_OF_MEMORY, l->room, "the way to files");
  for (int r = 1; r < l->ranks; at += (size_t)shared[r++] * l->stride) {
    if (l->rank != 0 && l->rank != r) continue;
    for (int k = 0; k < shared[r]; k++) lanes_add(l, r, l->memory + at + (size_t)k * l->stride);
    if (!shared[r]) lanes_add(l, r, NULL);
  }
  return 0;
}

int lanes_open(lanes **opened, MPI_Comm comm, int each, size_t room, error *e) {
  const size_t page = page_bytes();
  if (*opened && (*opened)->room >= room) return 0;
  lanes_close(*opened);
  lanes *l = *opened = calloc(1, sizeof *l);
  int *shared = NULL;
  if (l) {
    *l = (lanes){.comm = comm, .room = room, .stride = page + (room + page - 1) / page * page};
    pthread_mutex_init(&l->lock, NULL);
    MPI_TRY(e, MPI_Comm_rank(comm, &l->rank));
    MPI_TRY(e, MPI_Comm_size(comm, &l->ranks));
    shared = calloc((size_t)l->ranks, sizeof *shared);
  }
  if (!shared) FAIL(e, OUT_OF_MEMORY, sizeof *l, "the way to files");
  if (!error_agree(e, comm) && !lanes_share(l, each, shared, e)) lanes_list(l, shared, e);
  free(shared);
  if (error_agree(e, comm) && l) l->room = 0; /* not to be kept */
  return e->id;
}

void lanes_close(lanes *l) {
  if (!l) return;
  free(l->all);
  free(l->own);
  if (l->memory) munmap(l->memory, l->bytes);
  pthread_mutex_destroy(&l->lock);
  free(l);
}

int lanes_own(const lanes *l) {
  return l->rank ? l->count : 0;
}

/* --- both ends -------------------------------------------------------------------------------------------------- */

/* The bytes that come with a request, or, on the way back, with an answer. */
static size_t lane_carried(const lane *n, const lane_request *r, bool back) {
  return n->lanes->put == back ? 0 : r->bytes;
}

/* Sends, or receives, a message of any length. */
static int lane_pass(const lane *n, bool send, int tag, void *bytes, size_t count, error *e) {
  enum { MOST = 1 << 30 /* at once: MPI counts in an int */ };
  MPI_Request request;
  for (size_t at = 0; at < count; at += MOST) {
    char *piece = (char *)bytes + at;
    const int size = (int)(count - at < MOST ? count - at : MOST);
    if (send)
      MPI_TRY(e, MPI_Isend(piece, size, MPI_BYTE, n->rank, tag, n->lanes->comm, &request));
    else
      MPI_TRY(e, MPI_Irecv(piece, size, MPI_BYTE, n->rank, tag, n->lanes->comm, &request));
    MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  }
  return 0;
}

static int lane_send(lane *n, lane_request r, error *e) {
  const bool back = n->lanes->rank == 0;
  if (n->shared) {
    n->shared->request = r;
    sem_post(back ? &n->shared->answered : &n->shared->asked);
    return 0;
  }
  TRY(lane_pass(n, true, TAG_REQUEST, &r, sizeof r, e));
  return lane_pass(n, true, TAG_BYTES, n->room, lane_carried(n, &r, back), e);
}

static int lane_receive(lane *n, lane_request *r, error *e) {
  const bool back = n->lanes->rank > 0;
  if (n->shared) {
    while (sem_wait(back ? &n->shared->answered : &n->shared->asked) && errno == EINTR) continue;
    *r = n->shared->request;
    return 0;
  }
  TRY(lane_pass(n, false, TAG_REQUEST, r, sizeof *r, e));
  return lane_pass(n, false, TAG_BYTES, n->room, lane_carried(n, r, back), e);
}

/* --- the other ranks -------------------------------------------------------------------------------------------- */

char *lane_room(const lanes *l, int k) {
  return l->all[k].room;
}

int lane_wait(lanes *l, int k, error *e) {
  lane_request answer;
  if (!l->all[k].waits) return 0;
  l->all[k].waits = false;
  TRY(lane_receive(&l->all[k], &answer, e));
  return answer.bytes ? 0 : -1;
}

int lane_move(lanes *l, int k, uint64_t at, size_t bytes, error *e) {
  TRY(lane_send(&l->all[k], (lane_request){at, bytes}, e));
  l->all[k].waits = true;
  return l->put ? 0 : lane_wait(l, k, e);
}

int lane_end(lanes *l, int k, error *e) {
  lane_wait(l, k, e);
  return e->id ? e->id : lane_send(&l->all[k], (lane_request){0}, e);
}

/* --- rank 0 ----------------------------------------------------------------------------------------------------- */

/* Keeps the first failure; false where there is one. */
static bool lanes_good(lanes *l, const error *e) {
  pthread_mutex_lock(&l->lock);
  if (e && e->id && !l->failure.id) l->failure = *e;
  const bool good = !l->failure.id;
  pthread_mutex_unlock(&l->lock);
  return good;
}

/* One request; `*ended`: it was the last. After a failure requests are still answered, but nothing is done. */
static int lane_answer(lane *n, bool *ended, error *e) {
  lanes *l = n->lanes;
  lane_request r;
  error mine = {0};
  TRY(lane_receive(n, &r, e));
  *ended = !r.bytes;
  if (*ended) return 0;
  if (lanes_good(l, NULL)) l->keeper->move(l->keeper->context, r.at, n->room, r.bytes, &mine);
  if (!lanes_good(l, &mine)) r.bytes = 0;
  return lane_send(n, r, e);
}

/* Answers a lane until it ends. */
static void *lane_main(void *argument) {
  lane *n = argument;
  error e = {0};
  for (bool ended = false; !ended && !lane_answer(n, &ended, &e);) continue;
  lanes_good(n->lanes, &e);
  return NULL;
}

void lanes_begin(lanes *l, bool put, const lanes_keeper *keeper) {
  l->put = put;
  l->keeper = keeper;
  l->failure = (error){0};
  for (int i = 0; keeper && i < l->count; i++) {
    lane *n = &l->all[i];
    n->started = n->shared && !thread_start(&n->thread, lane_main, n); /* if not, lanes_serve does it */
  }
}

/* The lanes that come as messages, in any order. */
static int lanes_serve_remote(lanes *l, error *e) {
  const double LONGEST = 500e-6; /* s */
  for (int left = l->remote; left > 0;) {
    pace p = {.begin = clock_seconds()};
    MPI_Status status;
    int there = 0, i = 0;
    while (!there) {
      MPI_TRY(e, MPI_Iprobe(MPI_ANY_SOURCE, TAG_REQUEST, l->comm, &there, &status));
      if (!there) pace_wait(&p, LONGEST);
    }
    while (l->all[i].rank != status.MPI_SOURCE) i++;
    bool ended;
    TRY(lane_answer(&l->all[i], &ended, e));
    left -= ended;
  }
  return 0;
}

int lanes_serve(lanes *l, error *e) {
  if (l->remote) lanes_serve_remote(l, e);
  for (int i = 0; i < l->count; i++) {
    lane *n = &l->all[i];
    if (n->started) pthread_join(n->thread, NULL);
    if (n->shared && !n->started) lane_main(n);
    n->started = false;
  }
  if (!e->id) *e = l->failure;
  return e->id;
}
