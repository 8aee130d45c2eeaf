/* Is every wait of the step loop needed, and would a test notice its loss? Functions in the device's table drop one kind of
 * ordering at a time and delay the stream that should be waited for. The answer must then be wrong. On 2 ranks. */
#include "mpi_main.h"
#include "step_harness.h"
#include <time.h>

enum { NX = 21, NY = 10, NZ = 40, STEPS = 4 };
static const float GHOST = -0.5f;

typedef enum fault {
  NO_FAULT,
  ONE_LATE,           /* none either: only the first rank's stream is late */
  DROP_WAIT_BOUNDARY, /* boundary kernels start before the interior of the step before is done */
  DROP_WAIT_INTERIOR, /* the interior kernel starts before the boundary of the step before is done */
  DROP_SYNC_BOUNDARY, /* MPI reads the bounce buffers before the copies to them are done */
  DROP_SYNC_PIECES,   /* the same, piece by piece, here or at the neighbour */
  DROP_AWAIT,         /* nobody waits for the neighbours' planes */
  EARLY_SIGNAL,       /* planes are announced before they are there */
} fault;

/* The device's own functions, and what those in their place do. */
static const device_table *own;
static struct {
  fault fault;
  int late;    /* the stream that naps before each of its launches and copies to the device; -1: none */
  int waits;   /* of a stream for another one */
  bool leaves; /* the boundary stream's last copy was to the host: the next event is of a piece */
  device_event *pieces[64];
  int piece_count;
} with;

static int nap_milliseconds = 10; /* set while no stream works */

static void nap(const kernel_args *args, int part, int parts) {
  (void)args, (void)parts;
  const struct timespec time = {nap_milliseconds / 1000, nap_milliseconds % 1000 * 1000000L};
  if (part == 0) nanosleep(&time, NULL);
}
static const kernel NAP = {.name = "nap", .backend = BACKEND_HOST, .host = nap};

/* Delays the next launch on this stream. */
static int f_delay(device *d, int s, error *e) {
  return s == with.late ? own->launch(d, s, &NAP, &(kernel_args){.z_end = 1}, e) : 0;
}
static int f_copy(device *d, int s, const copy_args *c, error *e) {
  if (c->direction == COPY_TO_DEVICE) TRY(f_delay(d, s, e));
  if (s == STREAM_BOUNDARY) with.leaves = c->direction == COPY_TO_HOST;
  return own->copy(d, s, c, e);
}
static int f_launch(device *d, int s, const kernel *k, const kernel_args *a, error *e) {
  TRY(f_delay(d, s, e));
  return own->launch(d, s, k, a, e);
}
static int f_apply(device *d, int s, const operation *o, const void *a, error *e) {
  TRY(f_delay(d, s, e));
  return own->apply(d, s, o, a, e);
}
static bool f_of_piece(const device_event *event) {
  for (int i = 0; i < with.piece_count; i++)
    if (with.pieces[i] == event) return true;
  return false;
}
static int f_record(device *d, int s, device_event *event, error *e) {
  if (s == STREAM_BOUNDARY && with.leaves && with.piece_count < 64 && !f_of_piece(event))
    with.pieces[with.piece_count++] = event;
  with.leaves = with.leaves && s != STREAM_BOUNDARY;
  return own->record(d, s, event, e);
}
static int f_wait(device *d, int s, device_event *event, error *e) {
  with.waits++;
  if (with.fault == DROP_WAIT_BOUNDARY && s == STREAM_BOUNDARY) return 0;
  if (with.fault == DROP_WAIT_INTERIOR && s == STREAM_INTERIOR) return 0;
  return own->wait(d, s, event, e);
}
static int f_sync(device *d, int s, error *e) {
  return with.fault == DROP_SYNC_BOUNDARY && s == STREAM_BOUNDARY ? 0 : own->sync(d, s, e);
}
static int f_sync_event(device *d, device_event *event, error *e) {
  return with.fault == DROP_SYNC_PIECES && f_of_piece(event) ? 0 : own->sync_event(d, event, e);
}
static int f_signal(device *d, int s, uint32_t *counter, uint32_t value, error *e) {
  if (with.fault != EARLY_SIGNAL) return own->peer->signal(d, s, counter, value, e);
  __atomic_store_n(counter, value, __ATOMIC_RELEASE);
  return 0;
}
static int f_await(device *d, int s, const uint32_t *counter, uint32_t value, error *e) {
  return with.fault == DROP_AWAIT ? 0 : own->peer->await(d, s, counter, value, e);
}

/* A transport without host synchronisation: the slab is its own neighbour and z wraps. With sendrecv the host waits for
 * the boundary stream in every step, which would hide a missing wait between the streams. */
static int wrap_exchange(halo *h, float *field, int set, error *e) {
  (void)set;
  const slab *s = h->slab;
  size_t bytes = RADIUS * s->plane * sizeof(float);
  const copy_args down = {field + slab_offset(s, -RADIUS, -4, -4),
                          field + slab_offset(s, s->nz - RADIUS, -4, -4), bytes, COPY_ON_DEVICE};
  const copy_args up = {field + slab_offset(s, s->nz, -4, -4), field + slab_offset(s, 0, -4, -4), bytes,
                        COPY_ON_DEVICE};
  TRY(h->dev->table->copy(h->dev, STREAM_BOUNDARY, &down, e));
  return h->dev->table->copy(h->dev, STREAM_BOUNDARY, &up, e);
}
static const transport WRAP = {.exchange = wrap_exchange};

