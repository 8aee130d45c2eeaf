/* --dry-run: prints what a run would do and need. */
#include "run.h"
#include <inttypes.h>
#include <string.h>
#include "base/error_mpi.h"
#include "survey/gradient.h"
#include "io/message.h"
#include "physics/fd.h"
#include "survey/announce.h"
#include "survey/report.h"
#include "shot/initial_file.h"
#include "propagator/maps.h"
#include "shot/shot.h"
#include "survey/restart.h"
#include "survey/save_field.h"
#include "shot/storage.h"
#include "shot/warnings.h"

static double dry_run_mib(double bytes) {
  return bytes / 1048576;
}

/* What a rank needs, in bytes. */
typedef struct run_needs {
  double device, pinned;
  double copies; /* of what is saved: pinned, at most */
} run_needs;

static void dry_run_needs(const shot *s, run_needs *n) {
  const config *c = s->config;
  const slab *z = &s->engine->slab;
  size_t on_device = 0, pinned = 0;
  field_set f;
  shot_fields(s, &f);
  *n = (run_needs){.device = engine_bytes(c, z)};
  sources_bytes(&s->sources, &on_device, &pinned);
  const receivers_size traces = receivers_bytes(&s->receivers);
  n->device += (double)on_device + (double)traces.on_device;
  const bool checkpoints = c->checkpoint_every_steps > 0 || c->checkpoint_every_seconds > 0;
  n->copies =
      WRITER_ROOM * sizeof(float) * (double)(checkpoints ? fields_saved(&f, z) : snapshot_field_floats(z));
  n->pinned = (absorb_bytes(c, z) ? ABSORB_PINNED : 0) + (double)transfer_staging_bytes(z) + (double)pinned +
              (double)traces.pinned;
  if (z->lower != SLAB_NO_RANK) n->pinned += 2.0 * RADIUS * (double)z->plane * sizeof(float);
  if (z->upper != SLAB_NO_RANK) n->pinned += 2.0 * RADIUS * (double)z->plane * sizeof(float);
}

static void dry_run_partition(const shot *s, const run_needs *n) {
  const slab z = s->engine->slab;
  const slab_counts planes = slab_planes(&z);
  log_line(s->log, "partition along z: %d rank%s, %d to %d planes each%s", s->engine->ranks,
           s->engine->ranks == 1 ? "" : "s", planes.least, planes.most,
           s->engine->files->served ? "; the last rank serves the data" : "");
  for (int r = 0; r < s->engine->ranks; r++)
    log_detail(s->log, "  rank %d: planes %d to %d", r, slab_first_plane(&z, r),
               slab_first_plane(&z, r + 1) - 1);
  log_line(s->log,
           "memory per rank: %.1f MiB on the device, %.1f MiB pinned on the host, %.1f MiB for I/O, "
           "up to %.1f MiB for copies of what is saved",
           dry_run_mib(n->device), dry_run_mib(n->pinned),
           dry_run_mib((double)s->io.way->block_bytes * s->io.way->threads), dry_run_mib(n->copies));
  const receivers *r = &s->receivers;
  if (r->count)
    log_line(s->log, "%d receiver%s: traces of %.1f MiB %s of this rank, a file of %.1f MiB", r->count,
             r->count == 1 ? "" : "s", dry_run_mib((double)receivers_bytes(r).traces),
             r->in_file ? "on the disk" : "on the host", dry_run_mib((double)receivers_file_bytes(r)));
  if (config_has_maps(s->config))
    log_line(s->log, "maps: %.1f MiB of this rank's device memory, a file %s" MAPS_ENDING " of %.1f MiB",
             dry_run_mib(maps_bytes(s)), s->config->output_path, dry_run_mib(maps_file_bytes(s->config)));
}

/* Logs the phase velocity of waves `of`, which errors of space and, unless courant is 0, of time change. */
static void dry_run_phase_velocity(const shot *s, const announce_waves *w, double courant, const char *of) {
  const double TOLERATED = 0.01;
  const int order = s->config->space_order;
  const double off = fd_phase_velocity(order, w->points, courant) - 1;
  log_line(s->log, "phase velocity along an axis%s: %+.2f %% at %.4g Hz, %+.2f %% at %.4g Hz", of,
           100 * (fd_phase_velocity(order, w->points * w->highest / w->dominant, courant) - 1), w->dominant,
           100 * off, w->highest);
  if (w->resolved && fabs(off) > TOLERATED)
    log_line(s->log,
             "warning: numerical dispersion%s: more than %g %% at %.4g Hz (finer grid, lower frequencies or "
             "higher space_order)",
             of, 100 * TOLERATED, w->highest);
}

static void dry_run_wavelengths(const shot *s) {
  const config *c = s->config;
  const physics *p = &s->engine->physics;
  announce_waves w;
  if (!announce_find_waves(s, &w)) return;
  const double points = p->medium[0].min / (w.dominant * w.spacing),
               courant = p->medium[0].min * p->dt / w.spacing;
  log_line(s->log, "points per wavelength: %.1f at %.4g Hz, %.1f at %.4g Hz, above which little lies", points,
           w.dominant, w.points, w.highest);
  if (w.points <= 2) return;
  const bool exact = s->receivers.time.removed,
             fields = c->output_final || c->output_every || config_has_maps(c);
  if (exact) dry_run_phase_velocity(s, &w, 0, " in traces");
  if (!exact || fields) dry_run_phase_velocity(s, &w, courant, exact ? " in fields" : "");
}

