/* The profiles were chosen by the reflection of discrete plane waves and the eigenvalues of discrete steps
 * (docs/ACCURACY.md). */
#include "absorb.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/numbers.h"

/* d = d_max depth^POWER. d_max is chosen so that a wave that goes to the outer edge and back keeps the fraction R of
 * its amplitude in the continuum. A smaller R damps grazing waves, and waves trapped in slow beds, more. If it is too
 * small, jumps of d from point to point reflect, and waves in rough media grow.
 *
 * alpha = v_max / (width spacing) / min(width, ALPHA_WIDTH) (1 - depth). Oscillations slower than alpha reflect, and
 * the integral over time of a pulse of one sign always does. So alpha must be small beside velocity over thickness
 * where d is great. Two things bound alpha below. With less alpha waves in rough media grow, most in thin layers. And
 * the adjoint (docs/GRADIENT.md) amplifies the rounding of float32 by up to d / alpha. */
enum { POWER = 3, ALPHA_WIDTH = 8 };
static const double DECADES_A_POINT = 0.7, DECADES_MAX = 14; /* of R */

/* Where a layer begins and ends, in points from its outer edge: psi and zeta are 0 from the inner edge inward and from
 * the outer edge outward. */
static double absorb_inner_edge(int width) {
  return width - 1.5;
}
static const double OUTER_EDGE = -1;

/* The parameters of a layer's coefficients. */
typedef struct absorb_profile {
  int width;      /* points */
  double spacing; /* m */
  double v_max;   /* m/s */
  double dt;      /* s */
} absorb_profile;

/* *a and *b at `x`, in points from the outer edge. */
static void absorb_coefficients(const absorb_profile *p, double x, float *a, float *b) {
  const int width = p->width;
  const double thick = absorb_inner_edge(width) - OUTER_EDGE;
  double depth = (absorb_inner_edge(width) - x) / thick, decades = DECADES_A_POINT * width;
  *a = *b = 0;
  if (depth <= 0) return;
  if (depth > 1) depth = 1;
  if (decades > DECADES_MAX) decades = DECADES_MAX;
  const double d_max = (POWER + 1) * p->v_max * decades * log(10) / (2 * thick * p->spacing);
  const double d = d_max * pow(depth, POWER),
               alpha = p->v_max / (width * p->spacing) / smaller(width, ALPHA_WIDTH) * (1 - depth);
  const double decay = exp(-(d + alpha) * p->dt);
  *a = (float)decay;
  *b = (float)(d / (d + alpha) * (decay - 1));
}

/* Weights of a first derivative at a half point, for the values 1/2 and 3/2 points away. Where the stencil is accurate
 * enough they are of fourth order, and a little more in thin layers. These damp long waves within few points: there a
 * small difference between this derivative, taken twice, and the stencil's reflects much more than itself. For less
 * accurate stencils they approach fourth order as far as the square of the derivative's wave number stays below the
 * stencil's. Otherwise a layer would amplify the shortest waves. */
static void absorb_difference_weights(int space_order, int width, double weights[2]) {
  const double fourth = 1.0 / 24 + fmin(0.3 / ((double)width * width), 0.01);
  const double outer = space_order >= 6 ? fourth : space_order == 4 ? 0.03863 : 0;
  weights[0] = 1 + 3 * outer;
  weights[1] = -outer;
}

/* --- memory --------------------------------------------------------------------------------------------- */

static size_t absorb_coefficient_count(int width) {
  return 4 * (size_t)width + 2 * ABSORB_BEYOND;
}

/* The part of a layer's psi that a slab holds: psi[begin .. end), of which it owns psi[begin .. own). */
typedef struct absorb_held {
  int begin, own, end;
} absorb_held;

/* The part of the low or the high layer along z in planes [z0, z0 + nz), counted inward from the outer edge. */
static absorb_held absorb_held_of(const absorb_axis *z, bool high, int z0, int nz) {
  const int width = high ? z->hi : z->lo, first = high ? z->points - z0 - nz : z0;
  const absorb_held h = {larger(first, 0), smaller(first + nz, width),
                         smaller(first + nz + ABSORB_BEYOND, width)};
  return h.own > h.begin ? h : (absorb_held){0};
}

