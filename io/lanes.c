#include "lanes.h"
#include <errno.h>
#include <semaphore.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "base/error_mpi.h"
#include "base/clock.h"
#include "base/thread.h"
#include "halo/shared_memory.h"

enum {
  SLOTS = 2, /* one is filled while the other is emptied */
  SLOT_BYTES = LANE_ROOM,
  LANES_IN_ALL = 16, /* threads of rank 0 that are worth having, */
  LANES_OF_RANK = 4, /* and of another rank */
  CONTROL_BYTES = 4096,
  TAG_REQUEST = 7301,
  TAG_ANSWER = 7302
};
enum lane_kind { LANE_PUT, LANE_GET, LANE_END };

/* A piece of a request or of an answer. */
typedef struct lane_piece {
  int kind;
  uint64_t at, whole; /* of the request: its place, its bytes; */
  uint64_t from;      /* where in these the piece begins, */
  uint64_t bytes;     /* and how long it is; of an answer: 0 after a failure */
} lane_piece;

/* One direction of a lane in common memory. */
typedef struct lane_ring {
  sem_t empty, full; /* slots */
  lane_piece heads[SLOTS];
} lane_ring;

typedef struct lane_control {
  lane_ring out, in; /* to rank 0; from it */
} lane_control;
_Static_assert(sizeof(lane_control) <= CONTROL_BYTES, "both rings fit before the slots");

typedef struct lane {
  struct lanes *lanes;
  int rank;                /* at the other end */
  lane_control *shared;    /* NULL: messages */
  unsigned sent, received; /* pieces, of which the slot follows */
  char *message;           /* a piece and its bytes */
  char *request;           /* rank 0: what a whole request takes */
  size_t room;
  pthread_t thread; /* rank 0: serves it */
  bool started;
} lane;

struct lanes {
  MPI_Comm comm;
  int rank, ranks;
  char *memory; /* of the shared ones */
  size_t bytes;
  lane *all; /* rank 0: of all ranks; else this rank's */
  int count;
  int remote; /* rank 0: lanes that are messages */
  const lanes_keeper *keeper;
  pthread_mutex_t lock;
  error failure; /* guarded by lock: the first of the keeper's */
};

/* --- opening ---------------------------------------------------------------------------------------------------- */

enum { LANE_BYTES = CONTROL_BYTES + 2 * SLOTS * SLOT_BYTES };

/* Lanes of each rank of rank 0's node. */
static int lanes_of_rank(int ranks_of_node) {
  const int others = ranks_of_node > 1 ? ranks_of_node - 1 : 1, share = LANES_IN_ALL / others;
  return share < 1 ? 1 : share > LANES_OF_RANK ? LANES_OF_RANK : share;
}

/* Rank 0 lends the memory of all lanes, the others of its node borrow it. Not MPI's shared windows: Open MPI 4 takes them
 * from /dev/shm, and waits for ever where that has too little room, as in some containers. */
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
  l->memory = NULL; /* messages, then */
  l->bytes = 0;
  return 0;
}

/* Memory for the ranks of rank 0's node; `*place`: of this rank among them, `*each`: lanes of each. */
static int lanes_share(lanes *l, int *place, int *each, error *e) {
  MPI_Comm node;
  int first = l->rank, ranks;
  MPI_TRY(e, MPI_Comm_split_type(l->comm, MPI_COMM_TYPE_SHARED, l->rank, MPI_INFO_NULL, &node));
  MPI_TRY(e, MPI_Comm_set_errhandler(node, MPI_ERRORS_RETURN));
  MPI_TRY(e, MPI_Bcast(&first, 1, MPI_INT, 0, node));
  MPI_TRY(e, MPI_Comm_size(node, &ranks));
  MPI_TRY(e, MPI_Comm_rank(node, place));
  *each = lanes_of_rank(ranks);
  if (first == 0 && ranks > 1) {
    l->bytes = (size_t)(ranks - 1) * (size_t)*each * LANE_BYTES;
    lanes_lend(l, node, e);
  }
  MPI_Comm_free(&node);
  return e->id;
}

static void lane_prepare(lane_ring *r) {
  sem_init(&r->empty, 1, SLOTS);
  sem_init(&r->full, 1, 0);
}

