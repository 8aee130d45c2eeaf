/* The functions of stencil.h: a run of the driver (survey/survey.h) whose files are a caller's arrays. */
#include <math.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "arrays.h"
#include "base/error_mpi.h"
#include "base/thread.h"
#include "device_array.h"
#include "survey/survey.h"
#include "version.h"

struct stencil_sim {
  char *keys; /* the text of the configuration; owned */
  struct library_run
      *kept; /* the last call's run, which the next call of the same kind continues; owned; NULL: none */
  pid_t process;
  void *stream;
  MPI_Comm comm;      /* the caller's */
  bool broken, known; /* the device has failed; `facts` are set */
  stencil_facts facts;
  char backend[32], kernel[64];
};

int stencil_abi(void) {
  return STENCIL_ABI;
}

const char *stencil_version(void) {
  return STENCIL_VERSION;
}

int stencil_devices(void) {
  char why[256];
  return device_cuda_count(why);
}

/* --- errors ------------------------------------------------------------------------------------------------------- */

/* Copies a dataset's name as "KEY" or "KEY of shot N", N from 0; *at moves behind the name. */
static size_t library_name_array(const char **at, char *to, size_t size) {
  char *key;
  const long shot = strtol(*at += strlen(ARRAYS_FILE), &key, 10);
  const bool of_shot = key > *at && *key == '/';
  if (of_shot) *at = key + 1;
  const size_t length = strspn(*at, "abcdefghijklmnopqrstuvwxyz_.");
  int used = snprintf(to, size, "%.*s", (int)length, *at);
  if (of_shot && used < (int)size) used += snprintf(to + used, size - (size_t)used, " of shot %ld", shot - 1);
  *at += length;
  return (size_t)smaller(used, (int)size - 1);
}

/* Rewrites a message for a caller, who knows no command line, no lines of shots and no datasets. */
static void library_rename(const char *text, char *to, size_t size) {
  static const char LINE[] = "command line: ", SHOT[] = "shot:";
  size_t used = 0;
  if (strncmp(text, LINE, strlen(LINE)) == 0) text += strlen(LINE);
  if (strncmp(text, SHOT, strlen(SHOT)) == 0) {
    char *rest;
    used = (size_t)snprintf(to, size, "shot %ld", strtol(text + strlen(SHOT), &rest, 10) - 1);
    text = rest;
  }
  int shots, first, length = 0;
  if (sscanf(text, "%d shot%*[s,] first %*d (shot:%d): %n", &shots, &first, &length) == 2 && length)
    used = (size_t)snprintf(to, size, "%d shot%s, first shot %d: ", shots, shots == 1 ? "" : "s", first - 1);
  text += length;
  while (*text && used + 1 < size)
    if (strncmp(text, ARRAYS_FILE, strlen(ARRAYS_FILE)) == 0)
      used += library_name_array(&text, to + used, size - used);
    else
      to[used++] = *text++;
  to[used] = '\0';
}

/* Fills the caller's error; returns its code. */
static int library_tell(const error *from, stencil_error *e) {
  const int code = error_exit_code(from->id);
  if (!e) return code;
  e->code = code;
  library_rename(from->text, e->text, sizeof e->text);
  return code;
}

/* --- keys --------------------------------------------------------------------------------------------------------- */

/* A key that the library refuses, and why. */
typedef struct library_key {
  const char *section, *name, *why;
} library_key;
static const char FILES_WHY[] = "the library writes no files: results come by result()",
                  TIME_WHY[] = "the caller ends a run, by progress()";
static const library_key refused[] = {{"output", "path", FILES_WHY},
                                      {"output", "compress", FILES_WHY},
                                      {"output", "replace", FILES_WHY},
                                      {"checkpoint", "path", FILES_WHY},
                                      {"checkpoint", "every_steps", FILES_WHY},
                                      {"checkpoint", "every_seconds", FILES_WHY},
                                      {"checkpoint", "keep", FILES_WHY},
                                      {"report", "file", FILES_WHY},
                                      {"parallel", "io", FILES_WHY},
                                      {"gradient", "path", FILES_WHY},
                                      {"gradient", "file_memory", FILES_WHY},
                                      {"survey", "shots", "shots are an argument of stencil_run"},
                                      {"time", "max_seconds", TIME_WHY},
                                      {"parallel", "watchdog_seconds", TIME_WHY},
                                      {"survey", "on_stop", TIME_WHY}};

