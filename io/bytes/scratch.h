/* An array that may be larger than memory: pages of a file without a name, which the system writes and takes back as
 * it needs memory. The file is gone with the process, however that ends. It takes all of its disk at once: writing
 * into the array cannot fail. */
#ifndef STENCIL_SCRATCH_H
#define STENCIL_SCRATCH_H

#include <stddef.h>
#include "base/error.h"

typedef struct scratch {
  void *memory;  /* NULL: not open */
  size_t mapped; /* bytes of a file; 0: it is plain memory */
} scratch;

/* Takes `bytes` of zeros in the folder of files PATH.*, or, where that is missing, in the one above it; with `path`
 * NULL in plain memory. Closes what was open. SCRATCH_SPACE where the disk is too full, FILE_WRITE where no file can be
 * created or mapped there, OUT_OF_MEMORY. Not collective; several threads may call it at once. */
int scratch_open(scratch *s, const char *path, size_t bytes, error *e);
void scratch_close(scratch *s);

#endif
