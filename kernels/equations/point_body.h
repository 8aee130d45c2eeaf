/* The updates of a point of each equation's file, for one kind of number. Whoever includes this file has defined vec,
 * vec_*, ISA and INLINE. With a constant equation the switches vanish. */
#include "files.h"

INLINE vec ISA(next)(const enum equation equation, vec stencil, const vec *m, vec u, vec before, vec two) {
  switch (equation) {
#define EQUATION(constant, name, ...)                                                                        \
  case EQUATION_##constant:                                                                                  \
    return ISA(name##_next)(stencil, m, u, before, two);
#include "kernels/equations.def"
  default:
    return stencil;
  }
}

INLINE vec ISA(gain)(const enum equation equation, const vec *m) {
  switch (equation) {
#define EQUATION(constant, name, ...)                                                                        \
  case EQUATION_##constant:                                                                                  \
    return ISA(name##_gain)(m);
#include "kernels/equations.def"
  default:
    return m[0];
  }
}
