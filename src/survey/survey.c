/* A survey: ranks form groups, and each group opens as many slots for shots as its memory has room for. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "propagator/maps.h"
#include "shot/storage.h"
#include "survey.h"

/* --- groups ------------------------------------------------------------------------------------------------------- */

/* As few ranks as have room for a shot. Collective over the computing ranks. */
static int survey_find_ranks(survey_group *v, int ranks, int *found, error *e) {
  const config *c = v->job->config;
  const engine_setup setup = {.config = c, .beside = v->job->files->compute};
  double room;
  *found = 1;
  if (ranks == 1) return 0;
  TRY(engine_room(&setup, &room, e));
  for (; *found < ranks && room > 0; ++*found) {
    slab s;
    error thin = {0};
    if (engine_slab(&s, c, 0, *found, &thin) || engine_bytes(c, &s) <= room) break;
  }
  return 0;
}

static const char *survey_plural(int count) {
  return count == 1 ? "" : "s";
}

/* Cuts the ranks into groups. */
static int survey_find_groups(survey_group *v, error *e) {
  const job *j = v->job;
  int ranks, threads, each = j->config->survey_ranks;
  MPI_TRY(e, MPI_Comm_size(j->files->compute, &ranks));
  if (each == 0) TRY(survey_find_ranks(v, ranks, &each, e));
  if (each > ranks) return FAIL(e, SURVEY_RANKS, each, ranks);
  if (each > 1 && j->config->survey_at_once > 1) return FAIL(e, SURVEY_AT_ONCE, each);
  const int idle = ranks % each;
  v->parts = (files_parts){ranks / each, each};
  MPI_TRY(e, MPI_Query_thread(&threads));
  v->threaded = each == 1 && threads == MPI_THREAD_MULTIPLE;
  log_line(j->log, "survey: %d group%s of %d rank%s%s", v->parts.count, survey_plural(v->parts.count), each,
           survey_plural(each), j->files->served ? ", and a data server" : "");
  if (idle) log_line(j->log, "%d rank%s left over: idle", idle, idle == 1 ? " is" : "s are");
  return 0;
}

static int survey_split(survey_group *v, error *e) {
  const job *j = v->job;
  int rank;
  MPI_TRY(e, MPI_Comm_rank(j->files->compute, &rank));
  const bool idle = rank >= v->parts.count * v->parts.ranks;
  MPI_TRY(e, MPI_Comm_split(j->files->compute, idle ? MPI_UNDEFINED : 0, rank, &v->active));
  v->log = rank == 0 ? j->log : &v->silent;
  return files_split(j->files, v->parts, &v->group, &v->first, e);
}

/* [output] path, which the configuration of the first shot has with a slash and its name. */
static void survey_find_path(survey_group *v) {
  const config *c = v->job->config;
  const size_t length = strlen(c->output_path) - strlen(c->output_name) - 1;
  snprintf(v->path, sizeof v->path, "%.*s", (int)length, c->output_path);
}

static int survey_begin(survey_group *v, const job *j, survey_lines lines, error *e) {
  *v = (survey_group){.job = j, .lines = lines, .active = MPI_COMM_NULL};
  v->group.compute = v->group.comm = v->first.compute = v->first.comm = MPI_COMM_NULL;
  survey_find_path(v);
  TRY(survey_find_groups(v, e));
  return survey_split(v, e);
}

static void survey_end(survey_group *v) {
  files_close(&v->group);
  files_close(&v->first);
  if (v->active != MPI_COMM_NULL) MPI_Comm_free(&v->active);
}

/* --- slots -------------------------------------------------------------------------------------------------------- */

/* Shots that step together, as a stack: those of a 2D survey, where a rank does a shot and all of them begin with the same
 * field. On rank 0, which has the lines. */
static int survey_stack(const survey_group *v) {
  /* FULL: points; each map takes as much as half of one. FIELDS: that a gradient's memory is to hold at least. A group's last stack
   * is a small one: nothing steps beside its files. It takes what a step does besides its points. */
  const double FULL = 64e6, FIELDS = 100,
               room = v->job->config->gradient_memory / (FIELDS * (double)sizeof(float));
  const int MOST = config_has_gradient(v->job->config) ? 64 : 128;
  const config *c = v->job->config;
  char why[256];
  const int each = v->most;
  if (c->ny > 1 || c->nx == 1 || v->parts.ranks > 1 || !v->lines.lines->alike) return 1;
  if (c->survey_on_stop == ON_STOP_CHECKPOINT || c->schedule == SCHEDULE_PERSISTENT) return 1;
  if (!equation_has(c->equation, HAS_TERMS) || strcmp(c->kernel, "auto") != 0) return 1;
  if (c->survey_at_once) return smaller(c->survey_at_once, each);
  if (strcmp(c->backend, "host") == 0 || device_cuda_count(why) == 0) return 1; /* a shot fits its caches */
  const double points = config_points(c) + maps_file_bytes(c) / (2 * sizeof(float));
  const int most = larger((int)fmin(MOST, (room > 0 ? fmin(room, FULL) : FULL) / points), 1);
  const int all = config_has_gradient(c) || each <= SURVEY_FEW ? each : larger(each - SURVEY_FEW, SURVEY_FEW);
  const int stacks = (all + most - 1) / most;
  return (all + stacks - 1) / stacks;
}

