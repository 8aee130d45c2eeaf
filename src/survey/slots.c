/* The shots of a group: each is taken from the queue, begun, stepped, written and reported. */
#include <errno.h>
#include <string.h>
#include "base/clock.h"
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "base/thread.h"
#include "survey.h"

/* A failure of the device or of MPI, which later shots would meet too, ends the job. */
static void survey_check_device(const survey_group *v, const error *e) {
  const bool memory =
      e->id == ERROR_OUT_OF_MEMORY || e->id == ERROR_DEVICE_MEMORY || e->id == ERROR_NODE_MEMORY;
  if (error_exit_code(e->id) == EXIT_CODE_DEVICE && !memory) error_abort(e, v->job->files->comm);
}

/* Moves the files of another shot aside. */
static int survey_move_aside(const survey_group *v, const survey_shot *t, error *e) {
  const space_steps none = {.none = true, .begins = true};
  space_aside aside;
  const request r = {FILES_MOVE_ASIDE, .config = t->order.config, .which = none, .answer_bytes = sizeof aside,
                     .own.answer = &aside};
  return t->order.there == SHOT_OTHER ? files_do(&v->group, &r, e) : 0;
}

/* From its checkpoint, where there is one of this shot, else from the start. */
static int survey_plan_shot(survey_slot *slot, survey_shot *t, error *e) {
  const survey_group *v = slot->v;
  const config *c = t->order.config;
  const bool checkpoints = v->job->config->survey_on_stop == ON_STOP_CHECKPOINT;
  t->from = (restart){
      .name = checkpoints ? "auto" : NULL, .path = c->checkpoint_path, .log = &t->silent, .files = &v->group};
  TRY(restart_open(&t->from, e));
  for (;;) {
    const checkpoint *from = t->from.from.name[0] ? &t->from.from : NULL;
    const shot_setup setup = {c, v->job->command, &t->silent, from, &t->of, NULL};
    if (!shot_plan(&slot->shot, &slot->v->engine, &setup, e)) {
      announce_shot(&slot->shot);
      return 0;
    }
    if (restart_pass_over(&t->from, e)) continue;
    if (e->id != ERROR_CHECKPOINT_DIFFERS) return e->id;
    *e = (error){0}; /* another shot's: this one begins, and moves them aside */
    restart_close(&t->from);
    t->from.from = (checkpoint){.fd = -1};
  }
}

/* What is left once a shot or a stack is planned and its files are in order. */
static int survey_begin_planned(survey_slot *t, error *e) {
  TRY(shot_open(&t->shot, e));
  TRY(gradient_open(&t->back, e));
  return shot_begin(&t->shot, e);
}

/* Where what ends the steps belongs. */
static error *survey_failure(survey_slot *t) {
  return t->v->stack > 1 ? &t->stacked : &t->shots[0].report.failed;
}

/* A data server has one checkpoint open for a rank: from when it is found until it is read, no other shot begins. */
static int survey_begin_shot(survey_slot *t, error *e) {
  survey_group *v = t->v;
  const bool one = v->group.served && v->job->config->survey_on_stop == ON_STOP_CHECKPOINT;
  if (one) pthread_mutex_lock(&v->restarting);
  if (!survey_move_aside(v, &t->shots[0], e) && !survey_plan_shot(t, &t->shots[0], e))
    survey_begin_planned(t, e);
  if (one) pthread_mutex_unlock(&v->restarting);
  return e->id;
}

static int survey_begin_row(survey_slot *t, survey_shot *one, error *e) {
  const shot_setup setup = {one->order.config, t->v->job->command, &one->silent, NULL, &one->of, &t->shot};
  TRY(survey_move_aside(t->v, one, e));
  TRY(shot_plan(&one->row, &t->v->engine, &setup, e));
  announce_shot(&one->row);
  return shot_begin(&one->row, e);
}

static void *survey_share_main(void *argument) {
  survey_slot *t = argument;
  for (int i; (i = atomic_fetch_add(&t->next, 1)) < t->count;)
    t->each(t, &t->shots[i], &t->shots[i].report.failed);
  return NULL;
}

