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

/* The axes of all datasets. */
static int receivers_write_axes(const receivers_file *f, const receivers_meta *m, error *e) {
  static const char *const xyz[] = {"x", "y", "z"};
  const axis axes[] = {{.name = "time",
                        .words = {"s", "time"},
                        .points = (hsize_t)m->samples,
                        .spacing = m->run.dt,
                        .every = m->every},
                       {.name = "receiver",
                        .words = {NULL, "number of the receiver"},
                        .points = f->receivers,
                        .spacing = 1,
                        .whole = true},
                       {.name = "source",
                        .words = {NULL, "number of the source, in the order of their sections"},
                        .points = (hsize_t)m->sources,
                        .spacing = 1,
                        .whole = true},
                       {.name = "xyz", .words = {NULL, "component"}, .points = 3, .labels = xyz}};
  for (size_t i = 0; i < sizeof axes / sizeof *axes; i++) TRY(axis_create(f->path, f->file, &axes[i], e));
  return 0;
}

typedef struct receivers_places {
  const char *name, *of, *long_name;
  int count;
  const double (*positions)[3];
} receivers_places;

static int receivers_write_places(const receivers_file *f, receivers_places p, error *e) {
  const hsize_t shape[2] = {(hsize_t)p.count, 3};
  const char *const axes[2] = {p.of, "xyz"};
  hid_t dataset = dataset_create(f->file, p.name, H5T_IEEE_F64LE, 2, shape);
  if (dataset < 0 ||
      (p.count && H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, p.positions) < 0))
    failed(f, e);
  else if (!axes_attach(f->path, f->file, dataset, 2, axes, e))
    dataset_describe(f->path, dataset, (dataset_words){"m", p.long_name}, e);
  if (dataset >= 0) H5Dclose(dataset);
  return e->id;
}

static int receivers_write_traces(receivers_file *f, const receivers_meta *m, error *e) {
  static const char *const axes[2] = {"time", "receiver"};
  const hsize_t shape[2] = {(hsize_t)m->samples, f->receivers};
  f->traces = dataset_create(f->file, "u", H5T_IEEE_F32LE, 2, shape);
  if (f->traces < 0) return failed(f, e);
  TRY(axes_attach(f->path, f->file, f->traces, 2, axes, e));
  return field_describe(f->path, f->traces, &m->run, e);
}

static int receivers_write_all(receivers_file *f, const receivers_meta *m, error *e) {
  const receivers_places receivers = {"position", "receiver", "position of the receiver", m->receivers,
                                      m->positions},
                         sources = {"source_position", "source", "position of the source", m->sources,
                                    m->source_positions};
  TRY(attribute_run(f->path, f->file, &m->run, e));
  TRY(attribute_int64(f->path, f->file, "every", 0, &m->every, e));
  TRY(receivers_write_axes(f, m, e));
  TRY(receivers_write_places(f, receivers, e));
  TRY(receivers_write_places(f, sources, e));
  return receivers_write_traces(f, m, e);
}

int receivers_file_create(receivers_file **created, const char *path, const receivers_meta *m, error *e) {
  receivers_file *f = *created = calloc(1, sizeof *f);
  if (!f) return FAIL(e, OUT_OF_MEMORY, sizeof *f, "the file of the receivers");
  f->file = f->traces = H5I_INVALID_HID;
  f->receivers = (hsize_t)m->receivers;
  TRY(receivers_write_names(f, path, e));
  temporary_begin(f->temporary, sizeof f->temporary, f->path);
  f->created = disk_driver_open(&f->disk);
  if (f->created) f->file = H5Fcreate(f->temporary, H5F_ACC_TRUNC, H5P_DEFAULT, f->disk.access);
  if (f->file < 0) return failed(f, e);
  TRY(receivers_write_all(f, m, e));
  if (H5Fflush(f->file, H5F_SCOPE_GLOBAL) < 0 || f->disk.error) return failed(f, e);
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