static int survey_find_stack(survey_group *v, error *e) {
  if (v->first.way) v->most = (v->lines.lines->count + v->parts.count - 1) / v->parts.count;
  v->stack = v->first.way ? survey_stack(v) : 1;
  TRY(message_broadcast(&v->stack, sizeof v->stack, v->active, e));
  TRY(message_broadcast(&v->most, sizeof v->most, v->active, e));
  if (v->stack > 1)
    log_line(v->log, "survey: a rank does %d shots together, as a stack of 2D runs", v->stack);
  return 0;
}

/* Shots, or stacks, that can be beside each other, of which one steps; of gradients if their memory does for so many. */
static int survey_shares(const survey_group *v) {
  return v->threaded && v->most > v->stack ? 2 : 1;
}

/* Shots, or stacks, that step at once: as many as fill a GPU. */
static int survey_at_once(const survey_group *v) {
  const double FULL = 40e6; /* points */
  const int MOST = 4, asked = v->job->config->survey_at_once;
  if (v->parts.ranks > 1 || v->stack > 1) return 1;
  if (asked) return asked;
  if (v->engine.dev->table->backend == BACKEND_HOST) return 1;
  const double n = FULL / config_points(v->job->config);
  return n < 1 ? 1 : n > MOST ? MOST : (int)n;
}

/* What a slot begins with: no sources and no receivers, and no initial field but that of a stack. */
static void survey_make_quiet(survey_group *v) {
  config *quiet = &v->quiet;
  *quiet = *v->job->config;
  if (v->stack == 1)
    quiet->initial = INITIAL_ZERO, quiet->previous = PREVIOUS_REST, quiet->initial_file[0] = '\0';
  quiet->source_count = quiet->receiver_count = 0;
  quiet->sources_listed = false;
  quiet->receivers = RECEIVERS_NONE;
}

static void survey_close_slot(survey_slot *t) {
  for (int i = 0; t->shots && i < t->v->stack; i++) {
    shot_close(&t->shots[i].row);
    message_free(&t->shots[i].message);
  }
  gradient_close(&t->back);
  shot_close(&t->shot);
  if (t->dev) t->dev->table->close(t->dev);
  free(t->shots);
  free(t->rows);
  sem_destroy(&t->stepped);
}

static void survey_close_slots(survey_group *v) {
  for (int i = 0; v->slots && i < v->slot_count; i++) survey_close_slot(&v->slots[i]);
  if (v->slots)
    sem_destroy(&v->news), pthread_mutex_destroy(&v->restarting), pthread_mutex_destroy(&v->counting);
  free(v->slots);
}

static int survey_open_shots(survey_slot *t, error *e) {
  const int count = t->v->stack;
  TRY(ALLOC(e, t->shots, count, "the shots"));
  TRY(ALLOC(e, t->rows, count, "the shots"));
  for (int i = 0; i < count; i++) t->shots[i].from.from = (checkpoint){.fd = -1};
  return 0;
}

/* The first slot uses the engine's device, and the engine is loaded and chooses its kernels with it. Others have a device
 * object of their own. */
static int survey_open_slot(survey_slot *t, error *e) {
  survey_group *v = t->v;
  const shot_setup setup = {&v->quiet, v->job->command, &t->silent, NULL, NULL, NULL};
  TRY(survey_open_shots(t, e));
  if (t != v->slots) TRY(engine_open_device(&v->engine, &t->dev, e));
  t->shot.dev = t->dev;
  if (!shot_plan(&t->shot, &v->engine, &setup, e) && !shot_open(&t->shot, e)) shot_load(&t->shot, e);
  return shot_end(&t->shot, e);
}

/* What its gradient needs, of so many slots. */
static int survey_open_back(survey_slot *t, int slots, error *e) {
  t->back.shares = slots;
  TRY(gradient_plan(&t->back, &t->shot, e));
  return gradient_open(&t->back, e);
}

