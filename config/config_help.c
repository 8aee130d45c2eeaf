/* Prints the table of keys in several forms: the list of --help, docs/CONFIG.md, the man page, bash's completion, an
 * example. */
#include "config_internal.h"
#include <string.h>

#define FOR_EACH_KEY(key)                                                                                    \
  for (const config_key *key = config_keys; key < config_keys + config_key_count; key++)

static const char *help_section_of(const config_key *key) {
  return key->of_source ? "source.N" : key->section;
}

/* Does a section begin at this key? True at the end of the table too. */
static bool help_begins_section(const config_key *key) {
  if (key == config_keys || key == config_keys + config_key_count) return true;
  return strcmp(key->section, key[-1].section) != 0;
}

/* The default as one would type it, or a description of it. */
static const char *help_default_of(const config_key *key) {
  if (key->otherwise) return key->otherwise;
  if (key->fallback) return key->fallback;
  return key->required ? "required" : "none";
}

static bool help_is_typed(const config_key *key) {
  return !key->otherwise && key->fallback;
}

static const char *help_unit_of(const config_key *key) {
  return key->unit ? key->unit : "";
}

/* Is a list of the key's values useful? Faces list theirs once; those of a switch are well known. */
static bool help_lists_values(const config_key *key) {
  return key->choices && key->kind != VALUE_SWITCH && !(key->kind == VALUE_FACES && !key->fallback);
}

/* Describes the values of a key in one line. A switch is "on or off"; only one key lists the kinds of face. */
static void help_expected(const config_key *key, char text[EXPECTED_TEXT]) {
  config_expected(key, false, text);
  if (key->kind == VALUE_SWITCH) snprintf(text, EXPECTED_TEXT, "on or off");
  if (key->kind == VALUE_FACES && !key->fallback) snprintf(text, EXPECTED_TEXT, "as for all");
}

/* Writes the values as " (a, b or c)", or nothing without a list. */
static void help_put_values(const config_key *key, char text[EXPECTED_TEXT + 4]) {
  char values[EXPECTED_TEXT];
  *text = 0;
  if (!help_lists_values(key)) return;
  config_expected(key, false, values);
  snprintf(text, EXPECTED_TEXT + 4, " (%s)", values);
}

/* --- --help ------------------------------------------------------------------------------------------------------ */

static void help_text(FILE *to) {
  fprintf(to, "\nconfig keys: key = default, unit, meaning (docs/CONFIG.md says more)\n");
  FOR_EACH_KEY(key) {
    char left[64], values[EXPECTED_TEXT + 4];
    if (help_begins_section(key)) fprintf(to, "[%s]\n", help_section_of(key));
    snprintf(left, sizeof left, help_is_typed(key) ? "%s = %s" : "%s = (%s)", key->name,
             help_default_of(key));
    help_put_values(key, values);
    fprintf(to, "  %-33s %-6s %s%s\n", left, help_unit_of(key), key->doc, values);
  }
}

/* --- docs/CONFIG.md ---------------------------------------------------------------------------------------------- */

static void help_key(FILE *to, const config_key *key) {
  const char *quote = help_is_typed(key) ? "`" : "";
  char values[EXPECTED_TEXT], says[SAYS_TEXT];
  help_expected(key, values);
  fprintf(to, "| `%s` | %s%s%s | %s | %s | %s", key->name, quote, help_default_of(key), quote,
          help_unit_of(key), values, key->doc);
  if (key->only_with) fprintf(to, " (%s)", config_says(key->only_with, says));
  fprintf(to, " |\n");
}

static void help_values(FILE *to, const config_key *key) {
  bool begun = false;
  for (const config_key *before = config_keys; before < key; before++)
    if (before->choices == key->choices && key->choices) return; /* the list is printed already */
  for (const choice *k = help_lists_values(key) ? key->choices : NULL; k && k->name; k++) {
    if (!k->doc) continue;
    if (!begun) fprintf(to, "\n| `%s.%s` | meaning |\n|---|---|\n", help_section_of(key), key->name);
    begun = true;
    fprintf(to, "| `%s` | %s |\n", k->name, k->doc);
  }
}

static void help_markdown(FILE *to) {
  fprintf(
      to,
      "# Configuration keys\n\n"
      "For those who write a configuration. `stencil --help=markdown` prints this page.\n"
      "\nThe file is INI: `[section]`, `key = value`, comments after `;` or `#`. Units are SI. "
      "`FILE:/dataset` names\na dataset of an HDF5 file. Relative paths are relative to the working "
      "directory. On the command line,\n`section.key=value` wins over the file. An empty value, `key =`, "
      "clears an earlier one. An unknown, duplicate\nor overlong entry is an error. `on` may be true or yes, "
      "`off` false or no. The folder of an output is made if its\nparent exists. ~ and $ at the beginning "
      "of a path are refused: only shells expand them.\n");
  for (const config_key *key = config_keys, *begin = key; key < config_keys + config_key_count; begin = key) {
    fprintf(to, "\n## [%s]\n\n| key | default | unit | value | meaning |\n|---|---|---|---|---|\n",
            help_section_of(key));
    for (; key == begin || !help_begins_section(key); key++) help_key(to, key);
    for (; begin < key; begin++) {
      help_values(to, begin);
      if (begin->note) fprintf(to, "\n%s\n", begin->note);
    }
  }
}

