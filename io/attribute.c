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

static void attribute_put(new_hdf5 *f, hid_t object, const char *name, attribute_values v) {
  if (f->failure.id) return;
  hsize_t shape[1] = {(hsize_t)v.count};
  hid_t space = v.count ? H5Screate_simple(1, shape, NULL) : H5Screate(H5S_SCALAR);
  hid_t attribute = space < 0 ? -1 : H5Acreate2(object, name, v.type, space, H5P_DEFAULT, H5P_DEFAULT);
  new_hdf5_check(f, attribute >= 0 && H5Awrite(attribute, v.type, v.at) >= 0);
  if (attribute >= 0) H5Aclose(attribute);
  if (space >= 0) H5Sclose(space);
}

void attribute_int64(new_hdf5 *f, hid_t object, const char *name, int count, const int64_t *values) {
  attribute_put(f, object, name, (attribute_values){H5T_NATIVE_INT64, count, values});
}

void attribute_double(new_hdf5 *f, hid_t object, const char *name, int count, const double *values) {
  attribute_put(f, object, name, (attribute_values){H5T_NATIVE_DOUBLE, count, values});
}

hid_t text_type(new_hdf5 *f, size_t size) {
  const bool variable = size == H5T_VARIABLE;
  hid_t type = H5Tcopy(H5T_C_S1);
  new_hdf5_check(f, type >= 0 && H5Tset_size(type, size) >= 0 &&
                        H5Tset_strpad(type, variable ? H5T_STR_NULLTERM : H5T_STR_NULLPAD) >= 0 &&
                        H5Tset_cset(type, variable ? H5T_CSET_UTF8 : H5T_CSET_ASCII) >= 0);
  return type;
}

void attribute_string(new_hdf5 *f, hid_t object, const char *name, size_t size, const char *text) {
  hid_t type = text_type(f, size);
  if (!text) text = "";
  attribute_put(f, object, name,
                (attribute_values){type, 0, size == H5T_VARIABLE ? (const void *)&text : text});
  if (type >= 0) H5Tclose(type);
}

void attribute_text(new_hdf5 *f, hid_t object, const char *name, const char *text) {
  attribute_string(f, object, name, H5T_VARIABLE, text);
}

void attribute_run(new_hdf5 *f, const run_meta *m) {
  const int64_t ranks = m->mpi_ranks;
  char date[32] = "";
  time_t now = time(NULL);
  struct tm utc;
  if (gmtime_r(&now, &utc)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
  const struct {
    const char *name, *text;
  } texts[] = {{"config", m->config_text},
               {"command", m->command},
               {"backend", m->backend},
               {"kernel", m->kernel},
               {"transport", m->transport},
               {"equation", m->equation},
               {"created_by", "stencil " STENCIL_VERSION},
               {"creation_date", date},
               {"git_hash", STENCIL_GIT_HASH}};
  attribute_int64(f, f->file, "step", 0, &m->step);
  attribute_double(f, f->file, "time", 0, &m->time);
  attribute_double(f, f->file, "dt", 0, &m->dt);
  attribute_int64(f, f->file, "mpi_ranks", 0, &ranks);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    attribute_text(f, f->file, texts[i].name, texts[i].text);
  if (m->fingerprint) attribute_text(f, f->file, "fingerprint", m->fingerprint);
}
