/* --dry-run: prints what a run would do and need. */
#include "run.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "io/bytes/message.h"
#include "physics/fd.h"
#include "propagator/maps.h"
#include "shot/initial_file.h"
#include "shot/storage.h"
#include "survey/save_field.h"

static double dry_run_mib(double bytes) {
  return bytes / 1048576;
}

/* The memory that a rank needs, in bytes. */
typedef struct run_needs {
  double device, pinned;
  double copies; /* copies for saves, pinned: the most */
} run_needs;

static void dry_run_needs(const propagator *p, run_needs *n) {
  const config *c = p->config;
  const slab *z = &p->engine->slab;
  size_t on_device[2] = {0}, pinned[2] = {0};
  field_set f;
  propagator_fields(p, &f);
  *n = (run_needs){.device = engine_bytes(c, z)};
  injector_bytes(&p->injector, &on_device[0], &pinned[0]);
  sampler_bytes(&p->sampler, &on_device[1], &pinned[1]);
  n->device += (double)on_device[0] + (double)on_device[1];
  const bool checkpoints = c->checkpoint_every_steps > 0 || c->checkpoint_every_seconds > 0;
  n->copies =
      WRITER_ROOM * sizeof(float) * (double)(checkpoints ? fields_saved(&f, z) : snapshot_field_floats(z));
  n->pinned = (absorb_bytes(c, z) ? ABSORB_PINNED : 0) + (double)transfer_staging_bytes(z) +
              (double)pinned[0] + (double)pinned[1];
  if (z->lower != SLAB_NO_RANK) n->pinned += 2.0 * RADIUS * (double)z->plane * sizeof(float);
  if (z->upper != SLAB_NO_RANK) n->pinned += 2.0 * RADIUS * (double)z->plane * sizeof(float);
}

static void dry_run_partition(const propagator *p, const shot *s, const run_needs *n) {
  const slab z = s->engine->slab;
  const slab_counts planes = slab_planes(&z);
  const config *c = s->config;
  char outside[ANNOUNCE_OUTSIDE];
  log_line(s->log, "grid: %d x %d x %d points%s; partition along z: %d rank%s, %d to %d planes each%s", c->nx,
           c->ny, c->nz, announce_outside(c, outside), s->engine->ranks, s->engine->ranks == 1 ? "" : "s",
           planes.least, planes.most, s->engine->files->served ? "; the last rank serves the data" : "");
  for (int r = 0; r < s->engine->ranks; r++)
    log_detail(s->log, "  rank %d: planes %d to %d", r, slab_first_plane(&z, r),
               slab_first_plane(&z, r + 1) - 1);
  log_line(s->log,
           "memory per rank: %.1f MiB on the device, %.1f MiB pinned on the host, %.1f MiB for I/O, "
           "up to %.1f MiB for copies of what is saved",
           dry_run_mib(n->device), dry_run_mib(n->pinned),
           dry_run_mib((double)s->io.access->block_bytes * s->io.access->threads), dry_run_mib(n->copies));
  const receivers *r = &s->at.receivers;
  if (r->count)
    log_line(s->log, "%d receiver%s: traces of %.1f MiB %s of this rank, a file of %.1f MiB", r->count,
             r->count == 1 ? "" : "s", dry_run_mib((double)receivers_bytes(r)),
             r->in_file ? "on the disk" : "on the host", dry_run_mib((double)receivers_file_bytes(r)));
  if (config_has_maps(s->config))
    log_line(s->log, "maps: %.1f MiB of this rank's device memory, a file %s" MAPS_ENDING " of %.1f MiB",
             dry_run_mib(maps_bytes(p)), s->config->output_path, dry_run_mib(maps_file_bytes(s->config)));
}

