#include "source.h"
#include "dispersion.h"
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"
#include "base/thread.h"
#include "place.h"
#include "wavelet.h"

enum { SOURCE_RING = 32 /* steps */, SOURCE_BLOCK = 8 /* that are computed and copied together */ };

/* --- the points ------------------------------------------------------------------------------------------------- */

/* What a [source.N] shares with others: the first one of the same signal, of the same file (else of the same signal), and
 * the file's table, or -1. */
typedef struct source_kin {
  int signal, file, table;
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

/* Keeps a source wherever the slab holds planes in which it acts. Planes beyond a periodic face are those of the other end of
 * the grid. */
static int sources_spread_one(const sources *s, const config *c, int source, error *e) {
  const slab *b = s->slab;
  place p[3];
  point_weights at;
  place_in_grid(c, s->positions[source], p); /* it is: that has been checked */
  if (s->set.count && source >= c->source_count && c->sources_mode == SOURCES_IMPOSE) place_round(p);
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

/* All tiles of the planes that the slab has. */
typedef struct source_tiling {
  int ny, nx; /* tiles of a plane */
  int *begin; /* of each tile, and one more: of its shares; owned */
  const slab *b;
} source_tiling;

static size_t sources_tile_count(const source_tiling *t) {
  return (size_t)t->b->nz * (size_t)t->ny * (size_t)t->nx;
}

/* Counts the shares of each tile in begin[its number + 1]; with `shares`, stores them from begin[its number] on instead, and
 * moves that. */
static void sources_visit_tiles(const source_tiling *t, const source_spread *w, source_share *shares) {
  for (int i = 0; i < w->count; i++) {
    const point_weights *p = &w->places[i];
    int ys[POINTS_MOST], xs[POINTS_MOST];
    const int rows = sources_tiles_of(p->y, p->ny, t->b->ny, TILE_Y, ys),
              columns = sources_tiles_of(p->x, p->nx, t->b->nx, TILE_X, xs);
    for (int z = larger(p->z, 0); z < smaller(p->z + p->nz, t->b->nz); z++)
      for (int k = 0; k < rows * columns; k++) {
        const size_t tile =
            ((size_t)z * (size_t)t->ny + (size_t)ys[k / columns]) * (size_t)t->nx + (size_t)xs[k % columns];
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
    const int first = i ? t->begin[i - 1] : 0, z = (int)(i / plane);
    if (t->begin[i] > first)
      w->tiles[s->tile_count++] =
          (source_tile){z, (int)(i % plane / (size_t)t->nx) * TILE_Y, (int)(i % (size_t)t->nx) * TILE_X,
                        first, t->begin[i] - first};
    s->plane_begin[z + 1] = s->tile_count;
  }
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
static int sources_make_tiles(sources *s, const config *c, error *e) {
  source_spread *w = s->planned;
  const slab *b = s->slab;
  source_tiling t = {.ny = (b->ny + TILE_Y - 1) / TILE_Y, .nx = (b->nx + TILE_X - 1) / TILE_X, .b = b};
  const size_t all = sources_tile_count(&t);
  s->place_count = w->count;
  TRY(ALLOC(e, s->plane_begin, b->nz + 1, "the sources"));
  if (w->count == 0) return 0;
  TRY(ALLOC(e, t.begin, all + 1, "the sources"));
  sources_visit_tiles(&t, w, NULL);
  for (size_t i = 0; i < all; i++) t.begin[i + 1] += t.begin[i];
  s->share_count = t.begin[all];
  if (!ALLOC(e, w->shares, s->share_count, "the sources")) {
    sources_visit_tiles(&t, w, w->shares);
    if (!sources_list_tiles(s, w, &t, e)) sources_check_imposed(s, c, e);
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

/* Finds what sources share, and reads each file once. Collective. */
static int sources_read_tables(sources *s, const config *c, const files *files, error *e) {
  const size_t count = (size_t)c->source_count;
  const source_config **sorted;
  ALLOC(e, sorted, count, "the sources");
  ALLOC(e, s->planned->kin, count, "the sources");
  ALLOC(e, s->tables, count, "the sources");
  for (size_t i = 0; i < count && sorted; i++) sorted[i] = &c->sources[i];
  if (sorted) qsort(sorted, count, sizeof *sorted, sources_by_wavelet);
  error_agree(e, files->compute);
  source_kin now = {.table = -1};
  for (size_t i = 0; i < count && !e->id; i++) {
    const int source = (int)(sorted[i] - c->sources);
    const bool other = i == 0 || sources_by_wavelet(&sorted[i], &sorted[i - 1]);
    if (other) now.signal = source;
    if (other && (i == 0 || !sources_same_file(sorted[i], sorted[i - 1]))) {
      const bool file = sorted[i]->wavelet == WAVELET_FILE;
      now.file = source, now.table = file ? s->table_count : -1;
      if (file) wavelet_read(files, sorted[i], &s->tables[s->table_count++], e);
    }
    s->planned->kin[source] = now;
  }
  free(sorted);
  return e->id;
}

/* Of [source.N] `i`. */
static wavelet sources_wavelet(const sources *s, const config *c, int i) {
  const int table = s->planned->kin[i].table;
  return wavelet_of(&c->sources[i], table < 0 ? NULL : &s->tables[table]);
}

/* Finds what the run makes of each source's wavelet: the same for all amplitudes of a file. */
static int sources_study(sources *s, const config *c, error *e) {
  const source_kin *kin = s->planned->kin;
  TRY(ALLOC(e, s->uses, c->source_count + 1, "the sources"));
  s->uses[c->source_count] = s->set.use;
  for (int i = 0; i < c->source_count; i++) {
    const wavelet w = sources_wavelet(s, c, i);
    if (kin[i].file == i) TRY(wavelet_study(&w, (wavelet_steps){s->dt, s->steps}, &s->uses[i], e));
  }
  for (int i = 0; i < c->source_count; i++) s->uses[i] = s->uses[kin[i].file];
  return 0;
}

double sources_strength(const config *c) {
  double factor = 1;
  for (int axis = 0; axis < 3 && c->sources_strength == STRENGTH_VOLUME; axis++)
    if (config_axis_of(c, axis).spacing > 0) factor /= config_axis_of(c, axis).spacing;
  return factor;
}

/* Numbers signals in the order in which this rank's places first need them, so that neighbouring threads read neighbouring
 * values, equal sources the same. number: of each [source.N], then of the columns of the set; -1: none yet. columns: of
 * the set's signals, in the order of their numbers. Signals that no place needs get no number. */
static int sources_number(sources *s, const config *c, int *number, int *columns) {
  source_spread *w = s->planned;
  const double strength = sources_strength(c);
  int kept = 0;
  for (int i = 0; i < w->count; i++) {
    const int source = w->source_of[i], listed = source - c->source_count;
    const int key = listed < 0 ? w->kin[source].signal : c->source_count + (s->set.columns > 1 ? listed : 0);
    if (number[key] < 0) {
      if (listed < 0) {
        s->signals[s->signal_count] = sources_wavelet(s, c, key);
        s->signals[s->signal_count].amplitude *= strength;
      } else {
        columns[kept++] = key - c->source_count;
        s->signals[s->signal_count].kind = WAVELET_SIGNAL;
      }
      number[key] = s->signal_count++;
    }
    w->signal_of[source] = listed >= 0 && c->sources_mode == SOURCES_IMPOSE ? ~number[key] : number[key];
  }
  return kept;
}

/* Finds what signals this rank needs, and keeps those of the set. */
static int sources_number_signals(sources *s, const config *c, error *e) {
  const int keys = c->source_count + s->set.columns;
  const double strength = c->sources_mode == SOURCES_IMPOSE ? 1 : sources_strength(c);
  int *number, *columns;
  ALLOC(e, number, keys, "the sources");
  ALLOC(e, columns, keys, "the sources");
  ALLOC(e, s->signals, keys, "the sources");
  ALLOC(e, s->planned->signal_of, s->count, "the sources");
  if (!e->id) {
    memset(number, -1, (size_t)keys * sizeof *number);
    const int kept = sources_number(s, c, number, columns);
    if (s->set.count) source_set_keep(&s->set, c, (wavelet_steps){s->dt, s->steps}, columns, kept, e);
    for (int i = 0, k = 0; i < s->signal_count; i++)
      if (s->signals[i].kind == WAVELET_SIGNAL) s->signals[i] = source_set_wavelet(&s->set, c, k++, strength);
  }
  free(number);
  free(columns);
  return e->id;
}

/* Frees the tables that no signal of this rank is made of. */
static int sources_drop_tables(sources *s, error *e) {
  bool *used;
  TRY(ALLOC(e, used, s->table_count, "the sources"));
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
  for (int i = 0; i < s->table_count; i++) table_free(&s->tables[i]);
  free(s->tables);
  sources_spread_free(s->planned);
  source_set_free(&s->set);
  free(s->positions);
  free(s->uses);
  for (int i = 0; s->injected && i < s->signal_count; i++) free(s->injected[i]);
  free(s->injected);
  free(s->signal_of);
  free(s->injected_end);
  free(s->signals);
  free(s->plane_begin);
  free(s->source_of);
  free(s->parts);
  *s = (sources){.dev = s->dev, .kept = s->kept};
}

/* Where all sources are. Collective. */
static int sources_place_all(sources *s, const problem *on, error *e) {
  const config *c = on->config;
  ALLOC(e, s->positions, c->source_count, "the sources");
  for (int i = 0; s->positions && i < c->source_count; i++)
    memcpy(s->positions[i], c->sources[i].position, sizeof s->positions[i]);
  TRY(error_agree(e, on->files->compute));
  TRY(source_set_place(&s->set, on, &s->positions, c->source_count, e));
  s->count = c->source_count + s->set.count;
  return 0;
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
  for (int i = 0; i < s->count && !e->id; i++) sources_spread_one(s, c, i, e);
  TRY(error_agree(e, on->files->compute));
  TRY(sources_read_tables(s, c, on->files, e));
  TRY(source_set_read(&s->set, on, steps, e));
  if (!sources_study(s, c, e) && !sources_number_signals(s, c, e) && !sources_make_tiles(s, c, e))
    sources_drop_tables(s, e);
  return error_agree(e, on->files->compute);
}

/* Numbers them as sources_number does: a signal a source. */
static int sources_number_given(sources *s, error *e) {
  source_spread *w = s->planned;
  ALLOC(e, w->signal_of, s->count, "the sources");
  ALLOC(e, s->source_of, s->count, "the sources");
  if (e->id) return e->id;
  memset(w->signal_of, -1, (size_t)s->count * sizeof *w->signal_of);
  for (int i = 0; i < w->count; i++) {
    const int source = w->source_of[i];
    if (w->signal_of[source] >= 0) continue;
    w->signal_of[source] = s->signal_count;
    s->source_of[s->signal_count++] = source;
  }
  return 0;
}

int sources_plan_given(sources *s, const problem *on, int count, const double (*positions)[3],
                       enum interpolation_kind how, error *e) {
  sources_forget(s);
  s->dev = on->dev, s->slab = on->slab, s->count = count, s->interpolation = how;
  ALLOC(e, s->positions, count, "the sources");
  ALLOC(e, s->planned, 1, "the sources");
  if (!e->id) memcpy(s->positions, positions, (size_t)count * sizeof *positions);
  for (int i = 0; i < count && !e->id; i++) sources_spread_one(s, on->config, i, e);
  if (!e->id && !sources_number_given(s, e)) sources_make_tiles(s, on->config, e);
  return error_agree(e, on->files->compute);
}

/* Numbers of what the parts before one have. */
typedef struct source_offsets {
  int places, shares, signals;
} source_offsets;

/* Adds the tiles of plane z and their shares. */
static void sources_join_plane(sources *s, const sources *part, int row, int z, source_offsets from) {
  source_spread *w = s->planned;
  const source_spread *own = part->planned;
  for (int i = part->plane_begin[z]; i < part->plane_begin[z + 1]; i++) {
    source_tile *t = &w->tiles[s->tile_count++];
    *t = own->tiles[i];
    t->y = row, t->first += from.shares;
    for (int k = 0; k < t->count; k++) {
      source_share *share = &w->shares[t->first + k];
      *share = own->shares[t->first - from.shares + k];
      share->place += from.places;
      share->signal += share->signal < 0 ? -from.signals : from.signals;
    }
  }
}

int sources_join(sources *s, sources **parts, int count, device *dev, const slab *slab, error *e) {
  int tiles = 0;
  sources_forget(s);
  s->dev = dev, s->slab = slab, s->parts = parts, s->part_count = count;
  for (int i = 0; i < count; i++) {
    const sources *p = parts[i];
    s->place_count += p->place_count, s->share_count += p->share_count;
    s->signal_count += p->signal_count, tiles += p->tile_count;
  }
  if (!s->place_count) return 0;
  TRY(ALLOC(e, s->planned, 1, "the sources"));
  source_spread *w = s->planned;
  TRY(ALLOC(e, w->places, s->place_count, "the sources"));
  TRY(ALLOC(e, w->tiles, tiles, "the sources"));
  TRY(ALLOC(e, w->shares, s->share_count, "the sources"));
  TRY(ALLOC(e, s->plane_begin, slab->nz + 1, "the sources"));
  for (int z = 0; z < slab->nz; z++) {
    source_offsets from = {0};
    for (int i = 0; i < count; i++) {
      const sources *p = parts[i];
      if (p->place_count) sources_join_plane(s, p, i, z, from);
      from.places += p->place_count, from.shares += p->share_count, from.signals += p->signal_count;
    }
    s->plane_begin[z + 1] = s->tile_count;
  }
  for (int i = 0, n = 0; i < count; n += parts[i++]->place_count)
    for (int k = 0; k < parts[i]->place_count; k++) {
      w->places[n + k] = parts[i]->planned->places[k];
      w->places[n + k].y = i;
    }
  return 0;
}

int sources_check(const sources *s, const config *c, error *e) {
  for (int i = 0; s->uses && i < c->source_count && s->steps > 0; i++)
    if (s->uses[i].begin >= s->uses[i].end)
      return FAIL(e, WAVELET_UNUSED, c->sources[i].wavelet_file, s->dt * (double)(s->steps - 1));
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
  atomic_int next; /* signal */
  atomic_bool failed;
} source_transform;

/* Signals of one length, which are transformed together. */
typedef struct source_batch {
  dispersion *d;
  int64_t n;
  int count, signal[FOURIER_SERIES];
  double (*x)[FOURIER_SERIES]; /* n */
} source_batch;

static void sources_batch_close(source_batch *b) {
  dispersion_close(&b->d);
  free(b->x);
  *b = (source_batch){.d = NULL};
}

/* False where memory is short. */
static bool sources_batch_open(source_batch *b, dispersion_tables *transforms, int64_t n) {
  error ignored = {0};
  sources_batch_close(b);
  b->n = n;
  b->x = malloc((size_t)n * sizeof *b->x);
  return b->x && !dispersion_open(&b->d, transforms, DISPERSION_SOURCE, n, 1, &ignored);
}

static void sources_batch_flush(const source_transform *t, source_batch *b) {
  const sources *s = t->s;
  if (!b->count) return;
  for (int k = 0; k < FOURIER_SERIES; k++)
    for (int64_t i = 0; i < b->n; i++)
      b->x[i][k] = k < b->count ? wavelet_exact(&s->signals[b->signal[k]], s->dt, i) : 0;
  dispersion_apply(b->d, false, b->x);
  for (int k = 0; k < b->count; k++)
    for (int64_t i = t->begin; i < s->injected_end[b->signal[k]] && i < b->n; i++)
      s->injected[b->signal[k]][i] = (float)b->x[i][k];
  b->count = 0;
}

/* What a part before has transformed whole stays as it is. */
static void *sources_transform_main(void *context) {
  source_transform *t = context;
  const sources *s = t->s;
  source_batch b = {.d = NULL};
  bool ready = true;
  for (int i; ready && (i = atomic_fetch_add(&t->next, 1)) < s->signal_count;) {
    const int64_t n = wavelet_length(&s->signals[i], s->dt, wavelet_reach(t->end));
    if (t->begin && n == wavelet_length(&s->signals[i], s->dt, wavelet_reach(t->begin))) continue;
    if (n != b.n || b.count == FOURIER_SERIES) sources_batch_flush(t, &b);
    if (n != b.n) ready = sources_batch_open(&b, s->transforms, n);
    b.signal[b.count++] = i;
  }
  if (ready) sources_batch_flush(t, &b);
  if (!ready) atomic_store(&t->failed, true);
  sources_batch_close(&b);
  return NULL;
}

/* Each over its own length, so that runs of different lengths agree on the steps they share. */
int sources_transform(sources *s, int threads, error *e) {
  const size_t count = (size_t)s->signal_count;
  if (count == 0) return 0;
  TRY(ALLOC(e, s->injected, count, "the sources"));
  TRY(ALLOC(e, s->injected_end, count, "the sources"));
  for (int i = 0; i < s->signal_count; i++) {
    const int64_t n = s->injected_end[i] = wavelet_length(&s->signals[i], s->dt, s->steps > 0 ? s->steps : 1);
    TRY(ALLOC(e, s->injected[i], n, "the sources"));
  }
  source_transform t = {.s = s, .end = WAVELET_FIRST_END};
  for (; t.begin < s->steps && !t.failed; t.begin = t.end, t.end *= 2) {
    atomic_store(&t.next, 0);
    thread_share(smaller(threads, (s->signal_count + FOURIER_SERIES - 1) / FOURIER_SERIES),
                 sources_transform_main, &t);
  }
  free(s->set.values);
  s->set.values = NULL;
  return atomic_load(&t.failed) ? FAIL(e, OUT_OF_MEMORY, count * 600, "a transform in time") : 0;
}

int sources_transform_back(const sources *s, int64_t steps, double (*x)[FOURIER_SERIES], error *e) {
  dispersion *d = NULL;
  if (!s->injected) return 0;
  if (!dispersion_open(&d, s->transforms, DISPERSION_SOURCE, steps, 1, e)) dispersion_apply(d, true, x);
  dispersion_close(&d);
  return e->id;
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

int sources_open(sources *s, error *e) {
  if (s->place_count == 0) return 0;
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
  if (begin == end || (s->given.values && sources_given_none(&s->given, step))) return 0;
  TRY(sources_bring(s, stream, step, e));
  const float *signals = s->dev->table->backend == BACKEND_HOST ? s->ring : s->signal;
  const inject_args inject = {.field = *args,
                              .tiles = s->tiles + begin,
                              .count = end - begin,
                              .shares = s->shares,
                              .places = s->places,
                              .signal = signals + sources_slot(s, step)};
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
