/* Log lines of a run before its first step and after its last. */
#ifndef STENCIL_ANNOUNCE_H
#define STENCIL_ANNOUNCE_H

#include "batch.h"
#include "report.h"

/* Logs a planned shot on an open propagator: equation, grid, time step, device, kernel, transport; with --verbose the
 * cores of each rank. Warns of probable mistakes, and once of the devices' warnings. Collective; an error of MPI is not
 * agreed. */
int announce(const propagator *p, const shot *s, error *e);

/* The grid of the computation, in words, where it is larger than the grid given. */
enum { ANNOUNCE_OUTSIDE = 80 };
const char *announce_outside(const config *c, char text[ANNOUNCE_OUTSIDE]);

/* Logs that the checkpoint, which is intact, leaves nothing to do, where it is so. */
void announce_left(const shot *s);

/* Exit 2 where the report's file cannot be written: better asked now than after a week of steps. Collective, same error
 * everywhere. */
int announce_check_report(const engine *g, error *e);

/* Gathers what all ranks measured of a batch, whose loop is done; rank 0 prints the table and writes the JSON file, if
 * they are asked for. Collective, same error everywhere: exit 2 where the file cannot be written. */
int announce_report(const batch *b, error *e);

/* The times that a rank measured of its shots of a survey. */
typedef struct announce_shots {
  report_rank sum;         /* phases: of all steps */
  gradient_times gradient; /* of this rank's shots */
  int64_t steps;
  double stepping; /* s in which a shot of this rank was doing steps, or steps back, */
  double seconds;  /* of these: from the first shot to the last file */
  int shots;       /* that the survey has done now */
} announce_shots;

/* Adds a batch whose loop is done, and so many `shots` of it. Not collective. */
void announce_add(announce_shots *all, const batch *b, int shots);
/* The same as announce_report, of a survey. `b`: any batch of this rank; the ranks of `comm` compute. */
int announce_survey(const batch *b, const announce_shots *all, MPI_Comm comm, error *e);

/* Logs the names of the files written. Older checkpoints of the run may be there, too. `report`: NULL, or that of the
 * report. */
void announce_files(const shot *s, const char *report);

#endif
