/* The HDF5 part of a checkpoint: what surrounds its arrays. */
#include <string.h>
#include "checkpoint_internal.h"

enum { ALIGNED_BYTES = 1 << 16 /* arrays from this size on */, PAGE_BYTES = CHECKPOINT_SEAL };

static int checkpoint_file_put_keys(const char *name, hid_t file, const checkpoint_meta *m, error *e) {
  hid_t group = H5Gcreate2(file, CHECKPOINT_KEYS, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (group < 0) return FAIL(e, FILE_WRITE, name, HDF5_WHY);
  for (int i = 0; i < m->key_count && !e->id; i++)
    attribute_text(name, group, m->keys[i].key, m->keys[i].value, e);
  H5Gclose(group);
  return e->id;
}

/* Creates the dataset of an array, and fills its place. */
static int checkpoint_file_put_array(const char *name, hid_t file, stored_array *a, hid_t type, error *e) {
  hsize_t extent[3] = {0};
  for (int i = 0; i < a->axes; i++) extent[i] = (hsize_t)a->shape[i];
  hid_t dataset = dataset_create(file, a->name, type, a->axes, extent);
  const haddr_t place = dataset < 0 ? HADDR_UNDEF : H5Dget_offset(dataset);
  a->at = place == HADDR_UNDEF ? 0 : (uint64_t)place; /* no place: no values */
  if (dataset < 0 || H5Dclose(dataset) < 0) FAIL(e, FILE_WRITE, name, HDF5_WHY);
  return e->id;
}

static int checkpoint_file_put_arrays(const char *name, hid_t file, checkpoint_seal *s, error *e) {
  const hid_t types[] = {H5T_IEEE_F32LE, H5T_IEEE_F64LE, H5T_STD_I64LE};
  stored_array sums = {.name = CHECKPOINT_SUMS, .axes = 1};
  for (int i = 0; i < s->count; i++) {
    stored_array *a = &s->arrays[i];
    TRY(checkpoint_file_put_array(name, file, a, types[a->type], e));
    sums.shape[0] += stored_rows(a);
  }
  TRY(checkpoint_file_put_array(name, file, &sums, H5T_STD_U64LE, e));
  s->sums_at = sums.at;
  return 0;
}

int checkpoint_create(const char *name, const char *temporary, const checkpoint_meta *m, checkpoint_seal *s,
                      error *e) {
  disk_driver disk = {0};
  hid_t list = H5Pcreate(H5P_FILE_CREATE), file = H5I_INVALID_HID;
  /* The newer file format is the smaller one. Arrays begin on pages. */
  if (disk_driver_open(&disk) && list >= 0 && H5Pset_userblock(list, CHECKPOINT_SEAL) >= 0 &&
      H5Pset_alignment(disk.access, ALIGNED_BYTES, PAGE_BYTES) >= 0 &&
      H5Pset_libver_bounds(disk.access, H5F_LIBVER_V110, H5F_LIBVER_V110) >= 0)
    file = H5Fcreate(temporary, H5F_ACC_TRUNC, list, disk.access);
  if (file < 0) FAIL(e, FILE_WRITE, name, disk.error ? strerror(disk.error) : HDF5_WHY);
  if (list >= 0) H5Pclose(list);
  if (!e->id && !attribute_run(name, file, &m->run, e) && !checkpoint_file_put_keys(name, file, m, e))
    checkpoint_file_put_arrays(name, file, s, e);
  if (file >= 0 && H5Fclose(file) < 0) FAIL(e, FILE_WRITE, name, "HDF5 could not close it");
  disk_driver_close(&disk);
  return disk.error && !e->id ? FAIL(e, FILE_WRITE, name, strerror(disk.error)) : e->id;
}

int checkpoint_open_file(const char *name, const char *file, hid_t *opened, error *e) {
  hid_t access = hdf5_access();
  *opened = access < 0 ? H5I_INVALID_HID : H5Fopen(file, H5F_ACC_RDONLY, access);
  if (*opened < 0) FAIL(e, FIELD_DAMAGED, name, HDF5_WHY);
  if (access >= 0) H5Pclose(access);
  return e->id;
}

/* Reads a scalar attribute as values of `type`, whose memory is then the caller's. */
static int checkpoint_file_get(const char *name, hid_t object, const char *attribute, hid_t type, void *value,
                               error *e) {
  hid_t a = H5Aopen(object, attribute, H5P_DEFAULT);
  if (a < 0 || H5Aread(a, type, value) < 0) FAIL(e, FIELD_DAMAGED, name, HDF5_WHY);
  if (a >= 0) H5Aclose(a);
  return e->id;
}

int checkpoint_get_meta(const char *name, hid_t file, int64_t *step, double *time, double *dt, error *e) {
  TRY(checkpoint_file_get(name, file, "step", H5T_NATIVE_INT64, step, e));
  TRY(checkpoint_file_get(name, file, "time", H5T_NATIVE_DOUBLE, time, e));
  return checkpoint_file_get(name, file, "dt", H5T_NATIVE_DOUBLE, dt, e);
}

int checkpoint_get_text(const char *name, hid_t object, const char *attribute, char **text, error *e) {
  hid_t type = H5Tcopy(H5T_C_S1);
  *text = NULL;
  if (type < 0 || H5Tset_size(type, H5T_VARIABLE) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0)
    FAIL(e, FIELD_DAMAGED, name, HDF5_WHY);
  else
    checkpoint_file_get(name, object, attribute, type, text, e);
  if (type >= 0) H5Tclose(type);
  if (!e->id && !*text) FAIL(e, FIELD_DAMAGED, name, attribute);
  return e->id;
}
