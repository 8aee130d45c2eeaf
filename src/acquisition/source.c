#include "source.h"
#include "dispersion.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "place.h"
#include "wavelet.h"

enum { SOURCE_RING = 32 /* steps */, SOURCE_BLOCK = 8 /* that are computed and copied together */ };

/* --- the points ------------------------------------------------------------------------------------------------- */

/* What a [source.N] shares with others: the first one of the same signal, and the file, or -1. */
typedef struct source_kin {
  int signal, file;
} source_kin;

/* What goes to the device. Its arrays are owned (sources_spread_free). */
typedef struct source_spread {
  source_kin *kin; /* of each [source.N] */
  point_weights
      *places;    /* of the sources in order, once for each time that a periodic axis brings them here */
  int *source_of; /* of each place: the source's index */
  int count, room;
  int *signal_of; /* of each source */
  source_tile *tiles;
  source_share *shares;
} source_spread;

static int sources_keep_place(source_spread *w, const point_weights *place, int source, error *e) {
  if (w->count == w->room) {
    const int room = 2 * w->room + 16;
    TRY(GROW(e, w->places, room, "the sources"));
    TRY(GROW(e, w->source_of, room, "the sources"));
    w->room = room;
  }
  w->places[w->count] = *place;
  w->source_of[w->count++] = source;
  return 0;
}

static bool sources_imposed(const sources *s, const config *c, int source) {
  return s->set.count && source >= c->source_count && c->sources_mode == SOURCES_IMPOSE;
}

/* Keeps a source wherever the slab holds planes in which it acts. Planes beyond a periodic face are those of the other end of
 * the grid. */
static int sources_spread_one(const sources *s, const config *c, int source, error *e) {
  const slab *b = s->slab;
  place p[3];
  point_weights at;
  place_in_grid(c, s->positions[source], p); /* it is: that has been checked */
  if (sources_imposed(s, c, source)) place_round(p);
  const int first = p[2].index - b->z0, turns = config_axis_of(c, 2).periodic;
  for (int turn = -turns; turn <= turns; turn++) {
    const int from = first + turn * b->nz_global;
    if (from - POINTS_MOST >= b->nz || from + POINTS_MOST < 0) continue;
    place_weigh(c, p, s->interpolation, true, &at);
    at.z += turn * b->nz_global - b->z0;
    if (at.z < b->nz && at.z + at.nz > 0) TRY(sources_keep_place(s->planned, &at, source, e));
  }
  return 0;
}

bool sources_mirrored(const config *c, const source_config *s) {
  place p[3];
  bool mirrored = false;
  place_in_grid(c, s->position, p);
  for (int axis = 0; axis < 3; axis++) {
    const enum boundary_kind *faces = &c->boundary[2 * axis];
    const int last = config_axis_of(c, axis).points - 1,
              next = p[axis].fraction > 0 ? p[axis].next : p[axis].index;
    mirrored |= (faces[0] == BOUNDARY_NEUMANN && p[axis].index == 0) ||
                (faces[1] == BOUNDARY_NEUMANN && next == last);
  }
  return mirrored;
}

/* --- the tiles -------------------------------------------------------------------------------------------------- */

/* The tiles along an axis of n points, each `size` of them, that points `first` to first + count - 1 lie in. */
static int sources_tiles_of(int first, int count, int n, int size, int tiles[POINTS_MOST]) {
  int found = 0;
  for (int i = 0; i < count; i++) {
    const int tile = points_at(first, i, n) / size;
    int k = 0;
    while (k < found && tiles[k] != tile) k++;
    if (k == found) tiles[found++] = tile;
  }
  return found;
}

/* All tiles of the slab's planes between the first and the last in which a source acts. */
typedef struct source_tiling {
  int z_begin, z_end;
  int ny, nx; /* tiles of a plane */
  int rows;   /* of a tile: TILE_Y, but one of a stack, whose rows have sources of their own */
  int *begin; /* of each tile, and one more: of its shares; owned */
  const slab *b;
} source_tiling;

static size_t sources_tile_count(const source_tiling *t) {
  return (size_t)(t->z_end - t->z_begin) * (size_t)t->ny * (size_t)t->nx;
}

