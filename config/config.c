/* The configuration as a whole: every key of the table gets its value from what the user gave or from its
 * default. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "base/numbers.h"
#include "config_keys.h"

const choice *config_choice(const choice *choices, int value) {
  while (choices->name && choices->value != value) choices++;
  return choices->name ? choices : NULL;
}

const char *config_says(const condition *k, char text[SAYS_TEXT]) {
  int holds[EQUATION_COUNT], count = 0, length = 0;
  if (k->says) return k->says;
  for (int q = 0; q < EQUATION_COUNT; q++)
    if (k->holds(&(config){.equation = (enum equation)q}, NULL)) holds[count++] = q;
  for (int i = 0; i < count && length < SAYS_TEXT; i++)
    length += snprintf(text + length, SAYS_TEXT - (size_t)length, "%s%s",
                       i == 0          ? "with type = "
                       : i < count - 1 ? ", "
                                       : " or ",
                       EQUATIONS[holds[i]].name);
  return text;
}

/* Checks the value of a key without effect, which must still be valid, and lists the key in `idle`. */
static int config_check_idle(const value *given) {
  config scratch = *given->c;
  source_config scratch_source;
  value v = *given;
  v.c = &scratch;
  if (given->source) {
    scratch_source = *given->source;
    v.source = &scratch_source;
  }
  TRY(config_parse(&v));
  char *list = given->c->idle;
  size_t used = strlen(list);
  snprintf(list + used, sizeof given->c->idle - used, "%s[%s] %s", used ? ", " : "", v.section, v.key->name);
  return 0;
}

/* Sets a key's fields. Where the key does not apply, they still get the default, unless the default is computed. */
static int config_fill_key(config *c, source_config *s, const config_key *key, const config_block *given,
                           error *e) {
  const config_entry *entry = &given->entries[key - config_keys];
  char place[PLACE_TEXT], section[SECTION_TEXT], says[SAYS_TEXT];
  config_place_of(place, c, entry->line ? entry->line : given->line);
  config_section(section, key, given->number);
  bool applies = !key->only_with || key->only_with->holds(c, s);
  if (entry->text && !applies && !key->only_with->idle)
    return FAIL(e, CONFIG_ONLY_WITH, place, section, key->name, config_says(key->only_with, says));
  value v = {key, section, entry->text ? entry->text : key->fallback, place, c, s, e};
  if (entry->text && !applies) {
    TRY(config_check_idle(&v));
    v.text = key->fallback;
  }
  if (v.text) return config_parse(&v);
  bool excused = key->unless && key->unless->holds(c, s);
  if (applies && key->required && !excused) return FAIL(e, CONFIG_MISSING, place, section, key->name);
  if (applies && key->compute) key->compute(c, s);
  return 0; /* a face may have no default, since a wider key sets its boundary */
}

/* Fills *s if not NULL, otherwise c. */
static int config_fill_block(config *c, source_config *s, const config_block *given, error *e) {
  for (const config_key *key = config_keys; key < config_keys + config_key_count; key++)
    if (key->of_source == (s != NULL)) TRY(config_fill_key(c, s, key, given, e));
  return 0;
}

static int config_fill_sources(config *c, const config_entries *all, error *e) {
  int count = all->count - 1;
  if (count == 0) return 0;
  if (!SOURCES.holds(c, NULL)) {
    char place[PLACE_TEXT], says[SAYS_TEXT];
    config_place_of(place, c, all->blocks[1]->line);
    return FAIL(e, CONFIG_ONLY_SOURCE, place, all->blocks[1]->number, config_says(&SOURCES, says));
  }
  TRY(ALLOC(e, c->sources, count, "the sources"));
  c->source_count = count;
  for (int i = 0; i < count; i++) {
    c->sources[i].number = all->blocks[i + 1]->number;
    TRY(config_fill_block(c, &c->sources[i], all->blocks[i + 1], e));
  }
  return 0;
}

