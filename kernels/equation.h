/* The equations and their media, as equations.def lists them. */
#ifndef STENCIL_EQUATION_H
#define STENCIL_EQUATION_H

#include <assert.h>
#include <stdbool.h>
#include <stddef.h>

enum equation {
#define EQUATION(constant, ...) EQUATION_##constant,
#include "equations.def"
  EQUATION_COUNT
};
enum medium {
#define MEDIUM(constant, ...) MEDIUM_##constant,
#include "equations.def"
  MEDIUM_COUNT
};

/* How many fields a step of an equation of so many time levels works on. A step overwrites the oldest, but never the
 * newest. */
#define EQUATION_STATES_OF(levels) ((levels) > 1 ? (levels) : 2)
enum { EQUATION_MEDIA = 1, EQUATION_STATES = 2 /* the most of any equation */ };
#define MEDIA_0       0
#define MEDIA_1(a)    1
#define MEDIA_2(a, b) 2
#define EQUATION(constant, name, levels, media, ...)                                                         \
  static_assert((media) <= EQUATION_MEDIA && EQUATION_STATES_OF(levels) <= EQUATION_STATES,                  \
                "too few media or states for " #name);
#include "equations.def"
#undef MEDIA_0
#undef MEDIA_1
#undef MEDIA_2

enum equation_flags {
  READS_U = 1, /* the update reads u at the point, besides the stencil */
  GIVEN_WEIGHTS =
      2, /* the weights are the configuration's, not the Laplacian's: there is no order or bound */
  HAS_SOURCES = 4,
  HAS_LAYERS = 8, /* faces may absorb */
  /* The equation may have kernel_terms. Without them it is u_tt = velocity^2 lap u, on which gradients and the
   * removal of dispersion rely. */
  HAS_TERMS = 16
};

typedef struct equation_row {
  const char *name, *label, *formula;
  int levels;
  unsigned flags;
  enum equation folded, rest;
  int media;
  enum medium medium[EQUATION_MEDIA];
} equation_row;

enum medium_sign { POSITIVE_SIGN, NOT_NEGATIVE_SIGN };
typedef struct medium_row {
  const char *name, *unit;
  enum medium_sign field; /* what its values must be */
} medium_row;

#ifdef __cplusplus
#define EQUATION_CONSTANT static constexpr
#else
#define EQUATION_CONSTANT static const
#endif
#define MEDIA_0                                                                                              \
  0, {                                                                                                       \
    MEDIUM_COUNT                                                                                             \
  }
#define MEDIA_1(a)                                                                                           \
  1, {                                                                                                       \
    MEDIUM_##a                                                                                               \
  }
#define MEDIA_2(a, b)                                                                                        \
  2, {                                                                                                       \
    MEDIUM_##a, MEDIUM_##b                                                                                   \
  }
EQUATION_CONSTANT equation_row EQUATIONS[EQUATION_COUNT] = {
#define EQUATION(constant, name, levels, media, flags, folded, rest, label, formula)                         \
  {#name, label, formula, levels, (unsigned)(flags), EQUATION_##folded, EQUATION_##rest, media},
#include "equations.def"
};
EQUATION_CONSTANT medium_row MEDIA[MEDIUM_COUNT] = {
#define MEDIUM(constant, name, unit, si, spelled, fallback, number, field, doc) {#name, unit, field##_SIGN},
#include "equations.def"
};
#undef MEDIA_0
#undef MEDIA_1
#undef MEDIA_2

static inline int equation_states(enum equation equation) {
  return EQUATION_STATES_OF(EQUATIONS[equation].levels);
}
static inline bool equation_has(enum equation equation, enum equation_flags flag) {
  return EQUATIONS[equation].flags & flag;
}
/* Does the equation have this medium, itself or in its terms? */
static inline int equation_medium_index(enum equation equation, enum medium medium);
static inline bool equation_knows(enum equation equation, enum medium medium) {
  return equation_medium_index(equation, medium) >= 0 ||
         (medium >= MEDIUM_DENSITY && equation_has(equation, HAS_TERMS));
}
/* The number of a medium among the equation's; -1: none. */
static inline int equation_medium_index(enum equation equation, enum medium medium) {
  for (int i = 0; i < EQUATIONS[equation].media; i++)
    if (EQUATIONS[equation].medium[i] == medium) return i;
  return -1;
}

#endif
