#include "announce.h"
#include <inttypes.h>
#include <math.h>
#include <sched.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "report.h"

enum { RANK_TEXT = 192, FILES_TEXT = 7 * CONFIG_TEXT + 256 /* all names of the files written */ };

/* --- at the start ------------------------------------------------------------------------------------------------ */

/* Prints the set as ranges: "0-3,8". Leaves out what does not fit. */
static void announce_core_set(const cpu_set_t *set, char *to, size_t bytes) {
  size_t length = 0;
  to[0] = 0;
  for (int first = 0; first < CPU_SETSIZE && length + 1 < bytes; first++) {
    if (!CPU_ISSET(first, set)) continue;
    int last = first;
    while (last + 1 < CPU_SETSIZE && CPU_ISSET(last + 1, set)) last++;
    const char *comma = length ? "," : "";
    const int added = last > first ? snprintf(to + length, bytes - length, "%s%d-%d", comma, first, last)
                                   : snprintf(to + length, bytes - length, "%s%d", comma, first);
    length += (size_t)added;
    first = last;
  }
}

static void announce_rank(char text[RANK_TEXT], int threads) {
  cpu_set_t mine;
  char host[64] = "", cores[96];
  CPU_ZERO(&mine);
  sched_getaffinity(0, sizeof mine, &mine);
  gethostname(host, sizeof host - 1);
  announce_core_set(&mine, cores, sizeof cores);
  snprintf(text, RANK_TEXT, "%s, %d thread%s on core%s %s", host, threads, threads == 1 ? "" : "s",
           CPU_COUNT(&mine) == 1 ? "" : "s", cores);
}

/* Logs with --verbose a line for each rank: its host, the threads of the host device, and the cores they may use.
 * Collective. */
static int announce_cores(MPI_Comm comm, int threads, run_log *log, error *e) {
  char mine[RANK_TEXT] = "", *all = NULL;
  int rank, ranks;
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  MPI_TRY(e, MPI_Comm_size(comm, &ranks));
  announce_rank(mine, threads);
  const size_t bytes = (size_t)ranks * RANK_TEXT;
  if (rank == 0 && !(all = malloc(bytes))) FAIL(e, OUT_OF_MEMORY, bytes, "the list of cores");
  if (!error_agree(e, comm))
    error_from_mpi(e, MPI_Gather(mine, RANK_TEXT, MPI_CHAR, all, RANK_TEXT, MPI_CHAR, 0, comm), "MPI_Gather");
  for (int r = 0; rank == 0 && !e->id && r < ranks; r++)
    log_detail(log, "  rank %d: %s", r, all + (size_t)r * RANK_TEXT);
  free(all);
  return e->id;
}

/* Logs the devices' warning of the first rank that has one. Collective. */
static int announce_warning(const device *dev, const engine *g, run_log *log, error *e) {
  int warned = dev->warning[0] ? g->rank : g->ranks, first;
  char text[sizeof dev->warning];
  snprintf(text, sizeof text, "%s", dev->warning);
  MPI_TRY(e, MPI_Allreduce(&warned, &first, 1, MPI_INT, MPI_MIN, g->comm));
  if (first == g->ranks) return 0;
  MPI_TRY(e, MPI_Bcast(text, sizeof text, MPI_CHAR, first, g->comm));
  log_line(log, "warning: %s", text);
  return 0;
}

const char *announce_outside(const config *c, char text[ANNOUNCE_OUTSIDE]) {
  text[0] = 0;
  if (config_extends(c))
    snprintf(text, ANNOUNCE_OUTSIDE, ", with the layers outside %d x %d x %d", config_axis_of(c, 0).points,
             config_axis_of(c, 1).points, config_axis_of(c, 2).points);
  return text;
}

