/* Shared by the files of config/: the type of the table of keys, and unparsed entries. config_file.c gathers entries,
 * config_value.c parses one, config.c fills the config from all, config_check.c checks it, config_print.c writes it
 * back. */
#ifndef STENCIL_CONFIG_INTERNAL_H
#define STENCIL_CONFIG_INTERNAL_H

#include <stddef.h>
#include <string.h>
#include "config.h"
#include "shots.h"

enum {
  POINTS_MAX = INT32_MAX - 64,  /* of an axis: with ghosts and padding, indices still fit an int */
  RECEIVER_POINTS_MAX = 200,    /* of [receivers] points; more come from a file */
  RECEIVER_LINE_MAX = 1000000,  /* of [receivers] line */
  POSITION_TEXT = 3 * 24 + 4,   /* longest "x y z, " that config_print writes */
  CONFIG_LIST_TEXT = 16 * 1024, /* longest list as one value, with its final 0 */
};
_Static_assert(CONFIG_LIST_TEXT > RECEIVER_POINTS_MAX * POSITION_TEXT,
               "config_print's text can be read back");

enum value_kind {
  VALUE_INTEGER, /* int or int64_t, by size */
  VALUE_NUMBERS, /* one double, or an array of them filled by as many numbers */
  VALUE_SWITCH,  /* bool */
  VALUE_CHOICE,  /* an enum, or an int of few values */
  VALUE_TEXT,    /* char array; with choices, one of their names */
  VALUE_VARIANT, /* a word, a number or FILE:/dataset, as choices say; sets the char array, `tag` and `number` */
  VALUE_FACES, /* boundary kind of the faces in a mask */
  VALUE_LINE,  /* receivers along a line */
  VALUE_POINTS /* receivers one by one */
};

/* A condition under which something applies. Messages say "only " followed by `says`. */
typedef struct condition {
  bool (*holds)(const config *c, const source_config *s); /* s: NULL except for keys of a source */
  const char *says; /* NULL: the condition is about the equation (config_says) */
  bool idle;        /* where it does not hold: true accepts the key without effect, false refuses it */
} condition;

enum choice_form { FORM_WORD, FORM_NUMBER, FORM_DATASET };

/* A spelling of a value. A list of them ends with a NULL name. */
typedef struct choice {
  const char *name; /* the word to type; for a number or dataset, its name in messages */
  int value;
  enum choice_form form;
  const condition *only_with; /* the value is refused unless this holds; NULL: always accepted */
  const char *doc;            /* one line of help; NULL: none needed */
} choice;

typedef struct range {
  double low, high;
} range;

/* A row of the table that drives parsing, defaults, messages, suggestions and printing. Offsets are into config, or
 * into source_config. */
typedef struct config_key {
  const char *section, *name;
  enum value_kind kind;
  size_t offset, size;   /* the field it fills, bytes */
  size_t tag, number;    /* variants, lists: offsets of their enum and double; 0: none */
  bool of_source;        /* the row is for this key of every source */
  int64_t min, max;      /* integers: limits */
  const range *range;    /* numbers: limits */
  const choice *choices; /* spellings, for kinds that have some */
  int faces;             /* VALUE_FACES: bit f is face f */
  bool most;             /* numbers: fewer may be given; the rest is 0 */
  bool whole;            /* numbers: integers, from range->low on */
  bool automatic;        /* integers, numbers: 0 is spelt "auto" */
  bool bytes;            /* numbers: a unit of bytes may follow, as in 40GB */
  bool no_bit;           /* the key changes no bit of a run's files: config_print_bits omits it */
  bool optional;         /* "not given": 0 for numbers, infinity for those with `compute`, -1 for int64_t */
  const char *expected;  /* texts: the name of a value in messages */
  const char *fallback;  /* default, spelt as in a file; NULL: none */
  void (*compute)(config *c, source_config *s); /* default that depends on keys above it in the table */
  bool required;                                /* the key must be given where it applies */
  const condition *unless;                      /* but `required` does not count where this holds */
  const condition *only_with; /* the key is refused unless this holds; NULL: always applies */
  const char *otherwise;      /* the default in the documentation, where it is no text */
  const char *unit;           /* NULL: a pure number, a word or a text */
  const char *doc;            /* one line */
  const char *example;        /* the value that config_example sets; NULL: the default */
  const char *note;           /* lines that docs/CONFIG.md and the man page add; NULL: none */
} config_key;

