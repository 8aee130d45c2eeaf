/* What the numbers of a dataset mean, as its attributes say: netCDF's packing and fill values (CF conventions), units. */
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include "input.h"

/* --- attributes --------------------------------------------------------------------------------------------------- */

/* An attribute of a dataset, open or not. */
typedef struct packing_attribute {
  const input *in;
  const char *name;
  hid_t id, type; /* negative where there is none */
  bool whole;     /* integers */
  hssize_t count;
} packing_attribute;

static int packing_refuse(const packing_attribute *a, const char *expected, const char *found, error *e) {
  return FAIL(e, INPUT_ATTRIBUTE, a->in->name, a->name, expected, found);
}

static void packing_close(packing_attribute *a) {
  if (a->type >= 0) H5Tclose(a->type);
  if (a->id >= 0) H5Aclose(a->id);
}

/* Where there is no such attribute, count is 0. packing_close in any case. */
static int packing_open(packing_attribute *a, error *e) {
  const input *in = a->in;
  a->id = a->type = H5I_INVALID_HID;
  a->count = 0;
  const htri_t there = H5Aexists(in->dataset, a->name);
  if (there == 0) return 0;
  a->id = there < 0 ? H5I_INVALID_HID : H5Aopen(in->dataset, a->name, H5P_DEFAULT);
  hid_t space = a->id < 0 ? H5I_INVALID_HID : H5Aget_space(a->id);
  a->type = a->id < 0 ? H5I_INVALID_HID : H5Aget_type(a->id);
  a->count = space < 0 ? -1 : H5Sget_simple_extent_npoints(space);
  if (a->count < 0 || a->type < 0) input_damaged(in, HDF5_WHY, e);
  if (space >= 0) H5Sclose(space);
  return e->id;
}

/* 1 to `most` numbers, or none at all: a->count. */
static int packing_read(packing_attribute *a, int most, double values[], error *e) {
  char found[64];
  const char *expected = most == 1 ? "one number" : "a number, or a few";
  packing_open(a, e);
  snprintf(found, sizeof found, "%lld values", (long long)a->count);
  if (!e->id && a->id >= 0 && (a->count < 1 || a->count > most)) packing_refuse(a, expected, found, e);
  if (!e->id && a->id >= 0 && !input_sound_number(a->type)) packing_refuse(a, expected, "another type", e);
  if (!e->id && a->id >= 0 && H5Aread(a->id, H5T_NATIVE_DOUBLE, values) < 0)
    input_damaged(a->in, HDF5_WHY, e);
  a->whole = a->id >= 0 && !e->id && H5Tget_class(a->type) == H5T_INTEGER;
  packing_close(a);
  return e->id;
}

static int packing_read_string(const packing_attribute *a, char text[PACKING_TEXT], error *e) {
  char *variable = NULL;
  const bool varies = H5Tis_variable_str(a->type) > 0;
  if (a->count != 1 || H5Tget_class(a->type) != H5T_STRING ||
      (!varies && H5Tget_size(a->type) >= PACKING_TEXT))
    return packing_refuse(a, "one short text", "another type or shape", e);
  if (H5Aread(a->id, a->type, varies ? (void *)&variable : text) < 0)
    return input_damaged(a->in, HDF5_WHY, e);
  if (!varies) text[H5Tget_size(a->type)] = 0;
  if (variable) snprintf(text, PACKING_TEXT, "%s", variable);
  if (variable) H5free_memory(variable);
  return 0;
}

/* One text, "" where there is none or, netCDF's way to write "", no value. */
static int packing_read_text(packing_attribute *a, char text[PACKING_TEXT], error *e) {
  text[0] = 0;
  if (!packing_open(a, e) && a->count) packing_read_string(a, text, e);
  packing_close(a);
  return e->id;
}

void input_read_word(const input *in, const char *name, char *word, size_t size) {
  char text[PACKING_TEXT], path[FILE_NAME];
  error other = {0};
  input group = *in;
  packing_attribute a = {.in = &group, .name = name};
  snprintf(path, sizeof path, "%.*s", (int)(strrchr(in->path, '/') - in->path), in->path);
  group.dataset = H5Gopen2(in->opened, path[0] ? path : "/", H5P_DEFAULT);
  word[0] = 0;
  if (group.dataset < 0) return;
  if (!packing_read_text(&a, text, &other) && strlen(text) < size) strcpy(word, text);
  H5Gclose(group.dataset);
}

/* --- units -------------------------------------------------------------------------------------------------------- */