int announce(const propagator *p, const shot *s, error *e) {
  const config *c = s->config;
  const engine *g = s->engine;
  const physics *of = &g->physics;
  char outside[ANNOUNCE_OUTSIDE];
  log_line(s->log, "%s: %d x %d x %d points%s, %lld steps, %d rank%s%s", equation_name(c->equation), c->nx,
           c->ny, c->nz, announce_outside(c, outside), (long long)of->steps, g->ranks,
           g->ranks == 1 ? "" : "s", g->files->served ? " and a data server" : "");
  if (!equation_has(c->equation, GIVEN_WEIGHTS))
    log_line(s->log, "dt = %.6g s%s, %.3g of the stability bound; ends at %.6g s", of->dt,
             s->of.from && c->dt <= 0 ? " (of the checkpoint)" : "", of->dt / of->bound,
             of->dt * (double)of->steps);
  char medium[512];
  if (model_describe(&of->model, c, medium, sizeof medium)) log_line(s->log, "%s", medium);
  log_line(s->log, "device %s; kernel %s; transport %s, overlap %s; schedule %s; io %s", p->dev->description,
           c->kernel, p->halo.name, c->overlap ? "on" : "off", schedule_name(c->schedule),
           io_name(s->io.mode));
  if (p->halo.story[0]) log_line(s->log, "transport auto: %s (%s)", p->halo.name, p->halo.story);
  if (p->halo.method[0]) log_detail(s->log, "transport %s: %s", p->halo.name, p->halo.method);
  const exact_time *t = &s->at.receivers.time;
  if (t->removed)
    log_line(s->log, "time: dispersion removed from signals and traces, whose ends take %lld steps more",
             (long long)t->extra);
  if (t->why[0]) log_line(s->log, "time: dispersion kept in traces: %s", t->why);
  TRY(announce_cores(g->comm, g->options.threads, s->log, e));
  shot_remarks_common(s);
  shot_remarks(s);
  return announce_warning(p->dev, g, s->log, e);
}

void announce_left(const shot *s) {
  if (s->of.from && s->of.from->step >= s->engine->physics.steps)
    log_line(s->log,
             "nothing is left to do: the checkpoint is of step %" PRId64 ", the run ends at step %" PRId64,
             s->of.from->step, s->engine->physics.steps);
}

/* --- at the end -------------------------------------------------------------------------------------------------- */

static report_rank announce_measured(const batch *b) {
  const step_phases *p = &b->p.stepper.phases;
  double measured_steps = p->steps ? (double)p->steps : 1;
  double loop_steps = b->loop.steps ? (double)b->loop.steps : 1;
  struct rusage usage = {0};
  getrusage(RUSAGE_SELF, &usage);
  const writer_totals writer = b->saves.totals;
  return (report_rank){.boundary = p->boundary / measured_steps,
                       .to_host = p->to_host / measured_steps,
                       .exchange = p->exchange / measured_steps,
                       .to_device = p->to_device / measured_steps,
                       .interior = p->interior / measured_steps,
                       .exposed = p->exposed / measured_steps,
                       .io = b->loop.io_seconds / loop_steps,
                       .io_wait = b->loop.wait_seconds / loop_steps,
                       .writer_seconds = writer.seconds,
                       .writer_bytes = (double)writer.bytes,
                       .copy_gbs = b->p.engine->copy_gbs,
                       .host_bytes = (double)usage.ru_maxrss * 1024,
                       .device_bytes = (double)b->p.dev->peak_bytes};
}

static report announce_report_of(const batch *b) {
  const config *c = b->p.engine->config; /* a shot's configuration may be gone */
  return (report){.steps = b->loop.steps,
                  .seconds = b->loop.seconds,
                  .ending = MPI_Wtime() - b->loop.end - b->loop.gradient.adjoint.again -
                            b->loop.gradient.adjoint.back,
                  .gradient = b->loop.gradient,
                  .nx = config_axis_of(c, 0).points,
                  .ny = config_axis_of(c, 1).points,
                  .nz = config_axis_of(c, 2).points,
                  .bytes_per_point = physics_bytes(c),
                  .backend = backend_name(b->p.dev->table->backend),
                  .kernel = b->p.stepper.kernel->name,
                  .transport = b->p.halo.name,
                  .device = b->p.dev->description,
                  .overlap = c->overlap,
                  .statistics = b->statistics.points ? &b->statistics : NULL};
}

int announce_check_report(const engine *g, error *e) {
  if (g->rank == 0 && g->config->report_file[0]) report_check(g->config->report_file, e);
  return error_agree(e, g->comm);
}

/* Adds the measurements of the ranks of `comm` to `r`; rank 0 prints and writes it. */
static int announce_gather(const engine *g, report r, const report_rank *mine, MPI_Comm comm, error *e) {
  report_rank *all = NULL;
  int rank;
  MPI_TRY(e, MPI_Comm_rank(comm, &rank));
  MPI_TRY(e, MPI_Comm_size(comm, &r.ranks));
  const size_t bytes = (size_t)r.ranks * sizeof *all;
  if (rank == 0 && !(all = malloc(bytes))) FAIL(e, OUT_OF_MEMORY, bytes, "the report");
  if (!error_agree(e, comm))
    error_from_mpi(e, MPI_Gather(mine, sizeof *mine, MPI_BYTE, all, sizeof *mine, MPI_BYTE, 0, comm),
                   "MPI_Gather");
  r.per_rank = all;
  if (rank == 0 && !e->id) {
    if (g->log->to) report_print(&r, g->log->verbose, g->log->to);
    log_flush(g->log);
    if (g->config->report_file[0]) report_write(&r, g->config->report_file, e);
  }
  free(all);
  return error_agree(e, comm);
}