/* Rank 0: one entry for each lane of each rank; `places`: of each rank among the sharing ones, or 0. */
static int lanes_list(lanes *l, const int *places, int each, error *e) {
  const int most = l->rank == 0 ? (l->ranks - 1) * each : each;
  l->all = calloc((size_t)most + 1, sizeof *l->all);
  if (!l->all) return FAIL(e, OUT_OF_MEMORY, (size_t)most * sizeof *l->all, "the way to files");
  for (int r = l->rank == 0 ? 1 : l->rank; r < (l->rank == 0 ? l->ranks : l->rank + 1); r++)
    for (int k = 0; k < (places[r] ? each : 1); k++) {
      lane *n = &l->all[l->count++];
      *n = (lane){.lanes = l, .rank = l->rank == 0 ? r : 0};
      const size_t number = (size_t)(places[r] - 1) * (size_t)each + (size_t)k;
      if (places[r])
        n->shared = (lane_control *)(void *)(l->memory + number * LANE_BYTES);
      else if (!(n->message = malloc(sizeof(lane_piece) + SLOT_BYTES)))
        return FAIL(e, OUT_OF_MEMORY, (size_t)SLOT_BYTES, "the way to files");
      l->remote += !places[r];
      if (n->shared && l->rank == 0) lane_prepare(&n->shared->out), lane_prepare(&n->shared->in);
    }
  return 0;
}

int lanes_open(lanes **opened, MPI_Comm comm, bool shared, error *e) {
  lanes *l = *opened = calloc(1, sizeof *l);
  int place = 0, each = 1, *places = NULL;
  if (l) {
    l->comm = comm;
    pthread_mutex_init(&l->lock, NULL);
    MPI_TRY(e, MPI_Comm_rank(comm, &l->rank));
    MPI_TRY(e, MPI_Comm_size(comm, &l->ranks));
    places = calloc((size_t)l->ranks, sizeof *places);
  }
  if (!places) FAIL(e, OUT_OF_MEMORY, sizeof *l, "the way to files");
  TRY(error_agree(e, comm));
  if (shared) lanes_share(l, &place, &each, e);
  if (!l->memory) place = 0;
  MPI_TRY(e, MPI_Bcast(&each, 1, MPI_INT, 0, comm));
  MPI_TRY(e, MPI_Allgather(&place, 1, MPI_INT, places, 1, MPI_INT, comm));
  if (!e->id) lanes_list(l, places, each, e);
  free(places);
  return error_agree(e, comm); /* rank 0 has prepared the rings, too */
}

void lanes_close(lanes *l) {
  if (!l) return;
  for (int i = 0; i < l->count; i++) {
    free(l->all[i].message);
    free(l->all[i].request);
  }
  free(l->all);
  if (l->memory) munmap(l->memory, l->bytes);
  pthread_mutex_destroy(&l->lock);
  free(l);
}

int lanes_own(const lanes *l) {
  return l->rank ? l->count : 0;
}

/* --- pieces ----------------------------------------------------------------------------------------------------- */

static void lane_await(sem_t *s) {
  while (sem_wait(s) && errno == EINTR) continue;
}

static char *lane_slot(const lane *n, bool out, unsigned number) {
  return (char *)n->shared + CONTROL_BYTES + ((out ? 0 : SLOTS) + number % SLOTS) * (size_t)SLOT_BYTES;
}

/* Where the bytes of the next piece to be sent go. */
static char *lane_next(lane *n) {
  if (!n->shared) return n->message + sizeof(lane_piece);
  const bool out = n->lanes->rank > 0;
  lane_await(out ? &n->shared->out.empty : &n->shared->in.empty);
  return lane_slot(n, out, n->sent);
}

/* Sends the piece whose bytes are there. */
static int lane_send(lane *n, const lane_piece *p, error *e) {
  const bool out = n->lanes->rank > 0;
  if (n->shared) {
    lane_ring *r = out ? &n->shared->out : &n->shared->in;
    r->heads[n->sent++ % SLOTS] = *p;
    sem_post(&r->full);
    return 0;
  }
  MPI_Request request;
  const int bytes = (int)(sizeof *p + p->bytes);
  memcpy(n->message, p, sizeof *p);
  /* Synchronous: a fast sender must not fill the memory of a slow receiver. */
  MPI_TRY(e, MPI_Issend(n->message, bytes, MPI_BYTE, n->rank, out ? TAG_REQUEST : TAG_ANSWER, n->lanes->comm,
                        &request));
  MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  return 0;
}

/* Waits for the next piece; its bytes stay where they are until lane_release. */
static int lane_receive(lane *n, lane_piece *p, const char **bytes, error *e) {
  const bool out = n->lanes->rank == 0;
  if (n->shared) {
    lane_ring *r = out ? &n->shared->out : &n->shared->in;
    lane_await(&r->full);
    *p = r->heads[n->received % SLOTS];
    *bytes = lane_slot(n, out, n->received++);
    return 0;
  }
  MPI_Request request;
  MPI_TRY(e, MPI_Irecv(n->message, sizeof *p + SLOT_BYTES, MPI_BYTE, n->rank, out ? TAG_REQUEST : TAG_ANSWER,
                       n->lanes->comm, &request));
  MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  memcpy(p, n->message, sizeof *p);
  *bytes = n->message + sizeof *p;
  return 0;
}

static void lane_release(lane *n) {
  if (n->shared) sem_post(n->lanes->rank == 0 ? &n->shared->out.empty : &n->shared->in.empty);
}

