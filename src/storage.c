#include "storage.h"
#include <math.h>
#include <string.h>
#include "../io/space.h"

enum { FIELDS, CHECKPOINTS, KINDS };

/* What is going to be written under a path, bytes. */
typedef struct need {
  const char *path;
  double plain; /* without compression */
  double sure;  /* what it takes at least, with it */
} need;

/* The steps of the run: from `first`, where it goes on or 0, to `last`; fields are saved every so many. */
typedef struct span {
  int64_t first, last, every;
  bool begins; /* its first field is saved too */
} span;

static double multiples(int64_t first, int64_t last, int64_t every) {
  return every > 0 ? (double)(last / every - first / every) : 0;
}

static bool is_saved(const void *context, int64_t step) {
  const span *r = context;
  if (step == r->last) return true;
  if (r->every == 0 || step > r->last || step % r->every != 0) return false;
  return r->begins ? step >= r->first : step > r->first;
}

static double points_of(const config *c) {
  return (double)c->nx * c->ny * c->nz;
}

/* The least that a checkpoint takes: time levels, and two numbers a point in absorbing layers. */
static double checkpoint_size(const config *c) {
  const double points = points_of(c), n[3] = {c->nx, c->ny, c->nz};
  double floats = points * (c->equation == EQUATION_WAVE ? 2 : 1);
  for (int face = 0; face < FACE_COUNT; face++)
    if (c->boundary[face] == BOUNDARY_ABSORBING) floats += 2 * points / n[face / 2] * c->boundary_width;
  return floats * sizeof(float);
}

static need need_of_fields(const config *c, const span *r, double traces) {
  int files;
  const double one = points_of(c) * sizeof(float);
  const bool last_besides = r->every == 0 || r->last % r->every != 0;
  const double count = multiples(r->first, r->last, r->every) + last_besides + (r->begins && r->every > 0);
  const double replaced = (double)space_taken(c->output_path, ".hdf", is_saved, r, &files);
  const double all = count > 0 ? fmax(one, count * one - replaced) : 0;
  return (need){c->output_path, all + traces, (c->compress ? 0 : all) + traces};
}

static need need_of_checkpoints(const config *c, const span *r) {
  int old;
  const double one = checkpoint_size(c), keep = c->checkpoint_keep;
  const double taken = (double)space_taken(c->checkpoint_path, ".h5", NULL, NULL, &old);
  double count = multiples(r->first, r->last, c->checkpoint_every_steps);
  if (count == 0 && c->checkpoint_every_seconds > 0 && r->last > r->first) count = 1;
  if (count == 0) return (need){c->checkpoint_path, 0, 0};
  const double beyond = fmax(0, old + count - keep), replaced = old ? taken * fmin(1, beyond / old) : 0;
  const double all = fmax(one, (fmin(count, keep) + (beyond > 0)) * one - replaced);
  return (need){c->checkpoint_path, all, c->compress ? 0 : all};
}

static double mib(double bytes) {
  return bytes / 1048576;
}

/* One file system: what is needed of it, and under which names. */
static int check_disk(run_log *log, const char *names, const need *n, const disk_space *space, bool tell, error *e) {
  const double available = (double)space->available;
  if (n->sure > available) return FAIL(e, DISK_SPACE, names, n->sure, available);
  if (tell && space->available < UINT64_MAX)
    log_line(log, "disk: %s: %.1f MiB needed%s, %.1f MiB available", names, mib(n->plain),
             n->sure < n->plain ? " before compression" : "", mib(available));
  if (n->plain > available)
    log_line(log, "warning: %s: %.1f MiB before compression, %.1f MiB available", names, mib(n->plain),
             mib(available));
  return 0;
}

int storage_check(const simulation *s, double traces, bool tell, error *e) {
  const config *c = s->config;
  const int64_t from = s->from ? s->from->step : 0, steps = s->physics.steps;
  const span r = {from, steps > from ? steps : from, c->output_every, !s->from};
  const need n[KINDS] = {need_of_fields(c, &r, traces), need_of_checkpoints(c, &r)};
  disk_space space[KINDS];
  for (int i = 0; i < KINDS; i++) TRY(space_of(n[i].path, &space[i], e));
  if (n[CHECKPOINTS].plain == 0) return check_disk(s->log, n[FIELDS].path, &n[FIELDS], &space[FIELDS], tell, e);
  if (space[FIELDS].device != space[CHECKPOINTS].device) {
    for (int i = 0; i < KINDS; i++) TRY(check_disk(s->log, n[i].path, &n[i], &space[i], tell, e));
    return 0;
  }
  char names[2 * CONFIG_TEXT + 8];
  snprintf(names, sizeof names, "%s and %s", n[FIELDS].path, n[CHECKPOINTS].path);
  const need both = {names, n[0].plain + n[1].plain, n[0].sure + n[1].sure};
  return check_disk(s->log, names, &both, &space[FIELDS], tell, e);
}
