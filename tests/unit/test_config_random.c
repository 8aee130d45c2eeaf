/* Random configurations survive config_print and config_load. What damaged files give: fuzz/fuzz_config.c. */
#include <math.h>
#include "config_harness.h"
#include "config_same.h"

static uint64_t random_state = 0x9E3779B97F4A7C15u;

static uint64_t random_bits(void) { /* xorshift64* */
  random_state ^= random_state >> 12;
  random_state ^= random_state << 25;
  random_state ^= random_state >> 27;
  return random_state * 0x2545F4914F6CDD1Du;
}

static int random_below(int n) {
  return (int)(random_bits() % (uint64_t)n);
}

/* A double of any magnitude within the limits. */
static double random_number(const range *r) {
  for (;;) {
    uint64_t bits = random_bits();
    double number;
    memcpy(&number, &bits, sizeof number);
    if (number >= r->low && number <= r->high) return number; /* NaN is neither */
  }
}

/* A place inside the grid; returns the length. */
static int put_position(char *text, size_t capacity, const config *c) {
  double place[3];
  const double last[3] = {(c->nx - 1) * c->dx, (c->ny - 1) * c->dy, (c->nz - 1) * c->dz};
  for (int axis = 0; axis < 3; axis++) place[axis] = c->origin[axis] + last[axis] * random_below(1001) / 1000;
  return snprintf(text, capacity, "%.17g %.17g %.17g", place[0], place[1], place[2]);
}

static void put_positions(char *text, size_t capacity, const config *c, bool line) {
  char *end = text + capacity;
  for (int i = line ? 1 : random_below(9); i >= 0; i--) {
    text += put_position(text, (size_t)(end - text), c);
    text += sprintf(text, i > 0 && !line ? ", " : " ");
  }
  if (line) sprintf(text, "%d", 1 + random_below(1000));
}

/* Signs that may stand anywhere in a value. */
static void put_text(char *text, int length) {
  for (int i = 0; i < length; i++) do
      text[i] = (char)('!' + random_below('~' - '!'));
    while (i == 0 && strchr("#;~$", text[0]));
  text[length] = '\0';
}

static void put_integer(char *text, size_t capacity, const config_key *k) {
  uint64_t span = (uint64_t)(k->max - k->min) >> random_below(60);
  snprintf(text, capacity, "%lld", (long long)(k->min + (int64_t)(random_bits() % (span + 1))));
}

/* One of the spellings, or a number or dataset in place of it. */
static void put_choice(char *text, size_t capacity, const config_key *k) {
  int known = 0;
  while (k->choices[known].name) known++;
  const choice *chosen = &k->choices[random_below(known)];
  if (chosen->form == FORM_WORD)
    snprintf(text, capacity, "%s", chosen->name);
  else if (chosen->form == FORM_NUMBER)
    snprintf(text, capacity, "%.17g", random_number(k->range));
  else {
    put_text(text, 1 + random_below(400));
    *text = 'f'; /* a blank alone would be no file */
    strcat(text, ":/");
    put_text(text + strlen(text), 1 + random_below(400));
    text[strlen(text) - 1] = 'x'; /* ":/" at the end would name no dataset */
  }
}

/* A value that the key takes, at least in some configuration like `c`. */
static void put_value(char *text, size_t capacity, const config *c, const config_key *k) {
  if (k->kind == VALUE_LINE || k->kind == VALUE_POINTS)
    put_positions(text, capacity, c, k->kind == VALUE_LINE);
  else if (k->choices)
    put_choice(text, capacity, k);
  else if (k->kind == VALUE_INTEGER)
    put_integer(text, capacity, k);
  else if (k->of_source && strcmp(k->name, "position") == 0)
    put_position(text, capacity, c);
  else if (strcmp(k->name, "box") == 0)
    for (int axis = 0; axis < 3; axis++) {
      const config_axis a = config_axis_given(c, axis);
      const double first = a.first + random_below(a.points) * a.spacing,
                   last = a.first + (a.points - 1) * a.spacing;
      text += snprintf(text, capacity / 8, "%.17g %.17g ", fmin(first, 1e20), fmin(last, 1e20));
    }
  else if (k->whole)
    snprintf(text, capacity, "%d %d %d", 1 + random_below(9), 1 + random_below(9), 1 + random_below(9));
  else if (k->kind == VALUE_NUMBERS)
    for (size_t i = k->most ? (size_t)random_below(8) : 0; i < k->size / sizeof(double); i++)
      text += snprintf(text, capacity / 8, "%.17g ", random_number(k->range));
  else if (strcmp(k->name, "quantities") == 0)
    snprintf(text, capacity, "%s", (const char *[]){"max", "rms min", "min max rms"}[random_below(3)]);
  else
    put_text(text, 1 + random_below((int)k->size - 1 < 900 ? (int)k->size - 1 : 900));
}

