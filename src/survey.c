#include "survey.h"
#include <stdlib.h>
#include <string.h>
#include "error_mpi.h"

static size_t planes_bytes(const survey *v) {
  return (size_t)v->slab->nz * sizeof(partial_statistics);
}

static size_t counts_bytes(const survey *v) {
  return (size_t)v->bins * sizeof(uint64_t);
}

/* The largest of what is ever on its way from the device at once. */
static size_t host_bytes(const survey *v) {
  size_t statistics = planes_bytes(v) + BAD_POINTS * sizeof(bad_point);
  return statistics > counts_bytes(v) ? statistics : counts_bytes(v);
}

static int take(survey *v, void **memory, size_t bytes, memory_kind kind, error *e) {
  return bytes ? v->dev->table->alloc(v->dev, memory, bytes, kind, e) : 0;
}

static int take_host(void **memory, size_t bytes, error *e) {
  *memory = malloc(bytes);
  return *memory ? 0 : FAIL(e, OUT_OF_MEMORY, bytes, "the statistics of the field");
}

int survey_open(survey *v, device *dev, const slab *slab, MPI_Comm comm, int bins, error *e) {
  *v = (survey){.dev = dev, .slab = slab, .comm = comm, .bins = bins};
  size_t units = (size_t)units_of_plane(slab->nx, slab->ny) * (size_t)slab->nz;
  size_t ranks = (size_t)slab->ranks;
  v->args.field = (field_view){
      .pitch = slab->pitch, .plane = slab->plane, .nx = slab->nx, .ny = slab->ny, .nz = slab->nz};
  TRY(take(v, (void **)&v->args.units, units * sizeof *v->args.units, MEMORY_DEVICE, e));
  TRY(take(v, (void **)&v->args.planes, planes_bytes(v), MEMORY_DEVICE, e));
  TRY(take(v, (void **)&v->args.bad, BAD_POINTS * sizeof *v->args.bad, MEMORY_DEVICE, e));
  TRY(take(v, (void **)&v->counts, counts_bytes(v), MEMORY_DEVICE, e));
  TRY(take(v, &v->on_host, host_bytes(v), MEMORY_PINNED, e));
  TRY(take_host((void **)&v->gathered, (size_t)slab->nz_global * sizeof *v->gathered, e));
  TRY(take_host((void **)&v->shares, 2 * ranks * sizeof *v->shares, e));
  for (int r = 0; r < slab->ranks; r++) {
    v->shares[slab->ranks + r] = slab_first_plane(slab, r);
    v->shares[r] = slab_first_plane(slab, r + 1) - slab_first_plane(slab, r);
  }
  return 0;
}

void survey_close(survey *v) {
  error ignored = {0};
  if (!v->dev) return;
  void *const on_device[] = {v->args.units, v->args.planes, v->args.bad, v->counts};
  for (size_t i = 0; i < sizeof on_device / sizeof *on_device; i++)
    v->dev->table->free(v->dev, on_device[i], MEMORY_DEVICE, &ignored);
  v->dev->table->free(v->dev, v->on_host, MEMORY_PINNED, &ignored);
  free(v->gathered);
  free(v->shares);
}

static int bring(survey *v, void *to, const void *from, size_t bytes, error *e) {
  return v->dev->table->copy(v->dev, STREAM_INTERIOR, to, from, bytes, COPY_TO_HOST, e);
}

/* This rank's planes and bad points, at the two ends of v->on_host. */
static int measure_slab(survey *v, bad_point **bad, error *e) {
  const device_table *t = v->dev->table;
  *bad = (bad_point *)(void *)((char *)v->on_host + planes_bytes(v));
  TRY(t->statistics(v->dev, STREAM_INTERIOR, &v->args, e));
  TRY(bring(v, v->on_host, v->args.planes, planes_bytes(v), e));
  TRY(bring(v, *bad, v->args.bad, BAD_POINTS * sizeof **bad, e));
  return t->sync(v->dev, STREAM_INTERIOR, e);
}

/* Every rank gets all planes and adds them in the same order. */
static int add_planes(survey *v, field_statistics *s, error *e) {
  MPI_Datatype plane;
  MPI_TRY(e, MPI_Type_contiguous(sizeof(partial_statistics), MPI_BYTE, &plane));
  MPI_TRY(e, MPI_Type_commit(&plane));
  MPI_TRY(e, MPI_Allgatherv(v->on_host, v->slab->nz, plane, v->gathered, v->shares,
                            v->shares + v->slab->ranks, plane, v->comm));
  MPI_TRY(e, MPI_Type_free(&plane));
  s->all = statistics_of_nothing();
  for (int z = 0; z < v->slab->nz_global; z++) statistics_add_plane(&s->all, &v->gathered[z]);
  return 0;
}

static int bad_among(const survey *v, int first, int planes) {
  uint64_t count = 0;
  for (int z = first; z < first + planes; z++) count += v->gathered[z].nonfinite;
  return count < BAD_POINTS ? (int)count : BAD_POINTS;
}

/* Strings the ranks' lists together, lowest planes first; everybody knows from the planes how long each is.
 */
static int gather_bad(survey *v, bad_point *mine, field_statistics *s, error *e) {
  int ranks = v->slab->ranks;
  uint64_t before = (uint64_t)v->slab->z0 * (uint64_t)v->slab->ny * (uint64_t)v->slab->nx;
  for (int i = 0; i < BAD_POINTS; i++) mine[i].index += before;
  bad_point(*lists)[BAD_POINTS] = NULL;
  TRY(take_host((void **)&lists, (size_t)ranks * sizeof *lists, e));
  int rc = MPI_Allgather(mine, sizeof *lists, MPI_BYTE, lists, sizeof *lists, MPI_BYTE, v->comm);
  if (rc != MPI_SUCCESS) error_from_mpi(e, rc, "MPI_Allgather");
  for (int r = 0; r < ranks && !e->id; r++)
    for (int i = 0; i < bad_among(v, v->shares[ranks + r], v->shares[r]) && s->bad_count < BAD_POINTS; i++)
      s->bad[s->bad_count++] = lists[r][i];
  free(lists);
  return e->id;
}

static int count_values(survey *v, field_statistics *s, error *e) {
  double width = (double)s->all.max - (double)s->all.min;
  histogram_args h = {.field = v->args.field,
                      .low = s->all.min,
                      .scale = width > 0 ? v->bins / width : 0,
                      .bins = v->bins,
                      .counts = v->counts};
  TRY(v->dev->table->histogram(v->dev, STREAM_INTERIOR, &h, e));
  TRY(bring(v, v->on_host, v->counts, counts_bytes(v), e));
  TRY(v->dev->table->sync(v->dev, STREAM_INTERIOR, e));
  MPI_TRY(e, MPI_Allreduce(MPI_IN_PLACE, v->on_host, v->bins, MPI_UINT64_T, MPI_SUM, v->comm));
  s->bins = v->bins;
  s->histogram = v->on_host;
  return 0;
}

int survey_field(survey *v, const float *field, bool histogram, field_statistics *s, error *e) {
  const slab *b = v->slab;
  bad_point *bad;
  *s = (field_statistics){.step = s->step};
  s->points = (uint64_t)b->nx * (uint64_t)b->ny * (uint64_t)b->nz_global;
  v->args.field.points = field + slab_offset(b, 0, 0, 0);
  TRY(measure_slab(v, &bad, e));
  TRY(add_planes(v, s, e));
  if (s->all.nonfinite > 0) TRY(gather_bad(v, bad, s, e));
  if (histogram && v->bins > 0 && s->all.nonfinite < s->points) TRY(count_values(v, s, e));
  return 0;
}
