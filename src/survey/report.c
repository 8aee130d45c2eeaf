#include "report.h"
#include <cjson/cJSON.h>
#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/error_mpi.h"
#include "io/bytes/atomic_file.h"

typedef struct report_phase {
  const char *key, *label;
  size_t offset; /* in report_rank */
} report_phase;

static const report_phase PHASES[] = {
    {"boundary", "boundary compute", offsetof(report_rank, boundary)},
    {"to_host", "copy to host", offsetof(report_rank, to_host)},
    {"exchange", "exchange (MPI)", offsetof(report_rank, exchange)},
    {"to_device", "copy to device", offsetof(report_rank, to_device)},
    {"interior", "interior compute", offsetof(report_rank, interior)},
    {"exposed", "exposed communication", offsetof(report_rank, exposed)},
    {"io", "I/O", offsetof(report_rank, io)},
    {"io_wait", "of which waiting for the writer", offsetof(report_rank, io_wait)},
};
enum { PHASE_COUNT = sizeof PHASES / sizeof *PHASES };
enum { LABEL_WIDTH = 31 }; /* of the longest label */
enum { HISTOGRAM_LINES = 32, HISTOGRAM_STARS = 50 };
static const char STARS[HISTOGRAM_STARS + 1] = "**************************************************";

static double report_value(const report *r, int rank, size_t offset) {
  double value;
  memcpy(&value, (const char *)&r->per_rank[rank] + offset, sizeof value);
  return value;
}

typedef struct report_spread {
  double least, mean, most, sum;
} report_spread;

static report_spread report_over_ranks(const report *r, size_t offset) {
  report_spread s = {.least = report_value(r, 0, offset), .most = report_value(r, 0, offset)};
  for (int i = 0; i < r->ranks; i++) {
    double v = report_value(r, i, offset);
    if (v < s.least) s.least = v;
    if (v > s.most) s.most = v;
    s.sum += v;
  }
  s.mean = s.sum / r->ranks;
  return s;
}

typedef struct report_figures {
  double gpts, gbs, copy_gbs, fraction, step, exposed_fraction;
} report_figures;

static report_figures report_figures_of(const report *r) {
  double points = (double)r->nx * r->ny * r->nz * (double)r->steps;
  report_figures f = {.gpts = r->seconds > 0 ? points * 1e-9 / r->seconds : 0,
                      .copy_gbs = report_over_ranks(r, offsetof(report_rank, copy_gbs)).sum,
                      .step = r->steps ? r->seconds / (double)r->steps : 0};
  f.gbs = f.gpts * r->bytes_per_point;
  f.fraction = f.copy_gbs > 0 ? f.gbs / f.copy_gbs : 0;
  f.exposed_fraction = f.step > 0 ? report_over_ranks(r, offsetof(report_rank, exposed)).mean / f.step : 0;
  if (f.exposed_fraction > 1) f.exposed_fraction = 1; /* measured passes may be slower than others */
  return f;
}

static void report_print_ranks(const report *r, FILE *to) {
  fprintf(to, "  per rank, ms per step\n  %6s", "rank");
  for (int p = 0; p < PHASE_COUNT; p++) fprintf(to, " %10s", PHASES[p].key);
  fprintf(to, " %10s %10s %10s\n", "copy GB/s", "host MiB", "dev MiB");
  for (int i = 0; i < r->ranks; i++) {
    fprintf(to, "  %6d", i);
    for (int p = 0; p < PHASE_COUNT; p++) fprintf(to, " %10.4f", 1e3 * report_value(r, i, PHASES[p].offset));
    const report_rank *k = &r->per_rank[i];
    fprintf(to, " %10.1f %10.1f %10.1f\n", k->copy_gbs, k->host_bytes / 1048576, k->device_bytes / 1048576);
  }
}

/* Prints at most HISTOGRAM_LINES lines, each for one bin or several. */
static void report_print_histogram(const field_statistics *s, FILE *to) {
  const double width = ((double)s->all.max - (double)s->all.min) / s->bins;
  int bins = (s->bins - 1) / HISTOGRAM_LINES + 1; /* bins of a line */
  uint64_t counts[HISTOGRAM_LINES] = {0}, most = 1;
  for (int i = 0; i < s->bins; i++) {
    uint64_t *count = &counts[i / bins];
    *count += s->histogram[i];
    if (*count > most) most = *count;
  }
  fprintf(to, "values of the field at step %" PRId64 "\n", s->step);
  for (int i = 0; i * bins < s->bins; i++) {
    int stars = (int)((double)counts[i] / (double)most * HISTOGRAM_STARS + 0.5);
    fprintf(to, "  from %13.6g %15" PRIu64 " %.*s\n", s->all.min + i * bins * width, counts[i], stars, STARS);
  }
  fprintf(to, "  to   %13.6g\n", s->all.max);
}

