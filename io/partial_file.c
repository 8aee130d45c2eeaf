#include "partial_file.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#define XXH_INLINE_ALL
#include <xxhash.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "atomic_file.h"
#include "io_internal.h"

int partial_create(const char *path, char name[PARTIAL_NAME], error *e) {
  char base[FILE_NAME];
  TRY(path_name(base, path, OUTPUT_ENDINGS[OUTPUT_PARTIAL], e));
  temporary_name(name, PARTIAL_NAME, base);
  const int fd = open(name, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  return fd < 0 || close(fd) ? FAIL(e, FILE_WRITE, name, strerror(errno)) : 0;
}

int partial_rename(const char *name, const char *to, error *e) {
  if (to) return atomic_file_commit(name, to, NULL, e);
  return unlink(name) && errno != ENOENT ? FAIL(e, FILE_WRITE, name, strerror(errno)) : 0;
}

/* --- a rank's values ---------------------------------------------------------------------------------------------- */

/* A block of them on its way. */
typedef struct partial_block {
  const partial_rows *rows;
  int64_t begin, samples; /* of the block: those before it, its own */
  float *values;          /* of its first sample; NULL as there */
  _Atomic uint64_t *sum;
} partial_block;

/* A sum of sums, so that it does not depend on who has which receivers. */
static void partial_add(const partial_block *b, int64_t row, int64_t rows, const float *values) {
  uint64_t sum = 0;
  for (int64_t i = 0; i < rows; i++)
    sum += XXH3_64bits_withSeed(values + i * b->samples, (size_t)b->samples * sizeof *values,
                                mix64(mix64((uint64_t)b->begin) ^ (uint64_t)(row + i)));
  atomic_fetch_add(b->sum, sum);
}

static int partial_from(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const partial_block *b = context;
  const float *from = b->values + (row - b->rows->first);
  float *to = values;
  (void)e;
  for (int64_t sample = 0; sample < b->samples; sample++, from += b->rows->count)
    for (int64_t i = 0; i < rows; i++) to[i * b->samples + sample] = from[i];
  partial_add(b, row, rows, to);
  return 0;
}

static int partial_to(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const partial_block *b = context;
  const float *from = values;
  (void)e;
  partial_add(b, row, rows, from);
  if (!b->values) return 0;
  float *to = b->values + (row - b->rows->first);
  for (int64_t sample = 0; sample < b->samples; sample++, to += b->rows->count)
    for (int64_t i = 0; i < rows; i++) to[i] = from[i * b->samples + sample];
  return 0;
}

/* --- the file ----------------------------------------------------------------------------------------------------- */

/* What the move of a block needs, of each of these blocks. */
typedef struct partial_parts {
  row_part *parts; /* owned, as is: */
  partial_block *blocks;
  int count;
  _Atomic uint64_t sum;
} partial_parts;

static int partial_plan(partial_parts *t, const partial_file *p, bool write, const partial_rows *r,
                        error *e) {
  t->count = r ? (int)(r->end - r->begin) : 0;
  TRY(ALLOC(e, t->parts, t->count, "the receivers"));
  TRY(ALLOC(e, t->blocks, t->count, "the receivers"));
  for (int i = 0; i < t->count; i++) {
    const int64_t begin = partial_begin(p, r->begin + i), samples = p->ends[r->begin + i] - begin,
                  before = begin - partial_begin(p, r->begin);
    t->blocks[i] = (partial_block){.rows = r, .begin = begin, .samples = samples, .sum = &t->sum};
    if (r->values) t->blocks[i].values = r->values + before * r->count;
    t->parts[i] = (row_part){.array = "u",
                             .at = (uint64_t)begin * (uint64_t)p->receivers * sizeof(float),
                             .row_bytes = (uint64_t)samples * sizeof(float),
                             .first = r->first,
                             .count = r->count,
                             .move = write ? partial_from : partial_to,
                             .context = &t->blocks[i]};
  }
  return 0;
}

int partial_move(io_way *way, const partial_file *p, enum partial_use use, partial_rows *rows, error *e) {
  partial_parts t = {.parts = NULL};
  new_file f = {.fd = -1};
  snprintf(f.name, sizeof f.name, "%.*s", FILE_NAME - 1, p->name);
  strcpy(f.plan.temporary, p->name);
  partial_plan(&t, p, use == PARTIAL_WRITE, rows, e);
  if (way->rank == 0 && !e->id && access(p->name, R_OK)) FAIL(e, FIELD_FILE, p->name, strerror(errno));
  if (!error_agree(e, way->comm)) {
    rows_open_new(way, &f, e);
    const row_file to = {.name = p->name, .fd = f.fd, .write = use == PARTIAL_WRITE};
    if (!error_agree(e, way->comm)) rows_move(way, &to, f.direct, t.parts, t.count, e);
    rows_close_new(&f, use == PARTIAL_SYNC, e);
  }
  if (rows) rows->sum = atomic_load(&t.sum);
  free(t.parts);
  free(t.blocks);
  return error_agree(e, way->comm);
}
