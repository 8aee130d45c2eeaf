#include "restart.h"
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "checkpoint_arrays.h"
#include "fingerprint.h"
#include "physics/spill.h"
#include "save_field.h"

/* --- finding ---------------------------------------------------------------------------------------------------- */

static void restart_tell(void *context, const char *reason) {
  log_line(context, "warning: passed over: %s", reason);
}

static bool restart_automatic(const restart *r) {
  return r->name && strcmp(r->name, "auto") == 0;
}

/* The newest that was written before generation `before`; of all, where that is negative. */
static int restart_open_newest(restart *r, int64_t before, error *e) {
  const checkpoint_search search = {NULL, r->path, before, restart_tell, r->log};
  const request newest = {FILES_OPEN_CHECKPOINT, .search = search, .own.opened = &r->from};
  TRY(files_do(r->files, &newest, e));
  if (r->from.name[0]) return 0;
  if (r->refused.id) *e = r->refused;
  if (!e->id) log_line(r->log, "restart auto: no intact checkpoint %s.*.h5: from the start", r->path);
  return e->id;
}

int restart_open(restart *r, error *e) {
  r->from = (checkpoint){.fd = -1};
  if (!r->name) return 0;
  if (restart_automatic(r)) return restart_open_newest(r, -1, e);
  const request named = {FILES_OPEN_CHECKPOINT, .search.file = r->name, .own.opened = &r->from};
  return files_do(r->files, &named, e);
}

bool restart_pass_over(restart *r, error *e) {
  const bool another = e->id == ERROR_CHECKPOINT_DIFFERS;
  if (!restart_automatic(r) || !r->from.name[0] || (!another && e->id != ERROR_CHECKPOINT_DAMAGED))
    return false;
  const int64_t before = r->from.mark.generation;
  if (another && !r->refused.id) r->refused = *e;
  restart_tell(r->log, e->text);
  checkpoint_close(&r->from);
  *e = (error){0};
  return !restart_open_newest(r, before, e);
}

void restart_close(restart *r) {
  checkpoint_close(&r->from);
}

/* --- filling ---------------------------------------------------------------------------------------------------- */

int restart_match(shot *s, const checkpoint *c, error *e) {
  char *keys = fingerprint_make(s, e);
  if (keys) checkpoint_match(c, keys, e);
  free(keys);
  return error_agree(e, s->engine->comm);
}

static int restart_read(shot *s, const checkpoint *c, const checkpoint_arrays *t, error *e) {
  const request r = {FILES_READ_CHECKPOINT, .arrays = t->arrays, .count = t->count, .own.from = c};
  return files_do(s->engine->files, &r, e);
}

/* Every rank reads an array of one row of numbers, after some that are 0; NULL: there is none. To be freed. Agreed. */
static int64_t *restart_read_numbers(shot *s, const checkpoint *c, const char *name, int64_t *count,
                                     error *e) {
  const checkpoint_array *a = checkpoint_find_array(c, name);
  checkpoint_arrays t = {0};
  *count = 0;
  if (!a || a->axes != 2) return NULL;
  int64_t *numbers;
  ALLOC(e, numbers, a->shape[1], "what a checkpoint lists");
  checkpoint_arrays_add_numbers(&t, name, (numbers_part){numbers, a->shape[1]}, true);
  if (!error_agree(e, s->engine->comm) && !restart_read(s, c, &t, e)) *count = a->shape[1];
  return numbers;
}

/* Every rank reads the steps of the series; of their fields, those that are still there are listed: the run may save
 * under another path than the one before it. */
static int restart_fill_series(shot *s, const checkpoint *c, error *e) {
  int64_t count, *steps = restart_read_numbers(s, c, "saved_steps", &count, e);
  if (steps && !e->id) save_field_list(s, steps, count, e);
  free(steps);
  return e->id;
}

/* The traces that are in another file. */
static int restart_fill_spilled(shot *s, const checkpoint *c, error *e) {
  error why = {0};
  if (s->receivers.spill.rows == 0) return 0;
  int64_t count, *numbers = restart_read_numbers(s, c, "spilled", &count, e);
  if (!e->id && spill_adopt(&s->receivers, numbers, count, &why))
    FAIL(e, CHECKPOINT_DAMAGED, c->name, why.text);
  free(numbers);
  return error_agree(e, s->engine->comm);
}

int restart_fill(shot *s, const checkpoint *c, error *e) {
  checkpoint_arrays t;
  s->stepper.step = s->stepper.measured_from = c->step;
  TRY(checkpoint_arrays_make(&t, s, false, NULL, e));
  TRY(restart_read(s, c, &t, e));
  TRY(restart_fill_spilled(s, c, e));
  TRY(restart_fill_series(s, c, e));
  log_line(s->log, "restart from %s, step %lld", c->name, (long long)c->step);
  return 0;
}
