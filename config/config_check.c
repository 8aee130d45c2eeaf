/* Checks that concern several keys: each value is valid by itself, but may not fit the others. */
#include "config_internal.h"
#include <math.h>
#include <string.h>
#include <sys/stat.h>

typedef struct checker {
  const config *c;
  const config_entries *all;
  error *e;
  char place[PLACE_TEXT]; /* place of the entry last given to check_place */
} checker;

static const char check_axis_names[3] = {'x', 'y', 'z'};

/* Returns the beginning of a message: the place where a key was given, or the file. */
static const char *check_place(checker *k, const config_block *given, const char *section, const char *name) {
  config_place_of(k->place, k->c, config_entry_of(given, section, name)->line);
  return k->place;
}

/* Does the same for a key that is not a source's. */
static const char *check_at(checker *k, const char *section, const char *name) {
  return check_place(k, k->all->blocks[0], section, name);
}

static int check_refuse(checker *k, const char *section, const char *name, const char *expected) {
  const char *text = config_entry_of(k->all->blocks[0], section, name)->text;
  return FAIL(k->e, CONFIG_VALUE, check_at(k, section, name), section, name, expected, text ? text : "");
}

/* Refuses a key. `only`: what the key must be or go with. */
static int check_only(checker *k, const char *section, const char *name, const char *only) {
  return FAIL(k->e, CONFIG_ONLY_WITH, check_at(k, section, name), section, name, only);
}

static int check_grid(checker *k) {
  const config *c = k->c;
  for (int axis = 0; axis < 3; axis++)
    if (config_extends(c) && config_axis_given(c, axis).points + 2.0 * c->boundary_width > POINTS_MAX)
      return check_only(k, "boundary", "width", "up to 2147483583 points of an axis, layers included");
  const config_axis x = config_axis_of(c, 0), y = config_axis_of(c, 1), z = config_axis_of(c, 2);
  if (x.points > INT64_MAX / y.points / z.points)
    return FAIL(k->e, CONFIG_TOO_MANY_POINTS, c->file, x.points, y.points, z.points);
  /* A 2D run has one point along y. */
  return c->nx > 1 || c->ny == 1 ? 0 : FAIL(k->e, CONFIG_NO_X, check_at(k, "grid", "nx"), c->ny);
}

static int check_maps(checker *k) {
  const config *c = k->c;
  const char *p = c->maps_quantities;
  for (int i; (i = config_next_map(&p)) >= 0;)
    if (i == MAP_QUANTITIES)
      return check_refuse(k, "maps", "quantities", "max, min and rms, or some of them");
  if (c->maps_until > 0 && c->maps_until <= c->maps_from)
    return check_only(k, "maps", "until", "after `from`");
  return 0;
}

static int check_medium(checker *k) {
  const config *c = k->c;
  const bool quality = config_has_medium(c, MEDIUM_QUALITY),
             absorption = config_has_medium(c, MEDIUM_ABSORPTION);
  for (int f = 0; f < FACE_COUNT; f++)
    if (config_has_medium(c, MEDIUM_DENSITY) && c->boundary[f] == BOUNDARY_FIXED && c->boundary_value != 0)
      return check_only(k, "boundary", "value", "0, or without density");
  if (!quality && !absorption) return 0;
  if (quality && absorption) return check_only(k, "medium", "absorption", "without quality");
  if (c->absorption_band[0] > 0 && c->absorption_band[0] >= c->absorption_band[1])
    return check_only(k, "medium", "absorption_band", "a frequency and then a higher one");
  const double reference = config_reference(c);
  if (!(reference > 0)) return FAIL(k->e, CONFIG_MISSING, c->file, "medium", "reference_frequency");
  if (c->absorption_band[0] == 0) return 0;
  if (reference >= c->absorption_band[0] && reference <= c->absorption_band[1]) return 0;
  char only[96];
  snprintf(only, sizeof only, "a band with reference_frequency in it, %.6g Hz, where velocity holds",
           reference);
  return check_only(k, "medium", "absorption_band", only);
}

/* --- boundaries -------------------------------------------------------------------------------- */

/* The row of the key that sets a face: the most specific key given, else `all`. */
static const config_key *check_key_of_face(const checker *k, int face) {
  const config_key *found = NULL;
  for (int i = 0; i < config_key_count; i++) {
    const config_key *key = &config_keys[i];
    if (key->kind != VALUE_FACES || !(key->faces >> face & 1)) continue;
    if (!found || k->all->blocks[0]->entries[i].text) found = key;
  }
  return found;
}

