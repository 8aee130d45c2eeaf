/* wave: u_tt = velocity^2 lap u, leapfrog in time; m = dt^2 velocity^2. */
#ifdef vec
INLINE vec ISA(wave_gain)(const vec *m) {
  return m[0];
}
INLINE vec ISA(wave_next)(vec stencil, const vec *m, vec u, vec before, vec two) {
  return vec_fma(m[0], stencil, vec_fma(two, u, -before));
}
#else
static inline double wave_factor(int medium, double dt, double value) {
  (void)medium;
  return dt * dt * value * value;
}
static inline double wave_bound(double sum, const double most[]) {
  return 2 / (most[0] * sqrt(sum));
}
#endif
