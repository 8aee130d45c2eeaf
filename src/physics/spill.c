#include "spill.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"

/* --- what stays in memory ---------------------------------------------------------------------------------------- */

void spill_plan(receivers *r, receivers_span span) {
  const int64_t held = span.held ? span.held : RECEIVERS_HELD,
                row = larger(r->most, 1) * (int64_t)sizeof(float), left = r->taken - span.spilled;
  int64_t block = held / 2 / row;
  if (block < left) block = left; /* what a checkpoint held */
  if (block < 1) block = 1;
  r->spill.rows = r->origin = span.spilled;
  r->spill.file.receivers = r->count;
  const bool spills =
      span.spilled > 0 || (receivers_all_rows(r) > 2 * block && !config_has_gradient(r->config));
  r->spill.block = spills ? block : 0;
  r->room = spills ? 2 * block : receivers_all_rows(r);
}

int64_t spill_rows_on_disk(const receivers *r) {
  const config *c = r->config;
  const bool kept = c->checkpoint_every_steps > 0 || c->checkpoint_every_seconds > 0 || r->spill.rows > 0;
  const int64_t all = receivers_all_rows(r);
  return r->spill.block == 0 ? 0 : all - r->spill.rows + (kept && r->time.removed ? all : 0);
}

void spill_forget(receivers *r) {
  free((void *)(uintptr_t)r->spill.file.ends);
}

/* --- a block ------------------------------------------------------------------------------------------------------ */

int64_t spill_limit(const receivers *r, int64_t step) {
  if (r->spill.block == 0) return INT64_MAX;
  const int64_t due = (r->spill.rows + r->spill.block - 1) * r->every;
  return due > step ? due - step : 1;
}

/* Ends a block after this many rows. */
static int spill_end_block(receivers *r, int64_t end, error *e) {
  partial_file *p = &r->spill.file;
  int64_t *ends = (void *)(uintptr_t)p->ends;
  TRY(GROW(e, ends, p->blocks + 1, "the receivers"));
  ends[p->blocks++] = end;
  p->ends = ends;
  r->spill.rows = end;
  return 0;
}

bool spill_due(const receivers *r) {
  return r->spill.block > 0 && r->taken - r->spill.rows >= r->spill.block;
}

int spill_begin(receivers *r, error *e) {
  r->spill.leaving = true;
  return spill_end_block(r, r->spill.rows + smaller64(r->taken - r->spill.rows, r->spill.block), e);
}

/* Creates a file, of these receivers, that goes when the process does. Agreed. */
static int spill_create(receivers *r, char name[PARTIAL_NAME], error *e) {
  const request create = {FILES_CREATE_PARTIAL, .path = r->config->output_path, .answer_bytes = PARTIAL_NAME,
                          .own.answer = name};
  return files_do(r->files, &create, e);
}

int spill_write(receivers *r, MPI_Comm comm, error *e) {
  partial_file *p = &r->spill.file;
  const int64_t last = p->blocks - 1;
  partial_rows rows = {.begin = last,
                       .end = p->blocks,
                       .first = r->before,
                       .count = r->local,
                       .values = r->local ? receivers_row(r, partial_begin(p, last)) : NULL};
  const request move = {FILES_MOVE_PARTIAL, .partial = p, .use = PARTIAL_WRITE, .own.rows = &rows};
  if (!p->name[0]) TRY(spill_create(r, p->name, e));
  TRY(files_do(r->files, &move, e));
  MPI_TRY(e, mpi_reduce_all(&rows.sum, 1, MPI_UINT64_T, MPI_SUM, comm));
  p->sum += rows.sum;
  r->spill.leaving = false;
  return 0;
}

/* --- checkpoints -------------------------------------------------------------------------------------------------- */

/* Numbers of a checkpoint: the sum, the receivers, the name, the ends of the blocks. */
enum { SPILL_NAME = 2, SPILL_ENDS = SPILL_NAME + PARTIAL_NAME / 8 };

int64_t spill_count(int64_t blocks) {
  return SPILL_ENDS + blocks;
}

/* Checkpoints outlive this process: so must the file. */
static int spill_name(receivers *r, uint64_t run, error *e) {
  char name[PARTIAL_NAME];
  snprintf(name, sizeof name, "%s.receivers.%016" PRIx64 ".partial", r->config->output_path, run);
  const request rename = {FILES_RENAME_PARTIAL, .path = r->spill.file.name, .text = name};
  TRY(files_do(r->files, &rename, e));
  strcpy(r->spill.file.name, name);
  r->spill.named = true;
  return 0;
}

int spill_tell(receivers *r, uint64_t run, int64_t blocks, int64_t *numbers, error *e) {
  const partial_file *p = &r->spill.file;
  const request sync = {FILES_MOVE_PARTIAL, .partial = p, .use = PARTIAL_SYNC};
  TRY(files_do(r->files, &sync, e));
  if (!r->spill.named) TRY(spill_name(r, run, e));
  numbers[0] = (int64_t)p->sum;
  numbers[1] = p->receivers;
  memcpy(numbers + SPILL_NAME, p->name, sizeof p->name);
  memcpy(numbers + SPILL_ENDS, p->ends, (size_t)blocks * sizeof *p->ends);
  return 0;
}

