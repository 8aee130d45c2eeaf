#include "fingerprint.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/numbers.h"
#include "propagator/maps.h"
#include "acquisition/place.h"

static void fingerprint_add_key(FILE *to, const char *key, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
static void fingerprint_add_key(FILE *to, const char *key, const char *format, ...) {
  va_list args;
  va_start(args, format);
  fprintf(to, "%s\n", key);
  vfprintf(to, format, args);
  fputc('\n', to);
  va_end(args);
}

static const char *const FACE_KEYS[FACE_COUNT] = {"[boundary] x_lo", "[boundary] x_hi", "[boundary] y_lo",
                                                  "[boundary] y_hi", "[boundary] z_lo", "[boundary] z_hi"};

static void fingerprint_add_boundaries(FILE *to, const config *c) {
  for (int i = 0; i < FACE_COUNT; i++) {
    if (c->boundary[i] == BOUNDARY_NONE) continue;
    const char *name = boundary_name(c->boundary[i]);
    if (c->boundary[i] == BOUNDARY_FIXED)
      fingerprint_add_key(to, FACE_KEYS[i], "%s %.17g", name, c->boundary_value);
    else if (c->boundary[i] == BOUNDARY_ABSORBING)
      fingerprint_add_key(to, FACE_KEYS[i], "%s %d%s", name, c->boundary_width,
                          c->boundary_outside ? " outside" : "");
    else
      fingerprint_add_key(to, FACE_KEYS[i], "%s", name);
  }
  if (physics_absorbs(c) && c->boundary_velocity > 0)
    fingerprint_add_key(to, "[boundary] velocity", "%.17g", c->boundary_velocity);
}

static void fingerprint_add_range(FILE *to, const char *key, const medium_range *r) {
  if (r->digest)
    fingerprint_add_key(to, key, "field from %.9g to %.9g, digest %016" PRIx64, r->min, r->max, r->digest);
  else
    fingerprint_add_key(to, key, "%.17g", r->min);
}

static void fingerprint_add_terms(FILE *to, const config *c, const model *m) {
  const bool quality = config_has_medium(c, MEDIUM_QUALITY);
  if (m->needed && c->averaging) fingerprint_add_key(to, "[medium] averaging", "on");
  if (config_density_varies(c)) fingerprint_add_range(to, "[medium] density", &m->density);
  if (!m->absorbs) return;
  fingerprint_add_range(to, quality ? "[medium] quality" : "[medium] absorption", &m->strength);
  for (int l = 0; l < m->fit.count; l++) {
    char key[48];
    snprintf(key, sizeof key, "[medium] relaxation %d", l + 1);
    fingerprint_add_key(to, key, "a %.9g, b %.9g, reference %.9g", m->fit.a[l], m->fit.b[l],
                        m->law.reference);
  }
}

static void fingerprint_add_physics(FILE *to, const shot *s) {
  const config *c = s->config;
  fingerprint_add_key(to, "[time] dt", "%.17g", s->engine->physics.dt);
  if (equation_has(c->equation, GIVEN_WEIGHTS)) {
    fingerprint_add_key(to, "[jacobi] center", "%.17g", c->jacobi_center);
    const double *axes[3] = {c->jacobi_x, c->jacobi_y, c->jacobi_z};
    const char *const keys[3] = {"[jacobi] x", "[jacobi] y", "[jacobi] z"};
    for (int i = 0; i < 3; i++)
      fingerprint_add_key(to, keys[i], "%.17g %.17g %.17g %.17g", axes[i][0], axes[i][1], axes[i][2],
                          axes[i][3]);
    return;
  }
  for (int i = 0; i < EQUATIONS[c->equation].media; i++) {
    const medium_range *r = &s->engine->physics.medium[i];
    char key[64];
    snprintf(key, sizeof key, "[medium] %s", MEDIA[EQUATIONS[c->equation].medium[i]].name);
    fingerprint_add_range(to, key, r);
  }
  fingerprint_add_terms(to, c, &s->engine->physics.model);
  fingerprint_add_key(to, "[equation] space_order", "%d", c->space_order);
}

/* `linear` has no key: earlier versions had no other interpolation, and on grid points both are equal. */
static void fingerprint_add_interpolation(FILE *to, const char *key, enum interpolation_kind how,
                                          bool between) {
  if (how == INTERPOLATION_SINC && between) fingerprint_add_key(to, key, "sinc");
}

static void fingerprint_add_named(FILE *to, const config *c, const sources *all) {
  for (int i = 0; i < c->source_count; i++) {
    const source_config *s = &c->sources[i];
    char key[48];
    snprintf(key, sizeof key, "[source.%d]", s->number);
    fingerprint_add_key(to, key, "%.17g %.17g %.17g, wavelet %d %s%s, f0 %.17g, t0 %.17g, amplitude %.17g",
                        s->position[0], s->position[1], s->position[2], (int)s->wavelet, s->wavelet_file,
                        all->uses[i].rows == WAVELET_TIMES ? " with times" : "", s->f0, s->t0, s->amplitude);
    snprintf(key, sizeof key, "[source.%d] on a neumann face", s->number);
    if (sources_mirrored(c, s))
      fingerprint_add_key(to, key, "weights are divided by 1/2"); /* earlier versions did not */
  }
}

/* `rows`: the samples of signals that the steps so far have used. */
static void fingerprint_add_sources(FILE *to, const config *c, const sources *all, int64_t rows) {
  const source_set *set = &all->set;
  const bool imposed = c->sources_mode == SOURCES_IMPOSE;
  bool between = false;
  fingerprint_add_named(to, c, all);
  for (int i = 0; i < all->file_count; i++)
    fingerprint_add_key(to, "[source] wavelets", "file %d, to this step %016" PRIx64, i + 1,
                        source_set_digest(&all->files[i], rows));
  for (int i = 0; i < all->count && !between; i++) between = place_is_between(c, all->positions[i]);
  fingerprint_add_interpolation(to, "[sources] interpolation", c->sources_interpolation, between);
  if (all->count && c->sources_strength != STRENGTH_NODE)
    fingerprint_add_key(to, "[sources] strength", "volume");
  if (set->count == 0) return;
  fingerprint_add_key(to, "[sources] positions", "%d, %016" PRIx64, set->count, set->positions_digest);
  fingerprint_add_key(to, "[sources] signals", "%s, %d, to this step %016" PRIx64,
                      imposed ? "imposed" : "added", set->columns, source_set_digest(set, rows));
}

static void fingerprint_add_receivers(FILE *to, const config *c, const receivers *r) {
  bool between = false;
  fingerprint_add_key(to, "[receivers]", "%d, every %" PRId64 ", positions %016" PRIx64, r->count, r->every,
                      numbers_digest(&r->positions[0][0], 3 * (size_t)r->count));
  for (int i = 0; i < r->count && !between; i++) between = place_is_between(c, r->positions[i]);
  fingerprint_add_interpolation(to, "[receivers] interpolation", c->receivers_interpolation, between);
}

static void fingerprint_add_maps(FILE *to, const shot *s) {
  const config *c = s->config;
  const physics *p = &s->engine->physics;
  char dft[MAP_FREQUENCIES * 32] = "";
  for (int i = 0; i < config_frequencies(c); i++)
    snprintf(dft + strlen(dft), sizeof dft - strlen(dft), " %.17g", c->maps_dft[i]);
  fingerprint_add_key(to, "[maps]", "%s, dft%s, from %.17g until %.17g every %" PRId64, c->maps_quantities,
                      dft, c->maps_from, maps_end_with_run(&s->at) ? p->dt * (double)p->steps : c->maps_until,
                      c->maps_every);
}

char *fingerprint_make(const shot *s, int64_t step, error *e) {
  const config *c = s->config;
  const receivers *r = &s->at.receivers;
  char *text = NULL;
  size_t bytes = 0;
  FILE *to = open_memstream(&text, &bytes);
  if (!to) FAIL(e, OUT_OF_MEMORY, sizeof *to, "the fingerprint of the run");
  if (!to) return NULL;
  fingerprint_add_key(to, "[grid] nx", "%d", c->nx);
  fingerprint_add_key(to, "[grid] ny", "%d", c->ny);
  fingerprint_add_key(to, "[grid] nz", "%d", c->nz);
  fingerprint_add_key(to, "[grid] dx dy dz", "%.17g %.17g %.17g", c->dx, c->dy, c->dz);
  fingerprint_add_key(to, "[grid] origin", "%.17g %.17g %.17g", c->origin[0], c->origin[1], c->origin[2]);
  fingerprint_add_key(to, "[equation] type", "%s", equation_name(c->equation));
  fingerprint_add_boundaries(to, c); /* before media, which layers outside may extend */
  fingerprint_add_physics(to, s);
  const int64_t felt = r->time.removed ? wavelet_reach(wavelet_end(step)) : step;
  fingerprint_add_sources(to, c, &s->at.sources, felt + (c->sources_mode == SOURCES_IMPOSE));
  if (c->receivers != RECEIVERS_NONE) fingerprint_add_receivers(to, c, r);
  if (config_has_maps(c)) fingerprint_add_maps(to, s);
  if (r->time.removed)
    fingerprint_add_key(to, FINGERPRINT_DISPERSION,
                        "removed, from amplitudes of fields too"); /* earlier versions did not */
  if (fclose(to) == 0) return text;
  free(text);
  FAIL(e, OUT_OF_MEMORY, bytes, "the fingerprint of the run");
  return NULL;
}