int config_open(config_given **opened, const char *path, const char *text, int count,
                const char *const overrides[], error *e) {
  config_block *plain;
  TRY(ALLOC(e, *opened, 1, "the configuration"));
  config_given *g = *opened;
  if (strlen(path) >= sizeof g->file) return FAIL(e, CONFIG_PATH, (int)sizeof g->file - 1, path);
  strcpy(g->file, path);
  g->all.file = g->file;
  TRY(config_block_of(&g->all, 0, 0, &plain, e));
  TRY(config_read_file(&g->all, text, e));
  return config_read_overrides(&g->all, count, overrides, e);
}

void config_close(config_given *given) {
  if (given) config_entries_close(&given->all);
  free(given);
}

const char *config_text_of(const config_given *given, const char *section, const char *key) {
  return config_entry_of(given->all.blocks[0], section, key)->text;
}

const char *config_shots(const config_given *given) {
  return config_text_of(given, "survey", "shots");
}

/* Replaces each {name} by the shot's name. */
static int config_fill_pattern(char text[CONFIG_TEXT], const char *name) {
  static const char PATTERN[] = "{name}";
  char made[CONFIG_TEXT];
  for (char *at = text; (at = strstr(at, PATTERN)); at += strlen(name)) {
    const int length =
        snprintf(made, sizeof made, "%.*s%s%s", (int)(at - text), text, name, at + strlen(PATTERN));
    if (length >= CONFIG_TEXT) return -1;
    strcpy(text, made);
  }
  return 0;
}

/* Sets the output paths of a shot, and the names of its observed data. */
static int config_fill_name(config *c, const config_entries *all, const shot_line *s, error *e) {
  char place[PLACE_TEXT], name[sizeof c->output_name],
      number[16], *const paths[] = {c->output_path, c->checkpoint_path};
  const bool beside = !config_entry_of(all->blocks[0], "checkpoint", "path")->text;
  snprintf(number, sizeof number, "%04d", s->number);
  snprintf(name, sizeof name, "%s", c->output_name[0] ? c->output_name : number);
  memcpy(c->output_name, name, sizeof name);
  for (int i = 0; i < 2 - beside; i++) {
    const size_t length = strlen(paths[i]);
    if (snprintf(paths[i] + length, CONFIG_TEXT - length, "/%s", name) < CONFIG_TEXT - (int)length) continue;
    config_place(place, c->survey_file, s->line);
    return FAIL(e, CONFIG_TOO_LONG, place, i ? "checkpoint" : "output", "path", CONFIG_TEXT - 1);
  }
  if (beside) config_default_checkpoint(c, NULL);
  config_place(place, c->survey_file, s->line);
  char *const patterns[] = {c->gradient_observed, c->gradient_residual, c->gradient_weights};
  static const char *const keys[] = {"observed", "adjoint_source", "weights"};
  for (int i = 0; i < 3; i++)
    if (config_fill_pattern(patterns[i], name))
      return FAIL(e, CONFIG_TOO_LONG, place, "gradient", keys[i], CONFIG_TEXT - 1);
  return 0;
}

static int config_fill(config *c, config_entries *all, const config_given *given, const shot_line *s,
                       error *e) {
  TRY(config_entries_copy(all, &given->all, e));
  if (s) TRY(config_read_shot(all, config_shots(given), s, e));
  config_drop_cleared(all);
  TRY(config_fill_block(c, NULL, all->blocks[0], e));
  TRY(config_fill_sources(c, all, e));
  if (s) TRY(config_fill_name(c, all, s, e));
  return config_check(c, all, e);
}

/* Does the configuration without a shot have the same error? */
static bool config_fails_alike(const config_given *given, const error *e) {
  config c;
  error alone = {0};
  if (config_make(&c, given, NULL, &alone)) return strcmp(alone.text, e->text) == 0;
  config_free(&c);
  return false;
}

/* Begins the message with FILE:LINE of the shot, unless it begins so already or all shots have the mistake. A missing
 * key counts as the shot's mistake, since it may belong on the shot's line. */