/* --- the man page ------------------------------------------------------------------------------------------------ */

static void help_man(FILE *to) {
  FOR_EACH_KEY(key) {
    char values[EXPECTED_TEXT], says[SAYS_TEXT];
    if (help_begins_section(key)) fprintf(to, ".SS [%s]\n", help_section_of(key));
    help_expected(key, values);
    fprintf(to, ".TP\n\\fB%s\\fR = %s%s%s%s\n", key->name, help_default_of(key), key->unit ? " (" : "",
            help_unit_of(key), key->unit ? ")" : "");
    fprintf(to, "%s: %s%s%s.\n", key->doc, values, key->only_with ? "; " : "",
            key->only_with ? config_says(key->only_with, says) : "");
    for (const choice *k = help_lists_values(key) ? key->choices : NULL; k && k->name; k++)
      if (k->doc) fprintf(to, ".br\n\\fI%s\\fR: %s.\n", k->name, k->doc);
    if (key->note) fprintf(to, ".br\n%s\n", key->note);
  }
}

/* --- bash -------------------------------------------------------------------------------------------------------- */

static void help_bash(FILE *to) {
  fprintf(to, "  keys='");
  FOR_EACH_KEY(key)
  fprintf(to, "%s%s.%s=", help_begins_section(key) ? "\n    " : " ", key->section, key->name);
  fprintf(to, "'\n  case $key in\n");
  FOR_EACH_KEY(key) {
    int words = 0;
    for (const choice *k = key->choices; k && k->name; k++) {
      if (k->form != FORM_WORD || strchr(k->name, ' ')) continue;
      if (words == 0)
        fprintf(to, "    %s.%s) values='", key->of_source ? "source.*" : key->section, key->name);
      fprintf(to, "%s%s", words++ ? " " : "", k->name);
    }
    if (words) fprintf(to, "' ;;\n");
  }
  fprintf(to, "  esac\n");
}

void config_help(FILE *to, enum help_form form) {
  static void (*const print[])(FILE *) = {[HELP_TEXT] = help_text,
                                          [HELP_MARKDOWN] = help_markdown,
                                          [HELP_MAN] = help_man,
                                          [HELP_BASH] = help_bash};
  print[form](to);
}

/* --- an example -------------------------------------------------------------------------------------------------- */

/* Does the key apply to another equation, but not to c's? */
static bool help_is_foreign(const config_key *key, const config *c) {
  const source_config source = {.wavelet = WAVELET_RICKER};
  if (key->of_source) return !equation_has(c->equation, HAS_SOURCES);
  if (!key->only_with || key->only_with->holds(c, &source)) return false;
  config other = *c;
  for (int equation = 0; equation < EQUATION_COUNT; equation++) {
    other.equation = (enum equation)equation;
    if (key->only_with->holds(&other, &source)) return true;
  }
  return false;
}

/* Prints a line of the example, as a comment unless the run needs the key. */
static void help_example_line(FILE *to, const config_key *key, const char *value, const config *c) {
  const source_config source = {.wavelet = WAVELET_RICKER};
  const bool active = value && !key->of_source,
             applies = !key->only_with || key->only_with->holds(c, &source);
  char left[96], values[EXPECTED_TEXT + 4], says[SAYS_TEXT];
  help_put_values(key, values);
  snprintf(left, sizeof left, "%s%s = %s", active ? "" : "; ", key->name,
           value                ? value
           : help_is_typed(key) ? help_default_of(key)
                                : "");
  fprintf(to, "%-32s ; %s%s%s%s", left, help_unit_of(key), key->unit ? ": " : "", key->doc, values);
  if (!applies) fprintf(to, ", %s", config_says(key->only_with, says));
  if (!value && !help_is_typed(key)) fprintf(to, "; default: %s", help_default_of(key));
  fprintf(to, "\n");
}

void config_example(FILE *to, enum equation equation) {
  const config c = {.equation = equation};
  const char *open = "";
  fprintf(to, "; A run to start from. Lines that begin with ; are comments: most of them show a key with its "
              "default.\n");
  FOR_EACH_KEY(key) {
    if (help_is_foreign(key, &c)) continue;
    if (strcmp(open, key->section) != 0) fprintf(to, "\n%s[%s]\n", key->of_source ? "; " : "", key->section);
    open = key->section;
    const bool type = strcmp(key->section, "equation") == 0 && strcmp(key->name, "type") == 0;
    help_example_line(to, key, type ? equation_name(equation) : key->example, &c);
  }
}
