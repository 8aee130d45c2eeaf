/* An initial field that is a file's, and whether the grid resolves it. */
#ifndef STENCIL_INITIAL_FILE_H
#define STENCIL_INITIAL_FILE_H

#include "shot.h"

/* Reads own planes of [initial] u = FILE and hands them on, as engine_read_field does. For a wave, warns where so much
 * energy is in waves of fewer than about 4 points per wavelength along an axis that traces show it. Collective,
 * agreed. */
int initial_file_read(const shot *s, field_sink *sink, void *context, error *e);

#endif
