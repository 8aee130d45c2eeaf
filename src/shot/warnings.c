#include "warnings.h"
#include <stdlib.h>
#include <string.h>
#include "base/numbers.h"

static const char WARNING[] = "warning: ";
enum { PREFIX = sizeof WARNING - 1 };

/* --- of a shot --------------------------------------------------------------------------------------------------- */

static uint64_t warnings_kind_of(const char *format) {
  uint64_t kind = 0;
  for (; *format; format++) kind = mix64(kind ^ (uint8_t)*format);
  return kind;
}

/* A run_log.hear. */
static void warnings_take(void *context, const char *format, const char *line) {
  warnings *all = context;
  const uint64_t kind = warnings_kind_of(format);
  if (strncmp(line, WARNING, PREFIX) != 0 || all->count == WARNINGS_MOST) return;
  for (int i = 0; i < all->count; i++)
    if (all->list[i].kind == kind) return;
  warning *w = &all->list[all->count++];
  w->kind = kind;
  snprintf(w->text, sizeof w->text, "%s", line + PREFIX);
}

void warnings_hear(run_log *log, warnings *all) {
  all->count = 0;
  log->hear = warnings_take, log->hearer = all;
}

void warnings_pass(const warnings *all, const run_log *log) {
  char line[PREFIX + WARNING_TEXT];
  for (int i = 0; log->hear && i < all->count; i++) {
    snprintf(line, sizeof line, "%s%s", WARNING, all->list[i].text);
    log->hear(log->hearer, "", line);
  }
}

char *warnings_join(const warnings *all) {
  char *text = NULL;
  size_t length = 0;
  FILE *to = all->count ? open_memstream(&text, &length) : NULL;
  if (!to) return NULL;
  for (int i = 0; i < all->count; i++) fprintf(to, "%s%s", i ? "; " : "", all->list[i].text);
  if (fclose(to) == 0) return text;
  free(text);
  return NULL;
}

/* --- of all ------------------------------------------------------------------------------------------------------ */

static warnings_kind *warnings_find(warnings_tally *t, const warning *w, error *e) {
  for (int i = 0; i < t->count; i++)
    if (t->list[i].first.kind == w->kind) return &t->list[i];
  if (GROW(e, t->list, t->count + 1, "the warnings")) return NULL;
  t->list[t->count] = (warnings_kind){.first = *w};
  return &t->list[t->count++];
}

int warnings_add(warnings_tally *t, const warnings *of, int shot, error *e) {
  for (int i = 0; i < of->count; i++) {
    warnings_kind *k = warnings_find(t, &of->list[i], e);
    TRY(e->id);
    if (shot == 0) k->logged = true;
    if (shot == 0) continue;
    if (!k->shot || shot < k->shot) k->first = of->list[i], k->shot = shot;
    k->shots++;
  }
  return 0;
}

void warnings_tell(const warnings_tally *t, const shot_lines *lines, run_log *log) {
  for (const warnings_kind *k = t->list; k < t->list + t->count; k++) {
    const bool known = k->logged && k->shots == 1 && k->shot == 1;
    if (k->shots == 0 || known) continue;
    const shot_line *l = &lines->list[k->shot - 1];
    log_line(log, "warning: %d shot%s, first %s (%s:%d): %s", k->shots, k->shots == 1 ? "" : "s", l->name,
             lines->file, l->line, k->first.text);
  }
}

void warnings_free(warnings_tally *t) {
  free(t->list);
  *t = (warnings_tally){.list = NULL};
}
