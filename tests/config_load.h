/* A configuration from a file and overrides, as a single run has it. */
#ifndef STENCIL_TESTS_CONFIG_LOAD_H
#define STENCIL_TESTS_CONFIG_LOAD_H

#include <string.h>
#include "config/config.h"

static inline int config_load(config *c, const char *path, int count, const char *const overrides[],
                              error *e) {
  config_given *given;
  memset(c, 0, sizeof *c);
  if (!config_open(&given, path, NULL, count, overrides, e)) config_make(c, given, NULL, e);
  config_close(given);
  return e->id;
}

#endif
