/* Attributes of the files this program writes. */
#include "io_internal.h"
#include <string.h>
#include <time.h>
#include "version.h"

static int attribute_put_value(const char *file, hid_t object, const char *name, hid_t type, int count,
                               const void *values, error *e) {
  hsize_t shape[1] = {(hsize_t)count};
  hid_t space = count ? H5Screate_simple(1, shape, NULL) : H5Screate(H5S_SCALAR);
  hid_t attribute = space < 0 ? -1 : H5Acreate2(object, name, type, space, H5P_DEFAULT, H5P_DEFAULT);
  if (attribute < 0 || H5Awrite(attribute, type, values) < 0) FAIL(e, FILE_WRITE, file, HDF5_WHY);
  if (attribute >= 0) H5Aclose(attribute);
  if (space >= 0) H5Sclose(space);
  return e->id;
}

int attribute_int64(const char *file, hid_t object, const char *name, int count, const int64_t *values,
                    error *e) {
  return attribute_put_value(file, object, name, H5T_NATIVE_INT64, count, values, e);
}

int attribute_double(const char *file, hid_t object, const char *name, int count, const double *values,
                     error *e) {
  return attribute_put_value(file, object, name, H5T_NATIVE_DOUBLE, count, values, e);
}

int attribute_string(const char *file, hid_t object, const char *name, size_t size, const char *text,
                     error *e) {
  bool variable = size == H5T_VARIABLE;
  if (!text) text = "";
  hid_t type = H5Tcopy(H5T_C_S1);
  if (type < 0 || H5Tset_size(type, size) < 0 ||
      H5Tset_strpad(type, variable ? H5T_STR_NULLTERM : H5T_STR_NULLPAD) < 0 ||
      H5Tset_cset(type, variable ? H5T_CSET_UTF8 : H5T_CSET_ASCII) < 0)
    FAIL(e, FILE_WRITE, file, HDF5_WHY);
  else
    attribute_put_value(file, object, name, type, 0, variable ? (const void *)&text : text, e);
  if (type >= 0) H5Tclose(type);
  return e->id;
}

int attribute_origin(const char *file, hid_t object, error *e) {
  char date[32] = "";
  time_t now = time(NULL);
  struct tm utc;
  if (gmtime_r(&now, &utc)) strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", &utc);
  TRY(attribute_string(file, object, "created_by", H5T_VARIABLE, "stencil " STENCIL_VERSION, e));
  TRY(attribute_string(file, object, "creation_date", H5T_VARIABLE, date, e));
  return attribute_string(file, object, "git_hash", H5T_VARIABLE, STENCIL_GIT_HASH, e);
}
