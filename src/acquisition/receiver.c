#include "receiver.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "config/config.h"
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "place.h"

enum { BATCH_BYTES = 2 << 20 /* a half */ };

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

/* Frees all but the memory of the device. */
static void receivers_forget(receivers *r) {
  free(r->positions);
  free(r->own);
  free(r->index);
  free(r->row);
  free(r->layer_begin);
  scratch_close(&r->held);
  free(r->parts);
  new_file_drop(&r->made, &(error){0});
  *r = (receivers){.dev = r->dev, .kept = r->kept};
}

static void receivers_size_batches(receivers *r, int pass) {
  r->batch_rows = r->local ? BATCH_BYTES / (int64_t)receivers_row_bytes(r) : 1;
  if (r->batch_rows < pass) r->batch_rows = pass;
  r->batch_rows = smaller64(r->batch_rows, receivers_all_rows(r));
}

/* What other ranks have, and the one that has most. */
static int receivers_count_others(receivers *r, int *most, error *e) {
  const MPI_Comm comm = r->files->compute;
  int ranks;
  *most = r->local, r->before = 0;
  MPI_TRY(e, MPI_Comm_size(comm, &ranks));
  if (ranks == 1) return 0; /* threads of it plan several shots at once */
  MPI_TRY(e, mpi_reduce_all(most, 1, MPI_INT, MPI_MAX, comm));
  MPI_TRY(e, MPI_Exscan(&r->local, &r->before, 1, MPI_INT, MPI_SUM, comm));
  if (r->slab->rank == 0) r->before = 0; /* MPI leaves it undefined there */
  return 0;
}

/* Where the traces are going to be. The way back needs two more arrays of about their size. */
static void receivers_plan_traces(receivers *r, int64_t held, int most) {
  const config *c = r->config;
  const int64_t row = larger(most, 1) * (int64_t)sizeof(float), all = receivers_all_rows(r),
                fit = larger64(1, (held ? held : RECEIVERS_HELD) / row);
  r->room = c->timed ? smaller64(all, fit) : all;
  r->in_file = r->room > fit;
  r->width = r->in_file ? larger64(1, fit * most / r->room) : larger(r->local, 1);
  if (r->in_file) r->unallocated = (double)all * r->count * (config_has_gradient(c) ? 3 : 1) * sizeof(float);
}

int receivers_take(const receivers *r, scratch *s, size_t bytes, error *e) {
  error unseen = {0};
  if (r->in_file && bytes && !scratch_open(s, r->config->output_path, bytes, &unseen)) return 0;
  if (unseen.id == ERROR_SCRATCH_SPACE) *e = unseen;
  return e->id ? e->id : scratch_open(s, NULL, bytes, e);
}

int receivers_plan(receivers *r, const problem *on, const exact_time *time, receivers_span span, error *e) {
  const config *c = on->config;
  receivers_forget(r);
  r->dev = on->dev, r->slab = on->slab, r->config = c, r->files = on->files;
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
  receivers_size_batches(r, span.pass);
  return error_agree(e, r->files->compute);
}

int receivers_join(receivers *r, receivers **parts, int count, device *dev, const slab *slab, error *e) {
  receivers_forget(r);
  r->dev = dev, r->slab = slab, r->parts = parts, r->part_count = count;
  for (int i = 0; i < count; i++) {
    const receivers *p = parts[i];
    if (p->count) r->every = p->every, r->rows = p->rows;
    r->time.extra = larger64(r->time.extra, p->time.extra);
    r->count += p->count, r->local += p->local;
  }
  for (int i = 0; i < count; i++) { /* all take the extra steps of one */
    parts[i]->room += (r->time.extra - parts[i]->time.extra) / larger64(r->every, 1);
    parts[i]->time.extra = r->time.extra;
  }
  if (r->local == 0) return 0;
  receivers_size_batches(r, 1);
  TRY(ALLOC(e, r->own, r->local, "the receivers"));
  for (int i = 0, n = 0; i < count; i++)
    for (int k = 0; k < parts[i]->local; k++) {
      r->own[n] = parts[i]->own[k];
      r->own[n++].y = i;
    }
  return 0;
}

/* What they sample, and what becomes of it. */
static int receivers_open_traces(receivers *r, error *e) {
  for (int i = 0; i < r->part_count; i++) TRY(receivers_open_traces(r->parts[i], e));
  r->unallocated = 0;
  if (r->part_count || r->local == 0) return 0;
  TRY(receivers_take(r, &r->held, (size_t)r->room * receivers_row_bytes(r), e));
  const traces t = receivers_traces(r);
  for (int64_t row = 0; row < r->taken; row++)
    for (int i = 0; i < r->local; i++) *traces_at(&t, row, i) = NAN;
  return 0;
}

