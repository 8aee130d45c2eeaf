/* Opening an input dataset, a field above all, and saying exactly what is wrong with it. */
#include "io_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/error_mpi.h"

enum { LIST_DATASETS = 5, LIST_DEPTH = 4, LIST_LINKS = 64, LIST_TEXT = 512 };

int field_name_split(field_name *n, const char *name, error *e) {
  const char *cut = NULL;
  for (const char *p = name; (p = strstr(p, ":/")); p++) cut = p;
  if (!cut || cut == name || !cut[2] || cut - name >= FILE_NAME) return FAIL(e, FIELD_NAME, name);
  snprintf(n->file, sizeof n->file, "%.*s", (int)(cut - name), name);
  n->dataset = cut + 1;
  return 0;
}

/* The system's own words for a file that cannot be read, which HDF5 would bury. */
static int check_readable(const char *file, error *e) {
  int fd = open(file, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* a pipe may never be opened at its other end */
  struct stat s;
  int reason = fd < 0 || fstat(fd, &s) ? errno : S_ISDIR(s.st_mode) ? EISDIR : 0;
  if (fd >= 0) close(fd);
  if (reason) return FAIL(e, FIELD_FILE, file, strerror(reason));
  return S_ISREG(s.st_mode) ? 0 : FAIL(e, FIELD_FILE, file, "it is not a regular file");
}

static int open_file(hid_t *opened, const char *file, error *e) {
  TRY(check_readable(file, e));
  hid_t access = hdf5_access();
  *opened = access < 0 ? H5I_INVALID_HID : H5Fopen(file, H5F_ACC_RDONLY, access);
  const char *why = *opened < 0 ? HDF5_WHY : "";
  if (access >= 0) H5Pclose(access);
  if (*opened >= 0) return 0;
  if (strstr(why, "signature not found")) return FAIL(e, FIELD_NOT_HDF5, file);
  if (strstr(why, "truncated file")) return FAIL(e, FIELD_TRUNCATED, file, why);
  return FAIL(e, FIELD_DAMAGED, file, why);
}

/* Appends the paths of datasets of this kind below `group` to `text`; returns how many were found so far. */
static int list_datasets(hid_t group, dataset_kind kind, const char *path, int depth, int found,
                         char text[LIST_TEXT]) {
  H5G_info_t info;
  if (H5Gget_info(group, &info) < 0) return found;
  for (hsize_t i = 0; i < info.nlinks && i < LIST_LINKS && found < LIST_DATASETS; i++) {
    char link[128], child[256];
    ssize_t length =
        H5Lget_name_by_idx(group, ".", H5_INDEX_NAME, H5_ITER_INC, i, link, sizeof link, H5P_DEFAULT);
    if (length <= 0 || length >= (ssize_t)sizeof link) continue;
    if (snprintf(child, sizeof child, "%s/%s", path, link) >= (int)sizeof child) continue;
    hid_t object = H5Oopen(group, link, H5P_DEFAULT);
    H5I_type_t type = object < 0 ? H5I_BADID : H5Iget_type(object);
    if (type == H5I_GROUP && depth < LIST_DEPTH)
      found = list_datasets(object, kind, child, depth + 1, found, text);
    hid_t space = type == H5I_DATASET ? H5Dget_space(object) : H5I_INVALID_HID;
    size_t used = strlen(text);
    int rank = space >= 0 ? H5Sget_simple_extent_ndims(space) : -1;
    if (rank >= kind.rank_min && rank <= kind.rank_max && found < LIST_DATASETS) {
      if (found)
        snprintf(text + used, LIST_TEXT - used, ", %s", child);
      else
        snprintf(text + used, LIST_TEXT - used, "its %s datasets are %s", kind.name, child);
      found++;
    }
    if (space >= 0) H5Sclose(space);
    if (object >= 0) H5Oclose(object);
  }
  return found;
}

static int open_dataset(const char *name, const field_name *n, dataset_kind kind, hid_t file, hid_t *dataset,
                        error *e) {
  hid_t object = H5Oopen(file, n->dataset, H5P_DEFAULT);
  if (object < 0) {
    const char *why = HDF5_WHY;
    char list[LIST_TEXT] = "";
    if (!strstr(why, "doesn't exist") && !strstr(why, "not found") && !strstr(why, "not a group"))
      return FAIL(e, FIELD_DAMAGED, name, why);
    if (!list_datasets(file, kind, "", 0, 0, list))
      snprintf(list, sizeof list, "it holds no %s dataset", kind.name);
    return FAIL(e, FIELD_NO_DATASET, n->file, n->dataset, list);
  }
  if (H5Iget_type(object) == H5I_DATASET) {
    *dataset = object;
    return 0;
  }
  const char *other = H5Iget_type(object) == H5I_GROUP ? "group" : "named type";
  H5Oclose(object);
  return FAIL(e, FIELD_NOT_DATASET, n->file, n->dataset, other);
}

int dataset_shape(const char *name, hid_t dataset, hsize_t shape[H5S_MAX_RANK], int *rank,
                  char text[SHAPE_TEXT], error *e) {
  hid_t space = H5Dget_space(dataset);
  *rank = space < 0 ? -1 : H5Sget_simple_extent_dims(space, shape, NULL);
  H5S_class_t class = space < 0 ? H5S_NO_CLASS : H5Sget_simple_extent_type(space);
  if (*rank < 0) FAIL(e, FIELD_DAMAGED, name, HDF5_WHY);
  if (space >= 0) H5Sclose(space);
  TRY(e->id);
  snprintf(text, SHAPE_TEXT, "%s", class == H5S_SCALAR ? "a scalar" : class == H5S_NULL ? "no values" : "(");
  for (int i = 0; i < *rank; i++) {
    size_t used = strlen(text);
    snprintf(text + used, SHAPE_TEXT - used, "%llu%s", (unsigned long long)shape[i],
             i < *rank - 1 ? ", "
             : *rank == 1  ? ",)"
                           : ")");
  }
  return 0;
}

static int check_type(const char *name, hid_t dataset, error *e) {
  static const struct {
    H5T_class_t class;
    const char *name;
  } others[] = {{H5T_STRING, "strings"},
                {H5T_COMPOUND, "compound values"},
                {H5T_ENUM, "enumerated values"},
                {H5T_BITFIELD, "bit fields"},
                {H5T_OPAQUE, "opaque values"},
                {H5T_REFERENCE, "references"},
                {H5T_VLEN, "variable-length values"},
                {H5T_ARRAY, "arrays"},
                {H5T_TIME, "times"}};
  hid_t type = H5Dget_type(dataset);
  if (type < 0) return FAIL(e, FIELD_DAMAGED, name, HDF5_WHY);
  H5T_class_t class = H5Tget_class(type);
  H5Tclose(type);
  if (class == H5T_INTEGER || class == H5T_FLOAT) return 0;
  for (size_t i = 0; i < sizeof others / sizeof *others; i++)
    if (others[i].class == class) return FAIL(e, FIELD_TYPE, name, others[i].name);
  return FAIL(e, FIELD_TYPE, name, "an unknown type");
}

int dataset_open(const char *name, dataset_kind kind, hid_t *file, hid_t *dataset, error *e) {
  field_name n;
  TRY(field_name_split(&n, name, e));
  TRY(open_file(file, n.file, e));
  TRY(open_dataset(name, &n, kind, *file, dataset, e));
  return check_type(name, *dataset, e);
}

int field_open(field_file *f, int nx, int ny, int nz, error *e) {
  hsize_t shape[H5S_MAX_RANK];
  char found[SHAPE_TEXT];
  int rank;
  TRY(dataset_open(f->name, (dataset_kind){3, 3, "3D"}, &f->file, &f->dataset, e));
  TRY(dataset_shape(f->name, f->dataset, shape, &rank, found, e));
  if (rank == 3 && shape[0] == (hsize_t)nz && shape[1] == (hsize_t)ny && shape[2] == (hsize_t)nx) return 0;
  return FAIL(e, FIELD_SHAPE, f->name, nz, ny, nx, found);
}

int field_check(const char *dataset, int nx, int ny, int nz, error *e) {
  field_file f = {.name = dataset, .file = H5I_INVALID_HID, .dataset = H5I_INVALID_HID};
  int rc = field_open(&f, nx, ny, nz, e);
  field_file_close(&f);
  return rc;
}

#ifdef H5_HAVE_PARALLEL

int field_open_parallel(field_file *f, const char *file, const char *dataset, unsigned flags, error *e) {
  check_readable(file, e); /* a node may not see the file that rank 0 has checked */
  TRY(error_agree(e, f->io->comm));
  hid_t access = hdf5_access();
  if (access < 0 || H5Pset_fapl_mpio(access, f->io->comm, MPI_INFO_NULL) < 0)
    FAIL(e, FIELD_PARALLEL, f->name, HDF5_WHY);
  if (!error_agree(e, f->io->comm)) {
    f->file = H5Fopen(file, flags, access);
    f->dataset = f->file < 0 ? H5I_INVALID_HID : H5Dopen2(f->file, dataset, H5P_DEFAULT);
    if (f->dataset < 0) FAIL(e, FIELD_PARALLEL, f->name, HDF5_WHY);
  }
  if (access >= 0) H5Pclose(access);
  return error_agree(e, f->io->comm);
}

#else

int field_open_parallel(field_file *f, const char *file, const char *dataset, unsigned flags, error *e) {
  (void)f, (void)file, (void)dataset, (void)flags;
  return FAIL(e, IO_NOT_COLLECTIVE); /* field_io_init has refused this mode */
}

#endif
