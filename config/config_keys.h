/* The table of all sections and keys of the configuration. Included once, by config.c.
 * Order matters: sections are together (config_print), a key follows those its default or condition depends
 * on, and of the boundary keys the more specific comes later and so wins, whatever their order in the file.
 */
#ifndef STENCIL_CONFIG_KEYS_H
#define STENCIL_CONFIG_KEYS_H

#include "config_internal.h"
#include "kernels/statistics.h"

/* Numbers are kept far from the edges of float32 (fields) and float64 (lengths, whose squares are taken). */
static const range FIELD_VALUE = {-3e38, 3e38};
static const range POSITIVE = {1e-20, 1e20};
static const range SPACING = {1e-15, 1e15}; /* its square, times and over the least weight, is a normal float */
static const range SECONDS = {0, 1e9};
static const range POSITION = {-1e20, 1e20};
static const range CENTER = {-1e30, 1e30}; /* wide enough for the default on any grid, as is WIDTH */
static const range WIDTH = {1e-30, 1e30};
static const range DURATION = {1e-30, 1e30};
static const range DELAY = {-1e30, 1e30}; /* likewise, at any frequency */

enum {
  POINTS_MAX = INT32_MAX - 64, /* of an axis: indices stay int with ghosts and padding added */
  THREADS_MAX = 4096,
  KEEP_MAX = 1000000
};

static bool has_face(const config *c, enum boundary_kind kind) {
  for (int face = 0; face < FACE_COUNT; face++)
    if (c->boundary[face] == kind) return true;
  return false;
}

/* CONDITION(NAME, expression of c and s, how to say it); IDLE_CONDITION: a key for which it does not hold has no
 * effect, but does no harm, as where an override changes the equation: it is taken, and mentioned. */
