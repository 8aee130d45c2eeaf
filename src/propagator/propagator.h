/* One to n shots that step as one, on an engine (engine/engine.h): fields, layers, sources and receivers on the device,
 * maps, checks. In 3D n is 1. In 2D shot i is row i of every plane. A propagator serves one set of shots after another;
 * its memory only grows. Several propagators can run on an engine of one rank. Each then has its own device object
 * (`dev`), with its own streams and events. Pointers are valid for every device object of the same GPU, or host, in
 * this process. A propagator writes no file. */
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
  engine *engine; /* not owned, as is `dev`, which is the engine's or the propagator's own */
  device *dev;
  const config *config; /* the first shot's; without shots, the engine's */
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
  float *map[MAP_FIELDS];       /* the same for maps */
  int maps_stream;              /* the stream that computed maps last */
  observers observers;          /* the sampler, maps, and observers of callers */
  measure measure;              /* measures fields on the device */
  bool open, used;              /* the memory is there; shots have used it */
} propagator;

/* Reads an initial field, of step 0 or -1: passes this rank's planes in order to sink(to, z, planes, values).
 * Collective, agreed. */
typedef struct propagator_input {
  int (*read)(void *context, int step, field_sink *sink, void *to, error *e);
  void *context;
} propagator_input;

/* Plans `count` shots that begin with the same field and sample the same steps, without device memory. With `count` 0
 * there are no sources and no receivers. Zero-initialise `p` before the first shots. The shots must outlive `p`. Not
 * collective. Call propagator_close also after a failure. */
int propagator_plan(propagator *p, engine *g, acquisition *const *shots, int count, error *e);
/* Takes the memory that is missing; the first call also opens the halo. Collective over the engine's ranks, same error
 * everywhere, as are the functions below. */
int propagator_open(propagator *p, error *e);
/* Fills all fields and all ghosts with the initial field, and lets observers look at step 0. */
int propagator_start(propagator *p, const propagator_input *from, error *e);
/* Does the same from the state after `step` steps: `read` fills the saved fields (propagator_fields). */
int propagator_continue(propagator *p, int64_t step, int (*read)(void *context, error *e), void *context,
                        error *e);
/* Waits for all enqueued work, because the next shots overwrite the fields. */
void propagator_settle(const propagator *p);
/* Does the extra steps that removing dispersion needs (exact_time.h). Only traces and the adjoint see them; the step
 * count stays. */
int propagator_extra_steps(propagator *p, error *e);
/* Calls those observers that look between passes and are due after this step. */
int propagator_look(const propagator *p, error *e);
/* Frees what *p owns. */
void propagator_close(propagator *p);

/* The problem for which layers, sources and receivers are made. */
problem propagator_problem(const propagator *p);
/* The last step of planned shots, extra steps included. */
static inline int64_t propagator_last(const propagator *p) {
  return p->engine->physics.steps + p->sampler.extra;
}
/* The fields that the next step reads and writes. */
void propagator_fields(const propagator *p, field_set *f);
/* The field that files hold: the newest; with density, the pressure, which propagator_find_pressure computes from
 * it. */
float *propagator_saved(const propagator *p);
/* Enqueues the computation of that pressure on STREAM_OUTPUT, behind the steps. Not collective. */
int propagator_find_pressure(propagator *p, error *e);
/* Brings `planes` own planes, from z on, of a field of shot i to the host, dense. Not collective. */
int propagator_bring(const propagator *p, int i, float *field, int z, int planes, float *values, error *e);

/* Waits for the newest field, and computes the field that files hold. With other ranks, an error of this function or
 * the next two ends the job, since a device may fail alone. */
int propagator_complete(propagator *p, error *e);
/* Measures the saved form of the newest field, which must be complete, for all shots together. Sets f->step too. */
int propagator_measure(propagator *p, field_statistics *f, error *e);
/* Measures the field of shot i alone; with `histogram`, the histogram too. */
int propagator_measure_shot(propagator *p, int i, bool histogram, field_statistics *f, error *e);

#endif
