/* What steps with density work on. With q = sigma p the wave equation in a medium of density rho is
 *   q(tt) = v_f^2 (L q - V q),   sigma = rho_f^(-1/2),   V = (L sigma) / sigma,   v_f^2 = 1 / (rho_f beta_f)
 * where rho_f and beta_f are rho and 1 / (rho v^2), each averaged by (1, 22, 1) / 24 along each axis, or as they are. L
 * is the stencil's Laplacian. Along the normal of absorbing layers rho is what it is at their inner edge: else V grows
 * where derivatives are stretched. */
#ifndef STENCIL_DENSITY_H
#define STENCIL_DENSITY_H

#include <stdbool.h>
#include "base/error.h"

/* What lies beyond the ends of an axis. Of rho all that reflects is even. */
enum density_end { DENSITY_EDGE, DENSITY_EVEN, DENSITY_WRAP };

typedef struct density_axis {
  int points;    /* of the grid; 1: the axis does not exist */
  int layers[2]; /* points of the absorbing layers at its ends */
  enum density_end end[2];
  double weight[5]; /* of L along it: of the point, and of those 1 to 4 away, with 1 / h^2 */
} density_axis;

/* The model. planes_of_*: by global number z, (ny, nx) values each; NULL: it is a number. rho is settled
 * (density_settled). */
typedef struct density_model {
  density_axis axis[3]; /* x, y, z */
  bool averaged;
  double rho, v; /* where there are no planes */
  double unit;   /* of planes of rho: they count relative to it */
  const float *const *planes_of_rho, *const *planes_of_v;
} density_model;

/* Where results go: global planes [z0, z0 + nz), (ny, nx) values each; sigma from the `ghosts` planes before to those
 * after. NULL: they are not asked for; V never where rho is a number. */
typedef struct density_fields {
  int z0, nz, ghosts;
  float *sigma, *V, *velocity;
} density_fields;

/* Index i, up to what a point depends on beyond the axis, of the point that has its value. */
int density_inside(const density_axis *a, int i);
/* The point whose rho a point has: in an absorbing layer that at its inner edge. */
int density_settled(const density_axis *a, int i);

/* Computes planes [begin, end) of sigma and what of them V and velocity have. The same bits whatever the range.
 * OUT_OF_MEMORY. */
int density_compute(const density_model *m, int begin, int end, const density_fields *to, error *e);

#endif
