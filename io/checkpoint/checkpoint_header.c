/* The header of a checkpoint: a block of text before the HDF5 part. It has the places of the arrays and a digest of all
 * other bytes. A file is compared with its header before HDF5 opens it, since HDF5 may crash on a damaged file
 * (versions up to 1.10.8 free unset pointers). The arrays' values have a checksum a row. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "checkpoint_internal.h"
#include "io/input/input.h"

enum { READ_BYTES = 1 << 20 };
#define MAGIC "stencil checkpoint\n"

const char *const CHECKPOINT_TYPE_NAMES[] = {"float32", "int64"};

/* --- the text --------------------------------------------------------------------------------------------------- */

static void header_print(char block[CHECKPOINT_HEADER], const checkpoint_header *s, uint64_t digest) {
  memset(block, 0, CHECKPOINT_HEADER);
  int used = snprintf(block, CHECKPOINT_HEADER,
                      MAGIC "format %d\ndigest %016" PRIx64 "\nrun %016" PRIx64 "\nprocess %016" PRIx64
                            "\ngeneration %" PRId64 "\nstep %" PRId64 "\ntime %.17g\ndt %.17g\nbytes %" PRIu64
                            "\nchecksums at %" PRIu64 "\nfingerprint at %" PRIu64 " %" PRIu64 "\narrays %d\n",
                      CHECKPOINT_FORMAT, digest, s->mark.run, s->mark.process, s->mark.generation, s->step,
                      s->time, s->dt, s->bytes, s->sums_at, s->keys_at, s->keys_bytes, s->count);
  for (int i = 0; i < s->count && used < CHECKPOINT_HEADER; i++) {
    const checkpoint_array *a = &s->arrays[i];
    used += snprintf(block + used, (size_t)(CHECKPOINT_HEADER - used),
                     "%s %s %d %" PRId64 " %" PRId64 " %" PRId64 " at %" PRIu64 "\n", a->name,
                     CHECKPOINT_TYPE_NAMES[a->type], a->axes, a->shape[0], a->shape[1], a->shape[2], a->at);
  }
}

static bool header_parse_array(const char **text, checkpoint_array *a) {
  char type[16];
  int length = 0;
  int found = sscanf(*text, "%31s %15s %d %" SCNd64 " %" SCNd64 " %" SCNd64 " at %" SCNu64 " %n", a->name,
                     type, &a->axes, &a->shape[0], &a->shape[1], &a->shape[2], &a->at, &length);
  *text += length;
  for (int i = 0; i < 3; i++)
    if (found < 7 || a->shape[i] < 0) return false;
  for (int i = 0; i < CHECKPOINT_TYPES; i++)
    if (strcmp(type, CHECKPOINT_TYPE_NAMES[i]) == 0) {
      a->type = (enum checkpoint_type)i;
      return a->axes >= 1 && a->axes <= 3;
    }
  return false;
}

/* Returns false where the block is no header. Of a header of another format only `format` is set. */
static bool header_parse(const char block[CHECKPOINT_HEADER], checkpoint_header *s, int *format,
                         uint64_t *digest) {
  char text[CHECKPOINT_HEADER + 1] = "";
  int length = 0;
  memcpy(text, block, CHECKPOINT_HEADER);
  *s = (checkpoint_header){.count = 0};
  if (strncmp(text, MAGIC, strlen(MAGIC))) return false;
  const char *rest = text + strlen(MAGIC);
  if (sscanf(rest, "format %d", format) != 1) return false;
  if (*format != CHECKPOINT_FORMAT) return true;
  int found = sscanf(rest,
                     "format %d digest %" SCNx64 " run %" SCNx64 " process %" SCNx64 " generation %" SCNd64
                     " step %" SCNd64 " time %lf dt %lf bytes %" SCNu64 " checksums at %" SCNu64
                     " fingerprint at %" SCNu64 " %" SCNu64 " arrays %d %n",
                     format, digest, &s->mark.run, &s->mark.process, &s->mark.generation, &s->step, &s->time,
                     &s->dt, &s->bytes, &s->sums_at, &s->keys_at, &s->keys_bytes, &s->count, &length);
  if (found < 13 || s->count < 0 || s->count > CHECKPOINT_ARRAYS) return false;
  rest += length;
  bool fits = s->keys_bytes <= s->bytes;
  for (int i = 0; fits && i < s->count; i++) {
    checkpoint_array *a = &s->arrays[i];
    fits = header_parse_array(&rest, a) && checkpoint_bytes(a, a->shape[0]) <= s->bytes;
  }
  return fits;
}

/* --- sizes ------------------------------------------------------------------------------------------------------ */

uint64_t checkpoint_bytes(const checkpoint_array *s, int64_t rows) {
  uint64_t bytes = s->type == CHECKPOINT_FLOAT ? 4 : 8;
  for (int i = 0; i < s->axes; i++)
    if (__builtin_mul_overflow(bytes, (uint64_t)(i ? s->shape[i] : rows), &bytes)) return UINT64_MAX;
  return bytes;
}

