/* Which shape and how many planes a block: the host's half of thread_scope. */
#ifndef STENCIL_THREAD_SCOPE_LAUNCH_CUH
#define STENCIL_THREAD_SCOPE_LAUNCH_CUH

#include "thread_scope.cuh"

namespace thread_scope {

/* What the device says about a variant. */
struct residency {
  int sms, blocks; /* multiprocessors; blocks of this variant that fit one of them */
};

/* A variant's cut of a launch and its estimated cost; the unit is the time an SM needs for one point. */
struct plan {
  cut c;
  unsigned grid;
  double cost;
};

/* What the program launches for these arguments (thread_scope.cu): the cheapest of its shapes. `v` is static.
 */
struct selection {
  const variant *v;
  plan p;
};
cudaError_t select(const kernel_args *args, selection *s);

/* Lets the kernel use its shared memory and asks how many blocks an SM holds. Once a process and variant. */
inline cudaError_t query(const variant &v, residency *r) {
  int device = 0;
  cudaError_t status = cudaGetDevice(&device);
  if (status == cudaSuccess) status = cudaDeviceGetAttribute(&r->sms, cudaDevAttrMultiProcessorCount, device);
  if (status == cudaSuccess)
    status = cudaFuncSetAttribute(v.function, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)v.shared);
  if (status == cudaSuccess)
    status = cudaOccupancyMaxActiveBlocksPerMultiprocessor(&r->blocks, v.function, v.threads, v.shared);
  if (status == cudaSuccess && r->blocks < 1) status = cudaErrorInvalidConfiguration;
  return status;
}

inline int ceil_div(long long a, long long b) {
  return (int)((a + b - 1) / b);
}

/* Cost of cutting into `chunks` chunks of planes. Blocks run in waves, and a wave that fills few SMs lasts as
 * long as a full one; every chunk reads eight planes more than it writes. */
inline plan plan_chunks(const variant &v, const residency &r, const kernel_args *a, int chunks) {
  const double EXTRA_PLANES = 6;    /* what the eight cost, and the start, in full planes */
  const double STEP_LATENCY = 1200; /* a plane's barrier and load latency, in points */
  const int planes = a->z_end - a->z_begin;
  plan p;
  p.c = {ceil_div(a->nx, v.tile_x), ceil_div(a->ny, v.tile_y), ceil_div(planes, chunks)};
  const long long blocks = (long long)p.c.x * p.c.y * ceil_div(planes, p.c.planes);
  p.grid = (unsigned)blocks;
  const int a_wave = r.sms * r.blocks, waves = ceil_div(blocks, a_wave);
  const int resident = waves > 1 ? r.blocks : ceil_div(blocks, r.sms);
  const double points = (double)v.tile_x * v.tile_y,
               halo = 8.0 * (v.tile_x + v.tile_y); /* halo: L2 reads only */
  p.cost = waves * (p.c.planes + EXTRA_PLANES) * (resident * (points + halo / 2) + STEP_LATENCY);
  return p;
}

/* The cheapest cut of a launch for this variant: only chunk counts that fill their waves are worth a look. */
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

} // namespace thread_scope
#endif
