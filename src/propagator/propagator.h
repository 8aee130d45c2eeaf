/* One to n shots that step as one, on an engine (engine/engine.h): fields, layers, sources and receivers on the device,
 * maps, checks. In 3D n is 1. In 2D shot i is row i of every plane. It serves one set of shots after another; its
 * memory only grows. Several propagators can run on an engine of one rank, each with a device object (`dev`) and so
 * with streams and events of its own. Pointers are valid for every device object of the same GPU, or host, in this
 * process. It writes no file. */
#ifndef STENCIL_PROPAGATOR_H
#define STENCIL_PROPAGATOR_H

#include "acquisition/injector.h"
#include "acquisition/sampler.h"
#include "engine/engine.h"
#include "measure.h"

/* The acquisition of a shot: its sources and receivers. */
typedef struct acquisition {
  const config
      *config;     /* not owned; may differ from the engine's in source, sources, receivers and initial */
  sources sources; /* planned, as are the next ones; owned */
  receivers receivers;
} acquisition;

typedef struct propagator {
  engine *engine; /* not owned, as is dev: the engine's, or as above */
  device *dev;
  const config *config; /* of the first shot, or, where there is none, the engine's */
  acquisition **shots;  /* owned, but not what it lists */
  int count;            /* of shots */
  transfer transfer;    /* a copy of the engine's, for this device and these fields */
  halo halo;
  persistent persistent; /* open where the schedule is persistent */
  stepper stepper;
  wavefront front;
  absorb absorb;
  injector injector;
  sampler sampler;
  float *memory[SHOT_MEMORIES]; /* slab_floats of device memory each, owned; NULL where the run lacks it */
  float *map[MAP_FIELDS];       /* likewise, of maps */
  int maps_stream;              /* where they were looked at last */
  observers observers;          /* the sampler, maps, and those of callers */
  measure measure;              /* of fields on the device */
  bool open, used;              /* it has its memory; shots have been there */
} propagator;

/* Reads an initial field, of step 0 or -1: passes this rank's planes in order to sink(to, z, planes, values).
 * Collective, agreed. */
typedef struct propagator_input {
  int (*read)(void *context, int step, field_sink *sink, void *to, error *e);
  void *context;
} propagator_input;

/* Makes ready for `count` shots that begin with the same field and sample the same steps; with `count` 0 it has no
 * sources and no receivers. All that needs no memory of the device. `p` is zero-initialised before the first ones. The
 * shots must outlive it. Not collective. propagator_close it, also after a failure. */
int propagator_plan(propagator *p, engine *g, acquisition *const *shots, int count, error *e);
/* Takes what memory is missing; the first time it opens the halo, too. Collective over the engine's ranks, same error
 * everywhere, as are the functions below. */
int propagator_open(propagator *p, error *e);
/* Fills all fields and all ghosts with the initial field, and lets observers look at step 0. */
int propagator_start(propagator *p, const propagator_input *from, error *e);
/* The same from the state after `step` steps: `read` fills the saved fields (propagator_fields). */
int propagator_continue(propagator *p, int64_t step, int (*read)(void *context, error *e), void *context,
                        error *e);
/* Waits for all enqueued work, because the next shots overwrite the fields. */
void propagator_settle(const propagator *p);
/* Does the extra steps that removing dispersion needs (exact_time.h). Only traces and the adjoint see them; the step
 * count stays. */
int propagator_extra_steps(propagator *p, error *e);
/* Calls the observers that look between passes, where they are due after this step. */
int propagator_look(const propagator *p, error *e);
/* Frees what *p owns. */
void propagator_close(propagator *p);

/* The problem that layers, sources and receivers of its fields are for. */
problem propagator_problem(const propagator *p);
/* The last step of planned shots, with extra steps. */
static inline int64_t propagator_last(const propagator *p) {
  return p->engine->physics.steps + p->sampler.extra;
}
/* The fields that the next step reads and writes. */
void propagator_fields(const propagator *p, field_set *f);
/* The field that files hold: the newest, or, with density, its pressure, which propagator_find_pressure computes. */
float *propagator_saved(const propagator *p);
/* Computes it: enqueued on STREAM_OUTPUT behind the steps. Not collective. */
int propagator_find_pressure(propagator *p, error *e);
/* Brings own planes z .. of a field of shot i to the host, dense. Not collective. */
int propagator_bring(const propagator *p, int i, float *field, int z, int planes, float *values, error *e);

/* Waits for the newest field, and makes what is saved of it. Where there are other ranks, an error of this function and of
 * the next two ends the job: a device may fail alone. */
int propagator_complete(propagator *p, error *e);
/* Measures what is saved of the newest field, which is complete: of all shots together; sets f->step, too. */
int propagator_measure(propagator *p, field_statistics *f, error *e);
/* Measures the field of shot i alone; with `histogram`, the histogram too. */
int propagator_measure_shot(propagator *p, int i, bool histogram, field_statistics *f, error *e);

#endif
