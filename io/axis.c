/* Datasets that explain themselves: axes with names and coordinates, as HDF5's dimension scales, and units. Readers of
 * netCDF find them. */
#include <hdf5_hl.h>
#include <stdlib.h>
#include <string.h>
#include "io_internal.h"

/* The list that a dataset is created with. */
static hid_t axis_list(hid_t type, int rank, const hsize_t *shape, int deflate) {
  /* HDF5 wants texts of variable length filled. */
  const H5D_fill_time_t fill = H5Tis_variable_str(type) > 0 ? H5D_FILL_TIME_ALLOC : H5D_FILL_TIME_NEVER;
  hsize_t chunk[H5S_MAX_RANK] = {1};
  for (int i = 1; i < rank; i++) chunk[i] = shape[i];
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  bool ok = list >= 0 && H5Pset_fill_time(list, fill) >= 0 && H5Pset_obj_track_times(list, false) >= 0;
  if (ok && deflate)
    ok = H5Pset_chunk(list, rank, chunk) >= 0 && H5Pset_shuffle(list) >= 0 &&
         H5Pset_deflate(list, (unsigned)deflate) >= 0;
  else if (ok)
    ok = H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY) >= 0;
  if (ok || list < 0) return list;
  H5Pclose(list);
  return H5I_INVALID_HID;
}

hid_t dataset_create(hid_t in, const char *name, hid_t type, int rank, const hsize_t *shape, int deflate) {
  hid_t space = rank ? H5Screate_simple(rank, shape, NULL) : H5Screate(H5S_SCALAR), dataset = H5I_INVALID_HID;
  hid_t list = axis_list(type, rank, shape, deflate);
  if (space >= 0 && list >= 0) dataset = H5Dcreate2(in, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
  const hid_t why = H5Eget_current_stack(); /* which closing anything would forget */
  if (list >= 0) H5Pclose(list);
  if (space >= 0) H5Sclose(space);
  H5Eset_current_stack(why);
  return dataset;
}

int dataset_describe(const char *file, hid_t dataset, dataset_words words, error *e) {
  if (words.units) TRY(attribute_text(file, dataset, "units", words.units, e));
  return attribute_text(file, dataset, "long_name", words.long_name, e);
}

int field_describe(const char *file, hid_t dataset, const run_meta *m, error *e) {
  dataset_words words = {FIELD_UNITS, "field"};
  for (int i = 0; i < EQUATION_COUNT; i++)
    if (m->equation && strcmp(m->equation, EQUATIONS[i].name) == 0) words.long_name = EQUATIONS[i].label;
  return dataset_describe(file, dataset, words, e);
}

/* Its values, float64 or texts, are of type `type` in memory. */
static int axis_put(const char *file, hid_t in, const axis *a, hid_t type, const void *values, error *e) {
  const hid_t stored = a->labels ? type : a->whole ? H5T_STD_I64LE : H5T_IEEE_F64LE;
  hid_t dataset = dataset_create(in, a->name, stored, 1, &a->points, 0);
  if (dataset < 0 || H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0 ||
      H5DSset_scale(dataset, a->name) < 0)
    FAIL(e, FILE_WRITE, file, HDF5_WHY);
  else
    dataset_describe(file, dataset, a->words, e);
  if (dataset >= 0) H5Dclose(dataset);
  return e->id;
}

static int axis_put_labels(const char *file, hid_t in, const axis *a, error *e) {
  hid_t type = text_type(H5T_VARIABLE);
  if (type < 0) return FAIL(e, FILE_WRITE, file, HDF5_WHY);
  axis_put(file, in, a, type, a->labels, e);
  H5Tclose(type);
  return e->id;
}

int axis_create(const char *file, hid_t in, const axis *a, error *e) {
  if (a->labels) return axis_put_labels(file, in, a, e);
  double *values = malloc(((size_t)a->points + 1) * sizeof *values);
  if (!values) return FAIL(e, OUT_OF_MEMORY, (size_t)a->points * sizeof *values, "coordinates");
  for (hsize_t i = 0; i < a->points; i++)
    values[i] = a->first + (double)((int64_t)i * (a->every ? a->every : 1)) * a->spacing;
  axis_put(file, in, a, H5T_NATIVE_DOUBLE, values, e);
  free(values);
  return e->id;
}

int axes_attach(const char *file, hid_t in, hid_t dataset, int count, const char *const *names, error *e) {
  for (int i = 0; i < count && !e->id; i++) {
    hid_t scale = H5Dopen2(in, names[i], H5P_DEFAULT);
    if (scale < 0 || H5DSattach_scale(dataset, scale, (unsigned)i) < 0) FAIL(e, FILE_WRITE, file, HDF5_WHY);
    if (scale >= 0) H5Dclose(scale);
  }
  return e->id;
}
