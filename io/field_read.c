/* Reading a field: blocks of planes come from the file, or through rank 0, and go to the rank's sink. */
#include "io_internal.h"
#include <math.h>
#include "base/error_mpi.h"

typedef struct reader {
  field_file f;
  field_sink *sink;
  void *context;
} reader;

/* Own planes [z, z + planes) are in the buffer: checks them and passes them on. */
static int deliver(const reader *r, int z, int planes, error *e) {
  const slab *s = r->f.io->slab;
  size_t row = (size_t)s->nx, plane = row * (size_t)s->ny, count = plane * (size_t)planes;
  for (size_t i = 0; i < count; i++) {
    float value = r->f.buffer[i];
    if (isfinite(value)) continue;
    return FAIL(e, FIELD_NONFINITE, r->f.name, isnan(value) ? "NaN" : "Inf, or a value beyond float32,",
                s->z0 + z + (int)(i / plane), (int)(i % plane / row), (int)(i % row));
  }
  return r->sink(r->context, z, planes, r->f.buffer, e);
}

static int read_own(reader *r, error *e) {
  const slab *s = r->f.io->slab;
  for (int z = 0, planes; z < s->nz; z += planes) {
    planes = field_block(&r->f, z, s->nz);
    TRY(field_get(&r->f, s->z0 + z, planes, r->f.buffer, e));
    TRY(deliver(r, z, planes, e));
  }
  return 0;
}

/* Rank 0: reads everybody's blocks in order and sends them. After a failure each rank still waiting gets an
 * empty one. */
static int read_and_send(reader *r, error *e) {
  const field_io *io = r->f.io;
  read_own(r, e);
  for (int rank = 1; rank < field_io_ranks(io); rank++) {
    int end = field_io_first_plane(io, rank + 1), planes;
    for (int z = field_io_first_plane(io, rank); z < end; z += planes) {
      planes = field_block(&r->f, z, end);
      if (!e->id) field_get(&r->f, z, planes, r->f.buffer, e);
      TRY(field_send(&r->f, rank, e->id ? 0 : planes, e));
      if (e->id) break;
    }
  }
  return e->id;
}

/* The other ranks: take what rank 0 sends, also after a failure of their own, which must not stop rank 0. */
static int receive(reader *r, error *e) {
  for (int z = 0, planes; z < r->f.io->slab->nz; z += planes) {
    TRY(field_receive(&r->f, 0, &planes, e));
    if (planes == 0) return 0; /* rank 0 has failed, and says why when the ranks agree */
    if (!e->id) deliver(r, z, planes, e);
  }
  return e->id;
}

int field_read(const field_io *io, const char *dataset, field_sink *sink, void *context, error *e) {
  const slab *s = io->slab;
  reader r = {.sink = sink, .context = context};
  bool collective = io->mode == IO_COLLECTIVE;
  const bool root = field_io_rank(io) == 0;
  field_file_init(&r.f, io, dataset);
  if (!field_file_buffer(&r.f, e) && root) field_open(&r.f, s->nx, s->ny, s->nz_global, e);
  if (collective) field_file_close(&r.f); /* rank 0 alone has checked it, and now opens it with the others */
  field_name n;
  if (!error_agree(e, io->comm) && collective && !field_name_split(&n, dataset, e))
    field_open_parallel(&r.f, n.file, n.dataset, H5F_ACC_RDONLY, e);
  if (!e->id) {
    if (collective)
      read_own(&r, e);
    else if (root)
      read_and_send(&r, e);
    else
      receive(&r, e);
    error_agree(e, io->comm);
  }
  field_file_close(&r.f);
  field_file_free(&r.f);
  return e->id;
}
