/* Whether what a run is going to write fits on its disks. */
#ifndef STENCIL_STORAGE_H
#define STENCIL_STORAGE_H

#include "shot.h"

/* Bytes of a saved field's file, about, without compression. */
double storage_field_bytes(const shot *s);
/* Which fields a planned run saves, and how many. */
space_steps storage_steps(const shot *s);
double storage_fields(const space_steps *r);

/* Counts all that a planned run leaves: the saved fields, traces and maps, the checkpoints that
 * `every_steps` asks for, up to `keep` and the one being written; by the clock alone, one. Old files that are replaced
 * make room. What is compressed counts as nothing, and gets a warning where it would not fit as it is. Exit 2, naming
 * path, needed and available, where that cannot fit; paths of one file system add up. With `tell` the log says it all.
 * Collective, same error everywhere. */
int storage_check(const shot *s, const propagator *p, bool tell, error *e);

#endif