/* One more than step at once, for the shot that is written. */
static int survey_room(const survey_group *v) {
  const int shares = survey_shares(v);
  return shares == 1 || config_has_gradient(v->job->config) ? shares : survey_at_once(v) + 1;
}

/* As long as there is memory for all that they need. */
static int survey_open_slots(survey_group *v, error *e) {
  error less = {0};
  int room = survey_room(v);
  TRY(ALLOC(e, v->slots, room, "the shots"));
  survey_make_quiet(v);
  sem_init(&v->news, 0, 0);
  pthread_mutex_init(&v->restarting, NULL);
  pthread_mutex_init(&v->counting, NULL);
  for (int i = 0; i < room; i++) v->slots[i].v = v, sem_init(&v->slots[i].stepped, 0, 0);
  v->slot_count = 1;
  TRY(survey_open_slot(&v->slots[0], e));
  if (config_has_gradient(v->job->config)) TRY(gradient_share(&v->slots[0].shot, room, &room, e));
  TRY(survey_open_back(&v->slots[0], room, e));
  for (; v->slot_count < room; v->slot_count++)
    if (survey_open_slot(&v->slots[v->slot_count], &less) ||
        survey_open_back(&v->slots[v->slot_count], room, &less)) {
      survey_close_slot(&v->slots[v->slot_count]);
      break;
    }
  v->at_once = v->slot_count > 1 ? v->slot_count - 1 : 1;
  return 0;
}

/* --- the whole ------------------------------------------------------------------------------------------------------ */

/* Says what runs, by the first shot, where that can be read. */
static int survey_announce(survey_group *v, error *e) {
  survey_slot *t = &v->slots[0];
  error unread = {0};
  warnings told;
  if (v->first.way) warnings_hear(v->log, &told);
  const shot_setup setup = {v->job->config, v->job->command, v->log, NULL, NULL, NULL};
  if (!shot_plan(&t->shot, &v->engine, &setup, &unread) && !announce(&t->shot, e))
    gradient_announce(&t->back);
  if (!v->first.way) return e->id;
  v->log->hear = NULL;
  return e->id ? e->id : shot_queue_warned(v->queue, &told, e);
}

/* Plans the engine, and finds out what is left to do. */
static int survey_plan(survey_group *v, int *left, error *e) {
  const job *j = v->job;
  const config *c = j->config;
  const bool profile = !j->options->quiet || c->report_file[0];
  TRY(survey_find_stack(v, e));
  const engine_setup setup = {c, &v->group, v->log, 0, profile, v->active, v->stack};
  engine_plan(&v->engine, &setup, e);
  TRY(error_agree(e, v->active));
  const space_steps saved = {
      .last = v->engine.physics.steps, .every = c->output_every, .begins = true, .ends = c->output_final};
  const shot_queue_setup queue = {v->active,      v->parts.ranks, c,         v->path, v->lines.lines,
                                  v->lines.given, j->files,       &v->first, saved,   v->log};
  return shot_queue_open(&v->queue, &queue, left, e);
}

static int survey_do(survey_group *v, error *e) {
  if (!engine_open(&v->engine, e) && !survey_open_slots(v, e)) survey_announce(v, e);
  TRY(error_agree(e, v->active));
  if (v->stack == 1 && v->slot_count > 1 && !config_has_gradient(v->job->config))
    log_line(v->log, "survey: a rank has %d shot%s under way while another is written", v->at_once,
             survey_plural(v->at_once));
  TRY(shot_queue_start(v->queue, e));
  if (survey_shots(v, e)) error_abort(e, v->job->files->comm); /* other groups wait */
  return 0;
}

/* Moves the sum of other shots aside; that of these shots is written once they are done. With [output] replace the old
 * sum is deleted when they are `over`. On rank 0. */
static int survey_move_sum_aside(survey_group *v, bool left, bool over, error *e) {
  config c = *v->job->config;
  const space_steps others = {.all = true, .over = over};
  space_aside aside;
  snprintf(c.output_path, sizeof c.output_path, "%s", v->path);
  if (c.receivers == RECEIVERS_NONE) c.receivers = RECEIVERS_LINE; /* nothing but the sum is moved */
  if (left) c.gradient_observed[0] = c.gradient_residual[0] = '\0';
  const request r = {FILES_MOVE_ASIDE, .config = &c, .which = others, .answer_bytes = sizeof aside,
                     .own.answer = &aside};
  TRY(files_do(&v->first, &r, e));
  if (aside.files && over)
    log_line(v->log, "deleted the gradient of an earlier survey");
  else if (aside.files)
    log_line(v->log, "moved aside the gradient of an earlier survey to %s.old%d" GRADIENT_ENDING, v->path,
             aside.number);
  return 0;
}

