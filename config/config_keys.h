/* The table of all sections and keys of the configuration, with their defaults, units and one line each: `--help`, the
 * man page, the completion of bash and docs/CONFIG.md are printed from it (config_help.c). Included once, by config.c.
 * Order matters. The keys of a section are together (config_print). A key follows those on which its default or
 * condition depends. More specific boundary keys come later, so that they win whatever their order in the file.
 *
 *  */
#ifndef STENCIL_CONFIG_KEYS_H
#define STENCIL_CONFIG_KEYS_H

#include "config_internal.h"
#include "kernels/operations/statistics.h"

/* Numbers are kept far from the edges of float32 (fields) and float64 (lengths, whose squares are taken). */
static const range FIELD_VALUE = {-3e38, 3e38};
static const range POSITIVE = {1e-20, 1e20}, NOT_NEGATIVE = {0, 1e20};
static const range OPTIONAL = {1e-20, 1e20};
/* A spacing's square, multiplied or divided by the least weight, is a normal float. */
static const range SPACING = {1e-15, 1e15};
static const range POWER = {0, 3};
static const range SECONDS = {0, 1e9};
static const range STRIDE = {1, 1e9};
static const range POSITION = {-1e20, 1e20};
/* Wide enough for the defaults on any grid and at any frequency. */
static const range CENTER = {-1e30, 1e30}, WIDTH = {1e-30, 1e30};

enum { THREADS_MAX = 4096, KEEP_MAX = 1000000, AT_ONCE_MAX = 256 };

static bool has_face(const config *c, enum boundary_kind kind) {
  for (int face = 0; face < FACE_COUNT; face++)
    if (c->boundary[face] == kind) return true;
  return false;
}

/* CONDITION(NAME, expression of c and s, how to say it); IDLE_CONDITION: where the condition does not hold, the key is
 * accepted without effect, and the log mentions the key. This happens, for example, after an override has changed the
 * equation. */