/* Does this to each shot of a stack, one after the other in each of several threads. */
static void survey_share(survey_slot *t, int (*each)(survey_slot *t, survey_shot *one, error *e)) {
  t->next = 0;
  t->each = each;
  thread_share(t->v->threaded ? t->v->group.way->compressors : 1, survey_share_main, t);
}

/* A shot that cannot begin fails alone. */
static int survey_begin_stack(survey_slot *t, error *e) {
  survey_group *v = t->v;
  int rows = 0;
  t->of = t->shots[0].of;
  t->of.fresh = true; /* the lead has no files */
  const shot_setup setup = {&v->quiet, v->job->command, &t->silent, NULL, &t->of, NULL};
  TRY(shot_plan(&t->shot, &v->engine, &setup, e));
  survey_share(t, survey_begin_row);
  for (int i = 0; i < t->count; i++) {
    survey_shot *one = &t->shots[i];
    if (one->report.failed.id) continue;
    one->place = rows;
    t->rows[rows++] = &one->row;
  }
  if (rows == 0) *e = t->shots[0].report.failed;
  TRY(e->id);
  TRY(shot_stack(&t->shot, t->rows, rows, e));
  return survey_begin_planned(t, e);
}

/* What a shot needs after its steps, as far as that can be had before: what its traces are compared with, and files. */
static void survey_make_ready(survey_slot *t) {
  for (int i = 0; i < t->count; i++) {
    survey_shot *one = &t->shots[i];
    shot *s = t->v->stack > 1 ? &one->row : &t->shot;
    if (one->place < 0 || gradient_check(&t->back, one->place, s, &one->ready)) continue;
    if (!shot_make_files(s, &one->ready)) gradient_make_file(&t->back, one->place, &one->ready);
  }
}

/* Takes the next shot, if there is one. */
static int survey_take(survey_slot *slot, error *e) {
  survey_group *v = slot->v;
  survey_shot *t = &slot->shots[slot->count];
  t->begin = MPI_Wtime();
  t->report = (shot_report){.asks = true};
  t->ready = (error){0}, t->place = v->stack > 1 ? -1 : 0;
  message_free(&t->message);
  if (v->engine.rank == 0) TRY(shot_queue_take(v->queue, &t->report, &t->message, e));
  TRY(message_share(&t->message, v->engine.comm, e));
  shot_queue_read(&t->message, &t->order);
  t->report = (shot_report){.number = t->order.number};
  warnings_hear(&t->silent, &t->report.warns);
  v->over = t->order.number == 0;
  t->of = (shot_of_survey){t->order.fingerprint, t->order.fresh, v->job->config->survey_on_stop,
                           v->engine.rank == 0 ? shot_queue_stopped : NULL, v->queue};
  slot->count += !v->over;
  return 0;
}

/* Reports how a shot ended. A signal may have come to any rank of the group. */
static int survey_report_shot(survey_slot *slot, survey_shot *t, error *e) {
  survey_group *v = slot->v;
  shot_report *r = &t->report;
  message m = {0};
  int number = stop_signal();
  MPI_TRY(e, mpi_reduce_all(&number, 1, MPI_INT, MPI_MAX, v->engine.comm));
  if (r->failed.id == ERROR_STOPPED) r->stopped = slot->shot.stop.signal ? slot->shot.stop.signal : -1;
  if (number) r->stopped = number;
  r->seconds = MPI_Wtime() - t->begin;
  survey_check_device(v, &r->failed);
  if (v->engine.rank == 0) shot_queue_take(v->queue, r, &m, e);
  message_free(&m);
  restart_close(&t->from);
  *r = (shot_report){.number = 0};
  return error_agree(e, v->engine.comm);
}

static int survey_report(survey_slot *t, error *e) {
  int done = 0;
  for (int i = 0; i < t->count; i++) done += !t->shots[i].report.failed.id;
  if (done) announce_add(&t->v->done, &t->shot, done);
  for (int i = 0; i < t->count; i++) TRY(survey_report_shot(t, &t->shots[i], e));
  t->count = 0;
  t->state = SURVEY_FREE;
  return 0;
}

/* After the steps of a stack: what a row saves. */
static int survey_finish_row(survey_slot *t, survey_shot *one, error *e) {
  if (!e->id) *e = one->row.failed.id ? one->row.failed : one->ready.id ? one->ready : t->stacked;
  return e->id ? e->id : shot_finish(&one->row, e);
}

