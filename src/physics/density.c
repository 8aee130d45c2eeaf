#include "density.h"
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "kernels/kernel.h"

enum {
  WINDOW = 16 /* planes kept of each quantity: a power of two, above 5 + 1 + 5, on which one depends */
};

int density_inside(const density_axis *a, int i) {
  const int n = a->points, side = i >= n;
  if (i >= 0 && i < n) return i;
  if (a->end[side] == DENSITY_WRAP) return (i % n + n) % n;
  if (a->end[side] == DENSITY_EVEN) return side ? 2 * (n - 1) - i : -i;
  return side ? n - 1 : 0;
}

int density_settled(const density_axis *a, int i) {
  const int low = a->layers[0], high = a->points - 1 - a->layers[1];
  return i < low ? low : i > high ? high : i;
}

/* A quantity's planes, computed once each while they are in the window. Planes beyond the axis have places of their
 * own. So planes next to each other never share a place. */
typedef struct planes {
  double *values; /* WINDOW planes */
  int at[WINDOW]; /* which plane is in each place; INT_MIN: none */
} planes;

typedef struct density_work {
  const density_model *m;
  size_t points;           /* of a plane */
  planes rho, beta, sigma; /* rho and beta averaged along x and y, sigma of a finished plane */
  double *raw, *row, *sum; /* row: with RADIUS values beyond each end */
} density_work;

static double *density_place(density_work *w, planes *p, int z, bool *there) {
  const int slot = z & (WINDOW - 1);
  *there = p->at[slot] == z;
  p->at[slot] = z;
  return p->values + (size_t)slot * w->points;
}

/* Gives a row the values beyond its ends. */
static void density_pad(const density_axis *ax, double *row) {
  for (int r = 1; r <= RADIUS; r++) {
    row[-r] = row[density_inside(ax, -r)];
    row[ax->points - 1 + r] = row[density_inside(ax, ax->points - 1 + r)];
  }
}

/* Averages w->raw by (1, 22, 1) / 24 along rows and columns, into `to`. */
static void density_average(density_work *w, double *to) {
  const density_axis *ax = &w->m->axis[0], *ay = &w->m->axis[1];
  const size_t nx = (size_t)ax->points, ny = (size_t)ay->points;
  double *row = w->row + RADIUS;
  for (size_t y = 0; y < ny; y++) {
    const double *below = w->raw + nx * (size_t)density_inside(ay, (int)y - 1), *here = w->raw + nx * y,
                 *above = w->raw + nx * (size_t)density_inside(ay, (int)y + 1);
    for (size_t x = 0; x < nx; x++) row[x] = ny > 1 ? (below[x] + 22 * here[x] + above[x]) / 24 : here[x];
    density_pad(ax, row);
    for (size_t x = 0; x < nx; x++)
      to[nx * y + x] = nx > 1 ? (row[x - 1] + 22 * row[x] + row[x + 1]) / 24 : row[x];
  }
}

/* rho, or 1 / (rho v^2), of plane z, which may lie beyond the axis; averaged along x and y if the model is. */
static const double *density_plane(density_work *w, planes *p, int z, bool compressibility) {
  const density_model *m = w->m;
  bool there;
  double *to = density_place(w, p, z, &there);
  if (there) return to;
  z = density_inside(&m->axis[2], z);
  const float *rho = m->planes_of_rho ? m->planes_of_rho[z] : NULL;
  const float *v = compressibility && m->planes_of_v ? m->planes_of_v[z] : NULL;
  for (size_t i = 0; i < w->points; i++) {
    const double r = rho ? rho[i] / m->unit : m->rho, speed = v ? v[i] : m->v;
    w->raw[i] = compressibility ? 1 / (r * speed * speed) : r;
  }
  if (m->averaged)
    density_average(w, to);
  else
    memcpy(to, w->raw, w->points * sizeof *to);
  return to;
}

/* Averages plane z along z as well: a weighted sum of three planes. */
static void density_finish(density_work *w, planes *p, int z, bool compressibility, double *to) {
  const density_axis *az = &w->m->axis[2];
  const double *here = density_plane(w, p, z, compressibility);
  if (!w->m->averaged || az->points == 1) {
    memcpy(to, here, w->points * sizeof *to);
    return;
  }
  const double *below = density_plane(w, p, z - 1, compressibility);
  const double *above = density_plane(w, p, z + 1, compressibility);
  for (size_t i = 0; i < w->points; i++) to[i] = (below[i] + 22 * here[i] + above[i]) / 24;
}

