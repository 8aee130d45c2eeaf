/* The fingerprint of a run: what it must share with the checkpoint it goes on from. */
#ifndef STENCIL_FINGERPRINT_H
#define STENCIL_FINGERPRINT_H

#include "io/checkpoint.h"
#include "shot.h"

/* The key of a run that removes dispersion from its traces. */
#define FINGERPRINT_DISPERSION "[time] dispersion"

typedef struct fingerprint {
  checkpoint_key *keys; /* owned, as are their texts */
  int count, room;
} fingerprint;

/* Also to be freed after a failure. */
void fingerprint_make(fingerprint *f, const shot *s, error *e);
void fingerprint_free(fingerprint *f);

#endif
