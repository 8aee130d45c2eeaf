/* The fields at the start, where they are computed rather than read. */
#ifndef STENCIL_INITIAL_H
#define STENCIL_INITIAL_H

#include "config/config.h"
#include "absorb.h"
#include "device/device.h"

/* Fills `values`, ny x nx, with global plane z of the configured initial field (not for INITIAL_FILE). A value depends
 * on its global position only, so the field is the same for every partition:
 *   gaussian   amplitude exp(-r^2 / (2 width^2)), r the distance from the centre, m; summed over its images along
 *              periodic axes, so that its total does not depend on the centre
 *   random     uniform in [-1, 1), a hash of seed and global index */
void initial_fill(const config *c, int z, float *values);

/* Computes the field one step before the first, of a wave at rest, from the initial one: step->out from step->in, whose
 * ghosts are up to date. `step`: the arguments of a step of this wave; scratch: own point (0, 0, 0) of a field for
 * V / 2, with density; layers: the step's, which it clears; or NULL. Waits until it is done. */
int initial_at_rest(device *dev, enum equation rest, const kernel_args *step, float *scratch, absorb *layers,
                    error *e);

#endif