static const char *check_face_name(int face) {
  const config_key *key = config_keys;
  while (key->faces != 1 << face) key++;
  return key->name;
}

static const char *check_kind_name(const checker *k, int face) {
  return config_choice(check_key_of_face(k, face)->choices, (int)k->c->boundary[face])->name;
}

static int check_periodic(checker *k, int axis) {
  const enum boundary_kind *kinds = k->c->boundary;
  int lo = 2 * axis, hi = lo + 1;
  if ((kinds[lo] == BOUNDARY_PERIODIC) == (kinds[hi] == BOUNDARY_PERIODIC)) return 0;
  /* The message names the key that makes the faces differ: the more specific one, further down in the table. */
  int face = check_key_of_face(k, hi) > check_key_of_face(k, lo) ? hi : lo, other = lo + hi - face;
  const char *name = check_key_of_face(k, face)->name;
  return FAIL(k->e, CONFIG_HALF_PERIODIC, check_at(k, "boundary", name), name, check_kind_name(k, face),
              check_face_name(other), check_kind_name(k, other));
}

/* Refuses axes with too few points. A reflection needs 4 points besides the face's own. On a periodic axis, ghosts are
 * 4 points of the other side. */
static int check_points(checker *k, int axis) {
  int n = config_axis_of(k->c, axis).points;
  const char key[] = {'n', check_axis_names[axis], '\0'};
  for (int face = 2 * axis; face <= 2 * axis + 1; face++) {
    enum boundary_kind kind = k->c->boundary[face];
    int least = config_reflects(k->c, (enum face)face) ? 5 : kind == BOUNDARY_PERIODIC ? 4 : 1;
    if (n >= least) continue;
    return FAIL(k->e, CONFIG_FEW_POINTS, check_at(k, "grid", key), check_axis_names[axis], least,
                check_face_name(face), check_kind_name(k, face), n);
  }
  return 0;
}

static int check_layers(checker *k, int axis) {
  int64_t n = config_axis_of(k->c, axis).points, inside = n;
  for (int face = 2 * axis; face <= 2 * axis + 1; face++) inside -= config_layer_width(k->c, (enum face)face);
  if (inside >= 1) return 0;
  return FAIL(k->e, CONFIG_LAYERS, check_at(k, "boundary", "width"), k->c->boundary_width,
              check_axis_names[axis], (int)n);
}

/* --- positions --------------------------------------------------------------------------------- */

int config_outside(const config *c, const double position[3], double ends[2]) {
  for (int axis = 0; axis < 3; axis++) {
    const config_axis a = config_axis_given(c, axis);
    const double low = a.first, high = low + (a.points - 1) * a.spacing;
    const double slack = 1e-9 * a.spacing + 1e-15 * fmax(fabs(low), fabs(high));
    if (a.periodic || a.spacing == 0) continue;
    ends[0] = low, ends[1] = high;
    if (position[axis] < low - slack || position[axis] > high + slack) return axis;
  }
  return -1;
}

/* Fails unless the position is inside the grid. `what` begins the message. */
static int check_inside(checker *k, const char *section, const char *name, const char *what,
                        const double position[3]) {
  double ends[2];
  const int axis = config_outside(k->c, position, ends);
  if (axis < 0) return 0;
  return FAIL(k->e, CONFIG_OUTSIDE, k->place, section, name, what, position[0], position[1], position[2],
              check_axis_names[axis], ends[0], ends[1]);
}

static int check_source(checker *k, const config_block *given, const source_config *s) {
  char section[SECTION_TEXT];
  snprintf(section, sizeof section, "source.%d", s->number);
  check_place(k, given, "source.1", "position");
  return check_inside(k, section, "position", "", s->position);
}

static int check_receivers(checker *k) {
  const config *c = k->c;
  const char *name = c->receivers == RECEIVERS_LINE ? "line" : "points";
  check_at(k, "receivers", name);
  for (int i = 0; i < c->receiver_count; i++) {
    char what[64];
    snprintf(what, sizeof what, "receiver %d of %d, at ", i + 1, c->receiver_count);
    TRY(check_inside(k, "receivers", name, what, c->receiver_positions[i]));
  }
  return 0;
}

