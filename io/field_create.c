/* The layout of a saved field: VTKHDF ImageData, the dataset, and the root attributes that say where it comes
 * from. */
#include "io_internal.h"
#include <string.h>

enum { ALIGNED_BYTES = 1 << 16 /* datasets from this size on begin on pages */, PAGE_BYTES = 4096 };

static int create_statistics(const field_file *f, const field_statistics *s, error *e) {
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"min", s->all.min}, {"max", s->all.max}, {"sum", s->all.sum}, {"l2", statistics_l2(s)}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    TRY(attribute_double(f->name, f->file, numbers[i].name, 0, &numbers[i].value, e));
  return 0;
}

/* The dataset /histogram with its axis /bin, and the root attributes q01 and so on. */
static int create_histogram(const field_file *f, const field_statistics *s, error *e) {
  char name[8];
  for (int i = 0; i < QUANTILES; i++) {
    quantile_name(i, name);
    TRY(attribute_double(f->name, f->file, name, 0, &s->quantiles[i], e));
  }
  const double range[2] = {s->all.min, s->all.max}, width = (range[1] - range[0]) / s->bins;
  const axis bins = {.name = "bin",
                     .words = {FIELD_UNITS, "centre of the bin"},
                     .points = (hsize_t)s->bins,
                     .first = range[0] + width / 2,
                     .spacing = width};
  TRY(axis_create(f->name, f->file, &bins, e));
  hid_t counts = dataset_create(f->file, "histogram", H5T_STD_I64LE, 1, &bins.points);
  if (counts < 0 || H5Dwrite(counts, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, s->histogram) < 0)
    FAIL(e, FILE_WRITE, f->name, HDF5_WHY);
  else if (!axes_attach(f->name, f->file, counts, 1, &bins.name, e) &&
           !dataset_describe(f->name, counts, (dataset_words){"1", "points in the bin"}, e))
    attribute_double(f->name, counts, "range", 2, range, e);
  if (counts >= 0) H5Dclose(counts);
  return e->id;
}

/* Attributes of group /VTKHDF. VTK asks for exactly these types, and for a Type of fixed length. */
static int create_image(const field_file *f, hid_t group, const field_meta *m, error *e) {
  const slab *s = f->slab;
  const int64_t version[2] = {1, 0}, extent[6] = {0, s->nx - 1, 0, s->ny - 1, 0, s->nz_global - 1};
  const double direction[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  TRY(attribute_int64(f->name, group, "Version", 2, version, e));
  TRY(attribute_string(f->name, group, "Type", strlen("ImageData"), "ImageData", e));
  TRY(attribute_int64(f->name, group, "WholeExtent", 6, extent, e));
  TRY(attribute_double(f->name, group, "Origin", 3, m->origin, e));
  TRY(attribute_double(f->name, group, "Spacing", 3, m->spacing, e));
  return attribute_double(f->name, group, "Direction", 9, direction, e);
}

/* Contiguous by default: all space at once, and no fill values before the data. Compressed: chunks of one plane, which the
 * ranks filter themselves. */
static hid_t create_list(const slab *s, int compress) {
  const hsize_t chunk[3] = {1, (hsize_t)s->ny, (hsize_t)s->nx};
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  bool ok = list >= 0 && H5Pset_fill_time(list, H5D_FILL_TIME_NEVER) >= 0 &&
            H5Pset_obj_track_times(list, false) >= 0;
  if (ok && compress)
    ok = H5Pset_chunk(list, 3, chunk) >= 0 && H5Pset_shuffle(list) >= 0 &&
         H5Pset_deflate(list, (unsigned)compress) >= 0;
  else if (ok)
    ok = H5Pset_alloc_time(list, H5D_ALLOC_TIME_EARLY) >= 0;
  if (ok || list < 0) return list;
  H5Pclose(list);
  return H5I_INVALID_HID;
}

/* /VTKHDF/PointData/u and its other name /u. */
static int create_dataset(field_file *f, hid_t group, int compress, error *e) {
  const slab *s = f->slab;
  hsize_t shape[3] = {(hsize_t)s->nz_global, (hsize_t)s->ny, (hsize_t)s->nx};
  if (compress && H5Zfilter_avail(H5Z_FILTER_DEFLATE) <= 0) return FAIL(e, FIELD_NO_GZIP);
  hid_t list = create_list(s, compress), space = H5Screate_simple(3, shape, NULL);
  if (list >= 0 && space >= 0)
    f->dataset = H5Dcreate2(group, "u", H5T_IEEE_F32LE, space, H5P_DEFAULT, list, H5P_DEFAULT);
  if (f->dataset < 0 || H5Lcreate_hard(group, "u", f->file, "u", H5P_DEFAULT, H5P_DEFAULT) < 0)
    FAIL(e, FILE_WRITE, f->name, HDF5_WHY);
  if (space >= 0) H5Sclose(space);
  if (list >= 0) H5Pclose(list);
  return e->id;
}

/* The scalar /time, which is a coordinate of /u as well. */
static int create_time(const field_file *f, const double *time, error *e) {
  hid_t dataset = dataset_create(f->file, "time", H5T_IEEE_F64LE, 0, NULL);
  if (dataset < 0 || H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, time) < 0)
    FAIL(e, FILE_WRITE, f->name, HDF5_WHY);
  else
    dataset_describe(f->name, dataset, (dataset_words){"s", "time"}, e);
  if (dataset >= 0) H5Dclose(dataset);
  TRY(e->id);
  return attribute_text(f->name, f->dataset, "coordinates", "time", e);
}