static size_t lane_piece_bytes(size_t from, size_t whole) {
  return whole - from < SLOT_BYTES ? whole - from : SLOT_BYTES;
}

/* --- the other ranks -------------------------------------------------------------------------------------------- */

int lane_put(lanes *l, int k, uint64_t at, const void *from, size_t bytes, error *e) {
  lane *n = &l->all[k];
  for (size_t done = 0, size; done < bytes; done += size) {
    size = lane_piece_bytes(done, bytes);
    memcpy(lane_next(n), (const char *)from + done, size);
    TRY(lane_send(n, &(lane_piece){LANE_PUT, at, bytes, done, size}, e));
  }
  return 0;
}

void *lane_take_room(lanes *l, int k) {
  return lane_next(&l->all[k]);
}

int lane_send_room(lanes *l, int k, uint64_t at, size_t bytes, error *e) {
  return lane_send(&l->all[k], &(lane_piece){LANE_PUT, at, bytes, 0, bytes}, e);
}

void lane_give_room(lanes *l, int k) {
  if (l->all[k].shared) sem_post(&l->all[k].shared->out.empty);
}

int lane_get(lanes *l, int k, uint64_t at, void *to, size_t bytes, error *e) {
  lane *n = &l->all[k];
  lane_piece p = {LANE_GET, at, bytes, 0, 0};
  const char *found = NULL;
  lane_next(n);
  TRY(lane_send(n, &p, e));
  for (size_t done = 0; done < bytes; done += p.bytes) {
    TRY(lane_receive(n, &p, &found, e));
    memcpy((char *)to + done, found, p.bytes);
    lane_release(n);
    if (!p.bytes) return -1;
  }
  return 0;
}

int lane_end(lanes *l, int k, error *e) {
  lane_next(&l->all[k]);
  return lane_send(&l->all[k], &(lane_piece){.kind = LANE_END}, e);
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

/* Memory for a whole request. */
static char *lane_room(lane *n, size_t bytes, error *e) {
  if (bytes > n->room) {
    free(n->request);
    n->request = malloc(bytes);
    n->room = n->request ? bytes : 0;
    if (!n->request) FAIL(e, OUT_OF_MEMORY, bytes, "a block of a file");
  }
  return n->request;
}

/* After a failure requests are still answered, but nothing is done. */
static void lane_take(lane *n, const lane_piece *p, const char *bytes) {
  const lanes_keeper *k = n->lanes->keeper;
  error e = {0};
  if (!lanes_good(n->lanes, NULL)) return;
  if (!k->whole) {
    k->put(k->context, p->at + p->from, bytes, p->bytes, &e);
  } else if (lane_room(n, p->whole, &e)) {
    memcpy(n->request + p->from, bytes, p->bytes);
    if (p->from + p->bytes == p->whole) k->put(k->context, p->at, n->request, p->whole, &e);
  }
  lanes_good(n->lanes, &e);
}

static int lane_give(lane *n, const lane_piece *p, error *failed) {
  const lanes_keeper *k = n->lanes->keeper;
  for (size_t done = 0, size; done < p->whole; done += size) {
    error e = {0};
    size = lane_piece_bytes(done, p->whole);
    char *to = lane_next(n);
    bool good = lanes_good(n->lanes, NULL);
    if (good && !k->whole)
      k->get(k->context, p->at + done, to, size, &e);
    else if (good && lane_room(n, p->whole, &e)) {
      if (done == 0) k->get(k->context, p->at, n->request, p->whole, &e);
      memcpy(to, n->request + done, size);
    }
    good = good && lanes_good(n->lanes, &e);
    TRY(lane_send(n, &(lane_piece){LANE_GET, p->at, p->whole, done, good ? size : 0}, failed));
    if (!good) return 0;
  }
  return 0;
}

/* One request; `*ended`: it was the last. */
static int lane_answer(lane *n, bool *ended, error *e) {
  lane_piece p;
  const char *bytes = NULL;
  TRY(lane_receive(n, &p, &bytes, e));
  if (p.kind == LANE_PUT) lane_take(n, &p, bytes);
  lane_release(n);
  *ended = p.kind == LANE_END;
  return p.kind == LANE_GET ? lane_give(n, &p, e) : 0;
}

/* Answers a lane until it ends. */
static void *lane_main(void *argument) {
  lane *n = argument;
  error e = {0};
  for (bool ended = false; !ended && !lane_answer(n, &ended, &e);) continue;
  lanes_good(n->lanes, &e);
  return NULL;
}

int lanes_begin(lanes *l, const lanes_keeper *keeper, error *e) {
  l->keeper = keeper;
  l->failure = (error){0};
  for (int i = 0; i < l->count; i++) {
    lane *n = &l->all[i];
    n->started = n->shared && !thread_start(&n->thread, lane_main, n); /* if not, lanes_serve does it */
  }
  return e->id;
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
