/* How the planes of all ranks come to rank 0, which writes them: through slots, a few blocks of whole planes in its
 * memory. Ranks of its node map the slots and fill them themselves; from other nodes blocks are received into them.
 * While one block is written the next ones are filled. */
#ifndef STENCIL_SLOTS_H
#define STENCIL_SLOTS_H

#include "field_io.h"

enum { SLOTS_MAX = 4 };

typedef struct slots {
  int count;      /* 0: not open; the same on every rank, as are */
  int planes;     /* a slot's room */
  size_t floats;  /* likewise */
  bool *mapped;   /* by rank: it fills the slots itself; owned */
  float *memory;  /* all slots on rank 0 and where they are mapped; else one block of this rank's own */
  size_t shared;  /* bytes of `memory` that rank 0 and those ranks see; 0: it is malloc's */
} slots;

/* For fields of `io`: slots of up to 4 MiB or io->block_bytes, whichever is less, but at least a plane. `shared`:
 * those of rank 0's node map them, where they can. Collective over io->comm, agreed. Close it also after a failure.
 * */
int slots_open(slots *s, const field_io *io, bool shared, error *e);
/* What is open of it goes. */
void slots_close(slots *s);

/* Both ends of the way: every rank's source, and rank 0's sink, which takes global planes. */
typedef struct slots_ends {
  field_source *source;
  void *from;
  field_sink *sink;
  void *to;
} slots_ends;

/* Passes all planes of all ranks in order to rank 0's sink. An error that a rank comes with, or that its source or
 * the sink returns, ends that soon: the rank keeps the error, rank 0 is told `*whole` = false, the others may hear
 * nothing of it. Agree afterwards. Collective over io->comm. */
int slots_pass(const slots *s, const field_io *io, const slots_ends *ends, bool *whole, error *e);

#endif
