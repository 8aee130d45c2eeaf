#include "physics.h"
#include <math.h>
#include <pthread.h>
#include <string.h>
#include "base/error_mpi.h"
#include "fd.h"
#define EQUATION_FILES
#include "kernels/equations.def"
#include "base/numbers.h"

/* A row of the list as functions. */
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

int physics_fields(const config *c) {
  double number;
  int fields = 0;
  for (int i = 0; i < EQUATION_MEDIA; i++) fields += physics_medium(c, i, &number) != NULL;
  return fields;
}

enum quantity physics_quantity(const config *c, int i) {
  return (enum quantity)(QUANTITY_OF_MEDIUM + (int)EQUATIONS[c->equation].medium[i]);
}

/* --- the range of a medium that is read from a file ----------------------------------------------------------- */

typedef struct medium_extremes {
  const config *config;
  const medium_row *medium;
  const slab *slab;
  const char *dataset;
  pthread_mutex_t lock; /* of these: */
  float min, max;
  uint64_t digest; /* a sum, so that it does not depend on the partition */
} medium_extremes;

/* A field_sink that keeps only the extremes. */
static int physics_take_extremes(void *context, int z, int planes, float *values, error *e) {
  medium_extremes *x = context;
  const config *c = x->config;
  const bool positive = x->medium->field == POSITIVE_SIGN;
  size_t row = (size_t)c->nx, plane = row * (size_t)c->ny;
  uint64_t first = (uint64_t)(x->slab->z0 + z) * plane, digest = 0;
  float min = INFINITY, max = -INFINITY;
  for (size_t i = 0; i < plane * (size_t)planes; i++) {
    float v = values[i];
    if (v < 0 || (positive && v == 0))
      return FAIL(e, MEDIUM_SIGN, x->dataset, x->medium->name, positive ? ">" : ">=", (double)v,
                  x->slab->z0 + z + (int)(i / plane), (int)(i % plane / row), (int)(i % row));
    if (v < min) min = v;
    if (v > max) max = v;
    uint32_t bits;
    memcpy(&bits, &v, sizeof bits);
    digest += mix64(mix64(first + i) ^ bits);
  }
  pthread_mutex_lock(&x->lock);
  x->min = fminf(x->min, min);
  x->max = fmaxf(x->max, max);
  x->digest += digest;
  pthread_mutex_unlock(&x->lock);
  return 0;
}

static int physics_medium_range(medium_range *r, int i, const config *c, const files *files,
                                const field_io *io, error *e) {
  const char *dataset = physics_medium(c, i, &r->min);
  r->max = r->min;
  if (!dataset) return 0;
  medium_extremes x = {c,
                       &MEDIA[EQUATIONS[c->equation].medium[i]],
                       io->slab,
                       dataset,
                       PTHREAD_MUTEX_INITIALIZER,
                       INFINITY,
                       -INFINITY,
                       0};
  const request_own own = {.io = io, .sink = physics_take_extremes, .context = &x};
  const request medium = {FILES_READ_FIELD, .path = dataset, .quantity = physics_quantity(c, i), .own = own};
  TRY(files_do(files, &medium, e));
  float both[2] = {-x.min, x.max};
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, both, 2, MPI_FLOAT, MPI_MAX, files->compute));
  MPI_TRY(e, MPI_Allreduce(&x.digest, &r->digest, 1, MPI_UINT64_T, MPI_SUM, files->compute));
  r->min = -both[0];
  r->max = both[1];
  return 0;
}

/* --- time ----------------------------------------------------------------------------------------------------- */

static double physics_bound(const physics *p, const config *c) {
  double spacing[3], most[EQUATION_MEDIA];
  for (int i = 0; i < EQUATION_MEDIA; i++) most[i] = p->medium[i].max;
  if (most[0] <= 0) return INFINITY;
  for (int axis = 0; axis < 3; axis++) spacing[axis] = config_axis_of(c, axis).spacing;
  return PHYSICS_OF[c->equation].bound(fd_sum(c->space_order, spacing), most);
}

/* Sets bound, dt and steps. An automatic dt is shortened so that a step ends at end_time. With a given dt the run ends
 * at the first step at or after end_time. Where `steps` is given, too, it is a limit. */
static int physics_plan_time(physics *p, const config *c, double dt_before, error *e) {
  const double ROUNDING = 1e-9; /* an end_time / dt this close to a whole number is that number */
  p->bound = physics_bound(p, c);
  double automatic = isinf(p->bound) ? 1 : c->cfl * p->bound;
  p->dt = c->dt > 0 ? c->dt : dt_before > 0 ? dt_before : automatic;
  p->steps = c->steps;
  if (p->dt > p->bound * (1 + 1e-12) && !c->allow_unstable && dt_before <= 0)
    return FAIL(e, TIME_UNSTABLE, p->dt, p->bound);
  if (c->end_time <= 0) return 0;
  double steps = ceil(c->end_time / p->dt * (1 - ROUNDING));
  if (!(steps < 9e18)) return FAIL(e, TIME_TOO_MANY_STEPS, c->end_time, p->dt);
  p->steps = steps < 1 ? 1 : (int64_t)steps;
  if (c->dt <= 0 && dt_before <= 0) p->dt = c->end_time / (double)p->steps;
  if (c->steps >= 0 && c->steps < p->steps) p->steps = c->steps;
  return 0;
}

int physics_plan(physics *p, const config *c, const files *files, const field_io *io, double dt_before,
                 error *e) {
  *p = (physics){.form = physics_form(c)};
  for (int i = 0; i < EQUATION_MEDIA; i++) {
    physics_medium_range(&p->medium[i], i, c, files, io, e);
    TRY(error_agree(e, files->compute));
  }
  return physics_plan_time(p, c, dt_before, e); /* from the same numbers on every rank */
}

/* --- what kernels get ------------------------------------------------------------------------------------------- */

float physics_factor(const physics *p, const config *c, int i, double medium) {
  return (float)PHYSICS_OF[c->equation].factor(i, p->dt, medium);
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
        center += 2 * given[axis][r - 1]; /* all points along it are the one */
  a->center = (float)center;
}

/* Weights of the Laplacian; folded, of u + factor times the Laplacian. */
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

/* Ghosts towards a neighbour have no rule: it sends them. */
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
    a->scale[i] = physics_factor(p, c, i, number);
  }
  if (equation_has(c->equation, GIVEN_WEIGHTS))
    physics_given_weights(c, a);
  else
    physics_laplacian_weights(p, c, a);
  physics_ghost_rules(c, s, a->ghosts);
}

void physics_ghosts(const config *c, float ghosts[FACE_COUNT]) {
  for (int f = 0; f < FACE_COUNT; f++)
    ghosts[f] = c->boundary[f] == BOUNDARY_FIXED ? (float)c->boundary_value
                : c->boundary[f] == BOUNDARY_ABSORBING || c->boundary[f] == BOUNDARY_NONE
                    ? 0
                    : NAN; /* a ghost that nothing fills shows in the answer */
}

int physics_bytes(const config *c) {
  return (int)sizeof(float) * (1 + EQUATIONS[c->equation].levels + physics_fields(c));
}
