/* One shot of an engine (engine/engine.h): its sources, receivers, file names, and the fields saved so far. It has no
 * device memory: a propagator does its steps (propagator/propagator.h). */
#ifndef STENCIL_SHOT_H
#define STENCIL_SHOT_H

#include "base/log.h"
#include "io/checkpoint/checkpoint.h"
#include "propagator/propagator.h"

/* The arguments of a shot. It owns nothing; all must outlive the shot. */
typedef struct shot_setup {
  const config
      *config; /* may differ from the engine's in source, sources, receivers, initial and paths of output */
  const char *command; /* the command line, for the saved files */
  run_log *log;
  const checkpoint *from;  /* where the shot continues; NULL: it begins with the initial field */
  const char *fingerprint; /* of what its survey is made from, for its files; NULL: it is a run of its own */
  bool fresh;              /* no earlier run has left files where its own are to be: nobody need look */
} shot_setup;

/* The files that a shot has completed. */
typedef struct written_files {
  int fields;
  int64_t first, last; /* steps of the fields */
  int64_t checkpoint;  /* step of the newest one; -1: none */
  bool receivers, maps, gradient;
} written_files;

/* The fields saved so far or given to the writer. */
typedef struct saved_series {
  int64_t *steps; /* owned; rank 0 only, as are the counts */
  int count;
  int whole;        /* the first ones, whose files are complete */
  double listed_at; /* stop_watch.known when a list was last given to the writer, s */
  bool behind;      /* its lists (series_write) do not name all of them; known on every rank, as is `listed_at` */
  int64_t newest;   /* step of the last one, likewise; -1: none */
} saved_series;

typedef struct shot {
  acquisition at; /* where and when it is excited and recorded; owned */
  const engine *engine;
  shot_setup of;        /* its arguments */
  const config *config; /* these two are of it, too */
  run_log *log;
  field_io io;
  char *config_text; /* the effective configuration, owned */
  saved_series series;
  written_files written;
  checkpoint_mark self; /* whose the checkpoints are that it writes */
  error failed;         /* why it writes nothing more; id 0: nothing is wrong */
} shot;

/* Places what the shot has: sources, receivers, names of outputs. `s` is zero-initialised before the first one.
 * setup->from must be a checkpoint of this run (CHECKPOINT_DIFFERS). Collective over the engine's ranks, same error
 * everywhere, as are the functions below. shot_close it, also after a failure. */
int shot_plan(shot *s, const engine *g, const shot_setup *setup, error *e);
/* Frees what *s owns. */
void shot_close(shot *s);

/* Can fields and checkpoints be written where they are to be? Better asked now than after a week of steps. */
int shot_check_paths(const shot *s, error *e);
/* Makes the folders of outputs, or of the report alone, which may be missing; with `dry` the log only tells. */
int shot_make_folders(const shot *s, bool files, bool dry, error *e);

/* Warns of probable mistakes in a shot's sources, receivers and initial field. */
void shot_remarks(const shot *s);
/* Warns where its traces keep dispersion. */
void shot_warn_of_time(const shot *s);
/* Logs the settings that are ignored, and the same of what all shots have: outputs, medium. */
void shot_remarks_common(const shot *s);

/* The waves that sources make. */
typedef struct shot_waves {
  double dominant, highest; /* Hz: the greatest of all sources (wavelet_use) */
  double spacing;           /* m: the largest one */
  double points;            /* per wavelength at `highest`, where waves are slowest */
  bool resolved;            /* these are enough */
} shot_waves;

/* False where no source makes any. */
bool shot_find_waves(const shot *s, shot_waves *w);

#endif
