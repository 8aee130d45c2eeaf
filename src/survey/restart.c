#include "restart.h"
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "checkpoint_arrays.h"
#include "save_field.h"

/* --- finding ---------------------------------------------------------------------------------------------------- */

static void restart_tell(void *context, const char *reason) {
  log_line(context, "warning: passed over: %s", reason);
}

static bool restart_automatic(const restart *r) {
  return r->name && strcmp(r->name, "auto") == 0;
}

/* Opens the newest checkpoint written before generation `before`; if that is negative, the newest of all. */
static int restart_open_newest(restart *r, int64_t before, error *e) {
  const checkpoint_search search = {NULL, r->path, before, restart_tell, r->log};
  const request newest = {FILES_OPEN_CHECKPOINT, .search = search, .own.opened = &r->from};
  TRY(files_do(r->files, &newest, e));
  if (r->from.name[0]) return 0;
  if (r->refused.id && !r->anew) *e = r->refused;
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

static int restart_read(const batch *b, const checkpoint *c, const checkpoint_arrays *t, error *e) {
  const request r = {FILES_READ_CHECKPOINT, .arrays = t->arrays, .count = t->count, .own.from = c};
  return files_do(b->p.engine->files, &r, e);
}

/* Every rank reads the steps of the series, and lists those whose files still exist: the earlier run may have saved
 * under another path. */
static int restart_fill_series(batch *b, const checkpoint *c, error *e) {
  static const char NAME[] = "saved_steps";
  const checkpoint_array *a = checkpoint_find_array(c, NAME);
  checkpoint_arrays t = {0};
  if (!a || a->axes != 2) return 0;
  int64_t *steps;
  ALLOC(e, steps, a->shape[1], "what a checkpoint lists");
  checkpoint_arrays_set_numbers(&t, NAME, (numbers_part){steps, a->shape[1]}, true);
  if (!error_agree(e, b->p.engine->comm) && !restart_read(b, c, &t, e))
    save_field_list(b, steps, a->shape[1], e);
  free(steps);
  return e->id;
}

int restart_fill(batch *b, error *e) {
  const shot *s = b->shots[0];
  const checkpoint *c = s->of.from;
  checkpoint_arrays t;
  TRY(checkpoint_arrays_make(&t, &b->p, false, NULL, e));
  TRY(restart_read(b, c, &t, e));
  TRY(restart_fill_series(b, c, e));
  log_line(s->log, "restart from %s, step %lld", c->name, (long long)c->step);
  return 0;
}
