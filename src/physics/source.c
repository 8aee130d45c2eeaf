#include "source.h"
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "place.h"
#include "wavelet.h"

enum { SOURCE_RING = 32 /* steps */ };

/* --- the points ------------------------------------------------------------------------------------------------- */

/* One source's share of one point. */
typedef struct source_corner {
  int z, y, x;
  int source; /* index into the config's list */
  float weight;
} source_corner;

/* What goes to the device. Its arrays are owned (sources_spread_free). */
typedef struct source_spread {
  source_corner *corners; /* sorted by z, y, x, source */
  int count;
  int *signal_of; /* of each source of the config */
  source_point *points;
  source_share *shares;
} source_spread;

/* Zeroed memory; the caller frees it. */
static void *sources_alloc(size_t count, size_t size, error *e) {
  void *memory = calloc(count ? count : 1, size);
  if (!memory) FAIL(e, OUT_OF_MEMORY, count * size, "the sources");
  return memory;
}

static int sources_by_place(const void *a, const void *b) {
  const source_corner *p = a, *q = b;
  if (p->z != q->z) return p->z < q->z ? -1 : 1;
  if (p->y != q->y) return p->y < q->y ? -1 : 1;
  if (p->x != q->x) return p->x < q->x ? -1 : 1;
  return p->source < q->source ? -1 : p->source > q->source;
}

/* Ghost planes towards neighbours in which sources act (sources.reach). */
static int sources_reach(const slab *b) {
  return b->ghost - RADIUS;
}

/* Appends a point of global plane z wherever the slab holds that plane: as its own plane (exactly one slab owns it), or
 * as a ghost. Ghosts beyond a periodic face are planes of the other end of the grid. */
static void sources_spread_point(source_spread *w, const slab *b, int z, source_corner at) {
  const int begin = b->lower == SLAB_NO_RANK ? 0 : -sources_reach(b);
  const int end = b->nz + (b->upper == SLAB_NO_RANK ? 0 : sources_reach(b));
  for (int turn = -1; turn <= 1; turn++) {
    at.z = z - b->z0 + turn * b->nz_global;
    if (at.z >= begin && at.z < end) w->corners[w->count++] = at;
  }
}

/* A point of a neumann face is its own image, so that half of what acts there is the image's: the weight is divided by
 * that half, and source and receiver are reciprocal. */
static double sources_image(const config *c, int axis, int index) {
  const enum boundary_kind *faces = &c->boundary[2 * axis];
  const bool lo = index == 0, hi = index == config_axis_of(c, axis).points - 1;
  return (lo && faces[0] == BOUNDARY_NEUMANN) || (hi && faces[1] == BOUNDARY_NEUMANN) ? 2 : 1;
}

/* Appends the points around a source that lie in planes of the slab and whose weight is not 0. */
static void sources_spread_one(source_spread *w, const config *c, const slab *b, int source) {
  place p[3];
  place_in_grid(c, c->sources[source].position, p); /* it is: the config has been checked */
  for (int corner = 0; corner < 8; corner++) {
    int at[3];
    double weight[3];
    for (int axis = 0; axis < 3; axis++) {
      const bool next = corner >> axis & 1;
      at[axis] = next ? p[axis].next : p[axis].index;
      weight[axis] = (next ? p[axis].fraction : 1 - p[axis].fraction) * sources_image(c, axis, at[axis]);
    }
    const float all = (float)(weight[2] * weight[1] * weight[0]);
    if (all != 0) sources_spread_point(w, b, at[2], (source_corner){0, at[1], at[0], source, all});
  }
}

bool sources_mirrored(const config *c, const source_config *s) {
  place p[3];
  bool mirrored = false;
  place_in_grid(c, s->position, p);
  for (int axis = 0; axis < 3; axis++)
    mirrored |= sources_image(c, axis, p[axis].index) > 1 ||
                (p[axis].fraction > 0 && sources_image(c, axis, p[axis].next) > 1);
  return mirrored;
}

static int sources_spread_all(source_spread *w, const config *c, const slab *b, error *e) {
  const size_t most = sources_reach(b) > 0 ? 3 * 8 : 8; /* of a source */
  if (!(w->corners = sources_alloc((size_t)c->source_count, most * sizeof(source_corner), e))) return e->id;
  for (int i = 0; i < c->source_count; i++) sources_spread_one(w, c, b, i);
  qsort(w->corners, (size_t)w->count, sizeof(source_corner), sources_by_place);
  return 0;
}

