/* nccl: an exchange is one group of NCCL's sends and receives on the boundary's stream. Everything is enqueued: the
 * host waits for nothing.
 *
 * A thread of each rank starts NCCL, which may hang where ranks cannot reach one another. Then the thread watches
 * NCCL: after a later failure the main thread waits for planes that never come, and cannot report it. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/clock.h"
#include "base/thread.h"
#include "transport.h"

/* --- the library ------------------------------------------------------------------------------------------------- */

/* NCCL 2's binary interface, declared here: the program is built without NCCL and runs without it. The newest function
 * is ncclSend, of NCCL 2.7. */
static const char NCCL_LIBRARY[] = "libnccl.so.2";
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7 }; /* ncclResult_t */
enum { NCCL_FLOAT = 7 };                         /* ncclDataType_t */
typedef struct nccl_comm nccl_comm;
typedef struct nccl_id {
  char bytes[128];
} nccl_id;

/* X(name, result, parameters) */
#define NCCL_FUNCTIONS(X)                                                                                    \
  X(GetVersion, int, (int *version))                                                                         \
  X(GetErrorString, const char *, (int result))                                                              \
  X(GetUniqueId, int, (nccl_id * id))                                                                        \
  X(CommInitRank, int, (nccl_comm * *comm, int ranks, nccl_id id, int rank))                                 \
  X(CommDestroy, int, (nccl_comm * comm))                                                                    \
  X(CommAbort, int, (nccl_comm * comm))                                                                      \
  X(CommGetAsyncError, int, (nccl_comm * comm, int *found))                                                  \
  X(GroupStart, int, (void))                                                                                 \
  X(GroupEnd, int, (void))                                                                                   \
  X(Send, int, (const void *from, size_t count, int type, int peer, nccl_comm *comm, void *stream))          \
  X(Recv, int, (void *to, size_t count, int type, int peer, nccl_comm *comm, void *stream))

typedef struct nccl_library {
#define X(name, result, parameters) result(*name) parameters;
  NCCL_FUNCTIONS(X)
#undef X
} nccl_library;

/* Loads NCCL, which then stays in memory; false: NCCL cannot be loaded, and `why` says why. Further calls cost
 * little. */