static void sources_find_planes(source_tiling *t, const source_spread *w) {
  t->z_begin = t->b->nz;
  for (const point_weights *p = w->places; p < w->places + w->count; p++) {
    t->z_begin = smaller(t->z_begin, larger(p->z, 0));
    t->z_end = larger(t->z_end, smaller(p->z + p->nz, t->b->nz));
  }
}

/* Counts the shares of each tile in begin[its number + 1]; with `shares`, stores them from begin[its number] on instead, and
 * moves that. */
static void sources_visit_tiles(const source_tiling *t, const source_spread *w, source_share *shares) {
  for (int i = 0; i < w->count; i++) {
    const point_weights *p = &w->places[i];
    int ys[POINTS_MOST], xs[POINTS_MOST];
    const int rows = sources_tiles_of(p->y, p->ny, t->b->ny, t->rows, ys),
              columns = sources_tiles_of(p->x, p->nx, t->b->nx, TILE_X, xs);
    for (int z = larger(p->z, 0); z < smaller(p->z + p->nz, t->b->nz); z++)
      for (int k = 0; k < rows * columns; k++) {
        const size_t tile =
            ((size_t)(z - t->z_begin) * (size_t)t->ny + (size_t)ys[k / columns]) * (size_t)t->nx +
            (size_t)xs[k % columns];
        if (shares)
          shares[t->begin[tile]++] = (source_share){i, w->signal_of[w->source_of[i]]};
        else
          t->begin[tile + 1]++;
      }
  }
}

/* Makes the list of tiles that have shares, once these are stored: then begin[tile] is where the tile's end. */
static int sources_list_tiles(sources *s, source_spread *w, const source_tiling *t, error *e) {
  const size_t all = sources_tile_count(t), plane = (size_t)t->ny * (size_t)t->nx;
  int count = 0;
  for (size_t i = 0; i < all; i++) count += t->begin[i] > (i ? t->begin[i - 1] : 0);
  TRY(ALLOC(e, w->tiles, count, "the sources"));
  for (size_t i = 0; i < all; i++) {
    const int first = i ? t->begin[i - 1] : 0, z = t->z_begin + (int)(i / plane);
    if (t->begin[i] > first)
      w->tiles[s->tile_count++] = (source_tile){z,
                                                (int)(i % plane / (size_t)t->nx) * t->rows,
                                                (int)(i % (size_t)t->nx) * TILE_X,
                                                first,
                                                t->begin[i] - first,
                                                0};
    s->plane_begin[z + 1] = s->tile_count;
  }
  for (int z = t->z_end; z < t->b->nz; z++) s->plane_begin[z + 1] = s->tile_count;
  return 0;
}

/* Fails where values are imposed on one point by two sources. */
static int sources_check_imposed(const sources *s, const config *c, error *e) {
  const source_spread *w = s->planned;
  for (const source_tile *t = w->tiles; t < w->tiles + s->tile_count; t++) {
    int taken[TILE_Y][TILE_X] = {{0}}; /* by the source before this number */
    for (const source_share *k = w->shares + t->first; k < w->shares + t->first + t->count; k++) {
      const point_weights *p = &w->places[k->place];
      if (k->signal >= 0) continue;
      int *at = &taken[p->y - t->y][p->x - t->x], source = w->source_of[k->place];
      if (*at)
        return FAIL(e, SOURCES_TWICE, c->sources_positions_file, *at - 1 - c->source_count,
                    source - c->source_count);
      *at = source + 1;
    }
  }
  return 0;
}

