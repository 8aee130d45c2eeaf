/* The metadata of a run, in every file that it writes. */
#ifndef STENCIL_RUN_META_H
#define STENCIL_RUN_META_H

#include <stdint.h>

/* Root attributes. Texts may be NULL: empty. It owns nothing. */
typedef struct run_meta {
  int64_t step;            /* the step that the run has reached */
  double time, dt;         /* s; jacobi: a step is one unit of time */
  int mpi_ranks;           /* all that were started */
  const char *config_text; /* the effective config */
  const char *command;     /* the command line */
  const char *fingerprint; /* of a shot of a survey (shot_files.h) */
  const char *backend, *kernel, *transport, *equation;
} run_meta;

#endif
