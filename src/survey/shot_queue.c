#include "shot_queue.h"
#include <math.h>
#include <pthread.h>
#include <search.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/clock.h"
#include "base/error_mpi.h"
#include "base/thread.h"
#include "io/bytes/atomic_file.h"
#include "base/stop.h"

enum { TAG_ASK = 7301, TAG_ORDER, TAG_STOP, TAG_LEFT };
enum { LEAVES = -1 /* shot_report.number from a group that takes no more shots */ };
enum shot_state { QUEUE_LEFT, QUEUE_RUNNING, QUEUE_DONE, QUEUE_FAILED };
static const char *const STATES[] = {"left", "running", "done", "failed"};

typedef struct queue_entry {
  enum shot_state state;
  int exit;       /* -1: none */
  double seconds; /* < 0: unknown */
  char *why;      /* why the shot failed or stopped; owned, as is the next one */
  char *warnings;
  enum shot_found there;
  char fingerprint[DIGEST_TEXT];
} queue_entry;

struct shot_queue {
  shot_queue_setup s;
  MPI_Comm comm; /* the queue's own */
  int rank, groups;
  bool threaded, fresh, started;
  pthread_t thread;
  pthread_mutex_t lock; /* guards all members below but `stop`; used where there is a thread */
  pthread_cond_t left;  /* signalled when rank 0's group takes no more shots */
  _Atomic int stop;     /* as shot_report.stopped */
  queue_entry *entries; /* one for each line; owned */
  int next;             /* index of the first shot that may be left */
  int gone;             /* groups that take no more shots */
  bool *notified;       /* groups that know of `stop`; owned */
  shot_totals totals;
  warnings_tally warned;
  int shown;                  /* shots of the latest progress line */
  double begin, limit, spent; /* s: MPI_Wtime(); since stop_begin; of the shots that this run has done */
  double written;             /* clock_seconds() of the latest table */
  bool changed;               /* since the latest table was written */
  const queue_entry *worst;   /* the failed shot with the greatest exit code; NULL: none */
  error worst_error;
  error broken; /* what ended the thread early */
};

static void queue_lock(shot_queue *q) {
  if (q->threaded) pthread_mutex_lock(&q->lock);
}

static void queue_unlock(shot_queue *q) {
  if (q->threaded) pthread_mutex_unlock(&q->lock);
}

static int queue_lack(error *e) {
  return FAIL(e, OUT_OF_MEMORY, sizeof(queue_entry), "the shots");
}

/* --- shots already done ------------------------------------------------------------------------------------------- */

/* The digest of a dataset, found once: the shots of a survey share most datasets. */
typedef struct queue_digest {
  char *name;
  char digest[DIGEST_TEXT]; /* "": it cannot be read */
} queue_digest;

typedef struct queue_digests {
  const files *files;
  void *root; /* a tree of queue_digest (tsearch) */
  FILE *to;   /* gets the text of a fingerprint */
  bool unreadable;
  int other; /* shots whose files have another fingerprint */
} queue_digests;

static int queue_compare(const void *a, const void *b) {
  return strcmp(((const queue_digest *)a)->name, ((const queue_digest *)b)->name);
}

static void queue_free_digest(void *d) {
  free(((queue_digest *)d)->name);
  free(d);
}

/* For config_each_dataset. */
static void queue_add_digest(void *context, const char *dataset) {
  queue_digests *all = context;
  error unread = {0};
  queue_digest *d = calloc(1, sizeof *d), **found = NULL;
  if (d && (d->name = strdup(dataset))) found = tsearch(d, &all->root, queue_compare);
  if (found && *found == d) {
    const request r = {FILES_DIGEST, .path = dataset, .answer_bytes = sizeof d->digest,
                       .own.answer = d->digest};
    if (files_do(all->files, &r, &unread)) d->digest[0] = '\0';
  } else if (d) {
    queue_free_digest(d);
  }
  all->unreadable = all->unreadable || !found || !(*found)->digest[0];
  if (found) fprintf(all->to, "%s %s\n", dataset, (*found)->digest);
}

/* The fingerprint of a shot: a digest of its configuration and of the digests of its datasets. Every file of the shot
 * carries it as an attribute. A shot is done where all its files exist with its fingerprint (shot_find). The
 * fingerprint is empty where a dataset cannot be read; the shot will report why. */
