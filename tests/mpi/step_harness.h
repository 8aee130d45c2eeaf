/* A small parallel run for the tests of the step loop: a random field on this rank's slab, and the same steps on the
 * whole grid by plain loops, to compare with. */
#ifndef STENCIL_STEP_HARNESS_H
#define STENCIL_STEP_HARNESS_H

#include "test.h"
#include "step/step.h"
#include "halo/transfer.h"

typedef struct step_run {
  slab slab;
  halo halo;
  stepper stepper;
  transfer transfer;
  bool own_transport; /* r->halo is the test's */
  float *global;      /* the initial field, nz ny nx */
} step_run;

/* Values of the whole initial field, the same on every rank. The caller frees it. */
float *step_initial(int nx, int ny, int nz);

/* Factors of a medium, likewise. */
float *step_medium(int nx, int ny, int nz, int medium);

/* The field after `steps` steps computed by plane-by-plane reference on one thread, replacing `field`
 * (dense). `ghost` is the value beyond the faces without a rule in `weights`; with periodic_z the z faces wrap
 * instead. With two time levels the field before the first is the same; media are step_medium's. */
void step_expected(const kernel_args *weights, float *field, int nx, int ny, int nz, int steps, float ghost,
                   bool periodic_z);

/* Random weights, different for each axis and offset, that keep the field bounded. */
kernel_args step_weights(void);

/* Opens a run of `kernel` on `dev` over all ranks: fields loaded, ghosts filled and exchanged. `r->slab` is set
 * beforehand by slab_init. `transport`: its name, `node_ranks` as in halo_setup; or NULL, where r->halo is set
 * beforehand, with a transport of the test's own. */
void step_run_open(step_run *r, device *dev, const char *kernel, const char *transport, int node_ranks,
                   bool overlap, bool profile, float ghost);
void step_run_close(step_run *r);

/* Number of points of this rank's newest field that differ in any bit from `expected`, the whole dense field.
 */
size_t step_mismatches(step_run *r, const float *expected);

#endif
