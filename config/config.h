/* The run's configuration: one plain struct and the two lists that it owns. It is filled strictly from an INI file and
 * command-line overrides. Units are SI. */
#ifndef STENCIL_CONFIG_H
#define STENCIL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "kernels/kernel.h"
#include "base/error.h"

enum { CONFIG_TEXT = 1024 }; /* longest text value, including its final 0 */

enum dispersion_setting { DISPERSION_REMOVED, DISPERSION_KEPT };
enum initial_kind { INITIAL_ZERO, INITIAL_NUMBER, INITIAL_GAUSSIAN, INITIAL_RANDOM, INITIAL_FILE };
enum previous_kind { PREVIOUS_REST, PREVIOUS_FILE };
enum boundary_kind {
  BOUNDARY_FIXED,
  BOUNDARY_DIRICHLET,
  BOUNDARY_NEUMANN,
  BOUNDARY_PERIODIC,
  BOUNDARY_ABSORBING,
  BOUNDARY_NONE /* of an axis with one point, which has no faces */
};
enum wavelet_kind { WAVELET_RICKER, WAVELET_GAUSSIAN, WAVELET_FILE };
enum interpolation_kind { INTERPOLATION_SINC, INTERPOLATION_LINEAR };
enum sources_mode { SOURCES_ADD, SOURCES_IMPOSE };
enum sources_strength { STRENGTH_NODE, STRENGTH_VOLUME };
enum gradient_of { GRADIENT_OF_VELOCITY };
enum misfit_kind { MISFIT_L2 };
enum missing_kind { MISSING_ERROR, MISSING_NAN };
enum receivers_kind { RECEIVERS_NONE, RECEIVERS_FILE, RECEIVERS_LINE, RECEIVERS_POINTS };
enum transport_kind {
  TRANSPORT_AUTO,
#define TRANSPORT(constant, name, note) TRANSPORT_##constant,
#include "halo/transports.def"
#undef TRANSPORT
};
enum io_kind { IO_AUTO, IO_COLLECTIVE, IO_GATHER, IO_SERVER };
enum schedule_kind { SCHEDULE_STEPS, SCHEDULE_PERSISTENT };
enum on_stop_kind { ON_STOP_DROP, ON_STOP_FINISH, ON_STOP_CHECKPOINT };
enum progress_kind { PROGRESS_AUTO, PROGRESS_ON, PROGRESS_OFF };

/* [source.N] */
typedef struct source_config {
  int number;         /* the N of its section */
  double position[3]; /* m, x y z; inside the grid (config_outside) */
  enum wavelet_kind wavelet;
  char wavelet_file[CONFIG_TEXT]; /* WAVELET_FILE: FILE:/dataset */
  double f0;                      /* Hz, > 0; not with WAVELET_FILE */
  double t0;                      /* s; not with WAVELET_FILE */
  double amplitude;
} source_config;

typedef struct config_medium {
  double number;          /* SI; 0 where the file counts */
  char file[CONFIG_TEXT]; /* FILE:/dataset, or empty: the number counts */
} config_medium;

