/* What config.c, config_file.c and config_print.c share: the shape of the table of keys, and entries not yet
 * parsed. Private to config/. */
#ifndef STENCIL_CONFIG_INTERNAL_H
#define STENCIL_CONFIG_INTERNAL_H

#include <stddef.h>
#include "config.h"

enum value_kind {
  VALUE_LATER,   /* a known key that this version cannot do */
  VALUE_INTEGER, /* int or int64_t, by size */
  VALUE_NUMBERS, /* one double, or an array of them filled by as many numbers */
  VALUE_SWITCH,  /* bool */
  VALUE_CHOICE,  /* an enum */
  VALUE_TEXT,    /* char array; with choices, one of their names */
  VALUE_INITIAL, /* [initial] u: sets initial, initial_number, initial_file */
  VALUE_FACES    /* boundary kind of the faces in a mask */
};

/* A spelling of a value. A list of them ends with a NULL name. */
typedef struct choice {
  const char *name;
  int value; /* CHOICE_LATER: known, but this version cannot do it */
} choice;
enum { CHOICE_LATER = -1 };

typedef struct range {
  double low, high;
} range;

/* A row of the table that drives parsing, defaults, messages, suggestions and printing. */
typedef struct config_key {
  const char *section, *name;
  enum value_kind kind;
  size_t offset, size;        /* the field of config it fills, bytes */
  int64_t min, max;           /* integers: limits */
  const range *range;         /* numbers: limits */
  const choice *choices;      /* spellings, for the kinds that have them */
  int faces;                  /* VALUE_FACES: bit f is face f */
  bool automatic;             /* integers: 0 is spelt "auto" */
  bool may_be_empty;          /* texts */
  const char *expected;       /* texts: what to call it in a message */
  const char *fallback;       /* default, spelt as in a file; NULL: none */
  void (*compute)(config *c); /* default that depends on keys above it in the table; NULL: none */
  bool required;
  enum initial_kind only_with; /* refused unless [initial] u is this; INITIAL_ZERO: no such condition */
} config_key;

extern const config_key config_keys[];
extern const int config_key_count;

/* The spelling of `value` that config_print writes: the first in the list. */
const char *config_choice_name(const choice *choices, int value);

/* What the user gave for a key: config_key_count of them, in the order of the table, zero-initialised. */
typedef struct config_entry {
  int line; /* in the file; 0: not given, ENTRY_OVERRIDE: command line */
  char text[CONFIG_TEXT];
} config_entry;
enum { ENTRY_OVERRIDE = -1 };

/* Begins every message: "FILE:LINE" or "command line". */
enum { PLACE_TEXT = CONFIG_TEXT + 16 };
void config_place(char place[PLACE_TEXT], const char *file, int line);

/* Fill `entries` from a file, and from overrides, which replace what is there. Values are not looked at. */
int config_read_file(config_entry *entries, const char *path, error *e);
int config_read_overrides(config_entry *entries, int count, const char *const overrides[], error *e);

#endif
