/* Checks that a dataset holds plain numbers, and all of them. */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "input.h"

enum { SOURCES_MOST = 10000, CHUNKS_MOST = 10000000 };

/* --- the type --------------------------------------------------------------------------------------------------- */

static int storage_check_type(const input *in, error *e) {
  static const char *const names[H5T_NCLASSES] = {[H5T_STRING] = "strings",
                                                  [H5T_COMPOUND] = "compound values",
                                                  [H5T_ENUM] = "enumerated values",
                                                  [H5T_BITFIELD] = "bit fields",
                                                  [H5T_OPAQUE] = "opaque values",
                                                  [H5T_REFERENCE] = "references",
                                                  [H5T_VLEN] = "variable-length values",
                                                  [H5T_ARRAY] = "arrays",
                                                  [H5T_TIME] = "times",
                                                  [H5T_INTEGER] = "numbers of an unknown format",
                                                  [H5T_FLOAT] = "numbers of an unknown format"};
  char name[2 * FILE_NAME];
  hid_t type = H5Dget_type(in->dataset);
  if (type < 0) return input_damaged(in, HDF5_WHY, e);
  const H5T_class_t class = H5Tget_class(type);
  const char *found = class >= 0 && class < H5T_NCLASSES ? names[class] : NULL;
  const bool sound = hdf5_sound_number(type);
  H5Tclose(type);
  snprintf(name, sizeof name, "%s:%s", in->file, in->path);
  return sound ? 0 : FAIL(e, FIELD_TYPE, name, found ? found : "an unknown type");
}

/* --- sources of virtual datasets -------------------------------------------------------------------------------------- */

/* Bytes of a number; 0 after a failure. */
static size_t storage_size(hid_t dataset) {
  hid_t type = H5Dget_type(dataset);
  const size_t size = type < 0 ? 0 : H5Tget_size(type);
  if (type >= 0) H5Tclose(type);
  return size;
}

static int64_t storage_points(hid_t dataset) {
  hid_t space = H5Dget_space(dataset);
  hssize_t points = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
  if (space >= 0) H5Sclose(space);
  return points;
}

/* Opens the source of part i of a virtual dataset and checks it. The file of the source stays open. */
static int storage_open_source(input *in, hid_t list, size_t i, error *e) {
  input source = {.kind = in->kind,
                  .source = true,
                  .checked = in->checked,
                  .opened = H5I_INVALID_HID,
                  .dataset = H5I_INVALID_HID};
  char file[FILE_NAME];
  ssize_t file_length = H5Pget_virtual_filename(list, i, file, sizeof file);
  ssize_t path_length = H5Pget_virtual_dsetname(list, i, source.path, sizeof source.path);
  if (file_length <= 0 || path_length <= 0) return input_damaged(in, HDF5_WHY, e);
  if (file_length >= FILE_NAME || path_length >= FILE_NAME || strchr(file, '%') || strchr(source.path, '%'))
    return input_convert(
        in, "a virtual dataset whose sources have names that are too long or have a % in them", e);
  error found = {0};
  if (strcmp(file, ".") == 0)
    strcpy(source.file, in->file);
  else
    input_find_file(in->file, getenv("HDF5_VDS_PREFIX"), file, source.file, &found);
  if (!found.id && !input_open_place(&source, &found)) {
    in->held[in->held_count++] = source.opened;
    source.opened = H5I_INVALID_HID;
  }
  input_close(&source);
  return found.id ? input_convert(in, found.text, e) : 0;
}

/* Adds the points of a part to *all, each once; *all is H5I_INVALID_HID before the first part. */
static bool storage_add_part(hid_t *all, hid_t part) {
  const H5S_sel_type type = part < 0 ? H5S_SEL_ERROR : H5Sget_select_type(part);
  const H5S_sel_type before = *all < 0 ? H5S_SEL_NONE : H5Sget_select_type(*all);
  if (type == H5S_SEL_ERROR || H5Sget_select_npoints(part) < 0) return false;
  if (before == H5S_SEL_HYPERSLABS && type == H5S_SEL_HYPERSLABS)
    return H5Smodify_select(*all, H5S_SELECT_OR, part) >= 0;
  if (before == H5S_SEL_ALL || type == H5S_SEL_NONE) return true;
  if (*all >= 0) H5Sclose(*all);
  return (*all = H5Scopy(part)) >= 0;
}