/* Sets the geometry of an axis alone: no pointers, no weights. Returns the floats of a state array of the axis. */
static size_t absorb_set_axis(absorb_axis *a, const config *c, const slab *s, int axis) {
  const int points[ABSORB_AXES] = {s->nx, s->ny, s->nz_global};
  const size_t nx = (size_t)s->nx, ny = (size_t)s->ny, nz = (size_t)s->nz;
  *a = (absorb_axis){.lo = config_layer_width(c, (enum face)(2 * axis)),
                     .hi = config_layer_width(c, (enum face)(2 * axis + 1)),
                     .points = points[axis]};
  const int layers = a->lo + a->hi;
  a->hi_last = layers - 1;
  if (axis < 2) return (size_t)layers * nz * (axis == 0 ? ny : nx);
  const absorb_held lo = absorb_held_of(a, false, s->z0, s->nz), hi = absorb_held_of(a, true, s->z0, s->nz);
  a->origin = s->z0;
  a->lo_first = lo.begin;
  a->hi_last = lo.end - lo.begin + hi.end - 1;
  return (size_t)(lo.end - lo.begin + hi.end - hi.begin) * ny * nx;
}

/* The floats of a state array, padded so that neighbouring arrays begin a third of a page apart. Processors mistake a
 * load for a recent store to another address with the same last 12 bits. */
static size_t absorb_apart(size_t floats) {
  const size_t page = 1024, third = page / 3 / SLAB_ALIGN * SLAB_ALIGN;
  return round_up(floats, page) + third;
}

/* Divides `memory` among the arrays of the axes; NULL: only counts. Returns the number of floats. */
static size_t absorb_deal_out(absorb_args *a, const config *c, const slab *s, float *memory) {
  absorb_axis *axes = a->axis;
  size_t taken = 0;
  for (int i = 0; i < ABSORB_AXES; i++) {
    const size_t floats = absorb_set_axis(&axes[i], c, s, i);
    if (axes[i].lo + axes[i].hi == 0) continue;
    const absorb_layer_terms layer_terms = absorb_layer_terms_of(&axes[0], c->boundary_width, s->nz);
    float **zeta_or_layer_terms = i == 0 ? &a->layer_terms : &axes[i].zeta;
    const size_t psi = absorb_apart(floats),
                 rest = i == 0 ? absorb_apart((size_t)layer_terms.planes * (size_t)s->ny *
                                              (size_t)layer_terms.pitch)
                               : psi;
    if (memory) {
      axes[i].psi_in = memory + taken;
      axes[i].psi_out = memory + taken + psi;
      *zeta_or_layer_terms = memory + taken + 2 * psi;
      axes[i].coefficients = memory + taken + 2 * psi + rest;
    }
    taken += 2 * psi + rest + round_up(2 * absorb_coefficient_count(c->boundary_width), SLAB_ALIGN);
  }
  return taken;
}

size_t absorb_bytes(const config *c, const slab *s) {
  absorb_args a;
  return absorb_deal_out(&a, c, s, NULL) * sizeof(float);
}

/* --- open and close ------------------------------------------------------------------------------------- */

/* Fills the coefficients of an axis, as absorb_axis lays them out. */
static void absorb_fill_coefficients(float *to, const absorb_profile *p) {
  const int width = p->width;
  float *psi_a = to + 2 * width, *psi_b = psi_a + width + ABSORB_BEYOND;
  for (int i = 0; i < width; i++) {
    absorb_coefficients(p, i, to + i, to + width + i);
    absorb_coefficients(p, i - 1.5, psi_a + i, psi_b + i);
  }
  for (int i = width; i < width + ABSORB_BEYOND; i++) psi_a[i] = psi_b[i] = 0;
}

static void absorb_set_weights(absorb *a, const config *c, const kernel_args *weights) {
  const float *const stencil[ABSORB_AXES] = {weights->wx, weights->wy, weights->wz};
  const double spacing[ABSORB_AXES] = {c->dx, c->dy, c->dz};
  double difference[2];
  absorb_difference_weights(c->space_order, c->boundary_width, difference);
  for (int k = 0; k < 2; k++) a->args.difference[k] = (float)difference[k];
  for (int i = 0; i < ABSORB_AXES; i++) {
    double sum = 0;
    for (int r = 1; r <= RADIUS; r++) sum += (double)stencil[i][r];
    a->args.axis[i].center = (float)(-2 * sum);
    for (int k = 0; k < 2; k++) a->args.axis[i].slope[k] = (float)(difference[k] / (spacing[i] * spacing[i]));
  }
}

