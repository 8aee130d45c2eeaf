/* Planning, opening and closing a shot. */
#include "shot.h"
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "fingerprint.h"
#include "propagator/maps.h"
#include "survey/restart.h"
#include "survey/save_field.h"

static problem shot_problem(const shot *s) {
  const engine *g = s->engine;
  return (problem){.dev = s->dev,
                   .slab = s->lead ? &g->files_slab : &g->slab,
                   .config = s->config,
                   .files = g->files,
                   .transforms = g->transforms};
}

/* A run goes on as it began: checkpoints of before this version say nothing, and kept dispersion. */
static int shot_choose_time(shot *s, int64_t last, exact_time *t, error *e) {
  const config *c = s->config;
  const physics *p = &s->engine->physics;
  char column[SOURCES_COLUMN];
  const exact_time_of of = {.dt = p->dt,
                            .bound = p->bound,
                            .highest = sources_highest(&s->sources, c, column),
                            .column = column,
                            .steps = last,
                            .threads = s->lead ? 1 : s->engine->files->way->compressors,
                            .continues = s->from && !checkpoint_has_key(s->from, FINGERPRINT_DISPERSION)};
  exact_time_choose(t, c, &of);
  t->transforms = s->engine->transforms;
  if (t->removed && t->kind == DISPERSION_TRACE)
    sources_transform(&s->sources, last + t->extra, t->threads, e);
  return error_agree(e, s->engine->comm);
}

/* Places sources and receivers. A checkpoint may be beyond the last step of this run. */
static int shot_place(shot *s, error *e) {
  const problem on = shot_problem(s);
  const physics *p = &s->engine->physics;
  const int64_t from = s->from ? s->from->step : -1, last = larger64(p->steps, from);
  const receivers_span span = {.pass = s->engine->most, .first = from + 1, .last = last};
  const wavelet_steps steps = {p->dt, p->steps, exact_time_extra(s->config, last)};
  exact_time time;
  TRY(sources_plan(&s->sources, &on, steps, e));
  TRY(shot_choose_time(s, last, &time, e));
  s->stepper.sources = config_has_sources(s->config) ? &s->sources : NULL;
  s->observers.count = 0;
  if (s->config->receivers != RECEIVERS_NONE)
    s->observers.list[s->observers.count++] = receivers_observer(&s->receivers);
  TRY(maps_observe(s, e));
  save_field_observe(s);
  s->stepper.observers = &s->observers;
  TRY(receivers_plan(&s->receivers, &on, &time, span, e));
  s->receivers.sources = s->sources.count;
  s->receivers.source_positions = (const double(*)[3])s->sources.positions;
  return save_queue_describe(s, e);
}

int shot_plan(shot *s, engine *g, const shot_setup *setup, error *e) {
  s->engine = g;
  if (!s->dev) s->dev = g->dev;
  s->config = setup->config, s->command = setup->command, s->log = setup->log, s->from = setup->from;
  s->survey = setup->survey, s->lead = setup->lead;
  s->row_count = 0, s->failed = (error){0};
  s->stepper.args.ny = g->slab.ny;
  s->io = g->io;
  s->io.path = s->config->output_path;
  s->stop = (stop_watch){.comm = g->comm};
  s->stepper.kernel = g->kernel, s->stepper.boundary_kernel = g->boundary_kernel;
  stepper_restart(&s->stepper);
  if (!engine_honours(g, s->config, e)) save_queue_plan(s, e);
  TRY(error_agree(e, g->comm));
  const problem on = shot_problem(s);
  if (!s->open) absorb_plan(&s->absorb, &on);
  TRY(shot_place(s, e));
  return s->from ? restart_match(s, s->from, e) : 0; /* before anything counts on its step and its dt */
}

int shot_stack(shot *lead, shot *const *rows, int count, error *e) {
  const slab *b = &lead->engine->slab;
  sources **all;
  receivers **all_receivers;
  TRY(ALLOC(e, all, count, "the shots"));
  if (ALLOC(e, all_receivers, count, "the shots")) {
    free(all);
    return e->id;
  }
  lead->rows = rows, lead->row_count = count;
  lead->stepper.args.ny = count; /* the engine's stack may have room for more */
  for (int i = 0; i < count; i++) {
    rows[i]->row = i;
    all[i] = &rows[i]->sources, all_receivers[i] = &rows[i]->receivers;
  }
  sources_join(&lead->sources, all, count, lead->dev, b, e);
  receivers_join(&lead->receivers, all_receivers, count, lead->dev, b, e);
  lead->stepper.sources = &lead->sources;
  lead->observers.list[lead->observers.count++] = receivers_observer(&lead->receivers);
  return error_agree(e, lead->engine->comm);
}

void shot_fields(const shot *s, field_set *f) {
  const stepper *p = &s->stepper;
  fields_plan(f, s->config, &s->engine->slab, &s->absorb);
  for (int i = 0; i < f->count; i++) {
    field *a = &f->list[i];
    if (a->role == FIELD_STATE) a->values = p->memory[stepper_ago(p, a->number)];
    if (a->role == FIELD_MEDIUM) a->values = s->engine->medium[a->number];
    if (a->role == FIELD_MEMORY) a->values = s->memory[a->number];
    if (a->role == FIELD_MAP) a->values = s->map[a->number];
  }
}

int shot_bring(const shot *s, float *field, int z, int planes, float *values, error *e) {
  transfer t = (s->lead ? s->lead : s)->transfer;
  t.field = field;
  return s->lead ? transfer_row_to_host(&t, s->row, z, planes, values, e)
                 : transfer_to_host(&t, z, planes, values, e);
}

