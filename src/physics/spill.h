/* Traces that leave memory while the run goes on, for a partial file (io/partial_file.h), and come back at its end. They leave a
 * block of rows at a time, which is written while the next one is sampled. A run whose traces fit into memory does none of
 * this. All functions concern receivers that have been planned. */
#ifndef STENCIL_SPILL_H
#define STENCIL_SPILL_H

#include "receiver.h"

/* Decides what stays in memory. */
void spill_plan(receivers *r, receivers_span span);
/* Rows that the run adds to partial files, at least. */
int64_t spill_rows_on_disk(const receivers *r);
/* Frees the list of blocks. */
void spill_forget(receivers *r);

/* Steps from `step`, which is done, to the next one after which a block is due: 1 or more; INT64_MAX: never. */
int64_t spill_limit(const receivers *r, int64_t step);
/* Is it, of the rows that have come to memory (receivers_flush)? */
bool spill_due(const receivers *r);
/* Ends a block of these rows, which stay where they are until spill_write has written them: nothing is to be written when this
 * is called. Not collective. */
int spill_begin(receivers *r, error *e);
/* Writes the block that was ended last. For any one thread, with a communicator of the computing ranks for it. Collective,
 * agreed. */
int spill_write(receivers *r, MPI_Comm comm, error *e);

/* A checkpoint names the file, its blocks and their sum: numbers, of which there are so many for so many blocks. */
int64_t spill_count(int64_t blocks);
/* Makes the file durable, gives it a name of its own and fills `numbers`. As spill_write. */
int spill_tell(receivers *r, uint64_t run, int64_t blocks, int64_t *numbers, error *e);
/* Takes over the file that a checkpoint names, if it is the same file. Collective, agreed. */
int spill_adopt(receivers *r, const int64_t *numbers, int64_t count, error *e);

/* Makes the file hold the traces as they are to be written, all of them: one that checkpoints name stays as it is, and another
 * one takes its place. Frees the traces in memory. Collective, agreed. */
int spill_finish(receivers *r, error *e);
/* Removes the file, unless checkpoints name it: then r->spill.stays says where. Collective, agreed. */
int spill_end(receivers *r, error *e);

#endif