static void dry_run_physics(const shot *s) {
  const config *c = s->config;
  const physics *p = &s->engine->physics;
  const equation_row *row = &EQUATIONS[c->equation];
  for (int i = 0; i < row->media; i++)
    log_line(s->log, "%s: %g to %g %s", MEDIA[row->medium[i]].name, p->medium[i].min, p->medium[i].max,
             MEDIA[row->medium[i]].unit);
  char medium[512];
  if (model_describe(&p->model, c, medium, sizeof medium)) log_line(s->log, "%s", medium);
  if (equation_has(c->equation, GIVEN_WEIGHTS)) return;
  log_line(s->log, "%d bytes a point and step", physics_bytes(c));
  log_line(s->log, "stability bound %.6g s, dt = %.6g s, %lld steps, ends at %.6g s", p->bound, p->dt,
           (long long)p->steps, p->dt * (double)p->steps);
  if (equation_has(c->equation, HAS_SOURCES)) dry_run_wavelengths(s);
}

/* Prints the sum over ranks, too: ranks may share a GPU. */
static int dry_run_device(shot *s, const run_needs *n, error *e) {
  double all = 0;
  MPI_TRY(e, MPI_Reduce(&n->device, &all, 1, MPI_DOUBLE, MPI_SUM, 0, s->engine->comm));
  log_line(s->log, "device: %s, %.1f MiB of memory; all ranks together need %.1f MiB", s->dev->description,
           dry_run_mib((double)s->dev->total_bytes), dry_run_mib(all));
  if (s->dev->room > 0 && n->device > (double)s->dev->room)
    log_line(s->log, "warning: that is more than this device has: the run would fail here");
  if (s->dev->warning[0]) log_line(s->log, "warning: %s", s->dev->warning);
  return 0;
}

static void dry_run_output(const shot *s) {
  const config *c = s->config;
  const space_steps saved = storage_steps(s);
  const double files = storage_fields(&saved), bytes = storage_field_bytes(s);
  log_line(s->log, "output: %.0f file%s %s.SSSSSSSS.hdf of %.1f MiB%s, %.1f MiB in all", files,
           files == 1 ? "" : "s", c->output_path, dry_run_mib(bytes),
           c->compress ? " before compression" : "", dry_run_mib(bytes * files));
}

static void dry_run_tell_input(const shot *s, const char *dataset) {
  const config *c = s->config;
  log_line(s->log, "input: %s is there, has shape (%d, %d, %d) and finite values", dataset, c->nz, c->ny,
           c->nx);
}

/* A field_sink: reading has checked the values. */
static int dry_run_take_nothing(void *context, int z, int planes, float *values, error *e) {
  (void)context, (void)z, (void)planes, (void)values, (void)e;
  return 0;
}

/* Reads them as a run does: better refused now than after hours in a queue. */
static int dry_run_check_fields(const shot *s, error *e) {
  const config *c = s->config;
  if (c->initial == INITIAL_FILE) {
    TRY(initial_file_read(s, dry_run_take_nothing, NULL, e));
    dry_run_tell_input(s, c->initial_file);
  }
  if (c->previous != PREVIOUS_FILE) return 0;
  TRY(engine_read_field(s->engine, c->previous_file, QUANTITY_NONE, dry_run_take_nothing, NULL, e));
  dry_run_tell_input(s, c->previous_file);
  return 0;
}

/* Collective, agreed. */
static int dry_run_check_files(shot *s, error *e) {
  const config *c = s->config;
  for (int i = 0; i < EQUATION_MEDIA; i++) {
    double number;
    const char *medium =
        physics_medium(c, i, &number); /* its values have been read for the stability bound */
    if (medium) dry_run_tell_input(s, medium);
  }
  if (!s->from) TRY(dry_run_check_fields(s, e));
  TRY(sources_check(&s->sources, c, e));
  TRY(shot_check_paths(s, e));
  TRY(announce_check_report(s, e));
  log_line(s->log, "output paths are writable");
  TRY(shot_make_folders(s, true, true, e));
  TRY(save_field_begin(s, true, e));
  return storage_check(s, receivers_disk_bytes(&s->receivers) + maps_file_bytes(s->config), true, e);
}

static int dry_run_describe(const job *j, shot *s, error *e) {
  const config *c = s->config;
  run_needs n;
  log_line(s->log, "%s", s->saves.config_text);
  announce_remarks(s);
  announce_left(s);
  dry_run_physics(s);
  dry_run_needs(s, &n);
  dry_run_partition(s, &n);
  TRY(dry_run_device(s, &n, e));
  log_line(s->log, "kernel %s, transport %s, overlap %s, io %s", c->kernel, transport_name(c->transport),
           c->overlap ? "on" : "off", io_name(s->io.mode));
  dry_run_output(s);
  gradient back = {.dry = true};
  TRY(gradient_share(s, j->shares, &back.shares, e));
  if (!gradient_plan(&back, s, e)) {
    gradient_announce(&back);
    gradient_check(&back, 0, s, e);
  }
  gradient_close(&back);
  return e->id;
}