typedef struct config {
  char file[CONFIG_TEXT]; /* the configuration's file, for messages */

  char idle[CONFIG_TEXT]; /* keys that were given but have no effect, for the log; empty: none */
  bool timed;             /* a benchmark, with its own number of steps: signals of files may end earlier */

  /* [grid] */
  int nx, ny, nz;
  double dx, dy, dz; /* m */
  double origin[3];  /* m; x y z of point (0, 0, 0) */
  /* [time] */
  int64_t steps;   /* -1: only end_time ends the run; with both, the earlier end counts */
  double end_time; /* s; 0: only `steps` ends the run */
  double dt;       /* s; 0: auto; with GIVEN_WEIGHTS dt only labels the steps, and auto is 1 */
  double cfl;
  enum dispersion_setting dispersion; /* of traces of the wave */
  double max_seconds;                 /* wall time, s; 0: no limit */
  bool allow_unstable;
  /* [equation] */
  enum equation equation;
  int space_order; /* 2, 4, 6 or 8; not with GIVEN_WEIGHTS */
  /* [jacobi] */
  double jacobi_center;
  double jacobi_x[4], jacobi_y[4], jacobi_z[4]; /* weights of offsets 1..4 */
  /* [medium] */
  config_medium media[MEDIUM_COUNT];
  bool averaging;             /* of density and velocity */
  double absorption_power;    /* y */
  double reference_frequency; /* Hz; 0: the first source's f0 */
  double absorption_band[2];  /* Hz; 0: about the reference */
  int mechanisms;             /* 1 to MEMORIES_MAX */
  /* [survey] */
  char survey_file[CONFIG_TEXT]; /* a file with a line for each shot; empty: a single run */
  int survey_ranks;              /* ranks of a shot; 0: auto, also in the next member */
  int survey_at_once;
  enum on_stop_kind survey_on_stop;
  /* [initial] */
  enum initial_kind initial;
  double initial_number;
  char initial_file[CONFIG_TEXT]; /* FILE:/dataset */
  double gaussian_center[3];      /* m, x y z */
  double gaussian_width;          /* m */
  double gaussian_amplitude;
  uint64_t seed;
  enum previous_kind previous; /* equations of 2 time levels */
  char previous_file[CONFIG_TEXT];
  /* [boundary] */
  enum boundary_kind boundary[FACE_COUNT];
  double boundary_value;    /* of fixed faces */
  int boundary_width;       /* of absorbing layers, points */
  bool boundary_outside;    /* the layers lie beyond the grid */
  double boundary_velocity; /* m/s, for which the layers' profiles are made; 0: auto */
  /* [source.N], in ascending N; owned, see config_free */
  int source_count;
  source_config *sources;
  /* [sources] */
  int sources_listed;                       /* 1: the next three members give more sources */
  char sources_positions_file[CONFIG_TEXT]; /* FILE:/dataset of shape (n, 3): x y z, m */
  char sources_signals_file[CONFIG_TEXT];   /* FILE:/dataset: a column for each, or one for all */
  enum sources_mode sources_mode;
  enum interpolation_kind sources_interpolation; /* this one and the next serve [source.N] too */
  enum sources_strength sources_strength;
  /* [receivers] */
  enum receivers_kind receivers;
  char receivers_file[CONFIG_TEXT]; /* RECEIVERS_FILE: FILE:/dataset of shape (n, 3): x y z, m */
  int receiver_count;               /* RECEIVERS_LINE, RECEIVERS_POINTS */
  double (*receiver_positions)[3];  /* of RECEIVERS_LINE and RECEIVERS_POINTS: x y z, m; owned */
  int64_t receivers_every;          /* steps */
  enum interpolation_kind receivers_interpolation;
  /* [gradient]: the run has a gradient if `observed` or `residual` is given */
  char gradient_observed[CONFIG_TEXT]; /* FILE:/dataset: the traces to compare with */
  char gradient_residual[CONFIG_TEXT]; /* FILE:/dataset: dJ/d(trace as written) */
  char gradient_weights[CONFIG_TEXT];  /* FILE:/dataset: weights of the misfit's terms; empty: all are 1 */
  enum missing_kind gradient_missing;  /* what NaN in the observed traces means */
  enum gradient_of gradient_of;
  enum misfit_kind gradient_misfit;
  bool gradient_signals, gradient_initial, gradient_image;            /* further results */
  double gradient_memory, gradient_host_memory, gradient_file_memory; /* bytes a rank; 0: auto */
  char gradient_path[CONFIG_TEXT]; /* of the file for file_memory; empty: beside the output */
  /* [output] */
  char output_path[CONFIG_TEXT]; /* in a shot: the survey's path, a slash and the shot's name */
  char output_name[256];         /* in a shot: its name; empty: its number */
  int64_t output_every;          /* steps between saved fields; 0: none but the final one */
  bool output_final;             /* true: the final field is always saved; false: only if it is due */
  bool output_replace;           /* files of an earlier run are deleted once this run's are complete */
  double output_box[6];    /* m, x0 x1 y0 y1 z0 z1: points in it are saved; an infinite end is the grid's */
  double output_stride[3]; /* x y z: every so many of these points, from the first on; whole numbers */
  int compress;            /* gzip level 0..9 */
  /* [maps] */
  char maps_quantities[32];         /* words: some of max, min and rms; empty: none */
  double maps_dft[MAP_FREQUENCIES]; /* Hz, > 0; a 0 ends the list */
  double maps_from, maps_until;     /* s; until = 0: the end of the run */
  int64_t maps_every;               /* steps */
  /* [checkpoint] */
  char checkpoint_path[CONFIG_TEXT];
  int64_t checkpoint_every_steps;  /* 0: never */
  double checkpoint_every_seconds; /* wall time; 0: never */
  int checkpoint_keep;
  /* [parallel] */
  enum transport_kind transport;
  bool overlap;
  enum schedule_kind schedule;
  enum io_kind io;
  double watchdog_seconds; /* 0: off */
  /* [device] */
  char backend[32]; /* auto, cuda or host */
  char kernel[64];  /* auto or a name of kernels.def */
  int threads;      /* host threads of this rank; 0 = auto */
  /* [report] */
  char report_file[CONFIG_TEXT]; /* empty: none */
  enum progress_kind progress;
  int64_t check_every; /* steps; 0: only before a field is saved */
  int histogram;       /* bins of the histogram of saved fields; 0: none */
} config;