/* Metres to the power `length` times seconds to the power `time` times kilograms to `mass`, times / per of them. */
typedef struct packing_unit {
  int length, time;
  double times, per;
  int mass;
} packing_unit;

static const struct {
  const char *words[6];
  packing_unit is;
} PACKING_UNITS[] = {
    {{"m", "meter", "meters", "metre", "metres"}, {1, 0, 1, 1, 0}},
    {{"km", "kilometer", "kilometers", "kilometre", "kilometres"}, {1, 0, 1000, 1, 0}},
    {{"cm", "centimeter", "centimeters", "centimetre", "centimetres"}, {1, 0, 1, 100, 0}},
    {{"mm", "millimeter", "millimeters", "millimetre", "millimetres"}, {1, 0, 1, 1000, 0}},
    {{"ft", "foot", "feet"}, {1, 0, 3048, 10000, 0}},
    {{"s", "sec", "secs", "second", "seconds"}, {0, 1, 1, 1, 0}},
    {{"ms", "msec", "msecs", "millisecond", "milliseconds"}, {0, 1, 1, 1000, 0}},
    {{"us", "usec", "usecs", "microsecond", "microseconds"}, {0, 1, 1, 1000000, 0}},
    {{"kg", "kilogram", "kilograms"}, {0, 0, 1, 1, 1}},
    {{"g", "gram", "grams"}, {0, 0, 1, 1000, 1}},
};

