/* The run's configuration: one plain struct without pointers (it is broadcast as bytes), filled strictly from
 * an INI file and command-line overrides. Units are SI. */
#ifndef STENCIL_CONFIG_H
#define STENCIL_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "../kernels/kernel.h"
#include "../src/error.h"

enum { CONFIG_TEXT = 1024 }; /* longest text value, with its final 0 */

enum initial_kind { INITIAL_ZERO, INITIAL_NUMBER, INITIAL_GAUSSIAN, INITIAL_RANDOM, INITIAL_FILE };
enum boundary_kind { BOUNDARY_FIXED };
enum face { FACE_X_LO, FACE_X_HI, FACE_Y_LO, FACE_Y_HI, FACE_Z_LO, FACE_Z_HI, FACE_COUNT };
enum transport_kind { TRANSPORT_AUTO, TRANSPORT_SENDRECV };
enum io_kind { IO_AUTO, IO_COLLECTIVE, IO_GATHER };
enum schedule_kind { SCHEDULE_STEPS };
enum progress_kind { PROGRESS_AUTO, PROGRESS_ON, PROGRESS_OFF };

typedef struct config {
  char file[CONFIG_TEXT]; /* the file this came from, for messages */

  /* [grid] */
  int nx, ny, nz;
  double dx, dy, dz; /* m */
  double origin[3];  /* m; x y z of point (0, 0, 0) */
  /* [time] */
  int64_t steps;
  /* [equation] */
  enum equation equation;
  /* [jacobi] */
  double jacobi_center;
  double jacobi_x[4], jacobi_y[4], jacobi_z[4]; /* weights of offsets 1..4 */
  /* [initial] */
  enum initial_kind initial;
  double initial_number;
  char initial_file[CONFIG_TEXT]; /* FILE:/dataset */
  double gaussian_center[3];      /* m, x y z */
  double gaussian_width;          /* m */
  double gaussian_amplitude;
  uint64_t seed;
  /* [boundary] */
  enum boundary_kind boundary[FACE_COUNT];
  double boundary_value;
  /* [output] */
  char output_path[CONFIG_TEXT];
  int64_t output_every; /* steps; 0: only the final field */
  int compress;         /* gzip level 0..9 */
  /* [parallel] */
  enum transport_kind transport;
  bool overlap;
  enum schedule_kind schedule;
  enum io_kind io;
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

/* Reads `path`, then applies `overrides` ("section.key=value", `count` of them; later ones win), fills what
 * is left with defaults and checks the whole. Every error is one line that begins with FILE:LINE or "command
 * line" and names section, key, what was expected and what was found; unknown names come with the nearest
 * known one. All of them, also a file that is missing or cannot be read, are exit 1; after one, `c` holds
 * nothing of use. */
int config_load(config *c, const char *path, int count, const char *const overrides[], error *e);

/* Fails unless `text` has the form section.key=value; which sections and keys there are, config_load knows.
 */
int config_check_override(const char *text, error *e);

/* Writes the effective configuration as an INI file that config_load reads back to the same struct. Into
 * `text` (0-terminated, at most `size` bytes); returns the length needed without the final 0, as snprintf
 * does. */
size_t config_print(const config *c, char *text, size_t size);

/* Spellings of the enumerated values, as in the INI file. */
const char *transport_name(enum transport_kind t);
const char *io_name(enum io_kind io);

#endif
