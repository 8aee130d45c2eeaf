#include "outside.h"
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"

static const char PLANES[] = "planes of a field"; /* what memory is for */

static size_t outside_points(const slab *s) {
  return (size_t)s->nx * (size_t)s->ny;
}

/* The grid given, with planes [begin, end) of it. */
static slab outside_slab(const config *c, const slab *s, int begin, int end) {
  slab given = *s;
  given.nx = c->nx, given.ny = c->ny, given.nz_global = c->nz;
  given.z0 = begin, given.nz = end - begin;
  return given;
}

static int outside_clamp(int z, int most) {
  return larger(0, smaller(z, most));
}

slab outside_written(const config *c, const slab *s) {
  const int first = s->z0 - config_beyond(c, FACE_Z_LO);
  return outside_slab(c, s, outside_clamp(first, c->nz), outside_clamp(first + s->nz, c->nz));
}

void outside_spread(const config *c, const float *from, float *to, bool media) {
  const int before = config_beyond(c, FACE_X_LO), lines = config_beyond(c, FACE_Y_LO),
            rows = config_axis_of(c, 1).points, row = config_axis_of(c, 0).points;
  const size_t nx = (size_t)c->nx;
  for (int y = c->ny - 1; y >= 0; y--) {
    float *at = to + (size_t)(lines + y) * (size_t)row;
    memmove(at + before, from + (size_t)y * nx, nx * sizeof *at);
    for (int x = 0; x < before; x++) at[x] = media ? at[before] : 0;
    for (int x = before + c->nx; x < row; x++) at[x] = media ? at[before + c->nx - 1] : 0;
  }
  for (int y = 0; y < rows; y++) {
    const int of = lines + config_point_given(c, 1, y);
    float *at = to + (size_t)y * (size_t)row;
    if (of != y && media) memcpy(at, to + (size_t)of * (size_t)row, (size_t)row * sizeof *at);
    if (of != y && !media) memset(at, 0, (size_t)row * sizeof *at);
  }
}

/* --- reading ------------------------------------------------------------------------------------------------------ */

typedef struct outside_reader {
  const config *config;
  const slab *slab; /* of the computation */
  int first;        /* plane of the grid given that this rank reads first */
  bool media;
  field_sink *sink;
  void *context; /* of the sink */
} outside_reader;

/* A field_sink: hands on each plane once for every plane that it stands for. */
static int outside_take(void *context, int z, int planes, float *values, error *e) {
  const outside_reader *r = context;
  const config *c = r->config;
  const slab *s = r->slab;
  const size_t given = (size_t)c->nx * (size_t)c->ny;
  float *plane;
  TRY(ALLOC(e, plane, outside_points(s), PLANES));
  for (int own = 0; own < s->nz && !e->id; own++) {
    const int of = config_point_given(c, 2, s->z0 + own) - r->first - z;
    if (of < 0 || of >= planes) continue;
    outside_spread(c, values + (size_t)of * given, plane, r->media);
    if (!r->media && r->first + z + of + config_beyond(c, FACE_Z_LO) != s->z0 + own)
      memset(plane, 0, outside_points(s) * sizeof *plane);
    r->sink(r->context, own, 1, plane, e);
  }
  free(plane);
  return e->id;
}

int outside_read(const files *f, const config *c, const request *r, error *e) {
  const slab *s = r->own.io->slab;
  if (!config_extends(c)) return files_do(f, r, e);
  const int first = config_point_given(c, 2, s->z0), last = config_point_given(c, 2, s->z0 + s->nz - 1);
  const slab given = outside_slab(c, s, first, last + 1);
  outside_reader reader = {c, s, first, r->quantity != QUANTITY_NONE, r->own.sink, r->own.context};
  field_io io = *r->own.io;
  request read = *r;
  io.slab = &given;
  read.own.io = &io, read.own.sink = outside_take, read.own.context = &reader;
  return files_do(f, &read, e);
}

/* --- writing ------------------------------------------------------------------------------------------------------ */

typedef struct outside_writer {
  const config *config;
  const slab *slab; /* of the computation */
  int before;       /* own planes before the first that is written */
  int floats;       /* floats of a point */
  field_planes from;
  field_measured *measured;
} outside_writer;

/* A field_source. */
static int outside_put(void *context, int z, int planes, float *values, error *e) {
  const outside_writer *w = context;
  const config *c = w->config;
  const size_t point = (size_t)w->floats, row = (size_t)w->slab->nx * point, nx = (size_t)c->nx * point,
               plane = outside_points(w->slab) * point,
               first =
                   (size_t)config_beyond(c, FACE_Y_LO) * row + (size_t)config_beyond(c, FACE_X_LO) * point;
  float *whole;
  TRY(ALLOC(e, whole, (size_t)planes * plane, PLANES));
  w->from.source(w->from.context, w->before + z, planes, whole, e);
  for (int i = 0; i < planes && !e->id; i++)
    for (int y = 0; y < c->ny; y++, values += nx)
      memcpy(values, whole + (size_t)i * plane + first + (size_t)y * row, nx * sizeof *values);
  free(whole);
  return e->id;
}

