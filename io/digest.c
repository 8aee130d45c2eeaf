#include "digest.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include "input.h"

enum { DIGEST_BLOCK = 8 << 20 /* bytes, but at least one row */ };

static void digest_print(XXH128_hash_t h, char digest[DIGEST_TEXT]) {
  snprintf(digest, DIGEST_TEXT, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64, (uint64_t)h.low64);
}

void digest_bytes(const void *bytes, size_t count, char digest[DIGEST_TEXT]) {
  digest_print(XXH3_128bits(bytes, count), digest);
}

/* Rows of the open dataset. */
typedef struct digest_rows {
  hid_t type; /* as they are in the file */
  int rank;
  hsize_t first, shape[H5S_MAX_RANK];
  void *values;
} digest_rows;

static int digest_add_rows(XXH3_state_t *sum, const input *in, const digest_rows *r) {
  const hsize_t start[H5S_MAX_RANK] = {r->first};
  size_t bytes = H5Tget_size(r->type);
  for (int i = 0; i < r->rank; i++) bytes *= (size_t)r->shape[i];
  hid_t disk = H5Dget_space(in->dataset), memory = H5Screate_simple(r->rank, r->shape, NULL);
  const bool read =
      disk >= 0 && memory >= 0 &&
      (r->rank == 0 || H5Sselect_hyperslab(disk, H5S_SELECT_SET, start, NULL, r->shape, NULL) >= 0) &&
      H5Dread(in->dataset, r->type, memory, disk, H5P_DEFAULT, r->values) >= 0;
  if (memory >= 0) H5Sclose(memory);
  if (disk >= 0) H5Sclose(disk);
  return read ? XXH3_128bits_update(sum, r->values, bytes) != XXH_OK : 1;
}

/* Adds all values, a block of rows at a time. */
static int digest_values(XXH3_state_t *sum, const input *in, hid_t type, const char *name, error *e) {
  digest_rows r = {.type = type};
  char text[SHAPE_TEXT];
  TRY(dataset_shape(name, in->dataset, r.shape, &r.rank, text, e));
  XXH3_128bits_update(sum, text, strlen(text));
  size_t row = H5Tget_size(type);
  for (int i = 1; i < r.rank; i++) row *= (size_t)r.shape[i];
  const hsize_t rows = r.rank ? r.shape[0] : 1;
  hsize_t most = row && row < DIGEST_BLOCK ? DIGEST_BLOCK / row : 1;
  if (most > rows) most = rows;
  char *values;
  TRY(ALLOC(e, values, (size_t)most * row, "the digest of a dataset"));
  r.values = values;
  for (; row && r.first < rows && !e->id; r.first += most) {
    r.shape[0] = rows - r.first < most ? rows - r.first : most;
    if (digest_add_rows(sum, in, &r)) FAIL(e, FIELD_DAMAGED, name, HDF5_WHY);
  }
  free(r.values);
  return e->id;
}

/* Adds what the attributes say of the values. */
static int digest_meaning(XXH3_state_t *sum, const input *in, const char *name, error *e) {
  packing n;
  char units[PACKING_TEXT];
  TRY(input_read_units(in, name, units, e));
  TRY(input_read_packing(in, name, QUANTITY_NONE, &n, e));
  XXH3_128bits_update(sum, units, strlen(units));
  XXH3_128bits_update(sum, &n.scale, sizeof n.scale);
  XXH3_128bits_update(sum, &n.offset, sizeof n.offset);
  XXH3_128bits_update(sum, n.fill, (size_t)n.fills * sizeof *n.fill);
  return 0;
}

int digest_dataset(const char *dataset, char digest[DIGEST_TEXT], error *e) {
  const dataset_kind kind = {1, H5S_MAX_RANK, "numeric"};
  input in = {.opened = H5I_INVALID_HID, .dataset = H5I_INVALID_HID};
  hid_t type = H5I_INVALID_HID;
  XXH3_state_t *sum = XXH3_createState();
  if (!sum || XXH3_128bits_reset(sum) != XXH_OK)
    FAIL(e, OUT_OF_MEMORY, sizeof sum, "the digest of a dataset");
  if (!e->id && !dataset_open(dataset, kind, false, &in, e) && !digest_meaning(sum, &in, dataset, e)) {
    type = H5Dget_type(in.dataset);
    if (type < 0)
      FAIL(e, FIELD_DAMAGED, dataset, HDF5_WHY);
    else
      digest_values(sum, &in, type, dataset, e);
  }
  if (!e->id) digest_print(XXH3_128bits_digest(sum), digest);
  if (type >= 0) H5Tclose(type);
  input_close(&in);
  XXH3_freeState(sum);
  return e->id;
}
