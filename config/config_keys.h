/* The table of all sections and keys of the configuration. Included once, by config.c.
 * Order matters: sections are together (config_print), a key follows those its default or condition depends
 * on, and of the boundary keys the more specific comes later and so wins, whatever their order in the file.
 */
#ifndef STENCIL_CONFIG_KEYS_H
#define STENCIL_CONFIG_KEYS_H

#include "config_internal.h"
#include "../kernels/statistics.h"

/* Numbers are kept far from the edges of float32 (fields) and float64 (lengths, whose squares are taken). */
static const range FIELD_VALUE = {-3e38, 3e38};
static const range SPACING = {1e-20, 1e20};
static const range POSITION = {-1e20, 1e20};
static const range CENTER = {-1e30, 1e30}; /* wide enough for the default on any grid, as is WIDTH */
static const range WIDTH = {1e-30, 1e30};

enum {
  POINTS_MAX = INT32_MAX - 64, /* of an axis: indices stay int with ghosts and padding added */
  THREADS_MAX = 4096
};

static const choice equation_choices[] = {
    {"jacobi", EQUATION_JACOBI}, {"heat", CHOICE_LATER}, {"wave", CHOICE_LATER}, {NULL, 0}};
static const choice initial_choices[] = {
    {"zero", INITIAL_ZERO}, {"gaussian", INITIAL_GAUSSIAN}, {"random", INITIAL_RANDOM}, {NULL, 0}};
static const choice boundary_choices[] = {{"fixed", BOUNDARY_FIXED},   {"dirichlet", CHOICE_LATER},
                                          {"neumann", CHOICE_LATER},   {"periodic", CHOICE_LATER},
                                          {"absorbing", CHOICE_LATER}, {NULL, 0}};
static const choice transport_choices[] = {{"auto", TRANSPORT_AUTO},  {"sendrecv", TRANSPORT_SENDRECV},
                                           {"chunked", CHOICE_LATER}, {"shared", CHOICE_LATER},
                                           {"ipc", CHOICE_LATER},     {"cuda_aware", CHOICE_LATER},
                                           {"nccl", CHOICE_LATER},    {NULL, 0}};
static const choice schedule_choices[] = {{"steps", SCHEDULE_STEPS}, {"persistent", CHOICE_LATER}, {NULL, 0}};
static const choice io_choices[] = {{"auto", IO_AUTO},
                                    {"collective", IO_COLLECTIVE},
                                    {"gather", IO_GATHER},
                                    {"server", CHOICE_LATER},
                                    {NULL, 0}};
static const choice backend_choices[] = {{"auto", 0}, {"cuda", 0}, {"host", 0}, {NULL, 0}};
static const choice progress_choices[] = {
    {"auto", PROGRESS_AUTO}, {"on", PROGRESS_ON}, {"off", PROGRESS_OFF}, {NULL, 0}};
static const choice switch_choices[] = {{"on", true},  {"off", false}, {"true", true}, {"false", false},
                                        {"yes", true}, {"no", false},  {NULL, 0}};

static void default_center(config *c);
static void default_width(config *c);

#define FACE(axis, side) (1 << FACE_##axis##_##side)
#define AXIS(axis)       (FACE(axis, LO) | FACE(axis, HI))
#define AT(field)        .offset = offsetof(config, field), .size = sizeof((config *)0)->field
#define LATER(section_, name_)                                                                               \
  { .section = section_, .name = name_, .kind = VALUE_LATER }
#define BOUNDARY(name, mask, otherwise)                                                                      \
  { "boundary", name, VALUE_FACES, .faces = mask, .choices = boundary_choices, .fallback = otherwise }

