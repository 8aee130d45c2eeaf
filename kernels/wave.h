/* wave: u_tt = velocity^2 lap u, leapfrog in time. */
static inline double wave_factor(int medium, double dt, double value) {
  (void)medium;
  return dt * dt * value * value;
}

static inline double wave_bound(double sum, const double most[]) {
  return 2 / (most[0] * sqrt(sum));
}