int absorb_zero(absorb *a, char *to, size_t left, error *e) {
  const device_table *t = a->dev->table;
  const bool first = !a->zeros.memory; /* later, copies may be reading the zeros */
  TRY(device_reserve(a->dev, &a->zeros, ABSORB_PINNED, MEMORY_PINNED, e));
  if (first) memset(a->zeros.memory, 0, ABSORB_PINNED);
  for (size_t bytes; left; to += bytes, left -= bytes) {
    bytes = left < ABSORB_PINNED ? left : ABSORB_PINNED;
    TRY(t->copy(a->dev, STREAM_BOUNDARY, &(copy_args){to, a->zeros.memory, bytes, COPY_TO_DEVICE}, e));
  }
  return 0;
}

int absorb_clear(absorb *a, error *e) {
  for (int i = 0; i < ABSORB_AXES; i++) {
    const absorb_axis *axis = &a->args.axis[i];
    char *to = (char *)(axis->psi_in < axis->psi_out ? axis->psi_in : axis->psi_out);
    TRY(absorb_zero(a, to, (size_t)((const char *)axis->coefficients - to), e));
  }
  return a->dev->table->sync(a->dev, STREAM_BOUNDARY, e);
}

/* Copies the coefficients of all axes to the device, through `block`: first the steps' own, then
 * those at rest, which are of a step so long that all earlier values are forgotten. */
static int absorb_load_coefficients(absorb *a, const config *c, absorb_motion motion, float *block,
                                    error *e) {
  const device_table *t = a->dev->table;
  const double spacing[ABSORB_AXES] = {c->dx, c->dy, c->dz};
  const size_t count = absorb_coefficient_count(a->args.width), bytes = 2 * count * sizeof *block;
  for (int i = 0; i < ABSORB_AXES; i++) {
    if (!a->args.axis[i].coefficients) continue;
    absorb_profile profile = {a->args.width, spacing[i], motion.v_max, motion.dt};
    absorb_fill_coefficients(block, &profile);
    profile.dt = INFINITY;
    absorb_fill_coefficients(block + count, &profile);
    float *to = a->memory + (a->args.axis[i].coefficients - a->memory);
    TRY(t->copy(a->dev, STREAM_BOUNDARY, &(copy_args){to, block, bytes, COPY_TO_DEVICE}, e));
    TRY(t->sync(a->dev, STREAM_BOUNDARY, e)); /* the block is about to change */
  }
  return 0;
}

void absorb_plan(absorb *a, const problem *on) {
  *a = (absorb){
      .dev = on->dev, .args.width = on->config->boundary_width, .z0 = on->slab->z0, .nz = on->slab->nz};
  absorb_deal_out(&a->args, on->config, on->slab, NULL);
}

int absorb_open(absorb *a, const problem *on, const kernel_args *weights, absorb_motion motion, error *e) {
  const config *c = on->config;
  device *dev = on->dev;
  const size_t bytes = absorb_bytes(c, on->slab);
  void *memory, *block;
  absorb_plan(a, on);
  if (bytes == 0) return 0;
  TRY(dev->table->alloc(dev, &memory, bytes, MEMORY_DEVICE, e));
  a->memory = memory;
  absorb_deal_out(&a->args, c, on->slab, a->memory);
  absorb_set_weights(a, c, weights);
  TRY(absorb_clear(a, e));
  TRY(dev->table->alloc(dev, &block, 2 * absorb_coefficient_count(c->boundary_width) * sizeof(float),
                        MEMORY_PINNED, e));
  int failed = absorb_load_coefficients(a, c, motion, block, e);
  int not_freed = dev->table->free(dev, block, MEMORY_PINNED, e);
  return failed ? failed : not_freed;
}

void absorb_close(absorb *a) {
  error ignored = {0};
  if (a->memory) a->dev->table->free(a->dev, a->memory, MEMORY_DEVICE, &ignored);
  if (a->zeros.memory) device_release(a->dev, &a->zeros, MEMORY_PINNED);
  *a = (absorb){0};
}

/* --- steps ---------------------------------------------------------------------------------------------- */

