/* From text to entries: the INI file and the overrides of the command line. Names are checked here, values are not. */
#include "config_internal.h"
#include <errno.h>
#include <linux/magic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include "base/nearest.h"

enum {
  LINE_LONGEST = CONFIG_LIST_TEXT + 64, /* room for the longest value, its key and some blanks */
  NAMES_MOST = 32                       /* the most sections, and the most keys of a section */
};

typedef struct file_reader {
  FILE *file;
  config_entries *entries;
  error *e;
  char section[SECTION_TEXT];  /* the latest section, or empty; a longer name is refused */
  int line;                    /* number of the line in `text` */
  bool cut;                    /* the line is longer than `text` */
  char place[PLACE_TEXT];      /* the line's name for messages */
  char text[LINE_LONGEST + 1]; /* without comment, leading and trailing blanks */
} file_reader;

static bool file_is_blank(char c) {
  return c == ' ' || (c >= '\t' && c <= '\r');
}

/* --- names ------------------------------------------------------------------------------------- */

/* N of "source.N", 1 or more without leading zeros; 0 for any other text. */
static int file_source_number(const char *section) {
  static const char stem[] = "source.";
  int64_t number = 0;
  if (strncmp(section, stem, strlen(stem)) != 0) return 0;
  const char *digit = section + strlen(stem);
  if (*digit == '0') return 0;
  for (; *digit >= '0' && *digit <= '9' && number <= INT32_MAX; digit++) number = 10 * number + *digit - '0';
  return *digit == '\0' && number <= INT32_MAX ? (int)number : 0;
}

static bool file_same_section(const config_key *key, const char *section) {
  return key->of_source ? file_source_number(section) > 0 : strcmp(key->section, section) == 0;
}

/* " (did you mean 'nx'?)", or all known names if none is near. */
static void file_suggest(char *text, size_t size, const char *name, const char *const names[], int count) {
  const char *nearest = nearest_name(name, names, count);
  if (nearest) {
    snprintf(text, size, " (did you mean '%s'?)", nearest);
    return;
  }
  size_t length = (size_t)snprintf(text, size, " (known:");
  for (int i = 0; i < count && length < size; i++)
    length += (size_t)snprintf(text + length, size - length, " %s%s", names[i], i < count - 1 ? "," : ")");
}

/* *found: the index in the table of key `name` of the section; with `name` NULL, of any key of the section. */
static int file_find_key(const char *place, const char *section, const char *name, int *found, error *e) {
  const char *sections[NAMES_MOST] = {NULL}, *names[NAMES_MOST] = {NULL};
  int section_count = 0, count = 0;
  char hint[512];
  for (*found = 0; *found < config_key_count; ++*found) {
    const config_key *k = &config_keys[*found];
    const bool begins = *found == 0 || strcmp(k->section, k[-1].section) != 0;
    if (begins && section_count < NAMES_MOST) sections[section_count++] = k->section;
    if (!file_same_section(k, section)) continue;
    if (!name || strcmp(k->name, name) == 0) return 0;
    if (count < NAMES_MOST) names[count++] = k->name;
  }
  file_suggest(hint, sizeof hint, count ? name : section, count ? names : sections,
               count ? count : section_count);
  if (count == 0) return FAIL(e, CONFIG_SECTION, place, section, hint);
  return FAIL(e, CONFIG_KEY, place, section, name, hint);
}

bool config_is_of_shot(const config_key *key) {
  static const char *const sections[] = {"source.1", "sources", "receivers", "initial"};
  for (size_t i = 0; i < sizeof sections / sizeof *sections; i++)
    if (strcmp(key->section, sections[i]) == 0) return true;
  return strcmp(key->section, "output") == 0 && strcmp(key->name, "name") == 0;
}

/* Keeps the text given for a key, without leading and trailing blanks. An empty text clears earlier ones. NULL: the
 * text was too long and is cut. `line`: as in config_entry. */
static int file_take(config_entries *all, int line, const char *section, const char *name, const char *text,
                     error *e) {
  char place[PLACE_TEXT];
  config_block *block;
  int found;
  const bool of_shot = line < ENTRY_OVERRIDE;
  config_place(place, of_shot ? all->shots : all->file, of_shot ? ENTRY_OVERRIDE - line : line);
  TRY(file_find_key(place, section, name, &found, e));
  if (of_shot && !config_is_of_shot(&config_keys[found])) return FAIL(e, SHOTS_KEY, place, section, name);
  TRY(config_block_of(all, file_source_number(section), line, &block, e));
  config_entry *entry = &block->entries[found];
  while (text && file_is_blank(*text)) text++;
  const size_t longest = (config_keys[found].kind == VALUE_POINTS ? CONFIG_LIST_TEXT : CONFIG_TEXT) - 1;
  size_t length = text ? strlen(text) : SIZE_MAX;
  while (text && length > 0 && file_is_blank(text[length - 1])) length--;
  if (text && line > 0 && entry->text && length)
    return FAIL(e, CONFIG_DUPLICATE, place, section, name, entry->line);
  if (length > longest) return FAIL(e, CONFIG_TOO_LONG, place, section, name, (int)longest);
  free(entry->text);
  entry->text = length ? strndup(text, length) : NULL;
  if (length && !entry->text) return FAIL(e, OUT_OF_MEMORY, length + 1, "the configuration");
  entry->line = line;
  return 0;
}

