#include "measure.h"
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"

static size_t measure_planes_bytes(const measure *v) {
  return (size_t)v->slab->nz * sizeof(partial_statistics);
}

static size_t measure_counts_bytes(const measure *v) {
  return (size_t)v->bins * sizeof(uint64_t);
}

/* The most data that ever comes from the device at once. */
static size_t measure_host_bytes(const measure *v) {
  size_t statistics = measure_planes_bytes(v), counted = measure_counts_bytes(v);
  return statistics > counted ? statistics : counted;
}

static const char MEASURE[] = "the statistics of the field"; /* what memory is for */

/* Memory where the fields are. */
static int measure_take(measure *v, void **memory, size_t bytes, error *e) {
  if (!bytes) return 0;
  return v->dev ? v->dev->table->alloc(v->dev, memory, bytes, MEMORY_DEVICE, e)
                : error_alloc(e, ERROR_HERE, memory, bytes, 1, MEASURE);
}

static void measure_give(measure *v, void *memory) {
  error ignored = {0};
  if (v->dev)
    v->dev->table->free(v->dev, memory, MEMORY_DEVICE, &ignored);
  else
    free(memory);
}

int measure_open(measure *v, device *dev, const slab *slab, MPI_Comm comm, int bins, error *e) {
  *v = (measure){.dev = dev, .slab = slab, .comm = comm, .bins = bins};
  size_t units = (size_t)units_of_plane(slab->nx, slab->ny) * (size_t)slab->nz;
  size_t ranks = (size_t)slab->ranks;
  v->args.field = (field_view){
      .pitch = slab->pitch, .plane = slab->plane, .nx = slab->nx, .ny = slab->ny, .nz = slab->nz};
  TRY(measure_take(v, (void **)&v->args.units, units * sizeof *v->args.units, e));
  TRY(measure_take(v, (void **)&v->args.planes, measure_planes_bytes(v), e));
  TRY(measure_take(v, (void **)&v->counts, measure_counts_bytes(v), e));
  if (dev) TRY(dev->table->alloc(dev, &v->on_host, measure_host_bytes(v), MEMORY_PINNED, e));
  TRY(ALLOC(e, v->gathered, slab->nz_global, MEASURE));
  TRY(ALLOC(e, v->plane_counts, 2 * ranks, MEASURE));
  for (int r = 0; r < slab->ranks; r++) {
    v->plane_counts[slab->ranks + r] = slab_first_plane(slab, r);
    v->plane_counts[r] = slab_first_plane(slab, r + 1) - slab_first_plane(slab, r);
  }
  return 0;
}

void measure_close(measure *v) {
  error ignored = {0};
  if (!v->slab) return;
  void *const taken[] = {v->args.units, v->args.planes, v->counts};
  for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) measure_give(v, taken[i]);
  if (v->dev) v->dev->table->free(v->dev, v->on_host, MEMORY_PINNED, &ignored);
  free(v->gathered);
  free(v->plane_counts);
  *v = (measure){.slab = NULL};
}

static int measure_bring(measure *v, void *to, const void *from, size_t bytes, error *e) {
  return v->dev->table->copy(v->dev, STREAM_INTERIOR, &(copy_args){to, from, bytes, COPY_TO_HOST}, e);
}

/* *planes: the statistics of a rank's own planes, in host memory. */
static int measure_slab(measure *v, partial_statistics **planes, error *e) {
  *planes = v->args.planes;
  if (!v->dev) {
    statistics_host_units(&v->args, 0, 1);
    statistics_host_planes(&v->args, 0, 1);
    return 0;
  }
  const device_table *t = v->dev->table;
  *planes = v->on_host;
  TRY(t->apply(v->dev, STREAM_INTERIOR, &operation_statistics, &v->args, e));
  TRY(measure_bring(v, *planes, v->args.planes, measure_planes_bytes(v), e));
  return t->sync(v->dev, STREAM_INTERIOR, e);
}

static int measure_gather_planes(measure *v, const partial_statistics *planes, error *e) {
  MPI_Datatype plane;
  MPI_TRY(e, MPI_Type_contiguous(sizeof(partial_statistics), MPI_BYTE, &plane));
  MPI_TRY(e, MPI_Type_commit(&plane));
  MPI_TRY(e, MPI_Allgatherv(planes, v->slab->nz, plane, v->gathered, v->plane_counts,
                            v->plane_counts + v->slab->ranks, plane, v->comm));
  MPI_TRY(e, MPI_Type_free(&plane));
  return 0;
}

