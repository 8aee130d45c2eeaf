#include "plan_wavefront.h"
#include <stdio.h>
#include <string.h>
#include "tune_wavefront.h"

/* Fields of fewer bytes, all together, stay in some cache from one pass to the next. */
static const double CACHED_BYTES = 16 << 20;

bool plan_neighbours(const simulation *s) {
  return s->ranks > 1 || s->config->boundary[FACE_Z_LO] == BOUNDARY_PERIODIC;
}

/* A pass ends where something is due. */
static int least_interval(const config *c) {
  int64_t every[CONFIG_INTERVALS], least = WAVEFRONT_DEPTH_MAX;
  config_intervals(c, every);
  if (c->steps > 0 && c->steps < least) least = c->steps;
  for (int i = 0; i < CONFIG_INTERVALS; i++)
    if (every[i] > 0 && every[i] < least) least = every[i];
  return (int)least;
}

/* Most steps a pass; where that is 1, `why` says why. */
static int most_steps(const simulation *s, char why[128]) {
  const config *c = s->config;
  if (physics_absorbs(c)) snprintf(why, 128, "absorbing layers act on whole planes between the steps");
  if (!tune_wavefront_can(c->nx, c->ny)) snprintf(why, 128, "planes are too large to measure others");
  if (why[0]) return 1;
  const int interval = least_interval(c), planes = c->nz / s->ranks / RADIUS;
  if (interval == 1) snprintf(why, 128, "something is to be saved or checked after every step");
  if (!plan_neighbours(s) || interval <= planes) return interval;
  if (planes < 2)
    snprintf(why, 128, "%d planes on %d ranks leave no room for deeper ghosts", c->nz, s->ranks);
  return planes > 1 ? planes : 1;
}

static bool worth_measuring(const simulation *s, bool medium) {
  const config *c = s->config;
  return (medium ? 3.0 : 2.0) * sizeof(float) * c->nx * c->ny * c->nz / s->ranks > CACHED_BYTES;
}

int plan_wavefront(simulation *s, bool measure, error *e) {
  stepper *p = &s->stepper;
  const config *c = s->config;
  char why[128] = "";
  double number;
  s->shape = (wavefront_shape){.depth = 1};
  const bool asked = p->kernel->flags & KERNEL_WAVEFRONT, automatic = strcmp(c->kernel, "auto") == 0;
  wavefront_question q = {.dev = s->dev, .threads = s->threads, .nx = c->nx, .ny = c->ny, .always = asked};
  q.measure = measure;
  q.planes = c->nz / s->ranks;
  q.wraps = c->boundary[FACE_Y_LO] == BOUNDARY_PERIODIC;
  s->kernel = c->kernel;
  q.medium = physics_medium(c, &number) != NULL;
  if (!asked && (!automatic || s->dev->table->backend != BACKEND_HOST || !worth_measuring(s, q.medium)))
    return 0;
  TRY(kernel_find("wavefront", physics_form(c), BACKEND_HOST, &q.wavefront, e));
  q.neighbours = plan_neighbours(s);
  q.most = most_steps(s, why);
  if (q.planes < RADIUS) return 0; /* too many ranks: the partition says so */
  if (q.most > 1) TRY(tune_wavefront(&q, s->comm, s->log, &s->shape, e));
  if (q.most <= 1) log_line(s->log, "kernel %s: one step a pass, since %s", c->kernel, why);
  const bool several = s->shape.depth > 1;
  TRY(kernel_find(several ? "wavefront" : "auto", physics_form(c), BACKEND_HOST, &p->kernel, e));
  p->boundary_kernel = p->kernel;
  if (asked || several) s->kernel = p->kernel->name;
  return 0;
}
