/* From the configuration to a kernel's arguments: medium, time step, weights, values of ghosts. */
#ifndef STENCIL_PHYSICS_H
#define STENCIL_PHYSICS_H

#include <mpi.h>
#include "config/config.h"
#include "device/device.h"
#include "halo/slab.h"
#include "io/files.h"

/* What layers, sources and receivers work on. It owns nothing; all of it must outlive them. */
typedef struct problem {
  device *dev; /* NULL where only sizes are asked for */
  const slab *slab;
  const config *config;
  const files *files;
} problem;

typedef struct physics {
  enum equation form;            /* whose kernels advance the field (physics_form) */
  double medium_min, medium_max; /* diffusivity, m^2/s, or velocity, m/s; 0 for jacobi */
  uint64_t medium_digest; /* of a medium from a file: a hash of its values and their positions; 0: a number */
  double bound;           /* largest stable dt, s; INFINITY for jacobi */
  double dt;              /* s; jacobi: 1 unless given */
  int64_t steps;
} physics;

/* The equation whose kernels advance the field: heat with one diffusivity is jacobi with dt alpha in the weights. */
enum equation physics_form(const config *c);

/* The dataset of the medium, in memory of `c`; NULL where the medium is *number (0 for jacobi). */
const char *physics_medium(const config *c, double *number);
/* What it measures. */
enum quantity physics_quantity(const config *c);

/* Fills *p: reads the range of the medium from its file, then computes bound, time step and number of steps. dt_before:
 * the time step of the run that is continued, which an automatic dt repeats; 0: none. Exit 2 where the medium is
 * negative (a velocity: or 0) or its file cannot be read, exit 3 where dt is above the bound and that is not allowed,
 * exit 1 where end_time takes more steps than can be counted. Collective over files->compute, same error everywhere. */
int physics_plan(physics *p, const config *c, const files *files, const field_io *io, double dt_before,
                 error *e);

/* What multiplies the Laplacian at a point of this medium, rounded once: dt alpha or dt^2 v^2. */
float physics_factor(const physics *p, const config *c, double medium);

/* Sets *a to the constants of all launches on this slab: weights, scale, geometry, ghost rules. Its pointers are NULL.
 * */
void physics_args(const physics *p, const config *c, const slab *s, kernel_args *a);

/* The value of the ghosts beyond each face; NaN where a rule or a neighbour fills them. */
void physics_ghosts(const config *c, float ghosts[FACE_COUNT]);

/* Is any face absorbing? */
bool physics_absorbs(const config *c);

/* Time levels of the field that the next step depends on. */
int physics_levels(const config *c);

/* Ideal traffic: bytes for each point and step. */
int physics_bytes(const config *c);

#endif
