#include "sampler.h"
#include <stdlib.h>
#include <string.h>
#include "base/numbers.h"

enum { BUFFER_BYTES = 2 << 20 /* a half */ };

/* --- opening and closing ---------------------------------------------------------------------------------------- */

static size_t sampler_row_bytes(const sampler *r) {
  return (size_t)r->local * sizeof(float);
}

/* Frees all but the memory of the device. */
static void sampler_forget(sampler *r) {
  free(r->of);
  *r = (sampler){.dev = r->dev, .kept = r->kept};
}

static void sampler_size_buffer(sampler *r, int pass) {
  r->buffer_rows = r->local ? BUFFER_BYTES / (int64_t)sampler_row_bytes(r) : 1;
  if (r->buffer_rows < pass) r->buffer_rows = pass;
  r->buffer_rows = smaller64(r->buffer_rows, r->all);
}

int sampler_plan(sampler *r, receivers *const *of, int count, const problem *on, int rows, error *e) {
  int pass = 1;
  sampler_forget(r);
  r->dev = on->dev, r->slab = on->slab, r->count = count, r->rows = rows;
  TRY(ALLOC(e, r->of, count, "the receivers"));
  for (int i = 0; i < count; i++) {
    const receivers *p = r->of[i] = of[i];
    r->extra = larger64(r->extra, p->time.extra), r->local += p->local;
    if (!p->count) continue;
    r->every = p->every, r->first_step = p->first_step, r->taken = p->taken, r->all = p->rows;
    pass = larger(pass, p->pass);
  }
  for (int i = 0; i < count; i++) {
    receivers *p = of[i];
    if (r->every) p->capacity += (r->extra - p->time.extra) / r->every;
    p->time.extra = r->extra;
  }
  if (r->every) r->all += r->extra / r->every;
  sampler_size_buffer(r, pass);
  return 0;
}

/* Copies the receivers' places to the device, shot after shot. */
static int sampler_put_places(sampler *r, error *e) {
  const size_t bytes = (size_t)r->local * sizeof *r->places;
  point_weights *all;
  int n = 0;
  TRY(ALLOC(e, all, r->local, "the receivers"));
  for (int i = 0; i < r->count; i++)
    for (int k = 0; k < r->of[i]->local; k++) {
      all[n] = r->of[i]->own[k];
      all[n++].y += i * r->rows;
    }
  r->places = r->kept.places.memory;
  if (!r->dev->table->copy(r->dev, STREAM_BOUNDARY, &(copy_args){r->places, all, bytes, COPY_TO_DEVICE}, e))
    r->dev->table->sync(r->dev, STREAM_BOUNDARY, e);
  free(all);
  return e->id;
}

int sampler_open(sampler *r, error *e) {
  size_t on_device, pinned;
  for (int i = 0; i < r->count; i++) TRY(receivers_open(r->of[i], e));
  if (r->local == 0) return 0;
  const device_table *t = r->dev->table;
  const size_t places = (size_t)r->local * sizeof *r->places;
  sampler_bytes(r, &on_device, &pinned);
  if (!r->kept.copied[0]) TRY(t->make_events(r->dev, r->kept.copied, 2, false, e));
  TRY(device_reserve(r->dev, &r->kept.places, places, MEMORY_DEVICE, e));
  TRY(device_reserve(r->dev, &r->kept.buffer, pinned, MEMORY_DEVICE, e));
  TRY(device_reserve(r->dev, &r->kept.staging, pinned, MEMORY_PINNED, e));
  r->buffer = r->kept.buffer.memory, r->staging = r->kept.staging.memory;
  return sampler_put_places(r, e);
}

void sampler_bytes(const sampler *r, size_t *on_device, size_t *pinned) {
  *pinned = 2 * (size_t)r->buffer_rows * sampler_row_bytes(r);
  *on_device = *pinned + (size_t)r->local * sizeof *r->places;
}

void sampler_close(sampler *r) {
  if (r->dev) {
    device_release(r->dev, &r->kept.places, MEMORY_DEVICE);
    device_release(r->dev, &r->kept.buffer, MEMORY_DEVICE);
    device_release(r->dev, &r->kept.staging, MEMORY_PINNED);
    r->dev->table->unmake_events(r->dev, r->kept.copied, 2);
  }
  sampler_forget(r);
  r->kept = (sampler_memory){0};
}

/* --- sampling --------------------------------------------------------------------------------------------------- */

bool sampler_due(const sampler *r, int64_t step) {
  return r->every > 0 && step >= r->first_step && step % r->every == 0 && step / r->every < r->all;
}

/* Where a half begins, in floats. */
static size_t sampler_half(const sampler *r, int half) {
  return half ? (size_t)r->buffer_rows * (size_t)r->local : 0;
}

static void sampler_put_row(const receivers *r, const float *from, int64_t row) {
  const traces t = receivers_traces(r);
  float *to;
  for (int64_t i = 0, count; i < r->local; i += count) {
    count = traces_piece(&t, row % r->capacity, i, &to);
    memcpy(to, from + i, (size_t)count * sizeof *to);
  }
}

