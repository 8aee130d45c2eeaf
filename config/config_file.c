/* From text to entries: the INI file, through inih, and the overrides of the command line. Names are checked
 * here, values are not.
 *
 * inih gives its handler no line numbers and passes over some mistakes in silence, so it reads through
 * read_line, which counts lines and takes comments and blanks away. */
#include "config_internal.h"
#include <errno.h>
#include <ini.h>
#include <string.h>
#include "../src/nearest.h"

enum {
  LINE_LONGEST = CONFIG_TEXT + 64, /* the longest value, its key and some blanks */
  NAMES_MOST = 32                  /* sections, and keys of a section: at most */
};

typedef struct reader {
  FILE *file;
  const char *path;
  config_entry *entries;
  error *e;
  int line;                    /* number of the line in `text` */
  bool cut;                    /* it is longer than that */
  char place[PLACE_TEXT];      /* and its name */
  char text[LINE_LONGEST + 1]; /* without comment, leading and trailing blanks */
} reader;

void config_place(char place[PLACE_TEXT], const char *file, int line) {
  if (line == ENTRY_OVERRIDE)
    snprintf(place, PLACE_TEXT, "command line");
  else
    snprintf(place, PLACE_TEXT, "%s:%d", file, line);
}

static bool is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* --- names ------------------------------------------------------------------------------------- */

/* The table has source.1 for all of source.1, source.2, ... */
static bool same_section(const char *known, const char *section) {
  size_t stem = strlen("source.");
  if (strncmp(known, "source.", stem) != 0) return strcmp(known, section) == 0;
  if (strncmp(section, known, stem) != 0) return false;
  const char *number = section + stem;
  return *number >= '1' && *number <= '9' && number[strspn(number, "0123456789")] == '\0';
}

/* " (did you mean 'nx'?)", or all there is if nothing comes near. */
static void suggest(char *text, size_t size, const char *name, const char *const names[], int count) {
  const char *nearest = nearest_name(name, names, count);
  if (nearest) {
    snprintf(text, size, " (did you mean '%s'?)", nearest);
    return;
  }
  size_t length = (size_t)snprintf(text, size, " (known:");
  for (int i = 0; i < count && length < size; i++)
    length += (size_t)snprintf(text + length, size - length, " %s%s", names[i], i < count - 1 ? "," : ")");
}

static int check_section(const char *place, const char *section, error *e) {
  const char *names[NAMES_MOST];
  int count = 0;
  for (int i = 0; i < config_key_count; i++) {
    const char *known = config_keys[i].section;
    if (same_section(known, section)) return 0;
    if (count < NAMES_MOST && (count == 0 || strcmp(known, names[count - 1]) != 0)) names[count++] = known;
  }
  char hint[512];
  suggest(hint, sizeof hint, section, names, count);
  return FAIL(e, CONFIG_SECTION, place, section, hint);
}

/* *found is the index of a key in the table. */
static int find_key(const char *place, const char *section, const char *name, int *found, error *e) {
  const char *names[NAMES_MOST];
  int count = 0;
  TRY(check_section(place, section, e));
  for (*found = 0; *found < config_key_count; ++*found) {
    const config_key *k = &config_keys[*found];
    if (!same_section(k->section, section)) continue;
    if (count < NAMES_MOST) names[count++] = k->name;
    if (strcmp(k->name, name) != 0) continue;
    return k->kind == VALUE_LATER ? FAIL(e, CONFIG_LATER_KEY, place, section, name) : 0;
  }
  char hint[512];
  suggest(hint, sizeof hint, name, names, count);
  return FAIL(e, CONFIG_KEY, place, section, name, hint);
}

/* Keeps `text` without leading and trailing blanks. */
static int store(config_entry *entry, int line, const char *place, const config_key *key, const char *text,
                 error *e) {
  if (line != ENTRY_OVERRIDE && entry->line)
    return FAIL(e, CONFIG_DUPLICATE, place, key->section, key->name, entry->line);
  while (is_blank(*text)) text++;
  size_t length = strlen(text);
  while (length > 0 && is_blank(text[length - 1])) length--;
  if (length >= sizeof entry->text)
    return FAIL(e, CONFIG_TOO_LONG, place, key->section, key->name, (int)sizeof entry->text - 1);
  memcpy(entry->text, text, length);
  entry->text[length] = '\0';
  entry->line = line;
  return 0;
}

/* --- the file ---------------------------------------------------------------------------------- */