int receivers_open(receivers *r, error *e) {
  TRY(receivers_open_traces(r, e));
  if (r->local == 0) return 0;
  const device_table *t = r->dev->table;
  const receivers_size n = receivers_bytes(r);
  const size_t places = (size_t)r->local * sizeof *r->own;
  if (!r->kept.copied[0]) TRY(t->make_events(r->dev, r->kept.copied, 2, false, e));
  TRY(device_reserve(r->dev, &r->kept.places, places, MEMORY_DEVICE, e));
  TRY(device_reserve(r->dev, &r->kept.batch, n.pinned, MEMORY_DEVICE, e));
  TRY(device_reserve(r->dev, &r->kept.staging, n.pinned, MEMORY_PINNED, e));
  r->places = r->kept.places.memory, r->batch = r->kept.batch.memory, r->staging = r->kept.staging.memory;
  TRY(t->copy(r->dev, STREAM_BOUNDARY, &(copy_args){r->places, r->own, places, COPY_TO_DEVICE}, e));
  return t->sync(r->dev, STREAM_BOUNDARY, e);
}

receivers_size receivers_bytes(const receivers *r) {
  const size_t batches = 2 * (size_t)r->batch_rows * receivers_row_bytes(r);
  return (receivers_size){.pinned = batches,
                          .on_device = batches + (size_t)r->local * sizeof *r->places,
                          .traces = (size_t)r->room * receivers_row_bytes(r)};
}

double receivers_disk_bytes(const receivers *r) {
  return (double)receivers_file_bytes(r) + r->unallocated;
}

void receivers_close(receivers *r) {
  if (r->dev) {
    device_release(r->dev, &r->kept.places, MEMORY_DEVICE);
    device_release(r->dev, &r->kept.batch, MEMORY_DEVICE);
    device_release(r->dev, &r->kept.staging, MEMORY_PINNED);
    r->dev->table->unmake_events(r->dev, r->kept.copied, 2);
  }
  receivers_forget(r);
  r->kept = (receivers_memory){0};
}

/* --- sampling --------------------------------------------------------------------------------------------------- */

int64_t receivers_all_rows(const receivers *r) {
  return r->count ? r->rows + r->time.extra / r->every : 0;
}

bool receivers_due(const receivers *r, int64_t step) {
  return r->count > 0 && step >= r->first_step && step % r->every == 0 &&
         step / r->every < receivers_all_rows(r);
}

/* Where a half begins, in floats. */
static size_t receivers_half(const receivers *r, int half) {
  return half ? (size_t)r->batch_rows * (size_t)r->local : 0;
}

/* Adds a row to the traces. */
static void receivers_put_row(const receivers *r, const float *from, int64_t row) {
  const traces t = receivers_traces(r);
  float *to;
  for (int64_t i = 0, count; i < r->local; i += count) {
    count = traces_piece(&t, row % r->room, i, &to);
    memcpy(to, from + i, (size_t)count * sizeof *to);
  }
}

/* Adds a row to the traces of the parts. */
static void receivers_deal_out(receivers *r, const float *from, int64_t row) {
  for (int i = 0; i < r->part_count; i++) {
    receivers *p = r->parts[i];
    receivers_put_row(p, from, row);
    p->taken = row + 1;
    from += p->local;
  }
}

/* Adds the next `rows` rows of the other half to the traces, once its copy has come. */
static int receivers_move_rows(receivers *r, int64_t rows, error *e) {
  if (rows == 0) return 0;
  TRY(r->dev->table->sync_event(r->dev, r->kept.copied[!r->half], e));
  const size_t local = (size_t)r->local;
  const int64_t first = r->taken - r->batched - r->moving + r->moved;
  const float *from = r->staging + receivers_half(r, !r->half) + (size_t)r->moved * local;
  for (int64_t i = 0; i < rows; i++) {
    if (r->part_count)
      receivers_deal_out(r, from, first + i);
    else
      receivers_put_row(r, from, first + i);
    from += local;
  }
  r->moved += rows;
  return 0;
}

/* Begins to copy the half that is full to the host, and to fill the other one, whose rows are first moved out. */
static int receivers_turn_over(receivers *r, error *e) {
  const device_table *t = r->dev->table;
  const size_t at = receivers_half(r, r->half), bytes = (size_t)r->batched * receivers_row_bytes(r);
  TRY(receivers_move_rows(r, r->moving - r->moved, e));
  TRY(t->copy(r->dev, r->stream, &(copy_args){r->staging + at, r->batch + at, bytes, COPY_TO_HOST}, e));
  TRY(t->record(r->dev, r->stream, r->kept.copied[r->half], e));
  r->moving = r->batched;
  r->moved = r->batched = 0;
  r->half = !r->half;
  return 0;
}

int receivers_flush(receivers *r, error *e) {
  if (r->batched > 0) TRY(receivers_turn_over(r, e));
  return receivers_move_rows(r, r->moving - r->moved, e);
}