/* From sorted corners to points and their shares. */
static int sources_list_points(sources *s, source_spread *w, error *e) {
  const source_corner *k = w->corners;
  if (!(w->points = sources_alloc((size_t)w->count, sizeof *w->points, e))) return e->id;
  if (!(w->shares = sources_alloc((size_t)w->count, sizeof *w->shares, e))) return e->id;
  const int planes = s->slab->nz + 2 * (s->reach = sources_reach(s->slab));
  if (!(s->plane_begin = sources_alloc((size_t)planes + 1, sizeof *s->plane_begin, e))) return e->id;
  for (int i = 0; i < w->count; i++, k++) {
    if (i == 0 || k->z != k[-1].z || k->y != k[-1].y || k->x != k[-1].x) {
      w->points[s->point_count++] = (source_point){k->z, k->y, k->x, i, 0};
      s->plane_begin[k->z + s->reach + 1] = s->point_count;
    }
    w->points[s->point_count - 1].count++;
    w->shares[i] = (source_share){w->signal_of[k->source], k->weight};
  }
  for (int z = 0; z < planes; z++)
    if (s->plane_begin[z + 1] < s->plane_begin[z]) s->plane_begin[z + 1] = s->plane_begin[z];
  s->share_count = w->count;
  return 0;
}

/* --- the signals ------------------------------------------------------------------------------------------------ */

static int sources_compare(double a, double b) {
  return a < b ? -1 : a > b;
}

/* Orders sources by their time functions; 0: the same function. Sources of one file are next to each other. */
static int sources_by_wavelet(const void *a, const void *b) {
  const source_config *p = *(const source_config *const *)a, *q = *(const source_config *const *)b;
  if (p->wavelet != q->wavelet) return p->wavelet < q->wavelet ? -1 : 1;
  const int file = p->wavelet == WAVELET_FILE ? strcmp(p->wavelet_file, q->wavelet_file) : 0;
  if (file) return file;
  const int f0 = p->wavelet == WAVELET_FILE ? 0 : sources_compare(p->f0, q->f0);
  if (f0) return f0;
  const int t0 = p->wavelet == WAVELET_FILE ? 0 : sources_compare(p->t0, q->t0);
  return t0 ? t0 : sources_compare(p->amplitude, q->amplitude);
}

static bool sources_same_file(const source_config *p, const source_config *q) {
  return p->wavelet == WAVELET_FILE && q->wavelet == WAVELET_FILE &&
         strcmp(p->wavelet_file, q->wavelet_file) == 0;
}

/* Reads each file once; `sorted`: the sources in the order of sources_by_wavelet. Collective. */
static int sources_read_tables(sources *s, const source_config *const sorted[], int count, const files *files,
                               error *e) {
  s->tables = sources_alloc((size_t)count, sizeof *s->tables, e);
  TRY(error_agree(e, files->compute));
  for (int i = 0; i < count; i++)
    if (sorted[i]->wavelet == WAVELET_FILE && (i == 0 || !sources_same_file(sorted[i], sorted[i - 1])))
      TRY(wavelet_read(files, sorted[i], &s->tables[s->table_count++], e));
  return 0;
}

/* Finds what the run makes of each source's wavelet; `sorted` as there. */
static int sources_study(sources *s, const source_config *const sorted[], const config *c, error *e) {
  const wavelet_steps steps = {s->dt, s->steps};
  const wavelet_use *use = NULL; /* of the source before */
  if (!(s->uses = sources_alloc((size_t)c->source_count, sizeof *s->uses, e))) return e->id;
  for (int i = 0, files = 0; i < c->source_count; i++) {
    wavelet_use *own = &s->uses[sorted[i] - c->sources];
    const bool file = sorted[i]->wavelet == WAVELET_FILE;
    if (i > 0 && sources_same_file(sorted[i], sorted[i - 1])) {
      *own = *use; /* it is the same for all amplitudes */
    } else {
      const wavelet w = wavelet_of(sorted[i], file ? &s->tables[files++] : NULL);
      TRY(wavelet_study(&w, steps, own, e));
    }
    use = own;
  }
  return 0;
}