static const double *density_sigma(density_work *w, int z) {
  bool there;
  double *to = density_place(w, &w->sigma, z, &there);
  if (there) return to;
  density_finish(w, &w->rho, density_inside(&w->m->axis[2], z), false, to);
  for (size_t i = 0; i < w->points; i++) to[i] = 1 / sqrt(to[i]);
  return to;
}

/* Computes V = (L sigma) / sigma of plane z by differences, which are 0 where sigma is constant. */
static void density_V(density_work *w, int z, float *V) {
  const density_axis *ax = &w->m->axis[0], *ay = &w->m->axis[1], *az = &w->m->axis[2];
  const size_t nx = (size_t)ax->points, ny = (size_t)ay->points;
  const double *here = density_sigma(w, z);
  for (size_t i = 0; i < w->points; i++) w->sum[i] = 0;
  for (int r = 1; r <= 4 && az->points > 1; r++) {
    const double *below = density_sigma(w, z - r), *above = density_sigma(w, z + r);
    for (size_t i = 0; i < w->points; i++)
      w->sum[i] += az->weight[r] * ((below[i] - here[i]) + (above[i] - here[i]));
  }
  for (size_t y = 0; y < ny; y++) {
    double *sum = w->sum + nx * y, *row = w->row + RADIUS;
    memcpy(row, here + nx * y, nx * sizeof *row);
    density_pad(ax, row);
    for (int r = 1; r <= RADIUS; r++) {
      const double *below = here + nx * (size_t)density_inside(ay, (int)y - r),
                   *above = here + nx * (size_t)density_inside(ay, (int)y + r);
      for (size_t x = 0; x < nx && ny > 1; x++)
        sum[x] += ay->weight[r] * ((below[x] - row[x]) + (above[x] - row[x]));
      const double *left = row - r, *right = row + r;
      for (size_t x = 0; x < nx && nx > 1; x++)
        sum[x] += ax->weight[r] * ((left[x] - row[x]) + (right[x] - row[x]));
    }
  }
  for (size_t i = 0; i < w->points; i++) V[i] = (float)(w->sum[i] / here[i]);
}

static int density_open(density_work *w, const density_model *m, error *e) {
  *w = (density_work){.m = m, .points = (size_t)m->axis[0].points * (size_t)m->axis[1].points};
  planes *const all[] = {&w->rho, &w->beta, &w->sigma};
  const size_t bytes = w->points * sizeof *w->raw;
  bool there = true;
  for (int i = 0; i < 3; i++) {
    there = (all[i]->values = malloc(WINDOW * bytes)) && there;
    for (int k = 0; k < WINDOW; k++) all[i]->at[k] = INT_MIN;
  }
  w->raw = malloc(bytes);
  w->sum = malloc(bytes);
  w->row = malloc(((size_t)m->axis[0].points + 2 * RADIUS) * sizeof *w->row);
  return there && w->raw && w->sum && w->row
             ? 0
             : FAIL(e, OUT_OF_MEMORY, (3 * WINDOW + 3) * bytes, "planes of the density");
}

static void density_close(density_work *w) {
  planes *const all[] = {&w->rho, &w->beta, &w->sigma};
  for (int i = 0; i < 3; i++) free(all[i]->values);
  free(w->raw);
  free(w->sum);
  free(w->row);
}

int density_compute(const density_model *m, int begin, int end, const density_fields *to, error *e) {
  density_work w;
  density_open(&w, m, e);
  for (int z = begin; z < end && !e->id; z++) {
    const int own = z - to->z0;
    const double *sigma = density_sigma(&w, z);
    for (size_t i = 0; i < w.points && to->sigma; i++)
      to->sigma[(size_t)(own + to->ghosts) * w.points + i] = (float)sigma[i];
    if (own < 0 || own >= to->nz) continue;
    if (to->V) density_V(&w, z, to->V + (size_t)own * w.points);
    const float *v = m->planes_of_v ? m->planes_of_v[z] : NULL;
    if (m->averaged) density_finish(&w, &w.beta, z, true, w.sum);
    for (size_t i = 0; i < w.points; i++)
      to->velocity[(size_t)own * w.points + i] = m->averaged ? (float)sqrt(sigma[i] * sigma[i] / w.sum[i])
                                                 : v         ? v[i]
                                                             : (float)m->v;
  }
  density_close(&w);
  return e->id;
}
