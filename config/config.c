/* The configuration as a whole: every key of the table gets its value from what the user gave or from its
 * default. */
#include "config_keys.h"
#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "decimal.h"

_Static_assert(sizeof(enum equation) == sizeof(int), "parse_choice writes enums as ints");

/* A value on its way into the config. */
typedef struct value {
  const config_key *key;
  const char *text;
  const char *place; /* where it was given */
  error *e;
} value;

static int refuse(const value *v, const char *expected) {
  return FAIL(v->e, CONFIG_VALUE, v->place, v->key->section, v->key->name, expected, v->text);
}

static int refuse_integer(const value *v, bool too_large) {
  enum { NARROW = 1000 }; /* limits this close are better told together */
  const config_key *k = v->key;
  const char *automatic = k->automatic ? "auto or " : "";
  char expected[96];
  if (k->max < NARROW)
    snprintf(expected, sizeof expected, "%san integer from %" PRId64 " to %" PRId64, automatic, k->min,
             k->max);
  else if (too_large)
    snprintf(expected, sizeof expected, "%san integer <= %" PRId64, automatic, k->max);
  else
    snprintf(expected, sizeof expected, "%san integer >= %" PRId64, automatic, k->min);
  return refuse(v, expected);
}

static int parse_integer(config *c, const value *v) {
  const config_key *k = v->key;
  int64_t wide = 0;
  if (!k->automatic || strcmp(v->text, "auto") != 0) {
    bool beyond = false;
    if (!decimal_integer(v->text, &wide, &beyond) || wide < k->min) return refuse_integer(v, false);
    if (beyond || wide > k->max) return refuse_integer(v, true);
  }
  int narrow = (int)wide;
  memcpy((char *)c + k->offset, k->size == sizeof narrow ? (void *)&narrow : (void *)&wide, k->size);
  return 0;
}

static int refuse_number(const value *v, int count, bool beyond) {
  const range *r = v->key->range;
  char expected[96], each[64] = "";
  if (beyond)
    snprintf(each, sizeof each, " from %g to %g", r->low, r->high);
  else if (r->low > 0)
    snprintf(each, sizeof each, " > 0");
  if (count == 1)
    snprintf(expected, sizeof expected, "a number%s", each);
  else
    snprintf(expected, sizeof expected, "%d numbers%s", count, each);
  return refuse(v, expected);
}

static int parse_numbers(config *c, const value *v) {
  const range *r = v->key->range;
  int count = (int)(v->key->size / sizeof(double)), found = 0;
  double *numbers = (double *)((char *)c + v->key->offset), number;
  char text[CONFIG_TEXT], *rest = NULL;
  snprintf(text, sizeof text, "%s", v->text);
  for (char *word = strtok_r(text, " \t", &rest); word; word = strtok_r(NULL, " \t", &rest)) {
    if (found == count || !decimal_number(word, &number)) return refuse_number(v, count, false);
    if (number < r->low || number > r->high) return refuse_number(v, count, r->low <= 0 || number > 0);
    numbers[found++] = number;
  }
  return found == count ? 0 : refuse_number(v, count, false);
}

/* Lists the spellings that this version takes, "auto or sendrecv", and then `more` if it is not NULL. */
static int refuse_choice(const value *v, const char *more) {
  char expected[256] = "";
  const choice *next = v->key->choices;
  for (size_t length = 0; next->name && length < sizeof expected;) {
    const char *name = next->name;
    for (next++; next->name && next->value == CHOICE_LATER;) next++;
    const char *joint = length == 0 ? "" : next->name || more ? ", " : " or ";
    length += (size_t)snprintf(expected + length, sizeof expected - length, "%s%s", joint, name);
  }
  if (more) strncat(expected, more, sizeof expected - strlen(expected) - 1);
  return refuse(v, expected);
}

/* *found is NULL if v->text is none of the key's choices. */
static int find_choice(const value *v, const choice **found) {
  const choice *k = v->key->choices;
  while (k->name && strcmp(k->name, v->text) != 0) k++;
  *found = k->name ? k : NULL;
  if (k->name && k->value == CHOICE_LATER)
    return FAIL(v->e, CONFIG_LATER_VALUE, v->place, v->key->section, v->key->name, v->text);
  return 0;
}

static int take_choice(const value *v, int *chosen) {
  const choice *found;
  TRY(find_choice(v, &found));
  if (!found) return refuse_choice(v, NULL);
  *chosen = found->value;
  return 0;
}

static int parse_choice(config *c, const value *v) {
  return take_choice(v, (int *)((char *)c + v->key->offset));
}

static int parse_switch(config *c, const value *v) {
  int chosen = 0;
  TRY(take_choice(v, &chosen));
  *(bool *)((char *)c + v->key->offset) = chosen;
  return 0;
}

static int parse_faces(config *c, const value *v) {
  int chosen = 0;
  TRY(take_choice(v, &chosen));
  for (int face = 0; face < FACE_COUNT; face++)
    if (v->key->faces >> face & 1) c->boundary[face] = (enum boundary_kind)chosen;
  return 0;
}

/* Copies v->text to `field`. What a command line can hold but a line of a file cannot is refused, so that the
 * effective configuration can always be saved and read back. */
