/* bulk_tensor on the host: tensor maps, and a launch cut into waves of blocks that are all resident. */
#ifndef STENCIL_BULK_TENSOR_LAUNCH_CUH
#define STENCIL_BULK_TENSOR_LAUNCH_CUH

#include <algorithm>
#include "bulk_tensor.cuh"

namespace bulk_tensor {

/* cuTensorMapEncodeTiled is looked up at run time, so that the program also starts without a driver.
 * cudaErrorNotSupported: the kernel was not compiled with tensor copies, or the driver has none. */
struct encoder {
  CUresult (*encode)(CUtensorMap *, CUtensorMapDataType, cuuint32_t, void *, const cuuint64_t *,
                     const cuuint64_t *, const cuuint32_t *, const cuuint32_t *, CUtensorMapInterleave,
                     CUtensorMapSwizzle, CUtensorMapL2promotion, CUtensorMapFloatOOBfill) = nullptr;
  cudaError_t status;

  explicit encoder(const void *kernel) {
    const compiled of(kernel);
    void *function = nullptr;
    cudaDriverEntryPointQueryResult found = cudaDriverEntryPointSymbolNotFound;
    status = of.status;
    if (status == cudaSuccess && of.chip < HOPPER) status = cudaErrorNotSupported;
    if (status != cudaSuccess) return;
#if CUDART_VERSION >= 12050
    status = cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &function, 12000, cudaEnableDefault,
                                              &found);
#else
    status = cudaGetDriverEntryPoint("cuTensorMapEncodeTiled", &function, cudaEnableDefault, &found);
#endif
    if (status == cudaSuccess && found != cudaDriverEntryPointSuccess) status = cudaErrorNotSupported;
    encode = reinterpret_cast<decltype(encode)>(function);
  }
};

/* Floats from `first` on: nx of a row, rows `pitch` apart, planes `plane` apart. */
struct tensor {
  const float *first;
  size_t nx, ny, nz, pitch, plane;
};
struct box {
  int x, y, z = 1; /* points */
};

