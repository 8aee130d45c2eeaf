/* One step of the step loop, as docs/DESIGN.md draws it:
 *
 *   stream 0: wait interior(n-1) | hi boundary | lo boundary | D2H both -sync-> MPI_Sendrecv x2 -> H2D both ghosts
 *   stream 1: wait boundary(n-1)* | ------------- interior -----------------------------------
 *   * boundary(n) where the host takes part in the exchange
 *   then the buffers swap
 *
 * Other kinds of passes: step_whole.c (without a boundary, and several steps on the host: wavefront) and persistent.c
 * (many steps in one launch on a GPU). */
#include "step.h"
#include "pass.h"

int stepper_open(stepper *s, error *e) {
  const device_table *t = s->dev->table;
  for (int set = 0; set < PASS_SETS; set++) {
    TRY(t->make_events(s->dev, s->events[set], PASS_TIMED, true, e));
    TRY(t->make_events(s->dev, s->events[set] + PASS_TIMED, PASS_EVENTS - PASS_TIMED, false, e));
  }
  return 0;
}

void stepper_restart(stepper *s) {
  s->current = 0, s->next = NULL;
  for (int i = 0; i < EQUATION_STATES; i++) s->copying[i] = NULL;
  s->step = s->pass = s->harvested = 0;
  s->measured_from = s->measured_pass = s->measured_always = 0;
  s->sampled = s->phases = (step_phases){0};
}

void stepper_close(stepper *s) {
  if (s->dev) s->dev->table->unmake_events(s->dev, s->events[0], PASS_SETS * PASS_EVENTS);
}

/* Computes the planes that the neighbours wait for. Their kernels read values that the interior kernel of the pass
 * before wrote, and overwrite values that this kernel read. So they wait for this kernel. The upper planes come first:
 * the interior kernel ended there, and the GPU's cache still holds their neighbours (jacobi on 4 H200, 768^3 each: 0.2
 * % of a step). */
static int step_boundary(const stepper *s, zrange lo, zrange hi, error *e) {
  TRY(pass_wait(s, STREAM_BOUNDARY, s->pass - 1, INTERIOR_DONE, e));
  TRY(pass_record_begin(s, STREAM_BOUNDARY, BOUNDARY_BEGIN, e));
  TRY(pass_launch(s, STREAM_BOUNDARY, s->boundary_kernel, hi, e));
  TRY(pass_launch(s, STREAM_BOUNDARY, s->boundary_kernel, lo, e));
  return pass_record_end(s, STREAM_BOUNDARY, BOUNDARY_END, BOUNDARY_DONE, e);
}

/* Computes the other planes. The kernel waits for the boundary kernels of the pass before, for the same reason. It
 * reads no exchanged ghost plane, so it does not wait for MPI. Where the host takes part in the exchange, the interior
 * kernel waits for this pass's boundary kernels. These start late, when their ghosts have come, and would find the GPU
 * full of the interior's blocks. */
static int step_interior(const stepper *s, zrange interior, error *e) {
  const bool boundary_first = halo_needed(s->halo) && !s->halo->on_device;
  TRY(pass_wait(s, STREAM_INTERIOR, boundary_first ? s->pass : s->pass - 1, BOUNDARY_DONE, e));
  TRY(pass_record_begin(s, STREAM_INTERIOR, INTERIOR_BEGIN, e));
  TRY(pass_launch(s, STREAM_INTERIOR, s->kernel, interior, e));
  return pass_record_end(s, STREAM_INTERIOR, INTERIOR_END, INTERIOR_DONE, e);
}

int stepper_advance(stepper *s, int64_t limit, error *e) {
  if (s->observers) limit = observers_limit(s->observers, s->step, s->front, limit);
  if (s->persistent) return step_persistent(s, limit, e);
  if (s->front && limit > 1) return step_wavefront(s, limit, e);
  if (s->halo->mapped) return step_whole(s, e);

  zrange lo, interior, hi;
  slab_ranges(s->slab, &lo, &interior, &hi);
  TRY(pass_begin(s, 1, "step", e));
  TRY(step_boundary(s, lo, hi, e));
  TRY(step_interior(s, interior, e));
  return pass_finish(s, 1, e); /* the exchange, and the swap */
}

int stepper_await(const stepper *s, int stream, error *e) {
  TRY(pass_wait(s, stream, s->pass - 1, BOUNDARY_DONE, e));
  return pass_wait(s, stream, s->pass - 1, INTERIOR_DONE, e);
}

int stepper_sync(stepper *s, error *e) {
  TRY(s->dev->table->sync(s->dev, STREAM_BOUNDARY, e));
  TRY(s->dev->table->sync(s->dev, STREAM_INTERIOR, e));
  TRY(phases_take(s, s->pass, e));
  phases_complete(s);
  return 0;
}

int stepper_reset_phases(stepper *s, error *e) {
  TRY(stepper_sync(s, e));
  phases_reset(s);
  return 0;
}

float *stepper_field(const stepper *s, int which) {
  return s->memory[which] + slab_offset(s->slab, 0, 0, 0);
}
