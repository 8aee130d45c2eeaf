#include "lanes.h"
#include "base/clock.h"
#include "base/error_mpi.h"

enum { TAG_REQUEST = 7301, TAG_BYTES = 7302 };

/* A request, or its answer. */
typedef struct lane_request {
  uint64_t at, bytes; /* 0 bytes: the last request, which has no answer; the answer after a failure */
} lane_request;

/* Sends, or receives, a message of any length. */
static int lane_pass(const lane *l, int rank, bool send, int tag, void *bytes, size_t count, error *e) {
  enum { MOST = 1 << 30 /* at once: MPI counts in an int */ };
  MPI_Request request;
  for (size_t at = 0; at < count; at += MOST) {
    char *piece = (char *)bytes + at;
    const int size = (int)(count - at < MOST ? count - at : MOST);
    if (send)
      MPI_TRY(e, MPI_Isend(piece, size, MPI_BYTE, rank, tag, l->comm, &request));
    else
      MPI_TRY(e, MPI_Irecv(piece, size, MPI_BYTE, rank, tag, l->comm, &request));
    MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  }
  return 0;
}

/* To or from the rank, a request or, with `back`, an answer, with the bytes in the room that go along. */
static int lane_send(const lane *l, int rank, lane_request r, bool back, error *e) {
  TRY(lane_pass(l, rank, true, TAG_REQUEST, &r, sizeof r, e));
  return lane_pass(l, rank, true, TAG_BYTES, l->room, l->put == back ? 0 : r.bytes, e);
}

static int lane_receive(const lane *l, int rank, lane_request *r, bool back, error *e) {
  TRY(lane_pass(l, rank, false, TAG_REQUEST, r, sizeof *r, e));
  return lane_pass(l, rank, false, TAG_BYTES, l->room, l->put == back ? 0 : r->bytes, e);
}

int lane_wait(lane *l, error *e) {
  lane_request answer;
  if (!l->waits) return 0;
  l->waits = false;
  TRY(lane_receive(l, 0, &answer, true, e));
  return answer.bytes ? 0 : -1;
}

int lane_move(lane *l, uint64_t at, size_t bytes, error *e) {
  TRY(lane_send(l, 0, (lane_request){at, bytes}, false, e));
  l->waits = true;
  return l->put ? 0 : lane_wait(l, e);
}

int lane_end(lane *l, error *e) {
  lane_wait(l, e);
  return e->id ? e->id : lane_send(l, 0, (lane_request){0}, false, e);
}

/* The next rank that asks for something. */
static int lanes_next(const lane *l, int *rank, error *e) {
  const double LONGEST = 500e-6; /* s */
  pace p = {.begin = clock_seconds()};
  MPI_Status status;
  for (int there = 0; !there;) {
    MPI_TRY(e, MPI_Iprobe(MPI_ANY_SOURCE, TAG_REQUEST, l->comm, &there, &status));
    if (!there) pace_wait(&p, LONGEST);
  }
  *rank = status.MPI_SOURCE;
  return 0;
}

/* After a failure of the keeper requests are still answered, but nothing is done. */
int lanes_serve(lane *l, int others, lane_keeper *keep, void *context, error *e) {
  error failure = {0};
  for (int rank; others > 0;) {
    lane_request r;
    TRY(lanes_next(l, &rank, e));
    TRY(lane_receive(l, rank, &r, false, e));
    others -= !r.bytes;
    if (!r.bytes) continue;
    if (!failure.id) keep(context, r.at, l->room, r.bytes, &failure);
    if (failure.id) r.bytes = 0;
    TRY(lane_send(l, rank, r, true, e));
  }
  if (!e->id) *e = failure;
  return e->id;
}
