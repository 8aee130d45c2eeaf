/* bench_kernels [--tune] [nx ny nz]: speed of every CUDA kernel of the program on one device, and whether its
 * bits equal naive's on random data. --tune: also shapes of thread_scope that the program does not use, each
 * with several cuts in z. Exit 1 if any result differs. */
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>
#include "../../kernels/thread_scope.cuh"
#include "../../src/slab.h"

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    const cudaError_t status_ = (call);                                                                      \
    if (status_ != cudaSuccess) {                                                                            \
      fprintf(stderr, "bench_kernels: %s: %s\n", #call, cudaGetErrorString(status_));                        \
      exit(4);                                                                                               \
    }                                                                                                        \
  } while (0)

enum { TIMED = 11, THIN = 4 /* planes of a boundary launch */ };

struct bench {
  slab s;
  size_t floats;
  float *in, *medium, *before, *out; /* device; before: what `out` holds when a kernel is checked */
  float *expected;                   /* what naive made of `before`, the padding of its allocation included */
  unsigned long long *differ;        /* device */
  cudaEvent_t start, stop;
  cudaStream_t stream;
  double copy_gbs;
  bool failed;
};

/* Random in [-1, 1), from the position and `field` alone. */
__global__ void fill(float *u, size_t n, unsigned long long field) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
    unsigned long long h = ((field << 40) + i + 1) * 0x9E3779B97F4A7C15ull;
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ull;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBull;
    u[i] = (float)(unsigned)(h >> 40) * 0x1p-23f - 1.0f;
  }
}

__global__ void count_differences(const float *a, const float *b, size_t n, unsigned long long *count) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
    if (__float_as_uint(a[i]) != __float_as_uint(b[i])) atomicAdd(count, 1ull);
}

/* Median seconds of TIMED runs of `work` after one to warm up. */
template <class Work> static double median_seconds(const bench &b, const Work &work) {
  std::vector<float> ms(TIMED);
  CHECK(work());
  for (float &t : ms) {
    CHECK(cudaEventRecord(b.start, b.stream));
    CHECK(work());
    CHECK(cudaEventRecord(b.stop, b.stream));
    CHECK(cudaEventSynchronize(b.stop));
    CHECK(cudaEventElapsedTime(&t, b.start, b.stop));
  }
  std::sort(ms.begin(), ms.end());
  return 1e-3 * ms[TIMED / 2];
}

/* Arguments with weights that differ from one another, so that no two neighbours can be mixed up unseen. */
static kernel_args make_args(const bench &b, int z_begin, int z_end) {
  kernel_args a = {};
  const size_t at = slab_offset(&b.s, 0, 0, 0);
  a.in = b.in + at;
  a.out = b.out + at;
  a.medium = b.medium + at;
  a.pitch = b.s.pitch;
  a.plane = b.s.plane;
  a.nx = b.s.nx;
  a.ny = b.s.ny;
  a.z_begin = z_begin;
  a.z_end = z_end;
  a.center = 0.37f;
  for (int r = 1; r <= 4; r++) {
    a.wx[r] = 0.051f / (float)r;
    a.wy[r] = 0.047f / (float)r;
    a.wz[r] = 0.043f / (float)r;
  }
  return a;
}

/* Number of floats of the whole output allocation, ghosts and padding included, that differ from naive's. */
template <class Work> static unsigned long long differences(const bench &b, const Work &work) {
  unsigned long long count = 0;
  CHECK(cudaMemcpyAsync(b.out, b.before, b.floats * sizeof(float), cudaMemcpyDeviceToDevice, b.stream));
  CHECK(cudaMemsetAsync(b.differ, 0, sizeof count, b.stream));
  CHECK(work());
  count_differences<<<1024, 256, 0, b.stream>>>(b.out, b.expected, b.floats, b.differ);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyAsync(&count, b.differ, sizeof count, cudaMemcpyDeviceToHost, b.stream));
  CHECK(cudaStreamSynchronize(b.stream));
  return count;
}