/* The entries of a file and of the command line. They are read once and serve the configurations of many shots. */
typedef struct config_given config_given;
struct shot_line;
/* Reads the file `path`, or `text`, if not NULL, under the name `path`; then applies `overrides` ("section.key=value",
 * `count` of them; later ones win). Every error, here and in config_make, is exit 1 and one line. It begins with
 * FILE:LINE or "command line" and names section, key, expected and found. For an unknown name the message suggests the
 * nearest known one. A missing or unreadable file is such an error too. Call config_close also after a failure. */
int config_open(config_given **opened, const char *path, const char *text, int count,
                const char *const overrides[], error *e);
void config_close(config_given *given);
/* The text given for a key outside [source.N]; NULL: none. */
const char *config_text_of(const config_given *given, const char *section, const char *key);
/* The file of [survey] shots; NULL: not given. */
const char *config_shots(const config_given *given);
/* Makes a configuration: applies defaults and checks everything. After an error `c` owns nothing and its values are
 * undefined. With `s` (shots.h) it is made for this shot: the shot's overrides come last, messages begin with FILE:LINE
 * of the shot, output and checkpoints are under PATH/NAME. */
int config_make(config *c, const config_given *given, const struct shot_line *s, error *e);
/* Turns a shot's configuration into that of a single run which does the same: removes [survey] and the report. */
void config_single(config *c);

/* Frees the lists, also after a failed load or of a zero-initialised config. */
void config_free(config *c);

/* Returns the place where a dataset's name, FILE:/path, is cut in two: its last ":/". NULL: the name has none. */
const char *config_dataset_cut(const char *name);
/* Is `path` a named pipe, whose other end may never be opened? Pipes that a shell makes for <(...) have no name in a
 * folder. */
bool config_is_named_pipe(const char *path);
/* Do both paths exist and name one file? */
bool config_same_file(const char *a, const char *b);
/* Calls `take` for every dataset, FILE:/path, that a run of the configuration reads. */
void config_each_dataset(const config *c, void (*take)(void *context, const char *dataset), void *context);
/* Is `file` the configuration's own, or does it hold a dataset that the run reads? */
bool config_reads(const config *c, const char *file);
/* Fails (USAGE_OVERRIDE) unless `text` has the form section.key=value. config_open checks the section and the key.
 */
int config_check_override(const char *text, error *e);

/* Returns the effective configuration as the text of an INI file, which the caller frees. config_open reads it back to
 * the same struct. NULL: memory is lacking. */
char *config_print(const config *c);
/* Does the same without keys that change no bit of a run's files. So the files depend only on this text and on the
 * datasets' values. */
char *config_print_bits(const config *c);
/* The survey's configuration, from its first shot's: keys that shots may change have the values given for all shots. */
char *config_print_survey(const config_given *given, const config *first);

/* Writes the list of all keys, with default, unit and one line of text. TEXT: for --help; MARKDOWN: docs/CONFIG.md;
 * MAN: sections of docs/stencil.1; BASH: the variables keys and values of jobs/stencil.bash. */
