/* Writes a config back to text: every key of the table, as config_open reads it. */
#include "config_internal.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Prints enough digits to read back the same double; 15 are enough for what people write. */
static void print_number(FILE *to, double number) {
  char text[32];
  for (int digits = 15; digits <= 17; digits++) {
    snprintf(text, sizeof text, "%.*g", digits, number);
    if (strtod(text, NULL) == number) break;
  }
  fprintf(to, "%s", text);
}

static void print_numbers(FILE *to, const config_key *key, const double *numbers, size_t count) {
  if (key->automatic && *numbers == 0) {
    fprintf(to, "auto");
    return;
  }
  for (size_t i = 0; i < count && !(key->most && numbers[i] == 0); i++) {
    if (i > 0) fprintf(to, " ");
    print_number(to, numbers[i]);
  }
}

static int64_t print_read_integer(const config_key *key, const void *field) {
  if (key->size == sizeof(bool)) return *(const bool *)field;
  return key->size == sizeof(int) ? *(const int *)field : *(const int64_t *)field;
}

/* Prints the file if there is one, else the word, else the number. */
static void print_variant(FILE *to, const config_key *key, const char *owner) {
  const char *file = owner + key->offset;
  const choice *chosen = config_choice(key->choices, key->tag ? *(const int *)(owner + key->tag) : 0);
  if (*file)
    fprintf(to, "%s", file);
  else if (chosen->form == FORM_WORD && (key->tag || *(const double *)(owner + key->number) == 0))
    fprintf(to, "%s", chosen->name);
  else
    print_number(to, *(const double *)(owner + key->number));
}

static void print_line(FILE *to, const config *c, const config_key *key) {
  print_numbers(to, key, c->receiver_positions[0], 3);
  fprintf(to, " ");
  print_numbers(to, key, c->receiver_positions[c->receiver_count - 1], 3);
  fprintf(to, " %d", c->receiver_count);
}

static void print_points(FILE *to, const config *c, const config_key *key) {
  for (int i = 0; i < c->receiver_count; i++) {
    if (i > 0) fprintf(to, ", ");
    print_numbers(to, key, c->receiver_positions[i], 3);
  }
}

/* Prints a number, or the word that stands for it. */
static void print_word(FILE *to, const config_key *key, int64_t number) {
  if (key->choices)
    fprintf(to, "%s", config_choice(key->choices, (int)number)->name);
  else if (key->automatic && number == 0)
    fprintf(to, "auto");
  else
    fprintf(to, "%" PRId64, number);
}

/* `owner` is the source of a source's key, else c. */
static void print_value(FILE *to, const config *c, const config_key *key, const void *owner) {
  const void *field = (const char *)owner + key->offset;
  if (key->kind == VALUE_NUMBERS)
    print_numbers(to, key, field, key->size / sizeof(double));
  else if (key->kind == VALUE_TEXT)
    fprintf(to, "%s", (const char *)field);
  else if (key->kind == VALUE_VARIANT)
    print_variant(to, key, owner);
  else if (key->kind == VALUE_FACES)
    print_word(to, key, (int64_t)c->boundary[__builtin_ctz((unsigned)key->faces)]);
  else if (key->kind == VALUE_LINE)
    print_line(to, c, key);
  else if (key->kind == VALUE_POINTS)
    print_points(to, c, key);
  else
    print_word(to, key, print_read_integer(key, field));
}

static bool print_is_given(const config_key *key, const char *owner) {
  const void *field = owner + key->offset;
  if (key->kind == VALUE_TEXT) return *(const char *)field;
  if (key->compute) return isfinite(*(const double *)field);
  return key->kind == VALUE_INTEGER ? *(const int64_t *)field != -1 : *(const double *)field != 0;
}

/* False for keys that would be refused, that were not given, or that stand for several others. */
static bool print_wants(const config *c, const source_config *source, const config_key *key,
                        const char *owner) {
  if (key->kind == VALUE_FACES && (key->faces & (key->faces - 1))) return false;
  if (key->optional && !print_is_given(key, owner)) return false;
  if (key->kind == VALUE_VARIANT && key->choices->form == FORM_DATASET && !owner[key->offset]) return false;
  if (key->tag && !config_choice(key->choices, *(const int *)(owner + key->tag))) return false;
  return !key->only_with || key->only_with->holds(c, source);
}

/* The keys to print: those of `c`. With a survey's entries `given`, keys that shots may change are printed from these
 * entries. */
typedef struct printing {
  FILE *to;
  const config *c;
  bool bits; /* without keys that change no bit */
  const config_entries *given;
} printing;

/* May shots differ in the key, or is its value made from their names? */
static bool print_is_of_shot(const config_key *key) {
  const bool path = strcmp(key->name, "path") == 0 &&
                    (strcmp(key->section, "output") == 0 || strcmp(key->section, "checkpoint") == 0);
  return path || config_is_of_shot(key) || key->of_source ||
         key->offset == offsetof(config, gradient_observed) ||
         key->offset == offsetof(config, gradient_residual) ||
         key->offset == offsetof(config, gradient_weights);
}

/* Prints the keys of a section, from `key` on, of the config or of source `at`, counted from 0. Returns the first key
 * of the next section. */
static const config_key *print_section(const printing *p, int at, const config_key *key) {
  const config_key *end = config_keys + config_key_count;
  const source_config *source = key->of_source && !p->given ? &p->c->sources[at] : NULL;
  const config_block *block = p->given ? p->given->blocks[key->of_source ? at + 1 : 0] : NULL;
  const void *owner = source ? (const void *)source : p->c;
  char section[SECTION_TEXT];
  bool begun = false;
  config_section(section, key, source ? source->number : block ? block->number : 0);
  for (const char *name = key->section; key < end && strcmp(key->section, name) == 0; key++) {
    const bool as_given = block && print_is_of_shot(key);
    const char *text = as_given ? block->entries[key - config_keys].text : NULL;
    if (as_given ? !text : (p->bits && key->no_bit) || !print_wants(p->c, source, key, owner)) continue;
    if (!begun) fprintf(p->to, "%s[%s]\n", key == config_keys ? "" : "\n", section);
    begun = true;
    fprintf(p->to, "%s = %s", key->name, text ? text : "");
    if (!text) print_value(p->to, p->c, key, owner);
    fprintf(p->to, "\n");
  }
  return key;
}

static char *print_all(printing p) {
  const int sources = p.given ? p.given->count - 1 : p.c->source_count;
  char *text = NULL;
  size_t length;
  p.to = open_memstream(&text, &length);
  for (const config_key *key = config_keys; p.to && key < config_keys + config_key_count;) {
    if (!key->of_source) {
      key = print_section(&p, 0, key);
      continue;
    }
    for (int i = 0; i < sources; i++) print_section(&p, i, key);
    while (key->of_source) key++; /* a source is never the last section */
  }
  if (p.to && fclose(p.to) == 0) return text;
  free(text);
  return NULL;
}

char *config_print(const config *c) {
  return print_all((printing){.c = c});
}

char *config_print_bits(const config *c) {
  return print_all((printing){.c = c, .bits = true});
}

char *config_print_survey(const config_given *given, const config *first) {
  return print_all((printing){.c = first, .given = &given->all});
}
