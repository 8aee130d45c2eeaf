/* One array of a checkpoint: how it lies in the file, and its rows on their way there and back. */
#include <inttypes.h>
#include <string.h>
#include "checkpoint_internal.h"

enum {
  CHUNK_BYTES = 1 << 20,  /* what a reader that knows nothing of us has a cache for */
  CACHE_BYTES = 16 << 20, /* chunks that rows have not filled yet wait in memory */
  CACHE_SLOTS = 521,
  ARRAY_OVERHEAD = 4096, /* bytes an array takes beside its chunks, */
  CHUNK_OVERHEAD = 24,   /* and each chunk, with its checksum and its place in the index, */
  FILE_OVERHEAD = 1 << 18
};

size_t checkpoint_value_bytes(enum checkpoint_type type) {
  return type == CHECKPOINT_FLOAT ? 4 : 8;
}

static hid_t memory_type(enum checkpoint_type type) {
  return type == CHECKPOINT_FLOAT    ? H5T_NATIVE_FLOAT
         : type == CHECKPOINT_DOUBLE ? H5T_NATIVE_DOUBLE
                                     : H5T_NATIVE_INT64;
}

static hid_t disk_type(enum checkpoint_type type) {
  return type == CHECKPOINT_FLOAT    ? H5T_IEEE_F32LE
         : type == CHECKPOINT_DOUBLE ? H5T_IEEE_F64LE
                                     : H5T_STD_I64LE;
}

static uint64_t product(uint64_t a, uint64_t b) {
  uint64_t c;
  return __builtin_mul_overflow(a, b, &c) ? UINT64_MAX : c;
}

static uint64_t sum(uint64_t a, uint64_t b) {
  uint64_t c;
  return __builtin_add_overflow(a, b, &c) ? UINT64_MAX : c;
}

uint64_t checkpoint_row_bytes(enum checkpoint_type type, int axes, const int64_t shape[3]) {
  uint64_t bytes = checkpoint_value_bytes(type);
  for (int i = 1; i < axes; i++) bytes = product(bytes, (uint64_t)shape[i]);
  return bytes;
}

/* (2, 3, 4) */
static void shape_text(int axes, const hsize_t shape[3], char text[SHAPE_TEXT]) {
  int used = snprintf(text, SHAPE_TEXT, "(");
  for (int i = 0; i < axes; i++)
    used += snprintf(text + used, (size_t)(SHAPE_TEXT - used), "%" PRIu64 "%s", (uint64_t)shape[i],
                     i < axes - 1 ? ", "
                     : axes == 1  ? ",)"
                                  : ")");
}

static void extents(const checkpoint_array *a, hsize_t shape[3]) {
  for (int i = 0; i < 3; i++) shape[i] = i < a->axes ? (hsize_t)a->shape[i] : 1;
}

static bool empty(const hsize_t shape[3]) {
  return !shape[0] || !shape[1] || !shape[2];
}

/* Chunks as large as they may be, along the fastest axes first: large rows are cut into chunks of their own, so that
 * the slab of a rank fills its chunks alone; small ones share. Pieces of an axis are nearly equal: the last one takes
 * as much space as the others. */
static void chunk_of(enum checkpoint_type type, const hsize_t shape[3], hsize_t chunk[3]) {
  hsize_t left = CHUNK_BYTES / checkpoint_value_bytes(type);
  for (int i = 2; i >= 0; i--) {
    hsize_t most = shape[i] < left ? shape[i] : left;
    hsize_t pieces = (shape[i] - 1) / most + 1;
    chunk[i] = (shape[i] - 1) / pieces + 1;
    left = left / chunk[i] ? left / chunk[i] : 1;
  }
}

static uint64_t chunk_count(const hsize_t shape[3], const hsize_t chunk[3]) {
  uint64_t count = 1;
  for (int i = 0; i < 3; i++) count = product(count, (shape[i] - 1) / chunk[i] + 1);
  return count;
}

