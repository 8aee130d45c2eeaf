/* Maps keep, at each point, figures over the steps of a shot: the greatest and least value, the root of the mean
 * square, a discrete Fourier transform. */
#ifndef STENCIL_MAPS_H
#define STENCIL_MAPS_H

#include "propagator.h"

/* Exit 1 where a planned shot has maps, but no step of the run counts, or the steps that count are too far apart for a
 * frequency. */
int maps_check(const engine *g, const acquisition *a, error *e);
/* Do sums of frequencies end with the run? Then they depend on its number of steps; otherwise a longer run continues
 * the sums. */
bool maps_end_with_run(const acquisition *a);
/* Adds the observer, where the configuration asks for maps. */
void maps_observe(propagator *p);
/* Waits until all maps so far are computed, since they are about to be copied. */
int maps_settle(const propagator *p, error *e);
/* Bytes of the maps in this rank's device memory, and in the file. */
double maps_bytes(const propagator *p);
double maps_file_bytes(const config *c);

enum { MAPS_PARTS = MAP_QUANTITIES + MAP_FREQUENCIES };
/* One dataset of the maps of shot i, or one frequency of /dft. */
typedef struct maps_part {
  const propagator *p;
  int i;
  enum map_field field;
  double count, weight; /* number of steps; the time that each stands for in a sum of frequencies, s */
} maps_part;
/* A shot's maps after `step` steps. */
typedef struct maps_found {
  field_name names[MAP_QUANTITIES + 1]; /* of datasets: */
  int count;
  maps_part parts[MAPS_PARTS]; /* contexts of: */
  field_planes planes[MAPS_PARTS];
  field_window window; /* the steps that have counted; each stands for the time to the next one */
} maps_found;
/* *m must stay where it is while its planes are read. */
void maps_find(const propagator *p, int i, int64_t step, maps_found *m);

#endif