/* From places to tiles and their shares, which are in the order of the sources. */
static int sources_make_tiles(sources *s, error *e) {
  source_spread *w = s->planned;
  const slab *b = s->slab;
  const int rows = s->part_count ? 1 : TILE_Y;
  source_tiling t = {
      .ny = (b->ny + rows - 1) / rows, .nx = (b->nx + TILE_X - 1) / TILE_X, .rows = rows, .b = b};
  s->place_count = w->count;
  TRY(ALLOC(e, s->plane_begin, b->nz + 1, "the sources"));
  if (w->count == 0) return 0;
  sources_find_planes(&t, w);
  const size_t all = sources_tile_count(&t);
  TRY(ALLOC(e, t.begin, all + 1, "the sources"));
  sources_visit_tiles(&t, w, NULL);
  for (size_t i = 0; i < all; i++) t.begin[i + 1] += t.begin[i];
  s->share_count = t.begin[all];
  if (!ALLOC(e, w->shares, s->share_count, "the sources")) {
    sources_visit_tiles(&t, w, w->shares);
    sources_list_tiles(s, w, &t, e);
  }
  free(t.begin);
  return e->id;
}

/* --- the signals ------------------------------------------------------------------------------------------------ */

/* Orders sources by their time functions; 0: the same function. Sources of one file are next to each other. */
static int sources_by_wavelet(const void *a, const void *b) {
  const source_config *p = *(const source_config *const *)a, *q = *(const source_config *const *)b;
  if (p->wavelet != q->wavelet) return p->wavelet < q->wavelet ? -1 : 1;
  const int file = p->wavelet == WAVELET_FILE ? strcmp(p->wavelet_file, q->wavelet_file) : 0;
  if (file) return file;
  const double of[3] = {p->f0, p->t0, p->amplitude}, as[3] = {q->f0, q->t0, q->amplitude};
  for (int i = p->wavelet == WAVELET_FILE ? 2 : 0; i < 3; i++)
    if (of[i] != as[i]) return of[i] < as[i] ? -1 : 1;
  return 0;
}

static bool sources_same_file(const source_config *p, const source_config *q) {
  return p->wavelet == WAVELET_FILE && q->wavelet == WAVELET_FILE &&
         strcmp(p->wavelet_file, q->wavelet_file) == 0;
}

/* Finds what sources share, reads each file once and studies all signals. Collective. */
static int sources_read_named(sources *s, const problem *on, wavelet_steps steps, error *e) {
  const config *c = on->config;
  const size_t count = (size_t)c->source_count;
  const source_config **sorted;
  ALLOC(e, sorted, count, "the sources");
  ALLOC(e, s->planned->kin, count, "the sources");
  ALLOC(e, s->files, count, "the sources");
  ALLOC(e, s->uses, count + 1, "the sources");
  for (size_t i = 0; i < count && sorted; i++) sorted[i] = &c->sources[i];
  if (sorted) qsort(sorted, count, sizeof *sorted, sources_by_wavelet);
  error_agree(e, on->files->compute);
  source_kin now = {.file = -1};
  for (size_t i = 0; i < count && !e->id; i++) {
    const int source = (int)(sorted[i] - c->sources);
    const wavelet formula = wavelet_of(sorted[i]);
    const bool file = formula.kind == WAVELET_FILE;
    if (i == 0 || sources_by_wavelet(&sorted[i], &sorted[i - 1])) now.signal = source;
    if (file && (i == 0 || !sources_same_file(sorted[i], sorted[i - 1])))
      source_set_read(&s->files[now.file = s->file_count++], on, steps, sorted[i], e);
    s->uses[source] = file ? s->files[now.file].use : wavelet_study(&formula, steps);
    s->planned->kin[source] = (source_kin){now.signal, file ? now.file : -1};
  }
  free(sorted);
  return e->id;
}

double sources_strength(const config *c) {
  double factor = 1;
  for (int axis = 0; axis < 3 && c->sources_strength == STRENGTH_VOLUME; axis++)
    if (config_axis_of(c, axis).spacing > 0) factor /= config_axis_of(c, axis).spacing;
  return factor;
}

/* A source's signal: of [source.N] the number of the first that has it, then of the columns of the set; of those given,
 * its own. */
static int sources_key(const sources *s, const config *c, int source) {
  if (!s->planned->kin) return source;
  if (source < c->source_count) return s->planned->kin[source].signal;
  return s->set.columns > 1 ? source : c->source_count;
}