/* Finds equal sources, and numbers their signals in the order in which this rank's points first need them, so that
 * neighbouring threads read neighbouring values. Signals that no point needs get no number. */
static int sources_number_signals(sources *s, source_spread *w, const config *c,
                                  const source_config *const sorted[], error *e) {
  const int count = c->source_count;
  int *like = sources_alloc((size_t)count, sizeof *like,
                            e); /* of each source: the first one in `sorted` that is equal */
  int *table_of = sources_alloc((size_t)count, sizeof *table_of, e),
      *number = sources_alloc((size_t)count, sizeof *number, e);
  s->signals = sources_alloc((size_t)count, sizeof *s->signals, e);
  w->signal_of = sources_alloc((size_t)count, sizeof *w->signal_of, e);
  for (int i = 0, first = 0, files = 0; i < count && !e->id; i++) {
    if (i == 0 || sources_by_wavelet(&sorted[i], &sorted[first])) first = i;
    files += sorted[i]->wavelet == WAVELET_FILE && (i == 0 || !sources_same_file(sorted[i], sorted[i - 1]));
    like[sorted[i] - c->sources] = first;
    table_of[first] = sorted[i]->wavelet == WAVELET_FILE ? files - 1 : -1;
    number[i] = -1;
  }
  for (int i = 0; i < w->count && !e->id; i++) {
    const int source = w->corners[i].source, first = like[source];
    if (number[first] < 0) {
      const table *t = table_of[first] < 0 ? NULL : &s->tables[table_of[first]];
      s->signals[s->signal_count] = wavelet_of(sorted[first], t);
      number[first] = s->signal_count++;
    }
    w->signal_of[source] = number[first];
  }
  free(like);
  free(table_of);
  free(number);
  return e->id;
}

/* Frees the tables that no signal of this rank is made of. */
static int sources_drop_tables(sources *s, error *e) {
  bool *used = sources_alloc((size_t)s->table_count, sizeof *used, e);
  if (!used) return e->id;
  for (int i = 0; i < s->signal_count; i++)
    if (s->signals[i].table) used[s->signals[i].table - s->tables] = true;
  for (int t = 0; t < s->table_count; t++)
    if (!used[t]) table_free(&s->tables[t]);
  free(used);
  return 0;
}

/* --- opening and closing ---------------------------------------------------------------------------------------- */

static void sources_spread_free(source_spread *w) {
  if (!w) return;
  free(w->corners);
  free(w->signal_of);
  free(w->points);
  free(w->shares);
  free(w);
}

/* Frees all but the memory of the device. */
static void sources_forget(sources *s) {
  for (int i = 0; i < s->table_count; i++) table_free(&s->tables[i]);
  free(s->tables);
  sources_spread_free(s->planned);
  free(s->uses);
  free(s->signals);
  free(s->plane_begin);
  free(s->ring_step);
  *s = (sources){.dev = s->dev, .kept = s->kept};
}

int sources_plan(sources *s, const problem *on, wavelet_steps steps, error *e) {
  const config *c = on->config;
  const int count = c->source_count;
  sources_forget(s);
  s->dev = on->dev, s->slab = on->slab, s->dt = steps.dt, s->steps = steps.count;
  if (count == 0) return 0;
  const source_config **sorted = sources_alloc((size_t)count, sizeof *sorted, e);
  source_spread *w = s->planned = sources_alloc(1, sizeof *w, e);
  for (int i = 0; sorted && i < count; i++) sorted[i] = &c->sources[i];
  if (sorted) qsort(sorted, (size_t)count, sizeof *sorted, sources_by_wavelet);
  if (!e->id) sources_spread_all(w, c, s->slab, e);
  if (!error_agree(e, on->files->compute) && !sources_read_tables(s, sorted, count, on->files, e)) {
    if (!sources_study(s, sorted, c, e) && !sources_number_signals(s, w, c, sorted, e) &&
        !sources_list_points(s, w, e))
      sources_drop_tables(s, e);
    error_agree(e, on->files->compute);
  }
  free(sorted);
  return e->id;
}