inline cudaError_t make_map(const encoder &e, CUtensorMap *map, const tensor &t, const box &b) {
  const cuuint64_t sizes[3] = {t.nx, t.ny, t.nz},
                   strides[2] = {t.pitch * sizeof(float), t.plane * sizeof(float)};
  const cuuint32_t boxes[3] = {(cuuint32_t)b.x, (cuuint32_t)b.y, (cuuint32_t)b.z}, steps[3] = {1, 1, 1};
  /* No promotion to larger L2 reads: these would fetch what a neighbour has fetched. */
  const CUresult r =
      e.encode(map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 3, const_cast<float *>(t.first), sizes, strides, boxes,
               steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
               CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
  return r == CUDA_SUCCESS ? cudaSuccess : cudaErrorInvalidValue;
}

/* u of planes [z_begin, z_end), with ghosts. */
inline tensor with_ghosts(const kernel_args &a, int z_begin, int z_end) {
  const ptrdiff_t plane = (ptrdiff_t)a.plane,
                  first = z_begin * plane - RADIUS * (plane + (ptrdiff_t)a.pitch + 1);
  const size_t ghosts = 2 * RADIUS, nx = (size_t)a.nx, ny = (size_t)a.ny, nz = (size_t)(z_end - z_begin);
  return {a.in + first, nx + ghosts, ny + ghosts, nz + ghosts, a.pitch, a.plane};
}

/* Makes the maps of a launch's operands, in the order of their places in a slot (shape). */
inline cudaError_t make_operand_maps(const encoder &e, maps *m, const box &tile, const kernel_args *a) {
  const kernel_terms &t = a->terms;
  const int media = EQUATIONS[a->equation].media;
  const float *from[OPERANDS_MOST];
  int count = 0;
  for (; count < media; count++) from[count] = a->medium[count];
  if (EQUATIONS[a->equation].levels > 1) from[count++] = a->before ? a->before : a->out;
  if (t.density) from[count++] = t.density;
  if (t.recalled) from[count++] = t.recalled, from[count++] = t.gradient;
  if (t.memories) from[count++] = t.loss;
  for (int l = 0; l < t.memories; l++) from[count++] = t.memory[l];
  const size_t nx = (size_t)a->nx, ny = (size_t)a->ny, nz = (size_t)(a->z_end - a->z_begin);
  const ptrdiff_t first = (ptrdiff_t)a->z_begin * (ptrdiff_t)a->plane;
  cudaError_t status = cudaSuccess;
  for (int k = 0; k < count && status == cudaSuccess; k++)
    if (from[k])
      status = make_map(e, &m->operand[k], {from[k] + first, nx, ny, nz, a->pitch, a->plane},
                        k < media && kernel_is_batch(a) ? box{tile.x, 1} : tile);
  return status;
}

inline cudaError_t make_maps(const encoder &e, maps *m, const stencil::variant &v, int tile_y,
                             const kernel_args *a) {
  const tensor u = with_ghosts(*a, a->z_begin, a->z_end);
  cudaError_t status = make_map(e, &m->plane, u, {v.tile_x, tile_y + (kernel_is_batch(a) ? 0 : 2 * RADIUS)});
  if (status == cudaSuccess) status = make_map(e, &m->side, u, {RADIUS, tile_y});
  return status == cudaSuccess ? make_operand_maps(e, m, {v.tile_x, tile_y}, a) : status;
}

template <class S, bool LAYERED> stencil::variant variant_of() {
  return {reinterpret_cast<const void *>(advance<S, LAYERED>),
          stencil::operands_class<S::equation>,
          S::tile_x,
          S::tile_y,
          S::threads,
          LAYERED ? S::shared_with_layer_terms : S::shared};
}

inline row_ends ends_of(const kernel_args *a, int tile_x, const layer_term_rows &layer_terms) {
  const int right = stencil::ceil_div(a->nx, tile_x) * tile_x + RADIUS, outside = 2 * RADIUS;
  return {layer_terms.lo ? -outside : 0, layer_terms.hi ? right + outside : right};
}

/* How a launch is cut into jobs. A job is a chunk of at most `planes` planes of a tile. `waves` launches of `size`
 * blocks do the jobs. A tile may have fewer rows than its shape, `tile_y`; then blocks have fewer warps. `close`: a
 * wave does not wait for the last blocks of the one before. Each wave must then fill the device, or a block on a free
 * SM would run ahead of its wave and spoil the counts of both waves. */
struct cutting {
  const stencil::variant *v;
  int tile_y, tiles_x, tiles, chunks, planes, jobs, waves, size;
  bool close;
  double cost; /* ns on an H200 */
};

constexpr int SHORT = 24; /* planes; blocks of chunks no longer than this do not keep step */

/* The cost model of a wave, in ns on an H200, fitted to launches with every cut forced (docs/EXPERIMENTS.md). The limit
 * is either memory, by the points that an SM moves, or the SM itself, by the points of its tile. */
struct prices {
  double moved;           /* a point */
  double plane, computed; /* a plane, a point of it */
  double shared;          /* a plane, times the blocks that an SM has on average */
  double extra;           /* the cost of the eight planes before and after a chunk, in planes */
};
constexpr prices LONG_CHUNKS[stencil::OPERANDS_CLASSES] = {{0.256, 380, 0.119, 0, 4.3},
                                                           {0.363, 820, 0.107, 0, 2.6},
                                                           {0.473, 1005, 0.134, 0, 1.4}},
                 SHORT_CHUNKS = {0, 470, 0.17, 160, 4.7}; /* limited by the SM alone */
constexpr double START = 900;

/* Threads of a row of a tile, whole warps. */
inline int row_threads(const stencil::variant &v) {
  return std::max(32, v.tile_x / stencil::PACK);
}

/* Rows that each group of row_threads owns, in a tile of full height. */
inline int owned_rows(const stencil::variant &v) {
  return v.tile_y * row_threads(v) / v.threads;
}

/* Blocks with five rows a thread have only 8 warps to hide latency. Lower tiles, with fewer warps, are no faster. */
inline bool few_warps(const stencil::variant &v) {
  return v.tile_x * v.tile_y > 4 * stencil::PACK * v.threads;
}

inline double wave_cost(const cutting &c, int together, double points, const residency &r) {
  const bool kept = c.planes > SHORT;
  const prices &p = LONG_CHUNKS[c.v->operands], &own = kept ? p : SHORT_CHUNKS;
  /* 12 warps share the schedulers worse than 8 or 16 do. */
  const double slower = few_warps(*c.v) ? 1.11 : c.v->threads == 384 ? 1.07 : 1;
  /* Blocks that do not keep step read halos from memory again, if each is alone on its SM and has many planes. */
  const double drift = kept ? 1 : slower * (r.blocks > 1 ? 1 : 1 + 0.008 * c.planes);
  const double halo = c.v->tile_x + 7.5 * c.tile_y;
  const double memory = (c.planes + p.extra) * p.moved * drift * together * (points + halo) / r.sms;
  const double plane = slower * (own.plane + own.computed * c.v->tile_x * c.tile_y);
  const double sm = (c.planes + own.extra) * (plane + own.shared * together / r.sms);
  const double both = kept ? 0.54 * (memory + sm) : 0; /* where the two are close, neither hides the other */
  return START + std::max({memory, sm, both});
}

inline cutting cut_up(const stencil::variant &v, const residency &r, const kernel_args *a, int tile_y,
                      int chunks) {
  const int nz = a->z_end - a->z_begin, resident = r.sms * r.blocks;
  cutting c = {};
  c.v = &v, c.tile_y = tile_y, c.tiles_x = stencil::ceil_div(a->nx, v.tile_x);
  c.chunks = chunks, c.planes = stencil::ceil_div(nz, chunks), c.waves = 1;
  c.tiles = c.tiles_x * stencil::ceil_div(a->ny, tile_y);
  c.jobs = c.tiles * chunks;
  const int waves = stencil::ceil_div(c.jobs, resident), together = stencil::ceil_div(c.jobs, waves);
  if (c.planes > SHORT) c.waves = waves;
  c.close = c.waves > 1 && 20 * c.jobs >= 19 * waves * resident;
  c.size = c.close ? resident : stencil::ceil_div(c.jobs, c.waves);
  c.cost = waves * wave_cost(c, together, (double)a->nx * a->ny / c.tiles, r);
  if (waves > 1 && c.tiles % together && together % c.tiles)
    c.cost *= 1.02; /* a wave then has parts of several chunks */
  /* Corrections: narrow tiles measured slower than the model, those of 16 warps only in short chunks or several
   * waves. */
  const bool warps_16 = v.threads == 512, kept = c.planes > SHORT;
  const double narrow = r.blocks > 1 ? 1.06 : warps_16 && waves == 1 ? 1 : 1.02;
  if (v.tile_x < 128) c.cost *= warps_16 && !kept ? 1.1 : narrow;
  if (few_warps(v)) c.cost *= 1.01;
  return c;
}

/* Blocks of a launch that runs beside the interior kernel. `resident` of them fit on a multiprocessor that the
 * interior kernel leaves free; `each` takes so many ns. */
struct concurrent_blocks {
  int blocks, resident;
  double each;
};

/* The cost of the blocks that only run after the interior kernel. They are faster where they are few. */
inline double cost_after(const cutting &c, const residency &r, const concurrent_blocks &f) {
  const double resident_blocks = f.resident * (r.sms - (double)c.size / r.blocks);
  /* that did not fit beside the last wave */
  const double left = f.blocks - resident_blocks * c.cost / (c.waves * f.each);
  return left > 0 ? f.each * 0.5 * (1 + left / (r.sms * f.resident)) : 0;
}

/* The cheapest cut of all shapes. It tries only chunk counts that fill their waves, or that leave an eighth or a
 * quarter of the multiprocessors to the concurrent launch. It tries lower tiles only where the launch is long enough to
 * repay the search. */
template <int N>
cutting choose(const stencil::choice<N> &shapes, const kernel_args *a, const concurrent_blocks &behind) {
  const int MAX_WAVES = 8, FEW = 1 << 20, nz = a->z_end - a->z_begin;
  const bool few_points = (double)a->nx * a->ny * nz < FEW;
  cutting best = {};
  for (int i = 0; i < N; i++) {
    const stencil::variant &v = shapes.shapes[i];
    const residency &r = shapes.limits[i];
    if (r.blocks == 0) continue;
    const bool small = r.blocks > 1; /* tiles whose halos cost too much unless launches are short */
    const int lowest = small || few_points || few_warps(v) ? v.tile_y : v.tile_y * 3 / 4;
    const int lower = kernel_is_batch(a) ? 1 : owned_rows(v); /* rows of a batch have no halos */
    for (int tile_y = v.tile_y; tile_y >= lowest; tile_y -= lower) {
      const int tiles = stencil::ceil_div(a->nx, v.tile_x) * stencil::ceil_div(a->ny, tile_y);
      for (int waves = 0, before = 0, chunks; waves <= MAX_WAVES; waves++)
        for (int eighths = waves == 1 && behind.blocks ? 2 : 0; eighths >= 0; eighths--, before = chunks) {
          chunks = std::min(std::max((waves * r.sms - eighths * r.sms / 8) / tiles, 1), nz);
          if (chunks == before) continue;
          cutting c = cut_up(v, r, a, tile_y, chunks);
          if (behind.blocks) c.cost += cost_after(c, r, behind);
          if (!best.v || (c.cost < best.cost && (!small || c.planes <= SHORT))) best = c;
        }
    }
  }
  return best;
}

/* The steps of jobs [first, end) together, by which their blocks advance the counter. */
inline unsigned steps_of(const cutting &c, const z_cut &z, int first, int end) {
  unsigned steps = 0;
  for (int job = first, next; job < end; job = next) {
    const int chunk = job / c.tiles;
    next = std::min(end, (chunk + 1) * c.tiles);
    steps += (unsigned)((next - job) * (z.count(chunk) + 2 * RADIUS));
  }
  return steps;
}

inline cudaError_t launch_waves(const cutting &c, const maps &m, const kernel_args *args,
                                const layer_term_rows &layer_terms, cudaStream_t stream) {
  block_counter *const counter = c.planes > SHORT ? args->counter : nullptr;
  cudaError_t status = cudaSuccess;
  const int nz = args->z_end - args->z_begin;
  const unsigned threads = (unsigned)(row_threads(*c.v) * stencil::ceil_div(c.tile_y, owned_rows(*c.v)));
  wave w = {};
  w.tiles_x = c.tiles_x, w.tiles = c.tiles, w.tile_y = c.tile_y;
  w.z = {nz / c.chunks, nz % c.chunks};
  w.progress = counter ? counter->begun : nullptr;
  w.ends = ends_of(args, c.v->tile_x, layer_terms), w.layer_terms = layer_terms;
  for (; status == cudaSuccess && w.first < c.jobs; w.first += c.size, w.beside = c.close) {
    if (counter) w.before = counter->total;
    void *parameters[] = {const_cast<kernel_args *>(args), const_cast<maps *>(&m), &w};
    const int end = std::min(w.first + c.size, c.jobs);
    status = launch_behind(c.v->function, dim3((unsigned)(end - w.first)), threads, c.v->shared, stream,
                           parameters);
    if (status == cudaSuccess && counter) counter->total += steps_of(c, w.z, w.first, end);
  }
  return status;
}

/* The layer terms along x (absorb_layer_terms), for make_layer_terms_map. */
struct layer_terms_array {
  layer_term_rows rows;
  const float *values;
  int ny, planes;
};

inline cudaError_t make_layer_terms_map(const encoder &e, maps *m, int tile_y, const layer_terms_array &t) {
  const size_t nx = (size_t)t.rows.pitch, ny = (size_t)t.ny;
  return make_map(e, &m->layer_terms, {t.values, nx, ny, (size_t)t.planes, nx, nx * ny},
                  {t.rows.pitch, tile_y});
}

/* Launches all but the images; a batch's blocks store theirs (stores_images). layer_terms: NULL unless LAYERED. */
template <bool LAYERED, class... Shapes>
cudaError_t launch_with(const kernel_args *args, const layer_terms_array *layer_terms,
                        const concurrent_blocks &behind, cudaStream_t stream) {
  static const stencil::choice<(int)sizeof...(Shapes)> shapes(variant_of<Shapes, LAYERED>()...);
  static const encoder e(shapes.shapes[0].function); /* once a process, which has one device */
  maps m = {};
  /* also asked for without planes, to learn whether the kernel can run */
  if (e.status != cudaSuccess) return e.status;
  if (shapes.status != cudaSuccess) return shapes.status;
  if (args->z_end <= args->z_begin) return cudaSuccess;
  const cutting c = choose(shapes, args, behind);
  cudaError_t status = make_maps(e, &m, *c.v, c.tile_y, args);
  if (status == cudaSuccess && layer_terms) status = make_layer_terms_map(e, &m, c.tile_y, *layer_terms);
  return status == cudaSuccess
             ? launch_waves(c, m, args, layer_terms ? layer_terms->rows : layer_term_rows{}, stream)
             : status;
}

/* Do the blocks of a launch of planes [begin, end) store all its images themselves (advance)? */
inline bool stores_images(const kernel_args &a, int begin, int end) {
  return kernel_is_batch(&a) && images::in_z_alone(a, begin, end);
}

template <class... Shapes> struct shapes {};

/* A cuda_kernel (kernel.h) with one of these shapes. */
template <class... Shapes> int launch(shapes<Shapes...>, const kernel_args *args, void *cuda_stream) {
  const cudaStream_t stream = (cudaStream_t)cuda_stream;
  const cudaError_t status = launch_with<false, Shapes...>(args, nullptr, {}, stream);
  return (int)(status == cudaSuccess && !stores_images(*args, args->z_begin, args->z_end)
                   ? images::launch(args, stream)
                   : status);
}

} // namespace bulk_tensor
#endif