static int copy_text(const value *v, char *field, size_t size) {
  size_t length = strlen(v->text);
  if (length >= size)
    return FAIL(v->e, CONFIG_TOO_LONG, v->place, v->key->section, v->key->name, (int)size - 1);
  for (size_t i = 0; i < length; i++) {
    unsigned char sign = (unsigned char)v->text[i];
    bool comment = (sign == '#' || sign == ';') && (i == 0 || v->text[i - 1] == ' ');
    if (iscntrl(sign) || comment)
      return FAIL(v->e, CONFIG_TEXT_SIGN, v->place, v->key->section, v->key->name);
  }
  memcpy(field, v->text, length + 1);
  return 0;
}

static int parse_text(config *c, const value *v) {
  int ignored = 0;
  if (v->key->choices) TRY(take_choice(v, &ignored));
  if (!*v->text && !v->key->may_be_empty) return refuse(v, v->key->expected);
  return copy_text(v, (char *)c + v->key->offset, v->key->size);
}

static int parse_initial(config *c, const value *v) {
  const choice *named;
  TRY(find_choice(v, &named));
  const char *dataset = strstr(v->text, ":/");
  if (named) {
    c->initial = (enum initial_kind)named->value;
  } else if (decimal_number(v->text, &c->initial_number)) {
    c->initial = INITIAL_NUMBER;
    if (fabs(c->initial_number) > v->key->range->high) return refuse_number(v, 1, true);
  } else if (dataset && dataset > v->text && dataset[2]) {
    c->initial = INITIAL_FILE;
    return copy_text(v, c->initial_file, sizeof c->initial_file);
  } else {
    return refuse_choice(v, ", a number or FILE:/dataset");
  }
  return 0;
}

static int parse(config *c, const value *v) {
  switch (v->key->kind) {
  case VALUE_INTEGER:
    return parse_integer(c, v);
  case VALUE_NUMBERS:
    return parse_numbers(c, v);
  case VALUE_SWITCH:
    return parse_switch(c, v);
  case VALUE_CHOICE:
    return parse_choice(c, v);
  case VALUE_TEXT:
    return parse_text(c, v);
  case VALUE_INITIAL:
    return parse_initial(c, v);
  case VALUE_FACES:
    return parse_faces(c, v);
  case VALUE_LATER:
    break;
  }
  return FAIL(v->e, CONFIG_LATER_KEY, v->place, v->key->section, v->key->name);
}

static void default_center(config *c) {
  c->gaussian_center[0] = c->origin[0] + (c->nx - 1) / 2.0 * c->dx;
  c->gaussian_center[1] = c->origin[1] + (c->ny - 1) / 2.0 * c->dy;
  c->gaussian_center[2] = c->origin[2] + (c->nz - 1) / 2.0 * c->dz;
}

/* A tenth of the longest extent, but at least one spacing, or a small grid would hold a spike. */
static void default_width(config *c) {
  double longest = fmax((c->nx - 1) * c->dx, fmax((c->ny - 1) * c->dy, (c->nz - 1) * c->dz));
  c->gaussian_width = fmax(longest / 10, fmax(c->dx, fmax(c->dy, c->dz)));
}

static int fill_key(config *c, const config_key *key, const config_entry *entry, error *e) {
  char place[PLACE_TEXT];
  config_place(place, c->file, entry->line);
  value v = {key, entry->line ? entry->text : key->fallback, place, e};
  if (entry->line && key->only_with != INITIAL_ZERO && c->initial != key->only_with) {
    const char *u = key->only_with == INITIAL_GAUSSIAN ? "gaussian" : "random";
    return FAIL(e, CONFIG_ONLY_WITH, place, key->section, key->name, u);
  }
  if (v.text) return parse(c, &v);
  if (key->required) return FAIL(e, CONFIG_MISSING, c->file, key->section, key->name);
  if (key->compute) key->compute(c);
  return 0; /* nothing to do for a face whose boundary a wider key sets */
}

static int fill(config *c, const config_entry *entries, error *e) {
  for (int i = 0; i < config_key_count; i++)
    if (config_keys[i].kind != VALUE_LATER) TRY(fill_key(c, &config_keys[i], &entries[i], e));
  if (c->nx > INT64_MAX / c->ny / c->nz) return FAIL(e, CONFIG_TOO_MANY_POINTS, c->file, c->nx, c->ny, c->nz);
  return 0;
}

int config_load(config *c, const char *path, int count, const char *const overrides[], error *e) {
  memset(c, 0, sizeof *c); /* padding too: it is sent and compared as bytes */
  if (strlen(path) >= sizeof c->file) return FAIL(e, CONFIG_PATH, (int)sizeof c->file - 1, path);
  strcpy(c->file, path);
  config_entry *entries = calloc((size_t)config_key_count, sizeof *entries);
  if (!entries)
    return FAIL(e, OUT_OF_MEMORY, (size_t)config_key_count * sizeof *entries, "the configuration");
  int failed = config_read_file(entries, path, e);
  if (!failed) failed = config_read_overrides(entries, count, overrides, e);
  if (!failed) failed = fill(c, entries, e);
  free(entries);
  return failed;
}

const char *transport_name(enum transport_kind t) {
  return config_choice_name(transport_choices, (int)t);
}

const char *io_name(enum io_kind io) {
  return config_choice_name(io_choices, (int)io);
}
