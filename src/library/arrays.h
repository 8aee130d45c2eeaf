/* A caller's arrays in place of files: they perform the requests of a run (io/files.h). A dataset is named
 * "array:/KEY", as array:/medium.velocity, or of shot N from 1 on "array:/NNNN/KEY". */
#ifndef STENCIL_ARRAYS_H
#define STENCIL_ARRAYS_H

#include <pthread.h>
#include "include/stencil.h"
#include "io/files.h"
#include "io/output/exact_sum.h"

#define ARRAYS_FILE "array:/"
enum { ARRAYS_NAME = 128, ARRAYS_ADDING = 64 };

/* A gradient field, summed over the shots. */
typedef struct arrays_sum {
  int64_t points;
  exact_sum *sums; /* owned; NULL: no rank wants the sum, or there is one shot, whose field is the sum */
  float *to;       /* the caller's memory; NULL: none */
  int device;      /* where `to` lies */
  bool asked;      /* result() was called for the sum */
  bool wanted;     /* some rank wants the sum */
} arrays_sum;

/* A call's arrays: inputs of a run, and functions that give memory for its results. It owns only the sums. */
typedef struct arrays {
  const stencil_input *inputs; /* of all shots */
  int input_count;
  const stencil_shot *shots;
  int shot_count;
  const stencil_calls *calls;
  pthread_mutex_t lock;                  /* guards `calls` and the members from `stopped` to `part` */
  pthread_mutex_t asking;                /* held while result() is asked for a sum */
  pthread_mutex_t adding[ARRAYS_ADDING]; /* held while a block is added to the sums */
  bool gradient;                         /* a shot's last result is its gradient, else its traces */
  bool stopped;                          /* the caller has stopped the run */
  int done;                              /* shots whose results are complete */
  double part;                           /* the done part of the steps of a shot under way */
  arrays_sum sums[GRADIENT_FIELDS];
} arrays;

/* For files_open; `context` of the files is an arrays. */
extern const files_kind files_of_arrays;

void arrays_open(arrays *a);
/* Gives the caller the sums over all shots, rounded once. Collective over f->compute, agreed. */
int arrays_finish(arrays *a, const files *f, error *e);
void arrays_close(arrays *a);
/* Replaces the last call's arrays in *a by another call's. */
void arrays_take(arrays *a, const arrays *call);
/* Notes that `part` of the steps of a shot is done. */
void arrays_advance(arrays *a, double part);
/* The number of the shot, from 0, whose results have this path. */
int arrays_shot(const char *path);
/* Makes the name of an input's dataset; shot -1: of all shots. */
void arrays_name(char name[ARRAYS_NAME], int shot, const char *key);

/* Exit 2 where an array's numbers cannot be read, because of its type, axes or shape, or a pointer of another
 * device. */
int arrays_check(const char *name, const stencil_array *a, error *e);

#endif
