/* The shots of a group: each is taken, begun, stepped, written and reported. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "base/thread.h"
#include "survey.h"

/* Ends the job after a failure of the device or of MPI, since later shots would fail too. */
static int survey_check_device(const survey *v, const error *e) {
  const bool memory =
      e->id == ERROR_OUT_OF_MEMORY || e->id == ERROR_DEVICE_MEMORY || e->id == ERROR_NODE_MEMORY;
  return error_exit_code(e->id) == EXIT_CODE_DEVICE && !memory ? error_abort(e, v->job.files->comm) : 0;
}

/* --- beginning ---------------------------------------------------------------------------------------------------- */

/* Moves files aside that another shot has left under this shot's path. */
static int survey_move_aside(const survey *v, survey_shot *t, error *e) {
  const space_steps none = {.none = true, .begins = true};
  space_aside aside;
  const request r = {FILES_MOVE_ASIDE, .config = t->order.config, .which = none, .answer_bytes = sizeof aside,
                     .own.answer = &aside};
  return t->order.there == SHOT_OTHER ? files_do(v->files, &r, e) : 0;
}

int survey_plan_shot(const survey *v, survey_shot *t, run_log *log, error *e) {
  const checkpoint *from = t->restart.from.name[0] ? &t->restart.from : NULL;
  const shot_setup of = {.config = t->order.config,
                         .command = v->job.command,
                         .log = log,
                         .from = from,
                         .fingerprint = v->several ? t->order.fingerprint : NULL,
                         .fresh = t->order.fresh};
  t->planned = !shot_plan(&t->shot, &v->engine, &of, e);
  return e->id;
}

/* Plans a shot. Its checkpoint is looked for only the first time. */
static int survey_take_up(survey_slot *slot, survey_shot *t, error *e) {
  const survey *v = slot->v;
  if (t->planned) return 0;
  if (!t->restart.files) {
    TRY(survey_move_aside(v, t, e));
    t->restart.name = v->job.config->survey_on_stop == ON_STOP_CHECKPOINT ? "auto" : NULL;
    t->restart.path = t->order.config->checkpoint_path, t->restart.anew = true;
    t->restart.log = &t->silent, t->restart.files = v->files;
    TRY(restart_open(&t->restart, e));
  }
  TRY(survey_plan_shot(v, t, t->restart.log, e));
  if (!v->several) return 0; /* announce has logged the remarks */
  shot_warn_of_time(&t->shot);
  shot_remarks(&t->shot);
  return 0;
}

static void survey_take_up_one(void *context, int i) {
  survey_slot *t = context;
  survey_take_up(t, &t->shots[i], &t->shots[i].report.failed);
}

int survey_join(survey_slot *t, survey_shot *const *shots, int n, error *e) {
  survey *v = t->v;
  const bool begins_anew = config_has_gradient(v->job.config);
  shot **all;
  const batch_setup of = {.log = v->several ? &t->silent : v->log,
                          .on_stop = v->several    ? v->job.config->survey_on_stop
                                     : begins_anew ? ON_STOP_DROP
                                                   : ON_STOP_CHECKPOINT,
                          .heard = !v->several           ? files_signal
                                   : v->engine.rank == 0 ? shot_queue_stopped
                                                         : NULL,
                          .context = v->several ? v->queue : (void *)(uintptr_t)v->files};
  ALLOC(e, all, n, "the shots");
  for (int i = 0; all && i < n; i++) all[i] = &shots[i]->shot;
  if (!error_agree(e, v->engine.comm)) batch_plan(&t->batch, &v->engine, all, n, &of, e);
  free(all);
  return e->id;
}

/* Called by batch_each. */
static int survey_check_gradient(void *context, int i, error *e) {
  survey_slot *t = context;
  return gradient_check(&t->gradient, i, e);
}

/* Begins a batch of all shots that can be planned. A shot that cannot begin fails alone. */
static int survey_begin_batch(survey_slot *t, error *e) {
  survey *v = t->v;
  int n = 0;
  thread_each(v->threaded ? v->files->access->compressors : 1, t->count, survey_take_up_one, t);
  for (int i = 0; i < t->count; i++)
    if (!t->shots[i].report.failed.id) t->begun[n++] = &t->shots[i];
  if (n == 0) *e = t->shots[0].report.failed;
  TRY(e->id);
  TRY(survey_join(t, t->begun, n, e));
  if (!v->threaded) TRY(batch_each(&t->batch, survey_check_gradient, t, e));
  TRY(batch_open(&t->batch, e));
  TRY(gradient_open(&t->gradient, e));
  return batch_begin(&t->batch, e);
}

