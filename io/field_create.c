/* The layout of a saved field: VTKHDF ImageData, the dataset, and the root attributes that say where it comes
 * from. */
#include "io_internal.h"
#include <string.h>

static int create_statistics(const field_file *f, const field_statistics *s, error *e) {
  const struct {
    const char *name;
    double value;
  } numbers[] = {{"min", s->all.min}, {"max", s->all.max}, {"sum", s->all.sum}, {"l2", statistics_l2(s)}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    TRY(attribute_double(f->to.name, f->to.file, numbers[i].name, 0, &numbers[i].value, e));
  return 0;
}

/* The dataset /histogram with its axis /bin, and the root attributes q01 and so on. */
static int create_histogram(const field_file *f, const field_statistics *s, error *e) {
  char name[8];
  for (int i = 0; i < QUANTILES; i++) {
    quantile_name(i, name);
    TRY(attribute_double(f->to.name, f->to.file, name, 0, &s->quantiles[i], e));
  }
  const double range[2] = {s->all.min, s->all.max}, width = (range[1] - range[0]) / s->bins;
  const axis bins = {.name = "bin",
                     .words = {FIELD_UNITS, "centre of the bin"},
                     .points = (hsize_t)s->bins,
                     .first = range[0] + width / 2,
                     .spacing = width};
  TRY(axis_create(f->to.name, f->to.file, &bins, e));
  hid_t counts = dataset_create(f->to.file, "histogram", H5T_STD_I64LE, 1, &bins.points, 0);
  if (counts < 0 || H5Dwrite(counts, H5T_NATIVE_UINT64, H5S_ALL, H5S_ALL, H5P_DEFAULT, s->histogram) < 0)
    new_hdf5_failed(&f->to, e);
  else if (!axes_attach(f->to.name, f->to.file, counts, 1, &bins.name, e) &&
           !dataset_describe(f->to.name, counts, (dataset_words){"1", "points in the bin"}, e))
    attribute_double(f->to.name, counts, "range", 2, range, e);
  if (counts >= 0) H5Dclose(counts);
  return e->id;
}

/* Attributes of group /VTKHDF. VTK asks for exactly these types, and for a Type of fixed length. */
static int create_image(const field_file *f, hid_t group, const field_meta *m, error *e) {
  const slab *s = f->slab;
  const int64_t version[2] = {1, 0}, extent[6] = {0, s->nx - 1, 0, s->ny - 1, 0, s->nz_global - 1};
  const double direction[9] = {1, 0, 0, 0, 1, 0, 0, 0, 1};
  TRY(attribute_int64(f->to.name, group, "Version", 2, version, e));
  TRY(attribute_string(f->to.name, group, "Type", strlen("ImageData"), "ImageData", e));
  TRY(attribute_int64(f->to.name, group, "WholeExtent", 6, extent, e));
  TRY(attribute_double(f->to.name, group, "Origin", 3, m->origin, e));
  TRY(attribute_double(f->to.name, group, "Spacing", 3, m->spacing, e));
  return attribute_double(f->to.name, group, "Direction", 9, direction, e);
}

/* /VTKHDF/PointData/u and its other name /u. Compressed, the ranks filter its planes themselves. */
static int create_dataset(field_file *f, hid_t group, int compress, error *e) {
  const slab *s = f->slab;
  const hsize_t shape[3] = {(hsize_t)s->nz_global, (hsize_t)s->ny, (hsize_t)s->nx};
  if (compress && H5Zfilter_avail(H5Z_FILTER_DEFLATE) <= 0) return FAIL(e, FIELD_NO_GZIP);
  f->dataset = dataset_create(group, "u", H5T_IEEE_F32LE, 3, shape, compress);
  if (f->dataset < 0 || H5Lcreate_hard(group, "u", f->to.file, "u", H5P_DEFAULT, H5P_DEFAULT) < 0)
    new_hdf5_failed(&f->to, e);
  return e->id;
}

/* The scalar /time, which is a coordinate of /u as well. */
static int create_time(const field_file *f, const double *time, error *e) {
  hid_t dataset = dataset_create(f->to.file, "time", H5T_IEEE_F64LE, 0, NULL, 0);
  if (dataset < 0 || H5Dwrite(dataset, H5T_NATIVE_DOUBLE, H5S_ALL, H5S_ALL, H5P_DEFAULT, time) < 0)
    new_hdf5_failed(&f->to, e);
  else
    dataset_describe(f->to.name, dataset, (dataset_words){"s", "time"}, e);
  if (dataset >= 0) H5Dclose(dataset);
  TRY(e->id);
  return attribute_text(f->to.name, f->dataset, "coordinates", "time", e);
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
    TRY(axis_create(f->to.name, f->to.file, &a, e));
  }
  TRY(axes_attach(f->to.name, f->to.file, f->dataset, 3, names, e));
  TRY(field_describe(f->to.name, f->dataset, &m->run, e));
  return create_time(f, &m->run.time, e);
}

static int create_groups(field_file *f, const field_meta *m, error *e) {
  hid_t image = H5Gcreate2(f->to.file, "VTKHDF", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  hid_t points = image < 0 ? -1 : H5Gcreate2(image, "PointData", H5P_DEFAULT, H5P_DEFAULT, H5P_DEFAULT);
  if (points < 0)
    new_hdf5_failed(&f->to, e);
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
  TRY(new_hdf5_create(&f->to, path, 0, e));
  TRY(attribute_run(f->to.name, f->to.file, &meta->run, e));
  TRY(create_groups(f, meta, e));
  TRY(create_axes(f, meta, e));
  return H5Fflush(f->to.file, H5F_SCOPE_GLOBAL) < 0 || f->to.failure.id ? new_hdf5_failed(&f->to, e) : 0;
}

int field_close(field_file *f, error *e) {
  if (f->dataset >= 0 && H5Dclose(f->dataset) < 0) new_hdf5_failed(&f->to, e);
  f->dataset = H5I_INVALID_HID;
  return new_hdf5_close(&f->to, e);
}
