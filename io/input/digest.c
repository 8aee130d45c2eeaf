#include "digest.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "input.h"

enum { DIGEST_BLOCK = 8 << 20 /* bytes, but at least one row */ };

static void digest_print(XXH128_hash_t h, char digest[DIGEST_TEXT]) {
  snprintf(digest, DIGEST_TEXT, "%016" PRIx64 "%016" PRIx64, (uint64_t)h.high64, (uint64_t)h.low64);
}

void digest_text(const char *text, char digest[DIGEST_TEXT]) {
  digest_print(XXH3_128bits(text, strlen(text)), digest);
}

/* Adds all values, a block of rows at a time. */
static int digest_values(XXH3_state_t *sum, const input *in, hid_t type, error *e) {
  input_block b = {.type = type, .rank = in->rank};
  char *values;
  memcpy(b.count, in->shape, sizeof b.count);
  XXH3_128bits_update(sum, in->found, strlen(in->found));
  size_t row = H5Tget_size(type);
  for (int i = 1; i < b.rank; i++) row *= (size_t)b.count[i];
  const hsize_t rows = b.rank ? b.count[0] : 1;
  hsize_t most = row && row < DIGEST_BLOCK ? DIGEST_BLOCK / row : 1;
  if (most > rows) most = rows;
  TRY(ALLOC(e, values, (size_t)most * row, "the digest of a dataset"));
  for (; row && b.start[0] < rows && !e->id; b.start[0] += most) {
    b.count[0] = rows - b.start[0] < most ? rows - b.start[0] : most;
    if (!input_get(in, &b, values, e)) XXH3_128bits_update(sum, values, (size_t)b.count[0] * row);
  }
  free(values);
  return e->id;
}

int digest_dataset(const char *dataset, char digest[DIGEST_TEXT], error *e) {
  input in;
  XXH3_state_t sum;
  XXH3_128bits_reset(&sum);
  if (!input_open(&in, dataset, (dataset_kind){1, H5S_MAX_RANK, "numeric"}, false, e) &&
      !input_check_plain(&in, QUANTITY_NONE, e)) {
    const hid_t type = H5Dget_type(in.dataset);
    if (type < 0)
      FAIL(e, FIELD_DAMAGED, dataset, HDF5_WHY);
    else
      digest_values(&sum, &in, type, e);
    if (type >= 0) H5Tclose(type);
  }
  if (!e->id) digest_print(XXH3_128bits_digest(&sum), digest);
  input_close(&in);
  return e->id;
}
