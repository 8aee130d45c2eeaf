/* The absorbing layers on a CUDA device, two launches for a range of planes. The layers are cut into three kinds of
 * boxes without overlap. The first have all points of the layers along z, the second the other points of those along y,
 * the third the remaining points along x. Neighbours along a layer's axis read the same values, which therefore stay in
 * registers:
 *
 *   along x, of all rows: a warp has the layer of a row, a lane a point, and lanes shuffle. It stores the layer term
 *     of points that are also in another layer.
 *   along z and y: a thread goes through the layer, inward, with nine points of the field and four psi in
 *     registers. Where the two cross it computes the layer term along y point by point.
 *
 * So each value is loaded and stored once. One thread a point, with all reads from the caches, took 1.9 times as long
 * (512^3, 20 points at all faces, one H200). */
#include "absorb.cuh"

namespace absorbing {

enum {
  WARPS = 8,
  BLOCK = LANES * WARPS,
  SEGMENT = LANES - 2 * RADIUS, /* points of a row that a warp updates, besides those that it only reads */
  ROWS = 4,                     /* rows of a warp, loaded together and computed one after the other */
  ENOUGH = 8192,                /* with fewer warps, layers are cut into pieces */
  PIECE = 4, /* points of a piece at least, since each begins with the points before and after it */
  AHEAD = 2  /* points along a layer that a thread loads ahead */
};

struct layer_region {
  span y, z;
  unsigned tiles_x; /* of LANES points */
  bool images;      /* does any face reflect or wrap? */
  layers along_y, along_z;
};

/* Stores the new value of a point, whose place in the field is `at`. */
static __device__ __forceinline__ void revise(const kernel_args &f, bool images, const absorb_point &p,
                                              ptrdiff_t at, float value) {
  if (images)
    ghosts_store(&f, p.z, p.y, p.x, value);
  else
    f.out[at] = value;
}

/* Returns a point's value with its layer term added. */
template <bool TERMS>
static __device__ __forceinline__ float with_layer_term(const kernel_args &f, ptrdiff_t at, float gain,
                                                        float layer_term, float out) {
  return TERMS ? terms_add(&f, at, gain, layer_term, out) : fmaf(gain, layer_term, out);
}

/* The operands of one point in a layer along y or z that earlier iterations have not read. */
struct operands {
  float u, before, zeta, out, medium,
      layer_term; /* u four points further on, psi three; the rest of the point itself */
};

/* A thread on its way through a layer along axis 1 (y) or 2 (z), inward. */
template <int AXIS, bool TERMS> struct revisit {
  const absorb_args &a;
  const absorb_axis &s;
  bool images;
  int i, inward; /* i: from the outer edge */
  absorb_point point;
  ptrdiff_t step, state_step, at, state; /* strides; the point in a field, in the state */
  ptrdiff_t layer_term, layer_term_step; /* place and stride of the layer term along x; -1: there is none */
  float u[2 * RADIUS + 1], psi[ABSORB_BEYOND + 1];
  operands next[AHEAD];

  __device__ __forceinline__ revisit(const absorb_args &args, bool with_images, int count,
                                     const absorb_point &p)
      : a(args), s(args.axis[AXIS]), images(with_images), point(p) {
    const kernel_args &f = a.field;
    const absorb_place place = absorb_locate(&s, AXIS == 1 ? p.y : p.z);
    const ptrdiff_t nx = f.nx, state_stride = AXIS == 1 ? nx : nx * f.ny;
    i = place.i, inward = place.inward;
    step = inward * (ptrdiff_t)(AXIS == 1 ? f.pitch : f.plane), state_step = inward * state_stride;
    at = (ptrdiff_t)f.plane * p.z + (ptrdiff_t)f.pitch * p.y + p.x;
    state = absorb_stored(&s, a.width, place, i) * state_stride +
            (AXIS == 1 ? (ptrdiff_t)p.z * (s.lo + s.hi) * nx : p.y * nx) + p.x;
    const absorb_place in_x = absorb_locate(&a.axis[0], p.x);
    const absorb_layer_terms layer_terms = absorb_layer_terms_of(&a.axis[0], a.width, f.nz);
    layer_term = in_x.inward ? absorb_layer_term_at(&layer_terms, f.ny, in_x.inward < 0, p) : -1;
    layer_term_step = inward * (ptrdiff_t)layer_terms.pitch * (AXIS == 1 ? 1 : f.ny);
#pragma unroll
    for (int k = 0; k < 2 * RADIUS; k++) u[k] = f.in[at + (k - RADIUS) * step];
#pragma unroll
    for (int n = 0; n < AHEAD; n++)
      if (n < count) load_ahead(n);
#pragma unroll
    for (int k = 0; k < ABSORB_BEYOND; k++) renew(k, remembered(k));
  }
  /* psi[i + k] before this step; past the layer it is the last psi, which is multiplied by 0 */
  __device__ __forceinline__ float remembered(int k) const {
    return s.psi_in[state + (min(i + k, a.width - 1) - i) * state_step];
  }
  __device__ __forceinline__ void renew(int k, float before) {
    const float *c = s.coefficients + (2 * a.width + i + k);
    psi[k] = absorb_psi(c[0], c[a.width + ABSORB_BEYOND], a.difference, u + RADIUS + k, 1, before);
  }
  /* Loads the operands of iteration `n` from this one. */
  __device__ __forceinline__ void load_ahead(int n) {
    const kernel_args &f = a.field;
    const ptrdiff_t then = at + n * step;
    next[n % AHEAD] = {
        f.in[then + RADIUS * step],     remembered(ABSORB_BEYOND + n),
        s.zeta[state + n * state_step], f.out[then],
        point_gain_at(&f, then),        layer_term < 0 ? 0 : a.layer_terms[layer_term + n * layer_term_step]};
  }
  /* Finishes the point and goes on to the next; `left` points are left. */
  __device__ __forceinline__ void iterate(int left) {
    const operands now = next[0];
    const ptrdiff_t here = at, here_state = state;
    const float *c = s.coefficients + i;
    u[2 * RADIUS] = now.u;
    renew(ABSORB_BEYOND, now.before);
    const int beyond = AXIS == 2 ? absorb_left(&a, {i, inward}, point.z) : 0;
#pragma unroll
    for (int n = 0; n + 1 < AHEAD; n++) next[n] = next[n + 1];
    i++, at += step, state += state_step;
    if (layer_term >= 0) layer_term += layer_term_step;
    /* before the stores, since compilers do not move loads above them */
    if (left >= AHEAD) load_ahead(AHEAD - 1);
    const float slope = absorb_slope(&s, psi[0], psi[1], psi[2], psi[3]);
    const float second = absorb_second(&s, AXIS == 1 ? a.field.wy : a.field.wz, u + RADIUS, 1);
    const float zeta = absorb_zeta(c[0], c[a.width], second, slope, now.zeta);
    s.psi_out[here_state] = psi[0];
    s.zeta[here_state] = zeta;
#pragma unroll
    for (int k = 1; k <= ABSORB_BEYOND; k++)
      if (k <= beyond) s.psi_out[here_state + k * state_step] = psi[k];
    float sum = now.layer_term;
    if (AXIS == 2 && absorb_locate(&a.axis[1], point.y).inward) sum += absorb_along(&a, 1, point);
    sum += slope + zeta;
    revise(a.field, images, point, here, with_layer_term<TERMS>(a.field, here, now.medium, sum, now.out));
    (AXIS == 1 ? point.y : point.z) += inward;
#pragma unroll
    for (int k = 0; k < 2 * RADIUS; k++) u[k] = u[k + 1];
#pragma unroll
    for (int k = 0; k < ABSORB_BEYOND; k++) psi[k] = psi[k + 1];
  }
};

/* Updates `count` points of a layer, the first at p. */
template <int AXIS, bool TERMS>
static __device__ __forceinline__ void revisit_layer(const absorb_args &a, bool images, int count,
                                                     const absorb_point &p) {
  revisit<AXIS, TERMS> r(a, images, count, p);
  for (int left = count - 1; left >= 0; left--) r.iterate(left);
}

/* Rows [y, y_end) of a plane, at most ROWS. */
struct row_group {
  int z, y, y_end;
};

/* A lane's points, one of each row, and their operands. */
struct row_lane {
  const absorb_args &a;
  const row_group &rows;
  int x, layers; /* layers: points of a row of the state */
  bool reads, has_psi, owns;
  int pitch;                       /* of the layer terms */
  ptrdiff_t at, state, layer_term; /* of the first row's point */
  float psi_a, psi_b, zeta_a, zeta_b;
  float u[ROWS], before[ROWS], memory[ROWS];