static const struct {
  const char *si, *known;
  int length, time, mass;
} PACKING_QUANTITIES[] = {
    [QUANTITY_LENGTH] = {"m", "m, km, cm, mm or ft", 1, 0},
    [QUANTITY_TIME] = {"s", "s, ms or us", 0, 1},
#define MEDIUM(constant, name, unit, si, known, kg, length, time, ...)                                       \
  [QUANTITY_OF_MEDIUM + MEDIUM_##constant] = {si, known, length, time, kg},
#include "kernels/equations.def"
};

/* With signs of UTF-8 and Latin-1 as ASCII, and one sign for all that multiplies: a blank. None at the ends. */
static void packing_unit_in_ascii(const char *from, char to[PACKING_TEXT]) {
  static const char *const signs[][2] = {
      {"\302\265", "u"},     {"\316\274", "u"}, {"\265", "u"},     {"\302\262", "2"},
      {"\302\271", "1"},     {"\262", "2"},     {"\271", "1"},     {"\342\201\273", "-"},
      {"\342\210\222", "-"}, {"**", "^"},       {"\302\267", " "}, {"\267", " "},
      {"\342\213\205", " "}, {"*", " "},        {".", " "}};
  char *end = to;
  for (const char *c = from; *c;) {
    size_t i = 0;
    while (i < sizeof signs / sizeof *signs && strncmp(c, signs[i][0], strlen(signs[i][0])) != 0) i++;
    const bool sign = i < sizeof signs / sizeof *signs, blank = !sign && strchr(" \t\r\n[]()", *c);
    const char put = (char)(sign ? signs[i][1][0] : blank ? ' ' : *c);
    c += sign ? strlen(signs[i][0]) : 1;
    if (put != ' ' || end > to) *end++ = put;
  }
  while (end > to && end[-1] == ' ') end--;
  *end = 0;
}

/* In any case, but for symbols that then mean something else: Mm, MS. */
static const packing_unit *packing_unit_find(const char *word, size_t length) {
  for (size_t i = 0; i < sizeof PACKING_UNITS / sizeof *PACKING_UNITS; i++)
    for (const char *const *w = PACKING_UNITS[i].words; *w; w++) {
      const bool exact = length == 2 && **w == 'm';
      if (strlen(*w) == length && (exact ? strncmp : strncasecmp)(*w, word, length) == 0)
        return &PACKING_UNITS[i].is;
    }
  return NULL;
}

static void packing_unit_multiply(packing_unit *u, const packing_unit *by, int power) {
  u->length += power * by->length;
  u->time += power * by->time;
  u->mass += power * by->mass;
  for (int i = 0; i < abs(power); i++) {
    u->times *= power > 0 ? by->times : by->per;
    u->per *= power > 0 ? by->per : by->times;
  }
}

/* A product of units and their powers, as "km s-1", "cm^2/s", "square meters per second". */
static bool packing_unit_parse(const char *text, packing_unit *u) {
  enum { POWER_MOST = 3 };
  *u = (packing_unit){0, 0, 1, 1, 0};
  int sign = 1, square = 1;
  for (const char *c = text; *(c += strspn(c, " "));) {
    size_t letters = 0;
    while (isalpha((unsigned char)c[letters])) letters++;
    const bool per = *c == '/' || (letters == 3 && strncasecmp(c, "per", 3) == 0);
    const bool twice = letters == 6 && strncasecmp(c, "square", 6) == 0;
    if (per) sign = -1;
    if (twice) square = 2;
    const packing_unit *found = packing_unit_find(c, letters);
    c += *c == '/' ? 1 : letters;
    if (per || twice) continue;
    const bool powered = *c == '^' || *c == '-' || *c == '+' || isdigit((unsigned char)*c);
    char *end = (char *)(c += *c == '^');
    const long power = powered ? strtol(c, &end, 10) : 1;
    if (!found || (powered && end == c) || power == 0 || labs(power) > POWER_MOST) return false;
    packing_unit_multiply(u, found, (int)power * sign * square);
    sign = square = 1;
    c = end;
  }
  return sign == 1 && square == 1;
}

static int packing_read_units(packing_attribute *a, char found[PACKING_TEXT], error *e) {
  static const char *const names[] = {"units", "unit", "Units", "Unit", "UNITS"};
  found[0] = 0;
  for (size_t i = 0; !found[0] && i < sizeof names / sizeof *names; i++) {
    a->name = names[i];
    TRY(packing_read_text(a, found, e));
  }
  return 0;
}

int input_read_units(const input *in, char found[PACKING_TEXT], error *e) {
  return packing_read_units(&(packing_attribute){.in = in}, found, e);
}

/* Is it this unit? Blanks and brackets do not count. */
static bool packing_unit_is(const char *text, const char *unit) {
  for (;; text++, unit++) {
    text += strspn(text, " ()"), unit += strspn(unit, " ()");
    if (!*text || *text != *unit) return *text == *unit;
  }
}

/* None, and 1, which is CF's word for no unit, are SI. */
static int packing_find_units(const input *in, enum quantity q, packing *n, error *e) {
  char found[PACKING_TEXT], text[PACKING_TEXT];
  packing_attribute a = {.in = in};
  packing_unit u;
  TRY(packing_read_units(&a, found, e));
  packing_unit_in_ascii(found, text);
  if (!text[0] || strcmp(text, "1") == 0 || packing_unit_is(text, PACKING_QUANTITIES[q].si)) return 0;
  if (q >= QUANTITY_OF_MEDIUM + MEDIUM_QUALITY || !packing_unit_parse(text, &u) ||
      u.length != PACKING_QUANTITIES[q].length || u.time != PACKING_QUANTITIES[q].time ||
      u.mass != PACKING_QUANTITIES[q].mass)
    return packing_refuse(&a, PACKING_QUANTITIES[q].known, found, e);
  n->times = u.times, n->per = u.per;
  const size_t used = strlen(n->told);
  if (u.times != u.per)
    snprintf(n->told + used, sizeof n->told - used, "%s%.100s to %s", used ? ", " : "", text,
             PACKING_QUANTITIES[q].si);
  return 0;
}

/* --- packing ------------------------------------------------------------------------------------------------------ */

static int packing_find_factor(const input *in, const char *attribute, double *factor, packing *n, error *e) {
  packing_attribute a = {.in = in, .name = attribute};
  char found[32];
  double value = *factor;
  const double none = *factor;
  TRY(packing_read(&a, 1, &value, e));
  snprintf(found, sizeof found, "%g", value);
  if (!isfinite(value) || (none != 0 && value == 0))
    return packing_refuse(&a, none != 0 ? "a finite number that is not 0" : "a finite number", found, e);
  *factor = value;
  const size_t used = strlen(n->told);
  if (value != none)
    snprintf(n->told + used, sizeof n->told - used, "%s%s %.9g", used ? ", " : "", attribute, value);
  return 0;
}

/* netCDF-3 had no unsigned numbers; netCDF-4 has. */
static int packing_refuse_unsigned(const input *in, error *e) {
  char text[PACKING_TEXT];
  packing_attribute a = {.in = in, .name = "_Unsigned"};
  TRY(packing_read_text(&a, text, e));
  return strcasecmp(text, "true") == 0 ? packing_refuse(&a, "numbers of an unsigned type instead", text, e)
                                       : 0;
}

/* --- fill values -------------------------------------------------------------------------------------------------- */

/* Adds those of `count` values that a number of the dataset's type can be. */
static int packing_add_fills(const input *in, packing *n, int count, const double values[], error *e) {
  double number[2]; /* room for any number */
  hid_t type = H5Dget_type(in->dataset);
  if (type < 0) return input_damaged(in, HDF5_WHY, e);
  n->whole = H5Tget_class(type) == H5T_INTEGER;
  for (int i = 0; !e->id && i < count && n->fills < PACKING_FILLS; i++) {
    number[0] = values[i];
    if (H5Tconvert(H5T_NATIVE_DOUBLE, type, 1, number, NULL, H5P_DEFAULT) < 0 ||
        H5Tconvert(type, H5T_NATIVE_DOUBLE, 1, number, NULL, H5P_DEFAULT) < 0)
      input_damaged(in, HDF5_WHY, e);
    if (n->whole ? number[0] == values[i] : isfinite((float)number[0]))
      n->fill[n->fills++] = n->whole ? number[0] : (double)(float)number[0];
  }
  H5Tclose(type);
  return e->id;
}

/* What netCDF fills with where a file names no other value. HDF5 knows it as the dataset's fill value, which other writers
 * may have set to a value that they mean. */
static int packing_find_default(const input *in, packing *n, error *e) {
  static const double defaults[] = {
      9.9692099683868690e+36, -32767, 65535, -2147483647, 4294967295, -9223372036854775806.0,
      18446744073709551614.0};
  H5D_fill_value_t defined = H5D_FILL_VALUE_UNDEFINED;
  double value = 0;
  hid_t list = H5Dget_create_plist(in->dataset);
  if (list < 0 || H5Pfill_value_defined(list, &defined) < 0 ||
      (defined == H5D_FILL_VALUE_USER_DEFINED && H5Pget_fill_value(list, H5T_NATIVE_DOUBLE, &value) < 0))
    input_damaged(in, HDF5_WHY, e);
  if (list >= 0) H5Pclose(list);
  for (size_t i = 0; !e->id && i < sizeof defaults / sizeof *defaults; i++)
    if (value == defaults[i]) return packing_add_fills(in, n, 1, &value, e);
  return e->id;
}

static int packing_find_fills(const input *in, packing *n, error *e) {
  static const char *const names[] = {"_FillValue", "missing_value"};
  double values[PACKING_FILLS / 4];
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    packing_attribute a = {.in = in, .name = names[i]};
    TRY(packing_read(&a, PACKING_FILLS / 4, values, e));
    TRY(packing_add_fills(in, n, (int)a.count, values, e));
  }
  return packing_find_default(in, n, e);
}