static void open_slab(step_run *r, device *dev, const char *transport) {
  const bool wrap = !transport;
  OK(slab_init(&r->slab, &(slab_shape){.nx = NX, .ny = NY, .nz = NZ}, wrap ? 0 : rank, wrap ? 1 : ranks, &E));
  if (wrap) {
    r->slab.lower = r->slab.upper = 0;
    r->halo =
        (halo){.transport = &WRAP, .dev = dev, .slab = &r->slab, .comm = MPI_COMM_SELF, .on_device = true};
  }
}

/* The transport `shared` where it cannot map planes, because the device cannot order work between processes. */
static const char *const SHARED_COPIES = "shared, with copies";

/* Points that came out wrong, over all ranks, when `fault` is injected and stream `late` is slow. */
static long wrong_points(fault fault, int late, const char *transport) {
  const device_options options = {.local_rank = rank, .local_ranks = ranks, .threads = 1};
  device *dev;
  step_run r;
  OK(device_open("host", &options, &dev, &E));
  own = dev->table;
  device_table table = *own;
  device_peer peer = *own->peer;
  peer.signal = f_signal, peer.await = f_await;
  table.copy = f_copy, table.launch = f_launch, table.apply = f_apply, table.record = f_record;
  table.wait = f_wait, table.sync = f_sync, table.sync_event = f_sync_event, table.peer = &peer;
  dev->table = &table;
  memset(&with, 0, sizeof with);
  with.late = -1;
  open_slab(&r, dev, transport);
  const bool copies = transport == SHARED_COPIES, maps = transport && strcmp(transport, "shared") == 0;
  if (copies) table.peer = NULL, transport = "shared";
  step_run_open(&r, dev, "reference", transport, 0, true, false, GHOST);
  float *expected = step_initial(NX, NY, NZ);
  kernel_args weights = step_weights();
  step_expected(&weights, expected, NX, NY, NZ, STEPS, GHOST, !transport);
  assert_int_equal(step_mismatches(&r, r.global), 0);
  if (copies) assert_non_null(strstr(r.halo.method, "copied"));
  if (maps) assert_non_null(strstr(r.halo.method, "mapped"));
  with.fault = fault;
  with.waits = 0;
  /* Where neighbours share memory, one is late and the other not. */
  const bool alone = fault == ONE_LATE || fault >= DROP_SYNC_PIECES || (maps && fault != NO_FAULT);
  with.late = alone && rank ? -1 : late;
  while (r.stepper.step < STEPS) OK(stepper_advance(&r.stepper, 1, &E));
  with.fault = NO_FAULT;
  assert_int_equal(with.waits == 0, maps); /* then all is on one stream */
  OK(stepper_sync(&r.stepper, &E));
  long mine = (long)step_mismatches(&r, expected), all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  free(expected);
  step_run_close(&r);
  own->close(dev);
  return all;
}

/* Does the fault show? On a busy machine the stream that should have waited may be even later than the delayed one;
 * then the nap is made longer. */
static bool noticed(fault fault, int late, const char *transport) {
  bool wrong = false;
  for (nap_milliseconds = 10; !wrong && nap_milliseconds < 5000; nap_milliseconds *= 5)
    wrong = wrong_points(fault, late, transport) != 0;
  nap_milliseconds = 10;
  return wrong;
}

enum { TRANSPORTS = 4 };
/* And NULL: wrap. */
static const char *way_at(int i) {
  const char *const names[TRANSPORTS] = {"sendrecv", "chunked", "shared", SHARED_COPIES};
  return names[i];
}

TEST(late_streams_alone_do_no_harm) {
  for (int late = -1; late < STREAM_COUNT; late++) {
    assert_int_equal(wrong_points(NO_FAULT, late, NULL), 0);
    for (int i = 0; i < TRANSPORTS; i++) {
      assert_int_equal(wrong_points(NO_FAULT, late, way_at(i)), 0);
      assert_int_equal(wrong_points(ONE_LATE, late, way_at(i)), 0);
    }
  }
}

TEST(boundary_must_wait_for_interior) {
  for (int i = 0; i < TRANSPORTS; i++)
    if (strcmp(way_at(i), "shared") != 0) /* one stream */
      assert_true(noticed(DROP_WAIT_BOUNDARY, STREAM_INTERIOR, way_at(i)));
  assert_true(noticed(DROP_WAIT_BOUNDARY, STREAM_INTERIOR, NULL));
}

TEST(interior_must_wait_for_boundary) {
  assert_true(noticed(DROP_WAIT_INTERIOR, STREAM_BOUNDARY, NULL));
}

TEST(messages_must_wait_for_their_copies) {
  assert_true(noticed(DROP_SYNC_BOUNDARY, STREAM_BOUNDARY, "sendrecv"));
  assert_true(noticed(DROP_SYNC_PIECES, STREAM_BOUNDARY, "chunked"));
  assert_true(noticed(DROP_SYNC_PIECES, STREAM_BOUNDARY, SHARED_COPIES));
}

TEST(neighbours_must_wait_for_each_other) {
  assert_true(noticed(DROP_AWAIT, STREAM_INTERIOR, "shared"));
  assert_true(noticed(EARLY_SIGNAL, STREAM_INTERIOR, "shared"));
}

MPI_MAIN
