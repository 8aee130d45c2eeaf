/* Maps: what the steps of a shot come to at each point: the greatest and the least value, the root of the mean square,
 * a discrete Fourier transform. */
#ifndef STENCIL_MAPS_H
#define STENCIL_MAPS_H

#include "shot/shot.h"

/* Adds the observer, where the configuration asks for maps. Exit 1 where no step of the run counts, or those that do are
 * too far apart for a frequency. */
int maps_observe(shot *s, error *e);
/* Do sums of frequencies end with the run? Then they depend on its steps; otherwise a longer run goes on with them. */
bool maps_end_with_run(const shot *s);
/* Waits for all looks so far: a checkpoint is about to copy the maps. */
int maps_settle(const shot *s, error *e);
/* Bytes of this rank's device memory, and of the file. */
double maps_bytes(const shot *s);
double maps_file_bytes(const config *c);

#endif