static int library_refuse_keys(const config_given *given, error *e) {
  for (size_t i = 0; i < sizeof refused / sizeof *refused; i++)
    if (config_text_of(given, refused[i].section, refused[i].name))
      return FAIL(e, LIBRARY_KEY, refused[i].section, refused[i].name, refused[i].why);
  return 0;
}

int stencil_open(stencil_sim **sim, const char *keys, stencil_error *e) {
  error failed = {0};
  config_given *given = NULL;
  stencil_sim *s = NULL;
  if (e) *e = (stencil_error){0};
  if (!sim || !keys) FAIL(&failed, LIBRARY_INPUT, "stencil_open", "an argument is NULL");
  if (!failed.id && !config_open(&given, "keys", keys, 0, NULL, &failed) &&
      !library_refuse_keys(given, &failed) && !ALLOC(&failed, s, 1, "a simulation") &&
      !(s->keys = strdup(keys)))
    FAIL(&failed, OUT_OF_MEMORY, strlen(keys), "the keys");
  config_close(given);
  if (s) s->process = getpid(), s->comm = MPI_COMM_SELF;
  if (failed.id) {
    free(s);
    s = NULL;
  }
  if (sim) *sim = s;
  return library_tell(&failed, e);
}

int stencil_stream(stencil_sim *s, void *stream, stencil_error *e) {
  error failed = {0};
  if (e) *e = (stencil_error){0};
  if (!s) FAIL(&failed, LIBRARY_INPUT, "stencil_stream", "the simulation is NULL");
  if (s) s->stream = stream;
  return library_tell(&failed, e);
}

int stencil_communicator(stencil_sim *s, const void *comm, stencil_error *e) {
  error failed = {0};
  if (e) *e = (stencil_error){0};
  if (!s || !comm) FAIL(&failed, LIBRARY_INPUT, "stencil_communicator", "an argument is NULL");
#ifdef STENCIL_ONE_RANK_MPI_H
  if (!failed.id) FAIL(&failed, LIBRARY_LACKS, "MPI: it was built without");
#else
  if (!failed.id && s->known)
    FAIL(&failed, LIBRARY_INPUT, "stencil_communicator", "it comes before the first run");
  if (!failed.id) memcpy(&s->comm, comm, sizeof s->comm);
#endif
  return library_tell(&failed, e);
}

/* --- a run -------------------------------------------------------------------------------------------------------- */

enum { OVERRIDES = 64, OVERRIDE_TEXT = 256 };

typedef struct library_run {
  stencil_sim *sim;
  char *kind; /* a later call of the same kind can continue the run; owned */
  bool ran;   /* the run ended without an error, so that it can be kept */
  arrays arrays;
  config_given *given;
  shot_lines lines;
  config first;
  run_log log;
  files files;
  survey v;
  survey_job job;
  misfit_caller misfit;
  char warned[WARNINGS_MOST][WARNING_TEXT];
  int warned_count;
  char overrides[OVERRIDES][OVERRIDE_TEXT];
  const char *list[OVERRIDES];
  int count;
} library_run;

