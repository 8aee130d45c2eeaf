/* A survey, or a run: ranks form groups, and each group opens as many slots for batches as its memory holds. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "propagator/maps.h"
#include "survey.h"

/* --- groups ------------------------------------------------------------------------------------------------------- */

/* Finds the smallest number of ranks whose memory holds a shot. Collective over the computing ranks. */
static int survey_find_ranks(survey *v, int ranks, int *found, error *e) {
  const config *c = v->job.config;
  const engine_setup setup = {.config = c, .beside = v->job.files->compute};
  double most_parts;
  *found = 1;
  if (ranks == 1) return 0;
  TRY(engine_available(&setup, &most_parts, e));
  for (; *found < ranks && most_parts > 0; ++*found) {
    slab s;
    error thin = {0};
    if (engine_slab(&s, c, 0, *found, &thin) || engine_bytes(c, &s) <= most_parts) break;
  }
  return 0;
}

static const char *survey_plural(int count) {
  return count == 1 ? "" : "s";
}

/* Decides how the ranks are cut into groups. */
static int survey_find_groups(survey *v, error *e) {
  const survey_job *j = &v->job;
  int ranks, each = j->config->survey_ranks;
  MPI_TRY(e, MPI_Comm_size(j->files->compute, &ranks));
  if (each == 0) TRY(survey_find_ranks(v, ranks, &each, e));
  if (each > ranks) return FAIL(e, SURVEY_RANKS, each, ranks);
  if (each > 1 && j->config->survey_at_once > 1) return FAIL(e, SURVEY_AT_ONCE, each);
  const int idle = ranks % each;
  v->parts = (files_parts){ranks / each, each};
  v->threaded = each == 1 && mpi_threads();
  log_line(j->log, "survey: %d group%s of %d rank%s%s", v->parts.count, survey_plural(v->parts.count), each,
           survey_plural(each), j->files->served ? ", and a data server" : "");
  if (idle) log_line(j->log, "%d rank%s left over: idle", idle, idle == 1 ? " is" : "s are");
  return 0;
}

static int survey_split(survey *v, error *e) {
  const survey_job *j = &v->job;
  int rank;
  MPI_TRY(e, MPI_Comm_rank(j->files->compute, &rank));
  const bool idle = rank >= v->parts.count * v->parts.ranks;
  MPI_TRY(e, MPI_Comm_split(j->files->compute, idle ? MPI_UNDEFINED : 0, rank, &v->active));
  v->log = rank == 0 ? j->log : &v->silent;
  return files_split(j->files, v->parts, &v->group, &v->first, e);
}

/* Finds [output] path: the first shot's path without the slash and the shot's name. */
static void survey_find_path(survey *v) {
  const config *c = v->job.config;
  const size_t length = strlen(c->output_path) - strlen(c->output_name) - 1;
  snprintf(v->path, sizeof v->path, "%.*s", (int)length, c->output_path);
}

static int survey_group(survey *v, error *e) {
  const survey_job *j = &v->job;
  v->first.compute = v->first.comm = v->group.compute = v->group.comm = MPI_COMM_NULL;
  v->files = j->files, v->active = j->files->compute, v->log = j->log;
  MPI_TRY(e, MPI_Comm_size(v->active, &v->parts.ranks));
  v->parts.count = v->together = v->most = 1;
  if (!v->several) return 0;
  v->active = MPI_COMM_NULL, v->files = &v->group;
  survey_find_path(v);
  TRY(survey_find_groups(v, e));
  return survey_split(v, e);
}

/* --- slots -------------------------------------------------------------------------------------------------------- */

/* The number of shots that step together, as a batch. This needs a 2D survey in which each rank does its own shots, and
 * all shots begin with the same field. For rank 0, which has the lines. */
static int survey_together(const survey *v) {
  /* FULL: points that fill a GPU; a map counts as half a point. FIELDS: the fewest fields that a gradient's memory must
   * hold. The last batch of a group is small, because nothing steps while its files are written. */
  const double FULL = 64e6, FIELDS = 100,
               most_parts = v->job.config->gradient_memory / (FIELDS * (double)sizeof(float));
  const int MOST = config_has_gradient(v->job.config) ? 64 : 128;
  const config *c = v->job.config;
  char why[256];
  const int each = v->most;
  if (c->ny > 1 || c->nx == 1 || v->parts.ranks > 1 || !v->job.lines.lines->alike) return 1;
  if (c->survey_on_stop == ON_STOP_CHECKPOINT || c->schedule == SCHEDULE_PERSISTENT) return 1;
  if (!equation_has(c->equation, HAS_TERMS) || strcmp(c->kernel, "auto") != 0) return 1;
  if (c->survey_at_once) return smaller(c->survey_at_once, each);
  if (strcmp(c->backend, "host") == 0 || device_cuda_count(why) == 0) return 1; /* a shot fits its caches */
  const double points = config_points(c) + maps_file_bytes(c) / (2 * sizeof(float));
  const int most = larger((int)fmin(MOST, (most_parts > 0 ? fmin(most_parts, FULL) : FULL) / points), 1);
  const int all = config_has_gradient(c) || each <= SURVEY_FEW ? each : larger(each - SURVEY_FEW, SURVEY_FEW);
  const int batches = (all + most - 1) / most;
  return (all + batches - 1) / batches;
}

