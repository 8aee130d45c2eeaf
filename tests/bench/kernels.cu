/* bench_kernels [--json FILE] [--kernel NAME] [nx ny nz]     (default 768 768 768)
 * Every CUDA kernel of the program side by side on one device: speed as a fraction of the copy bandwidth measured
 * in the same run, time of a boundary launch, and whether the bits equal naive's on random data. Exit 1 if any differ.
 * What a launch takes of the machine: cuobjdump --dump-resource-usage.
 *
 * A device drifts by a percent or two while it is measured and dips by ten or more for tens of milliseconds where its
 * power limit lowers the clock, so the kernels alternate: in each of ROUNDS rounds the copy is measured and then each
 * kernel in turn, as the median of SAMPLES. Figures are medians over the rounds, which --json lists; the fraction of
 * copy is taken within a round. */
#include <algorithm>
#include <cjson/cJSON.h>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <vector>
#include "device/cuda_device.cuh"
#include "kernels/kernel.h"
#include "halo/slab.h"

#define CHECK(call)                                                                                          \
  do {                                                                                                       \
    const cudaError_t status_ = (call);                                                                      \
    if (status_ != cudaSuccess) {                                                                            \
      fprintf(stderr, "bench_kernels: %s: %s\n", #call, cudaGetErrorString(status_));                        \
      exit(4);                                                                                               \
    }                                                                                                        \
  } while (0)

enum { ROUNDS = 7, SAMPLES = 5, THIN = 4 /* planes of a boundary launch */, THIN_REPEATS = 20 };
/* Launches of a sample advance this many points, and are at least two: the host needs 5 to 20 us for the first one. */
static const double SAMPLE_POINTS = 1e9;
/* Bytes a point: u and, as fields, media and u of the step before are read, u is written. */
static double ideal_bytes(enum equation q) {
  return sizeof(float) * (2 + (EQUATIONS[q].levels > 1) + EQUATIONS[q].media);
}

struct bench {
  slab s;
  size_t floats;
  int repeats;                       /* of the whole slab, in one sample */
  float *in, *medium, *before, *out; /* device; before: what `out` holds when a kernel is checked */
  float *expected;                   /* what naive made of `before`, the padding of its allocation included */
  unsigned long long *differ;        /* device */
  cudaEvent_t start, stop;
  cudaStream_t stream;
  mutable block_counter counter; /* of the stream: launchers add to it */
};

struct result {
  const kernel *k;
  enum equation equation;
  bool supported;           /* by this device; else nothing below is set */
  unsigned long long wrong; /* floats whose bits differ from naive's */
  std::vector<double> gpts, thin,
      fraction; /* a round: Gpts/s; s of a boundary launch; fraction of that round's copy */
};

static double median(std::vector<double> v) {
  if (v.empty()) return 0;
  std::sort(v.begin(), v.end());
  return v[v.size() / 2];
}

/* Random in [-1, 1), from the position and `field` alone. */
__global__ void fill(float *u, size_t n, unsigned long long field) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x) {
    unsigned long long h = ((field << 40) + i + 1) * 0x9E3779B97F4A7C15ull;
    h = (h ^ (h >> 30)) * 0xBF58476D1CE4E5B9ull;
    h = (h ^ (h >> 27)) * 0x94D049BB133111EBull;
    u[i] = (float)(unsigned)(h >> 40) * 0x1p-23f - 1.0f;
  }
}

/* Float 0 is the first left ghost of a row; the padding behind the last right ghost may be anything. */
__global__ void count_differences(const float *a, const float *b, size_t n, size_t pitch, size_t used,
                                  unsigned long long *count) {
  for (size_t i = blockIdx.x * (size_t)blockDim.x + threadIdx.x; i < n; i += gridDim.x * (size_t)blockDim.x)
    if (i % pitch < used && __float_as_uint(a[i]) != __float_as_uint(b[i])) atomicAdd(count, 1ull);
}

/* Median seconds of one call of `work`, over SAMPLES samples of `repeats` calls, after one call to warm up. `work` gets
 * the number of the call. */
