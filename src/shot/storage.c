#include "storage.h"
#include <math.h>
#include <string.h>
#include "io/files.h"
#include "propagator/maps.h"

enum { FIELDS, CHECKPOINTS, KINDS };

typedef struct need {
  const char *path;
  double plain; /* without compression */
  double sure;  /* the least bytes if they are compressed */
} need;

static double storage_multiples(int64_t first, int64_t last, int64_t every) {
  const int64_t count = every > 0 ? last / every - first / every : 0;
  return (double)count;
}

/* Bytes of a file besides values: HDF5's records, attributes and the config. */
static double storage_metadata(const shot *s) {
  const double RECORDS = 14000;
  return RECORDS + (double)strlen(s->config_text);
}

double storage_field_bytes(const shot *s) {
  const config *c = s->config;
  double axes = c->histogram, points = 1;
  for (int axis = 0; axis < 3; axis++) {
    const int count = config_cut_of(c, axis).count;
    axes += count, points *= count;
  }
  return points * sizeof(float) + (axes + c->histogram) * sizeof(double) + storage_metadata(s);
}

/* The least bytes of a checkpoint, without traces. */
static double storage_checkpoint_size(const shot *s, const propagator *p) {
  field_set f;
  propagator_fields(p, &f);
  return fields_saved_globally(&f) * sizeof(float) + storage_metadata(s);
}

/* The least bytes of traces in the last `count` checkpoints. */
static double storage_traces(const shot *s, double count, int64_t last) {
  const receivers *r = &s->at.receivers;
  const int64_t every = s->config->checkpoint_every_steps;
  if (r->count == 0 || every == 0) return 0; /* checkpoints by the clock may come after any step */
  const double newest = (double)(last / every * every), oldest = newest - (count - 1) * (double)every;
  return count * ((newest + oldest) / 2 / (double)r->every + 1) * r->count * sizeof(float);
}

space_steps storage_steps(const shot *s) {
  const config *c = s->config;
  const int64_t from = s->of.from ? s->of.from->step : 0, steps = s->engine->physics.steps;
  return (space_steps){.first = from,
                       .last = steps > from ? steps : from,
                       .every = c->output_every,
                       .begins = !s->of.from,
                       .ends = c->output_final};
}

/* Counts the last field also where the run was over before, since it is saved if it is missing. */
double storage_fields(const space_steps *r) {
  const bool due = r->every > 0 && r->last % r->every == 0, over = r->first == r->last && !r->begins;
  const bool last_besides = due ? over : r->ends;
  return storage_multiples(r->first, r->last, r->every) + last_besides + (r->begins && r->every > 0);
}

static need storage_need_of_fields(const shot *s, const space_steps *r, double traces, const space_use *use) {
  const config *c = s->config;
  const double one = storage_field_bytes(s), count = storage_fields(r);
  const double all = count > 0 ? fmax(one, count * one - (double)use->taken) : 0;
  return (need){c->output_path, all + traces, (c->compress ? 0 : all) + traces};
}

static need storage_need_of_checkpoints(const shot *s, const propagator *p, const space_steps *r,
                                        const space_use *use) {
  const config *c = s->config;
  const double one = storage_checkpoint_size(s, p), keep = c->checkpoint_keep;
  const double taken = (double)use->taken, old = use->files;
  double count = storage_multiples(r->first, r->last, c->checkpoint_every_steps);
  if (count == 0 && c->checkpoint_every_seconds > 0 && r->last > r->first) count = 1;
  if (count == 0) return (need){c->checkpoint_path, 0, 0};
  const double beyond = fmax(0, old + count - keep), replaced = old ? taken * fmin(1, beyond / old) : 0;
  const double files = fmin(count, keep) + (beyond > 0);
  const double all = fmax(one, files * one + storage_traces(s, files, r->last) - replaced);
  return (need){c->checkpoint_path, all, all}; /* checkpoints are never compressed */
}

static double storage_mib(double bytes) {
  return bytes / 1048576;
}

/* Checks that a file system has the bytes that files of these names need. */
static int storage_check_disk(run_log *log, const char *names, const need *n, const disk_space *space,
                              bool tell, error *e) {
  const double available = (double)space->available;
  if (n->sure > available) return FAIL(e, DISK_SPACE, names, n->sure, available);
  if (tell && space->available < UINT64_MAX)
    log_line(log, "disk: %s: %.1f MiB needed%s, %.1f MiB available", names, storage_mib(n->plain),
             n->sure < n->plain ? " before compression" : "", storage_mib(available));
  if (n->plain > available)
    log_line(log, "warning: %s: %.1f MiB before compression, %.1f MiB available", names,
             storage_mib(n->plain), storage_mib(available));
  return 0;
}

/* Finds the files PATH.SSSSSSSS with `ending` of these steps, and their disk. Collective, agreed. */
static int storage_find_use(const shot *s, const char *path, const char *ending, const space_steps *which,
                            space_use *use, error *e) {
  const request r = {
      FILES_FIND_SPACE, .path = path, .text = ending, .which = *which, .answer_bytes = sizeof *use,
      .own.answer = use};
  return files_do(s->engine->files, &r, e);
}

int storage_check(const shot *s, const propagator *p, bool tell, error *e) {
  const double traces = receivers_disk_bytes(&s->at.receivers) + maps_file_bytes(s->config);
  const config *c = s->config;
  const space_steps all = {.all = true}, r = storage_steps(s);
  space_use use[KINDS];
  TRY(storage_find_use(s, c->output_path, ".hdf", &r, &use[FIELDS], e));
  TRY(storage_find_use(s, c->checkpoint_path, ".h5", &all, &use[CHECKPOINTS], e));
  if (!s->of.from)
    use[CHECKPOINTS].taken = 0, use[CHECKPOINTS].files = 0; /* they are moved aside, not replaced */
  const need n[KINDS] = {storage_need_of_fields(s, &r, traces, &use[FIELDS]),
                         storage_need_of_checkpoints(s, p, &r, &use[CHECKPOINTS])};
  if (n[CHECKPOINTS].plain == 0)
    return storage_check_disk(s->log, n[FIELDS].path, &n[FIELDS], &use[FIELDS].space, tell, e);
  if (use[FIELDS].space.device != use[CHECKPOINTS].space.device) {
    for (int i = 0; i < KINDS; i++) TRY(storage_check_disk(s->log, n[i].path, &n[i], &use[i].space, tell, e));
    return 0;
  }
  char names[2 * CONFIG_TEXT + 8];
  snprintf(names, sizeof names, "%s and %s", n[FIELDS].path, n[CHECKPOINTS].path);
  const need both = {names, n[0].plain + n[1].plain, n[0].sure + n[1].sure};
  return storage_check_disk(s->log, names, &both, &use[FIELDS].space, tell, e);
}