static int survey_find_together(survey *v, error *e) {
  if (!v->several) return 0;
  if (v->first.access) v->most = (v->job.lines.lines->count + v->parts.count - 1) / v->parts.count;
  v->together = v->first.access ? survey_together(v) : 1;
  TRY(message_broadcast(&v->together, sizeof v->together, v->active, e));
  TRY(message_broadcast(&v->most, sizeof v->most, v->active, e));
  if (v->together > 1) log_line(v->log, "survey: a rank does %d shots together", v->together);
  return 0;
}

int survey_memory_parts(const survey *v) {
  return v->threaded && v->most > v->together ? 2 : 1;
}

/* The number of shots, or batches, that step at once: as many as fill a GPU. */
static int survey_at_once(const survey *v) {
  const double FULL = 40e6; /* points */
  const int MOST = 4, asked = v->job.config->survey_at_once;
  if (v->parts.ranks > 1 || v->together > 1) return 1;
  if (asked) return asked;
  if (v->engine.dev->table->backend == BACKEND_HOST) return 1;
  const double n = FULL / config_points(v->job.config);
  return n < 1 ? 1 : n > MOST ? MOST : (int)n;
}

static void survey_close_slot(survey_slot *t) {
  gradient_close(&t->gradient);
  batch_close(&t->batch);
  for (int i = 0; t->shots && i < t->v->together; i++) {
    shot_close(&t->shots[i].shot);
    restart_close(&t->shots[i].restart);
    message_free(&t->shots[i].message);
  }
  if (t->dev) t->dev->table->close(t->dev);
  free(t->shots);
  free(t->begun);
  sem_destroy(&t->stepped);
}

static void survey_close_slots(survey *v) {
  for (int i = 0; v->slots && i < v->slot_count; i++) survey_close_slot(&v->slots[i]);
  if (v->slots)
    sem_destroy(&v->news), pthread_mutex_destroy(&v->restarting), pthread_mutex_destroy(&v->counting);
  free(v->slots);
}

static int survey_open_shots(survey_slot *t, error *e) {
  const int count = t->v->together;
  TRY(ALLOC(e, t->shots, count, "the shots"));
  TRY(ALLOC(e, t->begun, count, "the shots"));
  for (int i = 0; i < count; i++) t->shots[i].restart.from = (checkpoint){.fd = -1};
  return 0;
}

/* Takes the memory of a slot's batch. The first slot uses the engine's device object, other slots open their own. */
static int survey_open_slot(survey_slot *t, error *e) {
  survey *v = t->v;
  TRY(survey_open_shots(t, e));
  if (t != v->slots) TRY(engine_open_device(&v->engine, &t->dev, e));
  t->batch.p.dev = t->dev;
  TRY(survey_join(t, NULL, 0, e));
  TRY(batch_open(&t->batch, e));
  return batch_end(&t->batch, e);
}

/* Plans and opens the gradient of a slot, one of `slots`. */
static int survey_open_back(survey_slot *t, int slots, error *e) {
  t->gradient.parts = slots;
  TRY(gradient_plan(&t->gradient, &t->batch, e));
  return gradient_open(&t->gradient, e);
}

/* The number of slots: one for each that steps, and one more for the shot being written. */
static int survey_room(const survey *v) {
  const int parts = survey_memory_parts(v);
  return parts == 1 || config_has_gradient(v->job.config) ? parts : survey_at_once(v) + 1;
}

static int survey_make_slots(survey *v, int most_parts, error *e) {
  TRY(ALLOC(e, v->slots, most_parts, "the shots"));
  sem_init(&v->news, 0, 0);
  pthread_mutex_init(&v->restarting, NULL);
  pthread_mutex_init(&v->counting, NULL);
  for (int i = 0; i < most_parts; i++) {
    v->slots[i].v = v, v->slots[i].gradient.caller = v->job.misfit;
    v->slots[i].silent = (run_log){.advance = v->job.log->advance, .hearer = v->job.log->hearer};
    sem_init(&v->slots[i].stepped, 0, 0);
  }
  v->slot_count = 1;
  return 0;
}

