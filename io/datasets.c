/* Datasets that explain themselves: axes with names and coordinates, as HDF5's dimension scales, and units. Readers of
 * netCDF find them. */
#include <hdf5_hl.h>
#include <stdlib.h>
#include <string.h>
#include "io_internal.h"

/* The list that a dataset is created with. */
static hid_t dataset_list(hid_t type, int rank, const hsize_t *shape, int deflate) {
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

hid_t dataset_create(new_hdf5 *f, const char *name, hid_t type, int rank, const hsize_t *shape, int deflate) {
  if (f->failure.id) return H5I_INVALID_HID;
  hid_t space = rank ? H5Screate_simple(rank, shape, NULL) : H5Screate(H5S_SCALAR), dataset = H5I_INVALID_HID;
  hid_t list = dataset_list(type, rank, shape, deflate);
  if (space >= 0 && list >= 0)
    dataset = H5Dcreate2(f->file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
  new_hdf5_check(f, dataset >= 0);
  if (list >= 0) H5Pclose(list);
  if (space >= 0) H5Sclose(space);
  return dataset;
}

/* HDF5 clears the memory in which it converts types: by default a MiB for each dataset, however small. */
void dataset_put(new_hdf5 *f, hid_t dataset, hid_t type, const void *values) {
  const size_t CONVERTED = 16384;
  if (f->failure.id) return;
  const hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
  new_hdf5_check(f, transfer >= 0 && H5Pset_buffer(transfer, CONVERTED, NULL, NULL) >= 0 &&
                        H5Dwrite(dataset, type, H5S_ALL, H5S_ALL, transfer, values) >= 0);
  if (transfer >= 0) H5Pclose(transfer);
}

void dataset_close(new_hdf5 *f, hid_t dataset) {
  if (dataset >= 0) new_hdf5_check(f, H5Dclose(dataset) >= 0);
}

void dataset_describe(new_hdf5 *f, hid_t dataset, dataset_words words) {
  if (words.units) attribute_text(f, dataset, "units", words.units);
  attribute_text(f, dataset, "long_name", words.long_name);
}

void field_describe(new_hdf5 *f, hid_t dataset, const run_meta *m) {
  dataset_words words = {FIELD_UNITS, "field"};
  for (int i = 0; i < EQUATION_COUNT; i++)
    if (m->equation && strcmp(m->equation, EQUATIONS[i].name) == 0) words.long_name = EQUATIONS[i].label;
  dataset_describe(f, dataset, words);
}

/* Its values, float64 or texts, are of type `type` in memory. */
static void dataset_put_axis(new_hdf5 *f, const axis *a, hid_t type, const void *values) {
  const hid_t stored = a->labels ? type : a->whole ? H5T_STD_I64LE : H5T_IEEE_F64LE;
  hid_t dataset = dataset_create(f, a->name, stored, 1, &a->points, 0);
  dataset_put(f, dataset, type, values);
  if (!f->failure.id) new_hdf5_check(f, H5DSset_scale(dataset, a->name) >= 0);
  dataset_describe(f, dataset, a->words);
  dataset_close(f, dataset);
}

void axis_create(new_hdf5 *f, const axis *a) {
  if (a->labels) {
    hid_t type = text_type(f, H5T_VARIABLE);
    dataset_put_axis(f, a, type, a->labels);
    if (type >= 0) H5Tclose(type);
    return;
  }
  double *values;
  ALLOC(&f->failure, values, a->points, "coordinates");
  for (hsize_t i = 0; values && i < a->points; i++)
    values[i] = a->values
                    ? a->values[i]
                    : a->first + (double)(a->from + (int64_t)i * (a->every ? a->every : 1)) * a->spacing;
  dataset_put_axis(f, a, H5T_NATIVE_DOUBLE, values);
  free(values);
}

void axes_attach(new_hdf5 *f, hid_t dataset, int count, const char *const *names) {
  for (int i = 0; i < count && !f->failure.id; i++) {
    hid_t scale = H5Dopen2(f->file, names[i], H5P_DEFAULT);
    new_hdf5_check(f, scale >= 0 && H5DSattach_scale(dataset, scale, (unsigned)i) >= 0);
    if (scale >= 0) H5Dclose(scale);
  }
}