/* --- the other shots of a survey ---------------------------------------------------------------------------------- */

/* The message of the configuration of shot i, to all ranks. */
static int dry_run_take(const job *j, int i, message *m, error *e) {
  const shot_lines *lines = j->survey.lines;
  config made;
  const config *c = &made;
  if (lines && !config_make(&made, j->survey.given, &lines->list[i], e)) {
    config_single(&made);
    files_carry_config(m, &c);
    config_free(&made);
  }
  TRY(error_agree(e, j->files->compute));
  return message_share(m, j->files->compute, e);
}

/* An initial field of its own: that of the first shot has been read. */
static int dry_run_check_own(const job *j, const shot *s, error *e) {
  const config *c = s->config;
  const bool same = strcmp(c->initial_file, j->config->initial_file) == 0;
  return c->initial == INITIAL_FILE && !same ? initial_file_read(s, dry_run_take_nothing, NULL, e) : 0;
}

/* Can the shot be placed, are its files there, and its observed traces its own? Better refused now than after all
 * others. */
static int dry_run_other(const job *j, engine *g, int i, warnings *warns, error *e) {
  const shot_lines *lines = j->survey.lines;
  run_log silent = {.to = NULL};
  warnings_hear(&silent, warns);
  shot s = {.engine = NULL};
  gradient back = {.dry = true};
  message m = {0};
  const config *c;
  if (!dry_run_take(j, i, &m, e)) {
    files_carry_config(&m, &c);
    const shot_setup setup = {c, j->command, &silent, NULL, NULL, NULL};
    if (!shot_plan(&s, g, &setup, e) && !sources_check(&s.sources, c, e) && !dry_run_check_own(j, &s, e) &&
        !gradient_plan(&back, &s, e) && !gradient_check(&back, 0, &s, e))
      announce_shot(&s);
  }
  gradient_close(&back);
  shot_close(&s);
  message_free(&m);
  if (!e->id || !lines) return error_agree(e, j->files->compute);
  const error bare = *e;
  *e = (error){0};
  error_set(e, ERROR_HERE, bare.id, "%s:%d: %.*s", lines->file, lines->list[i].line,
            ERROR_TEXT - 2 * CONFIG_TEXT, bare.text);
  return error_agree(e, j->files->compute);
}

/* first: what the first shot warns of. */
static int dry_run_others(const job *j, engine *g, const warnings *first, error *e) {
  const shot_lines *lines = j->survey.lines;
  int count = lines ? lines->count : 0;
  warnings_tally all = {.list = NULL};
  TRY(message_broadcast(&count, sizeof count, j->files->compute, e));
  if (!warnings_add(&all, first, 0, e)) warnings_add(&all, first, 1, e);
  error_agree(e, j->files->compute);
  for (int i = 1; i < count && !e->id; i++) {
    warnings one;
    if (!dry_run_other(j, g, i, &one, e)) warnings_add(&all, &one, i + 1, e);
    error_agree(e, j->files->compute);
  }
  if (lines && !e->id) warnings_tell(&all, lines, j->log);
  warnings_free(&all);
  return e->id;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

/* As run does, but for the steps. `from` as there. */
static int dry_run_leg(const job *j, const checkpoint *from, double *seconds, error *e) {
  engine g = {.dev = NULL};
  shot s = {.engine = NULL};
  const bool restarts = from->name[0];
  warnings first = {.count = 0};
  run_plan(j, &g, &s, restarts ? from : NULL, false, e);
  const request verify = {FILES_VERIFY_CHECKPOINT, .own.from = from};
  if (!e->id && restarts && !files_do(j->files, &verify, e))
    log_line(j->log, "restart from %s, step %" PRId64 ": it is intact and of this run", from->name,
             from->step);
  if (j->survey.lines) warnings_hear(j->log, &first);
  if (!e->id) dry_run_describe(j, &s, e);
  j->log->hear = NULL;
  if (!error_agree(e, j->files->compute) && !dry_run_check_files(&s, e) && !dry_run_others(j, &g, &first, e))
    log_line(j->log, "dry run: everything is in place");
  const int64_t left = g.physics.steps - (restarts ? from->step : 0);
  shot_close(&s);
  engine_close(&g);
  if (!e->id && j->options->measure) run_estimate(j, left > 0 ? left : 0, seconds, e);
  return e->id;
}

int dry_run(const job *j, double *seconds, error *e) {
  restart r = {
      .name = j->options->restart, .path = j->config->checkpoint_path, .log = j->log, .files = j->files};
  TRY(restart_open(&r, e));
  do dry_run_leg(j, &r.from, seconds, e);
  while (restart_pass_over(&r, e));
  restart_close(&r);
  return e->id;
}
