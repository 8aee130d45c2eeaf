/* Parses one value from text into its fields of the config. */
#include "config_internal.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include "decimal.h"

_Static_assert(sizeof(enum equation) == sizeof(int), "value_set writes enums as ints");

#define BLANKS " \t"

static int config_refuse(const value *v, const char *expected) {
  return FAIL(v->e, CONFIG_VALUE, v->place, v->section, v->key->name, expected, v->text);
}

/* The field at `offset` of the config or source that the key belongs to. */
static void *value_field_at(const value *v, size_t offset) {
  return (v->key->of_source ? (char *)v->source : (char *)v->c) + offset;
}

static void *value_field_of(const value *v) {
  return value_field_at(v, v->key->offset);
}

/* Sets the field, a bool, an int or enum, or an int64_t. */
static int value_set(const value *v, int64_t number) {
  void *field = value_field_of(v);
  if (v->key->size == sizeof(bool))
    *(bool *)field = number;
  else if (v->key->size == sizeof(int))
    *(int *)field = (int)number;
  else
    *(int64_t *)field = number;
  return 0;
}

static bool value_is_auto(const value *v) {
  return v->key->automatic && strcmp(v->text, "auto") == 0;
}

static void value_expected_integer(const config_key *k, bool too_large, char text[EXPECTED_TEXT]) {
  enum { NARROW = 1000 }; /* limits this close are both named */
  const char *automatic = k->automatic ? "auto or " : "";
  if (k->max < NARROW)
    snprintf(text, EXPECTED_TEXT, "%san integer from %" PRId64 " to %" PRId64, automatic, k->min, k->max);
  else if (too_large)
    snprintf(text, EXPECTED_TEXT, "%san integer <= %" PRId64, automatic, k->max);
  else
    snprintf(text, EXPECTED_TEXT, "%san integer >= %" PRId64, automatic, k->min);
}

static void value_expected_numbers(const config_key *k, int count, bool beyond, char text[EXPECTED_TEXT]) {
  const char *automatic = k->automatic ? "auto or " : "";
  char each[64] = "";
  if (beyond)
    snprintf(each, sizeof each, " from %g to %g", k->range->low, k->range->high);
  else if (k->whole)
    snprintf(each, sizeof each, " >= %g", k->range->low);
  else if (k->range->low > 0)
    snprintf(each, sizeof each, " > 0");
  if (k->bytes)
    snprintf(text, EXPECTED_TEXT, "%sa size as 64MB or 40GB%s", automatic, beyond ? each : "");
  else if (count == 1)
    snprintf(text, EXPECTED_TEXT, "%sa number%s", automatic, each);
  else
    snprintf(text, EXPECTED_TEXT, "%s%d %s%s", k->most ? "at most " : "", count,
             k->whole ? "integers" : "numbers", each);
}

/* Lists the accepted spellings: "auto or sendrecv". */
static void value_expected_choice(const choice *next, char text[EXPECTED_TEXT]) {
  for (size_t length = 0; next->name && length < EXPECTED_TEXT;) {
    const char *name = next++->name;
    const char *joint = length == 0 ? "" : next->name ? ", " : " or ";
    length += (size_t)snprintf(text + length, EXPECTED_TEXT - length, "%s%s", joint, name);
  }
}

void config_expected(const config_key *key, bool beyond, char text[EXPECTED_TEXT]) {
  if (key->choices)
    value_expected_choice(key->choices, text);
  else if (key->kind == VALUE_INTEGER)
    value_expected_integer(key, beyond, text);
  else if (key->kind == VALUE_NUMBERS)
    value_expected_numbers(key, (int)(key->size / sizeof(double)), beyond, text);
  else
    snprintf(text, EXPECTED_TEXT, "%s", key->expected);
}

static int value_refuse(const value *v, bool beyond) {
  char expected[EXPECTED_TEXT];
  config_expected(v->key, beyond, expected);
  return config_refuse(v, expected);
}

static int value_integer(const value *v) {
  const config_key *k = v->key;
  int64_t wide = 0;
  if (!value_is_auto(v)) {
    bool beyond = false;
    if (!decimal_integer(v->text, &wide, &beyond) || wide < k->min) return value_refuse(v, false);
    if (beyond || wide > k->max) return value_refuse(v, true);
  }
  return value_set(v, wide);
}