extern const config_key config_keys[];
extern const int config_key_count;

/* The first choice in the list that stands for `value`; NULL if none does. */
const choice *config_choice(const choice *choices, int value);

/* The number in MAP_NAMES of the next word of [maps] quantities from *text on, which moves behind the word. An unknown
 * word: MAP_QUANTITIES; no word: -1. */
int config_next_map(const char **text);

typedef struct config_entry {
  int line; /* of the file; 0: not given, ENTRY_OVERRIDE: command line, ENTRY_OVERRIDE - n: line n of the shots */
  char *text; /* owned; NULL: not given, or cleared by an empty value at `line` */
} config_entry;
enum { ENTRY_OVERRIDE = -1 };

/* The entries of one source, or of all sections that are not sources. */
typedef struct config_block {
  int number;             /* N of source.N; 0: the sections that are not sources */
  int line;               /* line where the block was first seen, as in config_entry */
  config_entry entries[]; /* config_key_count of them, in the order of the table */
} config_block;

/* All that the user gave. */
typedef struct config_entries {
  const char *file, *shots; /* names of the files that were read; not owned */
  config_block **blocks;    /* by ascending number: the first is number 0 */
  int count;
} config_entries;

/* The entries that config_open has read. */
struct config_given {
  char file[CONFIG_TEXT];
  config_entries all;
};

void config_entries_close(config_entries *all);
/* Copies all entries to `copy`, which must be empty. */
int config_entries_copy(config_entries *copy, const config_entries *all, error *e);
/* Finds the block of that number, or makes it; `line` is where it is first seen. */
int config_block_of(config_entries *all, int number, int line, config_block **block, error *e);
/* Removes sources whose keys have all been cleared. */
void config_drop_cleared(config_entries *all);
/* The entry of a key, which must be in the table. */
const config_entry *config_entry_of(const config_block *given, const char *section, const char *name);

/* Begins every message: "FILE:LINE", "FILE" for line 0, or "command line". */
enum { PLACE_TEXT = CONFIG_TEXT + 16 };
void config_place(char place[PLACE_TEXT], const char *file, int line);
/* Does the same for the line of an entry or block of a configuration. */
void config_place_of(char place[PLACE_TEXT], const config *c, int line);

/* Names the section of a key; for a source's key, source.N. */
enum { SECTION_TEXT = 32 };
void config_section(char section[SECTION_TEXT], const config_key *key, int number);

/* May shots differ in the key? */
bool config_is_of_shot(const config_key *key);

/* These fill `all`: from its file, or from `text` in place of the file, and from overrides, which replace earlier
 * entries. Values are not checked. */
int config_read_file(config_entries *all, const char *text, error *e);
int config_read_overrides(config_entries *all, int count, const char *const overrides[], error *e);
int config_read_shot(config_entries *all, const char *file, const shot_line *s, error *e);

/* A value on its way into the config. */
typedef struct value {
  const config_key *key;
  const char *section; /* as config_section names it */
  const char *text;
  const char *place; /* where the value was given, for messages */
  config *c;
  source_config *source; /* the source of a source's key; else NULL */
  error *e;
} value;

/* Parses v->text and sets the fields of its key. */
int config_parse(const value *v);
/* Describes the values of a key, such as "an integer >= 1" or "auto, on or off". `beyond`: a number outside the limits
 * was given, so the text must name the limits. */
enum { EXPECTED_TEXT = 256 };
void config_expected(const config_key *key, bool beyond, char text[EXPECTED_TEXT]);
/* The text of a condition in messages, such as "with type = heat or wave" if it depends on the equation. */
enum { SAYS_TEXT = 128 };
const char *config_says(const condition *k, char text[SAYS_TEXT]);

/* [output] path with this ending is the default of [checkpoint] path. */
#define CHECKPOINT_ENDING ".checkpoint"

/* Does the checks that concern several keys. All keys must have their values. */
int config_check(const config *c, const config_entries *all, error *e);

#endif