/* One line: speed of the whole slab and of one boundary launch, and the verdict on its bits. */
template <class Launch>
static void line(bench *b, enum equation equation, const char *name, const Launch &launch) {
  const double IDEAL_BYTES[EQUATION_COUNT] = {8, 12,
                                              16}; /* a point: u, medium and u before read, u written */
  const kernel_args whole = make_args(*b, 0, b->s.nz), thin = make_args(*b, 0, std::min<int>(THIN, b->s.nz));
  const double points = (double)b->s.nx * b->s.ny * b->s.nz;
  const unsigned long long wrong = differences(*b, [&] { return launch(&whole); });
  const double seconds = median_seconds(*b, [&] { return launch(&whole); });
  const double thin_seconds = median_seconds(*b, [&] { return launch(&thin); });
  const double gpts = 1e-9 * points / seconds;
  printf("%-8s %-26s %8.1f Gpts/s %6.1f %% of copy  %d planes %7.1f us", equation_name(equation), name, gpts,
         100 * IDEAL_BYTES[equation] * gpts / b->copy_gbs, thin.z_end, 1e6 * thin_seconds);
  if (wrong) printf("  BITS DIFFER from naive at %llu floats", wrong);
  b->failed = b->failed || wrong;
}

static void resources(const void *function, int threads, size_t dynamic) {
  cudaFuncAttributes f;
  int blocks = 0;
  CHECK(cudaFuncGetAttributes(&f, function));
  CHECK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, threads, dynamic));
  printf("  %3d registers %3zu spilled %6zu shared %d x %d threads an SM", f.numRegs, f.localSizeBytes,
         f.sharedSizeBytes + dynamic, blocks, threads);
}

/* Says which shape the program's thread_scope takes for the whole slab. */
static void chosen_shape(const bench &b) {
  const kernel_args whole = make_args(b, 0, b.s.nz);
  star::selection s;
  CHECK(thread_scope::select(&whole, &s));
  resources(s.v->function, s.v->threads, s.v->shared);
  printf("  %s z %d", s.v->name, s.p.c.planes);
}

/* Lets naive write what the kernels of this equation are to give. */
static void expect(const bench &b, enum equation equation) {
  error e = {};
  const kernel *naive = NULL;
  if (kernel_find("naive", equation, BACKEND_CUDA, &naive, &e)) {
    fprintf(stderr, "bench_kernels: %s\n", e.text);
    exit(1);
  }
  kernel_args a = make_args(b, 0, b.s.nz);
  a.out = b.expected + slab_offset(&b.s, 0, 0, 0);
  CHECK(cudaMemcpyAsync(b.expected, b.before, b.floats * sizeof(float), cudaMemcpyDeviceToDevice, b.stream));
  CHECK((cudaError_t)naive->cuda(&a, b.stream));
}

/* A shape of thread_scope: cut by the cost model, then into fixed chunks. */
template <class S> static void tune(bench *b, const char *name) {
  const star::variant v = thread_scope::variant_of<S>(name);
  star::residency r = {};
  CHECK(star::query(v, &r));
  for (int planes : {0, 32, 64, 96, 128, 192, 256, 384, 1 << 20}) {
    char label[64];
    const auto cut_up = [&](const kernel_args *a) {
      const int nz = a->z_end - a->z_begin;
      return planes ? star::plan_chunks(v, r, a, star::ceil_div(nz, std::min(planes, nz)))
                    : star::plan_variant(v, r, a);
    };
    const kernel_args whole = make_args(*b, 0, b->s.nz);
    const star::plan p = cut_up(&whole);
    snprintf(label, sizeof label, "%s z %d%s", name, p.c.planes, planes ? "" : " (auto)");
    line(b, EQUATION_JACOBI, label,
         [&](const kernel_args *a) { return launch_plan(v, cut_up(a), a, b->stream); });
    if (!planes) resources(v.function, v.threads, v.shared);
    printf("  %.2f waves\n", (double)p.grid / (r.sms * r.blocks));
  }
}

template <int TX, int TY, int ROWS, int STAGES, int BLOCKS>
using shape = star::shape<EQUATION_JACOBI, TX, TY, ROWS, STAGES, BLOCKS>;

