/* What the log says of a run before its first step and after its last. */
#ifndef STENCIL_ANNOUNCE_H
#define STENCIL_ANNOUNCE_H

#include "report.h"
#include "shot/shot.h"

/* Logs what runs and where: equation, grid, time step, device, kernel, transport; with --verbose the cores of each
 * rank. Warns once of what devices warn of. Collective; an error of MPI is not agreed. */
int announce(const shot *s, error *e);

/* Logs the settings of the configuration that are ignored, and what is probably a mistake in it: above all that nothing
 * can happen, that the grid or the time step is too coarse for the waves, that wavelets do not fit the run. */
void announce_remarks(const shot *s);
/* Logs those of them that depend on a shot: on its sources, receivers and initial field; and why its traces keep
 * dispersion. */
void announce_shot(const shot *s);

/* Logs that the checkpoint, which is intact, leaves nothing to do, where it is so. */
void announce_left(const shot *s);

/* The waves that sources make. */
typedef struct announce_waves {
  double dominant, highest; /* Hz: the greatest of all sources (wavelet_use) */
  double spacing;           /* m: the largest one */
  double points;            /* per wavelength at `highest`, where waves are slowest */
  bool resolved;            /* these are enough */
} announce_waves;

/* False where no source makes any. */
bool announce_find_waves(const shot *s, announce_waves *w);

/* Exit 2 where the report's file cannot be written: better asked now than after a week of steps. Collective, same error
 * everywhere. */
int announce_check_report(const shot *s, error *e);

/* Gathers what all ranks measured of the run, whose loop is done; rank 0 prints the table and writes the JSON file, if
 * they are asked for, and notes in s->saves.written that it has. Collective, same error everywhere: exit 2 where
 * the file cannot be written. */
int announce_report(shot *s, error *e);

/* What a rank measured of the shots that it did for a survey. */
typedef struct announce_shots {
  report_rank sum;         /* phases: of all steps */
  gradient_times gradient; /* of this rank's shots */
  int64_t steps;
  double stepping; /* s in which a shot of this rank was doing steps, or steps back, */
  double seconds;  /* of these: from the first shot to the last file */
  int shots;       /* that the survey has done now */
} announce_shots;

/* Adds a shot whose loop is done, or a stack of so many `shots`. Not collective. */
void announce_add(announce_shots *all, const shot *s, int shots);
/* The same as announce_report, of a survey. `s`: any shot of this rank; the ranks of `comm` compute. */
int announce_survey(shot *s, const announce_shots *all, MPI_Comm comm, error *e);

/* Logs the names of the files written. Older checkpoints of the run may be there, too. */
void announce_files(const shot *s);

#endif
