/* Opening an input dataset, a field above all, and comparing its shape. */
#include <string.h>
#include "base/error_mpi.h"
#include "input.h"

int field_name_split(field_name *n, const char *name, error *e) {
  const char *cut = NULL;
  for (const char *p = name; (p = strstr(p, ":/")); p++) cut = p;
  if (!cut || cut == name || !cut[2] || cut - name >= FILE_NAME) return FAIL(e, FIELD_NAME, name);
  snprintf(n->file, sizeof n->file, "%.*s", (int)(cut - name), name);
  n->dataset = cut + 1;
  return 0;
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

int dataset_open(const char *name, dataset_kind kind, hid_t *file, hid_t *dataset, error *e) {
  input in = {.kind = kind, .opened = H5I_INVALID_HID, .dataset = H5I_INVALID_HID};
  field_name n;
  error found = {0};
  TRY(field_name_split(&n, name, e));
  if (strlen(n.dataset) >= sizeof in.path) return FAIL(e, FIELD_NAME, name);
  strcpy(in.file, n.file);
  strcpy(in.path, n.dataset);
  input_open(&in, &found);
  *file = in.opened, *dataset = in.dataset;
  if (found.id && in.hops)
    return FAIL(e, FIELD_DAMAGED, name, found.text); /* that one names what a link leads to */
  if (found.id) *e = found;
  return found.id;
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
  input_check_file(file, e); /* a node may not see the file that rank 0 has checked */
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
