/* Media with density. Steps advance q = sigma p instead of the pressure p, because its equation has the plain Laplacian
 * and one more product. So the same stencil serves, and no step differentiates rho:
 *   q(tt) = v_f^2 (L q - V q),   sigma = rho_f^(-1/2),   V = (L sigma) / sigma,   v_f^2 = 1 / (rho_f beta_f)
 * rho_f and beta_f are rho and 1 / (rho v^2), averaged by (1, 22, 1) / 24 along each axis, or unchanged. L is the
 * stencil's Laplacian. In absorbing layers rho is constant along the normal, as at their inner edge: else V would grow
 * where derivatives are stretched. */
#ifndef STENCIL_DENSITY_H
#define STENCIL_DENSITY_H

#include <stdbool.h>
#include "base/error.h"

/* The continuation beyond the ends of an axis. At reflecting faces rho is even. */
enum density_end { DENSITY_EDGE, DENSITY_EVEN, DENSITY_WRAP };

typedef struct density_axis {
  int points;    /* of the grid; 1: the axis does not exist */
  int layers[2]; /* points of the absorbing layers at its ends */
  enum density_end end[2];
  double weight[5]; /* weights of L, with 1 / h^2: of the point, of points 1 to 4 away */
} density_axis;

/* The model. planes_of_*: by global number z, (ny, nx) values each; NULL: the quantity is a number. rho is settled
 * (density_settled). */
typedef struct density_model {
  density_axis axis[3]; /* x, y, z */
  bool averaged;
  double rho, v; /* where there are no planes */
  double unit;   /* the unit of planes of rho */
  const float *const *planes_of_rho, *const *planes_of_v;
} density_model;

/* The results: global planes [z0, z0 + nz), (ny, nx) values each; sigma also in `ghosts` planes before and after. NULL:
 * not wanted; V always where rho is a number. */
typedef struct density_fields {
  int z0, nz, ghosts;
  float *sigma, *V, *velocity;
} density_fields;

/* The index of the point whose value point i has. Point i may lie beyond the axis. */
int density_inside(const density_axis *a, int i);
/* The index of the point whose rho point i has: in an absorbing layer, the point at the layer's inner edge. */
int density_settled(const density_axis *a, int i);

/* Computes planes [begin, end) of sigma, and V and velocity where they have these planes. The bits do not depend on the
 * range. OUT_OF_MEMORY. */
int density_compute(const density_model *m, int begin, int end, const density_fields *to, error *e);

#endif