static void sources_make_signal(const sources *s, const config *c, int key, wavelet *w) {
  const bool imposed = sources_imposed(s, c, key);
  const double strength = sources_strength(c);
  if (key >= c->source_count) {
    *w = (wavelet){.kind = WAVELET_FILE, .amplitude = imposed ? 1 : strength, .imposed = imposed};
    source_set_take(&s->set, key - c->source_count, w);
    return;
  }
  const int file = s->planned->kin[key].file;
  *w = wavelet_of(&c->sources[key]);
  w->amplitude *= strength;
  if (file >= 0) source_set_take(&s->files[file], 0, w);
}

/* Finds the values of all signals that come from datasets. */
static int sources_find_values(sources *s, const problem *on, error *e) {
  const config *c = on->config;
  const bool imposed = c->sources_mode == SOURCES_IMPOSE;
  int *list, count = 0, first = 0;
  TRY(ALLOC(e, list, s->signal_count, "the sources"));
  for (int i = 0; i < s->signal_count && !e->id; i++) {
    const int key = s->key_of[i], file = key < c->source_count ? s->planned->kin[key].file : -1;
    if (key >= c->source_count) list[count++] = key - c->source_count;
    if (file >= 0 && !s->files[file].values[0])
      source_set_find(&s->files[file], &(source_columns){&first, 1, 1, s->dt, 0}, e);
  }
  const int threads = s->set.columns > 1 ? on->files->way->compressors : 1;
  if (count && !e->id)
    source_set_find(&s->set, &(source_columns){list, count, threads, s->dt, imposed ? NAN : 0}, e);
  free(list);
  return e->id;
}

/* Numbers signals in the order in which this rank's places first need them, so that neighbouring threads read
 * neighbouring values, equal sources the same. Those that no place needs get no number. */
static int sources_number(sources *s, const problem *on, error *e) {
  const config *c = on->config;
  source_spread *w = s->planned;
  const int keys = w->kin ? c->source_count + s->set.columns : s->count;
  int *number;
  ALLOC(e, number, keys, "the sources");
  ALLOC(e, s->key_of, keys, "the sources");
  ALLOC(e, s->signals, keys, "the sources");
  ALLOC(e, w->signal_of, s->count, "the sources");
  if (number) memset(number, -1, (size_t)keys * sizeof *number);
  for (int i = 0; i < w->count && !e->id; i++) {
    const int source = w->source_of[i], key = sources_key(s, c, source);
    if (number[key] < 0) {
      s->key_of[s->signal_count] = key;
      number[key] = s->signal_count++;
    }
    w->signal_of[source] = sources_imposed(s, c, source) ? ~number[key] : number[key];
  }
  free(number);
  if (!w->kin || e->id || sources_find_values(s, on, e)) return e->id;
  for (int i = 0; i < s->signal_count; i++) sources_make_signal(s, c, s->key_of[i], &s->signals[i]);
  return 0;
}

/* --- opening and closing ---------------------------------------------------------------------------------------- */

static void sources_spread_free(source_spread *w) {
  if (!w) return;
  free(w->kin);
  free(w->places);
  free(w->source_of);
  free(w->signal_of);
  free(w->tiles);
  free(w->shares);
  free(w);
}

/* Frees all but the memory of the device. */
static void sources_forget(sources *s) {
  for (int i = 0; i < s->file_count; i++) source_set_free(&s->files[i]);
  free(s->files);
  sources_spread_free(s->planned);
  source_set_free(&s->set);
  free(s->positions);
  free(s->uses);
  for (int i = 0; s->injected && s->alike && i < s->signal_count; i++)
    if (s->alike[i] == i) free(s->injected[i]);
  free(s->injected);
  free(s->alike);
  free(s->signal_of);
  free(s->injected_end);
  free(s->signals);
  free(s->plane_begin);
  free(s->key_of);
  free(s->parts);
  *s = (sources){.dev = s->dev, .kept = s->kept};
}

