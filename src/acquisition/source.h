/* Point sources of the wave equation: on which grid points of this slab they act, and how strongly at each step. */
#ifndef STENCIL_SOURCE_H
#define STENCIL_SOURCE_H

#include "kernels/host/wavefront.h"
#include "physics/absorb.h"
#include "physics/physics.h"
#include "source_set.h"

/* What sources take of the device. It serves one shot after another. */
typedef struct sources_memory {
  device_buffer tiles, shares, places, signal, ring, chi;
  device_event *brought; /* the signals computed last are on the device */
} sources_memory;

/* Signals that a caller gives, in the order of sources.key_of: sample i, of step last - i every, is in row i. Those of
 * other steps are 0. */
typedef struct sources_given {
  const float *values; /* rows x signals, not owned; NULL: the signals are the configuration's */
  int64_t last, every;
} sources_given;

/* The sources, each on the points around it (place.h). */
typedef struct sources {
  device *dev;      /* not owned */
  const slab *slab; /* not owned, as is the next one */
  dispersion_tables *transforms;
  double dt;              /* s */
  int64_t steps;          /* of the run */
  int count;              /* of sources: of [source.N], then of the set */
  double (*positions)[3]; /* count: x y z, m; owned */
  source_set set, *files; /* of [sources]; of the files of wavelets, owned */
  int file_count;
  int tile_count, share_count, place_count, signal_count;
  sources_memory kept;  /* owned; these three, `ring` and `signal` are in it: */
  source_tile *tiles;   /* sorted by z, y, x; NULL without places, as are the next two */
  source_share *shares; /* those of a tile in the order of the sources */
  point_weights *places;
  /* nz + 1: index of the first tile of each plane; owned. */
  int *plane_begin;
  wavelet *signals; /* of the sources that act on points here, owned; equal sources share one */
  float *
      *injected; /* of each signal, where dispersion is removed: what is added at each step in its place; */
  int64_t *injected_end; /* 0 from this step on; owned, as is injected; NULL: the signals themselves */
  int *alike;     /* of each signal: the first one that is equal to it, whose `injected` it shares; owned */
  int *signal_of; /* of each source that acts here, once it is open: the index of its signal; owned */
  wavelet_use *uses; /* of each [source.N], then of the set, if there is one; owned */
  enum interpolation_kind interpolation;
  int *
      key_of; /* of each signal, owned; of sources that are given (sources_plan_given): the index of its source */
  sources_given given;
  const absorb *
      layers; /* not owned; of sources that are given: layers that stretch what they add (stretch.h); NULL: none do */
  int stretched;          /* tiles that these reach */
  struct sources **parts; /* these are all of theirs (sources_join); the list is owned, they are not */
  int part_count;
  struct source_spread *planned; /* what sources_open puts on the device; owned */
  float *ring, *signal;          /* signals of the latest steps, pinned and device memory (sources_compute) */
  int64_t computed;              /* the first of the steps computed last; INT64_MIN: none */
  unsigned informed;             /* bit i: stream i has these on the device */
} sources;

/* Spreads the sources over the slab, reads wavelets from their files (exit 2 where it cannot) and studies them for the
 * steps of the run. Needs no device. `s` is zero-initialised, or was planned before: then it keeps its memory. Collective
 * over files->compute, same error everywhere. sources_close it, also after a failure. */
int sources_plan(sources *s, const problem *on, wavelet_steps steps, error *e);
/* What a source that acts on points of this rank adds in a step. */
float sources_injected(const sources *s, int source, int64_t step);
/* What strength = volume multiplies signals by: 1 over the cell of a grid point. */
double sources_strength(const config *c);
/* The same for `count` positions (m), none outside the grid, whose signals are given: before the first step the caller sets
 * s->given, and before sources_open s->layers. */
int sources_plan_given(sources *s, const problem *on, int count, const double (*positions)[3],
                       enum interpolation_kind how, error *e);
/* Makes `s` of all sources of `count` others, planned on a slab of one row: those of parts[i] act in row i of `slab`. They
 * must live as long as it does; it takes the list, which was allocated. */
int sources_join(sources *s, sources **parts, int count, device *dev, const slab *slab, error *e);
/* Exit 2 where a planned source's table has no value for any step of the run. The same answer on every rank. */
int sources_check(const sources *s, const config *c, error *e);
/* Hz: little of any signal lies above. Of planned sources. column: " of [sources] signals, column 3" where that is one of
 * several columns; else "". */
enum { SOURCES_COLUMN = 64 };
double sources_highest(const sources *s, const config *c, char column[SOURCES_COLUMN]);
/* Transforms the signals for so many steps, on so many threads, so that dispersion can be removed from traces
 * (exact_time.h). OUT_OF_MEMORY. Not collective. */
int sources_transform(sources *s, int64_t steps, int threads, error *e);
/* Copies the lists to the device, and takes what memory is missing: none without points. Not collective. */
int sources_open(sources *s, error *e);
/* Frees all memory; what is enqueued must be done. */
void sources_close(sources *s);

/* Is the source on a neumann face, or between it and the points next to it? */
bool sources_mirrored(const config *c, const source_config *s);

/* Bytes that sources_open takes on this rank. */
void sources_bytes(const sources *s, size_t *on_device, size_t *pinned);

/* Enqueues on `stream` what the sources add to planes [args->z_begin, args->z_end) of args->out at the time step * dt, and
 * impose on it at the next. At step -1 they add nothing. Steps must ascend, and at most 16 of them may be unfinished. */
int sources_apply(sources *s, int stream, const kernel_args *args, int64_t step, error *e);

/* Fills *pass with what the sources add at `steps` steps from `step` on; the rules of sources_apply hold. Host device
 * only. */
void sources_of_pass(sources *s, int64_t step, int steps, wavefront_sources *pass);

#endif
