/* Libstencil built with MPI: on any ranks the bits of one rank, and results on all of them. Prints a sum of all bits; CTest compares
 * it between numbers of ranks. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "include/stencil.h"

enum { NZ = 48, NY = 20, NX = 24, RECEIVERS = 3, SAMPLES = 61, SHOTS = 2 };
static float velocity[NZ * NY * NX], traces[SHOTS][SAMPLES * RECEIVERS], sum[NZ * NY * NX],
    shot[NZ * NY * NX];
static double misfit[SHOTS];

static int take(void *context, const stencil_result *r, void **data, int *device) {
  (void)context, (void)device;
  if (strcmp(r->kind, "traces") == 0) *data = traces[r->shot];
  if (strcmp(r->name, "velocity") == 0) *data = r->shot < 0 ? sum : r->shot == 1 ? shot : NULL;
  if (strcmp(r->name, "misfit") == 0) *data = &misfit[r->shot];
  return 0;
}

static int square(void *context, int32_t number, const float *u, const int64_t shape[2], double *value,
                  float *derivative) {
  (void)context, (void)number;
  *value = 0;
  for (int64_t i = 0; i < shape[0] * shape[1]; i++) *value += 0.5 * u[i] * u[i], derivative[i] = u[i];
  return 0;
}

static uint64_t add_bits(uint64_t so_far, const void *values, size_t bytes) {
  const unsigned char *b = values;
  for (size_t i = 0; i < bytes; i++) so_far = (so_far ^ b[i]) * 1099511628211u;
  return so_far;
}

int main(int argc, char **argv) {
  const char keys[] =
      "[grid]\nnx = 24\nny = 20\nnz = 48\ndx = 10\ndy = 10\ndz = 10\n[time]\nsteps = 60\n[equation]\ntype = "
      "wave\n"
      "[boundary]\nall = absorbing\nwidth = 6\nz_lo = dirichlet\n[device]\nbackend = host\nthreads = 1\n"
      "[receivers]\npoints = 60 100 50, 120 90 200, 177 81 433\n";
  const stencil_calls calls = {.result = take, .misfit = square};
  const stencil_input model = {"medium.velocity", {velocity, STENCIL_FLOAT32, STENCIL_HOST, 3, {NZ, NY, NX}}};
  const stencil_shot shots[SHOTS] = {{.keys = "source.1.position='115 95 233' source.1.f0=15"},
                                     {.keys = "source.1.position='75 105 400' source.1.f0=15"}};
  stencil_error e = {0};
  stencil_sim *sim;
  MPI_Comm world = MPI_COMM_WORLD;
  int rank, bad = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(world, &rank);
  for (int i = 0; i < NZ * NY * NX; i++) velocity[i] = 1500 + (float)(i * 7919 % 1000);
  for (int again = 0; again < 2 && !e.code; again++) {
    if (again == 0 && !stencil_open(&sim, keys, &e)) stencil_communicator(sim, &world, &e);
    if (!e.code) stencil_run(sim, &model, 1, shots, SHOTS, &calls, &e);
  }
  uint64_t bits = add_bits(14695981039346656037u, traces, sizeof traces), first;
  bits = add_bits(add_bits(add_bits(bits, sum, sizeof sum), shot, sizeof shot), misfit, sizeof misfit);
  first = bits;
  MPI_Bcast(&first, sizeof first, MPI_BYTE, 0, world);
  bad = e.code || bits != first || !(misfit[0] > 0) || sum[1234] == 0;
  MPI_Allreduce(MPI_IN_PLACE, &bad, 1, MPI_INT, MPI_MAX, world);
  if (e.code) fprintf(stderr, "%s\n", e.text);
  if (rank == 0)
    printf("%s: bits %016llx, misfits %g %g\n", bad ? "BAD" : "same on all ranks", (unsigned long long)bits,
           misfit[0], misfit[1]);
  stencil_close(sim);
  MPI_Finalize();
  return bad;
}