/* Limits of a floating type beside packed integers limit values, others the numbers that are stored (netCDF User Guide). */
static int packing_find_range(const input *in, packing *n, error *e) {
  static const struct {
    const char *name;
    int first, count;
  } limits[] = {{"valid_range", 0, 2}, {"valid_min", 0, 1}, {"valid_max", 1, 1}};
  const bool packed = n->scale != 1 || n->offset != 0;
  for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
    packing_attribute a = {.in = in, .name = limits[i].name};
    TRY(packing_read(&a, limits[i].count, n->valid + limits[i].first, e));
    if (a.count == 1 && limits[i].count == 2) return packing_refuse(&a, "two numbers", "1 value", e);
    n->unpacked = n->unpacked || (a.count && n->whole && packed && !a.whole);
  }
  for (int i = 0; i < 2 && (!n->whole || n->unpacked); i++) n->valid[i] = (double)(float)n->valid[i];
  return 0;
}

int input_read_spacing(const input *in, double spacing[3], error *e) {
  packing_attribute a = {.in = in, .name = "spacing"};
  memset(spacing, 0, 3 * sizeof *spacing);
  packing_open(&a, e);
  if (!e->id && a.count == 3 && input_sound_number(a.type) && H5Aread(a.id, H5T_NATIVE_DOUBLE, spacing) < 0)
    input_damaged(in, HDF5_WHY, e);
  packing_close(&a);
  return e->id;
}

int input_read_packing(const input *in, enum quantity q, packing *n, error *e) {
  *n = (packing){.scale = 1, .times = 1, .per = 1, .valid = {-INFINITY, INFINITY}};
  TRY(packing_find_factor(in, "scale_factor", &n->scale, n, e));
  TRY(packing_find_factor(in, "add_offset", &n->offset, n, e));
  TRY(packing_refuse_unsigned(in, e));
  if (q != QUANTITY_NONE) TRY(packing_find_units(in, q, n, e));
  TRY(packing_find_fills(in, n, e));
  TRY(packing_find_range(in, n, e));
  n->plain = n->scale == 1 && n->offset == 0 && n->times == n->per && n->fills == 0 &&
             n->valid[0] == -INFINITY && n->valid[1] == INFINITY;
  return 0;
}
