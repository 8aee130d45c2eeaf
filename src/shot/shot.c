/* Planning and closing a shot. */
#include "shot.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "fingerprint.h"
#include "propagator/maps.h"

/* Chooses how dispersion is treated. A restart continues as its run began; checkpoints without the key kept
 * dispersion. */
static int shot_choose_time(shot *s, int64_t last, exact_time *t, error *e) {
  const config *c = s->config;
  const engine *g = s->engine;
  char column[SOURCES_COLUMN];
  const exact_time_of of = {
      .dt = g->physics.dt,
      .bound = g->physics.bound,
      .highest = sources_highest(&s->at.sources, c, column),
      .column = column,
      .steps = last,
      .threads = g->setup.together > 1 ? 1 : g->files->access->compressors, /* shots share the threads */
      .continues = s->of.from && !checkpoint_has_key(s->of.from, FINGERPRINT_DISPERSION)};
  exact_time_choose(t, c, &of);
  t->transforms = g->transforms;
  if (t->removed && t->kind == DISPERSION_TRACE)
    sources_transform(&s->at.sources, last + t->extra, t->threads, e);
  return error_agree(e, g->comm);
}

/* Adds comments to the text of the configuration: what the model and the datasets of sources hold. */
static int shot_describe(shot *s, error *e) {
  char text[1024] = "; ";
  const source_set *set = &s->at.sources.set;
  int n = model_describe(&s->engine->physics.model, s->config, text + 2, sizeof text / 2);
  n = n ? n + 2 + snprintf(text + n + 2, sizeof text / 4, "\n") : 0;
  if (set->count) n += source_set_describe(set, text + n, sizeof text / 4);
  if (n == 0) return 0;
  const size_t used = strlen(s->config_text), more = (size_t)n;
  if (!GROW(e, s->config_text, used + more + 1, "the text of the config"))
    strcpy(s->config_text + used, text);
  return error_agree(e, s->engine->comm);
}

/* Places sources and receivers. A checkpoint may be beyond the last step of this run. */
static int shot_place(shot *s, error *e) {
  const engine *g = s->engine;
  const problem on = {.dev = g->dev,
                      .slab = &g->files_slab,
                      .config = s->config,
                      .files = g->files,
                      .transforms = g->transforms};
  const physics *p = &g->physics;
  const int64_t from = s->of.from ? s->of.from->step : -1, last = larger64(p->steps, from);
  const receivers_span span = {.pass = g->most, .first = from + 1, .last = last};
  const wavelet_steps steps = {p->dt, p->steps, exact_time_extra(s->config, last)};
  receivers *r = &s->at.receivers;
  exact_time time;
  TRY(sources_plan(&s->at.sources, &on, steps, e));
  TRY(shot_choose_time(s, last, &time, e));
  TRY(receivers_plan(r, &on, &time, span, e));
  r->sources = s->at.sources.count;
  r->source_positions = (const double(*)[3])s->at.sources.positions;
  TRY(maps_check(g, &s->at, e));
  return shot_describe(s, e);
}

/* Refuses a checkpoint of another run and names the difference: CHECKPOINT_DIFFERS. Reads no array. */
static int shot_match(const shot *s, const checkpoint *c, error *e) {
  char *keys = fingerprint_make(s, c->step, e);
  if (keys) checkpoint_match(c, keys, e);
  free(keys);
  return error_agree(e, s->engine->comm);
}

/* Resets the record of saved files. */
static int shot_clear(shot *s, error *e) {
  free(s->config_text);
  free(s->series.steps);
  s->series = (saved_series){.listed_at = -INFINITY, .newest = -1};
  s->written = (written_files){.checkpoint = -1};
  s->failed = (error){0};
  s->config_text = config_print(s->config);
  return s->config_text ? 0 : FAIL(e, OUT_OF_MEMORY, sizeof *s->config, "the text of the config");
}

int shot_plan(shot *s, const engine *g, const shot_setup *setup, error *e) {
  s->engine = g, s->of = *setup;
  s->config = s->at.config = setup->config, s->log = setup->log;
  s->io = g->io;
  s->io.slab = &g->written;
  s->io.path = s->config->output_path;
  if (!engine_honours(g, s->config, e)) shot_clear(s, e);
  TRY(error_agree(e, g->comm));
  TRY(shot_place(s, e));
  return s->of.from ? shot_match(s, s->of.from, e) : 0; /* before its step and its dt are used */
}

void shot_close(shot *s) {
  sources_close(&s->at.sources);
  receivers_close(&s->at.receivers);
  free(s->series.steps);
  free(s->config_text);
  *s = (shot){.engine = NULL};
}

/* --- paths ------------------------------------------------------------------------------------------------------ */

int shot_check_paths(const shot *s, error *e) {
  const request paths = {FILES_CHECK_PATHS, .config = s->config};
  return files_do(s->engine->files, &paths, e);
}

static bool shot_same_folder(const char *a, const char *b) {
  const char *end = strrchr(a, '/'), *other = strrchr(b, '/');
  return end && other && end - a == other - b && strncmp(a, b, (size_t)(end - a)) == 0;
}

int shot_make_folders(const shot *s, bool files, bool dry, error *e) {
  const config *c = s->config;
  const named_path paths[] = {{"[output] path", c->output_path, false},
                              {"[checkpoint] path", c->checkpoint_path, false},
                              {"[report] file", c->report_file, false}};
  for (int i = files ? 0 : 2; i < 3; i++) {
    bool missing = false;
    if (i == 1 && !config_has_checkpoints(c)) continue;
    const request folder = {FILES_MAKE_FOLDER, .path = paths[i].path, .dry = dry,
                            .answer_bytes = sizeof missing, .own.answer = &missing};
    if (i < 2)
      TRY(files_do(s->engine->files, &folder, e));
    else if (s->engine->rank == 0 && c->report_file[0])
      path_make_folder(c->report_file, dry, &missing, e);
    for (int k = 0; dry && k < i; k++) missing = missing && !shot_same_folder(paths[i].path, paths[k].path);
    if (missing)
      log_line(s->log, "%s the folder of %s = %s", dry ? "a run would make" : "made", paths[i].key,
               paths[i].path);
  }
  return error_agree(e, s->engine->comm);
}