static int queue_fingerprint(queue_digests *all, const config *c, char fingerprint[DIGEST_TEXT], error *e) {
  char *text = NULL;
  size_t length = 0;
  char *config_text = config_print_bits(c);
  all->to = open_memstream(&text, &length);
  all->unreadable = false;
  if (config_text && all->to) {
    fputs(config_text, all->to);
    config_each_dataset(c, queue_add_digest, all);
  }
  const bool whole = config_text && all->to && fclose(all->to) == 0;
  if (!whole)
    queue_lack(e);
  else if (!all->unreadable)
    files_do(all->files,
             &(request){FILES_DIGEST, .text = text, .answer_bytes = DIGEST_TEXT, .own.answer = fingerprint},
             e);
  free(text);
  free(config_text);
  return e->id;
}

static void queue_print_text(FILE *to, const char *text) {
  if (!strpbrk(text, ",\"\n\r")) {
    fputs(text, to);
    return;
  }
  fputc('"', to);
  for (; *text; text++) fprintf(to, *text == '"' ? "\"\"" : "%c", *text);
  fputc('"', to);
}

/* Returns the text of a field of the table, which the caller frees; NULL: the field is empty. */
static char *queue_read_text(const char *from) {
  const bool quoted = *from == '"';
  char *text = NULL;
  size_t length = 0;
  FILE *to = open_memstream(&text, &length);
  if (!to) return NULL;
  for (from += quoted; *from && (quoted ? *from != '"' || *++from == '"' : *from != '\n'); from++)
    fputc(*from, to);
  if (fclose(to) == 0 && length) return text;
  free(text);
  return NULL;
}

/* Reads the seconds and warnings of a done shot from an earlier run's table; seconds < 0: the table lacks them. */
static void queue_read_past(const char *table, const char *name, queue_entry *n) {
  char key[600] = "";
  FILE *to = table ? fmemopen(key, sizeof key, "w") : NULL;
  n->seconds = -1;
  if (!to) return;
  fputc(',', to);
  queue_print_text(to, name);
  fputc(',', to);
  fclose(to);
  const char *at = strstr(table, key);
  for (int field = 0; at && field < 3; field++) at = strchr(field ? at + 1 : at + strlen(key), ',');
  if (!at || sscanf(at, ",%lf", &n->seconds) != 1) return;
  for (int field = 0; at && field < 2; field++) at = strchr(at + 1, ','); /* no error, then the warnings */
  if (at) n->warnings = queue_read_text(at + 1);
}

static int queue_look_at(shot_queue *q, queue_digests *all, int i, const char *table, error *e) {
  queue_entry *n = &q->entries[i];
  config c;
  n->exit = -1, n->seconds = -1;
  TRY(config_make(&c, q->s.given, &q->s.lines->list[i], e));
  if (!queue_fingerprint(all, &c, n->fingerprint, e)) {
    const request r = {FILES_FIND_SHOT,
                       .config = &c,
                       .which = q->s.saved,
                       .text = n->fingerprint,
                       .answer_bytes = sizeof n->there,
                       .own.answer = &n->there};
    files_do(q->s.first, &r, e);
  }
  config_free(&c);
  all->other += n->there == SHOT_OTHER;
  if (n->there != SHOT_DONE || e->id) return e->id;
  *n = (queue_entry){QUEUE_DONE, .there = SHOT_DONE};
  queue_read_past(table, q->s.lines->list[i].name, n);
  q->totals.done++, q->totals.before++;
  return 0;
}

/* The table of an earlier run; NULL where there is none. */
static char *queue_read_table(const shot_queue *q) {
  char name[CONFIG_TEXT + 16], *text;
  error ignored = {0};
  snprintf(name, sizeof name, "%s/survey.csv", q->s.path);
  text_read(name, &text, &ignored);
  return text;
}

static int queue_look(shot_queue *q, error *e) {
  queue_digests all = {.files = q->s.first};
  char *table = queue_read_table(q);
  for (int i = 0; i < q->totals.shots && !e->id; i++) queue_look_at(q, &all, i, table, e);
  if (q->totals.before || all.other)
    log_line(q->s.log, "survey: %d of %d shots are done%s", q->totals.before, q->totals.shots,
             !all.other ? ""
             : q->s.config->output_replace
                 ? "; a shot replaces files of others with its name"
                 : "; files of others with their names are moved aside when a shot begins");
  tdestroy(all.root, queue_free_digest);
  free(table);
  return e->id;
}

/* --- the table ---------------------------------------------------------------------------------------------------- */

