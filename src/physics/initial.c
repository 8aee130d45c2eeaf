#include "initial.h"
#include <math.h>
#include <string.h>
#include "base/numbers.h"
#include "kernels/operations/operation.h"
#include "outside.h"

enum { INITIAL_ROW = 512 /* points */ };

static float initial_random(uint64_t seed, uint64_t index) {
  uint64_t bits = mix64(mix64(seed) ^ index) >> 40; /* 24 bits: what a float holds exactly */
  return (float)bits * 0x1p-23f - 1.0f;
}

/* The gaussian along one axis at a point; the whole gaussian is a product over the axes. */
typedef struct initial_part {
  double squared; /* squared distance to the nearest image, m^2 */
  double images;  /* sum over all images, divided by the value of the nearest; 1: no images */
} initial_part;

/* Computes initial_part.images of a gaussian of standard deviation w, at a distance r <= 1/2 of the nearest image, both
 * in periods. A narrow gaussian is summed over its images, a wide one by its Fourier series (Poisson). At the change
 * the terms of both fall alike; four are enough for float64. */
static double initial_images(double r, double w) {
  const double wide = w * sqrt(2 * M_PI);
  double sum = 1;
  for (int k = 1; k <= 4; k++)
    sum += wide < 1 ? exp(-k * (k + 2 * r) / (2 * w * w)) + exp(-k * (k - 2 * r) / (2 * w * w))
                    : 2 * exp(-M_PI * wide * wide * k * k) * cos(2 * M_PI * k * r);
  return wide < 1 ? sum : sum * wide * exp(r * r / (2 * w * w));
}

static initial_part initial_part_of(const config *c, int axis, int point) {
  const config_axis a = config_axis_given(c, axis);
  const double period = a.points * a.spacing;
  double r = a.first + point * a.spacing - c->gaussian_center[axis];
  if (a.spacing == 0) r = 0;
  if (a.periodic) r = remainder(r, period);
  return (initial_part){r * r, a.periodic ? initial_images(r / period, c->gaussian_width / period) : 1};
}

static float initial_gaussian(const config *c, initial_part z, initial_part y, initial_part x) {
  const double a = (x.squared + y.squared + z.squared) / (2 * c->gaussian_width * c->gaussian_width);
  return (float)(c->gaussian_amplitude * exp(-a) * (x.images * y.images * z.images));
}

/* Fills points [begin, end) of all rows, at most INITIAL_ROW, from what is computed once for all rows. */
static void initial_gaussian_rows(const config *c, int plane, int begin, int end, float *values) {
  initial_part x[INITIAL_ROW];
  const initial_part z = initial_part_of(c, 2, plane);
  for (int i = begin; i < end; i++) x[i - begin] = initial_part_of(c, 0, i);
  for (int row = 0; row < c->ny; row++) {
    const initial_part y = initial_part_of(c, 1, row);
    for (int i = begin; i < end; i++)
      values[(size_t)row * (size_t)c->nx + (size_t)i] = initial_gaussian(c, z, y, x[i - begin]);
  }
}

/* Fills plane z of the grid given. */
static void initial_fill_given(const config *c, int z, float *values) {
  const size_t points = (size_t)c->nx * (size_t)c->ny;
  const uint64_t first = (uint64_t)z * (uint64_t)points;
  if (c->initial == INITIAL_GAUSSIAN) {
    for (int x = 0; x < c->nx; x += INITIAL_ROW)
      initial_gaussian_rows(c, z, x, smaller(x + INITIAL_ROW, c->nx), values);
    return;
  }
  for (size_t i = 0; i < points; i++)
    values[i] = c->initial == INITIAL_NUMBER   ? (float)c->initial_number
                : c->initial == INITIAL_RANDOM ? initial_random(c->seed, first + i)
                                               : 0;
}

void initial_fill(const config *c, int z, float *values) {
  const int given = z - config_beyond(c, FACE_Z_LO);
  if (given < 0 || given >= c->nz) {
    memset(values, 0,
           (size_t)config_axis_of(c, 0).points * (size_t)config_axis_of(c, 1).points * sizeof *values);
    return;
  }
  initial_fill_given(c, given, values);
  if (config_extends(c)) outside_spread(c, values, values, false);
}

/* With zero initial velocity u(-dt) = u(dt). So both are u + dt^2 v^2 / 2 lap u, of second order as leapfrog. A step of
 * the equation `rest` with half the medium gives this sum; halving the weights instead does not round. */
int initial_at_rest(device *dev, enum equation rest, const kernel_args *step, float *scratch, absorb *layers,
                    error *e) {
  const enum backend backend = dev->table->backend;
  const bool density = step->terms.density;
  const kernel *k; /* all kernels give the same bits; `naive` runs on every GPU, and these two do V */
  TRY(kernel_find(backend == BACKEND_CUDA ? "naive" : density ? "reference" : "auto", rest, backend, &k, e));
  kernel_args half = *step;
  half.equation = rest, half.center /= 2;
  half.terms = (kernel_terms){.density = density ? scratch : NULL};
  for (int r = 1; r <= RADIUS; r++) half.wx[r] /= 2, half.wy[r] /= 2, half.wz[r] /= 2;
  const scale_args of_V = scale_as(SCALE_HALF, step->terms.density, NULL, scratch, step);
  if (density) TRY(dev->table->apply(dev, STREAM_INTERIOR, &operation_scale, &of_V, e));
  TRY(dev->table->launch(dev, STREAM_INTERIOR, k, &half, e));
  if (layers) TRY(absorb_at_rest(layers, &half, e));
  return dev->table->sync(dev, STREAM_INTERIOR, e);
}
