/* bench_kernels --ghosts: what ghosts that are images of points cost, on 512^3 and 768^3 points. A kernel runs in turn
 * with rules that keep every ghost and with other rules. Figures are medians, over the rounds, of the extra time
 * against the run just before that keeps them. There is a row for each way to have images in x. Only kernels.cu
 * includes this. */
#ifndef STENCIL_BENCH_GHOSTS_CUH
#define STENCIL_BENCH_GHOSTS_CUH

#include "kernels/images.cuh"

struct rule_set {
  const char *name;
  unsigned char ghosts[FACE_COUNT];
};
enum { E = GHOST_EVEN, O = GHOST_ODD, W = GHOST_WRAP };
static const rule_set RULE_SETS[] = {{"x even", {E, E}},
                                     {"x odd", {O, O}},
                                     {"x wrap", {W, W}},
                                     {"y even", {0, 0, E, E}},
                                     {"z even", {0, 0, 0, 0, E, E}},
                                     {"all even", {E, E, E, E, E, E}},
                                     {"all odd", {O, O, O, O, O, O}},
                                     {"all wrap", {W, W, W, W, W, W}}};
enum { RULES = sizeof RULE_SETS / sizeof RULE_SETS[0] };

/* Ways to have images in x: stored after a kernel that keeps ghosts, face by face or both ends of rows together in
 * whole sectors; or in no field. */
enum way { FACES, SECTORS, VIRTUAL, WAYS };
static const char *const WAY_NAMES[WAYS] = {"faces", "sectors", "virtual"};

static bool can(enum way way, const kernel &k, const kernel_args &a) {
  if (way == VIRTUAL) return kernel_virtual_x(&k, &a);
  return way == FACES || images::gaps_fit(&a);
}

static cudaError_t run_way(const bench &b, const kernel &k, kernel_args a, enum way way) {
  if (way == VIRTUAL) {
    a.virtual_x = 1;
    return (cudaError_t)k.cuda(&a, b.stream);
  }
  kernel_args keep = a;
  memset(keep.ghosts, 0, sizeof keep.ghosts);
  cudaError_t status = (cudaError_t)k.cuda(&keep, b.stream);
  if (status == cudaSuccess && way == SECTORS) status = images::launch_gaps(&a, b.stream);
  if (status == cudaSuccess)
    status = images::launch_faces(&a, images::faces_of(&a, way == FACES ? FACE_X_LO : FACE_Y_LO), b.stream);
  return status;
}

static kernel_args ruled_args(const bench &b, const rule_set &rules) {
  kernel_args a = make_args(b, 0, b.s.nz);
  memcpy(a.ghosts, rules.ghosts, sizeof a.ghosts);
  return a;
}

/* Images in x of `field`, and nothing else. */
static void image_x(const bench &b, kernel_args a, float *field) {
  memset(a.ghosts + FACE_Y_LO, 0, FACE_COUNT - FACE_Y_LO);
  a.out = field + slab_offset(&b.s, 0, 0, 0);
  CHECK(images::launch_faces(&a, images::faces_of(&a, FACE_X_LO), b.stream));
}

/* The number of floats (padding aside) in which the output of `k` in this way differs from that of naive, face by
 * face. */
static unsigned long long wrong_in(const bench &b, const kernel &k, const rule_set &rules, enum way way) {
  error e = {};
  const kernel *naive = NULL;
  const kernel_args a = ruled_args(b, rules);
  const size_t bytes = b.floats * sizeof(float), ghost = slab_offset(&b.s, -RADIUS, -RADIUS, -RADIUS);
  unsigned long long wrong = 0;
  if (kernel_find("naive", k.equation, BACKEND_CUDA, &naive, &e)) exit(1);
  kernel_args expected = a;
  expected.out = b.expected + slab_offset(&b.s, 0, 0, 0);
  image_x(b, a, b.in);
  CHECK(cudaMemcpyAsync(b.expected, b.before, bytes, cudaMemcpyDeviceToDevice, b.stream));
  CHECK(cudaMemcpyAsync(b.out, b.before, bytes, cudaMemcpyDeviceToDevice, b.stream));
  CHECK(cudaMemsetAsync(b.differ, 0, sizeof wrong, b.stream));
  CHECK(run_way(b, *naive, expected, FACES));
  CHECK(run_way(b, k, a, way));
  if (way == VIRTUAL) image_x(b, a, b.out);
  count_differences<<<1024, 256, 0, b.stream>>>(b.out + ghost, b.expected + ghost, b.floats - ghost, b.s.pitch,
                                                (size_t)b.s.nx + 2 * RADIUS, b.differ);
  CHECK(cudaGetLastError());
  CHECK(cudaMemcpyAsync(&wrong, b.differ, sizeof wrong, cudaMemcpyDeviceToHost, b.stream));
  CHECK(cudaStreamSynchronize(b.stream));
  return wrong;
}

/* Runs one kernel with every set of rules in every way; returns how many floats are wrong. */
static unsigned long long compare_rules(const bench &b, const kernel &k) {
  const kernel_args keep = make_args(b, 0, b.s.nz);
  std::vector<double> kept, more[WAYS][RULES];
  unsigned long long wrong = 0, all_wrong = 0;
  for (int round = 0; round < ROUNDS; round++)
    for (int r = 0; r < RULES; r++)
      for (int way = 0; way < WAYS; way++) {
        const kernel_args a = ruled_args(b, RULE_SETS[r]);
        if (!can((enum way)way, k, a)) continue;
        kept.push_back(seconds_of(b, b.repeats, [&](int) { return (cudaError_t)k.cuda(&keep, b.stream); }));
        const double taken =
            seconds_of(b, b.repeats, [&](int) { return run_way(b, k, a, (enum way)way); });
        more[way][r].push_back(100 * (taken / kept.back() - 1));
      }
  for (int way = 0; way < WAYS; way++) {
    printf("%-8s %-13s %7.1f %-8s", equation_name(k.equation), k.name, 1e-9 * points_of(b) / median(kept),
           WAY_NAMES[way]);
    wrong = 0;
    for (int r = 0; r < RULES; r++) {
      if (can((enum way)way, k, ruled_args(b, RULE_SETS[r])))
        wrong += wrong_in(b, k, RULE_SETS[r], (enum way)way);
      if (more[way][r].empty())
        printf(" %8s", "-");
      else
        printf(" %8.2f", median(more[way][r]));
    }
    printf("  %s\n", wrong ? "DIFFERS" : "equal");
    all_wrong += wrong;
  }
  return all_wrong;
}

/* `name`: a kernel's, or NULL for the default one of each equation. Returns whether all bits are right. */
static bool compare_ghosts(const char *name) {
  static const int SIZES[] = {512, 768};
  unsigned long long wrong = 0;
  for (const int n : SIZES) {
    bench b = {};
    open_bench(&b, n, n, n);
    printf("%d x %d x %d, %% of time more than where all ghosts keep their value\n%-8s %-13s %7s", n, n, n,
           "equation", "kernel", "Gpts/s");
    printf(" %-8s", "way");
    for (const rule_set &rules : RULE_SETS) printf(" %8s", rules.name);
    printf("  bits\n");
    for (int q = 0; q < EQUATION_COUNT; q++) {
      error e = {};
      const kernel *k = NULL;
      if (kernel_find(name ? name : "auto", (enum equation)q, BACKEND_CUDA, &k, &e)) {
        fprintf(stderr, "bench_kernels: %s\n", e.text);
        exit(1);
      }
      wrong += compare_rules(b, *k);
    }
    close_bench(&b);
  }
  return !wrong;
}

#endif
