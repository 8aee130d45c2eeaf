#include "shots.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include "config_internal.h"

static int shots_lack(error *e) {
  return FAIL(e, OUT_OF_MEMORY, sizeof(shot_line), "the shots");
}

/* Returns the next character of a word in a shell's quoting; -1: a quotation mark. *quote: the open quotation mark, or
 * 0. A backslash quotes the next character; between "" only one that is special there. */
static int shots_take(const char **at, char *quote) {
  const char c = *(*at)++;
  if (*quote ? c == *quote : c == '\'' || c == '"') {
    *quote = *quote ? '\0' : c;
    return -1;
  }
  const bool escapes = c == '\\' && (*quote == 0 || (*quote == '"' && **at && strchr("\\\"$`", **at)));
  return escapes && **at ? (unsigned char)*(*at)++ : (unsigned char)c;
}

/* Takes the first word from *at into `into`; NULL: there is none. *quote is not 0 if the closing quotation mark, or the
 * character after a backslash, is missing. */
static char *shots_word(const char **at, char *into, char *quote) {
  char *end = into;
  while (**at == ' ' || **at == '\t') ++*at;
  *quote = '\0';
  if (!**at || **at == '#') return NULL;
  while (**at && (*quote || (**at != ' ' && **at != '\t'))) {
    if (**at == '\\' && !(*at)[1] && *quote != '\'') {
      *quote = '\\';
      break;
    }
    const int c = shots_take(at, quote);
    if (c >= 0) *end++ = (char)c;
  }
  *end = '\0';
  return into;
}

int shots_add(shot_lines *all, const char *text, int line, error *e) {
  char place[PLACE_TEXT], *word, quote;
  shot_line s = {.number = all->count + 1, .line = line};
  TRY(ALLOC(e, word, strlen(text) + 1, "the shots"));
  for (const char *at = text; !e->id && shots_word(&at, word, &quote);) {
    config_place(place, all->file, line);
    if (quote && FAIL(e, SHOTS_QUOTES, place, text)) break;
    if (GROW(e, s.words, s.count + 2, "the shots")) break;
    if ((s.words[s.count] = strdup(word)))
      s.words[++s.count] = NULL;
    else
      shots_lack(e);
  }
  free(word);
  if (s.count && all->count == all->capacity) {
    all->capacity = 2 * all->capacity + 64;
    TRY(GROW(e, all->list, all->capacity, "the shots"));
  }
  if (s.count) all->list[all->count++] = s;
  return e->id;
}

/* Returns the line without its end and without a UTF-8 byte order mark. */
static char *shots_trim(char *text, ssize_t length, int line) {
  while (length > 0 && (text[length - 1] == '\n' || text[length - 1] == '\r')) text[--length] = '\0';
  return line == 1 && strncmp(text, "\xEF\xBB\xBF", 3) == 0 ? text + 3 : text;
}

int shots_read(shot_lines *all, const char *file, error *e) {
  char *text = NULL, place[PLACE_TEXT];
  size_t capacity = 0;
  *all = (shot_lines){.count = 0};
  snprintf(all->file, sizeof all->file, "%s", file);
  if (config_is_named_pipe(file)) return FAIL(e, SHOTS_READ, file, "it is a named pipe");
  FILE *from = fopen(file, "r");
  if (!from) return FAIL(e, SHOTS_READ, file, strerror(errno));
  for (int line = 1; !e->id; line++) {
    const ssize_t length = getline(&text, &capacity, from);
    if (length < 0) break;
    config_place(place, file, line);
    if (strlen(text) != (size_t)length)
      FAIL(e, CONFIG_NUL, place);
    else
      shots_add(all, shots_trim(text, length, line), line, e);
  }
  if (!e->id && ferror(from)) FAIL(e, SHOTS_READ, file, strerror(errno));
  fclose(from);
  free(text);
  if (!e->id && all->count == 0) return FAIL(e, SHOTS_NONE, file);
  return e->id;
}

static int shots_compare(const void *a, const void *b) {
  const shot_line *s = *(const shot_line *const *)a, *t = *(const shot_line *const *)b;
  const int names = strcmp(s->name, t->name);
  return names ? names : (s->line > t->line) - (s->line < t->line);
}

/* Refuses two shots of one name, since they would write the same files. The message names the first line that repeats a
 * name. */
static int shots_check_names(const shot_lines *all, error *e) {
  char place[PLACE_TEXT];
  const shot_line **sorted, *first = NULL, *again = NULL;
  TRY(ALLOC(e, sorted, all->count, "the shots"));
  for (int i = 0; i < all->count; i++) sorted[i] = &all->list[i];
  qsort(sorted, (size_t)all->count, sizeof *sorted, shots_compare);
  for (int i = 1; i < all->count; i++)
    if (strcmp(sorted[i - 1]->name, sorted[i]->name) == 0 && (!again || sorted[i]->line < again->line))
      first = sorted[i - 1], again = sorted[i];
  free(sorted);
  if (!again) return 0;
  config_place(place, all->file, again->line);
  return FAIL(e, SHOTS_TWICE, place, again->name, first->line);
}

/* Does the shot change what shots that step together must share (propagator_plan)? */
static bool shots_differs(const shot_line *s) {
  static const char *const SHARED[] = {"initial.", "receivers.every", "sources.mode"};
  for (char **w = s->words; *w; w++)
    for (size_t i = 0; i < sizeof SHARED / sizeof *SHARED; i++)
      if (strncmp(*w, SHARED[i], strlen(SHARED[i])) == 0) return true;
  return false;
}

/* Checks a shot against the first one. */
static int shots_check_pair(const shot_lines *all, const shot_line *s, const config *c, const config *first,
                            error *e) {
  const bool given = c->gradient_residual[0];
  const char *observed = given ? c->gradient_residual : c->gradient_observed;
  char place[PLACE_TEXT];
  config_place(place, all->file, s->line);
  if (config_medium_absorbs(c) && config_reference(c) != config_reference(first))
    return FAIL(e, SHOTS_REFERENCE, place);
  if (!observed[0] || strcmp(observed, given ? first->gradient_residual : first->gradient_observed) != 0)
    return 0;
  return FAIL(e, SHOTS_OBSERVED, place, given ? "adjoint_source" : "observed", observed, all->list->line);
}

int shots_check(shot_lines *all, const config_given *given, config *first, error *e) {
  all->alike = true;
  for (int i = 0; i < all->count; i++) {
    config c;
    shot_line *s = &all->list[i];
    all->alike = all->alike && !shots_differs(s);
    TRY(config_make(&c, given, s, e));
    if (!(s->name = strdup(c.output_name))) shots_lack(e);
    if (i == 0) {
      *first = c;
    } else {
      shots_check_pair(all, s, &c, first, e);
      config_free(&c);
    }
    TRY(e->id);
  }
  return shots_check_names(all, e);
}

void shots_free(shot_lines *all) {
  for (int i = 0; i < all->count; i++) {
    for (char **w = all->list[i].words; *w; w++) free(*w);
    free(all->list[i].words);
    free(all->list[i].name);
  }
  free(all->list);
  *all = (shot_lines){.count = 0};
}
