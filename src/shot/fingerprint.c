#include "fingerprint.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/numbers.h"
#include "physics/place.h"

void fingerprint_free(fingerprint *f) {
  for (int i = 0; i < f->count; i++) {
    free((char *)(uintptr_t)f->keys[i].key);
    free((char *)(uintptr_t)f->keys[i].value);
  }
  free(f->keys);
}

static void fingerprint_add_key(fingerprint *f, error *e, const char *key, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
static void fingerprint_add_key(fingerprint *f, error *e, const char *key, const char *format, ...) {
  va_list args;
  if (e->id) return;
  if (f->count == f->room) {
    const int room = 2 * f->room + 32;
    if (GROW(e, f->keys, room, "the fingerprint of the run")) return;
    f->room = room;
  }
  char *name = strdup(key), *text = NULL;
  va_start(args, format);
  int length = name ? vasprintf(&text, format, args) : -1;
  va_end(args);
  if (length < 0) {
    free(name);
    FAIL(e, OUT_OF_MEMORY, strlen(key), "the fingerprint of the run");
    return;
  }
  f->keys[f->count++] = (checkpoint_key){name, text};
}

static const char *const FACE_KEYS[FACE_COUNT] = {"[boundary] x_lo", "[boundary] x_hi", "[boundary] y_lo",
                                                  "[boundary] y_hi", "[boundary] z_lo", "[boundary] z_hi"};

static void fingerprint_add_boundaries(fingerprint *f, const config *c, error *e) {
  for (int i = 0; i < FACE_COUNT; i++) {
    if (c->boundary[i] == BOUNDARY_NONE) continue;
    const char *name = boundary_name(c->boundary[i]);
    if (c->boundary[i] == BOUNDARY_FIXED)
      fingerprint_add_key(f, e, FACE_KEYS[i], "%s %.17g", name, c->boundary_value);
    else if (c->boundary[i] == BOUNDARY_ABSORBING)
      fingerprint_add_key(f, e, FACE_KEYS[i], "%s %d", name, c->boundary_width);
    else
      fingerprint_add_key(f, e, FACE_KEYS[i], "%s", name);
  }
}

static void fingerprint_add_range(fingerprint *f, const char *key, const medium_range *r, error *e) {
  if (r->digest)
    fingerprint_add_key(f, e, key, "field from %.9g to %.9g, digest %016" PRIx64, r->min, r->max, r->digest);
  else
    fingerprint_add_key(f, e, key, "%.17g", r->min);
}

static void fingerprint_add_terms(fingerprint *f, const config *c, const model *m, error *e) {
  const bool quality = config_has_medium(c, MEDIUM_QUALITY);
  if (m->needed && c->averaging) fingerprint_add_key(f, e, "[medium] averaging", "on");
  if (config_density_varies(c)) fingerprint_add_range(f, "[medium] density", &m->density, e);
  if (!m->absorbs) return;
  fingerprint_add_range(f, quality ? "[medium] quality" : "[medium] absorption", &m->strength, e);
  for (int l = 0; l < m->fit.count; l++) {
    char key[48];
    snprintf(key, sizeof key, "[medium] relaxation %d", l + 1);
    fingerprint_add_key(f, e, key, "a %.9g, b %.9g, reference %.9g", m->fit.a[l], m->fit.b[l],
                        m->law.reference);
  }
}

static void fingerprint_add_physics(fingerprint *f, const shot *s, error *e) {
  const config *c = s->config;
  fingerprint_add_key(f, e, "[time] dt", "%.17g", s->engine->physics.dt);
  if (equation_has(c->equation, GIVEN_WEIGHTS)) {
    fingerprint_add_key(f, e, "[jacobi] center", "%.17g", c->jacobi_center);
    const double *axes[3] = {c->jacobi_x, c->jacobi_y, c->jacobi_z};
    const char *const keys[3] = {"[jacobi] x", "[jacobi] y", "[jacobi] z"};
    for (int i = 0; i < 3; i++)
      fingerprint_add_key(f, e, keys[i], "%.17g %.17g %.17g %.17g", axes[i][0], axes[i][1], axes[i][2],
                          axes[i][3]);
    return;
  }
  for (int i = 0; i < EQUATIONS[c->equation].media; i++) {
    const medium_range *r = &s->engine->physics.medium[i];
    char key[64];
    snprintf(key, sizeof key, "[medium] %s", MEDIA[EQUATIONS[c->equation].medium[i]].name);
    fingerprint_add_range(f, key, r, e);
  }
  fingerprint_add_terms(f, c, &s->engine->physics.model, e);
  fingerprint_add_key(f, e, "[equation] space_order", "%d", c->space_order);
}

/* Earlier versions knew linear only, and on points the two are one: so linear has no key. */
static void fingerprint_add_interpolation(fingerprint *f, const char *key, enum interpolation_kind how,
                                          bool between, error *e) {
  if (how == INTERPOLATION_SINC && between) fingerprint_add_key(f, e, key, "sinc");
}

static void fingerprint_add_named(fingerprint *f, const config *c, const sources *all, error *e) {
  for (int i = 0; i < c->source_count; i++) {
    const source_config *s = &c->sources[i];
    char key[48];
    snprintf(key, sizeof key, "[source.%d]", s->number);
    fingerprint_add_key(f, e, key, "%.17g %.17g %.17g, wavelet %d %s%s, f0 %.17g, t0 %.17g, amplitude %.17g",
                        s->position[0], s->position[1], s->position[2], (int)s->wavelet, s->wavelet_file,
                        all->uses[i].columns == WAVELET_SPLINE ? " as a spline" : "", s->f0, s->t0,
                        s->amplitude);
    snprintf(key, sizeof key, "[source.%d] on a neumann face", s->number);
    if (sources_mirrored(c, s))
      fingerprint_add_key(f, e, key, "weights are divided by 1/2"); /* as they once were not */
  }
}

/* `rows`: of the signals those that its steps have felt. */
static void fingerprint_add_sources(fingerprint *f, const config *c, const sources *all, int64_t rows,
                                    error *e) {
  const source_set *set = &all->set;
  const bool imposed = c->sources_mode == SOURCES_IMPOSE;
  bool between = false;
  fingerprint_add_named(f, c, all, e);
  for (int i = 0; i < all->count && !between; i++) between = place_is_between(c, all->positions[i]);
  fingerprint_add_interpolation(f, "[sources] interpolation", c->sources_interpolation, between, e);
  if (all->count && c->sources_strength != STRENGTH_NODE)
    fingerprint_add_key(f, e, "[sources] strength", "volume");
  if (set->count == 0) return;
  fingerprint_add_key(f, e, "[sources] positions", "%d, %016" PRIx64, set->count, set->positions_digest);
  fingerprint_add_key(f, e, "[sources] signals", "%s, %d, to this step %016" PRIx64,
                      imposed ? "imposed" : "added", set->columns, source_set_digest(set, rows));
}

static void fingerprint_add_receivers(fingerprint *f, const config *c, const receivers *r, error *e) {
  bool between = false;
  fingerprint_add_key(f, e, "[receivers]", "%d, every %" PRId64 ", positions %016" PRIx64, r->count, r->every,
                      numbers_digest(&r->positions[0][0], 3 * (size_t)r->count));
  for (int i = 0; i < r->count && !between; i++) between = place_is_between(c, r->positions[i]);
  fingerprint_add_interpolation(f, "[receivers] interpolation", c->receivers_interpolation, between, e);
}

static void fingerprint_add_maps(fingerprint *f, const config *c, error *e) {
  char dft[MAP_FREQUENCIES * 32] = "";
  for (int i = 0; i < config_frequencies(c); i++)
    snprintf(dft + strlen(dft), sizeof dft - strlen(dft), " %.17g", c->maps_dft[i]);
  fingerprint_add_key(f, e, "[maps]", "%s, dft%s, from %.17g until %.17g every %" PRId64, c->maps_quantities,
                      dft, c->maps_from, c->maps_until, c->maps_every);
}

void fingerprint_make(fingerprint *f, const shot *s, error *e) {
  const config *c = s->config;
  const receivers *r = &s->receivers;
  *f = (fingerprint){0};
  fingerprint_add_key(f, e, "[grid] nx", "%d", c->nx);
  fingerprint_add_key(f, e, "[grid] ny", "%d", c->ny);
  fingerprint_add_key(f, e, "[grid] nz", "%d", c->nz);
  fingerprint_add_key(f, e, "[grid] dx dy dz", "%.17g %.17g %.17g", c->dx, c->dy, c->dz);
  fingerprint_add_key(f, e, "[grid] origin", "%.17g %.17g %.17g", c->origin[0], c->origin[1], c->origin[2]);
  fingerprint_add_key(f, e, "[equation] type", "%s", equation_name(c->equation));
  fingerprint_add_physics(f, s, e);
  fingerprint_add_boundaries(f, c, e);
  const int64_t from = s->from ? s->from->step : 0, done = s->stepper.step, steps = from > done ? from : done;
  const int64_t felt = r->time.removed ? wavelet_reach(wavelet_end(steps)) : steps;
  fingerprint_add_sources(f, c, &s->sources, felt + (c->sources_mode == SOURCES_IMPOSE), e);
  if (c->receivers != RECEIVERS_NONE) fingerprint_add_receivers(f, c, r, e);
  if (config_has_maps(c)) fingerprint_add_maps(f, c, e);
  if (r->time.removed) fingerprint_add_key(f, e, FINGERPRINT_DISPERSION, "removed");
}