/* Reads a number; a unit of bytes may follow if the key allows it. Changes `word`. */
static bool value_number(const config_key *k, char *word, double *number) {
  static const char PREFIXES[] = "kMGT";
  double unit = 1;
  char *end = word + strlen(word);
  if (k->bytes && end > word && end[-1] == 'B') {
    const bool binary = end - word > 2 && end[-2] == 'i';
    end -= binary ? 2 : 1;
    const char *prefix = end > word ? strchr(PREFIXES, end[-1]) : NULL;
    if (binary && !prefix) return false;
    for (long i = prefix ? prefix - PREFIXES + 1 : 0; i > 0; i--) unit *= binary ? 1024 : 1000;
    end[prefix ? -1 : 0] = '\0';
  }
  if (!decimal_number(word, number)) return false;
  *number *= unit;
  return true;
}

static int value_numbers(const value *v) {
  const range *r = v->key->range;
  int count = (int)(v->key->size / sizeof(double)), found = 0;
  double *numbers = value_field_of(v), number;
  char text[CONFIG_TEXT], *rest = text;
  snprintf(text, sizeof text, "%s", v->text);
  if (value_is_auto(v)) return 0;
  for (char *word; (word = strtok_r(NULL, BLANKS, &rest));) {
    if (found == count || !value_number(v->key, word, &number) || (v->key->whole && number != trunc(number)))
      return value_refuse(v, false);
    if (number < r->low || number > r->high) return value_refuse(v, r->low <= 0 || number > 0);
    numbers[found++] = number;
  }
  return found == count || (v->key->most && found > 0) ? 0 : value_refuse(v, false);
}

const char *config_dataset_cut(const char *name) {
  const char *cut = NULL;
  for (const char *p = name; (p = strstr(p, ":/")); p++) cut = p;
  return cut;
}

static bool value_has_form(const char *text, const choice *k) {
  double number;
  const char *dataset = config_dataset_cut(text);
  switch (k->form) {
  case FORM_WORD:
    return strcmp(k->name, text) == 0;
  case FORM_NUMBER:
    return decimal_number(text, &number);
  case FORM_DATASET:
    break;
  }
  return dataset && dataset > text && dataset[2];
}

/* Finds the first of the key's choices that v->text matches. */
static int value_find_choice(const value *v, const choice **found) {
  const choice *k = v->key->choices;
  char says[SAYS_TEXT];
  while (k->name && !value_has_form(v->text, k)) k++;
  if (!k->name) return value_refuse(v, false);
  if (k->only_with && !k->only_with->holds(v->c, v->source))
    return FAIL(v->e, CONFIG_ONLY_VALUE, v->place, v->section, v->key->name, v->text,
                config_says(k->only_with, says));
  *found = k;
  return 0;
}

static int value_word(const value *v) {
  const choice *chosen;
  TRY(value_find_choice(v, &chosen));
  return value_set(v, chosen->value);
}

static int value_faces(const value *v) {
  const choice *chosen;
  TRY(value_find_choice(v, &chosen));
  for (int face = 0; face < FACE_COUNT; face++)
    if (v->key->faces >> face & 1)
      v->c->boundary[face] =
          config_axis_of(v->c, face / 2).spacing == 0 ? BOUNDARY_NONE : (enum boundary_kind)chosen->value;
  return 0;
}

/* Does a path begin with text that a shell would replace, such as ~/x or $HOME/x? */
static bool value_is_for_shell(const char *text) {
  return (*text == '~' || *text == '$') && (strchr(text, '/') || !text[1]);
}

/* Copies v->text to the key's field. Refuses text that a line of a file cannot hold, so that the effective
 * configuration can always be saved and read back. */
static int value_copy_text(const value *v) {
  size_t length = strlen(v->text);
  if (length >= v->key->size)
    return FAIL(v->e, CONFIG_TOO_LONG, v->place, v->section, v->key->name, (int)v->key->size - 1);
  if (value_is_for_shell(v->text))
    return FAIL(v->e, CONFIG_SHELL, v->place, v->section, v->key->name, v->text);
  for (size_t i = 0; i < length; i++) {
    unsigned char sign = (unsigned char)v->text[i];
    bool comment = (sign == '#' || sign == ';') && (i == 0 || v->text[i - 1] == ' ');
    if (iscntrl(sign) || comment) return FAIL(v->e, CONFIG_TEXT_SIGN, v->place, v->section, v->key->name);
  }
  memcpy(value_field_of(v), v->text, length + 1);
  return 0;
}