int64_t checkpoint_rows(const checkpoint_array *s) {
  return checkpoint_bytes(s, 1) ? s->shape[0] : 0;
}

/* --- the file --------------------------------------------------------------------------------------------------- */

int checkpoint_read_header(const char *file, checkpoint_header *s, int *fd, error *e) {
  uint64_t digest;
  int format;
  char block[CHECKPOINT_HEADER] = "";
  *fd = -1;
  TRY(input_check_file(file, file, e));
  *fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
  if (*fd < 0) return FAIL(e, FIELD_FILE, file, strerror(errno));
  if (pread(*fd, block, sizeof block, 0) < 0) return FAIL(e, CHECKPOINT_DAMAGED, file, strerror(errno));
  if (!header_parse(block, s, &format, &digest)) return FAIL(e, CHECKPOINT_FOREIGN, file);
  return format == CHECKPOINT_FORMAT ? 0 : FAIL(e, CHECKPOINT_VERSION, file, format, CHECKPOINT_FORMAT);
}

checkpoint_mark checkpoint_read_mark(const char *file) {
  checkpoint_header s;
  int fd;
  error e = {0};
  checkpoint_read_header(file, &s, &fd, &e);
  if (fd >= 0) close(fd);
  return e.id ? (checkpoint_mark){.generation = -1} : s.mark;
}

/* Adds the bytes from `from` to `to` to the digest. */
static int header_sum(const row_file *f, uint64_t from, uint64_t to, XXH3_state_t *sum, error *e) {
  char *block;
  TRY(ALLOC(e, block, READ_BYTES, "a block of a checkpoint"));
  for (uint64_t at = from, size; at < to && !e->id; at += size) {
    size = to - at < READ_BYTES ? to - at : READ_BYTES;
    if (!row_file_get(f, at, block, size, e)) XXH3_64bits_update(sum, block, size);
  }
  free(block);
  return e->id;
}

static int header_by_place(const void *a, const void *b) {
  const checkpoint_array *x = a, *y = b;
  return x->at < y->at ? -1 : x->at > y->at;
}

/* Digests the header, with 0 as its digest, and all bytes before, between and behind the arrays. */
static int header_digest(const row_file *f, const checkpoint_header *s, uint64_t *digest, error *e) {
  char block[CHECKPOINT_HEADER];
  checkpoint_array arrays[CHECKPOINT_ARRAYS];
  uint64_t at = CHECKPOINT_HEADER;
  XXH3_state_t sum;
  XXH3_64bits_reset(&sum);
  header_print(block, s, 0);
  XXH3_64bits_update(&sum, block, sizeof block);
  memcpy(arrays, s->arrays, sizeof arrays);
  qsort(arrays, (size_t)s->count, sizeof *arrays, header_by_place);
  for (int i = 0; i < s->count; i++) {
    const uint64_t bytes = checkpoint_bytes(&arrays[i], arrays[i].shape[0]);
    if (!bytes) continue;
    TRY(header_sum(f, at, arrays[i].at, &sum, e));
    at = arrays[i].at + bytes;
  }
  TRY(header_sum(f, at, s->bytes, &sum, e));
  *digest = XXH3_64bits_digest(&sum);
  return 0;
}

int checkpoint_check_header(const char *file, int fd, const checkpoint_header *s, error *e) {
  const row_file f = {.name = file, .fd = fd, .checkpoint = true};
  char block[CHECKPOINT_HEADER], expected[CHECKPOINT_HEADER], reason[128];
  struct stat status;
  uint64_t digest;
  if (fstat(fd, &status)) return FAIL(e, CHECKPOINT_DAMAGED, file, strerror(errno));
  if (s->bytes != (uint64_t)status.st_size) {
    snprintf(reason, sizeof reason, "%lld bytes long, was written with %" PRIu64, (long long)status.st_size,
             s->bytes);
    return FAIL(e, CHECKPOINT_DAMAGED, file, reason);
  }
  TRY(header_digest(&f, s, &digest, e));
  header_print(expected, s, digest); /* so that the header itself is compared byte by byte */
  TRY(row_file_get(&f, 0, block, sizeof block, e));
  bool same = memcmp(expected, block, sizeof block) == 0;
  return same ? 0
              : FAIL(e, CHECKPOINT_DAMAGED, file,
                     "what surrounds its arrays has changed since it was written");
}

int checkpoint_write_header(const char *name, int fd, checkpoint_header *s, error *e) {
  const row_file f = {.name = name, .fd = fd};
  char block[CHECKPOINT_HEADER];
  struct stat status;
  uint64_t digest;
  if (fstat(fd, &status)) return FAIL(e, FILE_WRITE, name, strerror(errno));
  s->bytes = (uint64_t)status.st_size;
  TRY(header_digest(&f, s, &digest, e));
  header_print(block, s, digest);
  return row_file_put(&f, 0, block, sizeof block, e);
}