static void queue_print_table(const shot_queue *q, FILE *to) {
  fputs("number,name,line,state,exit,seconds,error,warnings\n", to);
  for (int i = 0; i < q->totals.shots; i++) {
    const queue_entry *n = &q->entries[i];
    const shot_line *l = &q->s.lines->list[i];
    fprintf(to, "%d,", l->number);
    queue_print_text(to, l->name);
    fprintf(to, ",%d,%s,", l->line, STATES[n->state]);
    if (n->state == QUEUE_DONE)
      fputc('0', to);
    else if (n->exit >= 0)
      fprintf(to, "%d", n->exit);
    fputc(',', to);
    if (n->seconds >= 0) fprintf(to, "%.6g", n->seconds);
    fputc(',', to);
    if (n->why) queue_print_text(to, n->why);
    fputc(',', to);
    if (n->warnings) queue_print_text(to, n->warnings);
    fputc('\n', to);
  }
}

/* Writes the table if it has changed, at most once a second unless `last`. One thread at a time may call it. */
static int queue_write_table(shot_queue *q, bool last, error *e) {
  const double PERIOD = 1; /* s */
  char name[CONFIG_TEXT + 16], *text = NULL;
  size_t length = 0;
  queue_lock(q);
  const bool due = q->changed && (last || clock_seconds() - q->written >= PERIOD);
  FILE *to = due ? open_memstream(&text, &length) : NULL;
  if (to) queue_print_table(q, to);
  if (to) q->changed = false;
  queue_unlock(q);
  if (!due) return 0;
  if (!to || fclose(to) != 0) return queue_lack(e);
  snprintf(name, sizeof name, "%s/survey.csv", q->s.path);
  files_do(q->s.first, &(request){FILES_WRITE_TEXT, .path = name, .text = text}, e);
  q->written = clock_seconds();
  free(text);
  return e->id;
}

/* --- taking and reporting ----------------------------------------------------------------------------------------- */

static double queue_mean_seconds(const shot_queue *q) {
  const int mine = q->totals.done - q->totals.before;
  return mine ? q->spent / mine : 0;
}

const char *shot_queue_says(enum on_stop_kind kind) {
  static const char *const says[] = {
      [ON_STOP_DROP] = "no shot begins any more; those under way end, and are done again by the same command",
      [ON_STOP_FINISH] = "no shot begins any more; those under way are finished",
      [ON_STOP_CHECKPOINT] = "no shot begins any more; those under way write checkpoints"};
  return says[kind];
}

/* Stops the survey for `reason`, as in shot_report.stopped. Logs a signal unless this rank got it itself and has
 * answered. */
static void queue_stop(shot_queue *q, int reason) {
  if (!reason || q->stop) return;
  q->stop = reason;
  const char *what = reason > 0 ? stop_signal_name(reason) : stop_wall_time(q->s.config->max_seconds);
  if (reason < 0 || !stop_answered())
    log_line(q->s.log, "%s%s: %s", what, reason > 0 ? " received" : "",
             shot_queue_says(q->s.config->survey_on_stop));
}

/* Stops the survey if a signal or the wall time requires it; then no shot begins any more. */
static void queue_watch(shot_queue *q) {
  const bool finishes = q->s.config->survey_on_stop == ON_STOP_FINISH;
  if (q->stop) return;
  int number = stop_signal();
  if (!number) number = files_signal((void *)(uintptr_t)q->s.whole);
  if (number)
    queue_stop(q, number);
  else if (stop_clock() + (finishes ? queue_mean_seconds(q) : 0) >= q->limit)
    queue_stop(q, -1);
}

static void queue_record(shot_queue *q, const shot_report *r) {
  queue_stop(q, r->stopped);
  if (r->number <= 0) return;
  queue_entry *n = &q->entries[r->number - 1];
  const shot_line *l = &q->s.lines->list[r->number - 1];
  const bool stopped = r->failed.id == ERROR_STOPPED;
  free(n->why);
  free(n->warnings);
  n->state = stopped ? QUEUE_LEFT : r->failed.id ? QUEUE_FAILED : QUEUE_DONE;
  n->exit = error_exit_code(r->failed.id);
  n->seconds = r->seconds;
  error lack = {0}; /* ignored: a lack of memory loses only warnings */
  n->why = r->failed.id ? strdup(r->failed.text) : NULL;
  n->warnings = warnings_join(&r->warns);
  if (!stopped) warnings_add(&q->warned, &r->warns, r->number, &lack);
  q->changed = true;
  if (n->state == QUEUE_DONE) q->totals.done++, q->spent += r->seconds;
  if (n->state != QUEUE_FAILED) return;
  q->totals.failed++;
  log_line(q->s.log, "shot %s (%s:%d) failed: %s", l->name, q->s.lines->file, l->line, r->failed.text);
  if (q->worst && n->exit <= q->worst->exit) return;
  q->worst = n, q->worst_error = r->failed;
  if (q->s.first_ends) q->stop = -1;
}