template <class Work> static double seconds_of(const bench &b, int repeats, const Work &work) {
  std::vector<double> seconds;
  CHECK(work(0));
  for (int i = 0; i < SAMPLES; i++) {
    float ms = 0;
    CHECK(cudaEventRecord(b.start, b.stream));
    for (int r = 0; r < repeats; r++) CHECK(work(r));
    CHECK(cudaEventRecord(b.stop, b.stream));
    CHECK(cudaEventSynchronize(b.stop));
    CHECK(cudaEventElapsedTime(&ms, b.start, b.stop));
    seconds.push_back(1e-3 * ms / repeats);
  }
  return median(seconds);
}

/* Arguments with weights that all differ, so that swapped neighbours change the answer. */
static kernel_args make_args(const bench &b, enum equation equation, int z_begin, int z_end) {
  kernel_args a = {};
  const size_t at = slab_offset(&b.s, 0, 0, 0);
  a.in = b.in + at;
  a.out = b.out + at;
  a.equation = equation;
  for (int i = 0; i < EQUATION_MEDIA; i++) a.medium[i] = b.medium + at;
  a.pitch = b.s.pitch;
  a.plane = b.s.plane;
  a.nx = b.s.nx;
  a.ny = b.s.ny;
  a.nz = b.s.nz;
  a.z_begin = z_begin;
  a.z_end = z_end;
  a.counter = &b.counter;
  a.center = 0.37f;
  for (int r = 1; r <= 4; r++) {
    a.wx[r] = 0.051f / (float)r;
    a.wy[r] = 0.047f / (float)r;
    a.wz[r] = 0.043f / (float)r;
  }
  return a;
}

static double points_of(const bench &b) {
  return (double)b.s.nx * b.s.ny * b.s.nz;
}

/* Runs naive: what the kernels of this equation must give with these arguments. */
static void expect(const bench &b, kernel_args a) {
  error e = {};
  const kernel *naive = NULL;
  if (kernel_find("naive", a.equation, BACKEND_CUDA, &naive, &e)) {
    fprintf(stderr, "bench_kernels: %s\n", e.text);
    exit(1);
  }
  a.out = b.expected + slab_offset(&b.s, 0, 0, 0);
  CHECK(cudaMemcpyAsync(b.expected, b.before, b.floats * sizeof(float), cudaMemcpyDeviceToDevice, b.stream));
  CHECK((cudaError_t)naive->cuda(&a, b.stream));
}

/* Runs a kernel and counts the floats (padding aside) that differ from what naive wrote. */
static unsigned long long differences(const bench &b, const kernel &k, const kernel_args &a) {
  unsigned long long wrong = 0;
  const size_t ghost = slab_offset(&b.s, -RADIUS, -RADIUS, -RADIUS), used = (size_t)b.s.nx + 2 * RADIUS;
  CHECK(cudaMemcpyAsync(b.out, b.before, b.floats * sizeof(float), cudaMemcpyDeviceToDevice, b.stream));
  CHECK(cudaMemsetAsync(b.differ, 0, sizeof wrong, b.stream));
  CHECK((cudaError_t)k.cuda(&a, b.stream));
  count_differences<<<1024, 256, 0, b.stream>>>(b.out + ghost, b.expected + ghost, b.floats - ghost,
                                                b.s.pitch, used, b.differ);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyAsync(&wrong, b.differ, sizeof wrong, cudaMemcpyDeviceToHost, b.stream));
  CHECK(cudaStreamSynchronize(b.stream));
  return wrong;
}

/* The first launch: does the device support the kernel, and are its bits right? */
static result first_look(const bench &b, const kernel &k, enum equation equation) {
  result r = {};
  r.k = &k, r.equation = equation;
  const kernel_args whole = make_args(b, equation, 0, b.s.nz);
  const cudaError_t status = (cudaError_t)k.cuda(&whole, b.stream);
  if (status == cudaErrorNotSupported) return r;
  CHECK(status);
  r.supported = true;
  r.wrong = differences(b, k, whole);
  return r;
}

/* Boundary launch `n` of THIN_REPEATS. They are spread over the slab, so none finds its planes in the cache. */
static kernel_args thin_args(const bench &b, enum equation equation, int n) {
  const int planes = std::min<int>(THIN, b.s.nz), z = (b.s.nz - planes) * n / (THIN_REPEATS - 1);
  return make_args(b, equation, z, z + planes);
}