/* Reads all of it. */
static int spill_check(receivers *r, error *e) {
  const partial_file *p = &r->spill.file;
  partial_rows rows = {.end = p->blocks, .first = r->before, .count = r->local};
  const request read = {FILES_MOVE_PARTIAL, .partial = p, .use = PARTIAL_READ, .own.rows = &rows};
  TRY(files_do(r->files, &read, e));
  MPI_TRY(e, mpi_reduce_all(&rows.sum, 1, MPI_UINT64_T, MPI_SUM, r->files->compute));
  return rows.sum == p->sum ? 0 : FAIL(e, PARTIAL_DIFFERS, p->name);
}

int spill_adopt(receivers *r, const int64_t *numbers, int64_t count, error *e) {
  partial_file *p = &r->spill.file;
  const int64_t *ends = numbers + SPILL_ENDS, blocks = count - SPILL_ENDS;
  bool fits = blocks > 0 && numbers[1] == r->count && ends[blocks - 1] == r->spill.rows;
  for (int64_t i = 0; fits && i < blocks; i++) fits = ends[i] > (i ? ends[i - 1] : 0);
  if (!fits) return FAIL(e, PARTIAL_DIFFERS, "");
  memcpy(p->name, numbers + SPILL_NAME, sizeof p->name);
  p->name[sizeof p->name - 1] = '\0';
  p->sum = (uint64_t)numbers[0];
  for (int64_t i = 0; i < blocks && !e->id; i++) spill_end_block(r, ends[i], e);
  TRY(error_agree(e, r->files->compute));
  r->spill.named = true;
  return spill_check(r, e);
}

/* --- the end ------------------------------------------------------------------------------------------------------ */

/* Transforms these receivers of a file into r's, which may be the same one. sums: of what was read, and written. Agreed. */
static int spill_transform_some(receivers *r, const partial_file *raw, partial_rows *rows, uint64_t sums[2],
                                error *e) {
  request move = {FILES_MOVE_PARTIAL, .partial = raw, .use = PARTIAL_READ, .own.rows = rows};
  const exact_traces traces = {rows->values, r->taken, rows->count};
  TRY(files_do(r->files, &move, e));
  sums[0] += rows->sum;
  exact_time_traces(&r->time, &traces, false, e);
  TRY(error_agree(e, r->files->compute));
  move.partial = &r->spill.file, move.use = PARTIAL_WRITE;
  TRY(files_do(r->files, &move, e));
  sums[1] += rows->sum;
  return 0;
}

/* By blocks of receivers, all samples of each. Agreed. */
static int spill_transform(receivers *r, const partial_file *raw, uint64_t sums[2], error *e) {
  const int64_t fit = r->room * r->most / r->taken, most = fit < 1 ? 1 : fit;
  float *values;
  ALLOC(e, values, most * r->taken, "the receivers");
  error_agree(e, r->files->compute);
  for (int64_t first = 0; first < r->most && !e->id; first += most) {
    const int64_t from = smaller64(first, r->local);
    partial_rows rows = {.end = r->spill.file.blocks,
                         .first = r->before + from,
                         .count = smaller64(r->local - from, most),
                         .values = values};
    spill_transform_some(r, raw, &rows, sums, e);
  }
  free(values);
  return e->id;
}

int spill_finish(receivers *r, error *e) {
  partial_file *p = &r->spill.file;
  uint64_t sums[2] = {0, 0};
  receivers_flush(r, e);
  while (r->taken > r->spill.rows) {
    if (!e->id) spill_begin(r, e);
    TRY(error_agree(e, r->files->compute));
    TRY(spill_write(r, r->files->compute, e));
  }
  free(r->traces);
  r->traces = NULL;
  if (!r->time.removed) return 0;
  const partial_file raw = *p;
  if (r->spill.named) {
    strcpy(r->spill.stays, p->name);
    r->spill.named = false;
    TRY(spill_create(r, p->name, e));
  }
  TRY(spill_transform(r, &raw, sums, e));
  MPI_TRY(e, mpi_reduce_all(sums, 2, MPI_UINT64_T, MPI_SUM, r->files->compute));
  p->sum = sums[1];
  return sums[0] == raw.sum ? 0 : FAIL(e, PARTIAL_DIFFERS, raw.name);
}

int spill_end(receivers *r, error *e) {
  const request remove = {FILES_RENAME_PARTIAL, .path = r->spill.file.name};
  if (r->spill.named) strcpy(r->spill.stays, r->spill.file.name);
  if (r->spill.file.name[0] && !r->spill.named) files_do(r->files, &remove, e);
  r->spill.file.name[0] = '\0';
  return e->id;
}
