/* A shot over two layers, and the gradient of a misfit, in one process:  cc example.c -lstencil -lm && ./a.out */
#include <stdio.h>
#include <stdlib.h>
#include "stencil.h"

enum { NZ = 100, NX = 120, RECEIVERS = 20, MOST = 4096 };
static float velocity[NZ][NX], observed[MOST][RECEIVERS], traces[MOST * RECEIVERS], gradient[NZ][NX];
static double misfit;

/* Gives memory for what is wanted: traces, the sum of gradients over the shots, and the misfit. */
static int take(void *context, const stencil_result *r, void **data, int *device) {
  (void)context, (void)device; /* results come to the host, as *device says already */
  if (r->kind[0] == 't') *data = traces;
  if (r->kind[0] == 'g' && r->name[0] == 'v' && r->shot < 0) *data = gradient;
  if (r->name[0] == 'm') *data = &misfit;
  return 0;
}

int main(void) {
  const char keys[] = "[grid]\nnx = 120\nny = 1\nnz = 100\ndx = 10\ndz = 10\n[time]\nend_time = 0.8\n[equation]\ntype = wave\n"
                      "[boundary]\nall = absorbing\nz_lo = dirichlet\nwidth = 15\n"
                      "[receivers]\nline = 100 0 20 1050 0 20 20\n";
  const stencil_calls calls = {.result = take};
  const stencil_input model = {"medium.velocity", {velocity, STENCIL_FLOAT32, STENCIL_HOST, 2, {NZ, NX}}};
  stencil_shot shot = {.keys = "source.1.position='600 0 20' source.1.f0=15"};
  stencil_error e;
  stencil_sim *sim;
  stencil_facts facts;
  for (int z = 0; z < NZ; z++)
    for (int x = 0; x < NX; x++) velocity[z][x] = z < 60 ? 2000 : 2500;
  if (stencil_open(&sim, keys, &e) || stencil_run(sim, &model, 1, &shot, 1, &calls, &e) || stencil_describe(sim, &facts, &e))
    return fprintf(stderr, "%s\n", e.text), e.code;
  printf("%lld samples every %g s by %s\n", (long long)facts.samples, facts.interval, facts.kernel);
  for (int i = 0; i < facts.samples * RECEIVERS; i++) observed[0][i] = traces[i]; /* of the true model */
  const stencil_input data = {"gradient.observed", {observed, STENCIL_FLOAT32, STENCIL_HOST, 2, {facts.samples, RECEIVERS}}};
  shot.inputs = &data, shot.input_count = 1;
  for (int z = 60; z < NZ; z++)
    for (int x = 0; x < NX; x++) velocity[z][x] = 2400; /* a guess */
  if (stencil_run(sim, &model, 1, &shot, 1, &calls, &e))
    return fprintf(stderr, "%s\n", e.text), e.code;
  printf("misfit %g, gradient at the layer %g, far above it %g\n", misfit, gradient[60][60], gradient[30][5]);
  stencil_close(sim);
  return misfit > 0 && gradient[60][60] != 0 ? 0 : 1;
}