/* Opens slots as long as memory allows. */
static int survey_open_slots(survey *v, error *e) {
  error less = {0};
  int most_parts = survey_room(v);
  survey_make_slots(v, most_parts, e);
  TRY(error_agree(e, v->engine.comm));
  TRY(survey_open_slot(&v->slots[0], e));
  if (config_has_gradient(v->job.config))
    TRY(gradient_memory_parts(&v->slots[0].batch, most_parts, &most_parts, e));
  TRY(survey_open_back(&v->slots[0], most_parts, e));
  for (; v->slot_count < most_parts; v->slot_count++)
    if (survey_open_slot(&v->slots[v->slot_count], &less) ||
        survey_open_back(&v->slots[v->slot_count], most_parts, &less)) {
      survey_close_slot(&v->slots[v->slot_count]);
      break;
    }
  v->at_once = v->slot_count > 1 ? v->slot_count - 1 : 1;
  return 0;
}

/* --- planning ----------------------------------------------------------------------------------------------------- */

/* Plans the engine, with the time step of the checkpoint if there is one. */
static int survey_plan_engine(survey *v, error *e) {
  const checkpoint *from = v->one.restart.from.name[0] ? &v->one.restart.from : NULL;
  const engine_setup setup = {.config = v->job.config,
                              .files = v->files,
                              .log = v->log,
                              .dt_before = from ? from->dt : 0,
                              .profile = v->job.profile,
                              .beside = v->active,
                              .together = v->together};
  if (v->engine.dev) engine_close(&v->engine);
  engine_plan(&v->engine, &setup, e);
  return error_agree(e, v->active);
}

/* Plans the engine and the first shot. In a survey this plan only serves the log, since the shot is planned again when
 * it is taken. */
static int survey_plan_first(survey *v, error *e) {
  const request verify = {FILES_VERIFY_CHECKPOINT, .own.from = &v->one.restart.from};
  error unread = {0};
  TRY(survey_plan_engine(v, e));
  survey_plan_shot(v, &v->one, v->log, &unread);
  if (v->several) return 0;
  if (!unread.id && v->job.verifies && v->one.restart.from.name[0]) files_do(v->files, &verify, &unread);
  *e = unread;
  return e->id;
}

int survey_plan(survey *v, const survey_job *job, error *e) {
  const config *c = job->config;
  *v = (survey){.job = *job, .several = c->survey_file[0], .active = MPI_COMM_NULL};
  v->one = (survey_shot){.order = {.number = 1, .config = c},
                         .restart = {.name = job->restart,
                                     .path = c->checkpoint_path,
                                     .log = job->log,
                                     .files = job->files,
                                     .from.fd = -1}};
  TRY(survey_group(v, e));
  if (!survey_active(v)) return 0;
  TRY(survey_find_together(v, e));
  TRY(restart_open(&v->one.restart, e));
  do survey_plan_first(v, e);
  while (restart_pass_over(&v->one.restart, e));
  return error_agree(e, v->active);
}

bool survey_active(const survey *v) {
  return v->active != MPI_COMM_NULL;
}