static void tune_all(bench *b) {
  tune<shape<128, 36, 3, 6, 1>>(b, "128x36 3 rows 6 stages");
  tune<shape<128, 36, 3, 4, 1>>(b, "128x36 3 rows 4 stages");
  tune<shape<128, 36, 3, 9, 1>>(b, "128x36 3 rows 9 stages");
  tune<shape<128, 32, 2, 6, 1>>(b, "128x32 2 rows 6 stages");
  tune<shape<128, 32, 4, 6, 1>>(b, "128x32 4 rows 6 stages");
  tune<shape<128, 16, 2, 6, 2>>(b, "128x16 2 rows 6 stages");
  tune<shape<128, 18, 3, 6, 2>>(b, "128x18 3 rows 6 stages");
  tune<shape<64, 32, 2, 6, 2>>(b, "64x32 2 rows 6 stages");
  tune<shape<64, 36, 3, 6, 2>>(b, "64x36 3 rows 6 stages");
  tune<shape<64, 16, 2, 4, 4>>(b, "64x16 2 rows 4 stages");
  tune<shape<64, 8, 1, 4, 4>>(b, "64x8 1 row 4 stages");
  tune<shape<32, 16, 1, 4, 4>>(b, "32x16 1 row 4 stages");
  tune<shape<32, 8, 1, 4, 8>>(b, "32x8 1 row 4 stages");
}

static void open_bench(bench *b, int nx, int ny, int nz) {
  error e = {};
  if (slab_init(&b->s, nx, ny, nz, 0, 1, RADIUS, &e)) {
    fprintf(stderr, "bench_kernels: %s\n", e.text);
    exit(1);
  }
  b->floats = slab_floats(&b->s);
  for (float **field : {&b->in, &b->medium, &b->before, &b->out, &b->expected})
    CHECK(cudaMalloc(field, b->floats * sizeof(float)));
  CHECK(cudaMalloc(&b->differ, sizeof *b->differ));
  CHECK(cudaStreamCreate(&b->stream));
  CHECK(cudaEventCreate(&b->start));
  CHECK(cudaEventCreate(&b->stop));
  fill<<<1024, 256, 0, b->stream>>>(b->in, b->floats, 0);
  fill<<<1024, 256, 0, b->stream>>>(b->medium, b->floats, 1);
  fill<<<1024, 256, 0, b->stream>>>(b->before, b->floats, 2);
  CHECK(cudaGetLastError());
  const size_t bytes = b->floats * sizeof(float);
  b->copy_gbs = 2e-9 * (double)bytes / median_seconds(*b, [&] {
                  return cudaMemcpyAsync(b->out, b->in, bytes, cudaMemcpyDeviceToDevice, b->stream);
                });
}

int main(int argc, char **argv) {
  const bool tuning = argc > 1 && strcmp(argv[1], "--tune") == 0;
  char **size = argv + (tuning ? 2 : 1);
  const int sizes = argc - (tuning ? 2 : 1);
  const int nx = sizes == 3 ? atoi(size[0]) : 768, ny = sizes == 3 ? atoi(size[1]) : 768;
  const int nz = sizes == 3 ? atoi(size[2]) : 768;
  if ((sizes != 0 && sizes != 3) || nx < 1 || ny < 1 || nz < 1) {
    fprintf(stderr, "usage: bench_kernels [--tune] [nx ny nz]\n");
    return 1;
  }
  bench b = {};
  open_bench(&b, nx, ny, nz);
  printf("%d x %d x %d, copy %.0f GB/s\n", nx, ny, nz, b.copy_gbs);
  for (int i = 0; i < kernel_table_size; i++) {
    const kernel &k = kernel_table[i];
    if (!k.cuda) continue;
    expect(b, k.equation);
    line(&b, k.equation, k.name, [&](const kernel_args *a) { return (cudaError_t)k.cuda(a, b.stream); });
    if (k.equation == EQUATION_JACOBI && strcmp(k.name, "thread_scope") == 0) chosen_shape(b);
    printf("\n");
  }
  expect(b, EQUATION_JACOBI);
  if (tuning) tune_all(&b);
  return b.failed;
}