/* The sum over all shots, once they are done. On rank 0. */
static int survey_sum(survey_group *v, const shot_totals *totals, error *e) {
  const shot_lines *lines = v->lines.lines;
  const config *c = v->job->config;
  if (!config_has_gradient(c)) return 0;
  if (totals->done < totals->shots) {
    log_line(v->log,
             "gradient: %d of %d shots are in PATH/NAME.gradient.h5; their sum is written when all are",
             totals->done, totals->shots);
    return 0;
  }
  const char **names;
  TRY(ALLOC(e, names, lines->count, "the shots"));
  for (int i = 0; i < lines->count; i++) names[i] = lines->list[i].name;
  char *text = config_print_survey(v->lines.given, c);
  const gradient_meta of = {.shots = lines->count, .names = names};
  const field_meta meta = {.run = {.step = v->engine.physics.steps,
                                   .time = v->engine.physics.dt * (double)v->engine.physics.steps,
                                   .dt = v->engine.physics.dt,
                                   .mpi_ranks = v->job->files->started,
                                   .config_text = text,
                                   .command = v->job->command,
                                   .equation = equation_name(c->equation)},
                           .origin = {c->origin[0], c->origin[1], c->origin[2]},
                           .spacing = {c->dx, c->dy, c->dz},
                           .gradient = &of};
  files_do(&v->first, &(request){FILES_SUM_GRADIENTS, .path = v->path, .config = c, .field = &meta}, e);
  if (!e->id)
    log_line(v->log, "written: %s" GRADIENT_ENDING ", the sum over %d shots", v->path, lines->count);
  free(text);
  free(names);
  return e->id;
}

/* Once more, what came of it. */
static int survey_conclude(survey_group *v, bool done, error *e) {
  shot_totals totals = {0};
  error report = {0};
  shot_queue_finish(v->queue, &totals, e);
  TRY(message_broadcast(&totals, sizeof totals, v->active, e));
  v->done.seconds = totals.seconds, v->done.shots = totals.done - totals.before;
  if (done && v->done.shots && announce_survey(&v->slots[0].shot, &v->done, v->active, &report) && !e->id)
    *e = report;
  if (v->done.shots == 0 && v->job->config->report_file[0])
    log_line(v->log, "%s is not written: this run has done no shot", v->job->config->report_file);
  log_line(v->log, "survey: %d of %d shots are done: %s/survey.csv", totals.done, totals.shots, v->path);
  error sum = {0};
  if (v->first.way && !survey_sum(v, &totals, &sum) && totals.done == totals.shots &&
      v->job->config->output_replace)
    survey_move_sum_aside(v, false, true, &sum);
  error_agree(&sum, v->active);
  if (!e->id) *e = sum;
  return e->id;
}

static int survey_run(survey_group *v, error *e) {
  int left;
  stop_say(shot_queue_says(v->job->config->survey_on_stop));
  TRY(survey_plan(v, &left, e));
  if (v->first.way) survey_move_sum_aside(v, left, false, e);
  TRY(error_agree(e, v->active));
  if (left) TRY(survey_do(v, e));
  return survey_conclude(v, left > 0, e);
}

int run_survey(const job *j, survey_lines lines, error *e) {
  survey_group v;
  if (!survey_begin(&v, j, lines, e) && v.active != MPI_COMM_NULL) survey_run(&v, e);
  shot_queue_close(v.queue);
  survey_close_slots(&v);
  if (v.engine.dev) engine_close(&v.engine);
  survey_end(&v);
  return error_agree(e, j->files->compute);
}

int dry_run_survey(const job *j, survey_lines lines, error *e) {
  survey_group v;
  job first = *j;
  double seconds = 0;
  if (!survey_begin(&v, j, lines, e) && v.active != MPI_COMM_NULL) {
    survey_find_stack(&v, e);
    first.files = &v.group, first.beside = v.active, first.log = v.log, first.stack = v.stack;
    first.shares = survey_shares(&v), first.survey = lines;
    if (!error_agree(e, v.active)) dry_run(&first, &seconds, e);
    error_agree(e, v.active);
    if (lines.lines && !e->id)
      log_line(v.log, "survey: %d shots, all lines are in order", lines.lines->count);
    if (lines.lines && !e->id && j->options->measure)
      log_line(v.log, "estimate: %d shots take %.4g s, without what writes them", lines.lines->count,
               seconds * ceil((double)lines.lines->count / v.parts.count));
  }
  survey_end(&v);
  return error_agree(e, j->files->compute);
}
