/* The fingerprint of a run: what it must share with the checkpoint it goes on from. */
#ifndef STENCIL_FINGERPRINT_H
#define STENCIL_FINGERPRINT_H

#include "io/checkpoint/checkpoint.h"
#include "shot.h"

/* The key of a run that removes dispersion from its traces. */
#define FINGERPRINT_DISPERSION "[time] dispersion"

/* checkpoint_meta.keys of a shot that has done `step` steps; to be freed. NULL after a failure. */
char *fingerprint_make(const shot *s, int64_t step, error *e);

#endif
