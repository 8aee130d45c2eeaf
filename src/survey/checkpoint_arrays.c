#include "checkpoint_arrays.h"
#include "propagator/maps.h"
#include <string.h>

static int arrays_field_from(void *context, int64_t row, int64_t rows, void *values, error *e) {
  field_part *p = context;
  const slab *s = p->transfer->slab;
  const int z = (int)(row - s->z0);
  if (p->copy) {
    snapshot_planes(s, p->copy, z, (int)rows, values);
    return 0;
  }
  transfer t = *p->transfer; /* a copy: this thread sets its `field` */
  t.field = p->field.values;
  return transfer_to_host(&t, z, (int)rows, values, e);
}

static int arrays_field_to(void *context, int64_t row, int64_t rows, void *values, error *e) {
  field_part *p = context;
  transfer t = *p->transfer;
  t.field = p->field.values;
  return transfer_to_device(&t, (int)(row - t.slab->z0), (int)rows, values, e);
}

static size_t arrays_plane_of(const field_part *p) {
  return field_plane(&p->field, p->transfer->slab);
}

static int arrays_layer_copy(field_part *p, int64_t row, void *values, bool in, error *e) {
  const field *s = &p->field;
  const size_t plane = arrays_plane_of(p);
  for (int i = 0; i < s->count; i++) {
    const field_slice *l = &s->slices[i];
    if (row < l->global || row >= l->global + l->held) continue;
    float *on_device = s->values + (size_t)(l->local + (row - l->global)) * plane;
    return transfer_bytes(p->transfer, in ? (void *)on_device : values, in ? values : (void *)on_device,
                          plane * sizeof(float), in ? COPY_TO_DEVICE : COPY_TO_HOST, e);
  }
  return 0;
}

static int arrays_layer_from(void *context, int64_t row, int64_t rows, void *values, error *e) {
  field_part *p = context;
  const size_t plane = arrays_plane_of(p);
  if (p->copy) {
    memcpy(values, p->copy + (size_t)(row - p->first) * plane, (size_t)rows * plane * sizeof(float));
    return 0;
  }
  for (int64_t i = 0; i < rows; i++)
    TRY(arrays_layer_copy(p, row + i, (float *)values + (size_t)i * plane, false, e));
  return 0;
}

static int arrays_layer_to(void *context, int64_t row, int64_t rows, void *values, error *e) {
  field_part *p = context;
  const size_t plane = arrays_plane_of(p);
  for (int64_t i = 0; i < rows; i++)
    TRY(arrays_layer_copy(p, row + i, (float *)values + (size_t)i * plane, true, e));
  return 0;
}

static int arrays_numbers_from(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const numbers_part *p = context;
  (void)row, (void)rows, (void)e;
  memcpy(values, p->numbers, (size_t)p->count * sizeof *p->numbers);
  return 0;
}

static int arrays_numbers_to(void *context, int64_t row, int64_t rows, void *values, error *e) {
  const numbers_part *p = context;
  (void)row, (void)rows, (void)e;
  memcpy(p->numbers, values, (size_t)p->count * sizeof *p->numbers);
  return 0;
}

static void arrays_add_field(checkpoint_arrays *t, propagator *p, const field *f, bool write) {
  const bool layer = f->role == FIELD_LAYER;
  field_part *part = &t->fields[t->field_count++];
  checkpoint_array *array = &t->arrays[t->count++];
  *part = (field_part){.transfer = &p->transfer, .field = *f};
  *array = (checkpoint_array){.type = CHECKPOINT_FLOAT,
                              .axes = 3,
                              .shape = {f->shape[0], f->shape[1], f->shape[2]},
                              .source = layer ? arrays_layer_from : arrays_field_from,
                              .sink = layer ? arrays_layer_to : arrays_field_to,
                              .context = part};
  snprintf(array->name, sizeof array->name, "%s", f->name);
  for (int k = 0; k < f->count; k++) {
    const field_slice *l = &f->slices[k];
    const int first = write ? l->global + l->own : l->global, planes = write ? l->owned : l->held;
    if (planes && !array->count) array->first = first;
    array->count += planes;
  }
  part->first = array->first;
}

static void arrays_copy_field(field_part *p, snapshot *to, error *e) {
  if (p->field.role != FIELD_LAYER) {
    p->copy = snapshot_field(to, p->field.values, e);
    return;
  }
  const size_t plane = arrays_plane_of(p);
  for (int k = 0; k < p->field.count; k++) {
    const field_slice *l = &p->field.slices[k];
    const float *rows = p->field.values + (size_t)(l->local + l->own) * plane;
    const float *copy = snapshot_floats(to, rows, (size_t)l->owned * plane, e);
    if (!p->copy) p->copy = copy; /* the first slice's copy; those of other slices follow */
  }
}

/* Copies the newest field last, because the next step overwrites the other fields, and only a later step the newest. */
static int arrays_copy_state(checkpoint_arrays *t, stepper *p, snapshot *to, error *e) {
  for (int i = t->field_count - 1; i > 0; i--) arrays_copy_field(&t->fields[i], to, e);
  device_event *older = to->used ? snapshot_mark(to, e) : NULL;
  for (int i = 1; older && i < stepper_states(p); i++) p->copying[stepper_ago(p, i)] = older;
  arrays_copy_field(&t->fields[0], to, e);
  p->copying[p->current] = snapshot_mark(to, e);
  return e->id;
}

/* The arrays: "u" and, of a wave, "previous"; "relaxation_1" ... of an absorbing medium; "map_..." of maps; of
 * absorbing layers "psi_x", "psi_y", "psi_z", "zeta_y", "zeta_z", "layer_term_lo", "layer_term_hi"; "traces"; then
 * "saved_steps". */
int checkpoint_arrays_make(checkpoint_arrays *t, propagator *p, bool write, snapshot *copy, error *e) {
  receivers *r = &p->shots[0]->receivers;
  field_set f;
  *t = (checkpoint_arrays){0};
  if (write) TRY(maps_settle(p, e));
  propagator_fields(p, &f);
  for (int i = 0; i < f.count; i++)
    if (f.list[i].saved) arrays_add_field(t, p, &f.list[i], write);
  TRY(sampler_flush(&p->sampler, e));
  if (r->count) receivers_array(r, &t->arrays[t->count++], &t->traces);
  return copy ? arrays_copy_state(t, &p->stepper, copy, e) : 0;
}

void checkpoint_arrays_set_numbers(checkpoint_arrays *t, const char *name, numbers_part row, bool mine) {
  t->numbers = row;
  checkpoint_array *array = &t->arrays[t->count++];
  *array = (checkpoint_array){.type = CHECKPOINT_INT64,
                              .axes = 2,
                              .shape = {1, row.count},
                              .count = mine,
                              .source = arrays_numbers_from,
                              .sink = arrays_numbers_to,
                              .context = &t->numbers};
  snprintf(array->name, sizeof array->name, "%s", name);
}
