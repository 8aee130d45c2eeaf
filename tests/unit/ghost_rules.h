/* Random ghost rules for tests of kernels, and the fields that they require. kernels/ghosts.h finds a point's images;
 * this finds the point of a ghost. */
#ifndef STENCIL_TEST_GHOST_RULES_H
#define STENCIL_TEST_GHOST_RULES_H

#include "test.h"
#include "kernels/kernel.h"
#include "halo/slab.h"
#include <stdbool.h>

static inline int random_below(uint64_t *random, int n) {
  return (int)((test_random(random) + 1.0) / 2 * n);
}

/* Rules that the number of points along each axis allows. */
static inline void random_rules(kernel_args *a, uint64_t *random) {
  const int n[3] = {a->nx, a->ny, a->nz};
  for (int axis = 0; axis < 3; axis++) {
    bool wraps = n[axis] >= 4 && random_below(random, 4) == 0;
    for (int face = 2 * axis; face < 2 * axis + 2; face++) {
      int rule = n[axis] >= 5 ? random_below(random, 3) : GHOST_KEEP;
      a->ghosts[face] = (unsigned char)(wraps ? GHOST_WRAP : rule);
    }
  }
}

/* Point z y x of a slab as an index by axis: x, y, z. */
static inline size_t rules_offset(const slab *s, const int at[3]) {
  return slab_offset(s, at[2], at[1], at[0]);
}

/* Sets the points of planes [z_begin, z_end) that lie on a face of odd reflection to 0. */
static inline void rules_hold(const slab *s, const kernel_args *a, float *field) {
  const int n[3] = {a->nx, a->ny, a->nz};
  int at[3];
  for (at[2] = a->z_begin; at[2] < a->z_end; at[2]++)
    for (at[1] = 0; at[1] < n[1]; at[1]++)
      for (at[0] = 0; at[0] < n[0]; at[0]++)
        for (int face = 0; face < FACE_COUNT; face++)
          if (a->ghosts[face] == GHOST_ODD && at[face / 2] == (face % 2 ? n[face / 2] - 1 : 0))
            field[rules_offset(s, at)] = 0;
}

/* The index, along an axis of n points, of the point whose image is the depth-th ghost (1 .. 4) beyond a face. */
static inline int rules_source(enum ghost_rule rule, bool upper, int depth, int n) {
  if (rule == GHOST_WRAP) return upper ? depth - 1 : n - depth;
  return upper ? n - 1 - depth : depth;
}

/* Sets every ghost beyond `face` that is an image of a point of planes [z_begin, z_end). */
static inline void rules_image(const slab *s, const kernel_args *a, int face, float *field) {
  const int axis = face / 2, n[3] = {a->nx, a->ny, a->nz}, rule = a->ghosts[face];
  const int across = axis == 0 ? 1 : 0, along = axis == 2 ? 1 : 2;
  int from[3], to[3];
  if (rule == GHOST_KEEP) return;
  for (int depth = 1; depth <= 4; depth++)
    for (int i = 0; i < n[along]; i++)
      for (int j = 0; j < n[across]; j++) {
        from[along] = to[along] = i, from[across] = to[across] = j;
        from[axis] = rules_source((enum ghost_rule)rule, face % 2, depth, n[axis]);
        to[axis] = face % 2 ? n[axis] - 1 + depth : -depth;
        float value = field[rules_offset(s, from)];
        if (from[2] < a->z_begin || from[2] >= a->z_end) continue;
        field[rules_offset(s, to)] = rule == GHOST_ODD ? -value : value;
      }
}

/* Sets the ghosts of a field as a launch does that has computed own points of planes [z_begin, z_end). */
static inline void rules_apply(const slab *s, const kernel_args *a, float *field) {
  rules_hold(s, a, field);
  for (int face = 0; face < FACE_COUNT; face++) rules_image(s, a, face, field);
}

#endif