/* Begins the shots; returns false where none could. */
static bool survey_begin_shots(survey_slot *t) {
  survey_shot *first = &t->shots[0];
  survey_begin_batch(t, &t->failed);
  while (t->failed.id && restart_pass_over(&first->restart, &t->failed)) {
    first->planned = false, first->report.failed = (error){0};
    survey_begin_batch(t, &t->failed);
  }
  if (!t->failed.id) announce_left(&t->begun[0]->shot);
  return !t->failed.id;
}

/* Begins the shots. A data server holds one open checkpoint for a rank, so no other shot may begin until that one has
 * been read. */
static bool survey_begin(survey_slot *t) {
  survey *v = t->v;
  const bool alone = v->files->served && v->job.config->survey_on_stop == ON_STOP_CHECKPOINT;
  if (alone) pthread_mutex_lock(&v->restarting);
  const bool steps = survey_begin_shots(t);
  if (alone) pthread_mutex_unlock(&v->restarting);
  return steps;
}

/* Prepares, while the steps go on, what shots need after them: the observed traces and the files. */
static void survey_make_ready(survey_slot *t) {
  batch *b = &t->batch;
  for (int i = 0; i < b->count; i++) {
    error *e = &t->begun[i]->ready;
    if (gradient_check(&t->gradient, i, e)) continue;
    if (!batch_make_files(b, i, e)) gradient_make_file(&t->gradient, i, e);
  }
}

/* --- taking and reporting ----------------------------------------------------------------------------------------- */

/* Takes the only shot, which is planned. */
static void survey_take_one(survey_slot *slot) {
  survey *v = slot->v;
  survey_shot *t = &slot->shots[slot->count++];
  *t = v->one;
  v->one = (survey_shot){.restart.from.fd = -1};
  if (t->shot.of.from) t->shot.of.from = &t->restart.from;
  v->over = true;
}

/* Takes the next shot of the queue, if there is one. */
static int survey_take(survey_slot *slot, error *e) {
  survey *v = slot->v;
  survey_shot *t = &slot->shots[slot->count];
  if (!v->several) {
    survey_take_one(slot);
    return 0;
  }
  t->begin = MPI_Wtime();
  t->report = (shot_report){.asks = true};
  t->ready = (error){0}, t->planned = false;
  message_free(&t->message);
  if (v->engine.rank == 0) TRY(shot_queue_take(v->queue, &t->report, &t->message, e));
  TRY(message_to_all(&t->message, v->engine.comm, e));
  shot_queue_read(&t->message, &t->order);
  t->report = (shot_report){.number = t->order.number};
  warnings_hear(&t->silent, &t->report.warns);
  v->over = t->order.number == 0;
  slot->count += !v->over;
  return 0;
}

/* Reports how a shot ended. A signal may have come to any rank of the group. */
static int survey_report_shot(survey_slot *slot, survey_shot *t, error *e) {
  survey *v = slot->v;
  shot_report *r = &t->report;
  message m = {0};
  int number = stop_signal();
  MPI_TRY(e, mpi_reduce_all(&number, 1, MPI_INT, MPI_MAX, v->engine.comm));
  if (r->failed.id == ERROR_STOPPED) r->stopped = slot->batch.stop.signal ? slot->batch.stop.signal : -1;
  if (number) r->stopped = number;
  r->seconds = MPI_Wtime() - t->begin;
  const bool broken = survey_check_device(v, &r->failed);
  if (v->engine.rank == 0) shot_queue_take(v->queue, r, &m, e);
  if (broken && !e->id) *e = r->failed;
  message_free(&m);
  return error_agree(e, v->engine.comm);
}

/* Reports the only shot: the times of its steps, and its files. */
static void survey_report_one(survey_slot *slot, const survey_shot *t) {
  survey *v = slot->v;
  const char *report = v->job.config->report_file;
  v->result = t->report.failed;
  const bool reports = !v->result.id && !announce_report(&slot->batch, &v->result) && report[0];
  announce_files(&t->shot, reports ? report : NULL);
}

static int survey_report(survey_slot *t, error *e) {
  survey *v = t->v;
  int done = 0;
  for (int i = 0; i < t->count; i++) {
    survey_shot *one = &t->shots[i];
    error *failed = &one->report.failed;
    if (!failed->id && one->shot.failed.id) *failed = one->shot.failed;
    if (!failed->id) *failed = t->failed;
    done += !failed->id;
  }
  if (done) announce_add(&v->done, &t->batch, done);
  for (int i = 0; i < t->count; i++) {
    if (v->several)
      survey_report_shot(t, &t->shots[i], e);
    else
      survey_report_one(t, &t->shots[i]);
    restart_close(&t->shots[i].restart);
    t->shots[i].restart = (restart){.from.fd = -1};
    t->shots[i].report = (shot_report){.number = 0};
  }
  t->count = 0;
  t->state = SURVEY_FREE;
  return e->id;
}