/* Logs the phase velocity of waves `of`, with the errors of the stencil and, unless courant is 0, of the time step. */
static void dry_run_phase_velocity(const shot *s, const shot_waves *w, double courant, const char *of) {
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
  shot_waves w;
  if (!shot_find_waves(s, &w)) return;
  const double points = p->medium[0].min / (w.dominant * w.spacing),
               courant = p->medium[0].min * p->dt / w.spacing;
  log_line(s->log, "points per wavelength: %.1f at %.4g Hz, %.1f at %.4g Hz, above which little lies", points,
           w.dominant, w.points, w.highest);
  if (w.points <= 2) return;
  const bool exact = s->at.receivers.time.removed,
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
static int dry_run_device(const shot *s, const run_needs *n, error *e) {
  const device *dev = s->engine->dev;
  double all = 0;
  MPI_TRY(e, MPI_Reduce(&n->device, &all, 1, MPI_DOUBLE, MPI_SUM, 0, s->engine->comm));
  log_line(s->log, "device: %s, %.1f MiB of memory; all ranks together need %.1f MiB", dev->description,
           dry_run_mib((double)dev->total_bytes), dry_run_mib(all));
  if (dev->available > 0 && n->device > (double)dev->available)
    log_line(s->log, "warning: that is more than this device has: the run would fail here");
  if (dev->warning[0]) log_line(s->log, "warning: %s", dev->warning);
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

/* A field_sink that drops the values, since reading has checked them. */
static int dry_run_take_nothing(void *context, int z, int planes, float *values, error *e) {
  (void)context, (void)z, (void)planes, (void)values, (void)e;
  return 0;
}

/* Reads the media as a run does, so that mistakes appear before hours in a queue. */
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
static int dry_run_check_files(const propagator *p, shot *s, error *e) {
  const config *c = s->config;
  for (int i = 0; i < EQUATION_MEDIA; i++) {
    double number;
    const char *medium =
        physics_medium(c, i, &number); /* the values have been read for the stability bound */
    if (medium) dry_run_tell_input(s, medium);
  }
  if (!s->of.from) TRY(dry_run_check_fields(s, e));
  TRY(sources_check(&s->at.sources, c, e));
  TRY(shot_check_paths(s, e));
  TRY(announce_check_report(s->engine, e));
  log_line(s->log, "output paths are writable");
  TRY(shot_make_folders(s, true, true, e));
  TRY(save_field_clear(s, true, e));
  return storage_check(s, p, true, e);
}

/* Checks the adjoint's memory and the observed traces of a shot. */
static int dry_run_gradient(survey_slot *t, bool tells, error *e) {
  if (gradient_plan(&t->gradient, &t->batch, e)) return e->id;
  if (tells) gradient_announce(&t->gradient, t->v->log);
  return gradient_check(&t->gradient, 0, e);
}

static int dry_run_describe(survey_slot *t, error *e) {
  const propagator *p = &t->batch.p;
  const shot *s = t->batch.shots[0];
  const config *c = s->config;
  run_needs n;
  log_line(s->log, "%s", s->config_text);
  shot_remarks_common(s);
  shot_remarks(s);
  announce_left(s);
  dry_run_physics(s);
  dry_run_needs(p, &n);
  dry_run_partition(p, s, &n);
  TRY(dry_run_device(s, &n, e));
  log_line(s->log, "kernel %s, transport %s, overlap %s, io %s", c->kernel, transport_name(c->transport),
           c->overlap ? "on" : "off", io_name(s->io.mode));
  dry_run_output(s);
  TRY(gradient_memory_parts(&t->batch, t->v->several ? survey_memory_parts(t->v) : 1, &t->gradient.parts, e));
  return dry_run_gradient(t, true, e);
}

/* --- the other shots of a survey ---------------------------------------------------------------------------------- */

/* Sends the configuration of shot i to all ranks. */
static int dry_run_take(const survey *v, int i, message *m, error *e) {
  const shot_lines *lines = v->job.lines.lines;
  config made;
  const config *c = &made;
  if (lines && !config_make(&made, v->job.lines.given, &lines->list[i], e)) {
    config_single(&made);
    files_carry_config(m, &c);
    config_free(&made);
  }
  TRY(error_agree(e, v->active));
  return message_to_all(m, v->active, e);
}

/* Checks a shot's own initial field; the first shot's has been read. */
static int dry_run_check_own(const survey *v, const shot *s, error *e) {
  const config *c = s->config;
  const bool same = strcmp(c->initial_file, v->job.config->initial_file) == 0;
  return c->initial == INITIAL_FILE && !same ? initial_file_read(s, dry_run_take_nothing, NULL, e) : 0;
}

/* Checks a shot's positions and files, and that the observed traces belong to the shot. */
static int dry_run_shot(survey_slot *t, survey_shot *one, error *e) {
  survey *v = t->v;
  shot *s = &one->shot;
  TRY(survey_plan_shot(v, one, &one->silent, e));
  TRY(sources_check(&s->at.sources, s->config, e));
  TRY(dry_run_check_own(v, s, e));
  TRY(survey_join(t, &one, 1, e));
  TRY(dry_run_gradient(t, false, e));
  shot_warn_of_time(s);
  shot_remarks(s);
  return 0;
}

static int dry_run_other(survey *v, int i, warnings *warns, error *e) {
  const shot_lines *lines = v->job.lines.lines;
  survey_shot one = {.order.number = i + 1, .restart.from.fd = -1};
  survey_slot t = {.v = v, .gradient.dry = true};
  warnings_hear(&one.silent, warns);
  if (!dry_run_take(v, i, &one.message, e)) {
    files_carry_config(&one.message, &one.order.config);
    dry_run_shot(&t, &one, e);
  }
  gradient_close(&t.gradient);
  batch_close(&t.batch);
  shot_close(&one.shot);
  message_free(&one.message);
  if (!e->id || !lines) return error_agree(e, v->active);
  const error bare = *e;
  *e = (error){0};
  error_set(e, ERROR_HERE, bare.id, "%s:%d: %.*s", lines->file, lines->list[i].line,
            ERROR_TEXT - 2 * CONFIG_TEXT, bare.text);
  return error_agree(e, v->active);
}

/* `first`: the warnings of the first shot. */
static int dry_run_others(survey *v, const warnings *first, error *e) {
  const shot_lines *lines = v->job.lines.lines;
  int count = lines ? lines->count : 0;
  warnings_tally all = {.list = NULL};
  TRY(message_broadcast(&count, sizeof count, v->active, e));
  if (!warnings_add(&all, first, 0, e)) warnings_add(&all, first, 1, e);
  error_agree(e, v->active);
  for (int i = 1; i < count && !e->id; i++) {
    warnings one;
    if (!dry_run_other(v, i, &one, e)) warnings_add(&all, &one, i + 1, e);
    error_agree(e, v->active);
  }
  if (lines && !e->id) warnings_tell(&all, lines, v->log);
  warnings_free(&all);
  return e->id;
}

/* --- the whole ---------------------------------------------------------------------------------------------------- */

/* Logs a run's plan: what the run would do, and with which resources. */
static int dry_run_first(survey *v, error *e) {
  survey_shot *one = &v->one;
  survey_slot t = {.v = v, .gradient.dry = true};
  warnings first = {.count = 0};
  if (one->restart.from.name[0])
    log_line(v->log, "restart from %s, step %" PRId64 ": it is intact and of this run",
             one->restart.from.name, one->restart.from.step);
  if (v->job.lines.lines) warnings_hear(v->log, &first);
  if (!survey_join(&t, &one, 1, e)) dry_run_describe(&t, e);
  v->log->hear = NULL;
  if (!error_agree(e, v->active) && !dry_run_check_files(&t.batch.p, &one->shot, e) &&
      !dry_run_others(v, &first, e))
    log_line(v->log, "dry run: everything is in place");
  gradient_close(&t.gradient);
  batch_close(&t.batch);
  return error_agree(e, v->active);
}

static int dry_run_measure(const job *j, survey *v, error *e) {
  const checkpoint *from = &v->one.restart.from;
  const int64_t left = v->engine.physics.steps - (from->name[0] ? from->step : 0);
  const int shots = v->several && v->job.lines.lines ? v->job.lines.lines->count : 0;
  double seconds = 0;
  TRY(run_estimate(j, v, left > 0 ? left : 0, &seconds, e));
  if (shots)
    log_line(v->log, "estimate: %d shots take %.4g s, without what writes them", shots,
             seconds * ceil((double)shots / v->parts.count));
  return 0;
}

int dry_run(const job *j, error *e) {
  survey *v;
  survey_job what = run_job(j, j->config);
  ALLOC(e, v, 1, "the configuration"); /* the stack may be small */
  TRY(error_agree(e, j->files->compute));
  what.profile = false, what.verifies = true;
  if (!survey_plan(v, &what, e) && survey_active(v)) {
    if (v->several && !v->one.planned) survey_plan_shot(v, &v->one, v->log, e);
    if (!e->id) dry_run_first(v, e);
    if (!e->id && v->job.lines.lines)
      log_line(v->log, "survey: %d shots, all lines are in order", v->job.lines.lines->count);
    if (!e->id && j->options->measure) dry_run_measure(j, v, e);
  }
  survey_close(v);
  free(v);
  return error_agree(e, j->files->compute);
}
