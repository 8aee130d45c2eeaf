/* The fingerprint of a run: a restart needs a checkpoint with the same one. */
#ifndef STENCIL_FINGERPRINT_H
#define STENCIL_FINGERPRINT_H

#include "io/checkpoint/checkpoint.h"
#include "shot.h"

/* The key of a run that removes dispersion from its traces. */
#define FINGERPRINT_DISPERSION "[time] dispersion"

/* Returns checkpoint_meta.keys of a shot that has done `step` steps; the caller frees it. NULL after a failure. */
char *fingerprint_make(const shot *s, int64_t step, error *e);

#endif
