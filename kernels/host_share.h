/* How the host kernels deal out their work over threads. */
#ifndef STENCIL_HOST_SHARE_H
#define STENCIL_HOST_SHARE_H

#include "kernel.h"

/* Points x in [0, nx), y in [y_begin, y_end), z in [z_begin, z_end). */
typedef struct host_share {
  int y_begin, y_end, z_begin, z_end;
} host_share;

/* First of `n` items that share `part` of `parts` owns; n for part == parts. */
static inline int host_share_begin(int n, int part, int parts) {
  return (int)((long long)n * part / parts);
}

/* Share `part` of `parts` of a launch: planes where there are plenty, rows of every plane where there are few
 * (a boundary launch has four). May be empty. */
static inline host_share host_share_of(const kernel_args *a, int part, int parts) {
  int planes = a->z_end - a->z_begin;
  host_share share = {0, a->ny, a->z_begin, a->z_end};
  if (planes >= 8 * parts || planes >= a->ny) {
    share.z_begin = a->z_begin + host_share_begin(planes, part, parts);
    share.z_end = a->z_begin + host_share_begin(planes, part + 1, parts);
  } else {
    share.y_begin = host_share_begin(a->ny, part, parts);
    share.y_end = host_share_begin(a->ny, part + 1, parts);
  }
  return share;
}

#endif