static int library_override(library_run *r, error *e, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static int library_override(library_run *r, error *e, const char *format, ...) {
  if (r->count == OVERRIDES) return FAIL(e, LIBRARY_INPUT, "inputs", "there are too many");
  va_list args;
  va_start(args, format);
  vsnprintf(r->overrides[r->count], OVERRIDE_TEXT, format, args);
  va_end(args);
  r->list[r->count] = r->overrides[r->count];
  r->count++;
  return 0;
}

/* Is the key one of observed traces or their companions? Each shot has its own array, but all shots share the key. */
static bool library_observed(const char *key) {
  return strncmp(key, "gradient.", strlen("gradient.")) == 0;
}

static int library_check_input(const stencil_input *in, int shot, error *e) {
  char name[ARRAYS_NAME];
  if (!in->key || !*in->key || strlen(in->key) > ARRAYS_NAME / 2 ||
      strspn(in->key, "abcdefghijklmnopqrstuvwxyz_.") < strlen(in->key))
    return FAIL(e, LIBRARY_INPUT, "inputs", "a key is no section.key");
  arrays_name(name, shot, in->key);
  return arrays_check(name, &in->array, e);
}

/* Sets the keys whose values are arrays, for all shots. */
static int library_set_inputs(library_run *r, error *e) {
  const arrays *a = &r->arrays;
  for (int i = 0; i < a->input_count; i++) {
    TRY(library_check_input(&a->inputs[i], -1, e));
    TRY(library_override(r, e, "%s=" ARRAYS_FILE "%s", a->inputs[i].key, a->inputs[i].key));
  }
  const stencil_shot *first = a->shots;
  for (int i = 0; a->shot_count && i < first->input_count; i++)
    if (library_observed(first->inputs[i].key ? first->inputs[i].key : ""))
      TRY(library_override(r, e, "%s=" ARRAYS_FILE "{name}/%s", first->inputs[i].key, first->inputs[i].key));
  if (a->calls && a->calls->misfit)
    TRY(library_override(r, e, "gradient.adjoint_source=" ARRAYS_FILE "{name}/misfit"));
  return 0;
}

/* Sets the facts that the first model has fixed, and defaults that differ from the program's. */
static int library_set_defaults(library_run *r, error *e) {
  const stencil_sim *s = r->sim;
  TRY(library_override(r, e, "output.path=array"));
  if (!config_text_of(r->given, "output", "final")) TRY(library_override(r, e, "output.final=off"));
  if (r->arrays.shot_count) TRY(library_override(r, e, "survey.shots=shot"));
  int ranks;
  MPI_TRY(e, MPI_Comm_size(s->comm, &ranks));
  if (ranks > 1 && !config_text_of(r->given, "survey", "ranks_per_shot"))
    TRY(library_override(r, e, "survey.ranks_per_shot=%d", ranks));
  if (!s->known) return 0;
  TRY(library_override(r, e, "time.dt=%.17g", s->facts.dt));
  if (s->facts.boundary_velocity > 0)
    TRY(library_override(r, e, "boundary.velocity=%.17g", s->facts.boundary_velocity));
  return 0;
}

/* Makes a shot's line of words, as in [survey] shots, and adds it. */
static int library_add_shot(library_run *r, int i, error *e) {
  const stencil_shot *shot = &r->arrays.shots[i];
  char *line = NULL;
  size_t length = 0;
  FILE *to = open_memstream(&line, &length);
  if (!to) return FAIL(e, OUT_OF_MEMORY, (size_t)OVERRIDE_TEXT, "a shot");
  fprintf(to, "output.name=%04d %s", i + 1, shot->keys ? shot->keys : "");
  for (int k = 0; k < shot->input_count; k++) {
    const stencil_input *in = &shot->inputs[k];
    char name[ARRAYS_NAME];
    if (library_check_input(in, i, e)) break;
    arrays_name(name, i, in->key);
    if (!library_observed(in->key)) fprintf(to, " %s=%s", in->key, name);
  }
  if (fclose(to) && !e->id) FAIL(e, OUT_OF_MEMORY, length, "a shot");
  if (!e->id && strpbrk(line, "\n#"))
    FAIL(e, LIBRARY_INPUT, "the keys of a shot", "they hold a line's end, or #");
  if (!e->id) shots_add(&r->lines, line, i + 1, e);
  free(line);
  return e->id;
}

static int library_make_config(library_run *r, error *e) {
  const stencil_sim *s = r->sim;
  TRY(config_open(&r->given, "keys", s->keys, 0, NULL, e));
  TRY(library_set_defaults(r, e));
  TRY(library_set_inputs(r, e));
  config_close(r->given);
  TRY(config_open(&r->given, "keys", s->keys, r->count, r->list, e));
  snprintf(r->lines.file, sizeof r->lines.file, "shot");
  for (int i = 0; i < r->arrays.shot_count; i++) TRY(library_add_shot(r, i, e));
  return r->arrays.shot_count ? shots_check(&r->lines, r->given, &r->first, e)
                              : config_make(&r->first, r->given, NULL, e);
}

static int library_misfit(void *context, const char *path, const float *traces, const int64_t shape[2],
                          double *value, float *derivative, error *e) {
  library_run *r = context;
  const stencil_calls *c = r->arrays.calls;
  pthread_mutex_lock(&r->arrays.lock);
  const int rc = c->misfit(c->context, arrays_shot(path), traces, shape, value, derivative);
  r->arrays.stopped = r->arrays.stopped || rc;
  pthread_mutex_unlock(&r->arrays.lock);
  return rc ? FAIL(e, LIBRARY_STOPPED) : 0;
}

/* For run_log.hear. A warning of the first shot comes again with the number of its shots, so the second one is
 * dropped. */
static void library_hear(void *hearer, const char *format, const char *line) {
  static const char WARNING[] = "warning: ";
  library_run *r = hearer;
  const stencil_calls *c = r->arrays.calls;
  (void)format;
  if (strncmp(line, WARNING, strlen(WARNING)) != 0 || !c || !c->warning) return;
  char text[1024];
  line += strlen(WARNING);
  pthread_mutex_lock(&r->arrays.lock);
  for (int i = 0; i < r->warned_count; i++) {
    const size_t length = strlen(line), known = strlen(r->warned[i]);
    if (known <= length && strcmp(line + length - known, r->warned[i]) == 0) line = "";
  }
  if (*line && r->warned_count < WARNINGS_MOST)
    snprintf(r->warned[r->warned_count++], sizeof *r->warned, "%s", line);
  library_rename(line, text, sizeof text);
  if (*text) c->warning(c->context, text);
  pthread_mutex_unlock(&r->arrays.lock);
}

/* For run_log.advance. */
static void library_advance(void *hearer, double part) {
  library_run *r = hearer;
  arrays_advance(&r->arrays, part);
}

static void library_note_facts(library_run *r) {
  stencil_sim *s = r->sim;
  const engine *g = &r->v.engine;
  const config *c = &r->first;
  if (!g->dev) return;
  snprintf(s->backend, sizeof s->backend, "%s", backend_name(g->dev->table->backend));
  snprintf(s->kernel, sizeof s->kernel, "%s", g->kernel ? g->kernel->name : "");
  const int64_t every = c->receivers_every;
  s->facts = (stencil_facts){.dt = g->physics.dt,
                             .boundary_velocity = physics_absorbs(c) ? physics_fastest(&g->physics, c) : 0,
                             .steps = g->physics.steps,
                             .samples = c->receivers == RECEIVERS_NONE ? 0 : g->physics.steps / every + 1,
                             .interval = g->physics.dt * (double)every,
                             .backend = s->backend,
                             .kernel = s->kernel};
  s->known = true;
}

/* Finds the kind of a call: its keys, without the values of media, positions and traces. */
static int library_find_kind(library_run *r, error *e) {
  const arrays *a = &r->arrays;
  size_t length = 0;
  FILE *to = open_memstream(&r->kind, &length);
  if (!to) return FAIL(e, OUT_OF_MEMORY, (size_t)OVERRIDE_TEXT, "a run");
  fprintf(to, "%d %d", a->shot_count, a->shot_count ? r->lines.alike : 0);
  for (int i = 0; i < r->count; i++)
    if (strncmp(r->list[i], "time.dt=", strlen("time.dt=")) != 0 &&
        strncmp(r->list[i], "boundary.velocity=", strlen("boundary.velocity=")) != 0)
      fprintf(to, " %s", r->list[i]);
  return fclose(to) ? FAIL(e, OUT_OF_MEMORY, length, "a run") : 0;
}

static int library_do(library_run *r, error *e) {
  r->log = (run_log){.hear = library_hear, .advance = library_advance, .hearer = r};
  r->misfit = (misfit_caller){library_misfit, r};
  const bool wanted = r->arrays.calls && r->arrays.calls->misfit;
  TRY(files_open(&r->files, r->sim->comm, IO_GATHER, &files_of_arrays, e));
  r->files.context = &r->arrays;
  r->files.access->log = &r->log;
  r->job = (survey_job){.config = &r->first,
                        .command = "",
                        .log = &r->log,
                        .files = &r->files,
                        .lines = {r->given, r->arrays.shot_count ? &r->lines : NULL},
                        .misfit = wanted ? &r->misfit : NULL,
                        .first_ends = true};
  if (!survey_plan(&r->v, &r->job, e)) {
    library_note_facts(r);
    if (r->arrays.shot_count && !survey_run(&r->v, e)) arrays_finish(&r->arrays, &r->files, e);
    if (!e->id) library_note_facts(r);
  }
  return e->id;
}

/* Continues the survey of the last call, which was of the same kind. */
static int library_do_again(library_run *r, error *e) {
  r->v.job.lines.given = r->given;
  if (!survey_again(&r->v, e) && !arrays_finish(&r->arrays, &r->files, e)) library_note_facts(r);
  return e->id;
}

static int library_check_call(const stencil_sim *s, const library_run *r, error *e) {
  const arrays *a = &r->arrays;
  if (s->process != getpid()) return FAIL(e, LIBRARY_FORKED);
  if (s->broken) return FAIL(e, LIBRARY_BROKEN);
  if (a->input_count < 0 || a->shot_count < 0 || (a->input_count && !a->inputs) ||
      (a->shot_count && !a->shots))
    return FAIL(e, LIBRARY_INPUT, "stencil_run", "an argument is NULL, or a count negative");
  for (int i = 0; i < a->shot_count; i++)
    if (a->shots[i].input_count < 0 || (a->shots[i].input_count && !a->shots[i].inputs))
      return FAIL(e, LIBRARY_INPUT, "stencil_run", "a shot's inputs are NULL, or their count negative");
  return 0;
}

static void library_close_run(library_run *r) {
  if (!r) return;
  survey_close(&r->v);
  files_close(&r->files);
  config_free(&r->first);
  config_close(r->given);
  shots_free(&r->lines);
  arrays_close(&r->arrays);
  free(r->kind);
  free(r);
}

/* Returns the kept run, with the inputs of `r`, if both are of one kind; otherwise `r`. Closes the other run. */
static library_run *library_go_on(library_run *r) {
  library_run *kept = r->sim->kept;
  r->sim->kept = NULL;
  if (!kept || strcmp(kept->kind, r->kind) != 0) {
    library_close_run(kept);
    return r;
  }
  config first = kept->first;
  config_given *given = kept->given;
  shot_lines lines = kept->lines;
  arrays_take(&kept->arrays, &r->arrays);
  kept->first = r->first, kept->given = r->given, kept->lines = r->lines;
  r->first = first, r->given = given, r->lines = lines;
  library_close_run(r);
  return kept;
}

/* A call runs in a thread of the library, where subnormal numbers are flushed to 0. So the caller's thread keeps its
 * mode. */
typedef struct library_call {
  library_run *r;
  error e;
} library_call;

static void *library_main(void *context) {
  library_call *c = context;
  library_run *r = c->r;
  if (r->sim->stream) device_array_await(r->sim->stream, &c->e);
  if (!c->e.id && !library_make_config(r, &c->e)) library_find_kind(r, &c->e);
  r->arrays.gradient = config_has_gradient(&r->first);
  if (!c->e.id) c->r = library_go_on(r);
  if (!c->e.id) c->r == r ? library_do(r, &c->e) : library_do_again(c->r, &c->e);
  r = c->r;
  if (r->arrays.stopped && c->e.id) {
    c->e = (error){0};
    FAIL(&c->e, LIBRARY_STOPPED);
  }
  r->ran = !c->e.id && r->arrays.shot_count && !model_needed(&r->first);
  return NULL;
}

int stencil_run(stencil_sim *s, const stencil_input *inputs, int32_t input_count, const stencil_shot *shots,
                int32_t shot_count, const stencil_calls *calls, stencil_error *e) {
  library_call call = {.r = NULL};
  pthread_t thread;
  if (e) *e = (stencil_error){0};
  if (!s) FAIL(&call.e, LIBRARY_INPUT, "stencil_run", "the simulation is NULL");
  if (call.e.id || ALLOC(&call.e, call.r, 1, "a run")) return library_tell(&call.e, e);
  library_run *r = call.r;
  r->sim = s;
  r->files.compute = r->files.comm = MPI_COMM_NULL;
  r->arrays = (arrays){
      .inputs = inputs, .input_count = input_count, .shots = shots, .shot_count = shot_count, .calls = calls};
  arrays_open(&r->arrays);
  if (!library_check_call(s, r, &call.e)) {
    const int rc = thread_start(&thread, library_main, &call);
    if (rc) FAIL(&call.e, DEVICE_FAILED, "host", "starting a thread", strerror(rc));
    if (!rc) pthread_join(thread, NULL);
  }
  s->broken = s->broken || call.e.id == ERROR_DEVICE_FAILED;
  if (call.r->ran)
    s->kept = call.r;
  else
    library_close_run(call.r);
  return library_tell(&call.e, e);
}

void stencil_close(stencil_sim *s) {
  if (!s) return;
  if (s->process == getpid()) library_close_run(s->kept); /* a forked process lacks the run's threads */
  free(s->keys);
  free(s);
}

int stencil_describe(const stencil_sim *s, stencil_facts *facts, stencil_error *e) {
  error failed = {0};
  if (e) *e = (stencil_error){0};
  if (!s || !facts) FAIL(&failed, LIBRARY_INPUT, "stencil_describe", "an argument is NULL");
  if (!failed.id && !s->known)
    FAIL(&failed, LIBRARY_INPUT, "stencil_describe", "no model has fixed anything yet");
  if (!failed.id) *facts = s->facts;
  return library_tell(&failed, e);
}