static void config_tell_shot(const config_given *given, const shot_line *s, error *e) {
  char place[PLACE_TEXT];
  if (!s) return;
  config_place(place, config_shots(given), s->line);
  const size_t length = strlen(place);
  const bool missing = e->id == ERROR_CONFIG_MISSING || e->id == ERROR_USAGE_OVERRIDE;
  if (strncmp(e->text, place, length) == 0 && e->text[length] == ':') return;
  if (!missing && config_fails_alike(given, e)) return;
  const error bare = *e;
  *e = (error){0};
  error_set(e, ERROR_HERE, bare.id, "%s: %.*s", place, ERROR_TEXT - PLACE_TEXT, bare.text);
}

int config_make(config *c, const config_given *given, const shot_line *s, error *e) {
  memset(c, 0, sizeof *c); /* padding too, since the struct is sent and compared as bytes */
  strcpy(c->file, given->file);
  c->steps = -1;
  config_entries all = {0};
  const int failed = config_fill(c, &all, given, s, e);
  config_entries_close(&all);
  if (!failed) return 0;
  config_tell_shot(given, s, e);
  config_free(c);
  return failed;
}

void config_single(config *c) {
  c->survey_file[0] = c->report_file[0] = c->output_name[0] = '\0';
  c->survey_ranks = c->survey_at_once = 0;
  c->survey_on_stop = ON_STOP_DROP;
}

void config_free(config *c) {
  free(c->sources);
  free(c->receiver_positions);
  c->sources = NULL;
  c->receiver_positions = NULL;
  c->source_count = c->receiver_count = 0;
}

/* Finds the datasets of *s if not NULL, otherwise of c. */
static void config_datasets_of(const config *c, const source_config *s, void (*take)(void *, const char *),
                               void *context) {
  for (const config_key *k = config_keys; k < config_keys + config_key_count; k++) {
    const char *text = (s ? (const char *)s : (const char *)c) + k->offset;
    if (k->kind == VALUE_VARIANT && k->of_source == (s != NULL) && *text) take(context, text);
  }
}

void config_each_dataset(const config *c, void (*take)(void *, const char *), void *context) {
  config_datasets_of(c, NULL, take, context);
  for (int i = 0; i < c->source_count; i++) config_datasets_of(c, &c->sources[i], take, context);
}

int config_beyond(const config *c, enum face f) {
  return c->boundary_outside ? config_layer_width(c, f) : 0;
}

bool config_extends(const config *c) {
  for (int f = 0; f < FACE_COUNT; f++)
    if (config_beyond(c, (enum face)f)) return true;
  return false;
}

double config_points(const config *c) {
  double points = 1;
  for (int axis = 0; axis < 3; axis++) points *= config_axis_of(c, axis).points;
  return points;
}

config_axis config_axis_of(const config *c, int axis) {
  const int before = config_beyond(c, (enum face)(2 * axis));
  config_axis a = config_axis_given(c, axis);
  a.points += before + config_beyond(c, (enum face)(2 * axis + 1));
  a.first -= before * a.spacing;
  return a;
}

int config_point_given(const config *c, int axis, int point) {
  const int last = config_axis_given(c, axis).points - 1;
  return larger(0, smaller(point - config_beyond(c, (enum face)(2 * axis)), last));
}

config_axis config_axis_given(const config *c, int axis) {
  const int points[3] = {c->nx, c->ny, c->nz};
  const double spacing[3] = {c->dx, c->dy, c->dz};
  return (config_axis){.points = points[axis],
                       .first = c->origin[axis],
                       .spacing = points[axis] > 1 || axis == 2 ? spacing[axis] : 0,
                       .periodic = c->boundary[2 * axis] == BOUNDARY_PERIODIC};
}

bool config_has_medium(const config *c, enum medium m) {
  return equation_knows(c->equation, m) && (c->media[m].file[0] || c->media[m].number > 0);
}

