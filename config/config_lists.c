/* [receivers] line and points: from text to a list of positions. */
#include "config_internal.h"
#include <stdlib.h>
#include <string.h>
#include "decimal.h"

/* Sets the list to `count` positions of 0. */
static int lists_make_positions(const value *v, enum receivers_kind kind, int count) {
  config *c = v->c;
  c->receiver_positions = calloc((size_t)count, sizeof *c->receiver_positions);
  if (!c->receiver_positions)
    return FAIL(v->e, OUT_OF_MEMORY, (size_t)count * sizeof *c->receiver_positions, "the receivers");
  c->receivers = kind;
  c->receiver_count = count;
  return 0;
}

static int lists_refuse(const value *v) {
  return config_refuse(v, v->key->choices->name);
}

/* Cuts the next word off *rest; NULL if there is none. */
static char *lists_take_word(char **rest) {
  char *word = strsep(rest, " \t");
  while (word && !*word) word = strsep(rest, " \t");
  return word;
}

/* Reads the next word of *rest; false if there is none or it is no coordinate. */
static bool lists_take_number(const value *v, char **rest, double *number) {
  char *word = lists_take_word(rest);
  return word && decimal_number(word, number) && *number >= v->key->range->low &&
         *number <= v->key->range->high;
}

int config_parse_line(const value *v) {
  char text[CONFIG_TEXT], *rest = text;
  double ends[6];
  int64_t n;
  bool beyond = false;
  snprintf(text, sizeof text, "%s", v->text);
  for (int i = 0; i < 6; i++)
    if (!lists_take_number(v, &rest, &ends[i])) return lists_refuse(v);
  char *word = lists_take_word(&rest);
  if (!word || !decimal_integer(word, &n, &beyond) || lists_take_word(&rest)) return lists_refuse(v);
  if (beyond || n < 1 || n > RECEIVER_LINE_MAX) return lists_refuse(v);
  TRY(lists_make_positions(v, RECEIVERS_LINE, (int)n));
  for (int i = 0; i < n; i++)
    for (int axis = 0; axis < 3; axis++) {
      double first = ends[axis], last = ends[3 + axis];
      bool is_last = i > 0 && i == n - 1; /* exactly `last`, so that config_print can write it back */
      v->c->receiver_positions[i][axis] =
          is_last ? last : first + (last - first) * i / fmax((double)n - 1, 1);
    }
  return 0;
}

int config_parse_points(const value *v) {
  int count = 1;
  for (const char *s = v->text; *s; s++) count += *s == ',';
  if (count > RECEIVER_POINTS_MAX) return lists_refuse(v);
  TRY(lists_make_positions(v, RECEIVERS_POINTS, count));
  char text[CONFIG_LIST_TEXT], *next = text;
  snprintf(text, sizeof text, "%s", v->text);
  for (int i = 0; i < count; i++) {
    char *rest = strsep(&next, ",");
    for (int axis = 0; axis < 3; axis++)
      if (!lists_take_number(v, &rest, &v->c->receiver_positions[i][axis])) return lists_refuse(v);
    if (lists_take_word(&rest)) return lists_refuse(v);
  }
  return 0;
}
