/* Passes without a boundary: one launch over all planes, which waits for the ghosts. */
#include "pass.h"

/* Waits for the ghosts, runs `launch` on STREAM_INTERIOR, and exchanges the ghosts of the result. Where exchanges run
 * on the same stream, the order there suffices. */
static int step_whole_pass(stepper *s, int steps, int (*launch)(const stepper *s, int steps, error *e),
                           error *e) {
  const int ghosts = s->halo->stream;
  const bool apart = ghosts != STREAM_INTERIOR;
  if (apart) {
    TRY(pass_record(s, ghosts, GHOSTS, e));
    TRY(pass_wait(s, STREAM_INTERIOR, s->pass, GHOSTS, e));
  }
  TRY(pass_record_begin(s, STREAM_INTERIOR, INTERIOR_BEGIN, e));
  TRY(launch(s, steps, e));
  TRY(pass_record_end(s, STREAM_INTERIOR, INTERIOR_END, INTERIOR_DONE, e));
  if (apart) TRY(pass_wait(s, ghosts, s->pass, INTERIOR_DONE, e));
  TRY(pass_record_begin(s, ghosts, BOUNDARY_BEGIN, e));
  TRY(pass_record_end(s, ghosts, BOUNDARY_END, BOUNDARY_DONE, e));
  return pass_finish(s, steps, e);
}

static int step_whole_launch(const stepper *s, int steps, error *e) {
  (void)steps;
  return pass_launch(s, STREAM_INTERIOR, s->kernel, (zrange){0, s->slab->nz}, e);
}

/* Does one step where the exchange moves nothing. Kernels for the boundary alone would read 12 planes to compute 4. */
int step_whole(stepper *s, error *e) {
  TRY(pass_begin(s, 1, "step", e));
  return step_whole_pass(s, 1, step_whole_launch, e);
}

static int step_wavefront_launch(const stepper *s, int steps, error *e) {
  wavefront *w = s->front;
  wavefront_args args = w->cut;
  args.field = s->args;
  for (int i = 0; i < stepper_states(s); i++) args.u[i] = stepper_field(s, stepper_ahead(s, i));
  args.steps = steps;
  args.done = w->done, args.before = w->before;
  if (s->absorb) args.layers = s->absorb->args;
  if (s->sources) injector_of_pass(s->sources, s->step, steps, &args.sources);
  for (int i = 0; s->observers && i < s->observers->count; i++) {
    const observer *o = &s->observers->list[i];
    if (o->within) TRY(o->within(o->self, &args, s->step, steps, e));
  }
  w->before += wavefront_counts(&args);
  return s->dev->table->apply(s->dev, STREAM_INTERIOR, &operation_wavefront, &args, e);
}

/* Does several steps a pass, on a rank alone. */
int step_wavefront(stepper *s, int64_t limit, error *e) {
  const int steps = limit < s->front->depth ? (int)limit : s->front->depth;
  TRY(pass_begin(s, steps, "pass", e));
  return step_whole_pass(s, steps, step_wavefront_launch, e);
}
