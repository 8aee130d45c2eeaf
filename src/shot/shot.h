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
  const checkpoint *from;  /* the shot continues from it; NULL: the shot begins with the initial field */
  const char *fingerprint; /* the shot's fingerprint in its survey, for its files; NULL: a single run */
  bool fresh;              /* no earlier run has left files under its paths, so no check is needed */
} shot_setup;

/* The files that a shot has completed. */
typedef struct written_files {
  int fields;
  int64_t first, last; /* steps of the fields */
  int64_t checkpoint;  /* step of the newest checkpoint; -1: none */
  bool receivers, maps, gradient;
} written_files;

/* The fields saved so far or given to the writer. */
typedef struct saved_series {
  int64_t *steps; /* owned; rank 0 only, as are the counts */
  int count;
  int whole;        /* how many, from the first on, have complete files */
  double listed_at; /* stop_watch.known when a list was last given to the writer, s */
  bool behind;      /* lists (series_write) lack some of the fields; set on every rank, as is `listed_at` */
  int64_t newest;   /* step of the last field, set on every rank; -1: none */
} saved_series;

typedef struct shot {
  acquisition at; /* where and when the shot is excited and recorded; owned */
  const engine *engine;
  shot_setup of;        /* its arguments */
  const config *config; /* as in `of`; so is `log` */
  run_log *log;
  field_io io;
  char *config_text; /* the effective configuration, owned */
  saved_series series;
  written_files written;
  checkpoint_mark self; /* marks the checkpoints that this shot writes */
  error failed;         /* why the shot writes nothing more; id 0: no failure */
} shot;

/* Places the shot's sources and receivers, and names its outputs. Zero-initialise `s` before the first shot.
 * setup->from must be a checkpoint of this run (CHECKPOINT_DIFFERS). Collective over the engine's ranks, same error
 * everywhere, as are the functions below. Call shot_close also after a failure. */
int shot_plan(shot *s, const engine *g, const shot_setup *setup, error *e);
/* Frees what *s owns. */
void shot_close(shot *s);

/* Can fields and checkpoints be written under their paths? A check now is better than a failure after a week of
 * steps. */
int shot_check_paths(const shot *s, error *e);
/* Makes the folders that outputs lack; without `files` only the report's. With `dry` it only logs them. */
int shot_make_folders(const shot *s, bool files, bool dry, error *e);

/* Warns of probable mistakes in a shot's sources, receivers and initial field. */
void shot_remarks(const shot *s);
/* Warns where the shot's traces keep dispersion. */
void shot_warn_of_time(const shot *s);
/* Logs the settings that are ignored, and warns of probable mistakes in what all shots share: outputs, medium. */
void shot_remarks_common(const shot *s);

/* The waves that sources make. */
typedef struct shot_waves {
  double dominant, highest; /* Hz: each is the greatest of all sources (wavelet_use) */
  double spacing;           /* m: the largest spacing */
  double points;            /* per wavelength at `highest`, where waves are slowest */
  bool resolved;            /* `points` are enough */
} shot_waves;

/* False where no source makes waves. */
bool shot_find_waves(const shot *s, shot_waves *w);

#endif