/* --- the file ---------------------------------------------------------------------------------- */

/* Reads one line into r->text; false at the end of the file and after an error. */
static bool file_read_text(file_reader *r) {
  size_t length = 0;
  bool comment = false, any = false;
  int c;
  config_place(r->place, r->entries->file, ++r->line);
  while ((c = getc(r->file)) != EOF && c != '\n') {
    any = true;
    if (c == '\0') return !FAIL(r->e, CONFIG_NUL, r->place);
    if ((c == '#' || c == ';') && (length == 0 || file_is_blank(r->text[length - 1]))) comment = true;
    bool mark = r->line == 1 && (c == 0xEF || c == 0xBB || c == 0xBF); /* UTF-8 byte order mark */
    if (comment || (length == 0 && (mark || file_is_blank((char)c)))) continue;
    if ((r->cut = length == LINE_LONGEST)) break;
    r->text[length++] = (char)c;
  }
  if (ferror(r->file)) return !FAIL(r->e, CONFIG_READ, r->entries->file, strerror(errno));
  while (length > 0 && file_is_blank(r->text[length - 1])) length--;
  r->text[length] = '\0';
  return c == '\n' || any;
}

/* Takes "key = value" of the latest section. */
static int file_take_entry(file_reader *r, char *equals) {
  char *end = equals;
  while (file_is_blank(end[-1])) end--;
  *end = '\0';
  if (!*r->section) return FAIL(r->e, CONFIG_NO_SECTION, r->place, r->text);
  return file_take(r->entries, r->line, r->section, r->text, r->cut ? NULL : equals + 1, r->e);
}

/* Takes "[section]". A section counts even without keys, because required keys may be missing. */
static int file_take_section(file_reader *r) {
  char *end = strchr(r->text, ']');
  config_block *block;
  int any;
  if (*r->text != '[' || !end || end[1]) return FAIL(r->e, CONFIG_SYNTAX, r->place, r->text);
  *end = '\0';
  TRY(file_find_key(r->place, r->text + 1, NULL, &any, r->e));
  snprintf(r->section, sizeof r->section, "%s", r->text + 1);
  return config_block_of(r->entries, file_source_number(r->section), r->line, &block, r->e);
}

static int file_take_line(file_reader *r) {
  char *equals = strpbrk(r->text, "=:");
  if (!*r->text) return 0;
  if (*r->text != '[' && equals && equals != r->text) return file_take_entry(r, equals);
  return r->cut ? FAIL(r->e, CONFIG_LINE_LONG, r->place, LINE_LONGEST) : file_take_section(r);
}

bool config_is_named_pipe(const char *path) {
  struct stat s;
  struct statfs f;
  return stat(path, &s) == 0 && S_ISFIFO(s.st_mode) && statfs(path, &f) == 0 && f.f_type != PIPEFS_MAGIC;
}

int config_read_file(config_entries *all, const char *text, error *e) {
  const char *path = all->file;
  if (text && !*text) return 0;
  if (!text && config_is_named_pipe(path)) return FAIL(e, CONFIG_READ, path, "it is a named pipe");
  FILE *file = text ? fmemopen((void *)(uintptr_t)text, strlen(text), "r") : fopen(path, "r");
  file_reader r = {.file = file, .entries = all, .e = e};
  if (!file) return FAIL(e, CONFIG_READ, path, strerror(errno));
  while (!e->id && file_read_text(&r) && !file_take_line(&r)) continue;
  fclose(r.file);
  return e->id;
}

/* --- the command line -------------------------------------------------------------------------- */

typedef struct override {
  char section[64], name[64]; /* longer names are cut, since they are unknown anyway */
  const char *value;
} override;

/* Splits section.key=value. The section may hold a dot (source.1), the value anything. */
static int file_split(override *o, const char *text, error *e) {
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
  return file_split(&o, text, e);
}

static int file_override(config_entries *all, const char *text, int line, error *e) {
  override o;
  TRY(file_split(&o, text, e));
  return file_take(all, line, o.section, o.name, o.value, e);
}

int config_read_overrides(config_entries *all, int count, const char *const overrides[], error *e) {
  for (int i = 0; i < count; i++) TRY(file_override(all, overrides[i], ENTRY_OVERRIDE, e));
  return 0;
}

int config_read_shot(config_entries *all, const char *file, const shot_line *s, error *e) {
  all->shots = file;
  for (int i = 0; i < s->count; i++) TRY(file_override(all, s->words[i], ENTRY_OVERRIDE - s->line, e));
  return 0;
}
