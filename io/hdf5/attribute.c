/* Attributes: written into new files, and read. */
#include "io_internal.h"
#include <string.h>
#include <time.h>
#include "version.h"

typedef struct attribute_values {
  hid_t type;
  int count; /* 0: a scalar */
  const void *at;
} attribute_values;

static void attribute_put(new_hdf5 *f, const char *object, const char *name, attribute_values v) {
  if (f->failure.id) return;
  hsize_t shape[1] = {(hsize_t)v.count};
  hid_t space = v.count ? H5Screate_simple(1, shape, NULL) : H5Screate(H5S_SCALAR);
  hid_t attribute = space < 0 ? -1
                              : H5Acreate_by_name(f->file, object, name, v.type, space, H5P_DEFAULT,
                                                  H5P_DEFAULT, H5P_DEFAULT);
  new_hdf5_check(f, attribute >= 0 && H5Awrite(attribute, v.type, v.at) >= 0);
  if (attribute >= 0) H5Aclose(attribute);
  if (space >= 0) H5Sclose(space);
}

void attribute_int64(new_hdf5 *f, const char *object, const char *name, int count, const int64_t *values) {
  attribute_put(f, object, name, (attribute_values){H5T_NATIVE_INT64, count, values});
}

void attribute_double(new_hdf5 *f, const char *object, const char *name, int count, const double *values) {
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

void attribute_string(new_hdf5 *f, const char *object, const char *name, size_t size, const char *text) {
  hid_t type = text_type(f, size);
  if (!text) text = "";
  attribute_put(f, object, name,
                (attribute_values){type, 0, size == H5T_VARIABLE ? (const void *)&text : text});
  if (type >= 0) H5Tclose(type);
}

void attribute_text(new_hdf5 *f, const char *object, const char *name, const char *text) {
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
  attribute_int64(f, "/", "step", 0, &m->step);
  attribute_double(f, "/", "time", 0, &m->time);
  attribute_double(f, "/", "dt", 0, &m->dt);
  attribute_int64(f, "/", "mpi_ranks", 0, &ranks);
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    attribute_text(f, "/", texts[i].name, texts[i].text);
  if (m->fingerprint) attribute_text(f, "/", "fingerprint", m->fingerprint);
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

/* Opens an attribute. Returns how many values it has; 0: it does not exist; -1: HDF5 failed, and `why` says why. */
static int attribute_open(hid_t object, const char *name, hid_t *attribute, hid_t *type,
                          char why[HDF5_TEXT]) {
  *attribute = *type = H5I_INVALID_HID;
  why[0] = 0;
  const htri_t there = H5Aexists(object, name);
  if (there > 0) *attribute = H5Aopen(object, name, H5P_DEFAULT);
  hid_t space = *attribute < 0 ? H5I_INVALID_HID : H5Aget_space(*attribute);
  if (space >= 0) *type = H5Aget_type(*attribute);
  const hssize_t count = there == 0 ? 0 : *type < 0 ? -1 : H5Sget_simple_extent_npoints(space);
  if (count < 0) hdf5_why(why);
  if (space >= 0) H5Sclose(space);
  return count > INT32_MAX ? INT32_MAX : (int)count;
}

static void attribute_close(hid_t attribute, hid_t type) {
  if (type >= 0) H5Tclose(type);
  if (attribute >= 0) H5Aclose(attribute);
}

int attribute_get_numbers(hid_t object, const char *name, int most, double values[], char why[HDF5_TEXT]) {
  hid_t attribute, type;
  int count = attribute_open(object, name, &attribute, &type, why);
  if (attribute >= 0 && (count < 1 || count > most || !hdf5_sound_number(type))) count = -1;
  if (count > 0 && H5Aread(attribute, H5T_NATIVE_DOUBLE, values) < 0) {
    hdf5_why(why);
    count = -1;
  }
  attribute_close(attribute, type);
  return count;
}

int attribute_get_text(hid_t object, const char *name, char text[ATTRIBUTE_TEXT], char why[HDF5_TEXT]) {
  hid_t attribute, type;
  char *variable = NULL;
  int count = attribute_open(object, name, &attribute, &type, why);
  const bool varies = count > 0 && H5Tis_variable_str(type) > 0;
  memset(text, 0, ATTRIBUTE_TEXT);
  if (count > 1 ||
      (count > 0 && (H5Tget_class(type) != H5T_STRING || (!varies && H5Tget_size(type) >= ATTRIBUTE_TEXT))))
    count = -1;
  if (count > 0 && H5Aread(attribute, type, varies ? (void *)&variable : text) < 0) {
    hdf5_why(why);
    count = -1;
  }
  if (variable) snprintf(text, ATTRIBUTE_TEXT, "%s", variable);
  if (variable) H5free_memory(variable);
  attribute_close(attribute, type);
  return count;
}
