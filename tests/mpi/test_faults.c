/* Is every wait of the step loop needed, and would a test notice its loss? A device wrapper drops one kind of ordering
 * at a time and delays the stream that should be waited for. The answer must then be wrong. On 2 ranks. */
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
  DROP_SYNC_PIECES,   /* likewise, or the neighbour does, piece by piece */
  DROP_AWAIT,         /* nobody waits for the neighbours' planes */
  EARLY_SIGNAL,       /* planes are told to be there before they are */
} fault;

typedef struct faulty_device {
  device base;
  device *inner;
  fault fault;
  int late;    /* the stream that naps before each of its launches and copies to the device; -1: none */
  int waits;   /* of a stream for another one */
  bool leaves; /* the boundary stream's last copy was to the host: the next event is of a piece */
  device_event *pieces[64];
  int piece_count;
} faulty_device;

static faulty_device *faulty(device *dev) {
  return (faulty_device *)dev;
}

static int nap_milliseconds = 10; /* set while no stream works */

static void nap(const kernel_args *args, int part, int parts) {
  (void)args, (void)parts;
  const struct timespec time = {nap_milliseconds / 1000, nap_milliseconds % 1000 * 1000000L};
  if (part == 0) nanosleep(&time, NULL);
}
static const kernel NAP = {.name = "nap", .backend = BACKEND_HOST, .host = nap};

