/* The table of operations (operation.h) and their host functions. Each thread takes a range of the rows, points or
 * receivers, so that no two threads write to the same place. */
#include "kernels/host_range.h"
#include "kernels/host/host_simd.h"
#include "operation.h"
#include "statistics.h"

/* Stores own point (z, y, x) of a->out again, or 0 where it is held, with its images. */
static void operation_renew(const kernel_args *a, int z, int y, int x) {
  ghosts_store(a, z, y, x, a->out[(ptrdiff_t)a->plane * z + (ptrdiff_t)a->pitch * y + x]);
}

/* Must every point of row (z, y) be stored again? Such a row is held or has images along y or z. In other rows only
 * points near the ends can have images (operation_end_points). */
static int operation_whole_row(const kernel_args *a, int z, int y) {
  const unsigned char *g = a->ghosts;
  return ghosts_touch(z, a->nz, g[FACE_Z_LO], g[FACE_Z_HI]) ||
         ghosts_touch(y, a->ny, g[FACE_Y_LO], g[FACE_Y_HI]);
}

/* How many points at the two ends of a row, together, may have images in x: at most nx; 0 without rules in x. */
static int operation_end_points(const kernel_args *a) {
  const int both = 2 * (RADIUS + 1);
  if (a->ghosts[FACE_X_LO] == GHOST_KEEP && a->ghosts[FACE_X_HI] == GHOST_KEEP) return 0;
  return a->nx < both ? a->nx : both;
}

/* x of end point i. */
static int operation_end_point(const kernel_args *a, int i) {
  return i <= RADIUS ? i : a->nx - operation_end_points(a) + i;
}

static void operation_ghosts_host(const void *args, int part, int parts) {
  const kernel_args *a = args;
  const host_range range = host_range_of(a, part, parts);
  const int ends = operation_end_points(a);
  for (int z = range.z_begin; z < range.z_end; z++)
    for (int y = range.y_begin; y < range.y_end; y++)
      if (operation_whole_row(a, z, y))
        for (int x = 0; x < a->nx; x++) operation_renew(a, z, y, x);
      else
        for (int i = 0; i < ends; i++) operation_renew(a, z, y, operation_end_point(a, i));
}

static void operation_inject_host(const void *args, int part, int parts) {
  const inject_args *a = args;
  const int end = host_range_begin(a->count, part + 1, parts);
  for (int i = host_range_begin(a->count, part, parts); i < end; i++)
    host_isa_get(0)->inject(a, &a->tiles[i], 0, a->field.ny);
}

static void operation_sample_host(const void *args, int part, int parts) {
  const sample_args *a = args;
  host_isa_get(0)->sample(a, host_range_begin(a->count, part, parts),
                          host_range_begin(a->count, part + 1, parts));
}

/* Runs an operation on independent points: own ones, and `ghosts` on all sides of them. */
#define POINTS(name, ghosts)                                                                                 \
  static void operation_##name##_host(const void *args, int part, int parts) {                               \
    const name##_args *a = args;                                                                             \
    const int ny = a->ny + 2 * (ghosts), rows = (a->nz + 2 * (ghosts)) * ny,                                 \
              end = host_range_begin(rows, part + 1, parts);                                                 \
    for (int row = host_range_begin(rows, part, parts); row < end; row++)                                    \
      for (int x = -(ghosts); x < a->nx + (ghosts); x++)                                                     \
        name##_point(a, row / ny - (ghosts), row % ny - (ghosts), x);                                        \
  }
POINTS(scale, 0)
POINTS(spread, 0)
POINTS(undamp, 0)
POINTS(gradient, 0)
POINTS(frame, RADIUS)
#undef POINTS

/* Fills only the maps of `m`. These are constants, so the compiler makes vectors of the row. */
static inline __attribute__((always_inline)) void maps_row(const maps_args *a, maps_args m, int row) {
  m.field = a->field, m.sigma = a->sigma, m.pitch = a->pitch, m.plane = a->plane;
  for (int x = 0; x < a->nx; x++) maps_point(&m, row / a->ny, row % a->ny, x);
}

static inline __attribute__((always_inline)) void maps_rows(const maps_args *a, int row, int end) {
  for (; row < end; row++) {
    if (a->max) maps_row(a, (maps_args){.max = a->max}, row);
    if (a->min) maps_row(a, (maps_args){.min = a->min}, row);
    if (a->square) maps_row(a, (maps_args){.square = a->square, .square_low = a->square_low}, row);
    for (int f = 0; f < a->frequencies; f++)
      maps_row(a,
               (maps_args){.frequencies = 1,
                           .real = {a->real[f]},
                           .imaginary = {a->imaginary[f]},
                           .cosine = {a->cosine[f]},
                           .sine = {a->sine[f]}},
               row);
  }
}

#define MAPS_ROWS(isa, target)                                                                               \
  target static void maps_rows_##isa(const maps_args *a, int row, int end) {                                 \
    maps_rows(a, row, end);                                                                                  \
  }
HOST_ISAS(MAPS_ROWS)

static void operation_maps_host(const void *args, int part, int parts) {
  const maps_args *a = args;
  HOST_ISA_OF(maps_rows)
  (a, host_range_begin(a->nz * a->ny, part, parts), host_range_begin(a->nz * a->ny, part + 1, parts));
}

OPERATION(ghosts, "ghosts", kernel_args, .host = operation_ghosts_host)
OPERATION(inject, "point sources", inject_args, .host = operation_inject_host)
OPERATION(sample, "receivers", sample_args, .host = operation_sample_host)
OPERATION(scale, "scaling", scale_args, .host = operation_scale_host)
OPERATION(spread, "a medium", spread_args, .host = operation_spread_host)
OPERATION(gradient, "the gradient's sum", gradient_args, .host = operation_gradient_host)
OPERATION(undamp, "what absorption has damped", undamp_args, .host = operation_undamp_host)
OPERATION(frame, "ghosts alone", frame_args, .host = operation_frame_host)
OPERATION(maps, "maps", maps_args, .host = operation_maps_host)
OPERATION(statistics, "statistics", statistics_args, .host = statistics_host_units,
          .then = statistics_host_planes)
OPERATION(histogram, "histogram", histogram_args, .host = histogram_host_clear, .then = histogram_host)
OPERATION(persistent, "steps of one launch", persistent_args, .host = NULL)
