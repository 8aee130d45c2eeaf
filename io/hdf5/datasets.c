/* The one writer of datasets. Each dataset has axes, as HDF5's dimension scales, units and a long name, which readers
 * of netCDF find. */
#include <hdf5_hl.h>
#include <stdlib.h>
#include <string.h>
#include "io_internal.h"

/* Makes the property list that a dataset is created with. */
static hid_t dataset_list(const new_dataset *d) {
  /* HDF5 wants texts of variable length filled. */
  const H5D_fill_time_t fill = H5Tis_variable_str(d->type) > 0 ? H5D_FILL_TIME_ALLOC : H5D_FILL_TIME_NEVER;
  hsize_t chunk[DATASET_RANK] = {1};
  for (int i = 1; i < d->rank; i++) chunk[i] = d->shape[i];
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  bool ok = list >= 0 && H5Pset_fill_time(list, fill) >= 0 && H5Pset_obj_track_times(list, false) >= 0;
  if (ok && d->deflate)
    ok = H5Pset_chunk(list, d->rank, chunk) >= 0 && H5Pset_shuffle(list) >= 0 &&
         H5Pset_deflate(list, (unsigned)d->deflate) >= 0;
  else if (ok)
    ok = H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY) >= 0;
  if (ok || list < 0) return list;
  H5Pclose(list);
  return H5I_INVALID_HID;
}

static hid_t dataset_create(new_hdf5 *f, const new_dataset *d) {
  hid_t space = d->rank ? H5Screate_simple(d->rank, d->shape, NULL) : H5Screate(H5S_SCALAR),
        list = dataset_list(d), dataset = H5I_INVALID_HID;
  if (space >= 0 && list >= 0)
    dataset = H5Dcreate2(f->file, d->name, d->type, space, H5P_DEFAULT, list, H5P_DEFAULT);
  new_hdf5_check(f, dataset >= 0);
  if (list >= 0) H5Pclose(list);
  if (space >= 0) H5Sclose(space);
  return dataset;
}

/* Writes the values. HDF5 clears the memory in which it converts types: by default a MiB for each dataset, however
 * small. */
static void dataset_put(new_hdf5 *f, hid_t dataset, const new_dataset *d) {
  const size_t CONVERTED = 16384;
  const hid_t transfer = H5Pcreate(H5P_DATASET_XFER);
  new_hdf5_check(
      f, transfer >= 0 && H5Pset_buffer(transfer, CONVERTED, NULL, NULL) >= 0 &&
             H5Dwrite(dataset, d->memory ? d->memory : d->type, H5S_ALL, H5S_ALL, transfer, d->values) >= 0);
  if (transfer >= 0) H5Pclose(transfer);
}

static void dataset_attach_axes(new_hdf5 *f, hid_t dataset, const new_dataset *d) {
  for (int i = 0; i < d->rank && d->axes[i] && !f->failure.id; i++) {
    hid_t scale = H5Dopen2(f->file, d->axes[i], H5P_DEFAULT);
    new_hdf5_check(f, scale >= 0 && H5DSattach_scale(dataset, scale, (unsigned)i) >= 0);
    if (scale >= 0) H5Dclose(scale);
  }
}

uint64_t dataset_write(new_hdf5 *f, const new_dataset *d) {
  if (f->failure.id) return 0;
  hid_t dataset = dataset_create(f, d);
  const haddr_t place = dataset < 0 ? HADDR_UNDEF : H5Dget_offset(dataset);
  if (d->values && !f->failure.id) dataset_put(f, dataset, d);
  if (d->scale && !f->failure.id) new_hdf5_check(f, H5DSset_scale(dataset, d->name) >= 0);
  dataset_attach_axes(f, dataset, d);
  if (dataset >= 0) new_hdf5_check(f, H5Dclose(dataset) >= 0);
  if (d->words.units) attribute_text(f, d->name, "units", d->words.units);
  if (d->words.long_name) attribute_text(f, d->name, "long_name", d->words.long_name);
  return place == HADDR_UNDEF ? 0 : (uint64_t)place;
}

dataset_words field_words(const run_meta *m) {
  dataset_words words = {FIELD_UNITS, "field"};
  for (int i = 0; i < EQUATION_COUNT; i++)
    if (m->equation && strcmp(m->equation, EQUATIONS[i].name) == 0) words.long_name = EQUATIONS[i].label;
  return words;
}

void axis_write(new_hdf5 *f, const axis *a) {
  double *values = NULL;
  new_dataset d = {a->name, H5T_IEEE_F64LE, 1, {a->points}, .words = a->words, .scale = true};
  if (a->whole) d.type = H5T_STD_I64LE, d.memory = H5T_NATIVE_DOUBLE;
  if (a->labels)
    d.type = text_type(f, H5T_VARIABLE);
  else
    ALLOC(&f->failure, values, a->points, "coordinates");
  for (hsize_t i = 0; values && i < a->points; i++)
    values[i] = a->values
                    ? a->values[i]
                    : a->first + (double)(a->from + (int64_t)i * (a->every ? a->every : 1)) * a->spacing;
  d.values = a->labels ? (const void *)a->labels : values;
  dataset_write(f, &d);
  if (a->labels && d.type >= 0) H5Tclose(d.type);
  free(values);
}
