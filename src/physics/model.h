/* The medium of an equation with terms: makes the steps' fields from datasets of density and absorption. Where neither
 * is given and nothing is averaged there is no model, and kernels get the velocity alone. Formulas: density.h,
 * relaxation.h. */
#ifndef STENCIL_MODEL_H
#define STENCIL_MODEL_H

#include "config/config.h"
#include "density.h"
#include "halo/slab.h"
#include "io/files.h"
#include "relaxation.h"

/* Range of a medium, in its unit. */
typedef struct medium_range {
  double min, max;
  uint64_t digest; /* from a file: a hash of its values and their positions; 0: a number */
} medium_range;

enum { MODEL_STEPS = 4096 /* of the table of losses */ };

/* Arrays are host memory, own planes (nz, ny, nx), owned; NULL where the run lacks them. */
typedef struct model {
  bool needed; /* false: all other members are 0 */
  bool absorbs;
  float *velocity;  /* to step with, m/s; NULL: as given */
  float *sigma, *V; /* sigma: u = sigma p, with RADIUS planes before and after; V: 1/m^2 */
  float *loss;      /* alpha velocity / omega at the reference */
  double fastest;   /* greatest velocity to step with, m/s */
  medium_range given, density, strength; /* given: the velocity; strength: quality or absorption */
  loss_law law;
  relaxation fit;
  double *kappa, *speed; /* MODEL_STEPS + 1 each, by loss, up to the law's; one array, kappa, is owned */
} model;

/* Does this configuration have a model? */
bool model_needed(const config *c);

/* Reads and computes all that does not depend on dt. Exit 2 where a dataset cannot be read or has a wrong value. given:
 * gets own planes of the given velocity, and of the settled density, or NULL where the density is a number. The caller
 * frees both, also after a failure. given NULL: nobody wants them. Collective over files->compute, agreed. Call
 * model_close, also after a failure. */
int model_open(model *m, const config *c, const files *files, const field_io *io, float **given, error *e);
/* Fits the relaxations at this dt; all ranks get rank 0's fit. Exit 1 where the band is beyond what steps of dt carry
 * or a loss is too strong. Collective over files->compute, agreed. */
int model_fit(model *m, const config *c, const files *files, const slab *s, double dt, error *e);
/* Exit 1 where the fit is more than 35 % off the law; with one mechanism, more than 50 %. */
int model_check_fit(const model *m, error *e);
/* The advice for a better fit, for messages. */
const char *model_fit_cure(const model *m);
/* Finds the greatest v^2 (S + V) of all ranks, times the factor of absorption once that is fitted. dt is stable where
 * dt^2 times the result is at most 4. sum: S. Collective over files->compute. */
int model_stiffness(const model *m, const files *files, const slab *s, double sum, double *most, error *e);
/* kappa of a loss, and the factor of velocity^2 there. */
float model_kappa(const model *m, float loss);
double model_speed(const model *m, float loss);
/* Describes the model in a line for the log and files, without its end. Returns its length; 0: nothing to say. */
int model_describe(const model *m, const config *c, char *text, size_t size);
/* Frees the arrays; model_keep_averages keeps velocity and sigma. */
void model_keep_averages(model *m);
void model_close(model *m);

/* Points, layers, ends and weights of the axes x, y and z. */
void model_axes(density_axis axis[3], const config *c);
/* The quantity of a medium's dataset. */
enum quantity model_quantity(enum medium which);
/* Further targets of a medium's values. */
typedef struct model_target {
  float *to;        /* own planes; NULL: nowhere */
  field_sink *next; /* NULL, or gets the values and may spoil them; then the range has no digest */
  void *context;    /* of next, and of on_device */
  int (*on_device)(void *context, const float *values, bool *taken,
                   error *e); /* as request_own.take_device; or NULL */
} model_target;
/* Reads a medium into `to` (NULL: only the range). Values must be above 0, or at least 0 where the medium may be 0.
 * Collective, not agreed. */
int model_read(const model_target *to, medium_range *r, const config *c, enum medium which,
               const files *files, const field_io *io, error *e);

#endif