/* Ranks write at the same time, so the slowest rank's seconds count. */
typedef struct report_writing {
  double seconds, bytes, rate;
} report_writing;

static report_writing report_writing_of(const report *r) {
  report_writing w = {.seconds = report_over_ranks(r, offsetof(report_rank, writer_seconds)).most,
                      .bytes = report_over_ranks(r, offsetof(report_rank, writer_bytes)).sum};
  w.rate = w.seconds > 0 ? w.bytes / w.seconds : 0;
  return w;
}

static double report_shots_per_hour(const report *r) {
  return r->seconds > 0 ? 3600 * r->shots / r->seconds : 0;
}

void report_print(const report *r, bool verbose, FILE *to) {
  report_figures f = report_figures_of(r);
  report_spread host = report_over_ranks(r, offsetof(report_rank, host_bytes));
  report_spread dev = report_over_ranks(r, offsetof(report_rank, device_bytes));
  fprintf(to, "performance\n");
  fprintf(
      to,
      "  grid %d x %d x %d, %lld step%s in %.4g s on %d rank%s, %s, kernel %s, transport %s, overlap %s\n",
      r->nx, r->ny, r->nz, (long long)r->steps, r->steps == 1 ? "" : "s", r->seconds, r->ranks,
      r->ranks == 1 ? "" : "s", r->backend, r->kernel, r->transport, r->overlap ? "on" : "off");
  fprintf(to, "  %.4g Gpts/s   %.4g GB/s at %d bytes a point   %.1f %% of the copy bandwidth, %.4g GB/s\n",
          f.gpts, f.gbs, r->bytes_per_point, 100 * f.fraction, f.copy_gbs);
  fprintf(to, "  %-*s %10s %10s %10s\n", LABEL_WIDTH, "ms per step", "least", "mean", "most");
  for (int p = 0; p < PHASE_COUNT; p++) {
    report_spread s = report_over_ranks(r, PHASES[p].offset);
    fprintf(to, "  %-*s %10.4f %10.4f %10.4f\n", LABEL_WIDTH, PHASES[p].label, 1e3 * s.least, 1e3 * s.mean,
            1e3 * s.most);
  }
  fprintf(to, "  %-*s %10s %10.4f\n", LABEL_WIDTH, "whole step", "", 1e3 * f.step);
  fprintf(to,
          "  memory high-water: host %.1f MiB at most a rank, %.1f in all; device %.1f MiB at most a rank, "
          "%.1f in all\n",
          host.most / 1048576, host.sum / 1048576, dev.most / 1048576, dev.sum / 1048576);
  const report_writing w = report_writing_of(r);
  if (w.bytes > 0)
    fprintf(to, "  saved %.1f MiB in %.3g s of writing, %.1f MiB/s\n", w.bytes / 1048576, w.seconds,
            w.rate / 1048576);
  if (r->shots)
    fprintf(to, "  %d shot%s, %.4g an hour; no steps for %.2g %% of the time\n", r->shots,
            r->shots == 1 ? "" : "s", report_shots_per_hour(r), 100 * r->overhead);
  else
    fprintf(to, "  %.3g s from the last step to this report%s\n", r->ending,
            r->gradient.adjoint.back > 0 ? ", without steps done again or back" : "");
  if (r->gradient.adjoint.back > 0)
    fprintf(to, "  gradient: %.3g s of steps done again, %.3g of steps back, %.3g for sums and files\n",
            r->gradient.adjoint.again, r->gradient.adjoint.back, r->gradient.sums);
  if (verbose) report_print_ranks(r, to);
  if (r->statistics && r->statistics->bins) report_print_histogram(r->statistics, to);
  fflush(to);
}

/* --- JSON -------------------------------------------------------------------------------------------------------- */

typedef struct report_number {
  const char *key;
  double value;
} report_number;

