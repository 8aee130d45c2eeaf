/* A shot: its state, sources, receivers, outputs and steps, on an engine (engine/engine.h). The struct serves one shot
 * after another: memory is taken once and only grows, and nothing is tried or measured again. Several of them can be in
 * flight on one engine, on one rank, each with a device object of its own (`dev`): that gives it its own streams and
 * events, while pointers are good for every device object of the same GPU, or host, in this process. */
#ifndef STENCIL_SHOT_H
#define STENCIL_SHOT_H

#include "engine/engine.h"
#include "acquisition/receiver.h"
#include "survey/save_queue.h"
#include "base/stop.h"

/* What a survey tells of a shot. */
typedef struct shot_of_survey {
  const char *fingerprint; /* for its files */
  bool fresh;              /* no earlier run has left files there */
  enum on_stop_kind on_stop;
  int (*heard)(void *context); /* as in stop_watch; NULL: this rank hears nothing besides */
  void *context;
} shot_of_survey;

/* What a shot is made from. It owns nothing; all of it must outlive the shot. */
typedef struct shot_setup {
  const config
      *config; /* may differ from the engine's in source, sources, receivers, initial and paths of output */
  const char *command; /* the command line, for the saved files */
  run_log *log;
  const checkpoint *from;       /* where the shot continues; NULL: it begins with the initial field */
  const shot_of_survey *survey; /* NULL: a run of its own */
  const struct shot *lead; /* of the stack that this shot is a row of, open; NULL: it has steps of its own */
} shot_setup;

/* What a gradient took after the steps, in seconds; 0: there is none. */
typedef struct gradient_times {
  double again, back; /* steps done again, steps back */
  double sums;        /* all else: the residual, sums, the file */
} gradient_times;

/* What the step loop took on this rank. */
typedef struct loop_times {
  int64_t steps;
  double seconds;      /* between two barriers */
  double io_seconds;   /* part of them in which saving kept the steps waiting, */
  double wait_seconds; /* and of that the part in which they waited for the writer */
  double end;          /* MPI_Wtime() at the end */
  gradient_times gradient;
} loop_times;

struct shot {
  engine *engine; /* not owned, as is dev: the engine's, or as above */
  device *dev;
  const config *config; /* these five as in the setup */
  const char *command;
  run_log *log;
  const checkpoint *from;
  const shot_of_survey *survey;
  const shot *lead;  /* as in the setup, too */
  int row;           /* of the lead's stack */
  shot *const *rows; /* the shots of a stack, of which this is the lead (shot_stack); not owned */
  int row_count;     /* 0: it is none */
  error failed;      /* of a row: why it writes nothing */
  field_io io;
  transfer transfer; /* a copy of the engine's, for this shot's device and fields */
  halo halo;
  persistent persistent; /* open where the schedule is persistent */
  stepper stepper;
  wavefront front;
  absorb absorb;
  sources sources;
  receivers receivers;
  float *memory[SHOT_MEMORIES]; /* slab_floats of device memory each, owned; NULL where the run lacks it */
  float *map[MAP_FIELDS];       /* likewise, of maps */
  int maps_stream;              /* where they were looked at last */
  observers observers;          /* receivers, maps, saved fields, checks */
  save_queue saves;             /* what is saved of all this, and what was */
  loop_times loop;
  struct {
    bool saves;
    int64_t first, last; /* steps */
    double begin;        /* MPI_Wtime() */
  } under_way;           /* what shot_steps_begin noted */
  stop_watch stop;
  bool open, used; /* it has its memory; a shot has been there */
};

/* Places what the next shot has: sources, receivers, names of outputs. Takes no device memory, so that it can check a
 * shot, too. `s` is zero-initialised before the first one. setup->from must be a checkpoint of this run
 * (CHECKPOINT_DIFFERS). Collective over the engine's ranks, same error everywhere, as are the functions below.
 * shot_close it, also after a failure. */
int shot_plan(shot *s, engine *g, const shot_setup *setup, error *e);
/* Makes the lead, planned without sources and receivers, do the steps of `count` shots that were planned with it as theirs:
 * shot i is row i of the engine's stack (engine_setup). They need shot_begin before the lead's, and shot_finish after it;
 * they are 2D and of one initial field. Values that are not finite fail their own shot alone. */
int shot_stack(shot *lead, shot *const *rows, int count, error *e);
/* Takes what memory is missing for the planned shot; the first time it opens the halo, too. */
int shot_open(shot *s, error *e);
/* Fills all fields and all ghosts: with the initial field, or from the checkpoint. The first time it loads the medium,
 * chooses the kernel and measures the copy bandwidth. */
int shot_load(shot *s, error *e);
/* shot_load, with all checks and preparations of what is to be saved; saves the first field. */
int shot_begin(shot *s, error *e);
/* Does the steps that are left. With `saves` it also checks and writes as configured, and may stop early: STOPPED. */
int shot_steps(shot *s, bool saves, error *e);
/* The same in parts, for one of several shots under way: shot_steps_begin, then shot_pass until *over. */
int shot_steps_begin(shot *s, bool saves, error *e);
int shot_pass(shot *s, bool *over, error *e);
/* Begins to watch for what ends the shot early; the steps done do so themselves. */
int shot_watch(shot *s, error *e);
/* Creates the files that shot_finish writes, as far as that can be done while a shot, or the stack that it is in, steps; another
 * thread may call it then. Not collective. */
int shot_make_files(shot *s, error *e);
/* Saves what is due after the last step, except traces. */
int shot_finish(shot *s, error *e);
/* After it, does the extra steps that removing dispersion takes (exact_time.h); only traces and the way back see them.
 * Of a stack the lead does them. */
int shot_extra_steps(shot *s, error *e);
/* After them, saves the traces. */
int shot_finish_traces(shot *s, error *e);
/* Call it last, also after a failure: waits for the writer, and brings the lists of saved fields up to date. */
int shot_end(shot *s, error *e);
/* The shots that step as one: those of a stack, else the shot itself. */
static inline int shot_rows(const shot *s) {
  return s->row_count ? s->row_count : 1;
}
static inline shot *shot_row(shot *s, int row) {
  return s->row_count ? s->rows[row] : s;
}
/* The last step of a planned shot, or of the stack that it is in, with extra steps. */
static inline int64_t shot_last(const shot *s) {
  return s->engine->physics.steps + (s->lead ? s->lead : s)->receivers.time.extra;
}
/* The step that a shot, or the stack that it is in, has done. */
static inline int64_t shot_step(const shot *s) {
  return (s->lead ? s->lead : s)->stepper.step;
}
/* What the next step of the shot reads and writes, as it lies now. */
void shot_fields(const shot *s, field_set *f);
/* Brings own planes z .. of a field of this shot, or of its lead, to the host, as transfer_to_host. */
int shot_bring(const shot *s, float *field, int z, int planes, float *values, error *e);
/* Frees what *s owns. */
void shot_close(shot *s);

/* Can fields and checkpoints be written where they are to be? Better asked now than after a week of steps. */
int shot_check_paths(const shot *s, error *e);
/* Makes the folders of outputs, or of the report alone, which may be missing; with `dry` the log only tells. */
int shot_make_folders(const shot *s, bool files, bool dry, error *e);

#endif