/* --- ending ------------------------------------------------------------------------------------------------------- */

/* Called by batch_each, as are the next ones. */
static int survey_finish_traces(void *context, int i, error *e) {
  survey_slot *t = context;
  return batch_finish_traces(&t->batch, i, e);
}

static int survey_find_residual(void *context, int i, error *e) {
  survey_slot *t = context;
  return gradient_residual(&t->gradient, i, e);
}

static int survey_write_gradient(void *context, int i, error *e) {
  survey_slot *t = context;
  TRY(gradient_chain(&t->gradient, i, e));
  return gradient_write(&t->gradient, i, NULL, e);
}

/* Counts a batch that begins (1) or ends (-1) stepping or going back. */
static void survey_count(survey *v, int more) {
  pthread_mutex_lock(&v->counting);
  if (v->busy == 0) v->since = clock_seconds();
  v->busy += more;
  if (v->busy == 0) v->done.stepping += clock_seconds() - v->since;
  pthread_mutex_unlock(&v->counting);
}

static int survey_go_back(survey_slot *t, error *e) {
  batch *b = &t->batch;
  gradient_times *times = &b->loop.gradient;
  const double begin = MPI_Wtime();
  if (batch_each(b, survey_find_residual, t, e)) return e->id;
  survey_count(t->v, 1);
  gradient_back(&t->gradient, e);
  survey_count(t->v, -1);
  if (!e->id) batch_each(b, survey_write_gradient, t, e);
  times->adjoint = t->gradient.adjoint.times;
  times->sums = MPI_Wtime() - begin - times->adjoint.back - times->adjoint.again;
  return e->id;
}

/* Completes a batch after its last step: traces, gradient, files. */
static int survey_finish(survey_slot *t, error *e) {
  batch *b = &t->batch;
  TRY(batch_failed(b, e));
  TRY(batch_finish(b, e));
  survey_count(t->v, 1);
  propagator_extra_steps(&b->p, e);
  survey_count(t->v, -1);
  if (!e->id) save_queue_finish(b, e);
  TRY(e->id);
  TRY(batch_each(b, survey_finish_traces, t, e));
  return config_has_gradient(t->v->job.config) ? survey_go_back(t, e) : 0;
}

/* Completes and writes a batch after its last step, or after a failure. */
static void survey_write_shots(survey_slot *t) {
  batch *b = &t->batch;
  for (int i = 0; i < b->count; i++)
    if (!b->shots[i]->failed.id) b->shots[i]->failed = t->begun[i]->ready;
  if (!t->failed.id) survey_finish(t, &t->failed);
  for (int i = 0; i < b->count; i++) gradient_drop_file(&t->gradient, i);
  batch_end(b, &t->failed);
}

/* --- a slot ------------------------------------------------------------------------------------------------------- */

/* Wakes the group's first thread, because the work of the slot's state is done. */
static void survey_tell(survey_slot *t) {
  t->done = true;
  sem_post(&t->v->news);
}

static void survey_await(sem_t *what) {
  while (sem_wait(what) && errno == EINTR) continue;
}

/* Makes the slot's device the calling thread's. */
static void survey_adopt(survey_slot *t) {
  device *dev = t->batch.p.dev;
  const device_peer *peer = dev->table->peer;
  if (peer && peer->adopt) peer->adopt(dev, &t->failed);
}

static void *survey_work(void *argument) {
  survey_slot *t = argument;
  survey_adopt(t);
  const bool steps = survey_begin(t);
  survey_tell(t);
  if (steps) survey_make_ready(t);
  survey_await(&t->stepped);
  survey_write_shots(t);
  survey_tell(t);
  return NULL;
}

