/* sendrecv, the reference: pinned bounce buffers and MPI_Sendrecv, one side after the other. cuda_aware does the same,
 * but MPI reads and writes the device's memory itself. */
#include <stdio.h>
#include "device/trace.h"
#include "transport.h"
#if defined(OPEN_MPI) && OPEN_MPI
#include <mpi-ext.h>
#endif

/* [0] lower, [1] upper; NULL where there is no neighbour. */
typedef struct buffers {
  float *send[2], *receive[2]; /* pinned, a halo each */
} buffers;

static int sendrecv_open(halo *h, error *e) {
  buffers *b = h->state;
  for (int side = 0; side < 2; side++) {
    if (transport_neighbour(h, side) == MPI_PROC_NULL) continue;
    TRY(h->dev->table->alloc(h->dev, (void **)&b->send[side], transport_bytes(h->slab), MEMORY_PINNED, e));
    TRY(h->dev->table->alloc(h->dev, (void **)&b->receive[side], transport_bytes(h->slab), MEMORY_PINNED, e));
  }
  return 0;
}

static void sendrecv_close(halo *h) {
  error ignored = {0}; /* close also follows failures */
  buffers *b = h->state;
  for (int side = 0; side < 2; side++) {
    h->dev->table->free(h->dev, b->send[side], MEMORY_PINNED, &ignored);
    h->dev->table->free(h->dev, b->receive[side], MEMORY_PINNED, &ignored);
  }
}

/* Exchanges in one direction: every rank sends to one side while it receives from the other. An outer face is
 * MPI_PROC_NULL, for which MPI does nothing, but some versions insist on a buffer unless the count is 0. */
static int sendrecv_shift(halo *h, const buffers *b, int to, int from, int tag, error *e) {
  const slab *s = h->slab;
  /* counted in rows, so that the count of a huge plane fits an int */
  int rows = RADIUS * (int)slab_rows(s);
  MPI_TRY(e, MPI_Sendrecv(b->send[to], b->send[to] ? rows : 0, h->row, transport_neighbour(h, to), tag,
                          b->receive[from], b->receive[from] ? rows : 0, h->row, transport_neighbour(h, from),
                          tag, h->comm, MPI_STATUS_IGNORE));
  return 0;
}

static int sendrecv_shift_both(halo *h, const buffers *b, error *e) {
  trace_begin("exchange");
  double begin = MPI_Wtime();
  TRY(sendrecv_shift(h, b, LOWER, UPPER, TAG_DOWN, e));
  TRY(sendrecv_shift(h, b, UPPER, LOWER, TAG_UP, e));
  h->exchange_seconds += MPI_Wtime() - begin;
  trace_end();
  return 0;
}

static int sendrecv_exchange(halo *h, float *field, int set, error *e) {
  const device_table *t = h->dev->table;
  const slab *s = h->slab;
  const buffers *b = h->state;
  for (int side = 0; side < 2; side++) {
    const copy_args own = {b->send[side], transport_own(field, s, side), transport_bytes(s), COPY_TO_HOST};
    if (own.to) TRY(t->copy(h->dev, STREAM_BOUNDARY, &own, e));
  }
  TRY(transport_record(h, set, HALO_TO_HOST, e));
  /* The planes must have arrived before MPI reads them. This wait also ends the previous exchange's copies out of the
   * receive buffers, so that MPI may fill the buffers again. */
  TRY(t->sync(h->dev, STREAM_BOUNDARY, e));
  TRY(sendrecv_shift_both(h, b, e));
  TRY(transport_record(h, set, HALO_TO_DEVICE_BEGIN, e));
  for (int side = 0; side < 2; side++) {
    const copy_args ghosts = {transport_ghosts(field, s, side), b->receive[side], transport_bytes(s),
                              COPY_TO_DEVICE};
    if (ghosts.from) TRY(t->copy(h->dev, STREAM_BOUNDARY, &ghosts, e));
  }
  return 0;
}

const transport transport_sendrecv = {.open = sendrecv_open,
                                      .exchange = sendrecv_exchange,
                                      .close = sendrecv_close,
                                      .state_bytes = sizeof(buffers)};

/* --- cuda_aware ------------------------------------------------------------------------------------------------- */

static bool sendrecv_possible_cuda(const halo *h, char why[HALO_WHY]) {
  const char *reason = "it needs a GPU";
  if (h->dev->table->backend == BACKEND_CUDA) {
#if defined(MPIX_CUDA_AWARE_SUPPORT)
    if (MPIX_Query_cuda_support()) return true;
#endif
    reason = "this MPI cannot read a GPU's memory";
  }
  snprintf(why, HALO_WHY, "%s", reason);
  return false;
}

static int sendrecv_exchange_cuda(halo *h, float *field, int set, error *e) {
  const device_table *t = h->dev->table;
  buffers b = {{NULL}, {NULL}};
  for (int side = 0; side < 2; side++)
    if (transport_neighbour(h, side) != MPI_PROC_NULL) {
      b.send[side] = transport_own(field, h->slab, side);
      b.receive[side] = transport_ghosts(field, h->slab, side);
    }
  TRY(transport_record(h, set, HALO_TO_HOST, e));
  TRY(t->sync(h->dev, STREAM_BOUNDARY, e));
  TRY(sendrecv_shift_both(h, &b, e));
  return transport_record(h, set, HALO_TO_DEVICE_BEGIN, e);
}

const transport transport_cuda_aware = {.possible = sendrecv_possible_cuda,
                                        .exchange = sendrecv_exchange_cuda};