/* Where all sources are. Collective. */
static int sources_place_all(sources *s, const problem *on, error *e) {
  const config *c = on->config;
  ALLOC(e, s->positions, c->source_count, "the sources");
  for (int i = 0; s->positions && i < c->source_count; i++)
    memcpy(s->positions[i], c->sources[i].position, sizeof s->positions[i]);
  s->count = c->source_count;
  TRY(error_agree(e, on->files->compute));
  if (!c->sources_listed) return 0;
  TRY(place_read(on->files, c, c->sources_positions_file, &s->positions, &s->count, e));
  s->set.count = s->count - c->source_count;
  s->set.positions_digest = numbers_digest(s->positions[c->source_count], 3 * (size_t)s->set.count);
  return 0;
}

/* From positions and signals to places and tiles. Agreed. */
static int sources_lay_out(sources *s, const problem *on, error *e) {
  for (int i = 0; i < s->count && !e->id; i++) sources_spread_one(s, on->config, i, e);
  if (!e->id && !sources_number(s, on, e) && !sources_make_tiles(s, e))
    sources_check_imposed(s, on->config, e);
  return error_agree(e, on->files->compute);
}

int sources_plan(sources *s, const problem *on, wavelet_steps steps, error *e) {
  const config *c = on->config;
  sources_forget(s);
  s->dev = on->dev, s->slab = on->slab, s->transforms = on->transforms, s->dt = steps.dt,
  s->steps = steps.count;
  s->interpolation = c->sources_interpolation;
  if (!config_has_sources(c)) return 0;
  TRY(sources_place_all(s, on, e));
  ALLOC(e, s->planned, 1, "the sources");
  TRY(error_agree(e, on->files->compute));
  TRY(sources_read_named(s, on, steps, e));
  if (s->set.count) TRY(source_set_read(&s->set, on, steps, NULL, e));
  s->uses[c->source_count] = s->set.use;
  TRY(sources_lay_out(s, on, e));
  for (int i = 0; i < s->file_count; i++) source_set_close(&s->files[i]);
  source_set_close(&s->set);
  return 0;
}

int sources_plan_given(sources *s, const problem *on, int count, const double (*positions)[3],
                       enum interpolation_kind how, error *e) {
  sources_forget(s);
  s->dev = on->dev, s->slab = on->slab, s->count = count, s->interpolation = how;
  ALLOC(e, s->positions, count, "the sources");
  ALLOC(e, s->planned, 1, "the sources");
  if (!e->id) memcpy(s->positions, positions, (size_t)count * sizeof *positions);
  return sources_lay_out(s, on, e);
}

int sources_join(sources *s, sources **parts, int count, device *dev, const slab *slab, error *e) {
  int places = 0;
  sources_forget(s);
  s->dev = dev, s->slab = slab, s->parts = parts, s->part_count = count;
  for (int i = 0; i < count; i++) places += parts[i]->place_count;
  if (!places) return 0;
  TRY(ALLOC(e, s->planned, 1, "the sources"));
  source_spread *w = s->planned;
  TRY(ALLOC(e, w->signal_of, places, "the sources")); /* of each place */
  for (int i = 0; i < count; s->signal_count += parts[i++]->signal_count) {
    const source_spread *from = parts[i]->planned;
    for (int k = 0; k < parts[i]->place_count; k++) {
      const int signal = from->signal_of[from->source_of[k]];
      point_weights at = from->places[k];
      at.y = i;
      w->signal_of[w->count] = signal + (signal < 0 ? -s->signal_count : s->signal_count);
      TRY(sources_keep_place(w, &at, w->count, e));
    }
  }
  return sources_make_tiles(s, e);
}

int sources_check(const sources *s, const config *c, error *e) {
  for (int i = 0; s->uses && i < c->source_count + (s->set.count > 0) && s->steps > 0; i++)
    if (s->uses[i].begin >= s->uses[i].end)
      return FAIL(e, WAVELET_UNUSED,
                  i < c->source_count ? c->sources[i].wavelet_file : c->sources_signals_file,
                  s->dt * (double)(s->steps - 1));
  return 0;
}

double sources_highest(const sources *s, const config *c, char column[SOURCES_COLUMN]) {
  double highest = 0;
  column[0] = 0;
  for (int i = 0; i < c->source_count; i++) highest = fmax(highest, s->uses[i].highest);
  if (s->set.columns > 1 && s->set.use.highest > highest)
    snprintf(column, SOURCES_COLUMN, " of [sources] signals, column %d", s->set.highest_column);
  return fmax(highest, s->set.use.highest);
}