/* One round: GB/s of a copy, then every kernel. */
static double measure_round(const bench &b, std::vector<result> *results) {
  const size_t bytes = b.floats * sizeof(float);
  const auto copy = [&](int) {
    return cudaMemcpyAsync(b.out, b.in, bytes, cudaMemcpyDeviceToDevice, b.stream);
  };
  const double copy_gbs = 2e-9 * (double)bytes / seconds_of(b, b.repeats, copy);
  for (result &r : *results) {
    if (!r.supported) continue;
    const kernel_args whole = make_args(b, r.equation, 0, b.s.nz);
    const auto launch = [&](const kernel_args &a) { return (cudaError_t)r.k->cuda(&a, b.stream); };
    r.gpts.push_back(1e-9 * points_of(b) / seconds_of(b, b.repeats, [&](int) { return launch(whole); }));
    r.fraction.push_back(r.gpts.back() * ideal_bytes(r.equation) / copy_gbs);
    r.thin.push_back(seconds_of(b, THIN_REPEATS, [&](int n) { return launch(thin_args(b, r.equation, n)); }));
  }
  return copy_gbs;
}

static void print_row(const result &r) {
  printf("%-8s %-13s", equation_name(r.equation), r.k->name);
  if (!r.supported) {
    printf(" not supported by this device\n");
    return;
  }
  printf(" %7.1f %7.1f %9.1f", median(r.gpts), 100 * median(r.fraction), 1e6 * median(r.thin));
  if (r.wrong)
    printf("  DIFFERS from naive at %llu floats\n", r.wrong);
  else
    printf("  equal\n");
}

static void print_table(const bench &b, const std::vector<result> &results, const std::vector<double> &copy) {
  printf("%d x %d x %d, copy %.0f GB/s (%.0f to %.0f in %d rounds)\n", b.s.nx, b.s.ny, b.s.nz, median(copy),
         *std::min_element(copy.begin(), copy.end()), *std::max_element(copy.begin(), copy.end()), ROUNDS);
  printf("%-8s %-13s %7s %7s %9s  %s\n", "equation", "kernel", "Gpts/s", "% copy", "us 4 pl.", "bits");
  for (const result &r : results) print_row(r);
}

static cJSON *to_json(const result &r) {
  cJSON *o = cJSON_CreateObject();
  cJSON_AddStringToObject(o, "kernel", r.k->name);
  cJSON_AddStringToObject(o, "equation", equation_name(r.equation));
  cJSON_AddBoolToObject(o, "supported", r.supported);
  if (!r.supported) return o;
  cJSON_AddNumberToObject(o, "bits_that_differ", (double)r.wrong);
  cJSON_AddNumberToObject(o, "gpts", median(r.gpts));
  cJSON_AddItemToObject(o, "gpts_rounds", cJSON_CreateDoubleArray(r.gpts.data(), (int)r.gpts.size()));
  cJSON_AddNumberToObject(o, "fraction_of_copy", median(r.fraction));
  cJSON_AddNumberToObject(o, "thin_seconds", median(r.thin));
  return o;
}

static bool write_json(const char *path, const char *command, const bench &b,
                       const std::vector<result> &results, const std::vector<double> &copy) {
  cudaDeviceProp gpu;
  int driver = 0;
  CHECK(cudaGetDeviceProperties(&gpu, 0));
  CHECK(cudaDriverGetVersion(&driver));
  cJSON *root = cJSON_CreateObject();
  const int size[3] = {b.s.nx, b.s.ny, b.s.nz};
  cJSON_AddStringToObject(root, "command", command);
  cJSON_AddStringToObject(root, "gpu", gpu.name);
  cJSON_AddNumberToObject(root, "multiprocessors", gpu.multiProcessorCount);
  cJSON_AddNumberToObject(root, "cuda_driver", driver);
  cJSON_AddNumberToObject(root, "cuda_runtime", CUDART_VERSION);
  cJSON_AddItemToObject(root, "grid", cJSON_CreateIntArray(size, 3));
  cJSON_AddNumberToObject(root, "thin_planes", std::min<int>(THIN, b.s.nz));
  cJSON_AddNumberToObject(root, "copy_gbs", median(copy));
  cJSON_AddItemToObject(root, "copy_gbs_rounds", cJSON_CreateDoubleArray(copy.data(), (int)copy.size()));
  cJSON *list = cJSON_AddArrayToObject(root, "results");
  for (const result &r : results) cJSON_AddItemToArray(list, to_json(r));
  char *text = cJSON_Print(root);
  cJSON_Delete(root);
  FILE *file = fopen(path, "w");
  bool good = text && file && fprintf(file, "%s\n", text) > 0;
  if (file) good = fclose(file) == 0 && good;
  free(text);
  if (!good) fprintf(stderr, "bench_kernels: cannot write %s\n", path);
  return good;
}