/* A field_measured. */
static int outside_measured(void *context, error *e) {
  const outside_writer *w = context;
  return w->measured(w->from.context, e);
}

/* A separate thread may write, so only the request itself is collective. */
int outside_write(const files *f, const config *c, const slab *s, const request *r, error *e) {
  enum { MOST = 16 /* fields of a file, and frequencies */ };
  const field_meta *m = r->field;
  const int before = r->own.io->slab->z0 + config_beyond(c, FACE_Z_LO) - s->z0;
  outside_writer writers[MOST];
  field_planes planes[MOST];
  field_meta meta = *m;
  request write = *r;
  if (!config_extends(c)) return files_do(f, r, e);
  for (int i = 0, part = 0; i < larger(m->fields, 1); i++)
    for (int k = 0, pairs = m->fields ? m->names[i].frequencies : 0; k < larger(pairs, 1); k++, part++) {
      writers[part] = (outside_writer){c, s, before, pairs ? 2 : 1, r->own.planes[part], m->measured};
      planes[part] = (field_planes){outside_put, &writers[part]};
    }
  if (m->measured) meta.measured = outside_measured;
  write.field = &meta, write.own.planes = planes;
  return files_do(f, &write, e);
}

/* --- the chain rule ----------------------------------------------------------------------------------------------- */

typedef struct outside_folding {
  const config *config;
  const slab *slab;
  MPI_Comm comm;
  float *gradient;
  double *sum; /* a plane of the computation */
} outside_folding;

/* Adds planes beyond a face along z to the plane at the face, from the outermost inward. Ranks hand on their sum. The
 * outermost plane is number 0. */
static int outside_fold_planes(const outside_folding *o, bool high, error *e) {
  const slab *s = o->slab;
  const size_t points = outside_points(s);
  const int beyond = config_beyond(o->config, high ? FACE_Z_HI : FACE_Z_LO), inward = high ? -1 : 1,
            first = high ? s->nz_global - s->z0 - s->nz : s->z0, end = smaller(first + s->nz, beyond + 1);
  if (beyond == 0 || first > beyond) return 0;
  memset(o->sum, 0, points * sizeof *o->sum);
  if (first > 0)
    MPI_TRY(e, MPI_Recv(o->sum, (int)points, MPI_DOUBLE, s->rank - inward, 0, o->comm, MPI_STATUS_IGNORE));
  for (int k = first; k < end; k++) {
    float *plane = o->gradient + (size_t)(high ? s->nz - 1 - (k - first) : k - first) * points;
    for (size_t i = 0; i < points; i++) {
      o->sum[i] += (double)plane[i];
      plane[i] = k < beyond ? 0 : (float)o->sum[i];
    }
  }
  if (end <= beyond) MPI_TRY(e, MPI_Send(o->sum, (int)points, MPI_DOUBLE, s->rank + inward, 0, o->comm));
  return 0;
}

/* Adds points beyond the faces along x and y to points at the faces, within an own plane. */
static void outside_fold_plane(const outside_folding *o, int z) {
  const config *c = o->config;
  const size_t nx = (size_t)o->slab->nx, points = outside_points(o->slab);
  float *plane = o->gradient + (size_t)z * points;
  memset(o->sum, 0, points * sizeof *o->sum);
  for (int y = 0; y < o->slab->ny; y++) {
    const int row = config_beyond(c, FACE_Y_LO) + config_point_given(c, 1, y);
    for (int x = 0; x < o->slab->nx; x++) {
      const int to = config_beyond(c, FACE_X_LO) + config_point_given(c, 0, x);
      o->sum[(size_t)row * nx + (size_t)to] += (double)plane[(size_t)y * nx + (size_t)x];
    }
  }
  for (size_t i = 0; i < points; i++) plane[i] = (float)o->sum[i];
}

int outside_fold(const files *f, const config *c, const slab *s, float *gradient, error *e) {
  outside_folding o = {c, s, f->compute, gradient, NULL};
  if (!config_extends(c)) return 0;
  ALLOC(e, o.sum, outside_points(s), "the gradient");
  if (!error_agree(e, f->compute) && !outside_fold_planes(&o, false, e)) outside_fold_planes(&o, true, e);
  for (int z = 0; z < s->nz && !e->id; z++) outside_fold_plane(&o, z);
  free(o.sum);
  return error_agree(e, f->compute);
}