/* What is done to signals for the steps from `begin` to `end` (wavelet_end). */
typedef struct source_transform {
  sources *s;
  int64_t begin, end;
} source_transform;

/* What a part before has transformed whole stays as it is. */
static int64_t sources_transform_length(void *context, int64_t i) {
  const source_transform *t = context;
  const wavelet *w = &t->s->signals[i];
  if (t->s->alike[i] != i) return 0;
  const int64_t n = wavelet_length(w, t->s->dt, wavelet_reach(t->end));
  return t->begin && n == wavelet_length(w, t->s->dt, wavelet_reach(t->begin)) ? 0 : n;
}

static void sources_transform_get(void *context, int64_t i, int64_t n, int lane,
                                  double (*x)[FOURIER_SERIES]) {
  const sources *s = ((const source_transform *)context)->s;
  for (int64_t k = 0; k < n; k++) x[k][lane] = wavelet_exact(&s->signals[i], s->dt, k);
}

static void sources_transform_put(void *context, int64_t i, int64_t n, int lane,
                                  double (*x)[FOURIER_SERIES]) {
  const source_transform *t = context;
  for (int64_t k = t->begin; k < t->s->injected_end[i] && k < n; k++)
    t->s->injected[i][k] = (float)x[k][lane];
}

/* Signals of equal columns have the same values. */
static int sources_find_alike(sources *s, error *e) {
  const int named = s->count - s->set.count;
  int *first; /* of each column, the signal + 1 */
  ALLOC(e, s->alike, s->signal_count, "the sources");
  TRY(ALLOC(e, first, s->set.columns, "the sources"));
  for (int i = 0; i < s->signal_count; i++) {
    int *known = s->key_of[i] < named ? NULL : &first[s->set.same[s->key_of[i] - named]];
    s->alike[i] = known && *known ? *known - 1 : i;
    if (known && !*known) *known = i + 1;
  }
  free(first);
  return 0;
}

/* Each over its own length, so that runs of different lengths agree on the steps they share. */
int sources_transform(sources *s, int64_t steps, int threads, error *e) {
  const size_t count = (size_t)s->signal_count;
  if (count == 0) return 0;
  TRY(ALLOC(e, s->injected, count, "the sources"));
  TRY(ALLOC(e, s->injected_end, count, "the sources"));
  TRY(sources_find_alike(s, e));
  for (int i = 0; i < s->signal_count; i++) {
    const int64_t n = s->injected_end[i] = wavelet_length(&s->signals[i], s->dt, larger64(steps, 1));
    if (s->alike[i] < i)
      s->injected[i] = s->injected[s->alike[i]];
    else
      TRY(ALLOC(e, s->injected[i], n, "the sources"));
  }
  source_transform t = {.s = s, .end = WAVELET_FIRST_END};
  const dispersion_series all = {.kind = DISPERSION_SOURCE,
                                 .every = 1,
                                 .count = s->signal_count,
                                 .kept = s->transforms,
                                 .context = &t,
                                 .length = sources_transform_length,
                                 .get = sources_transform_get,
                                 .put = sources_transform_put};
  for (; t.begin < steps; t.begin = t.end, t.end *= 2) TRY(dispersion_transform(&all, threads, e));
  for (int i = 0; i < s->file_count; i++) source_set_free_values(&s->files[i]);
  source_set_free_values(&s->set);
  return 0;
}

static size_t sources_ring_bytes(const sources *s) {
  return SOURCE_RING * (size_t)s->signal_count * sizeof *s->ring;
}

/* Copies a list to the device. */
static int sources_put(const sources *s, device_buffer *to, const void *from, size_t bytes, error *e) {
  TRY(device_reserve(s->dev, to, bytes, MEMORY_DEVICE, e));
  return s->dev->table->copy(s->dev, STREAM_BOUNDARY, &(copy_args){to->memory, from, bytes, COPY_TO_DEVICE},
                             e);
}

