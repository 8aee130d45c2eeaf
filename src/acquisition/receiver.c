#include "receiver.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "config/config.h"
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "place.h"

/* --- where they are --------------------------------------------------------------------------------------------- */

/* Fills `positions` on every rank. */
static int receivers_find_positions(receivers *r, const config *c, error *e) {
  if (c->receivers == RECEIVERS_FILE)
    return place_read(r->files, c, c->receivers_file, &r->positions, &r->count, e);
  if (!ALLOC(e, r->positions, c->receiver_count, "the receivers"))
    memcpy(r->positions, c->receiver_positions, (size_t)c->receiver_count * sizeof *r->positions);
  r->count = c->receiver_count;
  return error_agree(e, r->files->compute);
}

/* A receiver and its sort key. */
typedef struct receivers_placed {
  int layer, row, index; /* wavefront_receivers; receivers.index */
} receivers_placed;

static int receivers_by_layer(const void *a, const void *b) {
  const receivers_placed *p = a, *q = b;
  if (p->layer != q->layer) return p->layer < q->layer ? -1 : 1;
  if (p->row != q->row) return p->row < q->row ? -1 : 1;
  return p->index < q->index ? -1 : 1;
}

/* The grid points of a receiver, in planes of this slab. */
static void receivers_weigh(const receivers *r, const place p[3], point_weights *w) {
  place_weigh(r->config, p, r->config->receivers_interpolation, false, w);
  w->z -= r->slab->z0;
}

/* Places one receiver on this slab; false where it belongs to another rank. */
static bool receivers_place_own(const receivers *r, int index, receivers_placed *own) {
  place p[3];
  point_weights w;
  place_in_grid(r->config, r->positions[index], p);
  const int z = p[2].index - r->slab->z0, ny = r->slab->ny;
  if (z < 0 || z >= r->slab->nz) return false;
  receivers_weigh(r, p, &w);
  const int row = w.y + w.ny <= ny ? w.y + w.ny - 1 : ny - 1;
  *own = (receivers_placed){2 * z + (p[2].fraction > 0), row, index};
  return true;
}

/* Keeps this rank's receivers, which are sorted. */
static int receivers_keep_own(receivers *r, const receivers_placed *own, error *e) {
  const int layers = 2 * r->slab->nz;
  TRY(ALLOC(e, r->own, r->local, "the receivers"));
  TRY(ALLOC(e, r->index, r->local, "the receivers"));
  TRY(ALLOC(e, r->row, r->local, "the receivers"));
  TRY(ALLOC(e, r->layer_begin, layers + 1, "the receivers"));
  for (int i = 0; i < r->local; i++) {
    place p[3];
    place_in_grid(r->config, r->positions[own[i].index], p);
    receivers_weigh(r, p, &r->own[i]);
    r->index[i] = own[i].index;
    r->row[i] = own[i].row;
    r->layer_begin[own[i].layer + 1] = i + 1;
  }
  for (int i = 0; i < layers; i++)
    if (r->layer_begin[i + 1] < r->layer_begin[i]) r->layer_begin[i + 1] = r->layer_begin[i];
  return 0;
}

static int receivers_find_own(receivers *r, error *e) {
  receivers_placed *own;
  TRY(ALLOC(e, own, r->count, "the receivers"));
  for (int i = 0; i < r->count; i++) r->local += receivers_place_own(r, i, &own[r->local]);
  qsort(own, (size_t)r->local, sizeof *own, receivers_by_layer);
  receivers_keep_own(r, own, e);
  free(own);
  return e->id;
}

/* --- opening and closing ---------------------------------------------------------------------------------------- */

static size_t receivers_row_bytes(const receivers *r) {
  return (size_t)r->local * sizeof(float);
}

void receivers_close(receivers *r) {
  free(r->positions);
  free(r->own);
  free(r->index);
  free(r->row);
  free(r->layer_begin);
  scratch_close(&r->held);
  new_file_drop(&r->made, &(error){0});
  *r = (receivers){.config = NULL};
}

/* Finds the receivers of other ranks, and the most that one has. */
static int receivers_count_others(receivers *r, int *most, error *e) {
  const MPI_Comm comm = r->files->compute;
  int ranks;
  *most = r->local, r->before = 0;
  MPI_TRY(e, MPI_Comm_size(comm, &ranks));
  if (ranks == 1) return 0; /* threads of a rank alone plan several shots at once */
  MPI_TRY(e, mpi_reduce_all(most, 1, MPI_INT, MPI_MAX, comm));
  MPI_TRY(e, MPI_Exscan(&r->local, &r->before, 1, MPI_INT, MPI_SUM, comm));
  if (r->slab->rank == 0) r->before = 0; /* MPI leaves `before` undefined there */
  return 0;
}

static int64_t receivers_all_rows(const receivers *r) {
  return r->count ? r->rows + r->time.extra / r->every : 0;
}

/* Decides whether the traces lie in memory or in a file. The adjoint needs two more arrays of their size, and
 * weights. */
static void receivers_plan_traces(receivers *r, int64_t held, int most) {
  const config *c = r->config;
  const int64_t row = larger(most, 1) * (int64_t)sizeof(float), all = receivers_all_rows(r),
                fit = larger64(1, (held ? held : RECEIVERS_HELD) / row);
  r->capacity = c->timed ? smaller64(all, fit) : all;
  r->in_file = r->capacity > fit;
  r->width = r->in_file ? larger64(1, fit * most / r->capacity) : larger(r->local, 1);
  const int arrays = (config_has_gradient(c) ? 3 : 1) + (c->gradient_weights[0] != 0);
  if (r->in_file) r->unallocated = (double)all * r->count * arrays * sizeof(float);
}