  /* `first`: the segment's first point, from the outer edge. */
  __device__ __forceinline__ row_lane(const absorb_args &args, const row_group &group, int first, int inward)
      : a(args), rows(group) {
    const kernel_args &f = a.field;
    const absorb_axis &s = a.axis[0];
    const float *c = s.coefficients;
    const int lane = (int)(threadIdx.x % LANES), k = first + lane - RADIUS,
              end = min(first + SEGMENT, a.width);
    reads = k < end + RADIUS, has_psi = lane >= RADIUS && k < end + ABSORB_BEYOND,
    owns = lane >= RADIUS && k < end;
    x = inward > 0 ? k : f.nx - 1 - k;
    layers = s.lo + s.hi;
    at = (ptrdiff_t)f.plane * rows.z + (ptrdiff_t)f.pitch * rows.y + x;
    state = ((ptrdiff_t)rows.z * f.ny + rows.y) * layers +
            absorb_stored(&s, a.width, {0, inward}, has_psi ? k : 0);
    has_psi = has_psi && k < a.width; /* psi past the layer is 0, and not read */
    const absorb_layer_terms layer_terms = absorb_layer_terms_of(&s, a.width, f.nz);
    pitch = layer_terms.pitch;
    layer_term = absorb_layer_term_at(&layer_terms, f.ny, inward < 0, {rows.z, rows.y, x});
    psi_a = has_psi ? c[2 * a.width + k] : 0, psi_b = has_psi ? c[3 * a.width + ABSORB_BEYOND + k] : 0;
    zeta_a = owns ? c[k] : 0, zeta_b = owns ? c[a.width + k] : 0;
  }
  __device__ __forceinline__ bool exists(int j) const { return rows.y + j < rows.y_end; }
  /* Is row j's point in no other layer? */
  __device__ __forceinline__ bool finishes(const layer_region &s, int j) const {
    const int y = rows.y + j;
    return owns && rows.z >= s.z.lo && rows.z < s.z.hi && y >= s.y.lo && y < s.y.hi;
  }
  __device__ __forceinline__ ptrdiff_t point(int j) const { return at + j * (ptrdiff_t)a.field.pitch; }
  __device__ __forceinline__ ptrdiff_t value(int j) const { return state + j * layers; }
  __device__ __forceinline__ float *layer_term_at(int j) const {
    return a.layer_terms + (layer_term + j * (ptrdiff_t)pitch);
  }

