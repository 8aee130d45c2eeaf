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

/* A field of the gradient, summed over the shots. */
typedef struct arrays_sum {
  int64_t points;
  exact_sum *sums; /* owned; NULL: the caller wants none, or there is one shot, whose field it is */
  float *to;       /* the caller's memory; NULL: none */
  int device;      /* there */
  bool asked;      /* result() was called for it */
  bool wanted;     /* by any rank */
} arrays_sum;

/* A call's arrays: inputs of a run, and calls that give memory for its results. It owns the sums alone. */
typedef struct arrays {
  const stencil_input *inputs; /* of all shots */
  int input_count;
  const stencil_shot *shots;
  int shot_count;
  const stencil_calls *calls;
  pthread_mutex_t lock;                  /* of calls, and of the next ones */
  pthread_mutex_t asking;                /* for sums */
  pthread_mutex_t adding[ARRAYS_ADDING]; /* to blocks of them */
  bool gradient;                         /* a shot's last result is that, else its traces */
  bool stopped;                          /* by the caller */
  int done;                              /* shots that have all results */
  double part;                           /* of the steps of one that is under way */
  arrays_sum sums[GRADIENT_FIELDS];
} arrays;

/* For files_open; `context` of the files: an arrays. */
extern const files_kind files_of_arrays;

void arrays_open(arrays *a);
/* Gives the sums over all shots, rounded once. Collective over f->compute, agreed. */
int arrays_finish(arrays *a, const files *f, error *e);
void arrays_close(arrays *a);
/* Lets *a have what another call brings, in place of the last one. */
void arrays_take(arrays *a, const arrays *call);
/* This part of the steps of a shot is done. */
void arrays_advance(arrays *a, double part);
/* The shot, from 0, whose results have this path. */
int arrays_shot(const char *path);
/* The name of an input's dataset; shot -1: of all. */
void arrays_name(char name[ARRAYS_NAME], int shot, const char *key);

/* Exit 2 where the numbers of an array cannot be read: its type, axes or shape, or a pointer of another device. */
int arrays_check(const char *name, const stencil_array *a, error *e);

#endif