#define IDLE_CONDITION(name, expression, says) CONDITION_(name, expression, says, true)
#define CONDITION(name, expression, says)      CONDITION_(name, expression, says, false)
#define CONDITION_(name, expression, says, idle)                                                                    \
  static bool holds_##name(const config *c, const source_config *s) {                                        \
    (void)c, (void)s;                                                                                        \
    return expression;                                                                                       \
  }                                                                                                          \
  static const condition name = {holds_##name, says, idle};

#define WORD(text, value_, ...)                                                                              \
  { .name = text, .value = value_, ##__VA_ARGS__ }
#define A_NUMBER(text, value_)                                                                               \
  { .name = text, .value = value_, .form = FORM_NUMBER }
#define A_DATASET(value_)                                                                                    \
  { .name = "FILE:/dataset", .value = value_, .form = FORM_DATASET }
#define END                                                                                                  \
  { .name = NULL }

// clang-format off
IDLE_CONDITION(JACOBI, c->equation == EQUATION_JACOBI, "with type = jacobi")
IDLE_CONDITION(HEAT, c->equation == EQUATION_HEAT, "with type = heat")
CONDITION(WAVE, c->equation == EQUATION_WAVE, "with type = wave")
IDLE_CONDITION(WAVE_KEY, c->equation == EQUATION_WAVE, "with type = wave")
IDLE_CONDITION(HEAT_OR_WAVE, c->equation != EQUATION_JACOBI, "with type = heat or wave")
CONDITION(HAS_END_TIME, c->end_time > 0, "with end_time")
IDLE_CONDITION(GAUSSIAN, c->initial == INITIAL_GAUSSIAN, "with u = gaussian")
IDLE_CONDITION(RANDOM, c->initial == INITIAL_RANDOM, "with u = random")
IDLE_CONDITION(FIXED_FACE, has_face(c, BOUNDARY_FIXED), "where a face is fixed")
IDLE_CONDITION(ABSORBING_FACE, has_face(c, BOUNDARY_ABSORBING), "where a face is absorbing")
IDLE_CONDITION(FORMULA, s->wavelet != WAVELET_FILE, "with wavelet = ricker or gaussian")
/* Of these three keys the first in the table sets c->receivers; printing asks again. */
CONDITION(NO_POSITIONS, c->receivers != RECEIVERS_FILE, "without positions")
CONDITION(NO_LINE, c->receivers == RECEIVERS_NONE || c->receivers == RECEIVERS_POINTS, "without positions and line")
IDLE_CONDITION(ANY_RECEIVERS, c->receivers != RECEIVERS_NONE, "with positions, line or points")

static const choice equation_choices[] = {
  WORD("jacobi", EQUATION_JACOBI), WORD("heat", EQUATION_HEAT), WORD("wave", EQUATION_WAVE), END};
static const choice order_choices[] = {WORD("2", 2), WORD("4", 4), WORD("6", 6), WORD("8", 8), END};
static const choice medium_choices[] = {A_NUMBER("a number > 0", 0), A_DATASET(0), END};
static const choice initial_choices[] = {
  WORD("zero", INITIAL_ZERO), WORD("gaussian", INITIAL_GAUSSIAN), WORD("random", INITIAL_RANDOM),
  A_NUMBER("a number", INITIAL_NUMBER), A_DATASET(INITIAL_FILE), END};
static const choice previous_choices[] = {WORD("rest", PREVIOUS_REST), A_DATASET(PREVIOUS_FILE), END};
static const choice boundary_choices[] = {
  WORD("fixed", BOUNDARY_FIXED), WORD("dirichlet", BOUNDARY_DIRICHLET), WORD("neumann", BOUNDARY_NEUMANN),
  WORD("periodic", BOUNDARY_PERIODIC), WORD("absorbing", BOUNDARY_ABSORBING, .only_with = &WAVE), END};
static const choice wavelet_choices[] = {
  WORD("ricker", WAVELET_RICKER), WORD("gaussian", WAVELET_GAUSSIAN), A_DATASET(WAVELET_FILE), END};
static const choice positions_choices[] = {A_DATASET(RECEIVERS_FILE), END};
static const choice line_choices[] = {WORD("x0 y0 z0 x1 y1 z1 n, with n from 1 to 1000000", RECEIVERS_LINE), END};
static const choice points_choices[] = {WORD("x y z, x y z, ..., at most 200 points", RECEIVERS_POINTS), END};
_Static_assert(RECEIVER_LINE_MAX == 1000000 && RECEIVER_POINTS_MAX == 200, "as these two say");
static const choice transport_choices[] = {
  WORD("auto", TRANSPORT_AUTO), WORD("sendrecv", TRANSPORT_SENDRECV), WORD("chunked", TRANSPORT_CHUNKED),
  WORD("shared", TRANSPORT_SHARED), WORD("ipc", TRANSPORT_IPC), WORD("cuda_aware", TRANSPORT_CUDA_AWARE),
  WORD("nccl", TRANSPORT_NCCL), END};
static const choice schedule_choices[] = {WORD("steps", SCHEDULE_STEPS), WORD("persistent", SCHEDULE_PERSISTENT), END};
static const choice io_choices[] = {
  WORD("auto", IO_AUTO), WORD("collective", IO_COLLECTIVE), WORD("gather", IO_GATHER), WORD("server", IO_SERVER),
  END};
static const choice backend_choices[] = {WORD("auto", 0), WORD("cuda", 0), WORD("host", 0), END};
static const choice progress_choices[] = {
  WORD("auto", PROGRESS_AUTO), WORD("on", PROGRESS_ON), WORD("off", PROGRESS_OFF), END};
static const choice switch_choices[] = {
  WORD("on", true), WORD("off", false), WORD("true", true), WORD("false", false), WORD("yes", true), WORD("no", false),
  END};
// clang-format on

static void default_center(config *c, source_config *s);
static void default_width(config *c, source_config *s);
static void default_t0(config *c, source_config *s);

#define FACE(axis, side)      (1 << FACE_##axis##_##side)
#define AXIS(axis)            (FACE(axis, LO) | FACE(axis, HI))
#define FIELD(owner, field)   .offset = offsetof(owner, field), .size = sizeof((owner *)0)->field
#define AT(field)             FIELD(config, field)
#define AT_SOURCE(field)      .of_source = true, FIELD(source_config, field)
#define TAG(field, choices_)  .tag = offsetof(config, field), .choices = choices_
#define NUMBER(field, limits) .number = offsetof(config, field), .range = limits
#define BOUNDARY(name, mask, otherwise)                                                                      \
  { "boundary", name, VALUE_FACES, .faces = mask, .choices = boundary_choices, .fallback = otherwise }
#define WEIGHTS(name, field, otherwise)                                                                      \
  {                                                                                                          \
    "jacobi", name, VALUE_NUMBERS, AT(field), .range = &FIELD_VALUE, .fallback = otherwise,                  \
                                              .only_with = &JACOBI                                           \
  }

// clang-format off
const config_key config_keys[] = {
  {"grid", "nx", VALUE_INTEGER, AT(nx), .min = 1, .max = POINTS_MAX, .required = true},
  {"grid", "ny", VALUE_INTEGER, AT(ny), .min = 1, .max = POINTS_MAX, .required = true},
  {"grid", "nz", VALUE_INTEGER, AT(nz), .min = 1, .max = POINTS_MAX, .required = true},
  {"grid", "dx", VALUE_NUMBERS, AT(dx), .range = &SPACING, .fallback = "1"},
  {"grid", "dy", VALUE_NUMBERS, AT(dy), .range = &SPACING, .fallback = "1"},
  {"grid", "dz", VALUE_NUMBERS, AT(dz), .range = &SPACING, .fallback = "1"},
  {"grid", "origin", VALUE_NUMBERS, AT(origin), .range = &POSITION, .fallback = "0 0 0"},

  {"equation", "type", VALUE_CHOICE, AT(equation), .choices = equation_choices, .fallback = "jacobi"},
  {"equation", "space_order", VALUE_CHOICE, AT(space_order), .choices = order_choices, .fallback = "8",
   .only_with = &HEAT_OR_WAVE},

  {"time", "end_time", VALUE_NUMBERS, AT(end_time), .range = &DURATION, .optional = true},
  {"time", "steps", VALUE_INTEGER, AT(steps), .min = 0, .max = INT64_MAX, .required = true,
   .unless = &HAS_END_TIME},
  {"time", "dt", VALUE_NUMBERS, AT(dt), .range = &DURATION, .automatic = true, .fallback = "auto"},
  {"time", "cfl", VALUE_NUMBERS, AT(cfl), .range = &POSITIVE, .fallback = "0.9", .only_with = &HEAT_OR_WAVE},
  {"time", "allow_unstable", VALUE_SWITCH, AT(allow_unstable), .choices = switch_choices, .fallback = "off",
   .only_with = &HEAT_OR_WAVE},
  {"time", "max_seconds", VALUE_NUMBERS, AT(max_seconds), .range = &SECONDS, .fallback = "0"},

  WEIGHTS("center", jacobi_center, "0.4"),
  WEIGHTS("x", jacobi_x, "0.04 0.03 0.02 0.01"),
  WEIGHTS("y", jacobi_y, "0.04 0.03 0.02 0.01"),
  WEIGHTS("z", jacobi_z, "0.04 0.03 0.02 0.01"),

  {"medium", "diffusivity", VALUE_VARIANT, AT(diffusivity_file), NUMBER(diffusivity, &POSITIVE),
   .choices = medium_choices, .fallback = "1", .only_with = &HEAT},
  {"medium", "velocity", VALUE_VARIANT, AT(velocity_file), NUMBER(velocity, &POSITIVE),
   .choices = medium_choices, .fallback = "1500", .only_with = &WAVE_KEY},

  {"initial", "u", VALUE_VARIANT, AT(initial_file), NUMBER(initial_number, &FIELD_VALUE),
   TAG(initial, initial_choices), .fallback = "zero"},
  {"initial", "previous", VALUE_VARIANT, AT(previous_file), TAG(previous, previous_choices), .fallback = "rest",
   .only_with = &WAVE_KEY},
  {"initial", "center", VALUE_NUMBERS, AT(gaussian_center), .range = &CENTER, .compute = default_center,
   .only_with = &GAUSSIAN},
  {"initial", "width", VALUE_NUMBERS, AT(gaussian_width), .range = &WIDTH, .compute = default_width,
   .only_with = &GAUSSIAN},
  {"initial", "amplitude", VALUE_NUMBERS, AT(gaussian_amplitude), .range = &FIELD_VALUE, .fallback = "1",
   .only_with = &GAUSSIAN},
  {"initial", "seed", VALUE_INTEGER, AT(seed), .min = 0, .max = INT64_MAX, .fallback = "0", .only_with = &RANDOM},

  BOUNDARY("all", AXIS(X) | AXIS(Y) | AXIS(Z), "fixed"),
  BOUNDARY("x", AXIS(X), NULL),
  BOUNDARY("y", AXIS(Y), NULL),
  BOUNDARY("z", AXIS(Z), NULL),
  BOUNDARY("x_lo", FACE(X, LO), NULL),
  BOUNDARY("x_hi", FACE(X, HI), NULL),
  BOUNDARY("y_lo", FACE(Y, LO), NULL),
  BOUNDARY("y_hi", FACE(Y, HI), NULL),
  BOUNDARY("z_lo", FACE(Z, LO), NULL),
  BOUNDARY("z_hi", FACE(Z, HI), NULL),
  {"boundary", "value", VALUE_NUMBERS, AT(boundary_value), .range = &FIELD_VALUE, .fallback = "0",
   .only_with = &FIXED_FACE},
  {"boundary", "width", VALUE_INTEGER, AT(boundary_width), .min = 1, .max = POINTS_MAX, .fallback = "20",
   .only_with = &ABSORBING_FACE},

  {"source.1", "position", VALUE_NUMBERS, AT_SOURCE(position), .range = &CENTER, .required = true},
  {"source.1", "wavelet", VALUE_VARIANT, AT_SOURCE(wavelet_file), .tag = offsetof(source_config, wavelet),
   .choices = wavelet_choices, .fallback = "ricker"},
  {"source.1", "f0", VALUE_NUMBERS, AT_SOURCE(f0), .range = &POSITIVE, .required = true, .only_with = &FORMULA},
  {"source.1", "t0", VALUE_NUMBERS, AT_SOURCE(t0), .range = &DELAY, .compute = default_t0, .only_with = &FORMULA},
  {"source.1", "amplitude", VALUE_NUMBERS, AT_SOURCE(amplitude), .range = &FIELD_VALUE, .fallback = "1"},

  {"receivers", "positions", VALUE_VARIANT, AT(receivers_file), TAG(receivers, positions_choices)},
  {"receivers", "line", VALUE_LINE, .range = &CENTER, TAG(receivers, line_choices), .only_with = &NO_POSITIONS},
  {"receivers", "points", VALUE_POINTS, .range = &CENTER, TAG(receivers, points_choices), .only_with = &NO_LINE},
  {"receivers", "every", VALUE_INTEGER, AT(receivers_every), .min = 1, .max = INT64_MAX, .fallback = "1",
   .only_with = &ANY_RECEIVERS},

  {"output", "path", VALUE_TEXT, AT(output_path), .expected = "a path", .fallback = "output"},
  {"output", "every", VALUE_INTEGER, AT(output_every), .min = 0, .max = INT64_MAX, .fallback = "0"},
  {"output", "compress", VALUE_INTEGER, AT(compress), .min = 0, .max = 9, .fallback = "0"},

  {"checkpoint", "path", VALUE_TEXT, AT(checkpoint_path), .expected = "a path", .fallback = "checkpoint"},
  {"checkpoint", "every_steps", VALUE_INTEGER, AT(checkpoint_every_steps), .min = 0, .max = INT64_MAX,
   .fallback = "0"},
  {"checkpoint", "every_seconds", VALUE_NUMBERS, AT(checkpoint_every_seconds), .range = &SECONDS, .fallback = "0"},
  {"checkpoint", "keep", VALUE_INTEGER, AT(checkpoint_keep), .min = 1, .max = KEEP_MAX, .fallback = "2"},

  {"parallel", "transport", VALUE_CHOICE, AT(transport), .choices = transport_choices, .fallback = "auto"},
  {"parallel", "overlap", VALUE_SWITCH, AT(overlap), .choices = switch_choices, .fallback = "on"},
  {"parallel", "schedule", VALUE_CHOICE, AT(schedule), .choices = schedule_choices, .fallback = "steps"},
  {"parallel", "io", VALUE_CHOICE, AT(io), .choices = io_choices, .fallback = "auto"},
  {"parallel", "watchdog_seconds", VALUE_NUMBERS, AT(watchdog_seconds), .range = &SECONDS, .fallback = "0"},

  {"device", "backend", VALUE_TEXT, AT(backend), .choices = backend_choices, .fallback = "auto"},
  {"device", "kernel", VALUE_TEXT, AT(kernel), .expected = "auto or the name of a kernel", .fallback = "auto"},
  {"device", "threads", VALUE_INTEGER, AT(threads), .min = 1, .max = THREADS_MAX, .automatic = true,
   .fallback = "auto"},

  {"report", "file", VALUE_TEXT, AT(report_file), .expected = "a path", .fallback = "", .may_be_empty = true},
  {"report", "progress", VALUE_CHOICE, AT(progress), .choices = progress_choices, .fallback = "auto"},
  {"report", "check_every", VALUE_INTEGER, AT(check_every), .min = 0, .max = INT64_MAX, .fallback = "100"},
  {"report", "histogram", VALUE_INTEGER, AT(histogram), .min = 0, .max = HISTOGRAM_BINS, .fallback = "0"},
};
// clang-format on
const int config_key_count = sizeof config_keys / sizeof config_keys[0];

#endif
