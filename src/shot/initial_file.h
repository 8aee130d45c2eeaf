/* Reads an initial field from a file, and checks whether the grid resolves it. */
#ifndef STENCIL_INITIAL_FILE_H
#define STENCIL_INITIAL_FILE_H

#include "shot.h"

/* Reads own planes of [initial] u = FILE and passes them to `sink`, as engine_read_field does. For a wave, warns of
 * energy in waves of fewer than about 4 points per wavelength along an axis, if it is enough to show in traces.
 * Collective, agreed. */
int initial_file_read(const shot *s, field_sink *sink, void *context, error *e);

#endif