/* --- memory ----------------------------------------------------------------------------------------------------- */

/* What relaxations remember, and where the pressure lies while it is saved. */
static int shot_open_memory(shot *s, size_t bytes, error *e) {
  field_set f;
  shot_fields(s, &f);
  for (const field *a = f.list; a < f.list + f.count; a++) {
    if (a->role != FIELD_MEMORY && a->role != FIELD_MAP) continue;
    float **to = a->role == FIELD_MAP ? &s->map[a->number] : &s->memory[a->number];
    TRY(s->dev->table->alloc(s->dev, (void **)to, bytes, MEMORY_DEVICE, e));
    if (a->saved && a->role == FIELD_MEMORY)
      s->stepper.args.terms.memory[a->number] = *to + slab_offset(&s->engine->slab, 0, 0, 0);
  }
  return 0;
}

/* The fields, the layers, and what looks after them. */
static int shot_open_state(shot *s, error *e) {
  engine *g = s->engine;
  const problem on = shot_problem(s);
  const size_t bytes = slab_floats(&g->slab) * sizeof(float);
  stepper *p = &s->stepper;
  p->dev = s->dev, p->halo = &s->halo, p->slab = &g->slab;
  p->overlap = g->config->overlap, p->profile = g->setup.profile;
  p->args = g->args;
  s->transfer = g->transfer;
  s->transfer.dev = s->dev;
  for (int i = 0; i < stepper_states(p); i++)
    TRY(s->dev->table->alloc(s->dev, (void **)&p->memory[i], bytes, MEMORY_DEVICE, e));
  TRY(shot_open_memory(s, bytes, e));
  TRY(stepper_open(p, e));
  TRY(measure_open(&s->saves.measure, s->dev, &g->slab, g->comm, g->config->histogram, e));
  TRY(absorb_open(&s->absorb, &on, &p->args, (absorb_motion){physics_fastest(&g->physics), g->physics.dt},
                  e));
  if (absorb_needed(&s->absorb)) p->absorb = &s->absorb;
  s->front.threads = g->options.threads;
  if (g->depth == 1) return 0;
  p->front = &s->front;
  return wavefront_open(&s->front, &p->args, g->depth, e);
}

static int shot_open_schedule(shot *s, error *e) {
  if (s->engine->config->schedule != SCHEDULE_PERSISTENT) return 0;
  error reason = {0};
  persistent_open(&s->persistent, &s->halo, &s->stepper.args, &reason);
  if (reason.id == ERROR_TRANSPORT_REFUSED) return FAIL(e, SCHEDULE_IMPOSSIBLE, reason.text);
  if (reason.id && !e->id) *e = reason;
  s->stepper.persistent = &s->persistent;
  return e->id;
}

/* All that shots after the first one find. */
static int shot_open_once(shot *s, error *e) {
  const engine *g = s->engine;
  const bool persistent = g->config->schedule == SCHEDULE_PERSISTENT && g->ranks > 1;
  s->open = true;
  shot_open_state(s, e);
  TRY(error_agree(e, g->comm));
  halo_setup exchanged = {.dev = s->dev, .slab = &g->slab, .comm = g->comm};
  field_set f;
  shot_fields(s, &f);
  for (int i = 0, n = 0; i < f.count; i++)
    if (f.list[i].role == FIELD_STATE) exchanged.fields[n++] = f.list[i].values;
  halo_open(&s->halo, persistent ? "ipc" : transport_name(g->config->transport), &exchanged, e);
  if (!e->id) shot_open_schedule(s, e);
  TRY(error_agree(e, g->comm));
  return save_queue_open(s, e);
}

/* Traces that should lie in files and cannot. */
static int shot_tell_traces(shot *s, error *e) {
  int missed = 0;
  bool any = false;
  for (int i = 0; i < shot_rows(s); i++) {
    const receivers *r = &shot_row(s, i)->receivers;
    any = any || r->in_file;
    missed |= r->in_file && r->local && !r->held.mapped;
  }
  if (!any) return 0;
  MPI_TRY(e, mpi_reduce_all(&missed, 1, MPI_INT, MPI_SUM, s->engine->comm));
  if (missed)
    log_line(s->log, "warning: traces of %d rank%s stay in memory: no file can be mapped beside %s", missed,
             missed == 1 ? "" : "s", s->config->output_path);
  return 0;
}

int shot_open(shot *s, error *e) {
  if (!s->open) TRY(shot_open_once(s, e));
  s->receivers.stream = s->halo.stream;
  s->receivers.sigma = s->engine->args.terms.sigma;
  if (!sources_open(&s->sources, e)) receivers_open(&s->receivers, e);
  TRY(error_agree(e, s->engine->comm));
  TRY(shot_tell_traces(s, e));
  return save_queue_start(s, e);
}

void shot_close(shot *s) {
  error ignored = {0};
  save_queue_close(s);
  if (!s->dev) return;
  persistent_close(&s->persistent);
  halo_close(&s->halo);
  measure_close(&s->saves.measure);
  receivers_close(&s->receivers);
  sources_close(&s->sources);
  absorb_close(&s->absorb);
  wavefront_close(&s->front);
  stepper_close(&s->stepper);
  for (int i = 0; i < EQUATION_STATES; i++)
    s->dev->table->free(s->dev, s->stepper.memory[i], MEMORY_DEVICE, &ignored);
  for (int i = 0; i < SHOT_MEMORIES; i++) s->dev->table->free(s->dev, s->memory[i], MEMORY_DEVICE, &ignored);
  for (int i = 0; i < MAP_FIELDS; i++) s->dev->table->free(s->dev, s->map[i], MEMORY_DEVICE, &ignored);
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
