/* Are a dataset's numbers values in SI units as they are? Attributes say so, as in netCDF (CF conventions). What needs
 * arithmetic is refused: jobs/convert.py does it. */
#include <math.h>
#include <regex.h>
#include <string.h>
#include <strings.h>
#include "input.h"

/* --- attributes --------------------------------------------------------------------------------------------------- */

/* An attribute of a dataset, open or not. */
typedef struct plain_attribute {
  const input *in;
  const char *name;
  hid_t id, type; /* negative where there is none */
  hssize_t count; /* of its values */
} plain_attribute;

static int plain_refuse(const plain_attribute *a, const char *expected, const char *found, error *e) {
  return FAIL(e, INPUT_ATTRIBUTE, a->in->name, a->name, expected, found, a->in->file);
}

static void plain_close(plain_attribute *a) {
  if (a->type >= 0) H5Tclose(a->type);
  if (a->id >= 0) H5Aclose(a->id);
}

/* Where there is no such attribute, count is 0. plain_close in any case. */
static int plain_open(plain_attribute *a, error *e) {
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

/* `least` to `most` numbers, or no attribute: a->count. */
static int plain_read_numbers(plain_attribute *a, int least, int most, double values[], error *e) {
  plain_open(a, e);
  if (!e->id && a->id >= 0 && (a->count < least || a->count > most || !input_sound_number(a->type)))
    plain_refuse(a,
                 most == 1    ? "one number"
                 : least == 2 ? "two numbers"
                              : "a number, or a few",
                 "another type or shape", e);
  if (!e->id && a->id >= 0 && H5Aread(a->id, H5T_NATIVE_DOUBLE, values) < 0)
    input_damaged(a->in, HDF5_WHY, e);
  plain_close(a);
  return e->id;
}

enum { PLAIN_TEXT = 256 };

static int plain_read_string(const plain_attribute *a, char text[PLAIN_TEXT], error *e) {
  char *variable = NULL;
  const bool varies = H5Tis_variable_str(a->type) > 0;
  if (a->count != 1 || H5Tget_class(a->type) != H5T_STRING || (!varies && H5Tget_size(a->type) >= PLAIN_TEXT))
    return plain_refuse(a, "one short text", "another type or shape", e);
  if (H5Aread(a->id, a->type, varies ? (void *)&variable : text) < 0)
    return input_damaged(a->in, HDF5_WHY, e);
  if (!varies) text[H5Tget_size(a->type)] = 0;
  if (variable) snprintf(text, PLAIN_TEXT, "%s", variable);
  if (variable) H5free_memory(variable);
  return 0;
}

/* One text, "" where there is none or, netCDF's way to write "", no value. */
static int plain_read_text(plain_attribute *a, char text[PLAIN_TEXT], error *e) {
  text[0] = 0;
  if (!plain_open(a, e) && a->count) plain_read_string(a, text, e);
  plain_close(a);
  return e->id;
}

void input_read_word(const input *in, const char *name, char *word, size_t size) {
  char text[PLAIN_TEXT], path[FILE_NAME];
  error other = {0};
  input group = *in;
  plain_attribute a = {.in = &group, .name = name};
  snprintf(path, sizeof path, "%.*s", (int)(strrchr(in->path, '/') - in->path), in->path);
  group.dataset = H5Gopen2(in->opened, path[0] ? path : "/", H5P_DEFAULT);
  word[0] = 0;
  if (group.dataset < 0) return;
  if (!plain_read_text(&a, text, &other) && strlen(text) < size) strcpy(word, text);
  H5Gclose(group.dataset);
}

int input_read_spacing(const input *in, double spacing[3], error *e) {
  plain_attribute a = {.in = in, .name = "spacing"};
  memset(spacing, 0, 3 * sizeof *spacing);
  plain_open(&a, e);
  if (!e->id && a.count == 3 && input_sound_number(a.type) && H5Aread(a.id, H5T_NATIVE_DOUBLE, spacing) < 0)
    input_damaged(in, HDF5_WHY, e);
  plain_close(&a);
  return e->id;
}

/* --- units -------------------------------------------------------------------------------------------------------- */

/* How files spell units, as extended regular expressions. */
#define METRE              "m(et(er|re)s?)?"
#define SECOND             "s(ec(ond)?s?)?"
#define KILOGRAM           "(kg|kilograms?)"
#define PER                "( */ *| +per +)"
#define TIMES              "( *(\\.|\\*|·|⋅) *| +)"
#define TO(power, sign)    " *((\\^|\\*\\*)? *" power "|" sign ")"
#define EITHER(one, other) one "|" other

static const struct {
  const char *si, *spelled;
} PLAIN_UNITS[] = {
    [QUANTITY_LENGTH] = {"m", METRE},
    [QUANTITY_TIME] = {"s", SECOND},
#define MEDIUM(constant, name, unit, si, spelled, ...)                                                       \
  [QUANTITY_OF_MEDIUM + MEDIUM_##constant] = {si, spelled},
#include "kernels/equations.def"
};

/* None, and 1, which is CF's word for no unit, are SI. Case counts where the unit has capitals: MHz and mHz are two. */
static int plain_check_units(const input *in, enum quantity q, error *e) {
  static const char *const names[] = {"units", "unit", "Units", "Unit", "UNITS"};
  const char *si = PLAIN_UNITS[q].si;
  char found[PLAIN_TEXT] = "", pattern[PLAIN_TEXT];
  plain_attribute a = {.in = in};
  regex_t like;
  for (size_t i = 0; !found[0] && i < sizeof names / sizeof *names; i++) {
    a.name = names[i];
    TRY(plain_read_text(&a, found, e));
  }
  snprintf(pattern, sizeof pattern, "^[][:space:][]*(1?|%s)[][:space:][]*$", PLAIN_UNITS[q].spelled);
  if (regcomp(&like, pattern, REG_EXTENDED | REG_NOSUB | (strpbrk(si, "BM") ? 0 : REG_ICASE)))
    return FAIL(e, OUT_OF_MEMORY, sizeof pattern, "an attribute");
  const bool same = regexec(&like, found, 0, NULL, 0) == 0;
  regfree(&like);
  return same ? 0 : plain_refuse(&a, si, found, e);
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

/* A number that changes nothing, or no attribute. */
static int plain_check_factor(const input *in, const char *name, double nothing, error *e) {
  plain_attribute a = {.in = in, .name = name};
  char found[32];
  double value = nothing;
  TRY(plain_read_numbers(&a, 1, 1, &value, e));
  snprintf(found, sizeof found, "%.9g", value);
  return value == nothing ? 0 : plain_refuse(&a, "none", found, e);
}

/* netCDF-3 had no unsigned numbers; netCDF-4 has. */
static int plain_check_unsigned(const input *in, error *e) {
  char text[PLAIN_TEXT];
  plain_attribute a = {.in = in, .name = "_Unsigned"};
  TRY(plain_read_text(&a, text, e));
  return strcasecmp(text, "true") == 0 ? plain_refuse(&a, "none", text, e) : 0;
}

static void plain_add_missing(missing_values *m, double first, double last, const char *attribute) {
  missing_range *r = &m->range[m->count++];
  *r = (missing_range){.first = (float)first, .last = (float)last};
  snprintf(r->attribute, sizeof r->attribute, "%s", attribute);
}

/* What netCDF fills with where a file names no other value. HDF5 knows it as the dataset's fill value, which other writers
 * may have set to a value that they mean. */
static int plain_find_default(const input *in, missing_values *m, error *e) {
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
    if (value == defaults[i]) plain_add_missing(m, value, value, "netCDF fill");
  return e->id;
}

/* A number outside its limits, too, is missing. */
static int plain_find_missing(const input *in, missing_values *m, error *e) {
  enum { VALUES = 4 };
  static const struct {
    const char *name;
    int least, most; /* numbers */
    bool low, high;  /* they are limits */
  } rows[] = {{"_FillValue", 1, VALUES, false, false},
              {"missing_value", 1, VALUES, false, false},
              {"valid_range", 2, 2, true, true},
              {"valid_min", 1, 1, true, false},
              {"valid_max", 1, 1, false, true}};
  double values[VALUES];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    plain_attribute a = {.in = in, .name = rows[i].name};
    TRY(plain_read_numbers(&a, rows[i].least, rows[i].most, values, e));
    if (a.count == 0) continue;
    if (rows[i].low) plain_add_missing(m, -INFINITY, nextafterf((float)values[0], -INFINITY), a.name);
    if (rows[i].high)
      plain_add_missing(m, nextafterf((float)values[a.count - 1], INFINITY), INFINITY, a.name);
    for (int k = 0; k < a.count && !rows[i].low && !rows[i].high; k++)
      plain_add_missing(m, values[k], values[k], a.name);
  }
  return plain_find_default(in, m, e);
}

int input_check_plain(const input *in, enum quantity q, missing_values *m, error *e) {
  *m = (missing_values){0};
  TRY(plain_check_factor(in, "scale_factor", 1, e));
  TRY(plain_check_factor(in, "add_offset", 0, e));
  TRY(plain_check_unsigned(in, e));
  if (q != QUANTITY_NONE) TRY(plain_check_units(in, q, e));
  return plain_find_missing(in, m, e);
}