/* After the extra steps: the traces of a row, and their residual. */
static int survey_finish_traces(survey_slot *t, survey_shot *one, error *e) {
  if (!e->id) *e = t->stacked;
  if (!e->id && !shot_finish_traces(&one->row, e)) gradient_residual(&t->back, one->place, e);
  return e->id;
}

static int survey_end_row(survey_slot *t, survey_shot *one, error *e) {
  if (!e->id) *e = t->stacked;
  if (!e->id) gradient_write(&t->back, one->place, NULL, e);
  if (one->place >= 0) gradient_drop_file(&t->back, one->place);
  return shot_end(&one->row, e);
}

/* Counts a shot that begins (1) or ends (-1) to step or go back. */
static void survey_count(survey_group *v, int more) {
  pthread_mutex_lock(&v->counting);
  if (v->busy == 0) v->since = clock_seconds();
  v->busy += more;
  if (v->busy == 0) v->done.stepping += clock_seconds() - v->since;
  pthread_mutex_unlock(&v->counting);
}

static void survey_go_back(survey_slot *t, error *e) {
  survey_count(t->v, 1);
  gradient_back(&t->back, e);
  survey_count(t->v, -1);
}

/* What comes after the last step, or a failure. */
static void survey_write_shots(survey_slot *t) {
  const bool alone = t->v->stack == 1, back = config_has_gradient(t->v->job->config);
  error *stepping = survey_failure(t);
  if (alone && !stepping->id) *stepping = t->shots[0].ready;
  if (!stepping->id) shot_finish(&t->shot, stepping);
  if (!alone) survey_share(t, survey_finish_row);
  survey_count(t->v, 1);
  if (!stepping->id) shot_extra_steps(&t->shot, stepping);
  survey_count(t->v, -1);
  if (!stepping->id) shot_finish_traces(&t->shot, stepping);
  const double begin = alone ? MPI_Wtime() : t->shot.loop.end;
  if (!alone) survey_share(t, survey_finish_traces);
  if (alone && !stepping->id) gradient_residual(&t->back, 0, stepping);
  if (back && !stepping->id) survey_go_back(t, stepping);
  if (alone && !stepping->id) gradient_write(&t->back, 0, NULL, stepping);
  if (alone) gradient_drop_file(&t->back, 0);
  shot_end(&t->shot, stepping); /* of a stack: nothing of its rows is being written any more */
  if (!alone) survey_share(t, survey_end_row);
  gradient_times *times = &t->shot.loop.gradient;
  if (back) times->sums = MPI_Wtime() - begin - times->back - times->again;
}

/* False: there is nothing to step. */
static bool survey_begin_shots(survey_slot *t) {
  if (t->v->stack > 1) return !survey_begin_stack(t, survey_failure(t));
  return !survey_begin_shot(t, survey_failure(t));
}

/* Tells the group's first thread that what the slot's state says is done. */
static void survey_tell(survey_slot *t) {
  t->worked = true;
  sem_post(&t->v->news);
}

static void survey_await(sem_t *what) {
  while (sem_wait(what) && errno == EINTR) continue;
}

/* A thread that has the device begins with this. */
static void survey_adopt(survey_slot *t, error *e) {
  const device_peer *peer = t->shot.dev->table->peer;
  if (peer && peer->adopt) peer->adopt(t->shot.dev, e);
}

static void *survey_work(void *argument) {
  survey_slot *t = argument;
  survey_adopt(t, survey_failure(t));
  const bool steps = survey_begin_shots(t);
  survey_tell(t);
  if (steps) survey_make_ready(t);
  survey_await(&t->stepped);
  survey_write_shots(t);
  survey_tell(t);
  return NULL;
}

/* Takes as many shots as step together, and begins them. */
static int survey_begin_slot(survey_slot *t, error *e) {
  survey_group *v = t->v;
  /* its share, so that all groups end together, but not only the few that others leave */
  const int share = larger(v->most - v->taken, SURVEY_FEW), most = smaller(share, v->stack);
  while (!v->over && t->count < most) TRY(survey_take(t, e));
  v->taken += t->count;
  if (!t->count) return 0;
  t->stacked = (error){0};
  t->state = SURVEY_BEGINNING, t->worked = false;
  if (v->threaded) {
    const int rc = thread_start(&t->thread, survey_work, t);
    return rc ? FAIL(e, DEVICE_FAILED, "host", "starting a thread of a shot", strerror(rc)) : 0;
  }
  if (survey_begin_shots(t)) survey_make_ready(t);
  if (v->stack == 1 && !t->shots[0].report.failed.id)
    t->shots[0].report.failed = t->shots[0].ready; /* no steps */
  t->worked = true;
  return 0;
}