int receivers_take(const receivers *r, scratch *s, size_t bytes, error *e) {
  error unseen = {0};
  if (r->in_file && bytes && !scratch_open(s, r->config->output_path, bytes, &unseen)) return 0;
  if (unseen.id == ERROR_SCRATCH_SPACE) *e = unseen;
  return e->id ? e->id : scratch_open(s, NULL, bytes, e);
}

int receivers_plan(receivers *r, const problem *on, const exact_time *time, receivers_span span, error *e) {
  const config *c = on->config;
  receivers_close(r);
  r->slab = on->slab, r->config = c, r->files = on->files;
  if (c->receivers == RECEIVERS_NONE) return 0;
  TRY(receivers_find_positions(r, c, e));
  receivers_find_own(r, e);
  r->every = c->receivers_every;
  r->first_step = span.first;
  r->rows = span.last / r->every + 1;
  r->time = *time;
  r->taken = (r->first_step + r->every - 1) / r->every;
  int most;
  TRY(receivers_count_others(r, &most, e));
  receivers_plan_traces(r, span.held, most);
  r->pass = span.pass;
  return error_agree(e, r->files->compute);
}

int receivers_open(receivers *r, error *e) {
  r->unallocated = 0;
  if (r->local == 0) return 0;
  TRY(receivers_take(r, &r->held, receivers_bytes(r), e));
  const traces t = receivers_traces(r);
  for (int64_t row = 0; row < r->taken; row++)
    for (int i = 0; i < r->local; i++) *traces_at(&t, row, i) = NAN;
  return 0;
}

size_t receivers_bytes(const receivers *r) {
  return (size_t)r->capacity * receivers_row_bytes(r);
}

double receivers_disk_bytes(const receivers *r) {
  return (double)receivers_file_bytes(r) + r->unallocated;
}

/* --- sampling --------------------------------------------------------------------------------------------------- */

/* --- writing ---------------------------------------------------------------------------------------------------- */

traces receivers_traces(const receivers *r) {
  return (traces){r->held.memory, r->taken, r->local, r->width, r->capacity};
}

/* The attributes of the file with so many samples. */
static receivers_meta receivers_describe(const receivers *r, const run_meta *run, int64_t samples) {
  return (receivers_meta){.run = *run,
                          .samples = samples,
                          .every = r->every,
                          .receivers = r->count,
                          .sources = r->sources,
                          .replaces = r->replaces,
                          .exact_time = r->time.removed,
                          .positions = (const double(*)[3])r->positions,
                          .source_positions = r->source_positions};
}

int receivers_make_file(receivers *r, const char *path, const run_meta *run, error *e) {
  if (r->count == 0) return 0;
  const receivers_meta meta = receivers_describe(r, run, r->rows);
  r->made_step = run->step;
  const request file = {FILES_CREATE_RECEIVERS, .path = path, .receivers = &meta, .own.creates = &r->made};
  return files_do(r->files, &file, e);
}

int receivers_write(receivers *r, const char *path, const run_meta *run, error *e) {
  if (r->count == 0) return 0;
  const traces all = receivers_traces(r);
  if (!e->id) exact_time_traces(&r->time, &all, false, e);
  const receivers_meta meta = receivers_describe(r, run, smaller64(r->taken, r->rows));
  const receivers_part part = {r->index, all};
  if (run->step != r->made_step) new_file_drop(&r->made, e);
  const request file = {FILES_WRITE_RECEIVERS, .path = path, .receivers = &meta, .own.part = &part,
                        .own.made = r->made.plan.temporary[0] ? &r->made : NULL};
  if (!error_agree(e, r->files->compute)) {
    files_do(r->files, &file, e);
    r->made.plan.temporary[0] = '\0';
  }
  return e->id;
}

/* --- in checkpoints ---------------------------------------------------------------------------------------------- */

/* Reads the traces directly, a row a sample: later samples do not change earlier rows. */
static int receivers_rows_from(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const receivers_sampled *p = context;
  const receivers *r = p->of;
  const traces t = receivers_traces(r);
  float *to = values, *from;
  (void)e;
  for (int64_t sample = 0; sample < p->count; sample++)
    for (int64_t i = 0, end; i < rows; i = end) {
      end = smaller64(rows, i + traces_piece(&t, sample, row - r->before + i, &from));
      for (; i < end; i++) to[i * p->count + sample] = *from++;
    }
  return 0;
}

static int receivers_rows_to(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const receivers_sampled *p = context;
  const receivers *r = p->of;
  const traces t = receivers_traces(r);
  const float *from = values;
  (void)e;
  for (int64_t i = 0; i < rows; i++) {
    float *to = traces_at(&t, 0, row - r->before + i);
    const int64_t apart = traces_apart(&t, row - r->before + i);
    for (int64_t sample = 0; sample < p->count; sample++) to[sample * apart] = *from++;
  }
  return 0;
}

/* The receivers of all ranks, rank after rank: so they are in the same order for any number of ranks. */
void receivers_array(receivers *r, checkpoint_array *array, receivers_sampled *part) {
  *part = (receivers_sampled){r, r->taken};
  *array = (checkpoint_array){.name = "traces",
                              .type = CHECKPOINT_FLOAT,
                              .axes = 2,
                              .shape = {r->count, part->count},
                              .first = r->before,
                              .count = r->local,
                              .source = receivers_rows_from,
                              .sink = receivers_rows_to,
                              .context = part};
}