void shot_queue_read(message *m, shot_order *order) {
  message_value(m, order, sizeof *order);
  if (order->number) files_carry_config(m, &order->config);
}

/* Writes the next order into the message. */
static int queue_order(shot_queue *q, bool asks, message *m, error *e) {
  shot_order o = {.number = 0, .fresh = q->fresh};
  config c = {.nx = 0};
  queue_watch(q);
  while (q->next < q->totals.shots && q->entries[q->next].state != QUEUE_LEFT) q->next++;
  if (asks && !q->stop && q->next < q->totals.shots) {
    const int i = q->next++;
    queue_entry *n = &q->entries[i];
    TRY(config_make(&c, q->s.given, &q->s.lines->list[i], e));
    config_single(&c);
    o.number = i + 1, o.there = n->there, o.config = &c;
    memcpy(o.fingerprint, n->fingerprint, sizeof o.fingerprint);
    n->state = QUEUE_RUNNING;
    q->changed = true;
  }
  shot_queue_read(m, &o); /* writes the order, since the message is not in reading mode */
  config_free(&c);
  return m->failed ? queue_lack(e) : 0;
}

static int queue_serve(shot_queue *q, const shot_report *r, message *m, error *e) {
  queue_lock(q);
  queue_record(q, r);
  if (r->number == LEAVES)
    q->gone++;
  else
    queue_order(q, r->asks, m, e);
  queue_unlock(q);
  return e->id;
}

/* --- messages ----------------------------------------------------------------------------------------------------- */

static int queue_send(const void *bytes, size_t count, int to, int tag, MPI_Comm comm, error *e) {
  MPI_Request request;
  MPI_TRY(e, MPI_Isend(bytes, (int)count, MPI_BYTE, to, tag, comm, &request));
  return error_from_mpi(e, mpi_wait(&request, MPI_STATUS_IGNORE), "MPI_Isend");
}

/* Waits for a message and receives it. */
static int queue_receive(message *m, int tag, MPI_Comm comm, error *e) {
  const double LONGEST = 500e-6; /* s */
  pace p = {.begin = clock_seconds()};
  MPI_Message found;
  MPI_Status status;
  int there = 0, bytes;
  for (;;) {
    MPI_TRY(e, MPI_Improbe(0, tag, comm, &there, &found, &status));
    if (there) break;
    pace_wait(&p, LONGEST);
  }
  MPI_TRY(e, MPI_Get_count(&status, MPI_BYTE, &bytes));
  if (!(m->bytes = malloc((size_t)bytes + 1))) return queue_lack(e);
  m->length = m->capacity = (size_t)bytes;
  MPI_TRY(e, MPI_Mrecv(m->bytes, bytes, MPI_BYTE, &found, MPI_STATUS_IGNORE));
  return 0;
}

int shot_queue_take(shot_queue *q, const shot_report *done, message *m, error *e) {
  if (q->rank > 0) {
    TRY(queue_send(done, sizeof *done, 0, TAG_ASK, q->comm, e));
    return queue_receive(m, TAG_ORDER, q->comm, e);
  }
  TRY(queue_serve(q, done, m, e));
  return q->threaded ? 0 : queue_write_table(q, false, e);
}

/* Several threads may call it; one of them gets the message. */
int shot_queue_stopped(void *context) {
  shot_queue *q = context;
  MPI_Message found;
  int there = 0, number;
  if (q->rank > 0 && !q->stop && !MPI_Improbe(0, TAG_STOP, q->comm, &there, &found, MPI_STATUS_IGNORE) &&
      there && !MPI_Mrecv(&number, 1, MPI_INT, &found, MPI_STATUS_IGNORE))
    q->stop = number;
  if (q->rank == 0 && !q->threaded) queue_watch(q);
  return q->stop > 0 ? q->stop : 0;
}

/* --- the thread --------------------------------------------------------------------------------------------------- */

