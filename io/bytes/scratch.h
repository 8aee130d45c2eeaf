/* An array that may be larger than memory. Its pages are a file without a name, which the system writes and reads as
 * it needs memory. The file goes with the process, however the process ends. All its disk space is taken at once, so
 * that writing into the array cannot fail. */
#ifndef STENCIL_SCRATCH_H
#define STENCIL_SCRATCH_H

#include <stddef.h>
#include "base/error.h"

typedef struct scratch {
  void *memory;  /* NULL: not open */
  size_t mapped; /* bytes mapped from a file; 0: plain memory */
} scratch;

/* Takes `bytes` of zeros: in the folder of files PATH.*, or, where that is missing, above it; with `path` NULL in
 * plain memory. Closes the array that was open. SCRATCH_SPACE where the disk is too full, FILE_WRITE where no file
 * can be created or mapped there, OUT_OF_MEMORY. Not collective; several threads may call it at once. */
int scratch_open(scratch *s, const char *path, size_t bytes, error *e);
void scratch_close(scratch *s);

#endif
