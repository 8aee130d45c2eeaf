/* jacobi: the stencil itself, with weights of the configuration. */
#ifdef vec
INLINE vec ISA(jacobi_gain)(const vec *m) {
  return m[0];
}
INLINE vec ISA(jacobi_next)(vec stencil, const vec *m, vec u, vec before, vec two) {
  (void)m, (void)u, (void)before, (void)two;
  return stencil;
}
#else
static inline double jacobi_factor(int medium, double dt, double value) {
  (void)medium, (void)dt, (void)value;
  return 0;
}
static inline double jacobi_bound(double sum, const double most[]) {
  (void)sum, (void)most;
  return INFINITY;
}
#endif