/* Adds numbers to a new object, or to `to` itself. JSON has finite numbers only; for others cJSON writes null. */
#define REPORT_ADD(to, ...) report_add_numbers(to, (const report_number[]){__VA_ARGS__, {NULL, 0}})
static bool report_add_numbers(cJSON *to, const report_number *n) {
  bool ok = to != NULL;
  for (; ok && n->key; n++) ok = cJSON_AddNumberToObject(to, n->key, n->value) != NULL;
  return ok;
}

static bool report_add_phases(cJSON *to, const report *r, int rank) {
  report_number phases[PHASE_COUNT + 1] = {{NULL, 0}};
  for (int p = 0; p < PHASE_COUNT; p++)
    phases[p] = (report_number){PHASES[p].key, rank < 0 ? report_over_ranks(r, PHASES[p].offset).mean
                                                        : report_value(r, rank, PHASES[p].offset)};
  return to && report_add_numbers(cJSON_AddObjectToObject(to, "phases"), phases);
}

static bool report_add_ranks(cJSON *root, const report *r) {
  cJSON *list = cJSON_AddArrayToObject(root, "per_rank");
  bool ok = list != NULL;
  for (int i = 0; ok && i < r->ranks; i++) {
    cJSON *rank = cJSON_CreateObject();
    const report_rank *k = &r->per_rank[i];
    ok = rank && cJSON_AddItemToArray(list, rank) && report_add_phases(rank, r, i) &&
         REPORT_ADD(rank, {"writer_seconds", k->writer_seconds}, {"writer_bytes", k->writer_bytes},
                    {"copy_gbs", k->copy_gbs}, {"host_bytes", k->host_bytes},
                    {"device_bytes", k->device_bytes});
  }
  return ok;
}

static bool report_add_statistics(cJSON *root, const field_statistics *s) {
  return REPORT_ADD(cJSON_AddObjectToObject(root, "statistics"), {"step", (double)s->step},
                    {"min", s->all.min}, {"max", s->all.max}, {"mean", statistics_mean(s)},
                    {"sum", s->all.sum}, {"l2", statistics_l2(s)});
}

static bool report_add_histogram(cJSON *root, const field_statistics *s) {
  cJSON *to = cJSON_AddObjectToObject(root, "histogram");
  cJSON *counts = to ? cJSON_AddArrayToObject(to, "counts") : NULL;
  bool ok = counts && REPORT_ADD(to, {"min", s->all.min}, {"max", s->all.max});
  for (int i = 0; ok && i < s->bins; i++) {
    cJSON *count = cJSON_CreateNumber((double)s->histogram[i]);
    ok = count && cJSON_AddItemToArray(counts, count);
  }
  return ok;
}

/* Always adds the key; its object is empty without a histogram, from which the quantiles come. */
static bool report_add_quantiles(cJSON *root, const field_statistics *s) {
  report_number quantiles[QUANTILES + 1] = {{NULL, 0}};
  char names[QUANTILES][8];
  for (int i = 0; s && s->bins > 0 && i < QUANTILES; i++) {
    quantile_name(i, names[i]);
    quantiles[i] = (report_number){names[i], s->quantiles[i]};
  }
  return report_add_numbers(cJSON_AddObjectToObject(root, "quantiles"), quantiles);
}

static bool report_add_field(cJSON *root, const field_statistics *s) {
  return (!s || (report_add_statistics(root, s) && (s->bins == 0 || report_add_histogram(root, s)))) &&
         report_add_quantiles(root, s);
}

static bool report_add_writing(cJSON *root, const report *r) {
  const report_writing w = report_writing_of(r);
  return REPORT_ADD(cJSON_AddObjectToObject(root, "writer"), {"seconds", w.seconds}, {"bytes", w.bytes},
                    {"rate", w.rate});
}

static bool report_add_shots(cJSON *root, const report *r) {
  return !r->shots || REPORT_ADD(root, {"shots", r->shots}, {"shots_per_hour", report_shots_per_hour(r)},
                                 {"overhead_fraction", r->overhead});
}

static bool report_add_gradient(cJSON *root, const report *r) {
  const gradient_times *t = &r->gradient;
  return t->adjoint.back <= 0 ||
         REPORT_ADD(cJSON_AddObjectToObject(root, "gradient"), {"again_seconds", t->adjoint.again},
                    {"back_seconds", t->adjoint.back}, {"sums_seconds", t->sums});
}

