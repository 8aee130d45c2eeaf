/* Whether two configurations say the same, wherever their lists are. */
#ifndef STENCIL_TESTS_CONFIG_SAME_H
#define STENCIL_TESTS_CONFIG_SAME_H

#include <stdbool.h>
#include <string.h>
#include "config/config.h"

static inline bool config_same(const config *a, const config *b) {
  config x, y;
  memcpy(&x, a, sizeof x); /* padding too */
  memcpy(&y, b, sizeof y);
  memset(x.idle, 0, sizeof x.idle), memset(y.idle, 0, sizeof y.idle); /* not printed */
  x.sources = y.sources = NULL;
  x.receiver_positions = y.receiver_positions = NULL;
  if (memcmp(&x, &y, sizeof x) != 0) return false;
  const size_t sources = (size_t)a->source_count * sizeof *a->sources;
  const size_t positions = (size_t)a->receiver_count * sizeof *a->receiver_positions;
  return (sources == 0 || memcmp(a->sources, b->sources, sources) == 0) &&
         (positions == 0 || memcmp(a->receiver_positions, b->receiver_positions, positions) == 0);
}

#endif
