#include "physics.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include "base/error_mpi.h"
#include "fd.h"
#include "kernels/equations/files.h"

/* The functions of each row of equations.def. */
static const struct {
  double (*factor)(int medium, double dt, double value), (*bound)(double sum, const double most[]);
} PHYSICS_OF[EQUATION_COUNT] = {
#define EQUATION(constant, name, ...) {name##_factor, name##_bound},
#include "kernels/equations.def"
};

enum equation physics_form(const config *c) {
  return physics_fields(c) ? c->equation : EQUATIONS[c->equation].folded;
}

const char *physics_medium(const config *c, int i, double *number) {
  const equation_row *row = &EQUATIONS[c->equation];
  *number = 0;
  if (i >= row->media) return NULL;
  const config_medium *medium = &c->media[row->medium[i]];
  *number = medium->number;
  return medium->file[0] ? medium->file : NULL;
}

bool physics_is_field(const config *c, int i) {
  double number;
  return physics_medium(c, i, &number) || (i == 0 && model_needed(c));
}

int physics_fields(const config *c) {
  int fields = 0;
  for (int i = 0; i < EQUATION_MEDIA; i++) fields += physics_is_field(c, i);
  return fields;
}

/* --- time ----------------------------------------------------------------------------------------------------- */

static int physics_find_bound(physics *p, const config *c, const files *files, const slab *s, error *e) {
  double spacing[3], most[EQUATION_MEDIA];
  for (int i = 0; i < EQUATION_MEDIA; i++) most[i] = p->medium[i].max;
  p->bound = INFINITY;
  if (most[0] <= 0) return 0;
  for (int axis = 0; axis < 3; axis++) spacing[axis] = config_axis_of(c, axis).spacing;
  const double sum = fd_sum(c->space_order, spacing);
  p->bound = PHYSICS_OF[c->equation].bound(sum, most);
  if (!p->model.needed) return 0;
  double stiffest;
  TRY(model_stiffness(&p->model, files, s, sum, &stiffest, e));
  p->bound = 2 / sqrt(stiffest);
  return 0;
}

/* Fails because dt is too large. The message names keys of a stable run that is as long and has as many samples: dt
 * over a whole number. */
static int physics_refuse_dt(const physics *p, const config *c, error *e) {
  const double parts = ceil(p->dt / p->bound);
  char steps[48] = "", every[48] = "";
  if (c->dt <= 0) return FAIL(e, TIME_CFL, c->cfl, p->dt, p->bound);
  if (c->steps > 0) snprintf(steps, sizeof steps, " time.steps=%.15g", parts * (double)c->steps);
  if (c->receivers != RECEIVERS_NONE)
    snprintf(every, sizeof every, " receivers.every=%.15g", parts * (double)c->receivers_every);
  bool rows = c->sources_listed;
  for (int i = 0; i < c->source_count; i++) rows = rows || c->sources[i].wavelet == WAVELET_FILE;
  return FAIL(e, TIME_UNSTABLE, p->dt, p->bound, p->dt / parts, steps, every,
              rows ? "; signals without times need a row for each such step" : "");
}

/* Sets dt and steps. An automatic dt is shortened so that a step ends at end_time. With a given dt the run ends
 * at the first step at or after end_time. Where `steps` is given, too, it is a limit. */
static int physics_plan_time(physics *p, const config *c, double dt_before, error *e) {
  const double ROUNDING = 1e-9; /* an end_time / dt this close to a whole number is that number */
  double automatic = isinf(p->bound) ? 1 : c->cfl * p->bound;
  p->dt = c->dt > 0 ? c->dt : dt_before > 0 ? dt_before : automatic;
  p->steps = c->steps;
  if (p->dt > p->bound * (1 + 1e-12) && !c->allow_unstable && dt_before <= 0)
    return physics_refuse_dt(p, c, e);
  if (c->end_time <= 0) return 0;
  double steps = ceil(c->end_time / p->dt * (1 - ROUNDING));
  if (!(steps < 9e18)) return FAIL(e, TIME_TOO_MANY_STEPS, c->end_time, p->dt);
  p->steps = steps < 1 ? 1 : (int64_t)steps;
  if (c->dt <= 0 && dt_before <= 0) p->dt = c->end_time / (double)p->steps;
  if (c->steps >= 0 && c->steps < p->steps) p->steps = c->steps;
  return 0;
}

int physics_check(physics *p, const config *c, error *e) {
  TRY(physics_find_bound(p, c, NULL, NULL, e));
  return p->dt > p->bound * (1 + 1e-12) && !c->allow_unstable ? physics_refuse_dt(p, c, e) : 0;
}

int physics_plan(physics *p, const config *c, const files *files, const field_io *io, double dt_before,
                 error *e) {
  *p = (physics){.form = physics_form(c)};
  TRY(model_open(&p->model, c, files, io, config_has_gradient(c) && c->averaging ? p->given : NULL, e));
  p->medium[0] = p->model.given;
  for (int i = p->model.needed; i < EQUATIONS[c->equation].media; i++) {
    model_read(NULL, &p->medium[i], c, EQUATIONS[c->equation].medium[i], files, io, e);
    TRY(error_agree(e, files->compute));
  }
  TRY(physics_find_bound(p, c, files, io->slab, e));
  TRY(physics_plan_time(p, c, dt_before, e)); /* from the same numbers on every rank */
  /* The fit depends on dt, and dt = auto on the fit: twice is enough. */
  for (int i = 0; i < 2 && p->model.absorbs; i++) {
    TRY(model_fit(&p->model, c, files, io->slab, p->dt, e));
    TRY(physics_find_bound(p, c, files, io->slab, e));
    if (i == 0) TRY(physics_plan_time(p, c, dt_before, e));
  }
  return model_check_fit(&p->model, e);
}