uint64_t checkpoint_bytes(const checkpoint_array *arrays, int count) {
  uint64_t bytes = FILE_OVERHEAD;
  for (int i = 0; i < count; i++) {
    hsize_t shape[3], chunk[3];
    bytes = sum(bytes, ARRAY_OVERHEAD);
    extents(&arrays[i], shape);
    if (empty(shape)) continue;
    chunk_of(arrays[i].type, shape, chunk);
    uint64_t one = chunk[0] * chunk[1] * chunk[2] * checkpoint_value_bytes(arrays[i].type) + CHUNK_OVERHEAD;
    bytes = sum(bytes, product(chunk_count(shape, chunk), one));
  }
  return bytes;
}

/* An array without values can have no chunks. */
static hid_t creation_list(const stored_array *s, int compress) {
  hsize_t chunk[3];
  hid_t list = H5Pcreate(H5P_DATASET_CREATE);
  bool ok = list >= 0 && H5Pset_fill_time(list, H5D_FILL_TIME_NEVER) >= 0 &&
            H5Pset_obj_track_times(list, false) >= 0;
  if (ok && !empty(s->shape)) {
    chunk_of(s->type, s->shape, chunk);
    ok = H5Pset_alloc_time(list, H5D_ALLOC_TIME_INCR) >= 0 && H5Pset_chunk(list, s->axes, chunk) >= 0;
    if (ok && compress) ok = H5Pset_shuffle(list) >= 0 && H5Pset_deflate(list, (unsigned)compress) >= 0;
    if (ok) ok = H5Pset_fletcher32(list) >= 0; /* last: over what is on disk */
  }
  if (ok || list < 0) return list;
  H5Pclose(list);
  return H5I_INVALID_HID;
}

static hid_t access_list(void) {
  hid_t list = H5Pcreate(H5P_DATASET_ACCESS);
  if (list < 0 || H5Pset_chunk_cache(list, CACHE_SLOTS, CACHE_BYTES, 1.0) >= 0) return list;
  H5Pclose(list);
  return H5I_INVALID_HID;
}

int stored_create(stored_array *s, const char *name, hid_t file, const checkpoint_array *a, int compress,
                  error *e) {
  *s = (stored_array){
      .file = name, .name = a->name, .dataset = H5I_INVALID_HID, .type = a->type, .axes = a->axes};
  extents(a, s->shape);
  s->row_bytes = checkpoint_row_bytes(a->type, a->axes, a->shape);
  if (compress && H5Zfilter_avail(H5Z_FILTER_DEFLATE) <= 0) return FAIL(e, FIELD_NO_GZIP);
  hid_t list = creation_list(s, compress), access = access_list();
  hid_t space = H5Screate_simple(s->axes, s->shape, NULL);
  if (list >= 0 && access >= 0 && space >= 0)
    s->dataset = H5Dcreate2(file, a->name, disk_type(a->type), space, H5P_DEFAULT, list, access);
  if (s->dataset < 0) FAIL(e, FILE_WRITE, name, HDF5_WHY);
  if (space >= 0) H5Sclose(space);
  if (access >= 0) H5Pclose(access);
  if (list >= 0) H5Pclose(list);
  return e->id;
}

static int damaged(const stored_array *s, const char *why, error *e) {
  char reason[HDF5_TEXT + 64];
  snprintf(reason, sizeof reason, "array %s: %s", s->name, why);
  return FAIL(e, CHECKPOINT_DAMAGED, s->file, reason);
}

static int find_type(stored_array *s, error *e) {
  hid_t found = H5Dget_type(s->dataset);
  bool known = false;
  for (int type = CHECKPOINT_FLOAT; type <= CHECKPOINT_INT64 && found >= 0 && !known; type++) {
    s->type = (enum checkpoint_type)type;
    known = H5Tequal(found, disk_type(s->type)) > 0;
  }
  if (found >= 0) H5Tclose(found);
  return known ? 0 : damaged(s, "of an unknown type", e);
}

