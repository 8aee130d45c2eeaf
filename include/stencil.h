/* The wave engine in process: the configuration's own keys, and arrays in place of files. docs/CONFIG.md lists the keys, with
 * units and defaults; numerics and bits are those of the program `stencil`.
 *
 * A simulation is a handle. Handles are independent; a handle serves one thread at a time, and several threads may use one
 * each. The library prints nothing, ends no process, installs no signal handler and changes no environment. Every function
 * that can fail returns 0 or the code of the error that it leaves in *e. */
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

/* The number of this interface: a caller compares STENCIL_ABI, which it was compiled with, with stencil_abi(). */
#define STENCIL_ABI 1
STENCIL_API int stencil_abi(void);
/* The program's version, such as "2.0.0". Static. */
STENCIL_API const char *stencil_version(void);
/* CUDA devices that this library can use in this process; 0: none, or it was built without CUDA. The first call opens the
 * driver. */
STENCIL_API int stencil_devices(void);

/* Codes of errors: the exit codes of the program. */
enum stencil_code {
  STENCIL_DONE = 0,
  STENCIL_USAGE = 1,   /* a key, a value, a call */
  STENCIL_INPUT = 2,   /* an array: shape, type, NaN */
  STENCIL_NUMERIC = 3, /* NaN or Inf in the field, a time step above its bound */
  STENCIL_DEVICE = 4,  /* the device, or memory; after a CUDA fault every later call returns it */
  STENCIL_STOPPED = 75 /* progress() asked for the end */
};
/* One line without a newline. */
typedef struct stencil_error {
  int code;
  char text[1024];
} stencil_error;

enum stencil_type { STENCIL_FLOAT32, STENCIL_FLOAT64 };
enum { STENCIL_HOST = -1, STENCIL_AXES = 5 };

/* Numbers in C order, dense. The caller keeps them, and keeps them unchanged, until the call returns that they are given to. */
typedef struct stencil_array {
  const void *data;
  int32_t type;   /* enum stencil_type */
  int32_t device; /* STENCIL_HOST, or the number of the CUDA device that `data` lies on */
  int32_t axes;
  int64_t shape[STENCIL_AXES];
} stencil_array;

/* An array for a key that takes FILE:/dataset, as "medium.velocity" (nz, ny, nx), "receivers.positions" (n, 3),
 * "sources.signals" (steps, n), "gradient.observed" (samples, receivers). Axes of one point may be left out. Units as in
 * docs/CONFIG.md: SI, positions as x y z. */
typedef struct stencil_input {
  const char *key;
  stencil_array array;
} stencil_input;

/* A shot: what it has besides the keys and arrays that all shots have. */
typedef struct stencil_shot {
  const char *keys; /* words section.key=value, as on a line of [survey] shots; NULL: none */
  const stencil_input *inputs;
  int32_t input_count;
} stencil_shot;

/* A result, for which the caller provides memory. Kinds and names are those of the program's files:
 *   "traces"    "u" (samples, receivers)
 *   "field"     "u" (nz, ny, nx), after step `step`
 *   "maps"      "max", "min", "rms" (nz, ny, nx), "dft" (frequency, nz, ny, nx, 2)
 *   "gradient"  "velocity" (nz, ny, nx), and as [gradient] says "initial", "image", "illumination" (nz, ny, nx), "signals"
 *               (steps, sources), "misfit" (float64, no axes) */
typedef struct stencil_result {
  int32_t shot; /* from 0; -1: the sum over all shots, of fields of the gradient */
  const char *kind, *name;
  int64_t step;
  int32_t type, axes;
  int64_t shape[STENCIL_AXES];
} stencil_result;

/* Functions that the library calls during stencil_run, from its own threads, one call at a time. Each may be NULL. */
typedef struct stencil_calls {
  void *context;
  /* Sets *data to memory for the result, dense in C order, on *device (STENCIL_HOST as it comes, or a CUDA device); NULL: the
   * result is not wanted. It is filled when stencil_run returns 0. Not 0: the run ends with STENCIL_STOPPED. */
  int (*result)(void *context, const stencil_result *r, void **data, int *device);
  /* The caller's misfit, in place of [gradient] observed: from the traces of a shot, `shape` (samples, receivers), to *misfit
   * and `derivative`, dJ/d(trace as it is given), of the same shape. Not 0: likewise. */
  int (*misfit)(void *context, int32_t shot, const float *traces, const int64_t shape[2], double *misfit,
                float *derivative);
  /* A line that the program logs as a warning. */
  void (*warning)(void *context, const char *text);
  /* The part of the work that is done, from 0 to 1, some times a second. Not 0: likewise. */
  int (*progress)(void *context, double done);
} stencil_calls;

typedef struct stencil_sim stencil_sim;

/* Opens a simulation. `keys`: the text of a configuration, as in config/wave.ini; keys of output, checkpoint and report files,
 * and [survey], are refused. Keys whose values are arrays are left out. stencil_close it. */
STENCIL_API int stencil_open(stencil_sim **sim, const char *keys, stencil_error *e);
/* Closes it; NULL is nothing. */
STENCIL_API void stencil_close(stencil_sim *sim);
/* Inputs on a CUDA device are read after what has been enqueued on this stream (a cudaStream_t); NULL: the default stream. */
STENCIL_API int stencil_stream(stencil_sim *sim, void *stream, stencil_error *e);

/* In a library built with MPI: the ranks of this communicator, given by a pointer to the MPI_Comm, do each shot together, as the
 * program does. stencil_run is then collective, with the same arrays on all ranks, and results come on all ranks that want
 * them; progress() and misfit() are called on the first one. Where a rank fails alone, the job ends. */
STENCIL_API int stencil_communicator(stencil_sim *sim, const void *comm, stencil_error *e);

/* Does all shots: forward, and back where there is a misfit() or [gradient] observed. `inputs` are those of all shots. Without
 * shots it only checks keys and arrays, and fixes the facts. It waits until all is done. An error of one shot ends the run. */
STENCIL_API int stencil_run(stencil_sim *sim, const stencil_input *inputs, int32_t input_count,
                            const stencil_shot *shots, int32_t shot_count, const stencil_calls *calls,
                            stencil_error *e);

/* Numbers that the first model fixes for all runs: a later model over the bound of dt is an error. boundary_velocity: [boundary]
 * velocity, or the greatest of the first model, m/s; 0: no layers absorb. Samples of each trace are 0 without receivers. */
typedef struct stencil_facts {
  double dt; /* s */
  double boundary_velocity;
  int64_t steps, samples;
  double interval; /* of samples, s */
  const char *backend, *kernel;
} stencil_facts;
/* STENCIL_USAGE before the first stencil_run. The texts stay until the next call. */
STENCIL_API int stencil_describe(const stencil_sim *sim, stencil_facts *facts, stencil_error *e);

#ifdef __cplusplus
}
#endif
#endif