static void survey_write(survey_slot *t) {
  watchdog_close(&t->shot.stepper.watch);
  t->state = SURVEY_WRITING;
  if (t->v->threaded) {
    t->worked = false;
    sem_post(&t->stepped);
  } else {
    survey_write_shots(t);
  }
}

/* The next shot begins beside the last eighth of the steps: no earlier, since another group may be free sooner. */
static void *survey_steps(void *argument) {
  const int EIGHTH = 8;
  survey_slot *t = argument;
  error *failed = survey_failure(t);
  survey_adopt(t, failed);
  const int64_t last = t->shot.under_way.last, eighth = (last - t->shot.under_way.first) / EIGHTH;
  for (bool over = failed->id; !over;) {
    shot_pass(&t->shot, &over, failed);
    if (t->ending || last - t->shot.stepper.step > eighth) continue;
    t->ending = true;
    sem_post(&t->v->news);
  }
  survey_tell(t);
  return NULL;
}

static void survey_step(survey_slot *t, error *e) {
  survey_group *v = t->v;
  error *failed = survey_failure(t);
  if (!failed->id && !watchdog_open(&t->shot.stepper.watch, v->engine.comm, v->job->config->watchdog_seconds,
                                    t->shot.stepper.step, failed))
    shot_steps_begin(&t->shot, true, failed);
  if (failed->id) {
    survey_write(t);
    return;
  }
  t->state = SURVEY_STEPPING;
  t->worked = t->ending = false;
  v->stepping++;
  survey_count(v, 1);
  const int rc = v->threaded ? thread_start(&t->stepper, survey_steps, t) : 0;
  if (rc) FAIL(e, DEVICE_FAILED, "host", "starting a thread of a shot", strerror(rc));
  if (!v->threaded) survey_steps(t);
}

static void survey_stepped(survey_slot *t) {
  survey_group *v = t->v;
  if (v->threaded) pthread_join(t->stepper, NULL);
  v->stepping--;
  survey_count(v, -1);
  survey_write(t);
}

/* Is it time to begin a shot? Where all that can step do, the next one begins once one of them is ending. */
static bool survey_wants(const survey_group *v) {
  int begun = 0;
  bool ending = false;
  for (int i = 0; i < v->slot_count; i++) {
    const survey_slot *t = &v->slots[i];
    begun += t->state == SURVEY_BEGINNING;
    ending = ending || (t->state == SURVEY_STEPPING && t->ending);
  }
  return !v->over && (begun + v->stepping < v->at_once || (begun == 0 && ending));
}

/* *on: the slot has gone on. */
static int survey_look(survey_slot *t, bool *on, error *e) {
  const survey_group *v = t->v;
  const enum slot_state was = t->state;
  switch (was) {
  case SURVEY_FREE:
    if (survey_wants(v)) TRY(survey_begin_slot(t, e));
    break;
  case SURVEY_BEGINNING:
    if (t->worked && (v->stepping < v->at_once || survey_failure(t)->id)) survey_step(t, e);
    break;
  case SURVEY_STEPPING:
    if (t->worked) survey_stepped(t);
    break;
  case SURVEY_WRITING:
    if (!t->worked) break;
    if (v->threaded) pthread_join(t->thread, NULL);
    TRY(survey_report(t, e));
    break;
  }
  *on = *on || t->state != was;
  return e->id;
}

int survey_shots(survey_group *v, error *e) {
  for (bool busy = true; busy;) {
    bool on = false;
    busy = false;
    for (int i = 0; i < v->slot_count; i++) TRY(survey_look(&v->slots[i], &on, e));
    for (int i = 0; i < v->slot_count; i++) busy = busy || v->slots[i].state != SURVEY_FREE;
    if (busy && !on) survey_await(&v->news);
    busy = busy || !v->over;
  }
  return 0;
}
