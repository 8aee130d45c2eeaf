/* From the configuration to a kernel's arguments: medium, time step, weights, values of ghosts. */
#ifndef STENCIL_PHYSICS_H
#define STENCIL_PHYSICS_H

#include "config/config.h"
#include "device/device.h"
#include "halo/slab.h"
#include "io/files.h"
#include "model.h"

struct dispersion_tables;

/* The problem that layers, sources and receivers are for. It owns nothing; all must outlive them. */
typedef struct problem {
  device *dev; /* NULL where only sizes are asked for */
  const slab *slab;
  const config *config;
  const files *files;
  struct dispersion_tables *transforms; /* the engine's; NULL: none are kept */
} problem;

typedef struct physics {
  enum equation form; /* the equation whose kernels advance the field (physics_form) */
  medium_range medium[EQUATION_MEDIA];
  model model; /* owned: physics_close */
  float *given
      [2]; /* velocity and, where it is a field, density as model_open gives them; owned. NULL: nobody asks */
  double bound; /* largest stable dt, s; INFINITY with given weights */
  double dt;    /* s; with given weights 1 unless given */
  int64_t steps;
} physics;

/* The equation whose kernels advance the field: where all media are numbers, they may be folded into the weights. */
enum equation physics_form(const config *c);

/* The dataset of medium i of the equation, in memory of `c`; NULL where the medium is *number (0: there is none). */
const char *physics_medium(const config *c, int i, double *number);
/* Is medium i a field, from a dataset or computed? physics_fields counts them. */
bool physics_is_field(const config *c, int i);
int physics_fields(const config *c);

/* Fills *p: reads the range of the medium from its file, then computes bound, time step and number of steps. dt_before:
 * the time step of the run that is continued, which an automatic dt repeats; 0: none. Exit 2 where a medium has
 * the wrong sign or its file cannot be read, exit 3 where dt is above the bound and that is not allowed,
 * exit 1 where end_time takes more steps than can be counted. Collective over files->compute, same error everywhere. */
int physics_plan(physics *p, const config *c, const files *files, const field_io *io, double dt_before,
                 error *e);

/* Frees what only loading needs: all arrays, except those that the gradient's chain rule needs (chain.h). */
void physics_loaded(physics *p, const config *c);
void physics_close(physics *p);
/* Exit 3 where dt is above the bound for the ranges that p->medium has now, and that is not allowed. Not for a run with
 * a model. */
int physics_check(physics *p, const config *c, error *e);

/* The kernels' factor of medium i: a number times a power of the medium's value. */
double physics_factor_of(const config *c, int i, double dt, double medium);
/* The kernels' factor, rounded once. `times`: what absorption changes the factor by; else 1. */
float physics_factor(const physics *p, const config *c, int i, double medium, double times);

/* Sets *a to the constants of all launches on this slab: weights, scale, geometry, ghost rules. Its pointers are NULL.
 * */
void physics_args(const physics *p, const config *c, const slab *s, kernel_args *a);

/* The greatest velocity that absorbing layers are made for: that of a step, or the one given. */
double physics_fastest(const physics *p, const config *c);

/* The value of the ghosts beyond each face; NaN where a rule or a neighbour fills them. */
void physics_ghosts(const config *c, float ghosts[FACE_COUNT]);

/* Is any face absorbing? */
bool physics_absorbs(const config *c);

/* Ideal traffic: bytes for each point and step. */
int physics_bytes(const config *c);

#endif