static bool report_add_all(cJSON *root, const report *r) {
  report_figures f = report_figures_of(r);
  const int grid[3] = {r->nx, r->ny, r->nz};
  cJSON *points = cJSON_CreateIntArray(grid, 3);
  return points && cJSON_AddItemToObject(root, "grid", points) &&
         REPORT_ADD(root, {"gpts", f.gpts}, {"gbs", f.gbs}, {"copy_gbs", f.copy_gbs},
                    {"fraction_of_copy", f.fraction}, {"bytes_per_point", r->bytes_per_point},
                    {"steps", (double)r->steps}, {"seconds", r->seconds}, {"ending_seconds", r->ending},
                    {"ranks", r->ranks}, {"exposed_comm_fraction", f.exposed_fraction}) &&
         cJSON_AddStringToObject(root, "backend", r->backend) &&
         cJSON_AddStringToObject(root, "device", r->device) &&
         cJSON_AddStringToObject(root, "kernel", r->kernel) &&
         cJSON_AddStringToObject(root, "transport", r->transport) &&
         cJSON_AddBoolToObject(root, "overlap", r->overlap) && report_add_shots(root, r) &&
         report_add_gradient(root, r) && report_add_phases(root, r, -1) && report_add_writing(root, r) &&
         report_add_field(root, r->statistics) && report_add_ranks(root, r);
}

/* The stream, stdout or stderr, that writes to the file `path`, for example /dev/stdout; NULL: neither does. */
static FILE *report_stream(const char *path) {
  FILE *const all[] = {stdout, stderr};
  struct stat s, of;
  if (stat(path, &s) || !S_ISREG(s.st_mode)) return NULL;
  for (int i = 0; i < 2; i++)
    if (fstat(fileno(all[i]), &of) == 0 && of.st_dev == s.st_dev && of.st_ino == s.st_ino) return all[i];
  return NULL;
}

/* Writes to `file`: `path` itself, or a temporary file that will be renamed to it. */
static int report_write_text(const char *file, const char *path, const char *text, error *e) {
  FILE *f = fopen(file, "w");
  if (!f) return FAIL(e, REPORT_WRITE, path, strerror(errno));
  bool failed = fprintf(f, "%s\n", text) < 0;
  failed = fclose(f) != 0 || failed;
  return failed ? FAIL(e, REPORT_WRITE, path, strerror(errno)) : 0;
}

int report_check(const char *path, error *e) {
  const char *key = "[report] file";
  struct stat s;
  if (report_stream(path)) return 0;
  if (stat(path, &s) || S_ISREG(s.st_mode)) return path_check_writable((named_path){key, path, false}, e);
  if (config_is_named_pipe(path)) return FAIL(e, PATH_UNUSABLE, key, path, "it is a named pipe");
  if (S_ISDIR(s.st_mode)) return FAIL(e, PATH_UNUSABLE, key, path, strerror(EISDIR));
  return access(path, W_OK) ? FAIL(e, PATH_UNUSABLE, key, path, strerror(errno)) : 0;
}

/* Writes the file whole or not at all. It writes terminals, pipes, devices and open streams directly, since they must
 * not be replaced. */
static int report_write_whole(const char *path, const char *text, error *e) {
  struct stat s;
  char temporary[PATH_MAX];
  FILE *const open = report_stream(path);
  if (open)
    return fprintf(open, "%s\n", text) < 0 || fflush(open) ? FAIL(e, REPORT_WRITE, path, strerror(errno)) : 0;
  if (stat(path, &s) == 0 && !S_ISREG(s.st_mode)) return report_write_text(path, path, text, e);
  if (strlen(path) + TEMPORARY_ENDING > sizeof temporary)
    return FAIL(e, REPORT_WRITE, path, strerror(ENAMETOOLONG));
  temporary_name(temporary, sizeof temporary, path);
  temporary_remove(path, NULL, (const char *const[]){"", NULL});
  report_write_text(temporary, path, text, e);
  return atomic_file_commit(temporary, path, NULL, e);
}

int report_write(const report *r, const char *path, error *e) {
  cJSON *root = cJSON_CreateObject();
  char *text = report_add_all(root, r) ? cJSON_Print(root) : NULL;
  cJSON_Delete(root);
  if (!text) return FAIL(e, OUT_OF_MEMORY, (size_t)r->ranks * sizeof *r->per_rank, "the report");
  int failed = report_write_whole(path, text, e);
  cJSON_free(text);
  return failed;
}
