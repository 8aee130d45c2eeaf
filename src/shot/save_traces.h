/* Saving traces that leave memory while the run goes on (physics/spill.h). */
#ifndef STENCIL_SAVE_TRACES_H
#define STENCIL_SAVE_TRACES_H

#include "shot.h"

/* Has them leave memory in time. */
void save_traces_observe(shot *s);
/* Call it last, also after a failure: their file goes, unless checkpoints name it, as the log says. Collective, agreed. */
int save_traces_end(shot *s, error *e);

#endif
