/* two_step: temporal blocking, two time steps in one pass over memory. A block streams the planes of u of step n
 * through a ring, as bulk_tensor does. Its first-step warps make from them the planes of step n+1, of a tile that
 * is 4 points larger on each side than the block's own, and leave them in shared memory; its second-step warps make
 * from those the planes of step n+2. Both add every plane, as it comes, to sums of eight planes in registers, in the
 * canonical order: the bits are those of two single steps.
 *
 *      in, before, medium: tensor copies                                          out, middle
 *               |                                                                      ^
 *     +---------v---------+      first-step warps      +--------------+     second-step warps
 *     | u: S + 4 planes   |---> sums z-4 .. z+3 ------>| v: 2 planes  |---> sums z-8 .. z-1
 *     | (TX+16) x (TY+16) |     finish plane z-4       | (TX+8)x(TY+8)|     finish plane z-8
 *     +-------------------+           |                +--------------+           ^
 *     | u-, m: 2 planes   |           +--> what finishing takes 4 planes later: --+
 *     +-------------------+                2v - u and m, 5 planes of TX x TY
 *
 *   step              i                         i+1
 *   first-step warps  |wait u| sums, finish z-4 |*computed| arms of z ...
 *   second-step warps |wait computed| load and refill | sums, finish z-8 |*taken| arms of z-4 ...
 *   `computed` frees the slot of u of z-4 and the operands: the thread that loads needs no other signal, and is one
 *   of the second step's, which have less to do. `taken` lets the first step write the plane after next.
 *
 * Boundaries are `fixed`: ghosts keep their value in between, too. Towards a neighbour in z step n+1 is made in four
 * ghost planes, from eight of u. The fields in, before, middle and out are four: a tile reads u and u- up to 8 points
 * beyond itself, where another block may long have been, so nothing can be overwritten in place.
 *
 * What bounds a tile (64 x 24, wave with a field of m): 16 sums a point are 128 registers x 480 threads; 7 planes
 * of u, 2 of u- and m, 2 of step n+1, 5 of what is needed late are 211 KiB of shared memory. Redundancy: 1.5 in the
 * first step (1.25 on average), 2.2 in reading u.
 *
 * Measured on one H200, 768^3, Gpts/s; the range over shapes and runs, for which see "unsteady" below; in parentheses
 * the best of 512^3. One step: bulk_tensor. Ideal traffic: bytes a point and step.
 *                                    one step    two steps          ideal
 *     wave, m a field                   257      264-302  (281)     16 -> 10
 *     wave, m a number                     -     252-342  (293)     12 ->  8
 *     heat, m a field                   325      376-380  (317)     12 ->  6
 *     jacobi                            476      430-459  (387)      8 ->  4
 * From ncu, for wave: DRAM 9.4 GB a pass (ideal 9.1), L2 to SM 14.3 GB, 164 M sectors over the link between the
 * halves of L2, 86 % busy: still the wall, with fewer bytes. For jacobi the link is 62 % busy, DRAM less than half;
 * issue slots 62 %, shared memory 62 %: the 15 warps that the registers allow do not hide their own latencies.
 * Unsteady: the same code gave wave with a field 264 and 302, with a number 342, 329 and, later in a run, 252; jacobi
 * 459, 455 and 430. Whether that is power or the keeping of step is not known.
 * What failed: 12 warps with 3 rows a thread (wave the same, jacobi 435); the halo columns in boxes of their own (a
 * third fewer L2 requests, but wave 281 and jacobi 410: perhaps the narrow boxes); prefetching planes into L2 ahead
 * of the copies (wave 253 instead of 261). What helped: boxes that start on a 32-byte sector, not 16 bytes off (wave
 * 269 to 299); loading by a second-step thread that does not wait for the counter of keep_step, together with fewer
 * barriers and spills (wave 187 to 261, jacobi 403 to 435). */
#include "bulk_tensor_launch.cuh"
#include "two_step.cuh"