static const char *check_base(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

static bool check_is_utf8(const char *text) {
  static const uint32_t least[] = {0, 0x80, 0x800, 0x10000}; /* of so many bytes after the first */
  for (const unsigned char *c = (const unsigned char *)text; *c;) {
    const int more = *c < 0x80 ? 0 : *c < 0xC0 ? -1 : *c < 0xE0 ? 1 : *c < 0xF0 ? 2 : *c < 0xF8 ? 3 : -1;
    if (more < 0) return false;
    uint32_t point = *c++ & (more ? 0x3Fu >> more : 0x7Fu);
    for (int i = 0; i < more; i++, c++) {
      if ((*c & 0xC0) != 0x80) return false; /* the final 0, too */
      point = point << 6 | (*c & 0x3Fu);
    }
    if (point < least[more] || point > 0x10FFFF || (point >= 0xD800 && point < 0xE000)) return false;
  }
  return true;
}

/* Refuses names that are not UTF-8, because the lists of saved fields, XML and JSON, name files in UTF-8. */
static int check_output_path(checker *k) {
  if (check_is_utf8(check_base(k->c->output_path))) return 0;
  return check_refuse(k, "output", k->c->output_name[0] ? "name" : "path", "a file name in UTF-8");
}

/* Checks the box; along an axis of one point its ends are ignored. */
static int check_box(checker *k) {
  for (int axis = 0; axis < 3; axis++) {
    const config_axis a = config_axis_given(k->c, axis);
    const double low = a.first, high = low + (a.points - 1) * a.spacing, slack = 1e-6 * a.spacing;
    const double *box = &k->c->output_box[2 * axis];
    const char name = check_axis_names[axis];
    const bool outside = isfinite(*box) && (box[0] < low - slack || box[1] > high + slack);
    if (a.spacing == 0 || (!outside && box[0] <= box[1] && config_cut_of(k->c, axis).count)) continue;
    return FAIL(k->e, CONFIG_BOX, check_at(k, "output", "box"), name, name, name, low, high,
                config_entry_of(k->all->blocks[0], "output", "box")->text);
  }
  return 0;
}

static int check_survey(checker *k) {
  const config *c = k->c;
  const char *name = c->output_name;
  if (strchr(name, '/') || (name[0] && !name[strspn(name, ".")]))
    return check_refuse(k, "output", "name", "a name without /, not of points alone");
  if (c->survey_at_once <= 1 || c->survey_ranks <= 1) return 0;
  return check_only(k, "survey", "at_once", "with ranks_per_shot = 1 or auto");
}

/* Refuses settings with which a gradient cannot be computed. */
static int check_gradient(checker *k) {
  const config *c = k->c;
  const char *name = c->gradient_observed[0] ? "observed" : "adjoint_source", *with = NULL;
  if (!config_has_gradient(c)) return 0;
  if (c->gradient_observed[0] && c->gradient_residual[0])
    return check_only(k, "gradient", "adjoint_source", "without observed");
  if (c->gradient_residual[0] && (c->gradient_weights[0] || c->gradient_missing != MISSING_ERROR))
    return check_only(k, "gradient", c->gradient_weights[0] ? "weights" : "missing", "with observed");
  if (strstr(c->gradient_weights, "{name}")) name = "weights";
  if (strstr(c->gradient_observed, "{name}") || strstr(c->gradient_residual, "{name}") ||
      strstr(c->gradient_weights, "{name}"))
    return check_only(k, "gradient", name, "with {name} in a survey, whose shots have names");
  if (c->survey_on_stop == ON_STOP_CHECKPOINT)
    with = "without [survey] on_stop = checkpoint: shots under way are done anew";
  if (c->checkpoint_every_steps > 0 || c->checkpoint_every_seconds > 0)
    with = "without [checkpoint] every_steps and every_seconds: it begins anew";
  if (c->previous == PREVIOUS_FILE) with = "with [initial] previous = rest";
  if (c->sources_listed && c->sources_mode == SOURCES_IMPOSE) with = "with [sources] mode = add";
  if (c->receivers == RECEIVERS_NONE) with = "with [receivers]";
  return with ? FAIL(k->e, CONFIG_ONLY_WITH, check_at(k, "gradient", name), "gradient", name, with) : 0;
}

static int check_checkpoint_path(checker *k) {
  if (k->c->checkpoint_path[0] || k->c->survey_file[0]) return 0; /* a shot's path has been made already */
  return FAIL(k->e, CONFIG_TOO_LONG, check_at(k, "output", "path"), "output", "path",
              CONFIG_TEXT - (int)sizeof CHECKPOINT_ENDING);
}

bool config_same_file(const char *a, const char *b) {
  struct stat s, t;
  return stat(a, &s) == 0 && stat(b, &t) == 0 && s.st_dev == t.st_dev && s.st_ino == t.st_ino;
}

/* Returns what follows `path` in the name of `file`, however the folder is written; NULL: `file` does not begin with
 * `path`. */
static const char *check_rest(const char *file, const char *path) {
  const char *base = check_base(path), *rest = check_base(file) + strlen(base);
  char folder[2][CONFIG_TEXT + 1];
  if (strncmp(check_base(file), base, strlen(base)) != 0) return NULL;
  snprintf(folder[0], sizeof folder[0], "%.*s.", (int)(check_base(file) - file), file);
  snprintf(folder[1], sizeof folder[1], "%.*s.", (int)(base - path), path);
  return strcmp(folder[0], folder[1]) == 0 || config_same_file(folder[0], folder[1]) ? rest : NULL;
}

/* Is `file` PATH.STEP followed by `ending`? */
static bool check_is_step_of(const char *file, const char *path, const char *ending) {
  const char *rest = check_rest(file, path);
  const size_t digits = rest && *rest == '.' ? strspn(rest + 1, "0123456789") : 0;
  return digits && strcmp(rest + 1 + digits, ending) == 0;
}

static bool check_is_one_of(const char *file, const char *path, const char *ending) {
  const char *rest = check_rest(file, path);
  return rest && strcmp(rest, ending) == 0;
}

/* Does `file` hold dataset `name`, FILE:/path? */
static bool check_holds(const char *file, const char *name) {
  char holder[CONFIG_TEXT];
  const char *cut = config_dataset_cut(name);
  if (!cut) return false;
  snprintf(holder, sizeof holder, "%.*s", (int)(cut - name), name);
  return config_same_file(file, holder);
}

typedef struct held {
  const char *file;
  bool found;
} held;

static void check_dataset(void *context, const char *dataset) {
  held *h = context;
  h->found = h->found || check_holds(h->file, dataset);
}

bool config_reads(const config *c, const char *file) {
  held h = {file, config_same_file(file, c->file) || config_same_file(file, c->survey_file)};
  config_each_dataset(c, check_dataset, &h);
  return h.found;
}

/* The report must not replace a file that the run needs. */
static int check_report(checker *k) {
  const config *c = k->c;
  const char *file = c->report_file;
  if (!file[0]) return 0;
  char table[CONFIG_TEXT + 8];
  snprintf(table, sizeof table, "%.*ssurvey", (int)(check_base(c->output_path) - c->output_path),
           c->output_path);
  bool taken = config_reads(c, file) || (c->survey_file[0] && check_is_one_of(file, table, ".csv")) ||
               check_is_step_of(file, c->output_path, ".hdf") ||
               check_is_step_of(file, c->checkpoint_path, ".h5");
  for (int i = 0; i < OUTPUT_FILES && !taken; i++)
    taken = check_is_one_of(file, c->output_path, OUTPUT_ENDINGS[i]);
  return taken ? check_refuse(k, "report", "file", "a file that the run neither reads nor writes otherwise")
               : 0;
}

int config_check(const config *c, const config_entries *all, error *e) {
  checker k = {.c = c, .all = all, .e = e};
  TRY(check_grid(&k));
  TRY(check_medium(&k));
  TRY(check_maps(&k));
  for (int axis = 0; axis < 3; axis++) {
    TRY(check_periodic(&k, axis));
    TRY(check_points(&k, axis));
    TRY(check_layers(&k, axis));
  }
  for (int i = 0; i < c->source_count; i++) TRY(check_source(&k, all->blocks[i + 1], &c->sources[i]));
  TRY(check_receivers(&k));
  TRY(check_box(&k));
  TRY(check_survey(&k));
  TRY(check_gradient(&k));
  TRY(check_output_path(&k));
  TRY(check_checkpoint_path(&k));
  return check_report(&k);
}
