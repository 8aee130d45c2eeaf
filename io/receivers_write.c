#include "receivers_file.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "atomic_file.h"
#include "io_internal.h"

struct receivers_file {
  char path[FILE_NAME], temporary[FILE_NAME + TEMPORARY_ENDING];
  hid_t file, traces;
  bool created;
  disk_driver disk;
  hsize_t receivers;
};

static int failed(const receivers_file *f, error *e) {
  return FAIL(e, FILE_WRITE, f->path, f->disk.error ? strerror(f->disk.error) : HDF5_WHY);
}

static int receivers_write_names(receivers_file *f, const char *path, error *e) {
  int n = snprintf(f->path, sizeof f->path, "%s.receivers.h5", path);
  return n < FILE_NAME ? 0 : FAIL(e, FILE_WRITE, path, strerror(ENAMETOOLONG));
}

/* A dataset, contiguous: all its space at once, and no fill values before the data. Negative on failure. */
static hid_t receivers_write_create(const receivers_file *f, const char *name, hid_t type, int rank,
                                    const hsize_t *shape) {
  hid_t space = H5Screate_simple(rank, shape, NULL), list = H5Pcreate(H5P_DATASET_CREATE);
  hid_t dataset = H5I_INVALID_HID;
  if (space >= 0 && list >= 0 && H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY) >= 0 &&
      H5Pset_fill_time(list, H5D_FILL_TIME_NEVER) >= 0 && H5Pset_obj_track_times(list, false) >= 0)
    dataset = H5Dcreate2(f->file, name, type, space, H5P_DEFAULT, list, H5P_DEFAULT);
  if (list >= 0) H5Pclose(list);
  if (space >= 0) H5Sclose(space);
  return dataset;
}

static int put_doubles(const receivers_file *f, const char *name, int rank, const hsize_t *shape,
                       const double *values, error *e) {
  hid_t dataset = receivers_write_create(f, name, H5T_IEEE_F64LE, rank, shape);
  if (dataset < 0 || H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, values) < 0)
    failed(f, e);
  if (dataset >= 0) H5Dclose(dataset);
  return e->id;
}

static int put_times(const receivers_file *f, const receivers_meta *m, error *e) {
  const hsize_t shape[1] = {(hsize_t)m->samples};
  double *times = malloc(((size_t)m->samples + 1) * sizeof *times);
  if (!times) return FAIL(e, OUT_OF_MEMORY, (size_t)m->samples * sizeof *times, "the times of the receivers");
  for (int64_t i = 0; i < m->samples; i++) times[i] = (double)(i * m->every) * m->dt;
  put_doubles(f, "time", 1, shape, times, e);
  free(times);
  return e->id;
}

static int receivers_write_put_meta(const receivers_file *f, const receivers_meta *m, error *e) {
  const hsize_t shape[2] = {f->receivers, 3};
  TRY(attribute_origin(f->path, f->file, e));
  TRY(attribute_double(f->path, f->file, "dt", 0, &m->dt, e));
  TRY(attribute_int64(f->path, f->file, "every", 0, &m->every, e));
  TRY(put_doubles(f, "position", 2, shape, &m->positions[0][0], e));
  return put_times(f, m, e);
}

int receivers_file_create(receivers_file **created, const char *path, const receivers_meta *m, error *e) {
  receivers_file *f = *created = calloc(1, sizeof *f);
  if (!f) return FAIL(e, OUT_OF_MEMORY, sizeof *f, "the file of the receivers");
  const hsize_t shape[2] = {(hsize_t)m->samples, (hsize_t)m->receivers};
  f->file = f->traces = H5I_INVALID_HID;
  f->receivers = shape[1];
  TRY(receivers_write_names(f, path, e));
  temporary_begin(f->temporary, sizeof f->temporary, f->path);
  f->created = disk_driver_open(&f->disk);
  if (f->created) f->file = H5Fcreate(f->temporary, H5F_ACC_TRUNC, H5P_DEFAULT, f->disk.access);
  if (f->file < 0) return failed(f, e);
  TRY(receivers_write_put_meta(f, m, e));
  f->traces = receivers_write_create(f, "u", H5T_IEEE_F32LE, 2, shape);
  if (f->traces < 0 || H5Fflush(f->file, H5F_SCOPE_GLOBAL) < 0 || f->disk.error) return failed(f, e);
  return 0;
}

int receivers_file_put(receivers_file *f, int64_t first, int64_t count, const float *values, error *e) {
  const hsize_t start[2] = {(hsize_t)first, 0}, block[2] = {(hsize_t)count, f->receivers};
  hid_t disk = H5Dget_space(f->traces), memory = H5Screate_simple(2, block, NULL);
  bool ok = disk >= 0 && memory >= 0 &&
            H5Sselect_hyperslab(disk, H5S_SELECT_SET, start, NULL, block, NULL) >= 0 &&
            H5Dwrite(f->traces, H5T_NATIVE_FLOAT, memory, disk, H5P_DEFAULT, values) >= 0;
  if (!ok || f->disk.error) failed(f, e);
  if (memory >= 0) H5Sclose(memory);
  if (disk >= 0) H5Sclose(disk);
  return e->id;
}

int receivers_file_close(receivers_file *f, error *e) {
  if (!f) return e->id;
  if (f->traces >= 0 && H5Dclose(f->traces) < 0) failed(f, e);
  if (f->file >= 0 && H5Fclose(f->file) < 0) failed(f, e);
  disk_driver_close(&f->disk);
  if (f->disk.error) failed(f, e);
  if (!e->id)
    atomic_file_commit(f->temporary, f->path, e);
  else if (f->created)
    unlink(f->temporary);
  free(f);
  return e->id;
}