static bool nccl_load(nccl_library *library, char why[HALO_WHY]) {
  void *handle = dlopen(NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    snprintf(why, HALO_WHY, "%s", dlerror());
    return false;
  }
#define X(name, result, parameters)                                                                          \
  *(void **)&library->name = dlsym(handle, "nccl" #name);                                                    \
  if (!library->name) {                                                                                      \
    snprintf(why, HALO_WHY, "%s has no nccl" #name, NCCL_LIBRARY);                                           \
    return false;                                                                                            \
  }
  NCCL_FUNCTIONS(X)
#undef X
  return true;
}

static void nccl_describe(char text[HALO_WHY]) {
  nccl_library library;
  int version = 0;
  if (!nccl_load(&library, text)) return;
  library.GetVersion(&version); /* 10000 major + 100 minor + patch */
  snprintf(text, HALO_WHY, "NCCL %d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

/* --- the transport ----------------------------------------------------------------------------------------------- */

static const double LOOK_EVERY = 0.25, BEGIN_WITHIN = 60; /* s */

typedef struct nccl {
  nccl_library library;
  device *dev;
  int rank, ranks;
  nccl_id id;
  int neighbours[2];
  float *trial; /* device memory: four floats */
  bool sound;   /* NCCL has started on all ranks */
  bool running; /* the thread runs */
  pthread_t thread;
  nccl_comm *comm; /* this and `failure` belong to the thread until `begun`; NULL: NCCL did not start */
  error failure;
  pthread_mutex_t mutex; /* guards what follows */
  pthread_cond_t changed;
  bool begun;     /* NCCL has started, or failed to */
  bool stop;      /* the thread must end */
  bool abandoned; /* the thread owns this struct and frees it */
} nccl;

static int nccl_failed(const nccl *n, error *e, const char *call, int result) {
  return result == NCCL_SUCCESS ? 0 : FAIL(e, NCCL_FAILED, call, n->library.GetErrorString(result));
}

/* --- exchanging ------------------------------------------------------------------------------------------------- */

/* Two ranks may be neighbours on both sides. NCCL pairs their sends and receives in order, so receives begin with the
 * upper side: what one rank sends down, the other receives from above. */
static int nccl_enqueue(const nccl *n, float *const own[2], float *const ghosts[2], size_t floats) {
  void *stream = n->dev->table->peer->stream(n->dev, STREAM_BOUNDARY);
  int result = NCCL_SUCCESS;
  for (int side = 0; side < 2 && result == NCCL_SUCCESS; side++)
    if (n->neighbours[side] != MPI_PROC_NULL)
      result = n->library.Send(own[side], floats, NCCL_FLOAT, n->neighbours[side], n->comm, stream);
  for (int side = 1; side >= 0 && result == NCCL_SUCCESS; side--)
    if (n->neighbours[side] != MPI_PROC_NULL)
      result = n->library.Recv(ghosts[side], floats, NCCL_FLOAT, n->neighbours[side], n->comm, stream);
  return result;
}

static int nccl_exchange_planes(const nccl *n, float *const own[2], float *const ghosts[2], size_t floats,
                                error *e) {
  TRY(nccl_failed(n, e, "ncclGroupStart", n->library.GroupStart()));
  const int result = nccl_enqueue(n, own, ghosts, floats);
  nccl_failed(n, e, "ncclGroupEnd",
              n->library.GroupEnd()); /* in any case: it returns what went wrong in the group */
  return e->id ? e->id : nccl_failed(n, e, "ncclSend or ncclRecv", result);
}

/* --- the thread ------------------------------------------------------------------------------------------------- */

/* An abandoned thread may get here after the device, and with it the memory of `trial`, is gone. */
static void nccl_dispose(nccl *n) {
  error ignored = {0};
  if (n->comm) (void)(n->sound ? n->library.CommDestroy(n->comm) : n->library.CommAbort(n->comm));
  if (!n->abandoned) n->dev->table->free(n->dev, n->trial, MEMORY_DEVICE, &ignored);
  pthread_cond_destroy(&n->changed);
  pthread_mutex_destroy(&n->mutex);
  free(n);
}

/* If NCCL has failed, reports it and ends this process; the launcher then ends the job. The main thread cannot report
 * it, because it waits for the device. A failure often hits all ranks at once: the lowest rank reports it first, and
 * the launcher ends the others before they do. */
static void nccl_look(nccl *n) {
  int found = NCCL_SUCCESS;
  error e = {0};
  const int asked = n->library.CommGetAsyncError(n->comm, &found);
  if (asked != NCCL_SUCCESS) found = asked;
  if (found == NCCL_SUCCESS || found == NCCL_IN_PROGRESS) return;
  if (n->rank) sleep(4);
  usleep((useconds_t)(n->rank < 20 ? n->rank : 20) * 100000);
  FAIL(&e, NCCL_BROKEN, n->rank, n->library.GetErrorString(found));
  thread_end_process(&e);
}

/* Makes a first exchange, of single floats. In this exchange NCCL connects the neighbours and allocates memory for the
 * connections. */
static int nccl_connect_neighbours(nccl *n, error *e) {
  float *const own[2] = {n->trial, n->trial + 1}, *const ghosts[2] = {n->trial + 2, n->trial + 3};
  return nccl_exchange_planes(n, own, ghosts, 1, e);
}

/* Starts NCCL. Returns with the mutex locked. */
static void nccl_begin(nccl *n) {
  error failure = {0};
  if (!n->dev->table->peer->adopt(n->dev, &failure) &&
      !nccl_failed(n, &failure, "ncclCommInitRank",
                   n->library.CommInitRank(&n->comm, n->ranks, n->id, n->rank)))
    nccl_connect_neighbours(n, &failure);
  else
    n->comm = NULL; /* NCCL did not start, so it must not be ended */
  pthread_mutex_lock(&n->mutex);
  n->failure = failure;
  n->begun = true;
  pthread_cond_signal(&n->changed);
}

static void *nccl_attend(void *context) {
  nccl *n = context;
  nccl_begin(n);
  while (!n->stop) {
    condition_wait(&n->changed, &n->mutex, clock_seconds() + LOOK_EVERY);
    if (!n->stop && !n->failure.id) nccl_look(n);
  }
  const bool abandoned = n->abandoned;
  pthread_mutex_unlock(&n->mutex);
  if (abandoned) nccl_dispose(n);
  return NULL;
}

static int nccl_start_thread(nccl *n, error *e) {
  const int rc = thread_start(&n->thread, nccl_attend, n);
  n->running = rc == 0;
  return rc ? FAIL(e, NCCL_FAILED, "starting a thread for NCCL", strerror(rc)) : 0;
}

static void nccl_stop_thread(nccl *n) {
  if (!n->running) return;
  pthread_mutex_lock(&n->mutex);
  n->stop = true;
  pthread_cond_signal(&n->changed);
  pthread_mutex_unlock(&n->mutex);
  pthread_join(n->thread, NULL);
  n->running = false;
}

/* Waits until NCCL has started or failed to. A thread that takes too long is abandoned and owns the state from then
 * on. */
static void nccl_await_thread(halo *h, error *e, error *late) {
  nccl *n = h->state;
  const double end = clock_seconds() + BEGIN_WITHIN;
  pthread_mutex_lock(&n->mutex);
  for (int rc = 0; !n->begun && !rc;) rc = condition_wait(&n->changed, &n->mutex, end);
  const bool begun = n->begun;
  if (begun && n->failure.id) *e = n->failure;
  n->stop = n->abandoned = !begun;
  pthread_mutex_unlock(&n->mutex);
  if (begun) return;
  pthread_detach(n->thread);
  h->state = NULL;
  char text[64];
  snprintf(text, sizeof text, "not all ranks started NCCL within %g s", BEGIN_WITHIN);
  FAIL(late, NCCL_FAILED, "ncclCommInitRank", text);
}

/* --- opening and closing ---------------------------------------------------------------------------------------- */

static bool nccl_possible(const halo *h, char why[HALO_WHY]) {
  const device_peer *peer = h->dev->table->peer;
  nccl_library library;
  if (peer && peer->stream) return nccl_load(&library, why);
  snprintf(why, HALO_WHY, "it needs a GPU");
  return false;
}

/* Refuses ranks that share a GPU, for which NCCL would fail or hang. Agreed. */
static int nccl_refuse_shared(halo *h, int ranks, error *e) {
  enum { BYTES = sizeof h->dev->gpu };
  char why[HALO_WHY];
  unsigned char(*all)[BYTES];
  ALLOC(e, all, ranks, "the list of GPUs");
  int failure = error_agree(e, h->comm);
  if (!failure)
    failure = error_from_mpi(e, MPI_Allgather(h->dev->gpu, BYTES, MPI_BYTE, all, BYTES, MPI_BYTE, h->comm),
                             "MPI_Allgather");
  for (int a = 0; a < ranks && !failure; a++)
    for (int b = a + 1; b < ranks && !failure; b++) {
      if (memcmp(all[a], all[b], BYTES) != 0) continue;
      snprintf(why, sizeof why, "ranks %d and %d share a GPU, and NCCL needs one for each", a, b);
      failure = FAIL(e, TRANSPORT_REFUSED, why);
    }
  free(all);
  return failure;
}

static int nccl_make_state(halo *h, int rank, int ranks, error *e) {
  char why[HALO_WHY];
  nccl *n;
  TRY(ALLOC(e, n, 1, "the transport"));
  h->state = n;
  n->dev = h->dev;
  n->rank = rank;
  n->ranks = ranks;
  for (int side = 0; side < 2; side++) n->neighbours[side] = transport_neighbour(h, side);
  pthread_mutex_init(&n->mutex, NULL);
  condition_init(&n->changed);
  if (!nccl_load(&n->library, why)) return FAIL(e, TRANSPORT_REFUSED, why);
  TRY(h->dev->table->alloc(h->dev, (void **)&n->trial, 4 * sizeof *n->trial, MEMORY_DEVICE, e));
  return rank ? 0 : nccl_failed(n, e, "ncclGetUniqueId", n->library.GetUniqueId(&n->id));
}

static int nccl_open(halo *h, error *e) {
  int rank, ranks;
  error late = {0};
  MPI_TRY(e, MPI_Comm_rank(h->comm, &rank));
  MPI_TRY(e, MPI_Comm_size(h->comm, &ranks));
  TRY(nccl_refuse_shared(h, ranks, e));
  nccl_make_state(h, rank, ranks, e);
  TRY(error_agree(e, h->comm)); /* agreed first: else ranks would wait for one that cannot start */
  nccl *n = h->state;
  MPI_TRY(e, MPI_Bcast(&n->id, sizeof n->id, MPI_BYTE, 0, h->comm));
  if (!nccl_start_thread(n, e)) nccl_await_thread(h, e, &late);
  /* The error of a rank that failed comes first: it says more than errors of ranks that waited for that rank. */
  TRY(error_agree(e, h->comm));
  if (late.id) *e = late;
  TRY(error_agree(e, h->comm));
  n->sound = true;
  return 0;
}

/* Ends NCCL on a rank only when its neighbours no longer use it. */
static void nccl_close(halo *h) {
  error ignored = {0};
  nccl *n = h->state;
  if (n && n->sound) h->dev->table->sync(h->dev, STREAM_BOUNDARY, &ignored);
  MPI_Barrier(h->comm);
  if (!n) return;
  nccl_stop_thread(n);
  nccl_dispose(n);
  h->state = NULL;
}

static int nccl_exchange(halo *h, float *field, int set, error *e) {
  (void)set;
  const slab *s = h->slab;
  nccl *n = h->state;
  float *const own[2] = {transport_own(field, s, LOWER), transport_own(field, s, UPPER)};
  float *const ghosts[2] = {transport_ghosts(field, s, LOWER), transport_ghosts(field, s, UPPER)};
  if (nccl_exchange_planes(n, own, ghosts, transport_bytes(s) / sizeof(float), e))
    nccl_stop_thread(n); /* the thread would report the same failure again */
  return e->id;
}

const transport transport_nccl = {.describe = nccl_describe,
                                  .possible = nccl_possible,
                                  .open = nccl_open,
                                  .exchange = nccl_exchange,
                                  .close = nccl_close,
                                  .on_device = true};