/* config_print's text read back gives the same struct. */
static void expect_round_trip(const config *c) {
  char *text = config_print(c);
  config again;
  error e;
  if (load(&again, text, NULL, &e)) fail_msg("%s\n%s", e.text, text);
  assert_true(config_same(&again, c));
  config_free(&again);
  free(text);
}

/* Overrides that grow one by one; those that the rules refuse are taken away again. */
typedef struct growth {
  const char *file;
  char texts[200][CONFIG_TEXT];
  const char *overrides[200];
  int count;
  config c; /* with all of them */
} growth;

static void push(growth *g, int source, const config_key *k) {
  char *text = g->texts[g->count];
  int length =
      source ? sprintf(text, "source.%d.%s=", source, k->name) : sprintf(text, "%s.%s=", k->section, k->name);
  put_value(text + length, CONFIG_TEXT - (size_t)length, &g->c, k);
  g->overrides[g->count++] = text;
}

/* Loads it all; on refusal returns to the `count` overrides before. */
static bool keep(growth *g, int count) {
  config c;
  error e = {0};
  write_file(g->file, strlen(g->file));
  if (!config_load(&c, path, g->count, g->overrides, &e)) {
    config_free(&g->c);
    g->c = c;
    return true;
  }
  bool rule = is_rule(e.id) || e.id == ERROR_CONFIG_TOO_MANY_POINTS || e.id == ERROR_CONFIG_MISSING;
  if (!rule && !strstr(e.text, "[output] name: expected a name without /")) fail_msg("%s", e.text);
  g->count = count;
  return false;
}

/* Gives the key; of a source with all that it needs. */
static bool grow(growth *g, const config_key *k) {
  int before = g->count, source = k->of_source ? 1 + random_below(5) : 0;
  for (const config_key *other = config_keys; source && other < config_keys + config_key_count; other++)
    if (other->of_source && other->required &&
        (!other->only_with || random_below(2))) /* f0: not with a file */
      push(g, source, other);
  push(g, source, k);
  if (strcmp(k->section, "sources") == 0 && strcmp(k->name, "positions") == 0)
    push(g, 0, k + 1); /* signals */
  return keep(g, before);
}

TEST(test_round_trip) {
  static bool kept[200], shown[4][8];
  static growth g;
  for (int round = 0; round < 160; round++) {
    g.file = round % 3 ? BASE : "[grid]\nnx = 50\nny = 51\nnz = 52\n[time]\nend_time = 3\n";
    g.count = 0;
    g.c = expect_taken(g.file, NULL);
    for (int i = 0; i < config_key_count; i++)
      if (strcmp(config_keys[i].name, "type") == 0) grow(&g, &config_keys[i]); /* first: much depends on it */
    for (int i = 0; i < 60; i++) {
      int key = random_below(config_key_count);
      if (grow(&g, &config_keys[key])) kept[key] = true;
    }
    expect_round_trip(&g.c);
    shown[0][g.c.boundary[random_below(FACE_COUNT)]] = shown[1][g.c.receivers] = true;
    for (int i = 0; i < g.c.source_count; i++)
      shown[2][g.c.sources[i].wavelet] = shown[3][g.c.equation] = true;
    config_free(&g.c);
  }
  for (int i = 0; i < config_key_count; i++)
    if (!kept[i]) fail_msg("[%s] %s: never taken", config_keys[i].section, config_keys[i].name);
  for (int i = 0; i <= BOUNDARY_ABSORBING; i++) assert_true(shown[0][i]);
  for (int i = 0; i <= RECEIVERS_POINTS; i++) assert_true(shown[1][i]);
  for (int i = 0; i <= WAVELET_FILE; i++) assert_true(shown[2][i]);
  assert_true(shown[3][EQUATION_WAVE] && !shown[3][EQUATION_HEAT]);
}

TEST_MAIN("config_random", enter_folder, leave_folder)