  __device__ __forceinline__ void load() {
    const absorb_axis &s = a.axis[0];
#pragma unroll
    for (int j = 0; j < ROWS; j++) {
      u[j] = exists(j) && reads ? a.field.in[point(j)] : 0;
      before[j] = exists(j) && has_psi ? s.psi_in[value(j)] : 0;
      memory[j] = exists(j) && owns ? *layer_term_at(j) : 0;
    }
  }
  /* d(psi)/ds, from the psi of all lanes of the warp. */
  __device__ __forceinline__ float slope_of(float own) const {
    float psi[ABSORB_BEYOND + 1] = {own};
#pragma unroll
    for (int r = 1; r <= ABSORB_BEYOND; r++) psi[r] = __shfl_down_sync(~0u, own, r);
    return absorb_slope(&a.axis[0], psi[0], psi[1], psi[2], psi[3]);
  }
  /* Computes the layer term of row j's point, and stores it and psi. All lanes of the warp call it. */
  __device__ __forceinline__ float renew(int j) {
    const absorb_axis &s = a.axis[0];
    float near[2 * RADIUS + 1];
    near[RADIUS] = u[j];
#pragma unroll
    for (int r = 1; r <= RADIUS; r++) {
      near[RADIUS - r] = __shfl_up_sync(~0u, u[j], r);
      near[RADIUS + r] = __shfl_down_sync(~0u, u[j], r);
    }
    const float psi = absorb_psi(psi_a, psi_b, a.difference, near + RADIUS, 1, before[j]);
    const float zeta_before = memory[j] - slope_of(before[j]), slope = slope_of(psi);
    const float zeta =
        absorb_zeta(zeta_a, zeta_b, absorb_second(&s, a.field.wx, near + RADIUS, 1), slope, zeta_before);
    const float layer_term = 0.0f + (slope + zeta);
    if (owns && exists(j)) s.psi_out[value(j)] = psi, *layer_term_at(j) = layer_term;
    return layer_term;
  }
};

/* Updates the points of a segment of these rows. */
template <bool TERMS>
static __device__ __forceinline__ void revisit_segment(const absorb_args &a, const layer_region &s,
                                                       row_lane &lane) {
  const kernel_args &f = a.field;
  const row_group &rows = lane.rows;
  float out[ROWS], medium[ROWS];
  lane.load();
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    const bool finishes = lane.finishes(s, j);
    out[j] = finishes ? f.out[lane.point(j)] : 0;
    medium[j] = finishes ? point_gain_at(&f, lane.point(j)) : 0;
  }
#pragma unroll
  for (int j = 0; j < ROWS; j++) {
    const float sum = lane.renew(j);
    if (lane.finishes(s, j))
      revise(f, s.images, {rows.z, rows.y + j, lane.x}, lane.point(j),
             with_layer_term<TERMS>(f, lane.point(j), medium[j], sum, out[j]));
  }
}

