/* Attributes of the files this program writes. */
#include "io_internal.h"
#include <string.h>
#include <time.h>
#include "version.h"

typedef struct attribute_values {
  hid_t type;
  int count; /* 0: a scalar */
  const void *at;
} attribute_values;

static int attribute_put(const char *file, hid_t object, const char *name, attribute_values v, error *e) {
  hsize_t shape[1] = {(hsize_t)v.count};
  hid_t space = v.count ? H5Screate_simple(1, shape, NULL) : H5Screate(H5S_SCALAR);
  hid_t attribute = space < 0 ? -1 : H5Acreate2(object, name, v.type, space, H5P_DEFAULT, H5P_DEFAULT);
  if (attribute < 0 || H5Awrite(attribute, v.type, v.at) < 0) FAIL(e, FILE_WRITE, file, HDF5_WHY);
  if (attribute >= 0) H5Aclose(attribute);
  if (space >= 0) H5Sclose(space);
  return e->id;
}

int attribute_int64(const char *file, hid_t object, const char *name, int count, const int64_t *values,
                    error *e) {
  return attribute_put(file, object, name, (attribute_values){H5T_NATIVE_INT64, count, values}, e);
}

int attribute_double(const char *file, hid_t object, const char *name, int count, const double *values,
                     error *e) {
  return attribute_put(file, object, name, (attribute_values){H5T_NATIVE_DOUBLE, count, values}, e);
}

hid_t text_type(size_t size) {
  const bool variable = size == H5T_VARIABLE;
  hid_t type = H5Tcopy(H5T_C_S1);
  if (type < 0 || (H5Tset_size(type, size) >= 0 &&
                   H5Tset_strpad(type, variable ? H5T_STR_NULLTERM : H5T_STR_NULLPAD) >= 0 &&
                   H5Tset_cset(type, variable ? H5T_CSET_UTF8 : H5T_CSET_ASCII) >= 0))
    return type;
  H5Tclose(type);
  return H5I_INVALID_HID;
}

int attribute_string(const char *file, hid_t object, const char *name, size_t size, const char *text,
                     error *e) {
  hid_t type = text_type(size);
  if (!text) text = "";
  if (type < 0) return FAIL(e, FILE_WRITE, file, HDF5_WHY);
  attribute_put(file, object, name,
                (attribute_values){type, 0, size == H5T_VARIABLE ? (const void *)&text : text}, e);
  H5Tclose(type);
  return e->id;
}

int attribute_text(const char *file, hid_t object, const char *name, const char *text, error *e) {
  return attribute_string(file, object, name, H5T_VARIABLE, text, e);
}

static int attribute_origin(const char *file, hid_t object, error *e) {
  char date[32] = "";
  time_t now = time(NULL);
  struct tm utc;
  if (gmtime_r(&now, &utc)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
  TRY(attribute_text(file, object, "created_by", "stencil " STENCIL_VERSION, e));
  TRY(attribute_text(file, object, "creation_date", date, e));
  return attribute_text(file, object, "git_hash", STENCIL_GIT_HASH, e);
}

int attribute_run(const char *file, hid_t object, const run_meta *m, error *e) {
  const int64_t ranks = m->mpi_ranks;
  const struct {
    const char *name, *text;
  } texts[] = {{"config", m->config_text}, {"command", m->command},     {"backend", m->backend},
               {"kernel", m->kernel},      {"transport", m->transport}, {"equation", m->equation}};
  TRY(attribute_int64(file, object, "step", 0, &m->step, e));
  TRY(attribute_double(file, object, "time", 0, &m->time, e));
  TRY(attribute_double(file, object, "dt", 0, &m->dt, e));
  TRY(attribute_int64(file, object, "mpi_ranks", 0, &ranks, e));
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    TRY(attribute_text(file, object, texts[i].name, texts[i].text, e));
  if (m->fingerprint) TRY(attribute_text(file, object, "fingerprint", m->fingerprint, e));
  return attribute_origin(file, object, e);
}
