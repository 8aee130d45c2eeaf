/* heat: u_t = diffusivity lap u, forward in time; m = dt diffusivity. */
#ifdef vec
INLINE vec ISA(heat_gain)(const vec *m) {
  return m[0];
}
INLINE vec ISA(heat_next)(vec stencil, const vec *m, vec u, vec before, vec two) {
  (void)before, (void)two;
  return vec_fma(m[0], stencil, u);
}
#else
static inline double heat_factor(int medium, double dt, double value) {
  (void)medium;
  return dt * value;
}
static inline double heat_bound(double sum, const double most[]) {
  return 2 / (most[0] * sum);
}
#endif