/* Updates rows of the layers along x. */
template <bool TERMS>
static __global__ void __launch_bounds__(BLOCK, 4)
    add_in_rows(const __grid_constant__ absorb_args a, const __grid_constant__ layer_region s) {
  const int row = (int)(blockIdx.x * WARPS + threadIdx.x / LANES) * ROWS;
  const row_group rows = {a.field.z_begin + (int)blockIdx.y, row, a.field.ny};
  if (row >= a.field.ny) return;
  for (int first = 0; first < a.width; first += SEGMENT)
    for (int inward = a.axis[0].lo ? 1 : -1; inward >= (a.axis[0].hi ? -1 : 1); inward -= 2) {
      row_lane lane(a, rows, first, inward);
      revisit_segment<TERMS>(a, s, lane);
    }
}

/* Updates the layers along y and z. */
template <bool TERMS>
static __global__ void __launch_bounds__(BLOCK, 3)
    add(const __grid_constant__ absorb_args a, const __grid_constant__ layer_region s) {
  const int lane = (int)(threadIdx.x % LANES), warp = (int)(threadIdx.x / LANES);
  unsigned block = blockIdx.x;
  if (block < s.along_z.blocks()) {
    const piece p(s.along_z, s.z, block);
    const int x = (int)(p.tile % s.tiles_x) * LANES + lane, y = (int)(p.tile / s.tiles_x) * WARPS + warp;
    if (x < a.field.nx && y < a.field.ny && p.count > 0)
      revisit_layer<2, TERMS>(a, s.images, p.count, {p.at, y, x});
    return;
  }
  const piece p(s.along_y, s.y, block - s.along_z.blocks());
  const int x = (int)(p.tile % s.tiles_x) * LANES + lane, z = (int)(p.tile / s.tiles_x) * WARPS + warp;
  if (x < a.field.nx && z < s.z.between() && p.count > 0)
    revisit_layer<1, TERMS>(a, s.images, p.count, {s.z.lo + z, p.at, x});
}

/* Cuts layers of `width` points as if there were two of them. Across them are tiles_x tiles of x and `others` points
 * of the third axis. */
static layers layers_of(const span &s, unsigned tiles_x, int others, int width) {
  layers l = {s.boxes(), tiles_x * blocks_for(others, WARPS), 1};
  while (2 * l.tiles * WARPS * l.pieces < ENOUGH && (int)l.pieces * PIECE < width) l.pieces++;
  return l;
}

static layer_region layer_region_of(const absorb_args &a) {
  const kernel_args &f = a.field;
  layer_region s = {};
  s.y = span_of(a.axis[1], 0, f.ny), s.z = span_of(a.axis[2], f.z_begin, f.z_end);
  s.tiles_x = blocks_for(f.nx, LANES);
  for (int face = 0; face < FACE_COUNT; face++) s.images = s.images || f.ghosts[face] != GHOST_KEEP;
  s.along_z = layers_of(s.z, s.tiles_x, f.ny, a.width);
  s.along_y = layers_of(s.y, s.tiles_x, s.z.between(), a.width);
  return s;
}

template <bool TERMS>
static int launch(absorb_args a, const layer_region &s, bool rows, cudaStream_t stream) {
  constexpr int GRID_MAX = 65535; /* planes that a launch may have */
  const unsigned blocks = s.along_z.blocks() + s.along_y.blocks();
  const int end = a.field.z_end;
  if (rows && a.axis[0].lo + a.axis[0].hi > 0)
    for (int z = a.field.z_begin; z < end; z += GRID_MAX) {
      const dim3 grid(blocks_for(a.field.ny, WARPS * ROWS),
                      (unsigned)(end - z < GRID_MAX ? end - z : GRID_MAX));
      a.field.z_begin = z;
      add_in_rows<TERMS><<<grid, BLOCK, 0, stream>>>(a, s);
    }
  if (blocks > 0) add<TERMS><<<blocks, BLOCK, 0, stream>>>(a, s);
  return (int)cudaGetLastError();
}

static int launch_of(const absorb_args &a, bool rows, void *stream) {
  const auto of_terms = terms_any(&a.field.terms) ? launch<true> : launch<false>;
  return of_terms(a, layer_region_of(a), rows, static_cast<cudaStream_t>(stream));
}

} // namespace absorbing

extern "C" int operation_absorb_cuda(const void *args, void *stream) {
  return absorbing::launch_of(*static_cast<const absorb_args *>(args), true, stream);
}

extern "C" int absorb_cuda_others(const absorb_args *args, void *stream) {
  return absorbing::launch_of(*args, false, stream);
}
