/* Point sources of a shot: the grid points of this slab on which they act, and their values at each step. */
#ifndef STENCIL_SOURCE_H
#define STENCIL_SOURCE_H

#include "dispersion.h"
#include "kernels/operations/operation.h"
#include "physics/physics.h"
#include "source_set.h"

/* The places of sources in a slab, in order; a periodic axis may bring a source here more than once. */
typedef struct source_places {
  point_weights *places; /* owned, as is the next one */
  int *source_of;        /* of each place: the source's index */
  int count, capacity;
} source_places;

/* Signals that a caller gives, in the order of sources.key_of: row i has sample i, of step last - i every. Other steps
 * have 0. */
typedef struct sources_given {
  const float *values; /* rows x signals, not owned; NULL: the signals are the configuration's */
  int64_t last, every;
} sources_given;

/* The sources of a shot, each on the points around it (place.h). Sources take no device memory; injectors do
 * (injector.h). */
typedef struct sources {
  const slab *slab; /* of a shot; not owned, as is the next one */
  dispersion_tables *transforms;
  double dt;              /* s */
  int64_t steps;          /* of the run */
  int count;              /* of sources: of [source.N], then of the set */
  double (*positions)[3]; /* count: x y z, m; owned */
  source_set set, *files; /* of [sources]; of the files of wavelets, owned */
  int file_count;
  struct source_same *same; /* of each [source.N], while they are planned; owned */
  source_places here;       /* until an injector takes them */
  int signal_count;
  wavelet *signals; /* of the sources that act on points here, owned; equal sources share one */
  float *
      /* of each signal, where dispersion is removed: the transformed signal, which is injected instead; */
      *injected;
  int64_t *injected_end; /* 0 from this step on; owned, as is injected; NULL: the signals themselves */
  int *alike;            /* of each signal: the first one equal to it, whose `injected` it shares; owned */
  int *
      signal_of; /* of each source that acts here: the index i of its signal, or ~i where it is imposed; owned */
  wavelet_use *uses; /* of each [source.N], then of the set, if there is one; owned */
  enum interpolation_kind interpolation;
  int *
      key_of; /* of each signal, owned; of sources that are given (sources_plan_given): the index of its source */
  sources_given given;
} sources;

/* Spreads the sources over the slab, reads wavelets from their files (exit 2 where it cannot) and studies them for the
 * steps of the run. `s` is zero-initialised, or was planned before. Collective over files->compute, same error
 * everywhere. Call sources_close, also after a failure. */
int sources_plan(sources *s, const problem *on, wavelet_steps steps, error *e);
/* The value of signal i in a step. */
float sources_value(const sources *s, int i, int64_t step);
/* The value that a source, acting on points of this rank, adds in a step. */
float sources_injected(const sources *s, int source, int64_t step);
/* Are all signals 0 at this step? False where that is unknown. */
bool sources_silent(const sources *s, int64_t step);
/* The factor of signals with strength = volume: 1 over the cell of a grid point. */
double sources_strength(const config *c);
/* Plans sources at `count` positions (m) inside the grid, with given signals. The caller sets s->given before the first
 * step. */
int sources_plan_given(sources *s, const problem *on, int count, const double (*positions)[3],
                       enum interpolation_kind how, error *e);
/* Exit 2 where a planned source's table has no value for any step of the run. The same answer on every rank. */
int sources_check(const sources *s, const config *c, error *e);
/* The greatest frequency (Hz) of planned sources; little of any signal lies above. column: " of [sources] signals,
 * column 3" where it is one of several columns; else "". */
enum { SOURCES_COLUMN = 64 };
double sources_highest(const sources *s, const config *c, char column[SOURCES_COLUMN]);
/* Transforms the signals for so many steps, on so many threads, so that dispersion can be removed from traces
 * (exact_time.h). OUT_OF_MEMORY. Not collective. */
int sources_transform(sources *s, int64_t steps, int threads, error *e);
/* Frees all memory. */
void sources_close(sources *s);
/* Frees s->here. */
void sources_free_places(sources *s);

/* Is the source on a neumann face, or between it and the points next to it? */
bool sources_mirrored(const config *c, const source_config *s);

#endif