/* Every rank gets all planes and adds them in the same order. A single rank sends no message, so several of its threads
 * may measure. */
static int measure_add_planes(measure *v, const partial_statistics *planes, field_statistics *s, error *e) {
  const bool alone = v->slab->ranks == 1;
  if (!alone) TRY(measure_gather_planes(v, planes, e));
  const partial_statistics *all = alone ? planes : v->gathered;
  s->all = statistics_of_nothing();
  const uint64_t points = s->points / (uint64_t)v->slab->nz_global; /* of a plane */
  for (int z = 0; z < v->slab->nz_global; z++) statistics_add(&s->all, &all[z], (uint64_t)z * points);
  return 0;
}

static int measure_count_slab(measure *v, const histogram_args *h, uint64_t **counts, error *e) {
  *counts = v->counts;
  if (!v->dev) {
    memset(v->counts, 0, measure_counts_bytes(v));
    histogram_host(h, 0, 1);
    return 0;
  }
  *counts = v->on_host;
  TRY(v->dev->table->apply(v->dev, STREAM_INTERIOR, &operation_histogram, h, e));
  TRY(measure_bring(v, *counts, v->counts, measure_counts_bytes(v), e));
  return v->dev->table->sync(v->dev, STREAM_INTERIOR, e);
}

static int measure_count_values(measure *v, field_statistics *s, error *e) {
  double width = (double)s->all.max - (double)s->all.min;
  histogram_args h = {.field = v->args.field,
                      .low = s->all.min,
                      .scale = width > 0 ? v->bins / width : 0,
                      .bins = v->bins,
                      .counts = v->counts};
  uint64_t *counts;
  TRY(measure_count_slab(v, &h, &counts, e));
  MPI_TRY(e, mpi_reduce_all(counts, v->bins, MPI_UINT64_T, MPI_SUM, v->comm));
  s->bins = v->bins;
  s->histogram = counts;
  statistics_find_quantiles(s);
  return 0;
}

/* Computes the statistics of the field from those of all ranks' planes. */
static int measure_conclude(measure *v, const partial_statistics *own, bool histogram, field_statistics *s,
                            error *e) {
  TRY(measure_add_planes(v, own, s, e));
  if (histogram && v->bins > 0 && s->all.nonfinite < s->points) TRY(measure_count_values(v, s, e));
  return 0;
}

static void measure_begin(measure *v, const float *points, field_statistics *s) {
  const slab *b = v->slab;
  *s = (field_statistics){.step = s->step};
  s->points = (uint64_t)b->nx * (uint64_t)v->args.field.ny * (uint64_t)b->nz_global;
  v->args.field.points = points;
}

int measure_field(measure *v, const float *points, bool histogram, field_statistics *s, error *e) {
  partial_statistics *own;
  measure_begin(v, points, s);
  TRY(measure_slab(v, &own, e));
  return measure_conclude(v, own, histogram, s, e);
}

int measure_rows(measure *v, const float *points, zrange rows, bool histogram, field_statistics *s,
                 error *e) {
  const int ny = v->args.field.ny;
  v->args.field.ny = zrange_planes(rows);
  measure_field(v, points + (size_t)rows.begin * v->args.field.pitch, histogram, s, e);
  v->args.field.ny = ny;
  return e->id;
}

void measure_plane(measure *v, int z, const float *plane) {
  const slab *b = v->slab;
  const size_t pitch = (size_t)b->nx;
  statistics_args one = v->args;
  one.field = (field_view){plane, pitch, pitch * (size_t)b->ny, b->nx, b->ny, 1};
  one.units += units_of_plane(b->nx, b->ny) * z;
  one.planes += z;
  statistics_host_units(&one, 0, 1);
  statistics_host_planes(&one, 0, 1);
}

int measure_finish(measure *v, const float *points, bool histogram, field_statistics *s, error *e) {
  measure_begin(v, points, s);
  return measure_conclude(v, v->args.planes, histogram, s, e);
}