bool absorb_needed(const absorb *a) {
  return a->memory != NULL;
}

int absorb_launch(const absorb *a, int stream, const kernel *k, const kernel_args *field, error *e) {
  const device_table *t = a->dev->table;
  if (!absorb_needed(a)) return t->launch(a->dev, stream, k, field, e);
  absorb_args args = a->args;
  args.field = *field;
  args.field.counter = a->dev->counters ? &a->dev->counters[stream] : NULL;
  if (k->layers) return t->apply(a->dev, stream, k->layers, &args, e);
  TRY(t->launch(a->dev, stream, k, field, e));
  return t->apply(a->dev, stream, &operation_absorb, &args, e);
}

const float *absorb_rest_coefficients(const absorb *a, int axis) {
  const float *steps = a->args.axis[axis].coefficients;
  return steps ? steps + absorb_coefficient_count(a->args.width) : NULL;
}

int absorb_at_rest(absorb *a, const kernel_args *half, error *e) {
  const device_table *t = a->dev->table;
  absorb_args args = a->args;
  args.field = *half;
  for (int i = 0; i < ABSORB_AXES; i++) {
    absorb_axis *axis = &args.axis[i];
    axis->center /= 2, axis->slope[0] /= 2, axis->slope[1] /= 2; /* as the weights */
    axis->coefficients = absorb_rest_coefficients(a, i);
  }
  TRY(t->apply(a->dev, STREAM_INTERIOR, &operation_absorb, &args, e));
  TRY(t->sync(a->dev, STREAM_INTERIOR, e));
  return absorb_clear(a, e);
}

void absorb_advance(absorb *a, int steps) {
  if (steps & 1) absorb_swap(&a->args);
}

/* --- what checkpoints save ------------------------------------------------------------------------------ */

/* Adds the slices of the layers along z; the high layer's are mirrored. */
static void absorb_add_slices(field *state, const absorb_axis *z, int nz) {
  const absorb_held lo = absorb_held_of(z, false, z->origin, nz), hi = absorb_held_of(z, true, z->origin, nz);
  const int local = lo.end - lo.begin;
  if (lo.end) state->slices[state->count++] = (field_slice){0, lo.begin, local, 0, lo.own - lo.begin};
  if (hi.end)
    state->slices[state->count++] =
        (field_slice){local, z->lo + z->hi - hi.end, hi.end - hi.begin, hi.end - hi.own, hi.own - hi.begin};
}

/* Lists the layer terms of the low and of the high layer along x. s: the field psi_x. */
static void absorb_list_layer_terms(const absorb *a, field s, field_set *f) {
  const absorb_axis *x = &a->args.axis[0];
  const absorb_layer_terms t = absorb_layer_terms_of(x, a->args.width, a->nz);
  s.shape[2] = t.pitch;
  for (int high = 0; high < 2; high++) {
    if ((high ? x->hi : x->lo) == 0) continue;
    memcpy(s.name, high ? "layer_term_hi" : "layer_term_lo", 14);
    if (a->memory)
      s.values = a->args.layer_terms +
                 absorb_layer_term_at(&t, (int)s.shape[1], high, (absorb_point){0, 0, high ? t.first : 0});
    f->list[f->count++] = s;
  }
}

void absorb_fields(const absorb *a, field_set *f) {
  const absorb_axis *axes = a->args.axis;
  for (int i = 0; i < ABSORB_AXES; i++) {
    const int64_t layers = axes[i].lo + axes[i].hi;
    if (layers == 0) continue;
    field s = {.name = {'p', 's', 'i', '_', (char)('x' + i)},
               .role = FIELD_LAYER,
               .saved = true,
               .shape = {axes[2].points, axes[1].points, axes[0].points},
               .values = axes[i].psi_in};
    s.shape[2 - i] = layers;
    if (i < 2)
      s.slices[s.count++] = (field_slice){0, a->z0, a->nz, 0, a->nz};
    else
      absorb_add_slices(&s, &axes[i], a->nz);
    f->list[f->count++] = s;
    if (i == 0) {
      absorb_list_layer_terms(a, s, f);
      continue;
    }
    memcpy(s.name, (char[]){'z', 'e', 't', 'a', '_', (char)('x' + i), 0}, 7);
    s.values = axes[i].zeta;
    f->list[f->count++] = s;
  }
}