bool config_density_varies(const config *c) {
  return config_has_medium(c, MEDIUM_DENSITY) && c->media[MEDIUM_DENSITY].file[0];
}

bool config_medium_absorbs(const config *c) {
  return config_has_medium(c, MEDIUM_QUALITY) || config_has_medium(c, MEDIUM_ABSORPTION);
}

bool config_has_terms(const config *c) {
  return config_density_varies(c) || config_medium_absorbs(c);
}

bool config_has_gradient(const config *c) {
  return c->gradient_observed[0] || c->gradient_residual[0];
}

double config_reference(const config *c) {
  return c->reference_frequency > 0 || !c->source_count ? c->reference_frequency : c->sources[0].f0;
}

config_cut config_cut_of(const config *c, int axis) {
  const double SLACK = 1e-6; /* of the spacing */
  const config_axis a = config_axis_given(c, axis);
  const double *box = &c->output_box[2 * axis], most = a.points;
  if (a.spacing == 0) return (config_cut){0, 1, 1};
  const int first = (int)fmin(most, fmax(0, ceil((box[0] - a.first) / a.spacing - SLACK))),
            last = (int)fmin(most - 1, fmax(-1, floor((box[1] - a.first) / a.spacing + SLACK))),
            every = (int)c->output_stride[axis];
  return (config_cut){first, last < first ? 0 : (last - first) / every + 1, every};
}

int config_cut_below(config_cut cut, int point) {
  return point <= cut.first ? 0 : smaller(cut.count, (point - cut.first + cut.every - 1) / cut.every);
}

bool config_cuts(const config *c) {
  for (int axis = 0; axis < 3; axis++)
    if (config_cut_of(c, axis).count < config_axis_of(c, axis).points) return true;
  return false;
}

bool config_has_checkpoints(const config *c) {
  return c->survey_file[0] ? c->survey_on_stop == ON_STOP_CHECKPOINT : !config_has_gradient(c);
}

bool config_has_maps(const config *c) {
  return c->maps_quantities[0] || c->maps_dft[0] > 0;
}

const char *const OUTPUT_ENDINGS[] = {".xdmf",     ".hdf.series",   RECEIVERS_ENDING,
                                      MAPS_ENDING, GRADIENT_ENDING, NULL};

bool config_writes(const config *c, enum output_file which) {
  if (which == OUTPUT_TRACES) return c->receivers != RECEIVERS_NONE;
  if (which == OUTPUT_MAPS) return config_has_maps(c);
  return which != OUTPUT_GRADIENT || config_has_gradient(c);
}

const char *const MAP_NAMES[MAP_QUANTITIES] = {"max", "min", "rms"};

int config_next_map(const char **text) {
  const size_t length = strcspn(*text += strspn(*text, " \t"), " \t");
  int i = 0;
  while (length && i < MAP_QUANTITIES &&
         (strlen(MAP_NAMES[i]) != length || strncmp(MAP_NAMES[i], *text, length)))
    i++;
  *text += length;
  return length ? i : -1;
}

bool config_maps(const config *c, int quantity) {
  const char *p = c->maps_quantities;
  for (int i; (i = config_next_map(&p)) >= 0;)
    if (i == quantity) return true;
  return false;
}

int config_frequencies(const config *c) {
  int count = 0;
  while (count < MAP_FREQUENCIES && c->maps_dft[count] > 0) count++;
  return count;
}

bool config_has_sources(const config *c) {
  return c->source_count > 0 || c->sources_listed;
}

double config_coarsest(const config *c) {
  double h = 0;
  for (int axis = 0; axis < 3; axis++) h = fmax(h, config_axis_of(c, axis).spacing);
  return h;
}

bool config_reflects(const config *c, enum face f) {
  return c->boundary[f] == BOUNDARY_DIRICHLET || c->boundary[f] == BOUNDARY_NEUMANN;
}

int config_layer_width(const config *c, enum face f) {
  return c->boundary[f] == BOUNDARY_ABSORBING ? c->boundary_width : 0;
}