void survey_close(survey *v) {
  shot_queue_close(v->queue);
  survey_close_slots(v);
  shot_close(&v->one.shot);
  restart_close(&v->one.restart);
  if (v->engine.dev) engine_close(&v->engine);
  if (!v->several) return;
  files_close(&v->group);
  files_close(&v->first);
  if (v->active != MPI_COMM_NULL) MPI_Comm_free(&v->active);
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

/* Logs what runs, by the example of the first shot, if that shot could be planned. */
static int survey_announce(survey *v, error *e) {
  survey_slot *t = &v->slots[0];
  const run_log before = *v->log;
  warnings warned;
  if (v->job.samples) return 0;
  if (v->several && v->first.access) warnings_hear(v->log, &warned);
  if (v->one.planned && !announce(&t->batch.p, &v->one.shot, e)) gradient_announce(&t->gradient, v->log);
  v->log->hear = before.hear, v->log->hearer = before.hearer;
  if (v->several && v->first.access) warnings_pass(&warned, v->log);
  if (e->id || !v->several) return e->id ? e->id : announce_check_report(&v->engine, e);
  if (v->together == 1 && v->slot_count > 1 && !config_has_gradient(v->job.config))
    log_line(v->log, "survey: a rank has %d shot%s under way while another is written", v->at_once,
             survey_plural(v->at_once));
  return v->first.access ? shot_queue_warned(v->queue, &warned, e) : 0;
}

int survey_open(survey *v, error *e) {
  if (!engine_open(&v->engine, e) && !survey_open_slots(v, e)) survey_announce(v, e);
  TRY(error_agree(e, v->active));
  engine_load(&v->engine, e);
  return error_agree(e, v->active);
}

int survey_batch(survey *v, survey_slot **slot, error *e) {
  survey_shot *one = &v->one;
  *slot = &v->slots[0];
  TRY(survey_join(*slot, &one, 1, e));
  return batch_open(&(*slot)->batch, e);
}

/* Opens the queue, which finds the shots that are not done. */
static int survey_find_left(survey *v, int *left, error *e) {
  const survey_job *j = &v->job;
  const config *c = j->config;
  const space_steps saved = {
      .last = v->engine.physics.steps, .every = c->output_every, .begins = true, .ends = c->output_final};
  const shot_queue_setup queue = {v->active, v->parts.ranks, c,     v->path, j->lines.lines, j->lines.given,
                                  j->files,  &v->first,      saved, v->log,  j->first_ends};
  return shot_queue_open(&v->queue, &queue, left, e);
}

/* Moves an earlier survey's sum aside; the sum of these shots is written once they are done. With [output] replace the
 * old sum is deleted then, if `over`. For rank 0. */
static int survey_move_sum_aside(survey *v, bool left, bool over, error *e) {
  config c = *v->job.config;
  const space_steps others = {.all = true, .over = over};
  space_aside aside;
  snprintf(c.output_path, sizeof c.output_path, "%s", v->path);
  if (c.receivers == RECEIVERS_NONE) c.receivers = RECEIVERS_LINE; /* so that only the sum is moved */
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

/* Writes the sum over all shots, once they are done. For rank 0. */
static int survey_sum(survey *v, const shot_totals *totals, error *e) {
  const shot_lines *lines = v->job.lines.lines;
  const config *c = v->job.config;
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
  char *text = config_print_survey(v->job.lines.given, c);
  const gradient_meta of = {.shots = lines->count, .names = names};
  const field_meta meta = {.run = {.step = v->engine.physics.steps,
                                   .time = v->engine.physics.dt * (double)v->engine.physics.steps,
                                   .dt = v->engine.physics.dt,
                                   .mpi_ranks = v->job.files->started,
                                   .config_text = text,
                                   .command = v->job.command,
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

/* Ends the queue, logs the totals, and writes the report and the sum of gradients. */
static int survey_conclude(survey *v, bool done, error *e) {
  shot_totals totals = {0};
  error report = {0};
  shot_queue_finish(v->queue, &totals, e);
  TRY(message_broadcast(&totals, sizeof totals, v->active, e));
  v->done.seconds = totals.seconds, v->done.shots = totals.done - totals.before;
  if (done && v->done.shots && announce_survey(&v->slots[0].batch, &v->done, v->active, &report) && !e->id)
    *e = report;
  if (v->done.shots == 0 && v->job.config->report_file[0])
    log_line(v->log, "%s is not written: this run has done no shot", v->job.config->report_file);
  log_line(v->log, "survey: %d of %d shots are done: %s/survey.csv", totals.done, totals.shots, v->path);
  error sum = {0};
  if (v->first.access && !survey_sum(v, &totals, &sum) && totals.done == totals.shots &&
      v->job.config->output_replace)
    survey_move_sum_aside(v, false, true, &sum);
  error_agree(&sum, v->active);
  if (!e->id) *e = sum;
  return e->id;
}

/* Opens the slots the first time; later calls keep them and only load the media. */
static int survey_make_ready(survey *v, error *e) {
  if (!v->slots) return survey_open(v, e);
  engine_load(&v->engine, e);
  return error_agree(e, v->active);
}

/* Does the shots of the queue. */
static int survey_do_several(survey *v, error *e) {
  int left;
  stop_say(shot_queue_says(v->job.config->survey_on_stop));
  TRY(survey_find_left(v, &left, e));
  if (v->first.access) survey_move_sum_aside(v, left, false, e);
  TRY(error_agree(e, v->active));
  if (left && !survey_make_ready(v, e) && !shot_queue_start(v->queue, e) && survey_shots(v, e))
    error_abort(e, v->job.files->comm); /* other groups wait, so the job ends */
  TRY(e->id);
  return survey_conclude(v, left > 0, e);
}

int survey_again(survey *v, error *e) {
  const device_peer *peer = v->engine.dev->table->peer;
  shot_queue_close(v->queue);
  v->queue = NULL;
  v->over = false, v->taken = 0, v->done = (announce_shots){0};
  if (peer && peer->adopt) TRY(peer->adopt(v->engine.dev, e));
  TRY(engine_reload(&v->engine, e));
  return survey_do_several(v, e);
}

int survey_run(survey *v, error *e) {
  if (v->several) return survey_do_several(v, e);
  TRY(survey_open(v, e));
  if (!survey_shots(v, e)) *e = v->result;
  return e->id;
}
