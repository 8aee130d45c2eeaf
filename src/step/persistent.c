/* Passes of many steps in one launch, on the boundary's stream only. So later work on that stream follows the
 * launch. */
#include "persistent.h"
#include <string.h>
#include "halo/transport.h"
#include "pass.h"

/* Points that a launch updates, approximately: enough to hide its start, and few enough that the run checks for signals
 * and progress several times a second. */
static const double BATCH_POINTS = 1e10;
enum { BATCH_MAX = 1000 };

const kernel persistent_kernel = {
    .name = "persistent", .backend = BACKEND_CUDA, .note = "many steps a cooperative launch"};

static int persistent_find_neighbours(persistent *p, error *e) {
  halo *h = p->halo;
  peers all;
  if (!halo_needed(h)) return 0;
  TRY(transport_peers(h, &all, e));
  for (int side = 0; side < 2; side++) {
    memcpy(p->args.remote[side], all.ghosts[side], sizeof all.ghosts[side]);
    p->args.remote_counter[side] = all.theirs[side];
    p->args.counter[side] = all.mine[side];
  }
  return 0;
}

int persistent_open(persistent *p, halo *h, const kernel_args *constants, error *e) {
  const slab *s = h->slab;
  const double points = (double)s->nx * s->ny * slab_planes(s).most, steps = BATCH_POINTS / points;
  *p = (persistent){.halo = h,
                    .args = {.constants = *constants},
                    .batch = steps < 1           ? 1
                             : steps < BATCH_MAX ? (int)steps
                                                 : BATCH_MAX};
  TRY(h->dev->table->alloc(h->dev, (void **)&p->state, sizeof *p->state, MEMORY_DEVICE, e));
  TRY(h->dev->table->alloc(h->dev, (void **)&p->outcome, PERSISTENT_SETS * sizeof *p->outcome, MEMORY_PINNED,
                           e));
  memset(p->outcome, 0, PERSISTENT_SETS * sizeof *p->outcome);
  p->args.state = p->state;
  return persistent_find_neighbours(p, e);
}

void persistent_close(persistent *p) {
  error ignored = {0};
  if (!p->halo) return;
  device *dev = p->halo->setup.dev;
  dev->table->free(dev, p->state, MEMORY_DEVICE, &ignored);
  dev->table->free(dev, p->outcome, MEMORY_PINNED, &ignored);
}

/* Enqueues `steps` steps; the pass's state receives the result. */
static int persistent_advance(const stepper *s, int steps, error *e) {
  persistent *p = s->persistent;
  device *dev = s->dev;
  persistent_args args = p->args;
  args.steps = steps;
  args.counter_before = transport_passed(p->halo, (uint32_t)steps);
  for (int i = 0; i < stepper_states(s); i++) {
    const int which = stepper_ahead(s, i);
    args.fields[i] = stepper_field(s, which);
    for (int side = 0; side < 2; side++) args.remote[side][i] = p->args.remote[side][which];
  }
  TRY(dev->table->apply(dev, STREAM_BOUNDARY, &operation_persistent, &args, e));
  const copy_args outcome = {&p->outcome[set_of(s->pass)], p->state, sizeof *p->state, COPY_TO_HOST};
  return dev->table->copy(dev, STREAM_BOUNDARY, &outcome, e);
}

int persistent_outcome(const persistent *p, int set, double *waited, error *e) {
  const persistent_state *o = &p->outcome[set];
  *waited = 1e-9 * (double)o->waited_ns;
  return o->failed
             ? FAIL(e, DEVICE_FAILED, "cuda", "a step", "the planes of a neighbour did not come for 60 s")
             : 0;
}

int step_persistent(stepper *s, int64_t limit, error *e) {
  const int steps = limit < s->persistent->batch ? (int)limit : s->persistent->batch;
  _Static_assert((int)PASS_SETS == (int)PERSISTENT_SETS, "an outcome for each set of events");
  TRY(pass_begin(s, steps, "steps", e));
  if (s->profile) TRY(pass_record(s, STREAM_BOUNDARY, INTERIOR_BEGIN, e));
  TRY(persistent_advance(s, steps, e));
  if (s->profile) TRY(pass_record(s, STREAM_BOUNDARY, INTERIOR_END, e));
  TRY(pass_record(s, STREAM_BOUNDARY, INTERIOR_DONE, e));
  return pass_end(s, steps, e);
}