int announce_report(const batch *b, error *e) {
  const report_rank mine = announce_measured(b);
  return announce_gather(b->p.engine, announce_report_of(b), &mine, b->p.engine->comm, e);
}

void announce_add(announce_shots *all, const batch *b, int shots) {
  const report_rank one = announce_measured(b);
  report_rank *sum = &all->sum;
  const double steps = (double)b->loop.steps;
  sum->boundary += steps * one.boundary, sum->to_host += steps * one.to_host;
  sum->exchange += steps * one.exchange, sum->to_device += steps * one.to_device;
  sum->interior += steps * one.interior, sum->exposed += steps * one.exposed;
  sum->io += steps * one.io, sum->io_wait += steps * one.io_wait;
  sum->writer_seconds += one.writer_seconds, sum->writer_bytes += one.writer_bytes;
  all->gradient.adjoint.again += b->loop.gradient.adjoint.again,
      all->gradient.adjoint.back += b->loop.gradient.adjoint.back;
  all->gradient.sums += b->loop.gradient.sums;
  all->steps += shots * b->loop.steps;
}

int announce_survey(const batch *b, const announce_shots *all, MPI_Comm comm, error *e) {
  report r = announce_report_of(b);
  report_rank mine = all->sum;
  const report_rank now = announce_measured(b);
  const double steps = all->steps ? (double)all->steps : 1;
  double *phases[] = {&mine.boundary, &mine.to_host, &mine.exchange, &mine.to_device,
                      &mine.interior, &mine.exposed, &mine.io,       &mine.io_wait};
  for (size_t i = 0; i < sizeof phases / sizeof *phases; i++) *phases[i] /= steps;
  mine.copy_gbs = now.copy_gbs, mine.host_bytes = now.host_bytes, mine.device_bytes = now.device_bytes;
  double stepping[2] = {all->stepping, 1}, every[2] = {0, 1};
  int64_t counted = b->p.engine->rank == 0 ? all->steps : 0; /* one rank counts the steps of its group */
  MPI_TRY(e, MPI_Allreduce(stepping, every, 2, MPI_DOUBLE, MPI_SUM, comm));
  MPI_TRY(e, MPI_Allreduce(&counted, &r.steps, 1, MPI_INT64_T, MPI_SUM, comm));
  r.seconds = all->seconds, r.ending = 0, r.statistics = NULL;
  r.gradient = all->gradient;
  r.shots = all->shots;
  r.overhead = all->seconds > 0 ? fmax(0, 1 - every[0] / every[1] / all->seconds) : 0;
  return announce_gather(b->p.engine, r, &mine, comm, e);
}

static void announce_list(char list[FILES_TEXT], const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static void announce_list(char list[FILES_TEXT], const char *format, ...) {
  size_t used = strlen(list);
  va_list args;
  if (used) used += (size_t)snprintf(list + used, FILES_TEXT - used, ", ");
  va_start(args, format);
  vsnprintf(list + used, FILES_TEXT - used, format, args);
  va_end(args);
}

void announce_files(const shot *s, const char *report) {
  const written_files *w = &s->written;
  const char *path = s->config->output_path;
  char list[FILES_TEXT] = "";
  if (w->fields == 1) announce_list(list, "%s.%08" PRId64 ".hdf", path, w->last);
  if (w->fields > 1)
    announce_list(list, "%s.%08" PRId64 ".hdf to %s.%08" PRId64 ".hdf (%d fields)", path, w->first, path,
                  w->last, w->fields);
  if (w->fields) announce_list(list, "%s.xdmf", path), announce_list(list, "%s.hdf.series", path);
  if (w->receivers) announce_list(list, "%s.receivers.h5", path);
  if (w->maps) announce_list(list, "%s" MAPS_ENDING, path);
  if (w->gradient) announce_list(list, "%s" GRADIENT_ENDING, path);
  if (w->checkpoint >= 0)
    announce_list(list, "%s.%08" PRId64 ".h5 (the newest checkpoint)", s->config->checkpoint_path,
                  w->checkpoint);
  if (report) announce_list(list, "%s", report);
  if (list[0]) log_line(s->log, "written: %s", list);
}