/* Adds the next `rows` rows of the other half to the traces, once its copy has come. */
static int sampler_move_rows(sampler *r, int64_t rows, error *e) {
  if (rows == 0) return 0;
  TRY(r->dev->table->sync_event(r->dev, r->kept.copied[!r->half], e));
  const int64_t first = r->taken - r->buffered - r->moving + r->moved;
  const float *from = r->staging + sampler_half(r, !r->half) + (size_t)r->moved * (size_t)r->local;
  for (int64_t i = 0; i < rows; i++) {
    for (int k = 0; k < r->count; from += r->of[k++]->local) sampler_put_row(r->of[k], from, first + i);
  }
  r->moved += rows;
  return 0;
}

/* Starts the copy of the full half to the host, and continues with the other half, whose rows it first moves out. */
static int sampler_turn_over(sampler *r, error *e) {
  const device_table *t = r->dev->table;
  const size_t at = sampler_half(r, r->half), bytes = (size_t)r->buffered * sampler_row_bytes(r);
  TRY(sampler_move_rows(r, r->moving - r->moved, e));
  TRY(t->copy(r->dev, r->stream, &(copy_args){r->staging + at, r->buffer + at, bytes, COPY_TO_HOST}, e));
  TRY(t->record(r->dev, r->stream, r->kept.copied[r->half], e));
  r->moving = r->buffered;
  r->moved = r->buffered = 0;
  r->half = !r->half;
  return 0;
}

int sampler_flush(sampler *r, error *e) {
  if (r->buffered > 0) TRY(sampler_turn_over(r, e));
  TRY(sampler_move_rows(r, r->moving - r->moved, e));
  for (int i = 0; i < r->count; i++) r->of[i]->taken = r->taken;
  return 0;
}

/* Reserves so many rows in the half being filled. */
static int sampler_make_room(sampler *r, int64_t rows, error *e) {
  return r->buffered + rows > r->buffer_rows ? sampler_turn_over(r, e) : 0;
}

/* The next row of the half being filled, for the samples of `step`; NULL where this rank has no receivers. */
static float *sampler_next_row(sampler *r, int64_t step) {
  r->taken = step / r->every + 1;
  return r->local ? r->buffer + sampler_half(r, r->half) + (size_t)r->buffered++ * (size_t)r->local : NULL;
}

/* Moves as many rows to the traces as were just sampled, one at a time, which delays the steps only briefly. After two
 * rows the copy has had time to end. */
static int sampler_move_some(sampler *r, int64_t rows, error *e) {
  const int64_t left = r->moving - r->moved;
  return r->buffered > 1 + rows ? sampler_move_rows(r, rows < left ? rows : left, e) : 0;
}

int sampler_of_pass(sampler *r, int64_t step, int steps, wavefront_receivers *pass, error *e) {
  int rows = 0;
  const receivers *of = r->of[0];
  *pass = (wavefront_receivers){.places = r->places, .row = of->row, .layer_begin = of->layer_begin};
  for (int k = 0; k < steps - 1; k++) rows += sampler_due(r, step + k + 1);
  if (r->local) TRY(sampler_make_room(r, rows, e));
  for (int k = 0; k < steps - 1; k++)
    if (sampler_due(r, step + k + 1)) pass->samples[k] = sampler_next_row(r, step + k + 1);
  return sampler_move_some(r, rows, e);
}

int sampler_sample(sampler *r, const float *field, int64_t step, error *e) {
  if (!sampler_due(r, step)) return 0;
  if (r->local) TRY(sampler_make_room(r, 1, e));
  sample_args sample = {.field = field,
                        .sigma = r->sigma,
                        .adjoint = r->adjoint_layers != NULL,
                        .pitch = r->slab->pitch,
                        .plane = r->slab->plane,
                        .ny = r->slab->ny,
                        .nx = r->slab->nx,
                        .receivers = r->places,
                        .count = r->local,
                        .samples = sampler_next_row(r, step)};
  if (r->adjoint_layers) sample.layers = *r->adjoint_layers;
  if (r->local == 0) return 0;
  TRY(r->dev->table->apply(r->dev, r->stream, &operation_sample, &sample, e));
  return sampler_move_some(r, 1, e);
}

/* --- as an observer ---------------------------------------------------------------------------------------------- */

static int64_t sampler_limit(const void *self, int64_t step) {
  const sampler *r = self;
  return observer_every(r->every, step);
}

static int sampler_look(void *self, const float *field, int64_t step, int stream, error *e) {
  sampler *r = self;
  r->stream = stream;
  return sampler_sample(r, field, step, e);
}

static int sampler_within(void *self, wavefront_args *pass, int64_t step, int steps, error *e) {
  return sampler_of_pass(self, step, steps, &pass->receivers, e);
}

observer sampler_observer(sampler *r) {
  return (observer){
      .self = r, .extra = true, .limit = sampler_limit, .look = sampler_look, .within = sampler_within};
}