/* Takes as many shots as step together, and begins them in a batch. */
static int survey_begin_slot(survey_slot *t, error *e) {
  survey *v = t->v;
  /* the rest of an equal part, so that all groups end together, but at least SURVEY_FEW */
  const int part = larger(v->most - v->taken, SURVEY_FEW), most = smaller(part, v->together);
  while (!v->over && t->count < most) TRY(survey_take(t, e));
  v->taken += t->count;
  if (!t->count) return 0;
  t->failed = (error){0};
  t->batch.count = 0; /* until the new shots have begun */
  t->state = SURVEY_BEGINNING, t->done = false;
  if (v->threaded) {
    const int rc = thread_start(&t->thread, survey_work, t);
    return rc ? FAIL(e, DEVICE_FAILED, "host", "starting a thread of a shot", strerror(rc)) : 0;
  }
  survey_begin(t);
  t->done = true;
  return 0;
}

static void survey_write(survey_slot *t) {
  watchdog_close(&t->batch.p.stepper.watch);
  t->state = SURVEY_WRITING;
  if (t->v->threaded) {
    t->done = false;
    sem_post(&t->stepped);
  } else {
    survey_write_shots(t);
  }
}

/* Does the steps. The next shot begins during the last eighth of them, not earlier, since another group may be free
 * sooner. */
static void *survey_steps(void *argument) {
  const int EIGHTH = 8;
  survey_slot *t = argument;
  batch *b = &t->batch;
  survey_adopt(t);
  const int64_t last = b->under_way.last, eighth = (last - b->under_way.first) / EIGHTH;
  for (bool over = t->failed.id; !over;) {
    batch_pass(b, &over, &t->failed);
    if (t->ending || last - b->p.stepper.step > eighth) continue;
    t->ending = true;
    sem_post(&t->v->news);
  }
  survey_tell(t);
  return NULL;
}

static void survey_step(survey_slot *t, error *e) {
  survey *v = t->v;
  batch *b = &t->batch;
  v->warm = v->warm || !t->failed.id;
  if (!t->failed.id && !watchdog_open(&b->p.stepper.watch, v->engine.comm, v->job.config->watchdog_seconds,
                                      b->p.stepper.step, &t->failed))
    batch_steps_begin(b, true, &t->failed);
  if (t->failed.id) {
    survey_write(t);
    return;
  }
  t->state = SURVEY_STEPPING;
  t->done = t->ending = false;
  v->stepping++;
  survey_count(v, 1);
  const int rc = v->threaded ? thread_start(&t->step_thread, survey_steps, t) : 0;
  if (rc) FAIL(e, DEVICE_FAILED, "host", "starting a thread of a shot", strerror(rc));
  if (!v->threaded) survey_steps(t);
}

static void survey_stepped(survey_slot *t) {
  survey *v = t->v;
  if (v->threaded) pthread_join(t->step_thread, NULL);
  v->stepping--;
  survey_count(v, -1);
  survey_write(t);
}

/* Is it time to begin a shot? Where as many step as can, the next shot begins when one of them is near its end. The
 * first shot begins alone, because with it the engine chooses its kernels. */
static bool survey_wants(const survey *v) {
  int begun = 0;
  bool ending = false;
  for (int i = 0; i < v->slot_count; i++) {
    const survey_slot *t = &v->slots[i];
    begun += t->state == SURVEY_BEGINNING;
    ending = ending || (t->state == SURVEY_STEPPING && t->ending);
  }
  if (v->over || (begun && !v->warm)) return false;
  return begun + v->stepping < v->at_once || (begun == 0 && ending);
}

/* Moves a slot to its next state if that is due, and then sets *on. */
static int survey_look(survey_slot *t, bool *on, error *e) {
  const survey *v = t->v;
  const enum slot_state was = t->state;
  switch (was) {
  case SURVEY_FREE:
    if (survey_wants(v)) TRY(survey_begin_slot(t, e));
    break;
  case SURVEY_BEGINNING:
    if (t->done && (v->stepping < v->at_once || t->failed.id)) survey_step(t, e);
    break;
  case SURVEY_STEPPING:
    if (t->done) survey_stepped(t);
    break;
  case SURVEY_WRITING:
    if (!t->done) break;
    if (v->threaded) pthread_join(t->thread, NULL);
    TRY(survey_report(t, e));
    break;
  }
  *on = *on || t->state != was;
  return e->id;
}

int survey_shots(survey *v, error *e) {
  for (bool busy = true; busy;) {
    bool on = false;
    busy = false;
    for (int i = 0; i < v->slot_count; i++) {
      error mine = {0};
      if (!survey_look(&v->slots[i], &on, &mine)) continue;
      v->over = true; /* the shots under way end */
      if (!e->id) *e = mine;
    }
    for (int i = 0; i < v->slot_count; i++) busy = busy || v->slots[i].state != SURVEY_FREE;
    if (busy && !on) survey_await(&v->news);
    busy = busy || !v->over;
  }
  return e->id;
}