static void open_bench(bench *b, int nx, int ny, int nz) {
  error e = {};
  const slab_shape shape = {nx, ny, nz, {false, false}, {0, 0}};
  if (slab_init(&b->s, &shape, 0, 1, &e)) {
    fprintf(stderr, "bench_kernels: %s\n", e.text);
    exit(1);
  }
  cuda_fetch_little();
  b->floats = slab_floats(&b->s);
  b->repeats = (int)std::min(std::max(SAMPLE_POINTS / points_of(*b), 2.0), 100.0);
  for (float **field : {&b->in, &b->medium, &b->before, &b->out, &b->expected})
    CHECK(cudaMalloc(field, b->floats * sizeof(float)));
  CHECK(cudaMalloc(&b->differ, sizeof *b->differ));
  CHECK(cudaStreamCreate(&b->stream));
  CHECK(cudaMalloc(&b->counter.begun, sizeof *b->counter.begun));
  CHECK(cudaMemset(b->counter.begun, 0, sizeof *b->counter.begun));
  CHECK(cudaEventCreate(&b->start));
  CHECK(cudaEventCreate(&b->stop));
  fill<<<1024, 256, 0, b->stream>>>(b->in, b->floats, 0);
  fill<<<1024, 256, 0, b->stream>>>(b->medium, b->floats, 1);
  fill<<<1024, 256, 0, b->stream>>>(b->before, b->floats, 2);
  CHECK(cudaGetLastError());
}

static void parse(int argc, char **argv, int size[3], const char **json, const char **only) {
  int i = 1;
  for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2)
    if (strcmp(argv[i], "--json") == 0)
      *json = argv[i + 1];
    else if (strcmp(argv[i], "--kernel") == 0)
      *only = argv[i + 1];
    else
      break;
  bool good = argc == i || argc == i + 3;
  for (int n = 0; n < 3 && i < argc; n++, i++) {
    char *end = argv[i];
    const long value = strtol(argv[i], &end, 10);
    size[n] = (int)value;
    good = good && *end == '\0' && value >= 1 && value <= 1 << 20;
  }
  if (good) return;
  fprintf(stderr, "usage: bench_kernels [--json FILE] [--kernel NAME] [nx ny nz]\n");
  exit(1);
}

int main(int argc, char **argv) {
  int size[3] = {768, 768, 768};
  const char *json = NULL, *only = NULL;
  parse(argc, argv, size, &json, &only);
  bench b = {};
  open_bench(&b, size[0], size[1], size[2]);
  std::vector<result> results;
  for (int i = 0; i < kernel_table_size; i++) {
    const kernel &k = kernel_table[i];
    if (!k.cuda || (only && strcmp(only, k.name) != 0)) continue;
    for (int q = 0; q < EQUATION_COUNT; q++) {
      if (!kernel_does(&k, (enum equation)q, BACKEND_CUDA)) continue;
      expect(b, make_args(b, (enum equation)q, 0, b.s.nz));
      results.push_back(first_look(b, k, (enum equation)q));
    }
  }
  if (results.empty()) fprintf(stderr, "bench_kernels: no CUDA kernel is called %s\n", only);
  if (results.empty()) return 1;
  std::vector<double> copy;
  for (int round = 0; round < ROUNDS; round++) copy.push_back(measure_round(b, &results));
  print_table(b, results, copy);
  std::string command = argv[0];
  for (int i = 1; i < argc; i++) command += std::string(" ") + argv[i];
  bool good = !json || write_json(json, command.c_str(), b, results, copy);
  for (const result &r : results) good = good && !r.wrong;
  return !good;
}