static int value_text(const value *v) {
  const choice *ignored;
  if (v->key->choices) TRY(value_find_choice(v, &ignored));
  return value_copy_text(v);
}

static int value_variant(const value *v) {
  const config_key *k = v->key;
  const choice *chosen;
  TRY(value_find_choice(v, &chosen));
  if (k->tag) *(int *)value_field_at(v, k->tag) = chosen->value;
  if (chosen->form == FORM_DATASET) return value_copy_text(v);
  if (chosen->form == FORM_WORD) return 0;
  double number = 0;
  decimal_number(v->text, &number); /* value_has_form has checked that this is a number */
  if (number < k->range->low || number > k->range->high) {
    char expected[EXPECTED_TEXT];
    value_expected_numbers(k, 1, k->range->low <= 0 || number > 0, expected);
    return config_refuse(v, expected);
  }
  *(double *)value_field_at(v, k->number) = number;
  return 0;
}

/* --- [receivers] line and points: lists of positions -------------------------------------------- */

/* Sets the list to `count` positions of 0. */
static int value_make_positions(const value *v, enum receivers_kind kind, int count) {
  config *c = v->c;
  TRY(ALLOC(v->e, c->receiver_positions, count, "the receivers"));
  c->receivers = kind;
  c->receiver_count = count;
  return 0;
}

/* Reads the next word of *rest; false if there is none or the word is no coordinate. */
static bool value_take_number(const value *v, char **rest, double *number) {
  char *word = strtok_r(NULL, BLANKS, rest);
  return word && decimal_number(word, number) && *number >= v->key->range->low &&
         *number <= v->key->range->high;
}

static int value_line(const value *v) {
  char text[CONFIG_TEXT], *rest = text;
  double ends[6];
  int64_t n;
  bool beyond = false;
  snprintf(text, sizeof text, "%s", v->text);
  for (int i = 0; i < 6; i++)
    if (!value_take_number(v, &rest, &ends[i])) return value_refuse(v, false);
  char *word = strtok_r(NULL, BLANKS, &rest);
  if (!word || !decimal_integer(word, &n, &beyond) || strtok_r(NULL, BLANKS, &rest))
    return value_refuse(v, false);
  if (beyond || n < 1 || n > RECEIVER_LINE_MAX) return value_refuse(v, false);
  TRY(value_make_positions(v, RECEIVERS_LINE, (int)n));
  for (int i = 0; i < n; i++)
    for (int axis = 0; axis < 3; axis++) {
      double first = ends[axis], last = ends[3 + axis];
      bool is_last = i > 0 && i == n - 1; /* exactly `last`, so that config_print can write it back */
      v->c->receiver_positions[i][axis] =
          is_last ? last : first + (last - first) * i / fmax((double)n - 1, 1);
    }
  return 0;
}

static int value_points(const value *v) {
  int count = 1;
  for (const char *s = v->text; *s; s++) count += *s == ',';
  if (count > RECEIVER_POINTS_MAX) return value_refuse(v, false);
  TRY(value_make_positions(v, RECEIVERS_POINTS, count));
  char text[CONFIG_LIST_TEXT], *next = text;
  snprintf(text, sizeof text, "%s", v->text);
  for (int i = 0; i < count; i++) {
    char *rest = strsep(&next, ",");
    for (int axis = 0; axis < 3; axis++)
      if (!value_take_number(v, &rest, &v->c->receiver_positions[i][axis])) return value_refuse(v, false);
    if (strtok_r(NULL, BLANKS, &rest)) return value_refuse(v, false);
  }
  return 0;
}

int config_parse(const value *v) {
  static int (*const parse[])(const value *) = {
      [VALUE_INTEGER] = value_integer, [VALUE_NUMBERS] = value_numbers, [VALUE_SWITCH] = value_word,
      [VALUE_CHOICE] = value_word,     [VALUE_TEXT] = value_text,       [VALUE_VARIANT] = value_variant,
      [VALUE_FACES] = value_faces,     [VALUE_LINE] = value_line,       [VALUE_POINTS] = value_points};
  return parse[v->key->kind](v);
}
