#include "fields.h"
#include <stdio.h>
#include "absorb.h"
#include "physics.h"

static void fields_add_slab(field_set *f, const config *c, const slab *s, field like) {
  field *to = &f->list[f->count++];
  *to = like;
  for (int axis = 0; axis < 3; axis++) to->shape[2 - axis] = config_axis_of(c, axis).points;
  to->count = 1;
  to->slices[0] = (field_slice){.global = s->z0, .held = s->nz, .owned = s->nz};
}

static void fields_add_maps(field_set *f, const config *c, const slab *s) {
  static const char *const NAMES[] = {"map_max", "map_min", "map_high", "map_low"};
  for (int i = 0; i < MAP_DFT + 2 * config_frequencies(c); i++) {
    field map = {.role = FIELD_MAP, .number = i, .saved = true};
    if (i < MAP_DFT)
      snprintf(map.name, sizeof map.name, "%s", NAMES[i]);
    else
      snprintf(map.name, sizeof map.name, "map_%s_%c", i % 2 == MAP_DFT % 2 ? "real" : "imag",
               (char)('1' + (i - MAP_DFT) / 2));
    if (i >= MAP_DFT || config_maps(c, i == MAP_SQUARE_LOW ? MAP_SQUARE : i)) fields_add_slab(f, c, s, map);
  }
}

void fields_plan(field_set *f, const config *c, const slab *s, const absorb *layers) {
  const bool density = config_density_varies(c), absorbs = config_medium_absorbs(c);
  f->count = 0;
  for (int i = 0; i < equation_states(c->equation); i++) {
    field state = {.name = "u", .role = FIELD_STATE, .number = i, .saved = i < EQUATIONS[c->equation].levels};
    if (i == 1) snprintf(state.name, sizeof state.name, "previous");
    if (i > 1) snprintf(state.name, sizeof state.name, "previous_%c", (char)('0' + i));
    fields_add_slab(f, c, s, state);
  }
  for (int i = 0; i < EQUATIONS[c->equation].media; i++)
    if (physics_is_field(c, i)) {
      field medium = {.role = FIELD_MEDIUM, .number = i};
      snprintf(medium.name, sizeof medium.name, "%s", MEDIA[EQUATIONS[c->equation].medium[i]].name);
      fields_add_slab(f, c, s, medium);
    }
  static const char *const TERMS[] = {"V", "sigma", "kappa"};
  for (int i = MEDIUM_V; i < MEDIUM_FIELDS; i++)
    if (i == MEDIUM_LOSSES ? absorbs : density) {
      field term = {.role = FIELD_MEDIUM, .number = i};
      snprintf(term.name, sizeof term.name, "%s", TERMS[i - MEDIUM_V]);
      fields_add_slab(f, c, s, term);
    }
  for (int l = 0; l < c->mechanisms && absorbs; l++) {
    field memory = {.role = FIELD_MEMORY, .number = l, .saved = true};
    snprintf(memory.name, sizeof memory.name, "relaxation_%c", (char)('1' + l));
    fields_add_slab(f, c, s, memory);
  }
  if (density)
    fields_add_slab(f, c, s, (field){.name = "p", .role = FIELD_MEMORY, .number = MEMORY_PRESSURE});
  fields_add_maps(f, c, s);
  absorb_fields(layers, f);
}

size_t field_plane(const field *f, const slab *s) {
  return f->role == FIELD_LAYER ? (size_t)f->shape[1] * (size_t)f->shape[2] : s->plane;
}

size_t fields_floats(const field_set *f, const slab *s) {
  size_t floats = 0;
  for (int i = 0; i < f->count; i++)
    if (f->list[i].role != FIELD_LAYER) floats += slab_floats(s);
  return floats;
}

size_t fields_saved(const field_set *f, const slab *s) {
  size_t floats = 0;
  for (const field *a = f->list; a < f->list + f->count; a++)
    for (int k = 0; a->saved && k < a->count; k++) floats += (size_t)a->slices[k].owned * field_plane(a, s);
  return floats;
}

uint64_t fields_saved_values(const field_set *f) {
  int64_t values = 0;
  for (const field *a = f->list; a < f->list + f->count; a++)
    for (int k = 0; a->saved && k < a->count; k++) values += a->slices[k].owned * a->shape[1] * a->shape[2];
  return (uint64_t)values;
}

double fields_saved_globally(const field_set *f) {
  double floats = 0;
  for (const field *a = f->list; a < f->list + f->count; a++)
    if (a->saved) floats += (double)a->shape[0] * (double)a->shape[1] * (double)a->shape[2];
  return floats;
}
