/* bench_kernels --ghosts: what ghosts that are images of points cost. Kernels run with rules that keep every ghost and
 * with others in turn, on 512^3 and 768^3 points; figures are medians over the rounds of the time one takes more than
 * the one that keeps, measured just before it. Included by kernels.cu alone. */
#ifndef STENCIL_BENCH_GHOSTS_CUH
#define STENCIL_BENCH_GHOSTS_CUH

struct rule_set {
  const char *name;
  unsigned char ghosts[FACE_COUNT];
};
enum { E = GHOST_EVEN, O = GHOST_ODD, W = GHOST_WRAP };
static const rule_set RULE_SETS[] = {{"x even", {E, E}},
                                     {"y even", {0, 0, E, E}},
                                     {"z even", {0, 0, 0, 0, E, E}},
                                     {"all even", {E, E, E, E, E, E}},
                                     {"all odd", {O, O, O, O, O, O}},
                                     {"all wrap", {W, W, W, W, W, W}}};

static kernel_args ruled_args(const bench &b, const rule_set &rules) {
  kernel_args a = make_args(b, 0, b.s.nz);
  memcpy(a.ghosts, rules.ghosts, sizeof a.ghosts);
  return a;
}

/* Floats, padding aside, of `k`'s answer that differ from naive's. */
static unsigned long long wrong_with(const bench &b, const kernel &k, const rule_set &rules) {
  const kernel_args a = ruled_args(b, rules);
  expect(b, k.equation, a);
  return differences(b, k, a);
}

/* Runs one kernel with every set of rules; returns how many floats are wrong. */
static unsigned long long compare_rules(const bench &b, const kernel &k) {
  const kernel_args keep = make_args(b, 0, b.s.nz);
  const auto seconds = [&](const kernel_args &a) {
    return seconds_of(b, b.repeats, [&](int) { return (cudaError_t)k.cuda(&a, b.stream); });
  };
  std::vector<double> kept;
  unsigned long long wrong = 0;
  std::string row;
  for (const rule_set &rules : RULE_SETS) {
    std::vector<double> more;
    wrong += wrong_with(b, k, rules);
    for (int round = 0; round < ROUNDS; round++) {
      kept.push_back(seconds(keep));
      more.push_back(100 * (seconds(ruled_args(b, rules)) / kept.back() - 1));
    }
    char cell[16];
    snprintf(cell, sizeof cell, " %8.2f", median(more));
    row += cell;
  }
  printf("%-8s %-13s %7.1f%s  %s\n", equation_name(k.equation), k.name, 1e-9 * points_of(b) / median(kept),
         row.c_str(), wrong ? "DIFFERS from naive" : "equal");
  return wrong;
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
