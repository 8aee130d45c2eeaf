#include "initial.h"
#include <math.h>
#include "base/numbers.h"
#include "halo/slab.h"

static float initial_random(uint64_t seed, uint64_t index) {
  uint64_t bits = mix64(mix64(seed) ^ index) >> 40; /* 24 bits: what a float holds exactly */
  return (float)bits * 0x1p-23f - 1.0f;
}

static float initial_gaussian(const config *c, int z, int y, int x) {
  double rx = c->origin[0] + x * c->dx - c->gaussian_center[0];
  double ry = c->origin[1] + y * c->dy - c->gaussian_center[1];
  double rz = c->origin[2] + z * c->dz - c->gaussian_center[2];
  double a = (rx * rx + ry * ry + rz * rz) / (2 * c->gaussian_width * c->gaussian_width);
  return (float)(c->gaussian_amplitude * exp(-a));
}

void initial_fill(const config *c, int z, int planes, float *values) {
  for (int p = 0; p < planes; p++)
    for (int y = 0; y < c->ny; y++)
      for (int x = 0; x < c->nx; x++) {
        uint64_t global = ((uint64_t)(z + p) * (uint64_t)c->ny + (uint64_t)y) * (uint64_t)c->nx + (uint64_t)x;
        float value = 0;
        if (c->initial == INITIAL_NUMBER) value = (float)c->initial_number;
        if (c->initial == INITIAL_GAUSSIAN) value = initial_gaussian(c, z + p, y, x);
        if (c->initial == INITIAL_RANDOM) value = initial_random(c->seed, global);
        *values++ = value;
      }
}

/* With zero initial velocity u(-dt) = u(dt), so both are u + dt^2 v^2 / 2 lap u: second order, as leapfrog is. That is
 * a step of heat with half the medium; halving the weights instead does not round. */
int initial_at_rest(device *dev, const kernel_args *step, error *e) {
  const enum backend backend = dev->table->backend;
  const kernel *k; /* all kernels give the same bits; `naive` runs on every GPU */
  TRY(kernel_find(backend == BACKEND_CUDA ? "naive" : "auto", EQUATION_HEAT, backend, &k, e));
  kernel_args half = *step;
  half.center /= 2;
  for (int r = 1; r <= RADIUS; r++) half.wx[r] /= 2, half.wy[r] /= 2, half.wz[r] /= 2;
  TRY(dev->table->launch(dev, STREAM_INTERIOR, k, &half, e));
  return dev->table->sync(dev, STREAM_INTERIOR, e);
}
