/* Samples the field at the receivers of one shot, or of a batch. Rows of samples go from buffers on the device to each
 * shot's traces. */
#ifndef STENCIL_SAMPLER_H
#define STENCIL_SAMPLER_H

#include "observer.h"
#include "receiver.h"

/* A sampler's device memory, which serves one set of shots after another. */
typedef struct sampler_memory {
  device_buffer places, buffer, staging;
  device_event *copied[2]; /* a half of the buffer has come to the host */
} sampler_memory;

/* Rows of samples are copied from the device to the host in buffers. */
typedef struct sampler {
  device *dev;         /* not owned */
  const slab *slab;    /* of the field, whose planes have the rows of each shot in order; not owned */
  receivers **of;      /* of each shot; the list is owned, the receivers are not */
  int count, rows;     /* shots; rows of a plane that belong to one shot */
  int local;           /* receivers of this rank */
  int64_t every;       /* steps; 0: there are no receivers */
  int64_t first_step;  /* the first step that is sampled */
  int64_t all;         /* samples of the whole run, with those of extra steps */
  int64_t extra;       /* steps after the last one of the run: the most of any shot (exact_time.extra) */
  int64_t taken;       /* samples so far, buffer included, and those before first_step */
  sampler_memory kept; /* owned; these are in it: */
  point_weights *places;
  float *buffer, *staging; /* two halves of buffer_rows x local each; device, pinned */
  int64_t buffer_rows;     /* rows that a half holds */
  int64_t buffered;        /* rows in the half being filled, the last ones taken */
  int half;                /* the half being filled; the other one is being copied to the traces */
  int64_t moving, moved;   /* rows of the other half; how many of them the traces have */
  const float *sigma;      /* of the device: sample_args; not owned, as is the next one */
  const surplus_layers *adjoint_layers; /* samples are of nu, from mu; NULL: they are of the field */
  int stream;                           /* runs the sampling and its copies: the halo's */
} sampler;

/* Prepares for the receivers of `count` shots that sample the same steps. Each shot was planned on its own slab; shot i
 * has rows i * rows and following of on->slab. All shots get the most extra steps that one of them takes. The receivers
 * must outlive `r`. `r` is zero-initialised, or was planned before and keeps its memory. Not collective. Call
 * sampler_close, also after a failure. */
int sampler_plan(sampler *r, receivers *const *of, int count, const problem *on, int rows, error *e);
/* Takes the memory that is missing, also for the traces. Not collective. */
int sampler_open(sampler *r, error *e);
/* Frees all memory; what is enqueued must be done. */
void sampler_close(sampler *r);

/* Bytes of device and of pinned memory that the sampler takes on this rank. */
void sampler_bytes(const sampler *r, size_t *on_device, size_t *pinned);

/* Is this step to be sampled? The same on every rank. */
bool sampler_due(const sampler *r, int64_t step);

/* Reserves the samples of the `steps` steps after `step`, except the last one, and fills *pass so that a wavefront
 * takes them. r->stream must wait for that pass before the next call of any of these functions. Call sampler_sample for
 * the last step. Not collective. Host device only, and only for one shot. */
int sampler_of_pass(sampler *r, int64_t step, int steps, wavefront_receivers *pass, error *e);

/* Enqueues on r->stream the samples of `field`: own point (0, 0, 0) of this step's field, whose ghosts are
 * filled. Does nothing unless the step is due. Steps must ascend. Full buffers are copied in the background. Not
 * collective. */
int sampler_sample(sampler *r, const float *field, int64_t step, error *e);

/* Waits for the copies under way and adds them to the traces, which then have all rows so far. Not collective. */
int sampler_flush(sampler *r, error *e);

/* The sampler as an observer: the first that a pass looks at. */
observer sampler_observer(sampler *r);

#endif
