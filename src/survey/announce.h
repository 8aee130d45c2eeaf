/* Log lines of a run before its first step and after its last. */
#ifndef STENCIL_ANNOUNCE_H
#define STENCIL_ANNOUNCE_H

#include "batch.h"
#include "report.h"

/* Logs a planned shot on an open propagator: equation, grid, time step, device, kernel, transport; with --verbose the
 * cores of each rank. Warns of probable mistakes, and repeats one warning of the devices. Collective; an error of MPI
 * is not agreed. */
int announce(const propagator *p, const shot *s, error *e);

/* The grid of the computation, in words, where it is larger than the grid given. */
enum { ANNOUNCE_OUTSIDE = 80 };
const char *announce_outside(const config *c, char text[ANNOUNCE_OUTSIDE]);

/* Logs where the checkpoint, which is intact, leaves no steps to do. */
void announce_left(const shot *s);

/* Exit 2 where the report's file cannot be written. A check now is better than a failure after a week of steps.
 * Collective, same error everywhere. */
int announce_check_report(const engine *g, error *e);

/* Gathers the measurements of all ranks for a batch whose loop is done. Rank 0 prints the table and writes the JSON
 * file, if asked. Collective, same error everywhere: exit 2 where the file cannot be written. */
int announce_report(const batch *b, error *e);

/* The times that a rank measured of its shots of a survey. */
typedef struct announce_shots {
  report_rank sum;         /* phases: of all steps */
  gradient_times gradient; /* of this rank's shots */
  int64_t steps;
  double stepping; /* s in which any shot of this rank did forward or adjoint steps */
  double seconds;  /* from the first shot to the last file */
  int shots;       /* shots that the survey has done in this run */
} announce_shots;

/* Adds a batch whose loop is done; `shots` of its shots are done. Not collective. */
void announce_add(announce_shots *all, const batch *b, int shots);
/* As announce_report, for a survey. `b`: any batch of this rank; `comm`: the ranks that compute. */
int announce_survey(const batch *b, const announce_shots *all, MPI_Comm comm, error *e);

/* Logs the names of the files written. Older checkpoints of the run may exist too. `report`: the name of the report, or
 * NULL. */
void announce_files(const shot *s, const char *report);

#endif
