/* The host's half of every kernel that streams planes through tiles: it cuts a launch into blocks and chooses the
 * cheapest of the kernel's shapes. Such a kernel takes the arguments (kernel_args, cut). */
#ifndef STENCIL_PLAN_CUH
#define STENCIL_PLAN_CUH

#include <cuda_runtime.h>
#include <type_traits>
#include "kernels/images.cuh"
#include "kernels/resident.cuh"
#include "kernels/equations/point.h"

namespace stencil {

/* The fields that an equation reads besides the stencil. */
template <enum equation Q> constexpr bool reads_u = (EQUATIONS[Q].flags & READS_U) != 0;
template <enum equation Q> constexpr bool reads_before = EQUATIONS[Q].levels > 1;
template <enum equation Q> constexpr int media_of = EQUATIONS[Q].media;
template <enum equation Q> constexpr bool has_terms = (EQUATIONS[Q].flags & HAS_TERMS) != 0;
/* Fields besides u: media and u of the step before. */
template <enum equation Q> constexpr int operands_of = media_of<Q> + reads_before<Q>;
enum { OPERANDS_CLASSES = 3 }; /* tuned for 0, 1 or more operands */
template <enum equation Q>
constexpr int operands_class = operands_of<Q> < OPERANDS_CLASSES ? operands_of<Q> : OPERANDS_CLASSES - 1;

/* Calls launch with the equation as a constant. */
template <class Launch> int of_equation(enum equation q, const Launch &launch) {
  switch (q) {
#define EQUATION(constant, ...)                                                                              \
  case EQUATION_##constant:                                                                                  \
    return launch(std::integral_constant<enum equation, EQUATION_##constant>());
#include "kernels/equations.def"
  default:
    return (int)cudaErrorNotSupported;
  }
}

/* The layer terms along x (absorb_layer_terms) of the points that are in no other layer: rows [y_begin, y_end) of
 * planes [z_begin, z_end). A row has `lo` and `hi` points in layers. */
struct layer_term_rows {
  const float *values;
  int lo, hi, pitch, high, first;
  int y_begin, y_end, z_begin, z_end;
};

/* How a launch is cut up: block b has tile b % (x * y) and chunk b / (x * y) of `planes` planes. */
struct cut {
  int x, y;
  int planes;
  layer_term_rows layer_terms; /* for LAYERED shapes */
};

/* A shape of a kernel as the host sees it. */
struct variant {
  const void *function; /* a __global__ function of (kernel_args, cut) */
  int operands;         /* operands_class of its equation */
  int tile_x, tile_y, threads;
  size_t shared; /* dynamic, bytes */
};

/* A variant's cut of a launch and its estimated cost; the unit is the time an SM needs for one point. */
struct plan {
  cut c;
  unsigned grid;
  double cost;
};

inline int ceil_div(long long a, long long b) {
  return (int)((a + b - 1) / b);
}

/* The cost of a launch in `chunks` chunks of planes. Blocks run in waves, and a wave that fills few SMs lasts as long
 * as a full one. Every chunk reads eight planes more than it writes. */
inline plan plan_chunks(const variant &v, const residency &r, const kernel_args *a, int chunks) {
  /* The cost of the eight planes and of the start, in full planes. */
  const double EXTRA_PLANES[OPERANDS_CLASSES] = {4, 3, 2};
  /* a plane costs this part more for each one before it: neighbouring blocks drift apart and share less of L2 */
  const double DRIFT = 1e-4;
  const double STEP_LATENCY = 1200; /* barrier and load latency of a plane, in points */
  const int planes = a->z_end - a->z_begin;
  plan p;
  p.c = {ceil_div(a->nx, v.tile_x), ceil_div(a->ny, v.tile_y), ceil_div(planes, chunks), {}};
  const long long blocks = (long long)p.c.x * p.c.y * ceil_div(planes, p.c.planes);
  p.grid = (unsigned)blocks;
  const int a_wave = r.sms * r.blocks, waves = ceil_div(blocks, a_wave);
  const int resident = waves > 1 ? r.blocks : ceil_div(blocks, r.sms);
  const double points = (double)v.tile_x * v.tile_y,
               halo = 8.0 * (v.tile_x + v.tile_y); /* halo: L2 reads only */
  p.cost = waves * (p.c.planes + EXTRA_PLANES[v.operands]) * (1 + DRIFT * p.c.planes) *
           (resident * (points + halo / 2) + STEP_LATENCY);
  return p;
}

/* The cheapest cut of a launch for this variant, among the numbers of chunks that fill their waves. */
inline plan plan_variant(const variant &v, const residency &r, const kernel_args *a) {
  const int MAX_WAVES = 16, planes = a->z_end - a->z_begin;
  const long long tiles = (long long)ceil_div(a->nx, v.tile_x) * ceil_div(a->ny, v.tile_y);
  plan best = plan_chunks(v, r, a, 1);
  for (int waves = 1; waves <= MAX_WAVES; waves++) {
    const long long chunks = (long long)waves * r.sms * r.blocks / tiles;
    const plan p = plan_chunks(v, r, a, chunks < 1 ? 1 : chunks > planes ? planes : (int)chunks);
    if (p.cost < best.cost) best = p;
  }
  return best;
}

inline cudaError_t launch_plan(const variant &v, const plan &p, const kernel_args *args,
                               cudaStream_t stream) {
  kernel_args a = *args;
  cut c = p.c;
  void *parameters[] = {&a, &c};
  return cudaLaunchKernel(v.function, dim3(p.grid), dim3((unsigned)v.threads), parameters, v.shared, stream);
}

/* A variant and its cut. `v` lives as long as the choice that it came from. */
struct selection {
  const variant *v;
  plan p;
};

/* A kernel's N shapes and their limits on the device; status is cudaErrorNotSupported where none fits. Make it a static
 * variable: a process has one device. */
template <int N> struct choice {
  variant shapes[N];
  residency limits[N];
  cudaError_t status;

  template <class... Variants> explicit choice(const Variants &...v) : shapes{v...}, limits{} {
    static_assert(sizeof...(v) == N, "as many variants as the type says");
    bool fits = false;
    status = cudaSuccess;
    for (int i = 0; i < N && status == cudaSuccess; i++) {
      status = residency_of(shapes[i].function, shapes[i].threads, shapes[i].shared, &limits[i]);
      fits = fits || limits[i].blocks > 0;
    }
    if (status == cudaSuccess && !fits) status = cudaErrorNotSupported;
  }

  /* The cheapest shape for these arguments, whose z range is not empty. */
  cudaError_t select(const kernel_args *args, selection *s) const {
    *s = {};
    for (int i = 0; i < N && status == cudaSuccess; i++) {
      if (limits[i].blocks == 0) continue;
      const plan p = plan_variant(shapes[i], limits[i], args);
      if (!s->v || p.cost < s->p.cost) *s = {&shapes[i], p};
    }
    return status;
  }

  /* A cuda_kernel (kernel.h); the z range may be empty. */
  int launch(const kernel_args *args, void *stream, const layer_term_rows &layer_terms = {}) const {
    if (args->z_end <= args->z_begin || status != cudaSuccess) return (int)status;
    selection s;
    cudaError_t done = select(args, &s);
    s.p.c.layer_terms = layer_terms;
    if (done == cudaSuccess) done = launch_plan(*s.v, s.p, args, (cudaStream_t)stream);
    return (int)(done == cudaSuccess ? images::launch(args, (cudaStream_t)stream) : done);
  }
};

} // namespace stencil

/* The launcher of a technique with kernels technique::advance<shape>, and its shapes for equation Q. */
#define STENCIL_LAUNCH(technique)                                                                            \
  template <class... Shapes>                                                                                 \
  static int technique##_launch(const kernel_args *args, void *stream,                                       \
                                const stencil::layer_term_rows &layer_terms = {}) {                          \
    static const stencil::choice<sizeof...(Shapes)> shapes(                                                  \
        stencil::variant_of<Shapes>(technique::advance<Shapes>)...);                                         \
    return shapes.launch(args, stream, layer_terms);                                                         \
  }
#define STENCIL_LAUNCHER(technique, ...)                                                                     \
  STENCIL_LAUNCH(technique)                                                                                  \
  extern "C" int cuda_##technique(const kernel_args *args, void *stream) {                                   \
    return stencil::of_equation(args->equation, [=](auto q) {                                                \
      constexpr enum equation Q = decltype(q)::value;                                                        \
      return technique##_launch<__VA_ARGS__>(args, stream);                                                  \
    });                                                                                                      \
  }

#endif
