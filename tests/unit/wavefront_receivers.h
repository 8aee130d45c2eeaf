/* Random receivers for a wavefront's test, and what they record one step after the other. */
#ifndef STENCIL_TEST_WAVEFRONT_RECEIVERS_H
#define STENCIL_TEST_WAVEFRONT_RECEIVERS_H

#include "test.h"
#include "kernels/wavefront.h"
#include <math.h>
#include <stdlib.h>

enum { RECEIVERS_MAX = 80 };

typedef struct recorders {
  int count, rows[RECEIVERS_MAX], *layer_begin;
  receiver places[RECEIVERS_MAX];
  float got[WAVEFRONT_DEPTH_MAX][RECEIVERS_MAX], expected[WAVEFRONT_DEPTH_MAX][RECEIVERS_MAX];
} recorders;

/* A receiver and what puts it in order. */
typedef struct placed {
  int layer, row;
  receiver place;
} placed;

static int by_layer(const void *a, const void *b) {
  const placed *p = a, *q = b;
  return p->layer != q->layer ? p->layer - q->layer : p->row - q->row;
}

/* A point of an axis of n and a fraction of the way to the next point, if there is one: anywhere, at the end, or near
 * `meet`, where other tiles or chunks begin. */
static int some_place(int n, int meet, bool beyond, float *fraction, uint64_t *random) {
  const int kind = random_below(random, 8);
  int at = kind == 0 ? n - 1 : kind < 4 ? meet - random_below(random, 2) : random_below(random, n);
  if (at < 0 || at >= n) at = random_below(random, n);
  *fraction = (float)random_below(random, 3) * 0.37f;
  if (at == n - 1 && !beyond) *fraction = 0;
  return at;
}

/* Often where tiles, chunks or slabs meet in some step. */
static placed some_receiver(const wavefront_args *a, uint64_t *random) {
  const kernel_args *f = &a->field;
  const int k = random_below(random, a->steps), tile = random_below(random, a->tiles);
  const int seam = host_share_begin(f->nz, random_below(random, a->chunks), a->chunks);
  receiver r;
  const int x = some_place(f->nx, 0, false, &r.fx, random);
  const int y = some_place(f->ny, tile * a->rows - wavefront_lean(a) * k, false, &r.fy, random);
  const int z = some_place(f->nz, seam + GHOST_REACH * k, a->upper, &r.fz, random);
  r.next_y = (ptrdiff_t)f->pitch, r.next_x = 1;
  r.at = z * (ptrdiff_t)f->plane + y * (ptrdiff_t)f->pitch + x;
  return (placed){2 * z + (r.fz != 0), y + (r.fy != 0), r};
}

/* Adds to the pass `a` up to RECEIVERS_MAX receivers, some at one place, and a row of samples for most of its steps. */
static void recorders_open(recorders *r, wavefront_args *a, uint64_t *random) {
  placed all[RECEIVERS_MAX];
  const int layers = 2 * a->field.nz;
  *r = (recorders){.layer_begin = calloc((size_t)layers + 1, sizeof *r->layer_begin)};
  assert_non_null(r->layer_begin);
  a->receivers = (wavefront_receivers){.places = r->places, .row = r->rows, .layer_begin = r->layer_begin};
  if (random_below(random, 5) == 0) return;
  r->count = 1 + random_below(random, RECEIVERS_MAX);
  for (int i = 0; i < r->count; i++)
    all[i] = i && random_below(random, 10) == 0 ? all[i - 1] : some_receiver(a, random);
  qsort(all, (size_t)r->count, sizeof *all, by_layer);
  for (int i = 0; i < r->count; i++) {
    r->places[i] = all[i].place, r->rows[i] = all[i].row;
    for (int layer = all[i].layer; layer < layers; layer++) r->layer_begin[layer + 1] = i + 1;
  }
  for (int k = 0; k < a->steps - 1; k++)
    if (random_below(random, 4)) a->receivers.samples[k] = r->got[k];
}

static void recorders_close(recorders *r) {
  free(r->layer_begin);
}

/* Before a pass: fills all rows with NaN, which rows that are not sampled must keep. */
static void recorders_clear(recorders *r) {
  for (int k = 0; k < WAVEFRONT_DEPTH_MAX; k++)
    for (int i = 0; i < RECEIVERS_MAX; i++) r->got[k][i] = NAN;
}

/* What step k should have recorded, from its whole output `u`. */
static void recorders_expect(recorders *r, const kernel_args *f, int k, const float *u) {
  const sample_args sample = {u, f->plane, r->places, r->count, r->expected[k]};
  operation_sample.host(&sample, 0, 1);
}

static void recorders_check(const recorders *r, const wavefront_args *a, int threads) {
  const kernel_args *f = &a->field;
  for (int k = 0; k < WAVEFRONT_DEPTH_MAX; k++)
    for (int i = 0; i < r->count; i++) {
      const float got = r->got[k][i], expected = r->expected[k][i];
      if (a->receivers.samples[k] ? memcmp(&got, &expected, sizeof got) == 0 : isnan(got)) continue;
      fail_msg("%s, %d steps, %d x %d x %d points, tiles of %d rows, %d threads, %d chunks, neighbours %d "
               "%d: step %d, "
               "receiver %d of plane %d, up to row %d, is %a, expected %a",
               equation_name(a->equation), a->steps, f->nx, f->ny, f->nz, a->rows, threads, a->chunks,
               a->lower, a->upper, k, i, (int)(r->places[i].at / (ptrdiff_t)f->plane), r->rows[i],
               (double)got, (double)expected);
    }
}

#endif