static int find_shape(stored_array *s, error *e) {
  hid_t space = H5Dget_space(s->dataset);
  s->axes = space < 0 ? -1 : H5Sget_simple_extent_ndims(space);
  bool good = s->axes >= 1 && s->axes <= 3 && H5Sget_simple_extent_dims(space, s->shape, NULL) == s->axes;
  if (space >= 0) H5Sclose(space);
  if (!good) return damaged(s, "of an unknown shape", e);
  int64_t shape[3];
  for (int i = 0; i < 3; i++) {
    if (i >= s->axes) s->shape[i] = 1;
    if (s->shape[i] > INT64_MAX) return damaged(s, "of an unknown shape", e);
    shape[i] = (int64_t)s->shape[i];
  }
  s->row_bytes = checkpoint_row_bytes(s->type, s->axes, shape);
  return 0;
}

int stored_open(stored_array *s, const char *name, hid_t file, const char *array, error *e) {
  *s = (stored_array){.file = name, .name = array, .dataset = H5I_INVALID_HID};
  hid_t access = access_list();
  if (access >= 0) s->dataset = H5Dopen2(file, array, access);
  if (s->dataset < 0) damaged(s, HDF5_WHY, e);
  if (access >= 0) H5Pclose(access);
  TRY(e->id);
  TRY(find_type(s, e));
  return find_shape(s, e);
}

int stored_matches(const stored_array *s, const checkpoint_array *a, error *e) {
  static const char *const types[] = {"float32", "float64", "int64"};
  hsize_t shape[3];
  char expected[SHAPE_TEXT], found[SHAPE_TEXT];
  extents(a, shape);
  shape_text(a->axes, shape, expected);
  shape_text(s->axes, s->shape, found);
  if (strcmp(expected, found)) return FAIL(e, CHECKPOINT_ARRAY, s->file, s->name, "shape", expected, found);
  if (s->type == a->type) return 0;
  return FAIL(e, CHECKPOINT_ARRAY, s->file, s->name, "type", types[a->type], types[s->type]);
}

int stored_transfer(const stored_array *s, enum field_direction direction, int64_t row, int64_t rows,
                    void *values, error *e) {
  hsize_t start[3] = {(hsize_t)row, 0, 0}, count[3] = {(hsize_t)rows, s->shape[1], s->shape[2]};
  hid_t disk = H5Screate_simple(s->axes, s->shape, NULL), memory = H5Screate_simple(s->axes, count, NULL);
  hid_t type = memory_type(s->type);
  herr_t rc =
      disk < 0 || memory < 0 ? -1 : H5Sselect_hyperslab(disk, H5S_SELECT_SET, start, NULL, count, NULL);
  if (rc >= 0 && direction == FIELD_READ)
    rc = H5Dread(s->dataset, type, memory, disk, H5P_DEFAULT, values);
  else if (rc >= 0)
    rc = H5Dwrite(s->dataset, type, memory, disk, H5P_DEFAULT, values);
  if (rc < 0 && direction == FIELD_READ)
    damaged(s, HDF5_WHY, e);
  else if (rc < 0)
    FAIL(e, FILE_WRITE, s->file, HDF5_WHY);
  if (disk >= 0) H5Sclose(disk);
  if (memory >= 0) H5Sclose(memory);
  return e->id;
}

bool stored_complete(const stored_array *s) {
  if (empty(s->shape)) return true;
#if H5_VERSION_GE(1, 10, 5)
  hsize_t chunk[3], found = 0;
  hid_t space = H5Dget_space(s->dataset);
  herr_t rc = space < 0 ? -1 : H5Dget_num_chunks(s->dataset, space, &found);
  if (space >= 0) H5Sclose(space);
  chunk_of(s->type, s->shape, chunk);
  return rc >= 0 && found == chunk_count(s->shape, chunk);
#else
  return H5Dget_storage_size(s->dataset) > 0;
#endif
}

int stored_close(stored_array *s) {
  herr_t rc = s->dataset >= 0 ? H5Dclose(s->dataset) : 0;
  s->dataset = H5I_INVALID_HID;
  return rc < 0 ? -1 : 0;
}
