/* heat: u_t = diffusivity lap u, forward in time. */
static inline double heat_factor(int medium, double dt, double value) {
  (void)medium;
  return dt * value;
}

static inline double heat_bound(double sum, const double most[]) {
  return 2 / (most[0] * sum);
}
