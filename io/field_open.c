/* Opening an input dataset, a field above all, and comparing its shape. */
#include <string.h>
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

int field_open(const char *name, const slab *s, hid_t *file, hid_t *dataset, error *e) {
  hsize_t shape[H5S_MAX_RANK];
  char found[SHAPE_TEXT];
  int rank;
  TRY(dataset_open(name, (dataset_kind){3, 3, "3D"}, file, dataset, e));
  TRY(dataset_shape(name, *dataset, shape, &rank, found, e));
  const hsize_t nz = (hsize_t)s->nz_global, ny = (hsize_t)s->ny, nx = (hsize_t)s->nx;
  if (rank == 3 && shape[0] == nz && shape[1] == ny && shape[2] == nx) return 0;
  return FAIL(e, FIELD_SHAPE, name, s->nz_global, s->ny, s->nx, found);
}

int field_check(const char *dataset, int nx, int ny, int nz, error *e) {
  hid_t file = H5I_INVALID_HID, opened = H5I_INVALID_HID;
  field_open(dataset, &(slab){.nx = nx, .ny = ny, .nz_global = nz}, &file, &opened, e);
  if (opened >= 0) H5Dclose(opened);
  if (file >= 0) H5Fclose(file);
  return e->id;
}
