/* The HDF5 part of a checkpoint: what surrounds its arrays. */
#include <string.h>
#include "checkpoint_internal.h"

static int put_text(const char *name, hid_t object, const char *attribute, const char *text, error *e) {
  return attribute_string(name, object, attribute, H5T_VARIABLE, text, e);
}

static int put_keys(const char *name, hid_t file, const checkpoint_meta *m, error *e) {
  hid_t group = H5Gcreate2(file, CHECKPOINT_KEYS, H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (group < 0) return FAIL(e, FILE_WRITE, name, HDF5_WHY);
  for (int i = 0; i < m->key_count && !e->id; i++) put_text(name, group, m->keys[i].key, m->keys[i].value, e);
  H5Gclose(group);
  return e->id;
}

static int put_meta(const char *name, hid_t file, const checkpoint_meta *m, error *e) {
  const int64_t ranks = m->mpi_ranks;
  const checkpoint_key texts[] = {{"config", m->config_text},  {"command", m->command},
                                  {"backend", m->backend},     {"kernel", m->kernel},
                                  {"transport", m->transport}, {"equation", m->equation}};
  TRY(attribute_int64(name, file, "step", 0, &m->step, e));
  TRY(attribute_double(name, file, "time", 0, &m->time, e));
  TRY(attribute_double(name, file, "dt", 0, &m->dt, e));
  TRY(attribute_int64(name, file, "mpi_ranks", 0, &ranks, e));
  TRY(attribute_origin(name, file, e));
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    TRY(put_text(name, file, texts[i].key, texts[i].value, e));
  return put_keys(name, file, m, e);
}

int checkpoint_create(const char *name, const char *temporary, const checkpoint_meta *m, hid_t *file,
                      disk_driver *disk, error *e) {
  hid_t list = H5Pcreate(H5P_FILE_CREATE);
  /* The newer file format, since it has checksums for most of what HDF5 writes of its own. */
  if (disk_driver_open(disk, true) && list >= 0 && H5Pset_userblock(list, CHECKPOINT_SEAL) >= 0 &&
      H5Pset_libver_bounds(disk->access, H5F_LIBVER_V110, H5F_LIBVER_V110) >= 0)
    *file = H5Fcreate(temporary, H5F_ACC_TRUNC, list, disk->access);
  if (*file < 0) FAIL(e, FILE_WRITE, name, disk->error ? strerror(disk->error) : HDF5_WHY);
  if (list >= 0) H5Pclose(list);
  TRY(e->id);
  TRY(put_meta(name, *file, m, e));
  if (H5Fflush(*file, H5F_SCOPE_GLOBAL) < 0) return FAIL(e, FILE_WRITE, name, HDF5_WHY);
  return disk->error ? FAIL(e, FILE_WRITE, name, strerror(disk->error)) : 0;
}

int checkpoint_open_file(const char *name, const char *file, hid_t *opened, error *e) {
  hid_t access = hdf5_access();
  *opened = access < 0 ? H5I_INVALID_HID : H5Fopen(file, H5F_ACC_RDONLY, access);
  if (*opened < 0) FAIL(e, FIELD_DAMAGED, name, HDF5_WHY);
  if (access >= 0) H5Pclose(access);
  return e->id;
}

/* Reads a scalar attribute as values of `type`, whose memory is then the caller's. */
static int get(const char *name, hid_t object, const char *attribute, hid_t type, void *value, error *e) {
  hid_t a = H5Aopen(object, attribute, H5P_DEFAULT);
  if (a < 0 || H5Aread(a, type, value) < 0) FAIL(e, FIELD_DAMAGED, name, HDF5_WHY);
  if (a >= 0) H5Aclose(a);
  return e->id;
}

int checkpoint_get_meta(const char *name, hid_t file, int64_t *step, double *time, double *dt, error *e) {
  TRY(get(name, file, "step", H5T_NATIVE_INT64, step, e));
  TRY(get(name, file, "time", H5T_NATIVE_DOUBLE, time, e));
  return get(name, file, "dt", H5T_NATIVE_DOUBLE, dt, e);
}

int checkpoint_get_text(const char *name, hid_t object, const char *attribute, char **text, error *e) {
  hid_t type = H5Tcopy(H5T_C_S1);
  *text = NULL;
  if (type < 0 || H5Tset_size(type, H5T_VARIABLE) < 0 || H5Tset_cset(type, H5T_CSET_UTF8) < 0)
    FAIL(e, FIELD_DAMAGED, name, HDF5_WHY);
  else
    get(name, object, attribute, type, text, e);
  if (type >= 0) H5Tclose(type);
  if (!e->id && !*text) FAIL(e, FIELD_DAMAGED, name, attribute);
  return e->id;
}

int checkpoint_look(const char *name, const char *file, const checkpoint_array *arrays, int count, error *e) {
  hid_t opened;
  TRY(checkpoint_open_file(name, file, &opened, e));
  for (int i = 0; i < count && !e->id; i++) {
    stored_array s;
    if (!stored_open(&s, name, opened, arrays[i].name, e) && !stored_matches(&s, &arrays[i], e) &&
        !stored_complete(&s))
      FAIL(e, FILE_WRITE, name, "a part of what was written is missing");
    stored_close(&s);
  }
  if (H5Fclose(opened) < 0) FAIL(e, FIELD_DAMAGED, name, HDF5_WHY);
  return e->id;
}
