#include "base/clock.h"
#include "arithmetic.h"
#include "wavefront.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { PASSES_MIN = 4 };
static const double SECONDS_MIN = 0.2;

static void stop_on(int failed, const error *e) {
  if (!failed) return;
  fprintf(stderr, "bench_ceilings: %s\n", e->text);
  exit(error_exit_code(e->id));
}

/* Weights that keep the fields finite: an average for jacobi, else a Laplacian with m < 1. */
static void set_args(stepper *s, const wavefront_bench *b, enum equation equation, bool medium) {
  kernel_args *a = &s->args;
  *a = (kernel_args){
      .pitch = b->s->pitch, .plane = b->s->plane, .nx = b->s->nx, .ny = b->s->ny, .nz = b->s->nz};
  a->medium = medium ? b->media + slab_offset(b->s, 0, 0, 0) : NULL;
  a->scale = 0.5f;
  a->center = equation == EQUATION_JACOBI ? 0.4f : -0.6f;
  for (int r = 1; r <= RADIUS; r++) a->wx[r] = a->wy[r] = a->wz[r] = 0.05f - 0.01f * (float)r;
}

double wavefront_rate(const wavefront_bench *b, enum equation equation, bool medium, wavefront_shape way) {
  const int depth = way.depth;
  error e = {0};
  device *dev;
  halo none = {.slab = b->s};
  stop_on(device_open_host(&(device_options){.threads = b->threads, .own_cores = true}, &dev, &e), &e);
  stepper s = {.dev = dev, .halo = &none, .slab = b->s, .overlap = true};
  wavefront front = {0};
  if (depth > 1) stop_on(wavefront_open(s.front = &front, b->s, &way, medium, b->threads, &e), &e);
  stop_on(kernel_find(depth > 1 ? "wavefront" : "simd", equation, BACKEND_HOST, &s.kernel, &e), &e);
  s.boundary_kernel = s.kernel;
  s.memory[0] = b->field[0], s.memory[1] = b->field[1];
  set_args(&s, b, equation, medium);
  double best = 1e30, begin = clock_seconds();
  for (int pass = 0; pass < PASSES_MIN || clock_seconds() - begin < SECONDS_MIN; pass++) {
    double start = clock_seconds();
    stop_on(stepper_advance(&s, depth, &e) || stepper_sync(&s, &e), &e);
    double seconds = (clock_seconds() - start) / depth;
    if (pass > 0 && seconds < best) best = seconds;
  }
  dev->table->close(dev);
  wavefront_close(&front);
  return 1e-9 * (double)b->s->nx * b->s->ny * b->s->nz / best;
}

FILE *json_begin(int *argc, char ***argv) {
  if (*argc < 3 || strcmp((*argv)[1], "--json") != 0) return NULL;
  FILE *json = fopen((*argv)[2], "w");
  if (!json) {
    fprintf(stderr, "bench_ceilings: %s cannot be written\n", (*argv)[2]);
    exit(EXIT_CODE_CONFIG);
  }
  *argc -= 2, *argv += 2;
  fprintf(json, "[");
  return json;
}

void json_end(FILE *json) {
  if (!json) return;
  fprintf(json, "\n]\n");
  fclose(json);
}

/* One object of the list. */
static void row_to_json(const wavefront_rates *r, int i, int bytes, const slab *s, int threads, FILE *json) {
  fprintf(json, "%s\n  {\"nx\": %d, \"ny\": %d, \"nz\": %d, \"threads\": %d, ", ftell(json) > 1 ? "," : "",
          s->nx, s->ny, s->nz, threads);
  fprintf(json,
          "\"equation\": \"%s\", \"medium\": %s, \"steps\": %d, \"manner\": \"%s\", \"gpts\": %.4f, \"copy_gbs\": "
          "%.2f, ",
          equation_name(r->equation), r->medium ? "true" : "false", wavefront_ways[i].depth,
          wavefront_manner_names[wavefront_ways[i].manner], r->gpts[i], r->copy);
  fprintf(json, "\"bytes\": %d, \"copy_gpts\": %.4f, \"register_gpts\": %.4f, \"ceiling_gpts\": %.4f, ",
          bytes, r->copy / bytes, r->registers, fmin(r->copy / bytes, r->registers));
  fprintf(json, "\"cached_gpts\": %.4f, \"cached_silent_gpts\": %.4f}", r->cached, r->silent);
}

void wavefront_rates_print(const wavefront_rates *r, const slab *s, int threads, FILE *json) {
  const int bytes = 8 + (r->equation == EQUATION_WAVE ? 4 : 0) + (r->medium ? 4 : 0);
  printf(
      "%-6s copy %.2f GB/s, registers %.2f Gpts/s; the sweep in L2 %.2f Gpts/s (%.1f %% of registers), not "
      "asking for planes %.2f (%.1f %%)\n",
      equation_name(r->equation), r->copy, r->registers, r->cached, 100 * r->cached / r->registers, r->silent,
      100 * r->silent / r->registers);
  for (int i = 0; i < WAVEFRONT_WAYS; i++) {
    const wavefront_shape way = wavefront_ways[i];
    printf("%-6s %-6s %d step%s a pass, %-5s %8.4f Gpts/s  ", equation_name(r->equation),
           r->medium ? "medium" : "", way.depth, way.depth == 1 ? " " : "s",
           wavefront_manner_names[way.manner], r->gpts[i]);
    ceilings_print(r->gpts[i], r->copy, bytes, r->registers);
    if (json) row_to_json(r, i, bytes, s, threads, json);
  }
}
