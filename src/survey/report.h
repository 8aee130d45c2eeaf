/* The performance report of all ranks: printed as a table, written as JSON, with the statistics of the final field. */
#ifndef STENCIL_REPORT_H
#define STENCIL_REPORT_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include "kernels/operations/statistics.h"
#include "base/error.h"
#include "batch.h"

/* The measurements of one rank. Plain doubles, gathered as bytes. Phases are seconds per step. */
typedef struct report_rank {
  double boundary, to_host, exchange, to_device, interior, exposed;
  double io;                           /* in which saving kept the steps waiting */
  double io_wait;                      /* the part of io in which the steps waited for the writer */
  double writer_seconds, writer_bytes; /* what writing took in the whole run, beside the steps or not */
  double copy_gbs;                     /* copy bandwidth of this rank's device, read + write, GB/s */
  double host_bytes;                   /* high-water resident memory */
  double device_bytes;                 /* high-water device memory */
} report_rank;

typedef struct report {
  int64_t steps;
  double seconds; /* wall time of the timed loop, between two barriers */
  double ending;  /* s from the loop's end to this report, without the adjoint: the time of the last files */
  gradient_times gradient;
  int nx, ny, nz;
  int ranks;
  int bytes_per_point; /* ideal traffic: 8 for jacobi */
  int shots;           /* of a survey; 0: a single run */
  double overhead;     /* of a survey: the part of `seconds` in which no shot stepped */
  const char *backend, *kernel, *transport, *device;
  bool overlap;
  const report_rank *per_rank;        /* `ranks` of them */
  const field_statistics *statistics; /* of the final field; NULL: not measured */
} report;

/* Prints the table; `verbose` adds a line for each rank. */
void report_print(const report *r, bool verbose, FILE *to);
/* Checks that the JSON file can be written, else exit 2. Leaves no file behind. */
int report_check(const char *path, error *e);
/* Writes the JSON file, which appears whole or not at all; exit 2 if it cannot be written. */
int report_write(const report *r, const char *path, error *e);

#endif