int sources_check(const sources *s, const config *c, error *e) {
  for (int i = 0; s->uses && i < c->source_count && s->steps > 0; i++)
    if (s->uses[i].begin >= s->uses[i].end)
      return FAIL(e, WAVELET_UNUSED, c->sources[i].wavelet_file, s->dt * (double)(s->steps - 1));
  return 0;
}

static size_t sources_ring_bytes(const sources *s) {
  return SOURCE_RING * (size_t)s->signal_count * sizeof *s->ring;
}

int sources_open(sources *s, error *e) {
  if (s->point_count == 0) return 0;
  const device_table *t = s->dev->table;
  const source_spread *w = s->planned;
  const size_t points = (size_t)s->point_count * sizeof *s->points,
               shares = (size_t)s->share_count * sizeof *s->shares;
  TRY(device_reserve(s->dev, &s->kept.points, points, MEMORY_DEVICE, e));
  TRY(device_reserve(s->dev, &s->kept.shares, shares, MEMORY_DEVICE, e));
  TRY(device_reserve(s->dev, &s->kept.ring, sources_ring_bytes(s), MEMORY_PINNED, e));
  s->points = s->kept.points.memory, s->shares = s->kept.shares.memory, s->ring = s->kept.ring.memory;
  if (!(s->ring_step = sources_alloc(SOURCE_RING, sizeof *s->ring_step, e))) return e->id;
  for (int i = 0; i < SOURCE_RING; i++) s->ring_step[i] = -1;
  TRY(t->copy(s->dev, STREAM_BOUNDARY, &(copy_args){s->points, w->points, points, COPY_TO_DEVICE}, e));
  TRY(t->copy(s->dev, STREAM_BOUNDARY, &(copy_args){s->shares, w->shares, shares, COPY_TO_DEVICE}, e));
  TRY(t->sync(s->dev, STREAM_BOUNDARY, e));
  sources_spread_free(s->planned);
  s->planned = NULL;
  return 0;
}

void sources_bytes(const sources *s, size_t *on_device, size_t *pinned) {
  *on_device = (size_t)s->point_count * sizeof *s->points + (size_t)s->share_count * sizeof *s->shares;
  *pinned = sources_ring_bytes(s);
}

void sources_close(sources *s) {
  if (s->dev) {
    device_release(s->dev, &s->kept.points, MEMORY_DEVICE);
    device_release(s->dev, &s->kept.shares, MEMORY_DEVICE);
    device_release(s->dev, &s->kept.ring, MEMORY_PINNED);
  }
  sources_forget(s);
}

/* --- a step ----------------------------------------------------------------------------------------------------- */

/* The signals of a step, computed at the first call for it. Kernels read them from pinned memory: a copy would need a
 * stream of its own to wait for. Kernels run late, but no signal is overwritten before it is read: the place of `step`
 * held step - SOURCE_RING, and at most 16 steps are unfinished (two passes of at most WAVEFRONT_DEPTH_MAX steps). */
static const float *sources_signals(sources *s, int64_t step) {
  const int slot = (int)(step % SOURCE_RING);
  float *signals = s->ring + (size_t)slot * (size_t)s->signal_count;
  if (s->ring_step[slot] == step) return signals;
  for (int i = 0; i < s->signal_count; i++) signals[i] = wavelet_value(&s->signals[i], s->dt, step);
  s->ring_step[slot] = step;
  return signals;
}

int sources_apply(sources *s, int stream, const kernel_args *args, int64_t step, error *e) {
  if (s->point_count == 0) return 0;
  const int begin = s->plane_begin[args->z_begin + s->reach], end = s->plane_begin[args->z_end + s->reach];
  if (begin == end) return 0;
  const inject_args inject = {.field = *args,
                              .points = s->points + begin,
                              .count = end - begin,
                              .shares = s->shares,
                              .signal = sources_signals(s, step)};
  return s->dev->table->apply(s->dev, stream, &operation_inject, &inject, e);
}

void sources_of_pass(sources *s, int64_t step, int steps, wavefront_sources *pass) {
  *pass = (wavefront_sources){.points = s->points, .shares = s->shares};
  if (s->point_count == 0) return;
  pass->plane_begin = s->plane_begin + s->reach;
  for (int k = 0; k < steps; k++) pass->signal[k] = sources_signals(s, step + k);
}