#define IDLE_CONDITION(name, expression, says) CONDITION_(name, expression, says, true)
#define EQUATION_KEY(name, expression)         CONDITION_(name, expression, NULL, true)
#define CONDITION(name, expression, says)      CONDITION_(name, expression, says, false)
#define CONDITION_(name, expression, says, idle)                                                             \
  static bool holds_##name(const config *c, const source_config *s) {                                        \
    (void)c, (void)s;                                                                                        \
    return expression;                                                                                       \
  }                                                                                                          \
  static const condition name = {holds_##name, says, idle};

#define WORD(text, value_, doc_, ...)                                                                        \
  { .name = text, .value = value_, .doc = doc_, ##__VA_ARGS__ }
#define A_NUMBER(text, value_)                                                                               \
  { .name = text, .value = value_, .form = FORM_NUMBER }
#define A_DATASET(value_)                                                                                    \
  { .name = "FILE:/dataset", .value = value_, .form = FORM_DATASET }
#define END                                                                                                  \
  { .name = NULL }

// clang-format off
EQUATION_KEY(WEIGHTS_GIVEN, equation_has(c->equation, GIVEN_WEIGHTS))
EQUATION_KEY(LAPLACIAN, !equation_has(c->equation, GIVEN_WEIGHTS))
EQUATION_KEY(KEEPS_BEFORE, EQUATIONS[c->equation].levels > 1)
CONDITION(SOURCES, equation_has(c->equation, HAS_SOURCES), NULL)
EQUATION_KEY(SOURCES_KEY, equation_has(c->equation, HAS_SOURCES))
CONDITION(LAYERS, equation_has(c->equation, HAS_LAYERS), NULL)
#define MEDIUM(constant, ...) EQUATION_KEY(HAS_##constant, equation_knows(c->equation, MEDIUM_##constant))
#include "kernels/equations.def"
CONDITION(HAS_END_TIME, c->end_time > 0, "with end_time")
EQUATION_KEY(TERMS, equation_has(c->equation, HAS_TERMS))
IDLE_CONDITION(ABSORPTION_LAW, config_has_medium(c, MEDIUM_ABSORPTION), "with absorption")
IDLE_CONDITION(ABSORBS, config_medium_absorbs(c), "with quality or absorption")
IDLE_CONDITION(SURVEY, c->survey_file[0], "in a survey")
CONDITION(REVERSIBLE, equation_has(c->equation, HAS_TERMS), NULL)
IDLE_CONDITION(GRADIENT, config_has_gradient(c), "with observed or adjoint_source")
IDLE_CONDITION(MISFIT, config_has_gradient(c), "with observed") /* config_check refuses adjoint_source */
CONDITION(NO_GRADIENT, !config_has_gradient(c), "without [gradient]")
CONDITION(CHECKPOINTS, !c->survey_file[0] || c->survey_on_stop == ON_STOP_CHECKPOINT,
          "without survey, or with on_stop = checkpoint")
CONDITION(SURVEY_RANKS, c->survey_ranks > 0, "where ranks_per_shot is given")
IDLE_CONDITION(GAUSSIAN, c->initial == INITIAL_GAUSSIAN, "with u = gaussian")
IDLE_CONDITION(RANDOM, c->initial == INITIAL_RANDOM, "with u = random")
IDLE_CONDITION(FIXED_FACE, has_face(c, BOUNDARY_FIXED), "where a face is fixed")
IDLE_CONDITION(ABSORBING_FACE, has_face(c, BOUNDARY_ABSORBING), "where a face is absorbing")
/* nx = 1 alone is refused later (check_grid), with the same message whatever keys of x are given. */
CONDITION(X_FACES, c->nx != 1 || c->ny != 1, "where nx > 1")
CONDITION(Y_FACES, c->ny != 1, "where ny > 1")
IDLE_CONDITION(X_EXISTS, c->nx != 1 || c->ny != 1, "where nx > 1")
IDLE_CONDITION(Y_EXISTS, c->ny != 1, "where ny > 1")
IDLE_CONDITION(FORMULA, s->wavelet != WAVELET_FILE, "with wavelet = ricker or gaussian")
/* The first given of the three keys positions, line and points sets c->receivers; config_print checks the conditions
 * again. */
CONDITION(NO_POSITIONS, c->receivers != RECEIVERS_FILE, "without positions")
CONDITION(NO_LINE, c->receivers == RECEIVERS_NONE || c->receivers == RECEIVERS_POINTS, "without positions and line")
CONDITION(LISTED, c->sources_listed, "with positions")
IDLE_CONDITION(MAPS, config_has_maps(c), "with quantities or dft")
IDLE_CONDITION(ANY_RECEIVERS, c->receivers != RECEIVERS_NONE, "with positions, line or points")

static const choice equation_choices[] = {
#define EQUATION(constant, name, levels, media, flags, folded, rest, label, formula) WORD(#name, EQUATION_##constant, formula),
#include "kernels/equations.def"
  END};
static const choice dispersion_choices[] = {
  WORD("removed", DISPERSION_REMOVED, "signals and traces are transformed: traces are exact in time; where impossible, the log says why"),
  WORD("kept", DISPERSION_KEPT, "traces are what the steps of second order in time give"), END};
static const choice order_choices[] = {
  WORD("2", 2, NULL), WORD("4", 4, NULL), WORD("6", 6, NULL), WORD("8", 8, NULL), END};
static const choice POSITIVE_medium[] = {A_NUMBER("a number > 0", 0), A_DATASET(0), END};
static const choice OPTIONAL_medium[] = {WORD("none", 0, NULL), A_NUMBER("a number > 0", 0), A_DATASET(0), END};
static const choice NOT_NEGATIVE_medium[] = {A_NUMBER("a number >= 0", 0), A_DATASET(0), END};
static const choice initial_choices[] = {
  WORD("zero", INITIAL_ZERO, NULL),
  WORD("gaussian", INITIAL_GAUSSIAN, "amplitude exp(-r^2 / (2 width^2)) about center"),
  WORD("random", INITIAL_RANDOM, "uniform in [-1, 1), the same field on any number of ranks"),
  A_NUMBER("a number", INITIAL_NUMBER), A_DATASET(INITIAL_FILE), END};
static const choice on_stop_choices[] = {
  WORD("drop", ON_STOP_DROP, "they end at once and are done anew"),
  WORD("finish", ON_STOP_FINISH, "they are finished; none begins for which max_seconds leaves no time"),
  WORD("checkpoint", ON_STOP_CHECKPOINT, "they write a checkpoint, from which they go on", .only_with = &SURVEY_RANKS),
  END};
static const choice previous_choices[] = {
  WORD("rest", PREVIOUS_REST, "zero initial velocity, also of what sources impose at step 0"),
  A_DATASET(PREVIOUS_FILE), END};
static const choice boundary_choices[] = {
  WORD("fixed", BOUNDARY_FIXED, "the points beyond the face hold `value` for ever"),
  WORD("dirichlet", BOUNDARY_DIRICHLET, "odd reflection about the face's points, held 0: a free surface"),
  WORD("neumann", BOUNDARY_NEUMANN, "even reflection about the face's points: a rigid or insulated wall"),
  WORD("periodic", BOUNDARY_PERIODIC, "the grid continues at the other face of the axis; both faces must be periodic"),
  WORD("absorbing", BOUNDARY_ABSORBING, "waves leave: a perfectly matched layer of `width` points", .only_with = &LAYERS),
  END};
static const choice wavelet_choices[] = {
  WORD("ricker", WAVELET_RICKER, "A (1 - 2a) e^-a with a = (pi f0 (t - t0))^2 and A the amplitude"),
  WORD("gaussian", WAVELET_GAUSSIAN, "A e^-a"),
  {.name = "FILE:/dataset", .value = WAVELET_FILE, .form = FORM_DATASET,
   .doc = "a value for every time step, or rows of even times (s) and values, band-limited; 0 outside"}, END};
static const choice interpolation_choices[] = {
  WORD("sinc", INTERPOLATION_SINC, "8 points an axis: within 0.15 % from 4 points per wavelength on"),
  WORD("linear", INTERPOLATION_LINEAR, "2 points an axis: 5 % off at 10 points per wavelength, 1 % at 20"), END};
static const choice mode_choices[] = {
  WORD("add", SOURCES_ADD, "as those of [source.N]: signal n enters the step from n to n + 1"),
  WORD("impose", SOURCES_IMPOSE, "the field at the nearest point is signal n at step n, as long as there is one"), END};
static const choice strength_choices[] = {
  WORD("node", STRENGTH_NODE, "u_tt = velocity^2 (lap u + s) at a grid point: the strength is s dx dy dz"),
  WORD("volume", STRENGTH_VOLUME, "s is the strength of a point source: at a grid point s / (dx dy dz)"), END};
static const choice dataset_choices[] = {A_DATASET(1), END}; /* 1: there is one, where anybody keeps that */
_Static_assert(RECEIVERS_FILE == 1, "dataset_choices");
static const choice of_choices[] = {WORD("velocity", GRADIENT_OF_VELOCITY, NULL), END};
static const choice misfit_choices[] = {
  WORD("l2", MISFIT_L2, "half of the sum of squares of what traces differ by, times the interval of samples"), END};
static const choice missing_choices[] = {
  WORD("error", MISSING_ERROR, "a mistake: exit 2"), WORD("nan", MISSING_NAN, "no datum: its term is 0"), END};
static const choice line_choices[] = {WORD("x0 y0 z0 x1 y1 z1 n, with n from 1 to 1000000", RECEIVERS_LINE, NULL), END};
static const choice points_choices[] = {
  WORD("x y z, x y z, ..., at most 200 points", RECEIVERS_POINTS, NULL), END};
_Static_assert(RECEIVER_LINE_MAX == 1000000 && RECEIVER_POINTS_MAX == 200, "these two choices name the limits");
static const choice transport_choices[] = {
  WORD("auto", TRANSPORT_AUTO, "measure those possible here (nccl not beside ipc on a node), take the fastest that passes"),
#define TRANSPORT(constant, name, note) WORD(#name, TRANSPORT_##constant, note),
#include "halo/transports.def"
#undef TRANSPORT
  END};
static const choice schedule_choices[] = {
  WORD("steps", SCHEDULE_STEPS, "a few kernels and one exchange a step"),
  WORD("persistent", SCHEDULE_PERSISTENT,
       "up to 1000 steps a launch: small slabs, GPUs of one node, no sources or absorbing faces",
       .only_with = &NO_GRADIENT), END};
static const choice io_choices[] = {
  WORD("auto", IO_AUTO,
       "collective where all ranks see the folders, else gather"),
  WORD("collective", IO_COLLECTIVE,
       "every rank reads and writes its own part of each file"),
  WORD("gather", IO_GATHER, "files pass through rank 0, a block at a time"),
  WORD("server", IO_SERVER, "the last rank computes nothing; all files pass through it"), END};
static const choice backend_choices[] = {WORD("auto", 0, NULL), WORD("cuda", 0, NULL), WORD("host", 0, NULL), END};
static const choice progress_choices[] = {
  WORD("auto", PROGRESS_AUTO, NULL), WORD("on", PROGRESS_ON, NULL), WORD("off", PROGRESS_OFF, NULL), END};
static const choice switch_choices[] = {
  WORD("on", true, NULL), WORD("off", false, NULL), WORD("true", true, NULL), WORD("false", false, NULL),
  WORD("yes", true, NULL), WORD("no", false, NULL), END};

#define NAME(kind, choices) const char *kind##_name(enum kind##_kind value) { return config_choice(choices, (int)value)->name; }
NAME(transport, transport_choices)
NAME(schedule, schedule_choices)
NAME(boundary, boundary_choices)
NAME(io, io_choices)
// clang-format on

static void config_default_averaging(config *c, source_config *s) {
  (void)s;
  c->averaging = config_density_varies(c);
}

static void config_default_box(config *c, source_config *s) {
  (void)s;
  for (int i = 0; i < 6; i++) c->output_box[i] = i % 2 ? INFINITY : -INFINITY;
}

static void config_default_center(config *c, source_config *s) {
  (void)s;
  c->gaussian_center[0] = c->origin[0] + (c->nx - 1) / 2.0 * c->dx;
  c->gaussian_center[1] = c->origin[1] + (c->ny - 1) / 2.0 * c->dy;
  c->gaussian_center[2] = c->origin[2] + (c->nz - 1) / 2.0 * c->dz;
}

/* A tenth of the longest extent, but at least one spacing, so that a small grid does not get a spike. */
static void config_default_width(config *c, source_config *s) {
  (void)s;
  double longest = fmax((c->nx - 1) * c->dx, fmax((c->ny - 1) * c->dy, (c->nz - 1) * c->dz));
  c->gaussian_width = fmax(longest / 10, config_coarsest(c));
}

/* With this t0 the wavelet is practically 0 at t = 0: e^(-a) of a Ricker is e^-22. */
static void config_default_t0(config *c, source_config *s) {
  (void)c;
  s->t0 = 1.5 / s->f0;
}

/* The path beside the fields, so that runs with different paths have different checkpoints. Empty if it would be too
 * long. */
static void config_default_checkpoint(config *c, source_config *s) {
  (void)s;
  const int n =
      snprintf(c->checkpoint_path, sizeof c->checkpoint_path, "%s" CHECKPOINT_ENDING, c->output_path);
  if (n >= (int)sizeof c->checkpoint_path) c->checkpoint_path[0] = '\0';
}

#define FACE(axis, side)      (1 << FACE_##axis##_##side)
#define AXIS(axis)            (FACE(axis, LO) | FACE(axis, HI))
#define FIELD(owner, field)   .offset = offsetof(owner, field), .size = sizeof((owner *)0)->field
#define AT(field)             FIELD(config, field)
#define AT_SOURCE(field)      .of_source = true, FIELD(source_config, field)
#define TAG(field, choices_)  .tag = offsetof(config, field), .choices = choices_
#define NUMBER(field, limits) .number = offsetof(config, field), .range = limits
#define BOUNDARY(name, mask, doc_, ...)                                                                      \
  { "boundary", name, VALUE_FACES, .faces = mask, .choices = boundary_choices, .doc = doc_, ##__VA_ARGS__ }
#define WEIGHTS(name, field, doc_, default_)                                                                 \
  {                                                                                                          \
    "jacobi", name, VALUE_NUMBERS, AT(field), .range = &FIELD_VALUE, .fallback = default_,                   \
                                              .only_with = &WEIGHTS_GIVEN, .doc = doc_                       \
  }

// clang-format off
const config_key config_keys[] = {
  {"grid", "nx", VALUE_INTEGER, AT(nx), .min = 1, .max = POINTS_MAX, .required = true,
   .unit = "points", .doc = "grid points along x; nx = ny = 1 is a 1D run", .example = "128"},
  {"grid", "ny", VALUE_INTEGER, AT(ny), .min = 1, .max = POINTS_MAX, .required = true,
   .unit = "points", .doc = "along y; ny = 1 is a 2D run, with no derivative, faces or layers along y",
   .example = "128"},
  {"grid", "nz", VALUE_INTEGER, AT(nz), .min = 1, .max = POINTS_MAX, .required = true,
   .unit = "points", .doc = "along z: at least 4 a rank, 5 where the slab ends at a reflecting face", .example = "128"},
  {"grid", "dx", VALUE_NUMBERS, AT(dx), .range = &SPACING, .fallback = "1", .only_with = &X_EXISTS,
   .unit = "m", .doc = "grid spacing along x"},
  {"grid", "dy", VALUE_NUMBERS, AT(dy), .range = &SPACING, .fallback = "1", .only_with = &Y_EXISTS,
   .unit = "m", .doc = "along y"},
  {"grid", "dz", VALUE_NUMBERS, AT(dz), .range = &SPACING, .fallback = "1",
   .unit = "m", .doc = "along z"},
  {"grid", "origin", VALUE_NUMBERS, AT(origin), .range = &POSITION, .fallback = "0 0 0",
   .unit = "m", .doc = "x y z of the first grid point"},

  {"equation", "type", VALUE_CHOICE, AT(equation), .choices = equation_choices, .fallback = "jacobi",
   .doc = "what is solved"},
  {"equation", "space_order", VALUE_CHOICE, AT(space_order), .choices = order_choices, .fallback = "8",
   .only_with = &LAPLACIAN,
   .doc = "order of the Laplacian"},

  {"time", "end_time", VALUE_NUMBERS, AT(end_time), .range = &WIDTH, .optional = true,
   .unit = "s", .doc = "time to stop at; where steps are given too, whichever comes first"},
  {"time", "steps", VALUE_INTEGER, AT(steps), .min = 0, .max = INT64_MAX, .required = true,
   .unless = &HAS_END_TIME, .optional = true, .otherwise = "required without end_time",
   .unit = "steps", .doc = "time steps; 0 saves the initial field and ends", .example = "100"},
  {"time", "dt", VALUE_NUMBERS, AT(dt), .range = &WIDTH, .automatic = true, .fallback = "auto",
   .unit = "s", .doc = "auto: cfl x stability bound, shortened to end at end_time; jacobi: 1"},
  {"time", "cfl", VALUE_NUMBERS, AT(cfl), .range = &POSITIVE, .fallback = "0.9", .only_with = &LAPLACIAN,
   .doc = "fraction of the stability bound that dt = auto takes, up to 1"},
  {"time", "dispersion", VALUE_CHOICE, AT(dispersion), .choices = dispersion_choices, .fallback = "removed",
   .only_with = &TERMS, .doc = "what the time step does to frequencies, in traces",
   .note = "removed: traces are exact to their last sample, by a few extra steps, which only traces see. A signal from a file is 0\n"
           "after its last row: give signals that last to the run's end more rows. In fields and maps a tone has its amplitude\n"
           "and wavelength. Its phase leads by (2 pi f dt)^2 / 24 of the time since the start, a pulse by three times that: 0.4\n"
           "and 1.2 % at 20 steps a period."},
  {"time", "allow_unstable", VALUE_SWITCH, AT(allow_unstable), .choices = switch_choices, .fallback = "off",
   .only_with = &LAPLACIAN,
   .doc = "take a dt above the stability bound; otherwise it is exit 3"},
  {"time", "max_seconds", VALUE_NUMBERS, AT(max_seconds), .no_bit = true, .range = &SECONDS, .fallback = "0",
   .unit = "s", .doc = "limit of the wall time, the last checkpoint included; 0: none"},

  WEIGHTS("center", jacobi_center, "weight of the point itself", "0.4"),
  WEIGHTS("x", jacobi_x, "weights of the points 1, 2, 3 and 4 steps away along x", "0.04 0.03 0.02 0.01"),
  WEIGHTS("y", jacobi_y, "likewise along y; of an axis of one point they count on the point itself",
          "0.04 0.03 0.02 0.01"),
  WEIGHTS("z", jacobi_z, "likewise along z", "0.04 0.03 0.02 0.01"),

#define MEDIUM(constant, name, unit_, si, spelled, fallback_, sign, field, doc_) \
  {"medium", #name, VALUE_VARIANT, AT(media[MEDIUM_##constant].file), NUMBER(media[MEDIUM_##constant].number, &sign), \
   .choices = sign##_medium, .fallback = fallback_, .only_with = &HAS_##constant, \
   .unit = unit_, .doc = doc_},
#include "kernels/equations.def"
  {"medium", "averaging", VALUE_SWITCH, AT(averaging), .choices = switch_choices, .compute = config_default_averaging,
   .otherwise = "on with a density field", .only_with = &TERMS,
   .doc = "average density and velocity over cells; off for a model of averages",
   .note = "density: p_tt = velocity^2 density div(grad p / density); fields, traces and sources are of p. In absorbing layers\n"
           "density is that at their inner edge. averaging takes (1, 22, 1) / 24 of density and of 1 / (density velocity^2) along\n"
           "each axis; when it helps: docs/ACCURACY.md."},
  {"medium", "absorption_power", VALUE_NUMBERS, AT(absorption_power), .range = &POWER, .required = true,
   .only_with = &ABSORPTION_LAW, .doc = "y of absorption"},
  {"medium", "reference_frequency", VALUE_NUMBERS, AT(reference_frequency), .range = &POSITIVE, .optional = true,
   .only_with = &ABSORBS, .otherwise = "the first source's f0", .unit = "Hz",
   .doc = "velocity is the phase velocity there"},
  {"medium", "absorption_band", VALUE_NUMBERS, AT(absorption_band), .range = &POSITIVE, .optional = true,
   .only_with = &ABSORBS, .otherwise = "reference_frequency / 3.16 to times 3.16", .unit = "Hz",
   .doc = "of the fit, reference_frequency within it"},
  {"medium", "mechanisms", VALUE_INTEGER, AT(mechanisms), .min = 1, .max = MEMORIES_MAX, .fallback = "2",
   .only_with = &ABSORBS, .doc = "relaxations fitted; their accuracy: see the note",
   .note = "Relaxations are fitted to the law in absorption_band. The log and the files name the fit and its worst error. Over a\n"
           "decade 1, 2, 3 mechanisms are within 47, 3.5, 0.4 % for an absorption_power from 0.25 to 1.5 or a quality. This holds\n"
           "for losses alpha velocity / omega (1 / (2 Q)) of up to 0.01, and 24 steps or more in a period of reference_frequency.\n"
           "A power of 2 is within 3.1 % with 60 steps, 17 % with 20. No sum of relaxations rises faster than f^2: over a band of\n"
           "1 to 3, 2.25 is 20 % off, 2.5 35 %. With 2 or 3 mechanisms an error above 5 % is a warning, above 35 % is refused;\n"
           "with 1 above 50 %."},

  {"survey", "shots", VALUE_TEXT, AT(survey_file), .no_bit = true, .expected = "a path", .optional = true, .otherwise = "none",
   .doc = "text file with a line a shot: its source.N, receivers, initial, output.name",
   .note = "A survey does many shots over one model in one program: docs/SURVEYS.md."},
  {"survey", "ranks_per_shot", VALUE_INTEGER, AT(survey_ranks), .no_bit = true, .min = 1, .max = INT32_MAX, .automatic = true,
   .fallback = "auto", .only_with = &SURVEY,
   .unit = "ranks", .doc = "ranks that compute a shot; auto: as few as its memory needs"},
  {"survey", "at_once", VALUE_INTEGER, AT(survey_at_once), .no_bit = true, .min = 1, .max = AT_ONCE_MAX, .automatic = true,
   .fallback = "auto", .only_with = &SURVEY,
   .unit = "shots", .doc = "shots that a rank does at once (2D: together); with one rank a shot"},
  {"survey", "on_stop", VALUE_CHOICE, AT(survey_on_stop), .no_bit = true, .choices = on_stop_choices, .fallback = "drop",
   .only_with = &SURVEY,
   .doc = "what a signal or max_seconds does to shots"},

  {"initial", "u", VALUE_VARIANT, AT(initial_file), NUMBER(initial_number, &FIELD_VALUE),
   TAG(initial, initial_choices), .fallback = "zero",
   .doc = "the field at the start", .example = "gaussian"},
  {"initial", "previous", VALUE_VARIANT, AT(previous_file), TAG(previous, previous_choices), .fallback = "rest",
   .only_with = &KEEPS_BEFORE,
   .doc = "the wave field one step before the start"},
  {"initial", "center", VALUE_NUMBERS, AT(gaussian_center), .range = &CENTER, .compute = config_default_center,
   .only_with = &GAUSSIAN,
   .otherwise = "the middle of the grid", .unit = "m",
   .doc = "x y z of its middle; on periodic axes its images add up"},
  {"initial", "width", VALUE_NUMBERS, AT(gaussian_width), .range = &WIDTH, .compute = config_default_width,
   .only_with = &GAUSSIAN,
   .otherwise = "a tenth of the longest side", .unit = "m", .doc = "standard deviation of the gaussian"},
  {"initial", "amplitude", VALUE_NUMBERS, AT(gaussian_amplitude), .range = &FIELD_VALUE, .fallback = "1",
   .only_with = &GAUSSIAN,
   .doc = "height of the gaussian"},
  {"initial", "seed", VALUE_INTEGER, AT(seed), .min = 0, .max = INT64_MAX, .fallback = "0", .only_with = &RANDOM,
   .doc = "seed of the random field"},

  BOUNDARY("all", AXIS(X) | AXIS(Y) | AXIS(Z), "what the grid's faces do", .fallback = "fixed"),
  BOUNDARY("x", AXIS(X), "both faces of x; the most specific key wins", .otherwise = "as all", .only_with = &X_FACES),
  BOUNDARY("y", AXIS(Y), "both faces of y; the most specific key wins", .otherwise = "as all", .only_with = &Y_FACES),
  BOUNDARY("z", AXIS(Z), "both faces of z; the most specific key wins", .otherwise = "as all"),
  BOUNDARY("x_lo", FACE(X, LO), "the face at the lowest x", .otherwise = "as x", .only_with = &X_FACES),
  BOUNDARY("x_hi", FACE(X, HI), "the face at the highest x", .otherwise = "as x", .only_with = &X_FACES),
  BOUNDARY("y_lo", FACE(Y, LO), "the face at the lowest y", .otherwise = "as y", .only_with = &Y_FACES),
  BOUNDARY("y_hi", FACE(Y, HI), "the face at the highest y", .otherwise = "as y", .only_with = &Y_FACES),
  BOUNDARY("z_lo", FACE(Z, LO), "the face at the lowest z: the top, where z is depth", .otherwise = "as z"),
  BOUNDARY("z_hi", FACE(Z, HI), "the face at the highest z", .otherwise = "as z"),
  {"boundary", "value", VALUE_NUMBERS, AT(boundary_value), .range = &FIELD_VALUE, .fallback = "0",
   .only_with = &FIXED_FACE,
   .doc = "value of the points beyond fixed faces"},
  {"boundary", "width", VALUE_INTEGER, AT(boundary_width), .min = 1, .max = POINTS_MAX, .fallback = "20",
   .only_with = &ABSORBING_FACE,
   .unit = "points", .doc = "thickness of absorbing layers"},
  {"boundary", "outside", VALUE_SWITCH, AT(boundary_outside), .choices = switch_choices, .fallback = "off",
   .only_with = &ABSORBING_FACE,
   .doc = "on: absorbing layers lie beyond the grid; off: within",
   .note = "outside: there media go on as they are at the edge, and the initial field is 0. Files and places are of the grid,\n"
           "statistics of saved fields are of the layers, too. Gradients of media there are added to the edge. With velocity\n"
           "layers stay the same where the model changes, as in an inversion."},
  {"boundary", "velocity", VALUE_NUMBERS, AT(boundary_velocity), .range = &POSITIVE, .automatic = true, .fallback = "auto",
   .only_with = &ABSORBING_FACE,
   .unit = "m/s", .doc = "what layers take as the greatest; auto: the model's"},

  {"source.1", "position", VALUE_NUMBERS, AT_SOURCE(position), .range = &CENTER, .required = true,
   .unit = "m",
   .doc = "x y z, in the grid or modulo the period; interpolation is [sources]'",
   .example = "64 64 64"},
  {"source.1", "wavelet", VALUE_VARIANT, AT_SOURCE(wavelet_file), .tag = offsetof(source_config, wavelet),
   .choices = wavelet_choices, .fallback = "ricker",
   .doc = "what the source emits, s(t)"},
  {"source.1", "f0", VALUE_NUMBERS, AT_SOURCE(f0), .range = &POSITIVE, .required = true, .only_with = &FORMULA,
   .unit = "Hz", .doc = "peak frequency of the wavelet", .example = "75"},
  {"source.1", "t0", VALUE_NUMBERS, AT_SOURCE(t0), .range = &CENTER, .compute = config_default_t0, .only_with = &FORMULA,
   .otherwise = "1.5 / f0", .unit = "s", .doc = "time of the peak of the wavelet"},
  {"source.1", "amplitude", VALUE_NUMBERS, AT_SOURCE(amplitude), .range = &FIELD_VALUE, .fallback = "1",
   .unit = "[u]/m^2", .doc = "scale of s(t); see the note in docs/CONFIG.md",
   .note = "A source adds dt^2 velocity^2 s(t) to u' at its point, as Devito does: u_tt = velocity^2 (lap u + s). So s(t) has\n"
           "the unit of u per m^2. It is a point source of strength s dx dy dz: where the spacing is halved, u is an eighth (in 2D\n"
           "a quarter)."},

  {"sources", "positions", VALUE_VARIANT, AT(sources_positions_file), TAG(sources_listed, dataset_choices),
   .only_with = &SOURCES,
   .unit = "m", .doc = "dataset of shape (n, 3), rows x y z, besides [source.N]"},
  {"sources", "signals", VALUE_VARIANT, AT(sources_signals_file), .choices = dataset_choices, .only_with = &LISTED,
   .required = true,
   .unit = "[u]/m^2", .doc = "their s(t): `steps` rows or more by n or by 1; see the note",
   .note = "Row i of signals is s(i dt). A dataset `time` in the same group, of as many even times (s), makes s band-limited\n"
           "between the rows. Outside them s is 0 (imposed: free). Rows beyond the run count only if dispersion is removed."},
  {"sources", "mode", VALUE_CHOICE, AT(sources_mode), .choices = mode_choices, .fallback = "add", .only_with = &LISTED,
   .doc = "what the signals of positions do",
   .note = "Imposed signals are in the unit of u and replace the field, in images at faces too. Two on one point are refused. On\n"
           "a dirichlet face the field stays 0."},
  {"sources", "strength", VALUE_CHOICE, AT(sources_strength), .choices = strength_choices, .fallback = "node",
   .only_with = &SOURCES_KEY,
   .doc = "what the size of signals means, of [source.N] too",
   .note = "volume: s(t) has the unit of u times m (2D: [u]; 1D: [u]/m), and traces do not depend on the spacing: 3D\n"
           "u = s(t - r / velocity) / (4 pi r). 2D divides by dx dz, 1D by dz. Imposed signals ignore strength."},
  {"sources", "interpolation", VALUE_CHOICE, AT(sources_interpolation), .choices = interpolation_choices,
   .fallback = "sinc", .only_with = &SOURCES_KEY,
   .doc = "how a source between grid points acts, of [source.N] too",
   .note = "sinc: Kaiser window, b = 6.2, weights of sum 1; exact on a grid point. Beyond dirichlet and neumann faces its points\n"
           "are images of those inside, with the field's sign; periodic axes go on at their other end. Where one of the 8 is\n"
           "beyond a fixed or absorbing face this axis is linear."},

  {"receivers", "positions", VALUE_VARIANT, AT(receivers_file), TAG(receivers, dataset_choices),
   .unit = "m", .doc = "dataset of shape (n, 3), rows x y z; places as a source's"},
  {"receivers", "line", VALUE_LINE, .range = &CENTER, TAG(receivers, line_choices), .only_with = &NO_POSITIONS,
   .unit = "m", .doc = "receivers along a line"},
  {"receivers", "points", VALUE_POINTS, .range = &CENTER, TAG(receivers, points_choices), .only_with = &NO_LINE,
   .unit = "m", .doc = "receivers one by one"},
  {"receivers", "every", VALUE_INTEGER, AT(receivers_every), .min = 1, .max = INT64_MAX, .fallback = "1",
   .only_with = &ANY_RECEIVERS,
   .unit = "steps", .doc = "steps between samples, from step 0 on"},
  {"receivers", "interpolation", VALUE_CHOICE, AT(receivers_interpolation), .choices = interpolation_choices,
   .fallback = "sinc", .only_with = &ANY_RECEIVERS,
   .doc = "how the field between grid points is read; as of [sources]"},

  {"gradient", "observed", VALUE_VARIANT, AT(gradient_observed), .choices = dataset_choices, .only_with = &REVERSIBLE,
   .otherwise = "no gradient",
   .doc = "traces to compare with, as in PATH.receivers.h5:/u",
   .note = "The run writes dJ/dvelocity to PATH.gradient.h5. docs/GRADIENT.md names the datasets that `observed` needs beside it.\n"
           "In a survey {name} stands for a shot's name, and the sum over its shots is written. dt = auto takes dt from the\n"
           "observed traces."},
  {"gradient", "adjoint_source", VALUE_VARIANT, AT(gradient_residual), .choices = dataset_choices,
   .only_with = &REVERSIBLE,
   .doc = "dJ/d(trace as written), in place of observed"},
  {"gradient", "weights", VALUE_VARIANT, AT(gradient_weights), .choices = dataset_choices, .only_with = &MISFIT,
   .otherwise = "1",
   .doc = "of J's terms, >= 0: as observed, {name} too, or one a trace"},
  {"gradient", "missing", VALUE_CHOICE, AT(gradient_missing), .choices = missing_choices, .fallback = "error",
   .only_with = &MISFIT,
   .doc = "what NaN in observed means"},
  {"gradient", "of", VALUE_CHOICE, AT(gradient_of), .choices = of_choices, .fallback = "velocity",
   .only_with = &GRADIENT,
   .doc = "what the gradient is with respect to"},
  {"gradient", "misfit", VALUE_CHOICE, AT(gradient_misfit), .choices = misfit_choices, .fallback = "l2",
   .only_with = &GRADIENT,
   .doc = "J"},
  {"gradient", "signals", VALUE_SWITCH, AT(gradient_signals), .choices = switch_choices, .fallback = "off",
   .only_with = &GRADIENT,
   .doc = "also with respect to the sources' signals"},
  {"gradient", "initial", VALUE_SWITCH, AT(gradient_initial), .choices = switch_choices, .fallback = "off",
   .only_with = &GRADIENT,
   .doc = "also with respect to the initial field, at rest"},
  {"gradient", "image", VALUE_SWITCH, AT(gradient_image), .choices = switch_choices, .fallback = "off",
   .only_with = &GRADIENT,
   .doc = "also the image of reverse time migration, and the illumination"},
  {"gradient", "memory", VALUE_NUMBERS, AT(gradient_memory), .no_bit = true, .range = &POSITIVE, .bytes = true, .automatic = true,
   .fallback = "auto", .only_with = &GRADIENT,
   .unit = "B", .doc = "device memory of a rank for the states of the adjoint",
   .note = "auto: most of what is free; of file_memory none without path. Less memory costs up to two more forward runs, and\n"
           "changes no bit. On the host backend host_memory alone counts."},
  {"gradient", "host_memory", VALUE_NUMBERS, AT(gradient_host_memory), .no_bit = true, .range = &POSITIVE, .bytes = true,
   .automatic = true, .fallback = "auto", .only_with = &GRADIENT,
   .unit = "B", .doc = "the host's memory of a rank, likewise"},
  {"gradient", "file_memory", VALUE_NUMBERS, AT(gradient_file_memory), .no_bit = true, .range = &POSITIVE, .bytes = true,
   .automatic = true, .fallback = "auto", .only_with = &GRADIENT,
   .unit = "B", .doc = "of a rank in a file, likewise"},
  {"gradient", "path", VALUE_TEXT, AT(gradient_path), .no_bit = true, .expected = "a path", .optional = true, .only_with = &GRADIENT,
   .otherwise = "(output.path)", .doc = "where that file is, best on a local disk"},

  {"output", "path", VALUE_TEXT, AT(output_path), .no_bit = true, .expected = "a path", .fallback = "output",
   .doc = "writes PATH.SSSSSSSS.hdf (step), lists of them, PATH.receivers.h5"},
  {"output", "name", VALUE_TEXT, AT(output_name), .no_bit = true, .expected = "a name without /, not of points alone", .optional = true,
   .only_with = &SURVEY, .otherwise = "its number, as 0001",
   .doc = "of a shot of a survey, which writes PATH/NAME.*"},
  {"output", "every", VALUE_INTEGER, AT(output_every), .min = 0, .max = INT64_MAX, .fallback = "0",
   .unit = "steps", .doc = "steps between saved fields, from step 0 on; 0: only the final field"},
  {"output", "final", VALUE_SWITCH, AT(output_final), .choices = switch_choices, .fallback = "on",
   .doc = "save the field of the last step even where it is no multiple of every"},
  {"output", "replace", VALUE_SWITCH, AT(output_replace), .no_bit = true, .choices = switch_choices, .fallback = "off",
   .doc = "delete an earlier run's files once new ones are there; off: move them aside",
   .note = "replace: only checkpoints are moved aside to PATH.oldN.*. New files replace old ones as they are written. Other old\n"
           "files are deleted once the run, or the shot, is done; if it fails or is killed, they stay."},
  {"output", "box", VALUE_NUMBERS, AT(output_box), .range = &POSITION, .compute = config_default_box, .optional = true,
   .otherwise = "the grid", .unit = "m", .doc = "x0 x1 y0 y1 z0 z1: of fields only the points in there are saved",
   .note = "box and stride make saved fields smaller (docs/FILES.md). Statistics are of the whole field. Checkpoints, maps and\n"
           "traces are not cut."},
  {"output", "stride", VALUE_NUMBERS, AT(output_stride), .range = &STRIDE, .whole = true, .fallback = "1 1 1",
   .unit = "points", .doc = "x y z: of those every so many, from the first on"},
  {"output", "compress", VALUE_INTEGER, AT(compress), .min = 0, .max = 9, .fallback = "0",
   .doc = "gzip level of saved fields (with shuffle); 0: none"},

  {"maps", "quantities", VALUE_TEXT, AT(maps_quantities), .expected = "max, min and rms, or some of them", .optional = true,
   .otherwise = "none", .doc = "over the steps: the greatest, the least, the root of the mean square",
   .note = "PATH.maps.hdf has the maps (docs/FILES.md). Each step that counts stands for the time to the next one. With dispersion\n"
           "removed, dft corrects f for the time step, to asin(pi f dt) / (pi dt), and the time of step n to n dt / c,\n"
           "c^2 = 1 - (pi f dt)^2: pulses and tones have their amplitude. max, min and rms are of the steps as they are. Memory:\n"
           "4 bytes a point for max and min each, 8 for rms and each frequency. plot.py maps draws the file."},
  {"maps", "dft", VALUE_NUMBERS, AT(maps_dft), .range = &POSITIVE, .optional = true, .most = true, .otherwise = "none",
   .unit = "Hz", .doc = "frequencies, at most 8, of a discrete Fourier transform over the steps"},
  {"maps", "from", VALUE_NUMBERS, AT(maps_from), .range = &SECONDS, .fallback = "0", .only_with = &MAPS,
   .unit = "s", .doc = "steps of this time and later count"},
  {"maps", "until", VALUE_NUMBERS, AT(maps_until), .range = &WIDTH, .optional = true, .only_with = &MAPS,
   .otherwise = "the end", .unit = "s", .doc = "steps of this time and later do not"},
  {"maps", "every", VALUE_INTEGER, AT(maps_every), .min = 1, .max = INT64_MAX, .fallback = "1", .only_with = &MAPS,
   .unit = "steps", .doc = "only steps that it divides count"},

  {"checkpoint", "path", VALUE_TEXT, AT(checkpoint_path), .no_bit = true, .expected = "a path", .only_with = &CHECKPOINTS, .compute = config_default_checkpoint,
   .otherwise = "(output.path).checkpoint", .doc = "writes PATH.SSSSSSSS.h5 (step)"},
  {"checkpoint", "every_steps", VALUE_INTEGER, AT(checkpoint_every_steps), .no_bit = true, .only_with = &CHECKPOINTS, .min = 0, .max = INT64_MAX,
   .fallback = "0",
   .unit = "steps", .doc = "steps between checkpoints; 0: only when stopped"},
  {"checkpoint", "every_seconds", VALUE_NUMBERS, AT(checkpoint_every_seconds), .no_bit = true, .only_with = &CHECKPOINTS, .range = &SECONDS, .fallback = "0",
   .unit = "s", .doc = "wall time between checkpoints; 0: none"},
  {"checkpoint", "keep", VALUE_INTEGER, AT(checkpoint_keep), .no_bit = true, .only_with = &CHECKPOINTS, .min = 1, .max = KEEP_MAX, .fallback = "2",
   .unit = "files", .doc = "how many of the run's newest checkpoints stay"},

  {"parallel", "transport", VALUE_CHOICE, AT(transport), .no_bit = true, .choices = transport_choices, .fallback = "auto",
   .doc = "how halos travel"},
  {"parallel", "overlap", VALUE_SWITCH, AT(overlap), .no_bit = true, .choices = switch_choices, .fallback = "on",
   .doc = "exchange boundary planes while the interior is computed"},
  {"parallel", "schedule", VALUE_CHOICE, AT(schedule), .no_bit = true, .choices = schedule_choices, .fallback = "steps",
   .doc = "how steps are launched"},
  {"parallel", "io", VALUE_CHOICE, AT(io), .no_bit = true, .choices = io_choices, .fallback = "auto",
   .doc = "which ranks read and write files"},
  {"parallel", "watchdog_seconds", VALUE_NUMBERS, AT(watchdog_seconds), .no_bit = true, .range = &SECONDS, .fallback = "0",
   .unit = "s", .doc = "a longer step ends the job with exit 4, naming the slow rank; 0: never"},

  {"device", "backend", VALUE_TEXT, AT(backend), .no_bit = true, .choices = backend_choices, .fallback = "auto",
   .doc = "what computes; auto: cuda where there is a GPU"},
  {"device", "kernel", VALUE_TEXT, AT(kernel), .no_bit = true, .expected = "auto or the name of a kernel", .fallback = "auto",
   .doc = "auto: measure and take the fastest; stencil --version lists the names"},
  {"device", "threads", VALUE_INTEGER, AT(threads), .no_bit = true, .min = 1, .max = THREADS_MAX, .automatic = true,
   .fallback = "auto",
   .doc = "threads of each rank on the host backend"},

  {"report", "file", VALUE_TEXT, AT(report_file), .no_bit = true, .expected = "a path",
   .otherwise = "none", .doc = "performance report as JSON"},
  {"report", "progress", VALUE_CHOICE, AT(progress), .no_bit = true, .choices = progress_choices, .fallback = "auto",
   .doc = "auto: redrawn on a terminal, else a line every 10 %"},
  {"report", "check_every", VALUE_INTEGER, AT(check_every), .no_bit = true, .min = 0, .max = INT64_MAX, .fallback = "100",
   .unit = "steps", .doc = "steps between checks for NaN and Inf; 0: only before a field is saved"},
  {"report", "histogram", VALUE_INTEGER, AT(histogram), .min = 0, .max = HISTOGRAM_BINS, .fallback = "0",
   .unit = "bins", .doc = "bins of a histogram of each saved field, and its quantiles; 0: none"},
};
// clang-format on
const int config_key_count = sizeof config_keys / sizeof config_keys[0];

#endif
