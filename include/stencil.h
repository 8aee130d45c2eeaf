/* The wave engine as a library, with the program's configuration keys, and arrays in place of files. docs/CONFIG.md
 * lists the keys, with units and defaults. Results have the bits of the program `stencil`.
 *
 * A simulation is a handle. Handles are independent: threads may each use their own, but a handle serves one thread at
 * a time. The library prints nothing, ends no process, installs no signal handler and changes no environment. Every
 * function that can fail returns 0 or the code of the error that it leaves in *e. */
#ifndef STENCIL_H
#define STENCIL_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define STENCIL_API __attribute__((visibility("default")))
#else
#define STENCIL_API
#endif

/* The number of this interface. A caller compares the STENCIL_ABI that it was compiled with to stencil_abi(). */
#define STENCIL_ABI 1
STENCIL_API int stencil_abi(void);
/* The program's version, such as "2.0.0", as a static text. */
STENCIL_API const char *stencil_version(void);
/* The number of CUDA devices that this library can use in this process; 0: none, or a library without CUDA. The first
 * call opens the driver. */
STENCIL_API int stencil_devices(void);

/* Codes of errors: the exit codes of the program. */
enum stencil_code {
  STENCIL_DONE = 0,
  STENCIL_USAGE = 1,   /* a key, a value, a call */
  STENCIL_INPUT = 2,   /* an array: shape, type, NaN */
  STENCIL_NUMERIC = 3, /* NaN or Inf in the field, a time step above its bound */
  STENCIL_DEVICE = 4,  /* the device, or memory; after a CUDA fault every later call returns this code */
  STENCIL_STOPPED = 75 /* progress() asked for the end */
};
/* An error; its text is one line without a newline. */
typedef struct stencil_error {
  int code;
  char text[1024];
} stencil_error;

enum stencil_type { STENCIL_FLOAT32, STENCIL_FLOAT64 };
enum { STENCIL_HOST = -1, STENCIL_AXES = 5 };

/* Numbers in C order, dense. The caller keeps them unchanged until the call that gets them returns. */
typedef struct stencil_array {
  const void *data;
  int32_t type;   /* enum stencil_type */
  int32_t device; /* STENCIL_HOST, or the number of the CUDA device that `data` lies on */
  int32_t axes;
  int64_t shape[STENCIL_AXES];
} stencil_array;

/* An array for a key that takes FILE:/dataset. Examples: "medium.velocity" (nz, ny, nx), "receivers.positions" (n, 3),
 * "sources.signals" (steps, n), "gradient.observed" (samples, receivers). Axes of one point may be left out. Units are
 * those of docs/CONFIG.md: SI, positions as x y z. */
typedef struct stencil_input {
  const char *key;
  stencil_array array;
} stencil_input;

/* A shot's own keys and arrays, besides those that all shots share. */
typedef struct stencil_shot {
  const char *keys; /* words section.key=value, as on a line of [survey] shots; NULL: none */
  const stencil_input *inputs;
  int32_t input_count;
} stencil_shot;

/* A result, for which the caller provides memory. Kinds and names are those of the program's files:
 *   "traces"    "u" (samples, receivers)
 *   "field"     "u" (nz, ny, nx), after step `step`
 *   "maps"      "max", "min", "rms" (nz, ny, nx), "dft" (frequency, nz, ny, nx, 2)
 *   "gradient"  "velocity" (nz, ny, nx), "misfit" (float64, no axes); if [gradient] asks, "initial", "image",
 *               "illumination" (nz, ny, nx), "signals" (steps, sources) */
typedef struct stencil_result {
  int32_t shot; /* from 0; -1: the sum of a gradient field over all shots */
  const char *kind, *name;
  int64_t step;
  int32_t type, axes;
  int64_t shape[STENCIL_AXES];
} stencil_result;

/* Functions that the library calls during stencil_run, from its own threads, one call at a time. Each may be NULL. */
typedef struct stencil_calls {
  void *context;
  /* Sets *data to memory for the result, dense in C order; NULL: the result is not wanted. *device is STENCIL_HOST on
   * entry; set it for memory on a CUDA device. The memory is filled when stencil_run returns 0. A return value other
   * than 0 ends the run with STENCIL_STOPPED. */
  int (*result)(void *context, const stencil_result *r, void **data, int *device);
  /* The caller's misfit, in place of [gradient] observed. From a shot's traces, `shape` (samples, receivers), it sets
   * *misfit, and `derivative`, dJ/d(trace as given), of the same shape. Not 0: as for result(). */
  int (*misfit)(void *context, int32_t shot, const float *traces, const int64_t shape[2], double *misfit,
                float *derivative);
  /* Gets a line that the program would log as a warning. */
  void (*warning)(void *context, const char *text);
  /* Gets the part of the work that is done, from 0 to 1, some times a second. Not 0: as for result(). */
  int (*progress)(void *context, double done);
} stencil_calls;

typedef struct stencil_sim stencil_sim;

/* Opens a simulation. `keys` is the text of a configuration, as in config/wave.ini, without keys whose values are
 * arrays. Keys of output, checkpoint and report files are refused, as are time limits and [survey] shots and on_stop.
 * Close it with stencil_close. */
STENCIL_API int stencil_open(stencil_sim **sim, const char *keys, stencil_error *e);
/* Closes a simulation; NULL does nothing. */
STENCIL_API void stencil_close(stencil_sim *sim);
/* Sets the CUDA stream (a cudaStream_t) whose enqueued work is awaited before inputs on a device are read; NULL: the
 * default stream. */
STENCIL_API int stencil_stream(stencil_sim *sim, void *stream, stencil_error *e);

/* For a library built with MPI: the ranks of this communicator do each shot together, as in the program. `comm` points
 * to the MPI_Comm. stencil_run is then collective, with the same arrays on all ranks; each rank gets the results that
 * it wants. progress() and misfit() are called on the first rank. If a rank fails alone, the job ends. */
STENCIL_API int stencil_communicator(stencil_sim *sim, const void *comm, stencil_error *e);

/* Does all shots: forward, and back where there is a misfit() or [gradient] observed. `inputs` serve all shots. Without
 * shots it only checks keys and arrays, and fixes the facts. It returns when all is done. An error of one shot ends the
 * run. */
STENCIL_API int stencil_run(stencil_sim *sim, const stencil_input *inputs, int32_t input_count,
                            const stencil_shot *shots, int32_t shot_count, const stencil_calls *calls,
                            stencil_error *e);

/* Numbers that the first model fixes for all runs; a later model whose bound dt exceeds is an error. boundary_velocity:
 * [boundary] velocity, or the greatest velocity of the first model, m/s; 0: no layers absorb. `samples` of each trace
 * are 0 without receivers. */
typedef struct stencil_facts {
  double dt; /* s */
  double boundary_velocity;
  int64_t steps, samples;
  double interval; /* of samples, s */
  const char *backend, *kernel;
} stencil_facts;
/* Returns the facts; STENCIL_USAGE before the first stencil_run. The texts stay valid until the next call. */
STENCIL_API int stencil_describe(const stencil_sim *sim, stencil_facts *facts, stencil_error *e);

#ifdef __cplusplus
}
#endif
#endif
