/* PATH.gradient.h5: a gradient's fields, as a saved field is written (field_io.h), with the misfits and the gradients
 * of signals. The gradient of a survey is the sum of its shots' gradients. The sum of these float32 numbers is exact
 * whatever their order (exact_sum.h), and rounded once. */
#ifndef STENCIL_GRADIENT_FILE_H
#define STENCIL_GRADIENT_FILE_H

#include "config/config.h"
#include "io/hdf5/field_io.h"
#include "io/bytes/rows.h"

/* The fields that a file may have: /velocity, /initial, /image, /illumination. */
enum gradient_field {
  GRADIENT_VELOCITY,
  GRADIENT_INITIAL,
  GRADIENT_IMAGE,
  GRADIENT_ILLUMINATION,
  GRADIENT_FIELDS
};
static const field_name GRADIENT_NAMES[GRADIENT_FIELDS] = {
    [GRADIENT_VELOCITY] = {"velocity", "s2/m", "gradient of the misfit with respect to the velocity"},
    [GRADIENT_INITIAL] = {"initial", "s", "gradient of the misfit with respect to the initial field"},
    [GRADIENT_IMAGE] = {"image", "m2 s", "sum over the steps of the field times the adjoint field"},
    [GRADIENT_ILLUMINATION] = {"illumination", "1", "sum over the steps of the field squared"}};

/* What a gradient has besides the fields. It owns nothing. */
typedef struct gradient_meta {
  int shots;
  const char *const *names;     /* of the shots */
  const double *misfit;         /* of each shot; NULL: unknown */
  int signals;                  /* sources whose signals have gradients */
  int64_t steps;                /* of these signals */
  const float *signal_gradient; /* steps x signals */
  const char *verified;         /* what --verify-gradient has found; NULL: nothing */
} gradient_meta;

struct new_hdf5;
struct message;
/* Creates /misfit (shot) and /signals (time, source) in a file, without values; `at`: where the values begin. */
void gradient_describe(struct new_hdf5 *f, const run_meta *run, const gradient_meta *m, uint64_t at[2]);
/* Writes the values there. */
int gradient_put(const row_file *f, const gradient_meta *m, const uint64_t at[2], error *e);
/* Carries a gradient_meta in a message (message.h). */
void gradient_carry(struct message *m, const gradient_meta **g);

/* Writes PATH.gradient.h5, the sum of the gradients of the shots meta->gradient->names, which are in
 * PATH/NAME.gradient.h5. Exit 2 where a gradient cannot be read. For one process alone, not collective. */
int gradient_sum(const char *path, const config *c, const field_meta *meta, error *e);

#endif
