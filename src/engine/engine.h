/* An engine: all that a grid and its media fix. It outlives shots. Opened once, it serves one propagator after another;
 * nothing of a shot's state lies here. */
#ifndef STENCIL_ENGINE_H
#define STENCIL_ENGINE_H

#include <mpi.h>
#include "base/log.h"
#include "config/config.h"
#include "halo/transfer.h"
#include "io/files.h"
#include "physics/physics.h"
#include "step/step.h"

/* The arguments of an engine. It owns nothing; all must outlive the engine. */
typedef struct engine_setup {
  const config *config;
  const files *files;
  run_log *log;
  double dt_before; /* the time step of the run that is continued; 0: none */
  bool profile;     /* phases are measured */
  MPI_Comm beside;  /* all ranks that compute at the same time, the engine's included */
  int together;     /* 2D shots that step together, each in its row of every plane; <= 1: none do */
} engine_setup;

typedef struct engine {
  engine_setup setup;
  const config *config; /* as in the setup; so are the next two */
  const files *files;
  run_log *log;
  MPI_Comm comm; /* the computing ranks, in slab order */
  int rank, ranks;
  device_options options; /* of the device; local_ranks counts all ranks that compute on this node */
  device *dev;            /* owned */
  slab slab;              /* the slab in memory: it has a row for each shot of a batch */
  slab files_slab;        /* the slab of one shot */
  slab written;           /* the part of files_slab that files have (outside.h) */
  field_io io;            /* I/O of files_slab */
  physics physics;
  kernel_args args;             /* constants of every launch */
  float *medium[MEDIUM_FIELDS]; /* slab_floats of device memory, owned; NULL where the run lacks it */
  transfer transfer;
  dispersion_tables *transforms;          /* for all shots, owned */
  const kernel *kernel, *boundary_kernel; /* of steps; placeholders until engine_choose */
  int most;                               /* steps of a pass, at most; 1: no wavefront */
  int depth;                              /* steps of a pass, as chosen */
  bool chosen, loaded;                    /* engine_choose and engine_load are done */
  bool reloads;                           /* engine_reload has been called */
  double copy_gbs; /* copy bandwidth of this rank's device, GB/s read + write; 0: not measured yet */
} engine;

/* Decides partition, device, kernel, time step and mode of I/O, without memory for fields. Collective over
 * files->compute, same error everywhere, as are the functions below. Call engine_close also after a failure. */
int engine_plan(engine *g, const engine_setup *setup, error *e);
/* Exit 1 where the engine's schedule does not allow the shot's configuration. */
int engine_honours(const engine *g, const config *shot, error *e);
/* Takes the memory of a planned engine. */
int engine_open(engine *g, error *e);
/* Reads the media, once: later calls do nothing. */
int engine_load(engine *g, error *e);
/* Reads the media again; without a model (physics/model.h) their values may have changed. The time step dt stays: exit
 * 3 where it exceeds the media's bound. */
int engine_reload(engine *g, error *e);
/* Chooses the kernels and the steps of a pass, once: later calls do nothing. Measures steps of `s` (tune.h,
 * wavefront.h), which overwrite its fields; clears its layers. `front` is the wavefront of s. */
int engine_choose(engine *g, stepper *s, wavefront *front, error *e);
/* Bytes of the fields, media and layers of a shot and its engine on a slab. */
double engine_bytes(const config *c, const slab *s);
/* Makes the slab of rank `rank` of `ranks`. */
int engine_slab(slab *s, const config *c, int rank, int ranks, error *e);
/* The least available memory of the devices of setup->beside's ranks, bytes; 0: unknown. Collective over them. */
int engine_available(const engine_setup *setup, double *available, error *e);
/* Opens another device object of the engine's device, so that a shot can run beside others. The caller closes it. */
int engine_open_device(const engine *g, device **opened, error *e);
/* Frees what *g owns and closes its device; all shots must be closed. */
void engine_close(engine *g);

/* Reads this rank's planes of a field from a dataset. Collective, agreed. */
int engine_read_field(const engine *g, const char *dataset, enum quantity quantity, field_sink *sink,
                      void *context, error *e);
/* Writes fields from planes of a shot; own.io is the I/O of `written`. Collective, agreed. */
int engine_write_field(const engine *g, const field_meta *field, const char *path, request_own own, error *e);

#endif