namespace two_step {

/* The cheapest cut: blocks take items in turn, an item's first and last eight planes cost about half. */
template <class S> cut cut_up(const kernel_args *args, int sms) {
  const int EXTRA_PLANES = 8, MAX_CHUNKS = 8;
  const kernel_args *a = args;
  const int nz = a->z_end - a->z_begin;
  cut best = {};
  long long least = 0;
  for (int chunks = 1; chunks <= std::min(MAX_CHUNKS, nz); chunks++) {
    cut c = {star::ceil_div(a->nx, S::tile_x), 0, star::ceil_div(nz, chunks), 0, 0, 0, nullptr};
    c.tiles = c.tiles_x * star::ceil_div(a->ny, S::tile_y);
    c.items = c.tiles * star::ceil_div(nz, c.planes);
    const long long cost = (long long)star::ceil_div(c.items, sms) * (c.planes + EXTRA_PLANES);
    if (chunks == 1 || cost < least) best = c, least = cost;
  }
  best.z_u = std::max(a->z_begin - 2 * REACH, args->z_outer_begin - REACH);
  best.z_operands = std::max(a->z_begin - REACH, args->z_outer_begin);
  return best;
}

template <class S>
cudaError_t make_maps(const bulk_tensor::encoder &e, maps *m, const kernel_args *args, const cut &c) {
  const kernel_args *a = args;
  const ptrdiff_t plane = (ptrdiff_t)a->plane, ghost = c.z_u * plane - REACH * ((ptrdiff_t)a->pitch + 1),
                  own = c.z_operands * plane;
  const size_t nx = (size_t)a->nx, ny = (size_t)a->ny;
  const size_t planes_u = (size_t)(std::min(a->z_end + 2 * REACH, args->z_outer_end + REACH) - c.z_u),
               planes = (size_t)(std::min(a->z_end + REACH, args->z_outer_end) - c.z_operands);
  cudaError_t status = bulk_tensor::make_map(e, &m->u, a->in + ghost, nx + 2 * REACH, ny + 2 * REACH,
                                             planes_u, S::u_x, S::u_y, a);
  if (status == cudaSuccess && S::equation == EQUATION_WAVE)
    status =
        bulk_tensor::make_map(e, &m->before, args->before + own, nx, ny, planes, S::operand_x, S::first_y, a);
  if (status == cudaSuccess && S::field)
    status =
        bulk_tensor::make_map(e, &m->medium, a->medium + own, nx, ny, planes, S::operand_x, S::first_y, a);
  return status;
}

/* Enqueues two steps; a cudaError_t, cudaErrorNotSupported where the chip has no tensor copies. */
template <class S> int launch(const kernel_args *args, void *stream) {
  static const bulk_tensor::encoder e;
  static const star::choice<1> shape(star::variant{"", reinterpret_cast<const void *>(sweep<S>), S::equation,
                                                   S::tile_x, S::tile_y, S::threads, S::shared});
  if (e.status != cudaSuccess) return (int)e.status;
  if (shape.status != cudaSuccess) return (int)shape.status;
  if (args->z_end <= args->z_begin) return cudaSuccess;
  const int sms = shape.limits[0].sms;
  cut c = cut_up<S>(args, sms);
  maps m = {};
  cudaError_t status = make_maps<S>(e, &m, args, c);
  if (status == cudaSuccess && S::lag >= 0) {
    status = bulk_tensor::counter_of((cudaStream_t)stream, &c.progress);
    if (status == cudaSuccess)
      status = cudaMemsetAsync(c.progress, 0, sizeof *c.progress, (cudaStream_t)stream);
  }
  void *parameters[] = {const_cast<kernel_args *>(args), &m, &c};
  const dim3 grid((unsigned)std::min(c.items, sms)), block(S::threads);
  if (status == cudaSuccess)
    status =
        cudaLaunchKernel(shape.shapes[0].function, grid, block, parameters, S::shared, (cudaStream_t)stream);
  return (int)status;
}

} // namespace two_step

using two_step::shape;

extern "C" int jacobi_cuda_two_step(const kernel_args *args, void *stream) {
  return two_step::launch<shape<EQUATION_JACOBI, 64, 24, 2, 2, 3, 2, false, -1>>(args, stream);
}

extern "C" int heat_cuda_two_step(const kernel_args *args, void *stream) {
  if (args->medium) return two_step::launch<shape<EQUATION_HEAT, 64, 24, 2, 2, 3, 2, true, -1>>(args, stream);
  return two_step::launch<shape<EQUATION_HEAT, 64, 24, 2, 2, 3, 2, false, -1>>(args, stream);
}

extern "C" int wave_cuda_two_step(const kernel_args *args, void *stream) {
  if (args->medium) return two_step::launch<shape<EQUATION_WAVE, 56, 28, 2, 2, 3, 2, true, 2>>(args, stream);
  return two_step::launch<shape<EQUATION_WAVE, 64, 24, 2, 2, 3, 2, false, 2>>(args, stream);
}
