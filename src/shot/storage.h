/* Checks that a run's output fits on its disks. */
#ifndef STENCIL_STORAGE_H
#define STENCIL_STORAGE_H

#include "shot.h"

/* Approximate bytes of a saved field's file, without compression. */
double storage_field_bytes(const shot *s);
/* The steps whose fields a planned run saves, and the number of these fields. */
space_steps storage_steps(const shot *s);
double storage_fields(const space_steps *r);

/* Adds up the files of a planned run: saved fields, traces, maps, and checkpoints. Checkpoints count `keep` times and
 * once more for the one being written; only once if they are due by the clock alone. Replaced files free their bytes.
 * Compressed files count as nothing; it warns where they would not fit uncompressed. Exit 2 where the sum cannot fit;
 * the message names path, needed and available bytes. Paths on one file system add up. With `tell` it logs everything.
 * Collective, same error everywhere. */
int storage_check(const shot *s, const propagator *p, bool tell, error *e);

#endif
