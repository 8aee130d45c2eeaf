/* Finds the shots of a survey that are done. For one process alone, not collective. */
#ifndef STENCIL_SHOT_FILES_H
#define STENCIL_SHOT_FILES_H

#include "space.h"

enum shot_found {
  SHOT_NEW,   /* none of its files is there, or they are this shot's but not all */
  SHOT_DONE,  /* all are there, whole, and its own */
  SHOT_OTHER, /* there are some of another shot */
};

/* Looks for the files of a shot of the configuration `c`, which saves the steps `which` and whose files have this attribute
 * `fingerprint`. */
enum shot_found shot_find(const config *c, const space_steps *which, const char *fingerprint);

#endif
