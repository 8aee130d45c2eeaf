/* The 25-point stencil, streamed in z: the part that all staging techniques have in common. A block owns a tile in x
 * and y and a chunk of planes. The planes come in one after another through a ring of shared-memory slots. A thread
 * owns ROWS x 4 points. For each of them it keeps the partial sums of the eight output planes that are not finished, so
 * it reads every plane once. The techniques differ in how planes get into the ring, and in who waits for whom.
 *
 *   shape     a tile's size, its threads and its ring        place    where a block is
 *   copier    a thread's part of the copies of a plane      points   a thread's points and their sums
 *   terms_pack, pack_layer_terms    terms of a thread's points, and what layers add to them: in multi_stage alone */
#ifndef STENCIL_CUDA_STENCIL_CUH
#define STENCIL_CUDA_STENCIL_CUH

#include <tuple>
#include <type_traits>
#include "plan.cuh"
#include "terms.cuh"

namespace stencil {

/* The tile of a block. TX x TY: its points; ROWS: rows a thread; STAGES: planes in the pipeline; BLOCKS: resident on an
 * SM. HELPERS: threads that own no points. LAYERED: it adds layer terms along x. */
template <enum equation Q, int TX, int TY, int ROWS, int STAGES, int BLOCKS, int HELPERS = 0,
          class Terms = no_terms, bool LAYERED = false>
struct shape {
  static_assert(TX % 32 == 0 && TY % ROWS == 0, "whole packs, conflict-free rows, whole threads");
  static constexpr enum equation equation = Q;
  /* Does the equation read u itself besides the sum? Then the ring keeps each plane for RADIUS planes more. */
  static constexpr bool needs_centre = reads_u<Q>;
  static constexpr int tile_x = TX, tile_y = TY, rows = ROWS, stages = STAGES, blocks = BLOCKS,
                       helpers = HELPERS;
  static constexpr int threads_x = TX / PACK, workers = threads_x * (TY / ROWS), threads = workers + HELPERS;
  static constexpr bool layered = LAYERED;
  typedef Terms terms_kind;
  static constexpr int halo_y = Terms::flat ? 0 : RADIUS; /* rows of a slot before and after the tile's */
  static constexpr int pitch = TX + 2 * RADIUS, slot = pitch * (TY + 2 * halo_y); /* floats of a ring slot */
  static constexpr int slots = STAGES + (needs_centre ? RADIUS : 0);
  static constexpr int packs_x = pitch / PACK, packs = slot / PACK;
  static constexpr size_t shared = sizeof(float) * slots * slot;
};

/* The slot of the plane `planes` (at most a ring) after that of `slot`. */
template <class S> __device__ __forceinline__ int slot_after(int slot, int planes) {
  return slot + planes < S::slots ? slot + planes : slot + planes - S::slots;
}

/* The slot of the plane RADIUS before that of `slot`: adding the plane in `slot` finishes its sums. */
template <class S> __device__ __forceinline__ int centre_slot(int slot) {
  return S::needs_centre ? slot_after<S>(slot, S::slots - RADIUS) : slot;
}

/* Where a block is: its tile's first point and its output planes. */
template <class S> struct place {
  const layer_term_rows &layer_terms;
  int x, y, z_begin, z_end;
  unsigned corner; /* of the tile in a plane, floats; below 2^32, as 24 planes or more fit the memory */

  __device__ __forceinline__ place(const kernel_args &a, const cut &c) : layer_terms(c.layer_terms) {
    const int tile = (int)(blockIdx.x % (unsigned)(c.x * c.y)),
              chunk = (int)(blockIdx.x / (unsigned)(c.x * c.y));
    x = tile % c.x * S::tile_x, y = tile / c.x * S::tile_y;
    z_begin = a.z_begin + chunk * c.planes, z_end = min(z_begin + c.planes, a.z_end);
    corner = (unsigned)y * (unsigned)a.pitch + (unsigned)x;
  }

  /* The tile's first point in plane z of a field laid out as `in`. */
  template <class Float>
  __device__ __forceinline__ Float *plane(Float *field, const kernel_args &a, int z) const {
    return field + (ptrdiff_t)z * (ptrdiff_t)a.plane + corner;
  }

  /* Is z an output plane? If not, it only adds to sums in z, and needs no halo. */
  __device__ __forceinline__ bool owns(int z) const { return z >= z_begin && z < z_end; }
};

/* The 16-byte packs of a plane that one of THREADS threads copies: packs thread + i * THREADS of the slot. They are
 * the same for every plane. Packs that no stored point reads are left out: corners, points beyond the ghosts, and the
 * halo of a plane that only adds to sums in z. */
template <class S, int THREADS = S::threads> struct copier {
  static constexpr int copies = (S::packs + THREADS - 1) / THREADS;
  static_assert(copies <= 64, "a bit each");
  using bits = std::conditional_t<(copies > 32), unsigned long long, unsigned>;
  int thread;
  int from[copies]; /* packs from the tile's first point; rows so long that this overflows fit no memory */
  bits all = 0, centre = 0; /* bit i: do copy i; centre: also in a plane that needs no halo */
  bits part = 0;            /* bit i: the last floats of copy i are padding */

  __device__ __forceinline__ copier(const kernel_args &a, const place<S> &tile, int thread_of_copiers)
      : thread(thread_of_copiers) {
#pragma unroll
    for (int i = 0; i < copies; i++) {
      const int pack = thread + i * THREADS;
      const int x = pack % S::packs_x * PACK - RADIUS, y = pack / S::packs_x - S::halo_y; /* in the tile */
      const bool in_x = x >= 0 && x < S::tile_x, in_y = y >= 0 && y < S::tile_y;
      const bool exists = pack < S::packs && tile.x + x < a.nx + RADIUS && tile.y + y < a.ny + S::halo_y;
      all |= (bits)(exists && (in_x || in_y)) << i;
      centre |= (bits)(exists && in_x && in_y) << i;
      part |= (bits)(tile.x + x + PACK > a.nx + RADIUS) << i;
      from[i] = y * (int)(a.pitch / PACK) + x / PACK;
    }
  }

  /* Calls pack(to, from, part) for each pack to copy. `plane` is the tile's first point in global memory,
   * `slot` the start of a ring slot. */
  template <class Pack>
  __device__ __forceinline__ void copy(float *slot, const float *plane, bool halo, const Pack &pack) const {
    const bits todo = halo ? all : centre;
    float4 *to = reinterpret_cast<float4 *>(slot) + thread;
    const float4 *source = reinterpret_cast<const float4 *>(plane);
#pragma unroll
    for (int i = 0; i < copies; i++)
      if (todo >> i & 1) pack(to + i * THREADS, source + from[i], part >> i & 1);
  }
};

__device__ __forceinline__ void unpack(float to[PACK], float4 v) {
  to[0] = v.x, to[1] = v.y, to[2] = v.z, to[3] = v.w;
}

__device__ __forceinline__ void load(float to[PACK], const float *from) {
  unpack(to, *reinterpret_cast<const float4 *>(from));
}

__device__ __forceinline__ void put(float *to, const float v[PACK]) {
  *reinterpret_cast<float4 *>(to) = make_float4(v[0], v[1], v[2], v[3]);
}

/* Where memory has no whole packs: stores the points whose bits are set. */
__device__ __forceinline__ void put_points(float *to, const float v[PACK], unsigned points) {
#pragma unroll
  for (int n = 0; n < PACK; n++)
    if (points >> n & 1) to[n] = v[n];
}

/* Adds the arms in x and y to `sum`. `own` is the thread's first point in a slot with rows of `pitch`; its points are
 * in `row`, with RADIUS neighbours on both sides. */
template <int ROWS>
__device__ __forceinline__ void add_arms_from(float sum[ROWS][PACK], const float row[ROWS][PACK + 2 * RADIUS],
                                              const float *own, int pitch, const kernel_args &a) {
  float column[ROWS + 2 * RADIUS][PACK];
#pragma unroll
  for (int j = 0; j < ROWS; j++)
#pragma unroll
    for (int i = 0; i < PACK; i++) column[RADIUS + j][i] = row[j][RADIUS + i];
#pragma unroll
  for (int r = 1; r <= RADIUS; r++) {
    load(column[RADIUS - r], own - r * pitch);
    load(column[RADIUS + ROWS - 1 + r], own + (ROWS - 1 + r) * pitch);
#pragma unroll
    for (int j = 0; j < ROWS; j++)
#pragma unroll
      for (int i = 0; i < PACK; i++) {
        const int y = RADIUS + j, x = RADIUS + i;
        sum[j][i] = __fmaf_rn(a.wy[r], __fadd_rn(column[y - r][i], column[y + r][i]), sum[j][i]);
        sum[j][i] = __fmaf_rn(a.wx[r], __fadd_rn(row[j][x - r], row[j][x + r]), sum[j][i]);
      }
  }
}

/* Does the same without an arm along y (kernel_args.flat). */
template <int ROWS>
__device__ __forceinline__ void add_arm_in_x(float sum[ROWS][PACK], const float row[ROWS][PACK + 2 * RADIUS],
                                             const kernel_args &a) {
#pragma unroll
  for (int r = 1; r <= RADIUS; r++)
#pragma unroll
    for (int j = 0; j < ROWS; j++)
#pragma unroll
      for (int i = 0; i < PACK; i++) {
        const int x = RADIUS + i;
        sum[j][i] = __fadd_rn(sum[j][i], 0.0f);
        sum[j][i] = __fmaf_rn(a.wx[r], __fadd_rn(row[j][x - r], row[j][x + r]), sum[j][i]);
      }
}

/* Does the same where the neighbours in x lie beside `own`; u: the thread's points. */
template <class S>
__device__ __forceinline__ void add_arms(float sum[S::rows][PACK], const float u[S::rows][PACK],
                                         const float *own, const kernel_args &a) {
  float row[S::rows][PACK + 2 * RADIUS];
#pragma unroll
  for (int j = 0; j < S::rows; j++) {
    load(row[j], own + j * S::pitch - RADIUS);
    load(row[j] + RADIUS + PACK, own + j * S::pitch + PACK);
#pragma unroll
    for (int i = 0; i < PACK; i++) row[j][RADIUS + i] = u[j][i];
  }
  if (S::terms_kind::flat)
    add_arm_in_x<S::rows>(sum, row, a);
  else
    add_arms_from<S::rows>(sum, row, own, S::pitch, a);
}

/* Adds plane z, whose points of this thread are u. sums[k] belongs to output plane z + 3 - k, to which k + 1 planes
 * were added before this one; planes come in ascending order, so this is the order of operations of docs/DESIGN.md.
 * Afterwards `done` is output plane z - 4, each sum has moved up by one, and sums[4], plane z, waits for its arms. */
template <class S>
__device__ __forceinline__ void arrive(float done[S::rows][PACK], float sums[2 * RADIUS][S::rows][PACK],
                                       const float u[S::rows][PACK], const kernel_args &a) {
#pragma unroll
  for (int j = 0; j < S::rows; j++)
#pragma unroll
    for (int i = 0; i < PACK; i++) {
      done[j][i] = __fmaf_rn(a.wz[4], u[j][i], sums[7][j][i]);
      sums[7][j][i] = __fmaf_rn(a.wz[3], u[j][i], sums[6][j][i]);
      sums[6][j][i] = __fmaf_rn(a.wz[2], u[j][i], sums[5][j][i]);
      sums[5][j][i] = __fmaf_rn(a.wz[1], u[j][i], sums[4][j][i]);
      sums[4][j][i] = __fmaf_rn(a.center, u[j][i], sums[3][j][i]);
      sums[3][j][i] = __fmaf_rn(a.wz[1], u[j][i], sums[2][j][i]);
      sums[2][j][i] = __fmaf_rn(a.wz[2], u[j][i], sums[1][j][i]);
      sums[1][j][i] = __fmaf_rn(a.wz[3], u[j][i], sums[0][j][i]);
      sums[0][j][i] = __fmul_rn(a.wz[4], u[j][i]);
    }
}

/* The stencil at point u of a field in memory: the order of operations of docs/DESIGN.md, spelled out. */
__device__ __forceinline__ float sum_at(const float *u, const kernel_args &a) {
  const ptrdiff_t dy = (ptrdiff_t)a.pitch, dz = (ptrdiff_t)a.plane;
  float sum = __fmul_rn(a.wz[4], u[-4 * dz]);
#pragma unroll
  for (int r = 3; r >= 1; r--) sum = __fmaf_rn(a.wz[r], u[-r * dz], sum);
  sum = __fmaf_rn(a.center, u[0], sum);
#pragma unroll
  for (int r = 1; r <= 4; r++) {
    sum = a.flat ? __fadd_rn(sum, 0.0f) : __fmaf_rn(a.wy[r], __fadd_rn(u[-r * dy], u[r * dy]), sum);
    sum = __fmaf_rn(a.wx[r], __fadd_rn(u[-r], u[r]), sum);
  }
#pragma unroll
  for (int r = 1; r <= 4; r++) sum = __fmaf_rn(a.wz[r], u[r * dz], sum);
  return sum;
}

/* From the sums of a pack to its new values. m: the media's factors, a pack each; where there is no field they are
 * a.scale. */
template <enum equation Q>
__device__ __forceinline__ void update(float sum[PACK], const float m[][PACK], const float u[PACK],
                                       const float before[PACK], const kernel_args &a) {
#pragma unroll
  for (int i = 0; i < PACK; i++) {
    float here[EQUATION_MEDIA];
#pragma unroll
    for (int k = 0; k < EQUATION_MEDIA; k++) here[k] = a.medium[k] ? m[k][i] : a.scale[k];
    sum[i] = point_next(Q, sum[i], here, u[i], before[i], 2.0f);
  }
}

/* Loads points that nothing reads again before the next step, so the caches may drop them first. `lanes` of the four
 * exist (fewer than 1: none); the others are not touched. */
__device__ __forceinline__ void load_once(float to[PACK], const float *from, int lanes) {
  if (lanes >= PACK)
    unpack(to, __ldcs(reinterpret_cast<const float4 *>(from)));
  else
#pragma unroll
    for (int i = 0; i < PACK - 1; i++)
      if (i < lanes) to[i] = __ldcs(from + i);
}

__device__ __forceinline__ void store_once(float *to, const float v[PACK], int lanes) {
  if (lanes >= PACK)
    __stcs(reinterpret_cast<float4 *>(to), make_float4(v[0], v[1], v[2], v[3]));
  else
#pragma unroll
    for (int i = 0; i < PACK - 1; i++)
      if (i < lanes) to[i] = v[i];
}

/* The layer terms along x of a thread's packs, one a row. */
template <class S> struct pack_layer_terms {
  const layer_term_rows &all;
  const float *from = nullptr; /* layer terms of the first row in plane 0 */
  unsigned points = 0;         /* bits: points that lie in a layer */
  float values[S::rows][PACK] = {};
  unsigned points_of[S::rows] = {}; /* bits of each row: points that get a layer term */

  /* Finds the layer terms of the packs at point x of rows from `row` on. */
  __device__ __forceinline__ pack_layer_terms(const kernel_args &a, const layer_term_rows &rows, int x,
                                              int row)
      : all(rows) {
    if (!S::layered) return;
    const bool low = x < all.lo;
#pragma unroll
    for (int i = 0; i < PACK; i++)
      points |= (unsigned)(low ? x + i < all.lo : x + i >= a.nx - all.hi && x + i < a.nx) << i;
    from =
        all.values + (((ptrdiff_t)(low ? 0 : all.high) * a.ny + row) * all.pitch + x - (low ? 0 : all.first));
  }
  /* Loads the layer terms of plane z, in the thread's row j. */
  __device__ __forceinline__ void expect(const kernel_args &a, int z, int j, int row) {
    if (!S::layered) return;
    points_of[j] = row >= all.y_begin && row < all.y_end && z >= all.z_begin && z < all.z_end ? points : 0;
    if (points_of[j]) load(values[j], from + ((ptrdiff_t)z * a.ny + j) * all.pitch);
  }
};

/* The points a thread owns and their sums. add() is called for each plane z of [z_begin - RADIUS, z_end + RADIUS), in
 * order, once the plane is in shared memory; it stores output plane z - 4. That plane's other operands (medium, the
 * step before) were loaded a plane earlier, so that nothing waits for them. */
template <class S> struct points {
  const kernel_args &a;
  const place<S> &tile;
  size_t own;      /* the first point's place in a slot, floats */
  int rows, lanes; /* rows and points of a pack that exist; may be < 1 */
  int own_row;     /* the first row, in a plane */
  unsigned at;     /* the first point's place in a plane of a field, floats */
  float sums[2 * RADIUS][S::rows][PACK] = {};
  float m[S::rows][EQUATION_MEDIA][PACK], before[S::rows][PACK];
  terms_pack<typename S::terms_kind> terms[S::rows];
  pack_layer_terms<S> layer_terms;

  __device__ __forceinline__ points(const kernel_args &args, const place<S> &t, int worker)
      : a(args), tile(t), layer_terms(args, t.layer_terms, t.x + worker % S::threads_x * PACK,
                                      t.y + worker / S::threads_x * S::rows) {
    const int x = worker % S::threads_x * PACK, y = worker / S::threads_x * S::rows;
    own = (size_t)(S::halo_y + y) * S::pitch + (size_t)(RADIUS + x);
    own_row = t.y + y, rows = a.ny - own_row, lanes = a.nx - (t.x + x);
    at = t.corner + (unsigned)y * (unsigned)a.pitch + (unsigned)x;
  }

  /* The thread's first point in plane z of a field. */
  template <class Float> __device__ __forceinline__ Float *first(Float *field, int z) const {
    return field + (ptrdiff_t)z * (ptrdiff_t)a.plane + at;
  }

  /* `slot` holds plane z and `centre`, where the equation needs it, plane z - 4. */
  __device__ __forceinline__ void add(int z, const float *slot, const float *centre) {
    float u[S::rows][PACK], done[S::rows][PACK];
#pragma unroll
    for (int j = 0; j < S::rows; j++) load(u[j], slot + own + j * S::pitch);
    arrive<S>(done, sums, u, a);
    if (tile.owns(z - RADIUS)) finish(done, z - RADIUS, centre + own);
    if (tile.owns(z + 1 - RADIUS)) expect(z + 1 - RADIUS);
    if (tile.owns(z)) add_arms<S>(sums[4], u, slot + own, a);
  }

  /* Stores output plane z, whose sums are `done`. */
  __device__ __forceinline__ void finish(float done[S::rows][PACK], int z, const float *centre) {
    float *const to = first(a.out, z);
#pragma unroll
    for (int j = 0; j < S::rows; j++) {
      const int exist = j < rows ? lanes : 0;
      float u[PACK];
      if (S::needs_centre) load(u, centre + j * S::pitch);
      if constexpr (S::terms_kind::any || S::layered)
        finish_terms(done[j], j, z, u, exist);
      else if (S::needs_centre)
        update<S::equation>(done[j], m[j], u, before[j], a);
      store_once(to + j * a.pitch, done[j], exist);
    }
  }

  __device__ __forceinline__ void finish_terms(float done[PACK], int j, int z, const float u[PACK],
                                               int exist) {
#pragma unroll
    for (int k = 0; k < media_of<S::equation>; k++)
#pragma unroll
      for (int i = 0; i < PACK; i++)
        if (!a.medium[k]) m[j][k][i] = a.scale[k];
    terms[j].template finish<S::equation, media_of<S::equation>>(
        done, m[j], u, before[j], a.terms, layer_terms.values[j], layer_terms.points_of[j]);
    terms[j].store(a.terms, [&](float *field, const float v[PACK]) {
      store_once(first(field, z) + j * a.pitch, v, exist);
    });
  }

  /* Loads the operands of output plane z besides its sums and u. */
  __device__ __forceinline__ void expect(int z) {
#pragma unroll
    for (int j = 0; j < S::rows; j++) {
      const int exist = j < rows ? lanes : 0;
      const auto get = [&](float to[PACK], const float *field, int) {
        load_once(to, first(field, z) + j * a.pitch, exist);
      };
      const int row = S::terms_kind::flat ? -own_row : j; /* all rows of a batch have one medium */
#pragma unroll
      for (int k = 0; k < media_of<S::equation>; k++)
        if (a.medium[k]) load_once(m[j][k], first(a.medium[k], z) + row * (ptrdiff_t)a.pitch, exist);
      if (reads_before<S::equation>) get(before[j], a.before ? a.before : a.out, 0);
      terms[j].load(a.terms, get);
      layer_terms.expect(a, z, j, own_row + j);
    }
  }
};

/* The shape for an equation with 0, 1 or more operands. */
template <enum equation Q, class None, class One, class More>
using by_operands = std::tuple_element_t<operands_class<Q>, std::tuple<None, One, More>>;

/* The host's view of a kernel `function` of shape S. */
template <class S> variant variant_of(void (*function)(kernel_args, cut)) {
  return {reinterpret_cast<const void *>(function),
          operands_class<S::equation>,
          S::tile_x,
          S::tile_y,
          S::threads,
          S::shared};
}

} // namespace stencil
#endif