/* Reads one line into r->text; false at the end of the file and after an error. */
static bool read_text(reader *r) {
  size_t length = 0;
  bool comment = false, any = false;
  int c;
  config_place(r->place, r->path, ++r->line);
  while ((c = getc(r->file)) != EOF && c != '\n') {
    any = true;
    if (c == '\0') return !FAIL(r->e, CONFIG_NUL, r->place);
    if ((c == '#' || c == ';') && (length == 0 || is_blank(r->text[length - 1]))) comment = true;
    bool mark = r->line == 1 && (c == 0xEF || c == 0xBB || c == 0xBF); /* UTF-8 byte order mark */
    if (comment || (length == 0 && (mark || is_blank((char)c)))) continue;
    if ((r->cut = length == LINE_LONGEST)) break;
    r->text[length++] = (char)c;
  }
  if (ferror(r->file)) return !FAIL(r->e, CONFIG_READ, r->path, strerror(errno));
  while (length > 0 && is_blank(r->text[length - 1])) length--;
  r->text[length] = '\0';
  return c == '\n' || any;
}

/* Refuses what inih would pass over or misread: "[grid] nx = 3", an unknown section without keys, a key
 * without name or too long for inih's buffer of `size`. */
static int check_form(reader *r, int size) {
  const char *equals = strpbrk(r->text, "=:");
  char *end = strchr(r->text, ']');
  bool header = *r->text == '[';
  bool entry = !header && equals && equals != r->text && equals - r->text <= size - 3;
  if (!*r->text || entry) return 0; /* of an entry, take_entry says what is too long */
  if (r->cut) return FAIL(r->e, CONFIG_LINE_LONG, r->place, LINE_LONGEST);
  if (!header || !end || end[1]) return FAIL(r->e, CONFIG_SYNTAX, r->place, r->text);
  *end = '\0';
  TRY(check_section(r->place, r->text + 1, r->e));
  *end = ']';
  return 0;
}

/* fgets for inih, whose buffer of `size` may be shorter than a path: it gets the head of the line, enough for
 * section and key, and take_entry finds the value in r->text. */
static char *read_line(char *line, int size, void *context) {
  reader *r = context;
  if (r->e->id || !read_text(r) || check_form(r, size)) return NULL;
  snprintf(line, (size_t)size, "%.*s\n", size - 2, r->text);
  return line;
}

/* inih's handler: 1 for success. */
static int take_entry(void *context, const char *section, const char *name, const char *head) {
  reader *r = context;
  (void)head;
  int found;
  if (!*section) return !FAIL(r->e, CONFIG_NO_SECTION, r->place, name);
  if (find_key(r->place, section, name, &found, r->e)) return 0;
  const config_key *key = &config_keys[found];
  if (r->cut) return !FAIL(r->e, CONFIG_TOO_LONG, r->place, key->section, key->name, CONFIG_TEXT - 1);
  const char *value = strpbrk(r->text, "=:") + 1;
  return !store(&r->entries[found], r->line, r->place, key, value, r->e);
}

int config_read_file(config_entry *entries, const char *path, error *e) {
  reader r = {.file = fopen(path, "r"), .path = path, .entries = entries, .e = e};
  if (!r.file) return FAIL(e, CONFIG_READ, path, strerror(errno));
  int failed = ini_parse_stream(read_line, &r, take_entry, &r);
  if (failed) FAIL(e, CONFIG_SYNTAX, r.place, r.text); /* nothing new where take_entry refused the line */
  fclose(r.file);
  return e->id;
}

/* --- the command line -------------------------------------------------------------------------- */

typedef struct override {
  char section[64], name[64]; /* longer ones are cut, and unknown all the same */
  const char *value;
} override;

/* section.key=value, where the section may hold a dot (source.1) and the value anything. */
static int split(override *o, const char *text, error *e) {
  const char *equals = strchr(text, '=');
  const char *dot = equals ? memrchr(text, '.', (size_t)(equals - text)) : NULL;
  if (!dot || dot == text || dot + 1 == equals) return FAIL(e, USAGE_OVERRIDE, text);
  snprintf(o->section, sizeof o->section, "%.*s", (int)(dot - text), text);
  snprintf(o->name, sizeof o->name, "%.*s", (int)(equals - dot - 1), dot + 1);
  o->value = equals + 1;
  return 0;
}

int config_check_override(const char *text, error *e) {
  override o;
  return split(&o, text, e);
}

int config_read_overrides(config_entry *entries, int count, const char *const overrides[], error *e) {
  char place[PLACE_TEXT];
  config_place(place, NULL, ENTRY_OVERRIDE);
  for (int i = 0; i < count; i++) {
    override o;
    int found;
    TRY(split(&o, overrides[i], e));
    TRY(find_key(place, o.section, o.name, &found, e));
    TRY(store(&entries[found], ENTRY_OVERRIDE, place, &config_keys[found], o.value, e));
  }
  return 0;
}