enum help_form { HELP_TEXT, HELP_MARKDOWN, HELP_MAN, HELP_BASH };
void config_help(FILE *to, enum help_form form);
/* Writes a configuration to start from: every key that the equation has, with comments. config_open takes it. */
void config_example(FILE *to, enum equation equation);

/* The spelling of a value in the INI file. */
const char *transport_name(enum transport_kind t);
const char *schedule_name(enum schedule_kind k);

/* The grid given, nx ny nz, is that of files. Absorbing layers outside it (outside.h) enlarge the grid of the
 * computation. config_beyond returns the points added beyond a face; config_extends whether any are added. */
int config_beyond(const config *c, enum face f);
bool config_extends(const config *c);
/* The number of points of the computation's grid. */
double config_points(const config *c);
/* An axis. x or y with a single point does not exist: it has no derivative, no faces and no layers. */
typedef struct config_axis {
  int points;
  double first;   /* coordinate of its first point, m */
  double spacing; /* m; 0 where the axis does not exist */
  bool periodic;  /* positions count modulo points * spacing */
} config_axis;
/* The axis of the computation's grid, and of the grid given. */
config_axis config_axis_of(const config *c, int axis);
config_axis config_axis_given(const config *c, int axis);
/* Returns the point of the grid given that is nearest to a point of the computation. */
int config_point_given(const config *c, int axis, int point);
/* Is the medium given, and does the equation know it? */
bool config_has_medium(const config *c, enum medium m);
/* Do steps need density? One number for all points changes nothing. Do steps need absorption? Do steps need either? */
bool config_density_varies(const config *c);
bool config_medium_absorbs(const config *c);
bool config_has_terms(const config *c);
/* Does the run compute a gradient? */
bool config_has_gradient(const config *c);
/* Hz: the frequency at which the velocity of an absorbing medium holds; 0: not given. */
double config_reference(const config *c);
/* The points of an axis of the grid given that are saved: first, first + every ... */
typedef struct config_cut {
  int first, count, every;
} config_cut;
config_cut config_cut_of(const config *c, int axis);
/* How many saved points are below `point` of the axis? */
int config_cut_below(config_cut cut, int point);
/* Are fewer points saved than computed, along some axis? */
bool config_cuts(const config *c);
/* May the run write checkpoints, at least where it is stopped? */
bool config_has_checkpoints(const config *c);
/* Does the run keep maps? */
bool config_has_maps(const config *c);
/* Files that a run writes under its output path besides fields: two lists of the fields, and three results. */
enum output_file { OUTPUT_XDMF, OUTPUT_PARAVIEW, OUTPUT_TRACES, OUTPUT_MAPS, OUTPUT_GRADIENT, OUTPUT_FILES };
#define RECEIVERS_ENDING ".receivers.h5"
#define MAPS_ENDING      ".maps.hdf"
#define GRADIENT_ENDING  ".gradient.h5"
extern const char *const OUTPUT_ENDINGS[]; /* ends with a NULL */
/* Does this run write the file? Lists count as written even if no field is saved. */
bool config_writes(const config *c, enum output_file which);
/* The words of [maps] quantities. config_maps: is word number `quantity` given? */
enum { MAP_QUANTITIES = 3 };
extern const char *const MAP_NAMES[MAP_QUANTITIES];
bool config_maps(const config *c, int quantity);
/* The number of frequencies in [maps] dft. */
int config_frequencies(const config *c);
/* Has the run any sources? */
bool config_has_sources(const config *c);
/* The largest spacing, m. */
double config_coarsest(const config *c);
/* Returns the first axis along which a position is outside the grid given, with slack for rounding; -1: the position is
 * inside. Sets `ends` to the grid's ends along that axis, m. No position is outside along an axis that is periodic or
 * does not exist. */
int config_outside(const config *c, const double position[3], double ends[2]);
/* True if the face's boundary reflects: dirichlet or neumann. */
bool config_reflects(const config *c, enum face f);
/* Points of the face's absorbing layer; 0: it has none. */
int config_layer_width(const config *c, enum face f);
const char *io_name(enum io_kind io);
const char *boundary_name(enum boundary_kind b);

#endif
