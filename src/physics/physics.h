/* From the configuration to numbers a kernel takes: the medium, the time step, weights, what ghosts hold. */
#ifndef STENCIL_PHYSICS_H
#define STENCIL_PHYSICS_H

#include <mpi.h>
#include "config/config.h"
#include "device/device.h"
#include "halo/slab.h"
#include "io/files.h"

/* What layers, sources and receivers work on. Nothing of it is owned; all of it outlives them. */
typedef struct problem {
  device *dev; /* NULL where only sizes are asked for */
  const slab *slab;
  const config *config;
  const files *files;
} problem;

typedef struct physics {
  enum equation
      form; /* whose kernels advance it: heat with one diffusivity is jacobi with dt alpha in the weights */
  double medium_min, medium_max; /* diffusivity, m^2/s, or velocity, m/s; 0 for jacobi */
  uint64_t medium_digest;        /* of a medium from a file: its values and where they are; 0: a number */
  double bound;                  /* largest stable dt, s; INFINITY for jacobi */
  double dt;                     /* s; jacobi: 1 unless given */
  int64_t steps;
} physics;

/* Whose kernels advance this equation. */
enum equation physics_form(const config *c);

/* The dataset of the medium, or NULL where it is one number (*number, 0 for jacobi). */
const char *physics_medium(const config *c, double *number);

/* Learns the range of the medium (reading its file), then bound, time step and number of steps. A medium that is not
 * positive is exit 2, a dt above the bound exit 3 unless allowed. dt_before: of the run that this one goes on from,
 * which an automatic dt repeats; 0: none. Collective over files->compute, same error everywhere. */
int physics_plan(physics *p, const config *c, const files *files, const field_io *io, double dt_before,
                 error *e);

/* What multiplies the Laplacian at a point of this medium, rounded once: dt alpha or dt^2 v^2. */
float physics_factor(const physics *p, const config *c, double medium);

/* Fills the constants of a launch: weights, scale, geometry and ghost rules of this slab. */
void physics_args(const physics *p, const config *c, const slab *s, kernel_args *a);

/* What ghosts beyond each face hold where no rule and no neighbour fills them; NaN where one does. */
void physics_ghosts(const config *c, float ghosts[FACE_COUNT]);

/* Is any face's absorbing? */
bool physics_absorbs(const config *c);

/* Ideal traffic, bytes a point and step. */
int physics_bytes(const config *c);

#endif