void physics_loaded(physics *p, const config *c) {
  if (config_has_gradient(c))
    model_keep_averages(&p->model);
  else
    model_close(&p->model);
}

void physics_close(physics *p) {
  model_close(&p->model);
  free(p->given[0]);
  free(p->given[1]);
  p->given[0] = p->given[1] = NULL;
}

/* --- what kernels get ------------------------------------------------------------------------------------------- */

double physics_factor_of(const config *c, int i, double dt, double medium) {
  return PHYSICS_OF[c->equation].factor(i, dt, medium);
}

float physics_factor(const physics *p, const config *c, int i, double medium, double times) {
  return (float)(physics_factor_of(c, i, p->dt, medium) * times);
}

static void physics_given_weights(const config *c, kernel_args *a) {
  const double *const given[3] = {c->jacobi_x, c->jacobi_y, c->jacobi_z};
  float *const axes[3] = {a->wx, a->wy, a->wz};
  double center = c->jacobi_center;
  for (int axis = 0; axis < 3; axis++)
    for (int r = 1; r <= RADIUS; r++)
      if (config_axis_of(c, axis).spacing > 0)
        axes[axis][r] = (float)given[axis][r - 1];
      else
        center += 2 * given[axis][r - 1]; /* along this axis all points are the same one */
  a->center = (float)center;
}

/* Sets the weights of the Laplacian; where folded, those of u + factor times the Laplacian. */
static void physics_laplacian_weights(const physics *p, const config *c, kernel_args *a) {
  const bool folded = p->form != c->equation;
  double w[5], number, center = 0;
  physics_medium(c, 0, &number);
  const double scale = folded ? PHYSICS_OF[c->equation].factor(0, p->dt, number) : 1;
  float *axes[3] = {a->wx, a->wy, a->wz};
  fd_weights(c->space_order, w);
  for (int axis = 0; axis < 3; axis++) {
    const double h = config_axis_of(c, axis).spacing, h2 = h * h;
    if (h == 0) continue;
    center += scale * w[0] / h2;
    for (int r = 1; r <= RADIUS; r++) axes[axis][r] = (float)(scale * w[r] / h2);
  }
  a->center = (float)(folded ? 1 + center : center);
  fd_balance(folded ? 1 : 0, &a->center, axes);
}

bool physics_absorbs(const config *c) {
  for (int f = 0; f < FACE_COUNT; f++)
    if (c->boundary[f] == BOUNDARY_ABSORBING) return true;
  return false;
}

/* Ghosts towards a neighbour have no rule: the neighbour sends them. */
static void physics_ghost_rules(const config *c, const slab *s, unsigned char rules[FACE_COUNT]) {
  for (int f = 0; f < FACE_COUNT; f++) {
    bool inner = (f == FACE_Z_LO && s->lower != SLAB_NO_RANK) || (f == FACE_Z_HI && s->upper != SLAB_NO_RANK);
    rules[f] = GHOST_KEEP;
    if (inner) continue;
    if (c->boundary[f] == BOUNDARY_DIRICHLET) rules[f] = GHOST_ODD;
    if (c->boundary[f] == BOUNDARY_NEUMANN) rules[f] = GHOST_EVEN;
    if (c->boundary[f] == BOUNDARY_PERIODIC) rules[f] = GHOST_WRAP;
  }
}

void physics_args(const physics *p, const config *c, const slab *s, kernel_args *a) {
  *a = (kernel_args){
      .equation = p->form, .pitch = s->pitch, .plane = s->plane, .nx = s->nx, .ny = s->ny, .nz = s->nz};
  for (int i = 0; i < EQUATION_MEDIA; i++) {
    double number;
    physics_medium(c, i, &number);
    a->scale[i] = physics_factor(p, c, i, number, 1);
  }
  if (equation_has(c->equation, GIVEN_WEIGHTS))
    physics_given_weights(c, a);
  else
    physics_laplacian_weights(p, c, a);
  a->flat = c->ny == 1 && equation_has(p->form, HAS_TERMS);
  physics_ghost_rules(c, s, a->ghosts);
  a->terms.memories = p->model.fit.count;
  for (int l = 0; l < p->model.fit.count; l++)
    a->terms.a[l] = (float)p->model.fit.a[l], a->terms.b[l] = (float)p->model.fit.b[l];
}

double physics_fastest(const physics *p, const config *c) {
  if (c->boundary_velocity > 0) return c->boundary_velocity;
  return p->model.needed ? p->model.fastest : p->medium[0].max;
}

void physics_ghosts(const config *c, float ghosts[FACE_COUNT]) {
  for (int f = 0; f < FACE_COUNT; f++)
    ghosts[f] = c->boundary[f] == BOUNDARY_FIXED ? (float)c->boundary_value
                : c->boundary[f] == BOUNDARY_ABSORBING || c->boundary[f] == BOUNDARY_NONE
                    ? 0
                    : NAN; /* a ghost that nothing fills shows in the answer */
}

int physics_bytes(const config *c) {
  const int terms = config_density_varies(c) + (config_medium_absorbs(c) ? 1 + 2 * c->mechanisms : 0);
  return (int)sizeof(float) * (2 + (EQUATIONS[c->equation].levels > 1) + physics_fields(c) + terms);
}
