/* Statistics of the whole field (kernels/operations/statistics.h), measured on all ranks' devices together. */
#ifndef STENCIL_MEASURE_H
#define STENCIL_MEASURE_H

#include <mpi.h>
#include <stdbool.h>
#include "device/device.h"
#include "halo/slab.h"
#include "kernels/operations/statistics.h"

typedef struct measure {
  device *dev; /* fields are in its memory; not owned. NULL: in the host's, and the caller measures them */
  const slab *slab; /* not owned */
  MPI_Comm comm;    /* the ranks of the slab's partition, in its order; not owned */
  int bins;         /* of the histogram; 0: there is none */
  statistics_args args;
  uint64_t *counts;             /* of the histogram; in the fields' memory, as are the pointers of args */
  void *on_host;                /* pinned: results from the device; NULL without a device */
  partial_statistics *gathered; /* planes of all ranks */
  int *plane_counts;            /* planes of each rank, then the first plane of each */
} measure;

/* Takes the memory. Not collective. `bins`: 0 .. HISTOGRAM_BINS. Call measure_close also after a failure. */
int measure_open(measure *v, device *dev, const slab *slab, MPI_Comm comm, int bins, error *e);
void measure_close(measure *v);

/* Measures a field, laid out as the slab, while nothing writes it; `points`: its own point (0, 0, 0). Finds the
 * histogram and the quantiles where `histogram` is true and there are bins. `s` gets the same bits on every rank;
 * s->step is left alone. Collective. An error means that this rank failed: the others may be waiting for it. */
int measure_field(measure *v, const float *points, bool histogram, field_statistics *s, error *e);

/* Measures rows [rows.begin, rows.end) of each plane as if they were a field. */
int measure_rows(measure *v, const float *points, zrange rows, bool histogram, field_statistics *s, error *e);

/* These two measure a field in the host's memory. Call measure_plane for each own plane z, dense, from any thread,
 * while the plane is in its cache; then measure_finish, which is collective. `points` as above. */
void measure_plane(measure *v, int z, const float *plane);
int measure_finish(measure *v, const float *points, bool histogram, field_statistics *s, error *e);

#endif