static bool sources_in_layer(const absorb_axis *a, int begin, int end) {
  return absorb_locate(a, begin).inward || absorb_locate(a, end - 1).inward;
}

/* Numbers the tiles that layers reach, and takes memory for what these remember there. */
static int sources_open_layers(sources *s, error *e) {
  const slab *b = s->slab;
  float *zeros;
  s->stretched = 0;
  for (source_tile *t = s->planned->tiles; s->layers && t < s->planned->tiles + s->tile_count; t++) {
    const absorb_axis *axis = s->layers->args.axis;
    if (sources_in_layer(&axis[0], t->x, smaller(t->x + TILE_X, b->nx)) ||
        sources_in_layer(&axis[1], t->y, smaller(t->y + TILE_Y, b->ny)) ||
        sources_in_layer(&axis[2], t->z, t->z + 1))
      t->stretched = ++s->stretched;
  }
  if (!s->stretched) return 0;
  const size_t floats = (size_t)s->stretched * ABSORB_AXES * TILE_Y * TILE_X;
  TRY(ALLOC(e, zeros, floats, "the sources"));
  sources_put(s, &s->kept.chi, zeros, floats * sizeof *zeros, e);
  if (!e->id) s->dev->table->sync(s->dev, STREAM_BOUNDARY, e);
  free(zeros);
  return e->id;
}

int sources_open(sources *s, error *e) {
  if (s->place_count == 0) return 0;
  TRY(sources_open_layers(s, e));
  const device_table *t = s->dev->table;
  const source_spread *w = s->planned;
  TRY(sources_put(s, &s->kept.tiles, w->tiles, (size_t)s->tile_count * sizeof *s->tiles, e));
  TRY(sources_put(s, &s->kept.shares, w->shares, (size_t)s->share_count * sizeof *s->shares, e));
  TRY(sources_put(s, &s->kept.places, w->places, (size_t)s->place_count * sizeof *s->places, e));
  TRY(device_reserve(s->dev, &s->kept.signal, sources_ring_bytes(s), MEMORY_DEVICE, e));
  TRY(device_reserve(s->dev, &s->kept.ring, sources_ring_bytes(s), MEMORY_PINNED, e));
  if (!s->kept.brought) TRY(t->make_events(s->dev, &s->kept.brought, 1, false, e));
  s->tiles = s->kept.tiles.memory, s->shares = s->kept.shares.memory, s->places = s->kept.places.memory;
  s->signal = s->kept.signal.memory, s->ring = s->kept.ring.memory;
  s->computed = INT64_MIN;
  TRY(t->sync(s->dev, STREAM_BOUNDARY, e));
  s->signal_of = s->planned->signal_of, s->planned->signal_of = NULL;
  sources_spread_free(s->planned);
  s->planned = NULL;
  return 0;
}

void sources_bytes(const sources *s, size_t *on_device, size_t *pinned) {
  *pinned = sources_ring_bytes(s);
  *on_device = (size_t)s->tile_count * sizeof *s->tiles + (size_t)s->share_count * sizeof *s->shares +
               (size_t)s->place_count * sizeof *s->places + *pinned;
}

void sources_close(sources *s) {
  if (s->dev) {
    device_release(s->dev, &s->kept.tiles, MEMORY_DEVICE);
    device_release(s->dev, &s->kept.shares, MEMORY_DEVICE);
    device_release(s->dev, &s->kept.places, MEMORY_DEVICE);
    device_release(s->dev, &s->kept.signal, MEMORY_DEVICE);
    device_release(s->dev, &s->kept.chi, MEMORY_DEVICE);
    device_release(s->dev, &s->kept.ring, MEMORY_PINNED);
    s->dev->table->unmake_events(s->dev, &s->kept.brought, 1);
  }
  sources_forget(s);
  s->kept = (sources_memory){0};
}

/* --- a step ----------------------------------------------------------------------------------------------------- */

/* Steps count from -1, at which the field of step 0 is imposed. */
static size_t sources_slot(const sources *s, int64_t step) {
  return (size_t)((step + 1) % SOURCE_RING) * (size_t)s->signal_count;
}