/* Answers one group's request, if there is one. */
static int queue_answer(shot_queue *q, bool *answered, error *e) {
  MPI_Status status;
  int there = 0;
  *answered = false;
  MPI_TRY(e, MPI_Iprobe(MPI_ANY_SOURCE, TAG_ASK, q->comm, &there, &status));
  if (!there) return 0;
  shot_report r;
  message m = {0};
  MPI_TRY(e, MPI_Recv(&r, sizeof r, MPI_BYTE, status.MPI_SOURCE, TAG_ASK, q->comm, MPI_STATUS_IGNORE));
  if (!queue_serve(q, &r, &m, e)) {
    const bool notified = q->notified[status.MPI_SOURCE / q->s.ranks];
    if (r.number == LEAVES)
      queue_send(&notified, sizeof notified, status.MPI_SOURCE, TAG_LEFT, q->comm, e);
    else
      queue_send(m.bytes, m.length, status.MPI_SOURCE, TAG_ORDER, q->comm, e);
    /* the group receives no more messages */
    if (r.number == LEAVES) q->notified[status.MPI_SOURCE / q->s.ranks] = true;
  }
  message_free(&m);
  *answered = true;
  return e->id;
}

/* Sends the signal once to each of the other groups. */
static int queue_tell(shot_queue *q, error *e) {
  const int number = q->stop;
  for (int g = 1; number > 0 && g < q->groups; g++)
    if (!q->notified[g]) {
      q->notified[g] = true;
      TRY(queue_send(&number, sizeof number, g * q->s.ranks, TAG_STOP, q->comm, e));
    }
  return 0;
}

static void queue_progress(shot_queue *q) {
  queue_lock(q);
  const loop_progress p = {.first = q->totals.before,
                           .step = q->totals.done + q->totals.failed,
                           .steps = q->totals.shots,
                           .seconds = MPI_Wtime() - q->begin};
  const bool done = p.step == p.steps && q->shown == p.step; /* the last line is shown only once */
  if (p.step > p.first && !done && log_progress_due(q->s.log, &p)) {
    log_progress(q->s.log, &p, 0);
    q->shown = (int)p.step;
  }
  queue_unlock(q);
}

