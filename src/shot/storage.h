/* Checks that a run's output fits on its disks. */
#ifndef STENCIL_STORAGE_H
#define STENCIL_STORAGE_H

#include "shot.h"

/* Bytes of a saved field's file, about, without compression. */
double storage_field_bytes(const shot *s);
/* The fields that a planned run saves, and their number. */
space_steps storage_steps(const shot *s);
double storage_fields(const space_steps *r);

/* Adds up the files of a planned run: saved fields, traces, maps, and checkpoints. Checkpoints count `keep` times and
 * once more for the one being written; once, if they are due by the clock alone. Replaced files free their bytes.
 * Compressed files count as nothing; it warns where they would not fit uncompressed. Exit 2, naming path, needed and
 * available bytes, where the sum cannot fit; paths of one file system add up. With `tell` it logs everything.
 * Collective, same error everywhere. */
int storage_check(const shot *s, const propagator *p, bool tell, error *e);

#endif