/* Are signals that are given 0 at a step? */
static bool sources_given_none(const sources_given *g, int64_t step) {
  const int64_t of = g->last - step;
  return of < 0 || of > g->last || of % g->every;
}

static float sources_given_value(const sources *s, int i, int64_t step) {
  const sources_given *g = &s->given;
  return sources_given_none(g, step) ? 0 : g->values[(g->last - step) / g->every * s->signal_count + i];
}

static float sources_value(const sources *s, int i, int64_t step) {
  if (s->given.values) return sources_given_value(s, i, step);
  if (!s->injected) return wavelet_value(&s->signals[i], s->dt, step);
  return step >= 0 && step < s->injected_end[i] ? s->injected[i][step] : 0;
}

float sources_injected(const sources *s, int source, int64_t step) {
  return sources_value(s, s->signal_of[source], step);
}

/* The signals of a step, of the parts one after another. */
static float *sources_fill(const sources *s, int64_t step, float *to) {
  for (int p = 0; p < s->part_count; p++) to = sources_fill(s->parts[p], step, to);
  for (int i = 0; !s->part_count && i < s->signal_count; i++) *to++ = sources_value(s, i, step);
  return to;
}

/* Computes the signals of a few steps, this one among them, at the first call for any of them; true then. They replace those
 * of step - SOURCE_RING and the steps around it, which no kernel reads any more: at most 16 steps are unfinished (two passes
 * of at most WAVEFRONT_DEPTH_MAX steps). */
static bool sources_compute(sources *s, int64_t step) {
  const int64_t first = (step + 1) / SOURCE_BLOCK * SOURCE_BLOCK - 1;
  if (s->computed == first) return false;
  s->computed = first;
  for (int64_t k = first; k < first + SOURCE_BLOCK; k++) sources_fill(s, k, s->ring + sources_slot(s, k));
  return true;
}

/* Enqueues that `stream` has the signals of a step on the device. The host's kernels read them where they were computed. */
static int sources_bring(sources *s, int stream, int64_t step, error *e) {
  const device_table *t = s->dev->table;
  const bool now = sources_compute(s, step), device = t->backend != BACKEND_HOST;
  if (now) s->informed = 0;
  if (!device || s->informed >> stream & 1) return 0;
  s->informed |= 1u << stream;
  if (!now) return t->wait(s->dev, stream, s->kept.brought, e);
  const size_t at = sources_slot(s, s->computed),
               bytes = SOURCE_BLOCK * (size_t)s->signal_count * sizeof *s->ring;
  TRY(t->copy(s->dev, stream, &(copy_args){s->signal + at, s->ring + at, bytes, COPY_TO_DEVICE}, e));
  return t->record(s->dev, stream, s->kept.brought, e);
}

int sources_apply(sources *s, int stream, const kernel_args *args, int64_t step, error *e) {
  if (s->place_count == 0) return 0;
  const int begin = s->plane_begin[args->z_begin], end = s->plane_begin[args->z_end];
  if (begin == end || (!s->stretched && s->given.values && sources_given_none(&s->given, step))) return 0;
  TRY(sources_bring(s, stream, step, e));
  const float *signals = s->dev->table->backend == BACKEND_HOST ? s->ring : s->signal;
  inject_args inject = {.field = *args,
                        .tiles = s->tiles + begin,
                        .count = end - begin,
                        .shares = s->shares,
                        .places = s->places,
                        .signal = signals + sources_slot(s, step)};
  if (s->stretched) {
    memcpy(inject.layers, s->layers->args.axis, sizeof inject.layers);
    inject.width = s->layers->args.width, inject.chi = s->kept.chi.memory;
  }
  return s->dev->table->apply(s->dev, stream, &operation_inject, &inject, e);
}

void sources_of_pass(sources *s, int64_t step, int steps, wavefront_sources *pass) {
  *pass = (wavefront_sources){.tiles = s->tiles, .shares = s->shares, .places = s->places};
  if (s->place_count == 0) return;
  pass->plane_begin = s->plane_begin;
  for (int k = 0; k < steps; k++) {
    sources_compute(s, step + k);
    pass->signal[k] = s->ring + sources_slot(s, step + k);
  }
}