static int f_alloc(device *d, void **m, size_t n, memory_kind k, error *e) {
  return faulty(d)->inner->table->alloc(faulty(d)->inner, m, n, k, e);
}
static int f_free(device *d, void *m, memory_kind k, error *e) {
  return faulty(d)->inner->table->free(faulty(d)->inner, m, k, e);
}
static int f_copy(device *d, int s, const copy_args *c, error *e) {
  const device_table *t = faulty(d)->inner->table;
  if (s == faulty(d)->late && c->direction == COPY_TO_DEVICE)
    TRY(t->launch(faulty(d)->inner, s, &NAP, &(kernel_args){.z_end = 1}, e));
  if (s == STREAM_BOUNDARY) faulty(d)->leaves = c->direction == COPY_TO_HOST;
  return t->copy(faulty(d)->inner, s, c, e);
}
static int f_launch(device *d, int s, const kernel *k, const kernel_args *a, error *e) {
  const device_table *t = faulty(d)->inner->table;
  if (s == faulty(d)->late) TRY(t->launch(faulty(d)->inner, s, &NAP, a, e));
  return t->launch(faulty(d)->inner, s, k, a, e);
}
static int f_apply(device *d, int s, const operation *o, const void *a, error *e) {
  const device_table *t = faulty(d)->inner->table;
  if (s == faulty(d)->late) TRY(t->launch(faulty(d)->inner, s, &NAP, &(kernel_args){.z_end = 1}, e));
  return t->apply(faulty(d)->inner, s, o, a, e);
}
static bool f_of_piece(const faulty_device *f, const device_event *event) {
  for (int i = 0; i < f->piece_count; i++)
    if (f->pieces[i] == event) return true;
  return false;
}
static int f_make_events(device *d, device_event **events, int count, bool timed, error *e) {
  return faulty(d)->inner->table->make_events(faulty(d)->inner, events, count, timed, e);
}
static void f_unmake_events(device *d, device_event **events, int count) {
  faulty(d)->inner->table->unmake_events(faulty(d)->inner, events, count);
}
static int f_record(device *d, int s, device_event *event, error *e) {
  faulty_device *f = faulty(d);
  if (s == STREAM_BOUNDARY && f->leaves && f->piece_count < 64 && !f_of_piece(f, event))
    f->pieces[f->piece_count++] = event;
  f->leaves = f->leaves && s != STREAM_BOUNDARY;
  return faulty(d)->inner->table->record(faulty(d)->inner, s, event, e);
}
static int f_wait(device *d, int s, device_event *event, error *e) {
  faulty(d)->waits++;
  if (faulty(d)->fault == DROP_WAIT_BOUNDARY && s == STREAM_BOUNDARY) return 0;
  if (faulty(d)->fault == DROP_WAIT_INTERIOR && s == STREAM_INTERIOR) return 0;
  return faulty(d)->inner->table->wait(faulty(d)->inner, s, event, e);
}
static int f_sync(device *d, int s, error *e) {
  if (faulty(d)->fault == DROP_SYNC_BOUNDARY && s == STREAM_BOUNDARY) return 0;
  return faulty(d)->inner->table->sync(faulty(d)->inner, s, e);
}
static int f_sync_event(device *d, device_event *event, error *e) {
  if (faulty(d)->fault == DROP_SYNC_PIECES && f_of_piece(faulty(d), event)) return 0;
  return faulty(d)->inner->table->sync_event(faulty(d)->inner, event, e);
}
static int f_seconds(device *d, device_event *a, device_event *b, double *s, error *e) {
  return faulty(d)->inner->table->seconds(faulty(d)->inner, a, b, s, e);
}
static int f_signal(device *d, int s, uint32_t *counter, uint32_t value, error *e) {
  if (faulty(d)->fault == EARLY_SIGNAL) {
    __atomic_store_n(counter, value, __ATOMIC_RELEASE);
    return 0;
  }
  return faulty(d)->inner->table->peer->signal(faulty(d)->inner, s, counter, value, e);
}
static int f_await(device *d, int s, const uint32_t *counter, uint32_t value, error *e) {
  if (faulty(d)->fault == DROP_AWAIT) return 0;
  return faulty(d)->inner->table->peer->await(faulty(d)->inner, s, counter, value, e);
}
static int f_place(device *d, void *memory, size_t bytes, error *e) {
  return faulty(d)->inner->table->peer->place(faulty(d)->inner, memory, bytes, e);
}
static const device_peer FAULTY_PEER = {.signal = f_signal, .await = f_await, .place = f_place};
static const device_table FAULTY = {.backend = BACKEND_HOST,
                                    .alloc = f_alloc,
                                    .free = f_free,
                                    .copy = f_copy,
                                    .launch = f_launch,
                                    .apply = f_apply,
                                    .make_events = f_make_events,
                                    .unmake_events = f_unmake_events,
                                    .record = f_record,
                                    .wait = f_wait,
                                    .sync = f_sync,
                                    .sync_event = f_sync_event,
                                    .seconds = f_seconds,
                                    .peer = &FAULTY_PEER};

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
  device_table table = FAULTY;
  faulty_device dev = {.base.table = &table};
  step_run r;
  OK(device_open("host", &options, &dev.inner, &E));
  open_slab(&r, &dev.base, transport);
  const bool copies = transport == SHARED_COPIES, maps = transport && strcmp(transport, "shared") == 0;
  if (copies) table.peer = NULL, transport = "shared";
  dev.late = -1;
  step_run_open(&r, &dev.base, "reference", transport, 0, true, false, GHOST);
  float *expected = step_initial(NX, NY, NZ);
  kernel_args weights = step_weights();
  step_expected(&weights, expected, NX, NY, NZ, STEPS, GHOST, !transport);
  assert_int_equal(step_mismatches(&r, r.global), 0);
  if (copies) assert_non_null(strstr(r.halo.way, "copied"));
  if (maps) assert_non_null(strstr(r.halo.way, "mapped"));
  dev.fault = fault;
  dev.waits = 0;
  /* Where neighbours share memory, one is late and the other not. */
  const bool alone = fault == ONE_LATE || fault >= DROP_SYNC_PIECES || (maps && fault != NO_FAULT);
  dev.late = alone && rank ? -1 : late;
  while (r.stepper.step < STEPS) OK(stepper_advance(&r.stepper, 1, &E));
  dev.fault = NO_FAULT;
  assert_int_equal(dev.waits == 0, maps); /* then all is on one stream */
  OK(stepper_sync(&r.stepper, &E));
  long mine = (long)step_mismatches(&r, expected), all = 0;
  MPI_Allreduce(&mine, &all, 1, MPI_LONG, MPI_SUM, MPI_COMM_WORLD);
  free(expected);
  step_run_close(&r);
  dev.inner->table->close(dev.inner);
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
