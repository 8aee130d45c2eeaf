/* Are a dataset's numbers values in SI units as they are? Attributes say so, as in netCDF (CF conventions). Values that
 * need arithmetic are refused: jobs/convert.py converts them. */
#include <math.h>
#include <regex.h>
#include <string.h>
#include <strings.h>
#include "input.h"

/* --- attributes --------------------------------------------------------------------------------------------------- */

static int plain_refuse(const input *in, const char *name, const char *expected, const char *found,
                        error *e) {
  return FAIL(e, INPUT_ATTRIBUTE, in->name, name, expected, found, in->file);
}

/* Fails where an attribute is not what it should be (count < 0). */
static int plain_check(const input *in, const char *name, int count, const char *expected, const char *why,
                       error *e) {
  if (count >= 0) return 0;
  return why[0] ? input_damaged(in, why, e) : plain_refuse(in, name, expected, "another type or shape", e);
}

/* Reads `least` to `most` numbers; *count is 0 where there is no such attribute. */
static int plain_read_numbers(const input *in, const char *name, int least, int most, double values[],
                              int *count, error *e) {
  char why[HDF5_TEXT];
  *count = attribute_get_numbers(in->dataset, name, most, values, why);
  return plain_check(in, name, *count && *count < least ? -1 : *count,
                     most == 1    ? "one number"
                     : least == 2 ? "two numbers"
                                  : "a number, or a few",
                     why, e);
}

/* Reads one text: "" where there is none, or where it has no value, which is netCDF's way to write "". */
static int plain_read_text(const input *in, const char *name, char text[ATTRIBUTE_TEXT], error *e) {
  char why[HDF5_TEXT];
  return plain_check(in, name, attribute_get_text(in->dataset, name, text, why), "one short text", why, e);
}

void input_read_word(const input *in, const char *name, char *word, size_t size) {
  char text[ATTRIBUTE_TEXT], why[HDF5_TEXT], path[FILE_NAME];
  snprintf(path, sizeof path, "%.*s", (int)(strrchr(in->path, '/') - in->path), in->path);
  const hid_t group = H5Gopen2(in->opened, path[0] ? path : "/", H5P_DEFAULT);
  word[0] = 0;
  if (group < 0) return;
  if (attribute_get_text(group, name, text, why) > 0 && strlen(text) < size) strcpy(word, text);
  H5Gclose(group);
}

int input_read_spacing(const input *in, double spacing[3], error *e) {
  char why[HDF5_TEXT];
  if (attribute_get_numbers(in->dataset, "spacing", 3, spacing, why) != 3)
    memset(spacing, 0, 3 * sizeof *spacing);
  return why[0] ? input_damaged(in, why, e) : 0;
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

/* No unit counts as SI, and so does 1, CF's word for no unit. Case counts where the unit has capitals: MHz and mHz
 * are two. */
static int plain_check_units(const input *in, enum quantity q, error *e) {
  static const char *const names[] = {"units", "unit", "Units", "Unit", "UNITS"};
  const char *si = PLAIN_UNITS[q].si;
  char found[ATTRIBUTE_TEXT] = "", pattern[ATTRIBUTE_TEXT];
  size_t i = 0;
  regex_t like;
  for (bool none = true; none && i < sizeof names / sizeof *names; i += none) {
    TRY(plain_read_text(in, names[i], found, e));
    none = !found[0];
  }
  snprintf(pattern, sizeof pattern, "^[][:space:][]*(1?|%s)[][:space:][]*$", PLAIN_UNITS[q].spelled);
  if (regcomp(&like, pattern, REG_EXTENDED | REG_NOSUB | (strpbrk(si, "BM") ? 0 : REG_ICASE)))
    return FAIL(e, OUT_OF_MEMORY, sizeof pattern, "an attribute");
  const bool same = regexec(&like, found, 0, NULL, 0) == 0;
  regfree(&like);
  return same ? 0 : plain_refuse(in, names[i], si, found, e);
}

/* --- numbers ------------------------------------------------------------------------------------------------------ */

/* Fails unless the attribute is missing or its number changes nothing. */
static int plain_check_factor(const input *in, const char *name, double nothing, error *e) {
  char found[32];
  double value = nothing;
  int count;
  TRY(plain_read_numbers(in, name, 1, 1, &value, &count, e));
  snprintf(found, sizeof found, "%.9g", value);
  return value == nothing ? 0 : plain_refuse(in, name, "none", found, e);
}

/* netCDF-3 had no unsigned numbers; netCDF-4 has. */
static int plain_check_unsigned(const input *in, error *e) {
  char text[ATTRIBUTE_TEXT];
  TRY(plain_read_text(in, "_Unsigned", text, e));
  return strcasecmp(text, "true") == 0 ? plain_refuse(in, "_Unsigned", "none", text, e) : 0;
}

static void plain_add_missing(missing_values *m, double first, double last, const char *attribute) {
  missing_range *r = &m->range[m->count++];
  *r = (missing_range){.first = (float)first, .last = (float)last};
  snprintf(r->attribute, sizeof r->attribute, "%s", attribute);
}

/* Adds the dataset's fill value in HDF5 where it is one of netCDF's defaults. Other writers may have set another fill
 * value to a number that they mean. */
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

/* Finds the numbers that are missing values; those outside valid limits are missing, too. */
static int plain_find_missing(const input *in, missing_values *m, error *e) {
  enum { VALUES = 4 };
  static const struct {
    const char *name;
    int least, most; /* numbers */
    bool low, high;  /* the numbers are limits */
  } rows[] = {{"_FillValue", 1, VALUES, false, false},
              {"missing_value", 1, VALUES, false, false},
              {"valid_range", 2, 2, true, true},
              {"valid_min", 1, 1, true, false},
              {"valid_max", 1, 1, false, true}};
  double values[VALUES];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const char *name = rows[i].name;
    int count;
    TRY(plain_read_numbers(in, name, rows[i].least, rows[i].most, values, &count, e));
    if (count == 0) continue;
    if (rows[i].low) plain_add_missing(m, -INFINITY, nextafterf((float)values[0], -INFINITY), name);
    if (rows[i].high) plain_add_missing(m, nextafterf((float)values[count - 1], INFINITY), INFINITY, name);
    for (int k = 0; k < count && !rows[i].low && !rows[i].high; k++)
      plain_add_missing(m, values[k], values[k], name);
  }
  return plain_find_default(in, m, e);
}

int input_check_plain(input *in, enum quantity q, error *e) {
  in->missing = (missing_values){0};
  TRY(plain_check_factor(in, "scale_factor", 1, e));
  TRY(plain_check_factor(in, "add_offset", 0, e));
  TRY(plain_check_unsigned(in, e));
  if (q != QUANTITY_NONE) TRY(plain_check_units(in, q, e));
  return plain_find_missing(in, &in->missing, e);
}
