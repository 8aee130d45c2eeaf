/* The HDF5 part of a checkpoint: what surrounds its arrays. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "checkpoint_internal.h"

/* The fingerprint as a text; to be freed. */
static char *checkpoint_file_keys(const checkpoint_meta *m, size_t *bytes, error *e) {
  char *text = NULL;
  FILE *to = open_memstream(&text, bytes);
  for (int i = 0; to && i < m->key_count; i++)
    fprintf(to, "%s\n%s\n", m->keys[i].key, m->keys[i].value ? m->keys[i].value : "");
  if (!to || fclose(to) || !text) FAIL(e, OUT_OF_MEMORY, *bytes, "the fingerprint of the run");
  return text;
}

static int checkpoint_file_put_keys(const char *name, hid_t file, const checkpoint_meta *m,
                                    checkpoint_seal *s, error *e) {
  size_t bytes = 0;
  char *text = checkpoint_file_keys(m, &bytes, e);
  hid_t type = text_type(bytes + 1);
  hid_t dataset =
      e->id || type < 0 ? H5I_INVALID_HID : dataset_create(file, CHECKPOINT_KEYS, type, 0, NULL, 0);
  if (dataset < 0 || H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, text) < 0)
    FAIL(e, FILE_WRITE, name, HDF5_WHY);
  else
    s->keys_at = H5Dget_offset(dataset), s->keys_bytes = bytes;
  if (dataset >= 0) H5Dclose(dataset);
  if (type >= 0) H5Tclose(type);
  free(text);
  return e->id;
}

/* Creates the dataset of an array, and fills its place. */
static int checkpoint_file_put_array(const char *name, hid_t file, stored_array *a, hid_t type, error *e) {
  hsize_t extent[3] = {0};
  for (int i = 0; i < a->axes; i++) extent[i] = (hsize_t)a->shape[i];
  hid_t dataset = dataset_create(file, a->name, type, a->axes, extent, 0);
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
  new_hdf5 f = {.name = name};
  s->step = m->run.step, s->time = m->run.time, s->dt = m->run.dt;
  if (!new_hdf5_create(&f, temporary, CHECKPOINT_SEAL, e) && !attribute_run(name, f.file, &m->run, e) &&
      !checkpoint_file_put_keys(name, f.file, m, s, e))
    checkpoint_file_put_arrays(name, f.file, s, e);
  return new_hdf5_close(&f, e);
}
