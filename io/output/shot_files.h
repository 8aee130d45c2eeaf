/* Finds the shots of a survey that are done. For one process alone, not collective. */
#ifndef STENCIL_SHOT_FILES_H
#define STENCIL_SHOT_FILES_H

#include "space.h"

enum shot_found {
  SHOT_NEW,   /* none of its files is there, or they are this shot's but not all */
  SHOT_DONE,  /* all its files are there, whole */
  SHOT_OTHER, /* some files are another shot's */
};

/* Looks for the files of a shot of the configuration `c`, which saves the steps `which`. A file is the shot's if its
 * attribute `fingerprint` is this one. */
enum shot_found shot_find(const config *c, const space_steps *which, const char *fingerprint);

#endif