static int create_axes(const field_file *f, const field_meta *m, error *e) {
  static const char *const names[] = {"z", "y", "x"};
  static const char *const long_names[] = {"position along z", "position along y", "position along x"};
  const int points[] = {f->slab->nz_global, f->slab->ny, f->slab->nx};
  for (int i = 0; i < 3; i++) {
    const axis a = {.name = names[i],
                    .words = {"m", long_names[i]},
                    .points = (hsize_t)points[i],
                    .first = m->origin[2 - i],
                    .spacing = m->spacing[2 - i]};
    TRY(axis_create(f->name, f->file, &a, e));
  }
  TRY(axes_attach(f->name, f->file, f->dataset, 3, names, e));
  TRY(field_describe(f->name, f->dataset, &m->run, e));
  return create_time(f, &m->run.time, e);
}

static int create_groups(field_file *f, const field_meta *m, error *e) {
  hid_t image = H5Gcreate2(f->file, "VTKHDF", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  hid_t points = image < 0 ? -1 : H5Gcreate2(image, "PointData", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (points < 0)
    FAIL(e, FILE_WRITE, f->name, HDF5_WHY);
  else if (!create_image(f, image, m, e))
    create_dataset(f, points, m->compress, e);
  if (points >= 0) H5Gclose(points);
  if (image >= 0) H5Gclose(image);
  return e->id;
}

int field_put_statistics(const field_file *f, const field_statistics *s, error *e) {
  TRY(create_statistics(f, s, e));
  return s->bins ? create_histogram(f, s, e) : 0;
}

int field_create(field_file *f, const char *path, const field_meta *meta, error *e) {
  if (disk_driver_open(&f->disk) && H5Pset_alignment(f->disk.access, ALIGNED_BYTES, PAGE_BYTES) >= 0)
    f->file = H5Fcreate(path, H5F_ACC_TRUNC, H5P_DEFAULT, f->disk.access);
  if (f->file < 0) return FAIL(e, FILE_WRITE, f->name, f->disk.error ? strerror(f->disk.error) : HDF5_WHY);
  TRY(attribute_run(f->name, f->file, &meta->run, e));
  TRY(create_groups(f, meta, e));
  TRY(create_axes(f, meta, e));
  if (H5Fflush(f->file, H5F_SCOPE_GLOBAL) < 0) return FAIL(e, FILE_WRITE, f->name, HDF5_WHY);
  return f->disk.error ? FAIL(e, FILE_WRITE, f->name, strerror(f->disk.error)) : 0;
}

int field_close(field_file *f, error *e) {
  if (f->dataset >= 0 && H5Dclose(f->dataset) < 0) FAIL(e, FILE_WRITE, f->name, HDF5_WHY);
  if (f->file >= 0 && H5Fclose(f->file) < 0) FAIL(e, FILE_WRITE, f->name, "HDF5 could not close it");
  f->dataset = f->file = H5I_INVALID_HID;
  disk_driver_close(&f->disk);
  return f->disk.error ? FAIL(e, FILE_WRITE, f->name, strerror(f->disk.error)) : e->id;
}
