/* A kernel and its arguments. The list kernels.def makes the table, the declarations and the tests. */
#ifndef STENCIL_KERNEL_H
#define STENCIL_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include "base/error.h"
#include "equation.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { RADIUS = 4 }; /* reach of the stencil along each axis, points: ghosts beyond each face */
enum face { FACE_X_LO, FACE_X_HI, FACE_Y_LO, FACE_Y_HI, FACE_Z_LO, FACE_Z_HI, FACE_COUNT };
/* The values of the 4 ghosts beyond a face of the slab after a launch. */
enum ghost_rule {
  GHOST_KEEP, /* unchanged: a fixed value, or planes that a neighbour sends */
  GHOST_ODD,  /* the points inside, reflected about the face's own point and negated; that point is held 0 */
  GHOST_EVEN, /* the points inside, reflected about the face's own point */
  GHOST_WRAP  /* the points at the other face of the axis, whose rule is the same */
};
enum backend { BACKEND_HOST, BACKEND_CUDA, BACKEND_COUNT };

/* A counter through which the blocks of a CUDA launch keep step (bulk_tensor_ring.cuh). Whoever owns the stream owns
 * one for it. Nobody resets the counter: what each launch adds is known, and a reset would come between launches that
 * can follow each other closely. Both numbers may wrap around. */
typedef struct block_counter {
  unsigned *begun; /* device memory, 0 before the first launch: steps that blocks have begun */
  unsigned total;  /* what *begun will be when all launches so far are done; launchers add to it */
} block_counter;

enum { MEMORIES_MAX = 3 };
/* Frequencies that maps can be of. */
enum { MAP_FREQUENCIES = 8 };

/* Optional terms of an equation that HAS_TERMS: of density, of absorption and, in the adjoint, of the gradient. Fields
 * are laid out as `in` and read at own points only. With B the stencil, in this order (terms.h):
 *   B = fma(-V, u, B)                                                           density
 *   g = fma(recalled, B, g)                                                     gradient
 *   r_l = fma(a_l, r_l, (b_l kappa) B), l = 0, 1 ...; B = B - (r_0 + r_1 ...)    absorption
 * and then as without them. A layer term or source x is added after it:
 *   g = fma(recalled, x, g), r_l = fma(b_l kappa, x, r_l), out = fma(gain (1 - kappa sum b), x, out) */
typedef struct kernel_terms {
  const float *density;        /* V; NULL: none */
  const float *sigma;          /* u = sigma p (density.h), for sources and receivers of p; NULL: 1 */
  const float *loss;           /* kappa; NULL: no absorption */
  int memories;                /* 0: no absorption */
  float *memory[MEMORIES_MAX]; /* r, overwritten */
  float a[MEMORIES_MAX], b[MEMORIES_MAX];
  const float *recalled; /* u of the forward run at this step; NULL: no gradient */
  float *gradient;       /* g, overwritten */
} kernel_terms;

/* Arguments of every kernel: update points x in [0, nx), y in [0, ny), z in [z_begin, z_end) of `out` from `in`.
 * `stencil` is the weighted sum of the 25 points (canonical order), m the media's factors at the point. `before` is the
 * old value of out; for an equation of several time levels it is u of levels - 1 steps ago. A kernel computes
 *   out = EQUATION_next(stencil, m, u, before, 2)         (the equation's file, equations.def)
 * The pointers are to the slab's own point (0, 0, 0), aligned to 128 bytes; point (z, y, x) is at z * plane + y * pitch
 * + x. Ghosts of `in` at index -4..-1 and n..n+3 along each axis are readable, padding is not promised to hold numbers;
 * `out` and `medium` are read at own points only. A kernel writes own points of its z range, and those ghosts of `out`
 * that are images of them by `ghosts` (ghosts.h); it may write padding, and nothing else. Weights are indexed by offset
 * 1..4 ([0] is unused) and apply to both sides. */
typedef struct kernel_args {
  const float *in;
  float *out;
  const float *before; /* for kernels with KERNEL_GRADIENT: u of the step before; NULL: out holds it */
  const float *medium[EQUATION_MEDIA]; /* the equation's factors m of each point, laid out as `in` */
  float scale[EQUATION_MEDIA];         /* m everywhere where medium is NULL */
  enum equation equation;
  size_t pitch, plane; /* floats; multiples of 32 */
  int nx, ny, nz;      /* own points of the slab */
  int z_begin, z_end;
  /* enum ghost_rule. An axis has at least 5 points where one reflects, 4 where it wraps. */
  unsigned char ghosts[FACE_COUNT];
  block_counter *counter; /* CUDA: the stream's; NULL: blocks do not keep step, which only costs speed */
  float center;
  float wx[5], wy[5], wz[5];
  kernel_terms terms;
  /* Each row y is a 2D run of its own, over one medium: there is no arm along y, and wy is 0. In place of each sum of
   * that arm kernels add 0, as weights of 0 would. All rows of a plane of the media are equal. */
  bool flat;
} kernel_args;

/* Are there several flat rows? A single one needs no flag, since its weights along y are 0. */
static inline bool kernel_is_batch(const kernel_args *args) {
  return args->flat && args->ny > 1;
}

/* A host kernel does part `part` of `parts` of the work. The parts together write every point once. */
typedef void host_kernel(const kernel_args *args, int part, int parts);
/* A CUDA kernel's launcher enqueues the work on a cudaStream_t and returns a cudaError_t as int; asynchronous.
 * cudaErrorNotSupported, also for no planes: this GPU, the driver or the program's code lacks what the kernel needs. */
typedef int cuda_kernel(const kernel_args *args, void *stream);

/* The abilities of a kernel. */
enum kernel_flags {
  KERNEL_WAVEFRONT = 1, /* launches over chunks of planes can advance several steps a pass (wavefront.h) */
  KERNEL_ORACLE = 2,    /* written to be read, not to be fast: `auto` does not measure it */
  KERNEL_TERMS = 4,     /* takes kernel_args.terms and flat */
  KERNEL_GRADIENT =
      8 /* also takes kernel_args.before, so that steps can write into the adjoint's ring buffer */
};

struct operation;

typedef struct kernel {
  const char *name;
  enum backend backend;
  unsigned equations; /* equations that it does: bit 1 << equation */
  unsigned flags;     /* enum kernel_flags */
  /* Does a launch and the absorbing layers of its points in one, with absorb_args (absorb.h). NULL: operation_absorb
   * must follow the launch. */
  const struct operation *layers;
  const char *note;  /* one line for --version */
  host_kernel *host; /* exactly one of `host` and `cuda` is set; both NULL: not compiled in */
  cuda_kernel *cuda;
} kernel;

extern const kernel kernel_table[];
extern const int kernel_table_size;

/* Names as the config and reports spell them: "jacobi"; "host", "cuda". */
const char *equation_name(enum equation equation);
const char *backend_name(enum backend backend);

/* Does the kernel do this equation on this backend? */
static inline bool kernel_does(const kernel *k, enum equation equation, enum backend backend) {
  return k->backend == backend && k->equations >> equation & 1;
}
/* Finds the kernel called `name` for this equation and backend; "auto": the first in kernels.def. Fails with
 * KERNEL_UNKNOWN (naming the nearest) or KERNEL_NOT_COMPILED. */
int kernel_find(const char *name, enum equation equation, enum backend backend, const kernel **found,
                error *e);

#ifdef __cplusplus
}
#endif
#endif
