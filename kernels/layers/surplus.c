/* The host function of surplus.h. It goes row by row, in runs of points that lie in the same layers. The compiler
 * makes vectors of the loops, for each instruction set. */
#include "surplus.h"
#include "base/isa.h"
#include "kernels/host_range.h"

enum { RUN = 256 /* points, the most at a time */ };

#define SURPLUS_ROWS(isa, target)                                                                            \
  target static void surplus_run_##isa(const surplus_args *a, const surplus_run *r, int n) {                 \
    float e[RUN], l[RUN];                                                                                    \
    for (int i = 0; i < a->steps; i++) surplus_step(a, &a->seen[i], r, e, l, n);                             \
  }
HOST_ISAS(SURPLUS_ROWS)

/* Does the points from p to before `end` in its row. */
static void surplus_do(const surplus_args *a, const surplus_region *region, absorb_point p, int end) {
  for (; p.x < end; p.x += RUN) {
    const int n = smaller(RUN, end - p.x);
    surplus_run r = surplus_run_of(a, region, p);
    if (a->kind == SURPLUS_STEP) {
      HOST_ISA_OF(surplus_run)(a, &r, n);
      continue;
    }
    for (absorb_point q = p; q.x < p.x + n; q.x++) {
      r = surplus_run_of(a, region, q);
      surplus_finish(a, surplus_at(&a->layers, q), &r);
    }
  }
}

static void surplus_host(const void *args, int part, int parts) {
  const surplus_args *a = args;
  const surplus_layers *s = &a->layers;
  const absorb_axis *x = &s->axis[0];
  const surplus_region region = surplus_region_of(s, 0, s->nz);
  const int rows = (a->field.z_end - a->field.z_begin) * s->ny, end = host_range_begin(rows, part + 1, parts);
  for (int row = host_range_begin(rows, part, parts); row < end; row++) {
    absorb_point p = {a->field.z_begin + row / s->ny, row % s->ny, 0};
    surplus_do(a, &region, p, x->lo);
    p.x = x->lo;
    if (surplus_locate(&s->axis[1], p.y).inward || surplus_locate(&s->axis[2], p.z).inward)
      surplus_do(a, &region, p, s->nx - x->hi);
    p.x = s->nx - x->hi;
    surplus_do(a, &region, p, s->nx);
  }
}

/* Rows with layers along y or z take longer. */
static int surplus_pieces(const void *args, int threads) {
  (void)args;
  return threads > 1 ? 4 : 1;
}

OPERATION(surplus, "the surplus of the adjoint field in layers", surplus_args, .host = surplus_host,
          .pieces = surplus_pieces)