/* Opens the sources of all parts, and finds how many points these hold. */
static int storage_open_parts(input *in, hid_t list, size_t count, hssize_t *held, error *e) {
  hid_t all = H5I_INVALID_HID;
  for (size_t i = 0; i < count && !e->id; i++) {
    const hid_t part = H5Pget_virtual_vspace(list, i);
    if (storage_add_part(&all, part))
      storage_open_source(in, list, i, e);
    else
      input_damaged(in, "a virtual dataset whose parts are damaged or have no end", e);
    if (part >= 0) H5Sclose(part);
  }
  *held = all < 0 ? 0 : H5Sget_select_npoints(all);
  if (all >= 0) H5Sclose(all);
  return e->id;
}

static int storage_check_virtual(input *in, hid_t list, error *e) {
  enum { SPARE = 8 }; /* descriptors: HDF5 opens a file for a moment before it finds that it has it open */
  size_t count = 0;
  hssize_t held = 0;
  int spare[SPARE];
  if (in->source) return input_convert(in, "a virtual dataset of another one, or of itself", e);
  if (H5Pget_virtual_count(list, &count) < 0) return input_damaged(in, HDF5_WHY, e);
  if (count > SOURCES_MOST) return input_convert(in, "a virtual dataset of too many others", e);
  TRY(ALLOC(e, in->held, count, "the sources of a virtual dataset"));
  for (int i = 0; i < SPARE; i++) spare[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
  storage_open_parts(in, list, count, &held, e);
  for (int i = 0; i < SPARE; i++)
    if (spare[i] >= 0) close(spare[i]);
  /* The shape is asked for only now: HDF5 may open the sources to know it. */
  if (e->id || held == storage_points(in->dataset)) return e->id;
  return input_convert(in, "a virtual dataset whose sources do not hold all values", e);
}

/* --- chunks ----------------------------------------------------------------------------------------------------- */

/* Does a filter make as many bytes as a chunk of so many points has? HDF5 reads that many bytes of the result.
 * Scale-offset and N-bit allocate the result for the number of points that the file says. */
static bool storage_sound_filter(hid_t list, unsigned filter, uint64_t points, size_t size) {
  enum { POINTS = 2, SIZE = 4, MOST = 20 }; /* places of a filter's numbers */
  unsigned flags, values[MOST] = {0};
  size_t count = MOST;
  const H5Z_filter_t id = H5Pget_filter2(list, filter, &flags, &count, values, 0, NULL, NULL);
  if (id != H5Z_FILTER_SCALEOFFSET && id != H5Z_FILTER_NBIT) return id >= 0;
  return count > SIZE && values[POINTS] == points && values[SIZE] == size;
}

/* How a dataset is cut into chunks. */
typedef struct storage_chunks {
  int rank, filters;
  hsize_t chunk[H5S_MAX_RANK], shape[H5S_MAX_RANK];
  uint64_t points, bytes; /* of a chunk */
  uint64_t count;         /* of chunks */
} storage_chunks;

/* Reads how the dataset is cut. Chunks are no larger than the dataset may become: HDF5 demands this in creating a
 * dataset, but not in reading one. */
static bool storage_read_chunks(const input *in, hid_t list, storage_chunks *c) {
  hsize_t most[H5S_MAX_RANK];
  hid_t space = H5Dget_space(in->dataset);
  const size_t size = storage_size(in->dataset);
  *c = (storage_chunks){.filters = H5Pget_nfilters(list), .points = 1, .count = 1};
  c->rank = space < 0 ? -1 : H5Sget_simple_extent_dims(space, c->shape, most);
  if (space >= 0) H5Sclose(space);
  bool sound = c->rank > 0 && c->filters >= 0 && H5Pget_chunk(list, H5S_MAX_RANK, c->chunk) == c->rank;
  for (int i = 0; sound && i < c->rank; i++) {
    const uint64_t along = c->chunk[i] ? (c->shape[i] + c->chunk[i] - 1) / c->chunk[i] : 0;
    sound = c->chunk[i] && (most[i] == H5S_UNLIMITED || c->chunk[i] <= most[i]) &&
            !__builtin_mul_overflow(c->points, (uint64_t)c->chunk[i], &c->points);
    if (__builtin_mul_overflow(c->count, along, &c->count)) c->count = UINT64_MAX;
  }
  for (int i = 0; sound && i < c->filters; i++)
    sound = storage_sound_filter(list, (unsigned)i, c->points, size);
  return sound && !__builtin_mul_overflow(c->points, (uint64_t)size, &c->bytes);
}

/* Was a filter applied to the chunk that may change the number of bytes? `mask`: the filters that were not applied. */
static bool storage_is_packed(hid_t list, int filters, unsigned mask) {
  for (int i = 0; i < filters; i++) {
    unsigned flags;
    size_t count = 0;
    const H5Z_filter_t id = H5Pget_filter2(list, (unsigned)i, &flags, &count, NULL, 0, NULL, NULL);
    if (!(mask >> i & 1) && id != H5Z_FILTER_SHUFFLE && id != H5Z_FILTER_FLETCHER32) return true;
  }
  return false;
}

/* Does HDF5 get a whole chunk from what the file has of it? */
static bool storage_sound_chunk(const input *in, hid_t list, const storage_chunks *c, const hsize_t at[]) {
  hsize_t bytes = 0;
  uint32_t mask = 0;
  /* A failure or 0: the chunk is not there, or readers cannot find it either. */
  if (H5Dget_chunk_storage_size(in->dataset, at, &bytes) < 0 || bytes == 0 || bytes >= c->bytes) return true;
  if (!storage_is_packed(list, c->filters, mask)) return false;
  void *packed = malloc(bytes);
  const bool read = packed && H5Dread_chunk(in->dataset, H5P_DEFAULT, at, &mask, packed) >= 0;
  free(packed);
  return read && storage_is_packed(list, c->filters, mask);
}

/* Without filters HDF5 returns the size that each chunk should have, but reads the size in the file. So the sum of
 * sizes is compared. */
static bool storage_sound_sum(const input *in, const storage_chunks *c) {
  hsize_t there = 0;
  hid_t space = H5Dget_space(in->dataset);
  const bool known = space >= 0 && H5Dget_num_chunks(in->dataset, space, &there) >= 0;
  if (space >= 0) H5Sclose(space);
  return known && H5Dget_storage_size(in->dataset) == there * c->bytes;
}

/* Checks each chunk. A chunk says which filters were not applied to it, as where data do not get smaller. HDF5
 * believes that, and takes the bytes it has read for a whole chunk. HDF5 1.10 does not tell these filters without
 * reading the chunk or searching all of them. */
static bool storage_sound_chunks(const input *in, hid_t list, const storage_chunks *c) {
  hsize_t at[H5S_MAX_RANK] = {0};
  if (c->filters == 0) return storage_sound_sum(in, c);
  if (c->count > CHUNKS_MOST)
    return true; /* a table of which little is there, and which is too large to be read */
  for (uint64_t n = 0; n < c->count; n++) {
    if (!storage_sound_chunk(in, list, c, at)) return false;
    for (int i = c->rank - 1; i >= 0 && (at[i] += c->chunk[i]) >= c->shape[i]; i--) at[i] = 0;
  }
  return true;
}

static int storage_check_chunks(const input *in, hid_t list, error *e) {
  storage_chunks c;
  const bool sound = storage_read_chunks(in, list, &c) && storage_sound_chunks(in, list, &c);
  return sound ? 0 : input_damaged(in, "its chunks are damaged", e);
}

static int storage_check_layout(const input *in, hid_t list, H5D_layout_t layout, error *e) {
  const int external = layout == H5D_CONTIGUOUS ? H5Pget_external_count(list) : 0;
  if (layout == H5D_LAYOUT_ERROR || external < 0) return input_damaged(in, HDF5_WHY, e);
  if (external > 0) return input_convert(in, "its values are in other files", e);
  if (layout == H5D_CHUNKED) return storage_check_chunks(in, list, e);
  return layout == H5D_COMPACT || layout == H5D_CONTIGUOUS ? 0 : input_damaged(in, "an unknown layout", e);
}

int input_check_storage(input *in, error *e) {
  if (!in->checked) TRY(storage_check_type(in, e));
  const hid_t list = H5Dget_create_plist(in->dataset);
  const H5D_layout_t layout = list < 0 ? H5D_LAYOUT_ERROR : H5Pget_layout(list);
  if (layout == H5D_VIRTUAL)
    storage_check_virtual(in, list, e);
  else if (!in->checked)
    storage_check_layout(in, list, layout, e);
  if (list >= 0) H5Pclose(list);
  return e->id;
}