// clang-format off
const config_key config_keys[] = {
  {"grid", "nx", VALUE_INTEGER, AT(nx), .min = 1, .max = POINTS_MAX, .required = true},
  {"grid", "ny", VALUE_INTEGER, AT(ny), .min = 1, .max = POINTS_MAX, .required = true},
  {"grid", "nz", VALUE_INTEGER, AT(nz), .min = 1, .max = POINTS_MAX, .required = true},
  {"grid", "dx", VALUE_NUMBERS, AT(dx), .range = &SPACING, .fallback = "1"},
  {"grid", "dy", VALUE_NUMBERS, AT(dy), .range = &SPACING, .fallback = "1"},
  {"grid", "dz", VALUE_NUMBERS, AT(dz), .range = &SPACING, .fallback = "1"},
  {"grid", "origin", VALUE_NUMBERS, AT(origin), .range = &POSITION, .fallback = "0 0 0"},

  {"time", "steps", VALUE_INTEGER, AT(steps), .min = 0, .max = INT64_MAX, .required = true},
  LATER("time", "end_time"),
  LATER("time", "dt"),
  LATER("time", "cfl"),
  LATER("time", "max_seconds"),
  LATER("time", "allow_unstable"),

  {"equation", "type", VALUE_CHOICE, AT(equation), .choices = equation_choices, .fallback = "jacobi"},
  LATER("equation", "space_order"),

  {"jacobi", "center", VALUE_NUMBERS, AT(jacobi_center), .range = &FIELD_VALUE, .fallback = "0.4"},
  {"jacobi", "x", VALUE_NUMBERS, AT(jacobi_x), .range = &FIELD_VALUE, .fallback = "0.04 0.03 0.02 0.01"},
  {"jacobi", "y", VALUE_NUMBERS, AT(jacobi_y), .range = &FIELD_VALUE, .fallback = "0.04 0.03 0.02 0.01"},
  {"jacobi", "z", VALUE_NUMBERS, AT(jacobi_z), .range = &FIELD_VALUE, .fallback = "0.04 0.03 0.02 0.01"},

  LATER("medium", "diffusivity"),
  LATER("medium", "velocity"),

  {"initial", "u", VALUE_INITIAL, AT(initial_file), .range = &FIELD_VALUE, .choices = initial_choices,
   .fallback = "zero"},
  LATER("initial", "previous"),
  {"initial", "center", VALUE_NUMBERS, AT(gaussian_center), .range = &CENTER, .compute = default_center,
   .only_with = INITIAL_GAUSSIAN},
  {"initial", "width", VALUE_NUMBERS, AT(gaussian_width), .range = &WIDTH, .compute = default_width,
   .only_with = INITIAL_GAUSSIAN},
  {"initial", "amplitude", VALUE_NUMBERS, AT(gaussian_amplitude), .range = &FIELD_VALUE, .fallback = "1",
   .only_with = INITIAL_GAUSSIAN},
  {"initial", "seed", VALUE_INTEGER, AT(seed), .min = 0, .max = INT64_MAX, .fallback = "0",
   .only_with = INITIAL_RANDOM},

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
  {"boundary", "value", VALUE_NUMBERS, AT(boundary_value), .range = &FIELD_VALUE, .fallback = "0"},
  LATER("boundary", "width"),

  LATER("source.1", "position"), /* stands for every source.N */
  LATER("source.1", "wavelet"),
  LATER("source.1", "f0"),
  LATER("source.1", "t0"),
  LATER("source.1", "amplitude"),

  LATER("receivers", "positions"),
  LATER("receivers", "line"),
  LATER("receivers", "points"),
  LATER("receivers", "every"),

  {"output", "path", VALUE_TEXT, AT(output_path), .expected = "a path", .fallback = "output"},
  {"output", "every", VALUE_INTEGER, AT(output_every), .min = 0, .max = INT64_MAX, .fallback = "0"},
  {"output", "compress", VALUE_INTEGER, AT(compress), .min = 0, .max = 9, .fallback = "0"},

  LATER("checkpoint", "path"),
  LATER("checkpoint", "every_steps"),
  LATER("checkpoint", "every_seconds"),
  LATER("checkpoint", "keep"),

  {"parallel", "transport", VALUE_CHOICE, AT(transport), .choices = transport_choices, .fallback = "auto"},
  {"parallel", "overlap", VALUE_SWITCH, AT(overlap), .choices = switch_choices, .fallback = "on"},
  {"parallel", "schedule", VALUE_CHOICE, AT(schedule), .choices = schedule_choices, .fallback = "steps"},
  {"parallel", "io", VALUE_CHOICE, AT(io), .choices = io_choices, .fallback = "auto"},
  LATER("parallel", "watchdog_seconds"),

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