/* Makes room for so many rows in the half being filled. */
static int receivers_make_room(receivers *r, int64_t rows, error *e) {
  return r->batched + rows > r->batch_rows ? receivers_turn_over(r, e) : 0;
}

/* The next row of the half being filled, for the samples of `step`; NULL where this rank has no receivers. */
static float *receivers_next_row(receivers *r, int64_t step) {
  r->taken = step / r->every + 1;
  return r->local ? r->batch + receivers_half(r, r->half) + (size_t)r->batched++ * (size_t)r->local : NULL;
}

/* Moves as many rows to the traces as were just sampled: one at a time keeps the host away from the steps only briefly.
 * After two rows the copy has had time to end. */
static int receivers_move_some(receivers *r, int64_t rows, error *e) {
  const int64_t left = r->moving - r->moved;
  return r->batched > 1 + rows ? receivers_move_rows(r, rows < left ? rows : left, e) : 0;
}

int receivers_of_pass(receivers *r, int64_t step, int steps, wavefront_receivers *pass, error *e) {
  int rows = 0;
  *pass = (wavefront_receivers){.places = r->places, .row = r->row, .layer_begin = r->layer_begin};
  for (int k = 0; k < steps - 1; k++) rows += receivers_due(r, step + k + 1);
  if (r->local) TRY(receivers_make_room(r, rows, e));
  for (int k = 0; k < steps - 1; k++)
    if (receivers_due(r, step + k + 1)) pass->samples[k] = receivers_next_row(r, step + k + 1);
  return receivers_move_some(r, rows, e);
}

int receivers_sample(receivers *r, const float *field, int64_t step, error *e) {
  if (!receivers_due(r, step)) return 0;
  if (r->local) TRY(receivers_make_room(r, 1, e));
  sample_args sample = {.field = field,
                        .sigma = r->sigma,
                        .back = r->back != NULL,
                        .pitch = r->slab->pitch,
                        .plane = r->slab->plane,
                        .ny = r->slab->ny,
                        .nx = r->slab->nx,
                        .receivers = r->places,
                        .count = r->local,
                        .samples = receivers_next_row(r, step)};
  if (r->back) sample.layers = *r->back;
  if (r->local == 0) return 0;
  TRY(r->dev->table->apply(r->dev, r->stream, &operation_sample, &sample, e));
  return receivers_move_some(r, 1, e);
}

/* --- writing ---------------------------------------------------------------------------------------------------- */

traces receivers_traces(const receivers *r) {
  return (traces){r->held.memory, r->taken, r->local, r->width, r->room};
}

/* What the file says of itself, with so many samples. */
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
  if (r->count == 0 || r->part_count || !files_alone(r->files)) return 0;
  const receivers_meta meta = receivers_describe(r, run, r->rows);
  r->made_step = run->step;
  return receivers_file_create(&r->made, path, &meta, e);
}

int receivers_write(receivers *r, const char *path, const run_meta *run, error *e) {
  if (r->count == 0) return 0;
  if (r->part_count) return receivers_flush(r, e); /* they write */
  receivers_flush(r, e);
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

/* --- as an observer --------------------------------------------------------------------------------------------- */

/* Straight from the traces, which hold a row a sample: what was sampled before is not touched by what is sampled
 * meanwhile. */
static int receivers_rows_from(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const observed *p = context;
  const receivers *r = p->self;
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
  const observed *p = context;
  const receivers *r = p->self;
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

static int64_t receivers_limit(const void *self, int64_t step) {
  const receivers *r = self;
  return observer_every(r->every, step);
}

static int receivers_look(void *self, const float *field, int64_t step, int stream, error *e) {
  receivers *r = self;
  r->stream = stream;
  return receivers_sample(r, field, step, e);
}

static int receivers_within(void *self, wavefront_args *pass, int64_t step, int steps, error *e) {
  return receivers_of_pass(self, step, steps, &pass->receivers, e);
}

/* All samples so far, of the receivers of all ranks, rank after rank: so they are in the same order for any number of
 * ranks. */
static int receivers_array(void *self, checkpoint_array *array, observed *part, error *e) {
  receivers *r = self;
  *part = (observed){r, r->taken};
  *array = (checkpoint_array){.name = "traces",
                              .type = CHECKPOINT_FLOAT,
                              .axes = 2,
                              .shape = {r->count, part->count},
                              .first = r->before,
                              .count = r->local,
                              .source = receivers_rows_from,
                              .sink = receivers_rows_to,
                              .context = part};
  return receivers_flush(r, e);
}

static int receivers_finish(void *self, const char *path, const run_meta *run, error *e) {
  return receivers_write(self, path, run, e);
}

observer receivers_observer(receivers *r) {
  return (observer){.self = r,
                    .extra = true,
                    .limit = receivers_limit,
                    .look = receivers_look,
                    .within = receivers_within,
                    .array = receivers_array,
                    .finish = receivers_finish};
}
