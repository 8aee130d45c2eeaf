#include "surplus.h"
#include <string.h>
#include "base/numbers.h"

/* Takes a range of `memory`; NULL: only counts its bytes. */
static float *surplus_deal(char *memory, size_t *taken, ptrdiff_t floats) {
  float *at = memory ? (float *)(memory + *taken) : NULL;
  *taken += round_up((size_t)floats, SLAB_ALIGN) * sizeof(float);
  return at;
}

/* Tells launches where the layers are. */
static surplus_layers surplus_layers_of(const absorb *layers, const slab *s) {
  surplus_layers l = {.width = layers->args.width, .nx = s->nx, .ny = s->ny, .nz = s->nz};
  memcpy(l.axis, layers->args.axis, sizeof l.axis);
  return l;
}

static bool surplus_any(const surplus_layers *l) {
  int width = 0;
  for (int i = 0; i < ABSORB_AXES; i++) width += l->axis[i].lo + l->axis[i].hi;
  return width > 0;
}

/* Divides `memory` among the arrays. Returns its bytes, 0 where there are no layers. */
static size_t surplus_deal_out(surplus_args *a, int memories, char *memory) {
  surplus_layers *l = &a->layers;
  const ptrdiff_t nx = l->nx, ny = l->ny, planes = l->nz + 2 * RADIUS;
  const surplus_region region = surplus_region_of(l, 0, l->nz);
  const ptrdiff_t points = surplus_count(&region, 0, l->nz);
  ptrdiff_t along_z = 0;
  size_t taken = 0;
  if (!surplus_any(l)) return 0;
  for (int z = -RADIUS; z < l->nz + RADIUS; z++) along_z += surplus_locate(&l->axis[2], z).inward != 0;
  l->chi[0] = surplus_deal(memory, &taken, planes * ny * (l->axis[0].lo + l->axis[0].hi));
  l->chi[1] = surplus_deal(memory, &taken, planes * (l->axis[1].lo + l->axis[1].hi) * nx);
  l->chi[2] = surplus_deal(memory, &taken, along_z * ny * nx);
  a->missing = surplus_deal(memory, &taken, points);
  a->before = surplus_deal(memory, &taken, points);
  if (memories) a->last = surplus_deal(memory, &taken, points);
  for (int i = 0; i < memories; i++) a->memory[i] = surplus_deal(memory, &taken, points);
  return taken;
}

size_t surplus_bytes(const config *c, const slab *s, int memories) {
  absorb layers;
  absorb_plan(&layers, &(problem){.slab = s, .config = c});
  surplus_args a = {.layers = surplus_layers_of(&layers, s)};
  return surplus_deal_out(&a, memories, NULL);
}

int surplus_open(surplus *u, const problem *on, absorb *layers, int memories, error *e) {
  void *memory;
  *u = (surplus){.dev = on->dev, .layers = layers, .args.layers = surplus_layers_of(layers, on->slab)};
  u->bytes = surplus_deal_out(&u->args, memories, NULL);
  if (!u->bytes) return 0;
  TRY(on->dev->table->alloc(on->dev, &memory, u->bytes, MEMORY_DEVICE, e));
  u->memory = memory;
  surplus_deal_out(&u->args, memories, u->memory);
  return 0;
}

void surplus_close(surplus *u) {
  error ignored = {0};
  if (u->memory) u->dev->table->free(u->dev, u->memory, MEMORY_DEVICE, &ignored);
  *u = (surplus){.dev = NULL};
}

int surplus_clear(surplus *u, error *e) {
  u->args.steps = 0;
  if (!u->memory) return 0;
  TRY(absorb_zero(u->layers, u->memory, u->bytes, e));
  return u->dev->table->sync(u->dev, STREAM_BOUNDARY, e);
}

static int surplus_apply(surplus *u, int stream, const kernel_args *args, zrange planes, error *e) {
  u->args.layers.ny = args->ny; /* a later batch may have fewer rows */
  surplus_args a = u->args;
  const absorb_axis *z = &a.layers.axis[2];
  a.field = *args;
  a.field.z_begin = larger(planes.begin, z->lo ? -z->origin : planes.begin);
  a.field.z_end = smaller(planes.end, z->hi ? z->points - z->origin : planes.end);
  return u->dev->table->apply(u->dev, stream, &operation_surplus, &a, e);
}

int surplus_after_step(surplus *u, int stream, const kernel_args *args, const float *mu, zrange planes,
                       bool holds, error *e) {
  surplus_args *a = &u->args;
  if (!u->memory) return 0;
  a->seen[a->steps++] = (surplus_seen){mu, args->terms.recalled};
  if (holds && a->steps < SURPLUS_STEPS) return 0;
  a->kind = SURPLUS_STEP;
  surplus_apply(u, stream, args, planes, e);
  a->steps = 0;
  return e->id;
}

static int surplus_whole(surplus *u, enum surplus_kind kind, const kernel_args *args, error *e) {
  u->args.kind = kind;
  TRY(surplus_apply(u, STREAM_BOUNDARY, args, (zrange){0, args->nz}, e));
  return u->dev->table->sync(u->dev, STREAM_BOUNDARY, e);
}

int surplus_end(surplus *u, const kernel_args *args, float *mu, float *after, error *e) {
  if (!u->memory) return 0;
  u->args.mu = mu, u->args.after = after;
  return surplus_whole(u, SURPLUS_END, args, e);
}

int surplus_at_rest(surplus *u, enum surplus_kind kind, const kernel_args *args, float *field, error *e) {
  if (!u->memory) return 0;
  surplus rest = *u;
  rest.args.mu = field;
  for (int i = 0; i < ABSORB_AXES; i++)
    rest.args.layers.axis[i].coefficients = absorb_rest_coefficients(u->layers, i);
  return surplus_whole(&rest, kind, args, e);
}
