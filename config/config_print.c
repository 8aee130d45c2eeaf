/* From a config back to text: every key of the table, as config_load reads it. */
#include "config_internal.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

const char *config_choice_name(const choice *choices, int value) {
  while (choices->name && choices->value != value) choices++;
  return choices->name;
}

/* Text that is built like snprintf does: cut to `size`, while `length` counts on. */
typedef struct sink {
  char *text;
  size_t size, length;
} sink;

static void put(sink *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void put(sink *s, const char *format, ...) {
  size_t room = s->size > s->length ? s->size - s->length : 0;
  va_list args;
  va_start(args, format);
  s->length += (size_t)vsnprintf(room ? s->text + s->length : NULL, room, format, args);
  va_end(args);
}

/* The fewest digits that read back as the same double. */
static void put_number(sink *s, double number) {
  char text[32];
  for (int digits = 1; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, number);
    if (strtod(text, NULL) == number) break;
  }
  put(s, "%s", text);
}

static void put_numbers(sink *s, const void *field, size_t size) {
  const double *numbers = field;
  for (size_t i = 0; i < size / sizeof *numbers; i++) {
    if (i > 0) put(s, " ");
    put_number(s, numbers[i]);
  }
}

static void put_integer(sink *s, const config_key *key, const void *field) {
  int narrow;
  int64_t integer;
  memcpy(key->size == sizeof narrow ? (void *)&narrow : (void *)&integer, field, key->size);
  if (key->size == sizeof narrow) integer = narrow;
  if (key->automatic && integer == 0)
    put(s, "auto");
  else
    put(s, "%" PRId64, integer);
}

static void put_initial(sink *s, const config *c, const config_key *key) {
  if (c->initial == INITIAL_NUMBER)
    put_number(s, c->initial_number);
  else if (c->initial == INITIAL_FILE)
    put(s, "%s", c->initial_file);
  else
    put(s, "%s", config_choice_name(key->choices, (int)c->initial));
}

static void put_value(sink *s, const config *c, const config_key *key) {
  const void *field = (const char *)c + key->offset;
  switch (key->kind) {
  case VALUE_LATER:
    break; /* not printed */
  case VALUE_INTEGER:
    put_integer(s, key, field);
    break;
  case VALUE_NUMBERS:
    put_numbers(s, field, key->size);
    break;
  case VALUE_SWITCH:
    put(s, "%s", config_choice_name(key->choices, *(const bool *)field));
    break;
  case VALUE_CHOICE:
    put(s, "%s", config_choice_name(key->choices, *(const int *)field));
    break;
  case VALUE_TEXT:
    put(s, "%s", (const char *)field);
    break;
  case VALUE_INITIAL:
    put_initial(s, c, key);
    break;
  case VALUE_FACES:
    put(s, "%s", config_choice_name(key->choices, (int)c->boundary[__builtin_ctz((unsigned)key->faces)]));
    break;
  }
}

/* Keys that would be refused, and those that stand for several others, are left out. */
static bool is_printed(const config *c, const config_key *key) {
  if (key->kind == VALUE_LATER) return false;
  if (key->kind == VALUE_FACES && (key->faces & (key->faces - 1))) return false;
  return key->only_with == INITIAL_ZERO || key->only_with == c->initial;
}

size_t config_print(const config *c, char *text, size_t size) {
  sink s = {text, size, 0};
  const char *section = "";
  if (size > 0) *text = '\0';
  for (const config_key *key = config_keys; key < config_keys + config_key_count; key++) {
    if (!is_printed(c, key)) continue;
    if (strcmp(section, key->section) != 0) put(&s, "%s[%s]\n", *section ? "\n" : "", key->section);
    section = key->section;
    put(&s, "%s = ", key->name);
    put_value(&s, c, key);
    put(&s, "\n");
  }
  return s.length;
}