static void *queue_main(void *argument) {
  const double LONGEST = 500e-6, ALONE = 20e-3; /* s */
  shot_queue *q = argument;
  error e = {0};
  pace p = {.begin = clock_seconds()};
  for (bool answered, over = false; !over && !e.id;) {
    queue_answer(q, &answered, &e);
    if (!e.id) queue_tell(q, &e);
    if (!e.id) queue_write_table(q, false, &e);
    queue_lock(q);
    queue_watch(q);
    if (q->groups == 1 && q->gone == 0) condition_wait(&q->left, &q->lock, clock_seconds() + ALONE);
    over = q->gone == q->groups;
    queue_unlock(q);
    queue_progress(q);
    if (answered) p = (pace){.begin = clock_seconds()};
    if (!answered && !over && q->groups > 1) pace_wait(&p, LONGEST);
  }
  if (e.id) error_abort(&e, q->comm); /* other groups wait for answers, so the job ends */
  q->broken = e;
  if (e.id) q->stop = -1;
  return NULL;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

/* Makes the folder around PATH, then PATH. Returns true if PATH was missing. */
static bool queue_make_folder(const shot_queue *q, error *e) {
  bool missing = false;
  char inside[CONFIG_TEXT + 16];
  snprintf(inside, sizeof inside, "%s/survey.csv", q->s.path);
  const char *const paths[] = {q->s.path, inside};
  for (int i = 0; i < 2; i++) {
    const request r = {FILES_MAKE_FOLDER, .path = paths[i], .answer_bytes = sizeof missing,
                       .own.answer = &missing};
    files_do(q->s.first, &r, e);
  }
  if (missing) log_line(q->s.log, "made the folder %s", q->s.path);
  return missing;
}

static int queue_open_first(shot_queue *q, error *e) {
  q->totals.shots = q->s.lines->count;
  q->entries = calloc((size_t)q->totals.shots, sizeof *q->entries);
  q->notified = calloc((size_t)q->groups, sizeof *q->notified);
  if (!q->entries || !q->notified) return queue_lack(e);
  q->fresh = queue_make_folder(q, e);
  TRY(e->id);
  TRY(queue_look(q, e));
  q->limit = stop_ends(q->s.config->max_seconds);
  q->changed = true;
  return queue_write_table(q, true, e);
}

int shot_queue_open(shot_queue **opened, const shot_queue_setup *setup, int *left, error *e) {
  shot_queue *q = *opened = calloc(1, sizeof *q);
  int ranks;
  if (q) q->comm = MPI_COMM_NULL;
  if (!q) queue_lack(e);
  TRY(error_agree(e, setup->comm));
  q->s = *setup;
  MPI_TRY(e, MPI_Comm_dup(setup->comm, &q->comm));
  MPI_TRY(e, MPI_Comm_rank(q->comm, &q->rank));
  MPI_TRY(e, MPI_Comm_size(q->comm, &ranks));
  q->groups = ranks / q->s.ranks;
  if (!mpi_threads() && q->groups > 1) FAIL(e, SURVEY_THREADS, q->groups);
  if (q->rank == 0 && !e->id) queue_open_first(q, e);
  *left = q->totals.shots - q->totals.done;
  TRY(error_agree(e, q->comm));
  return message_broadcast(left, sizeof *left, q->comm, e);
}

int shot_queue_warned(shot_queue *q, const warnings *of, error *e) {
  return warnings_add(&q->warned, of, 0, e);
}

int shot_queue_start(shot_queue *q, error *e) {
  int rc = 0;
  q->threaded = mpi_threads() && q->rank == 0;
  q->begin = MPI_Wtime();
  if (q->threaded) {
    pthread_mutex_init(&q->lock, NULL);
    condition_init(&q->left);
    rc = thread_start(&q->thread, queue_main, q);
  }
  q->started = !rc;
  if (rc) q->threaded = false; /* set only here on failure: a running thread reads it */
  if (rc) FAIL(e, DEVICE_FAILED, "host", "starting the thread of the shots", strerror(rc));
  return error_agree(e, q->comm);
}

/* Tells the queue that the group takes no more shots; then the group gets no more messages. */
static int queue_leave(shot_queue *q, error *e) {
  const shot_report leave = {.number = LEAVES};
  message m = {0};
  if (q->rank == 0) {
    queue_serve(q, &leave, &m, e);
    if (q->threaded) pthread_cond_signal(&q->left);
    return e->id;
  }
  TRY(queue_send(&leave, sizeof leave, 0, TAG_ASK, q->comm, e));
  TRY(queue_receive(&m, TAG_LEFT, q->comm, e));
  const bool notified = *m.bytes;
  message_free(&m);
  return notified && !q->stop ? queue_receive(&m, TAG_STOP, q->comm, e) : 0;
}

static int queue_conclude(shot_queue *q, error *e) {
  const shot_totals *t = &q->totals;
  warnings_tell(&q->warned, q->s.lines, q->s.log);
  if (q->started) q->totals.seconds = MPI_Wtime() - q->begin;
  TRY(queue_write_table(q, true, e));
  if (q->worst && q->s.first_ends)
    return error_set(e, ERROR_HERE, q->worst_error.id, "%s:%d: %s", q->s.lines->file,
                     q->s.lines->list[q->worst - q->entries].line, q->worst_error.text);
  if (t->done + t->failed < t->shots)
    return FAIL(e, SURVEY_STOPPED,
                q->stop > 0 ? strsignal(q->stop) : stop_wall_time(q->s.config->max_seconds), t->done,
                t->shots);
  if (!t->failed) return 0;
  const shot_line *l = &q->s.lines->list[q->worst - q->entries];
  return error_set(e, ERROR_HERE, q->worst_error.id,
                   "%d of %d shots failed, see %s/survey.csv; shot %s (%s:%d): %s", t->failed, t->shots,
                   q->s.path, l->name, q->s.lines->file, l->line, q->worst_error.text);
}

int shot_queue_finish(shot_queue *q, shot_totals *totals, error *e) {
  if (q->started && q->rank % q->s.ranks == 0) queue_leave(q, e);
  if (q->rank == 0 && q->threaded) pthread_join(q->thread, NULL);
  if (q->rank == 0) q->threaded = false;
  if (q->rank == 0 && !e->id) *e = q->broken;
  if (q->rank == 0 && !e->id) queue_conclude(q, e);
  *totals = q->totals;
  q->started = false;
  return error_agree(e, q->comm);
}

void shot_queue_close(shot_queue *q) {
  if (!q) return;
  if (q->started && q->groups * q->s.ranks == 1)
    shot_queue_finish(q, &(shot_totals){0}, &(error){0}); /* only a single rank, after a failure, gets here */
  for (int i = 0; q->entries && i < q->totals.shots; i++)
    free(q->entries[i].why), free(q->entries[i].warnings);
  if (q->comm != MPI_COMM_NULL) MPI_Comm_free(&q->comm);
  warnings_free(&q->warned);
  free(q->entries);
  free(q->notified);
  free(q);
}
