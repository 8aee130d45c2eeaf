/* From a config back to text: every key of the table, as config_load reads it. */
#include "config_internal.h"
#include <inttypes.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* Text that is built as snprintf does: cut to `size`, while `length` goes on counting. */
typedef struct sink {
  char *text;
  size_t size, length;
} sink;

static void print_add(sink *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void print_add(sink *s, const char *format, ...) {
  size_t room = s->size > s->length ? s->size - s->length : 0;
  va_list args;
  va_start(args, format);
  s->length += (size_t)vsnprintf(room ? s->text + s->length : NULL, room, format, args);
  va_end(args);
}

/* Digits that read back as the same double; 15 are enough for what people write. */
static void print_number(sink *s, double number) {
  char text[32];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, number);
    if (strtod(text, NULL) == number) break;
  }
  print_add(s, "%s", text);
}

static void print_numbers(sink *s, const config_key *key, const double *numbers, size_t count) {
  if (key->automatic && *numbers == 0) {
    print_add(s, "auto");
    return;
  }
  for (size_t i = 0; i < count; i++) {
    if (i > 0) print_add(s, " ");
    print_number(s, numbers[i]);
  }
}

static void print_integer(sink *s, const config_key *key, const void *field) {
  int narrow;
  int64_t integer;
  memcpy(key->size == sizeof narrow ? (void *)&narrow : (void *)&integer, field, key->size);
  if (key->size == sizeof narrow) integer = narrow;
  if (key->automatic && integer == 0)
    print_add(s, "auto");
  else
    print_add(s, "%" PRId64, integer);
}

static const char *print_name_of(const config_key *key, int value) {
  return config_choice(key->choices, value)->name;
}

/* The file if there is one, else the word, else the number. */
static void print_variant(sink *s, const config_key *key, const char *owner) {
  const char *file = owner + key->offset;
  const choice *chosen = config_choice(key->choices, key->tag ? *(const int *)(owner + key->tag) : 0);
  if (*file)
    print_add(s, "%s", file);
  else if (chosen->form == FORM_WORD)
    print_add(s, "%s", chosen->name);
  else
    print_number(s, *(const double *)(owner + key->number));
}

static void print_line(sink *s, const config *c, const config_key *key) {
  print_numbers(s, key, c->receiver_positions[0], 3);
  print_add(s, " ");
  print_numbers(s, key, c->receiver_positions[c->receiver_count - 1], 3);
  print_add(s, " %d", c->receiver_count);
}

static void print_points(sink *s, const config *c, const config_key *key) {
  for (int i = 0; i < c->receiver_count; i++) {
    if (i > 0) print_add(s, ", ");
    print_numbers(s, key, c->receiver_positions[i], 3);
  }
}

/* `owner` is c or the source that the key is of. */
static void print_value(sink *s, const config *c, const config_key *key, const void *owner) {
  const void *field = (const char *)owner + key->offset;
  switch (key->kind) {
  case VALUE_INTEGER:
    print_integer(s, key, field);
    break;
  case VALUE_NUMBERS:
    print_numbers(s, key, field, key->size / sizeof(double));
    break;
  case VALUE_SWITCH:
    print_add(s, "%s", print_name_of(key, *(const bool *)field));
    break;
  case VALUE_CHOICE:
    print_add(s, "%s", print_name_of(key, *(const int *)field));
    break;
  case VALUE_TEXT:
    print_add(s, "%s", (const char *)field);
    break;
  case VALUE_VARIANT:
    print_variant(s, key, owner);
    break;
  case VALUE_FACES:
    print_add(s, "%s", print_name_of(key, (int)c->boundary[__builtin_ctz((unsigned)key->faces)]));
    break;
  case VALUE_LINE:
    print_line(s, c, key);
    break;
  case VALUE_POINTS:
    print_points(s, c, key);
    break;
  }
}

static bool print_is_given(const config_key *key, const char *owner) {
  const void *field = owner + key->offset;
  if (key->kind == VALUE_TEXT) return *(const char *)field;
  return key->kind == VALUE_INTEGER ? *(const int64_t *)field != -1 : *(const double *)field != 0;
}

/* False for keys that would be refused, that nobody gave, or that stand for several others. */
static bool print_wants(const config *c, const source_config *source, const config_key *key,
                        const char *owner) {
  if (key->kind == VALUE_FACES && (key->faces & (key->faces - 1))) return false;
  if (key->optional && !print_is_given(key, owner)) return false;
  if (key->tag && !config_choice(key->choices, *(const int *)(owner + key->tag))) return false;
  return !key->only_with || key->only_with->holds(c, source);
}

/* Prints the keys from `key` on that share its section, of the config or of one source. Returns the first key of the
 * next section. */
static const config_key *print_section(sink *s, const config *c, const source_config *source,
                                       const config_key *key) {
  const config_key *end = config_keys + config_key_count;
  const void *owner = source ? (const void *)source : c;
  char section[SECTION_TEXT];
  bool begun = false;
  config_section(section, key, source ? source->number : 0);
  for (const char *name = key->section; key < end && strcmp(key->section, name) == 0; key++) {
    if (!print_wants(c, source, key, owner)) continue;
    if (!begun) print_add(s, "%s[%s]\n", s->length > 0 ? "\n" : "", section);
    begun = true;
    print_add(s, "%s = ", key->name);
    print_value(s, c, key, owner);
    print_add(s, "\n");
  }
  return key;
}

size_t config_print(const config *c, char *text, size_t size) {
  sink s = {text, size, 0};
  if (size > 0) *text = '\0';
  for (const config_key *key = config_keys; key < config_keys + config_key_count;) {
    if (!key->of_source) {
      key = print_section(&s, c, NULL, key);
      continue;
    }
    for (int i = 0; i < c->source_count; i++) print_section(&s, c, &c->sources[i], key);
    while (key->of_source) key++; /* never the last section */
  }
  return s.length;
}
