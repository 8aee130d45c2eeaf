/* The ranks of a run and their data server. */
#include <stdlib.h>
#include "base/error_mpi.h"
#include "files.h"
#include "io/bytes/message.h"

/* Opens the file access of f->comm. */
static int files_open_access(files *f, bool together, error *e) {
  ALLOC(e, f->access, 1, "the way to files");
  TRY(error_agree(e, f->comm));
  return io_access_open(f->access, f->comm, together, e);
}

int files_open(files *f, MPI_Comm all, enum io_kind mode, const files_kind *kind, error *e) {
  int rank;
  *f = (files){.kind = kind, .compute = MPI_COMM_NULL, .comm = MPI_COMM_NULL, .served = mode == IO_SERVER};
  MPI_TRY(e, MPI_Comm_rank(all, &rank));
  MPI_TRY(e, MPI_Comm_size(all, &f->started));
  if (f->served && f->started == 1) {
    f->served = false;
    return FAIL(e, IO_NO_SERVER);
  }
  f->server = f->served && rank == f->started - 1;
  MPI_TRY(e, MPI_Comm_split(all, f->server ? MPI_UNDEFINED : 0, rank, &f->compute));
  MPI_TRY(e, MPI_Comm_split(all, 0, f->server ? -1 : rank, &f->comm));
  return files_open_access(f, mode == IO_AUTO || mode == IO_COLLECTIVE, e);
}

/* Opens the files of `count` computing ranks from `first` on, and of the server. Only those ranks call it. */
static int files_open_part(const files *f, int first, int count, files *part, error *e) {
  const int computing = f->served ? 1 : 0; /* rank of the first computing rank in f->comm */
  int ranges[2][3] = {{computing + first, computing + first + count - 1, 1}, {0, 0, 1}};
  MPI_Group all, mine, with_server;
  *part = (files){.kind = f->kind,
                  .context = f->context,
                  .compute = MPI_COMM_NULL,
                  .comm = MPI_COMM_NULL,
                  .served = f->served,
                  .server = f->server};
  part->started = f->started;
  MPI_TRY(e, MPI_Comm_group(f->comm, &all));
  MPI_TRY(e, MPI_Group_range_incl(all, 1, ranges, &mine));
  if (!f->server) MPI_TRY(e, MPI_Comm_create_group(f->comm, mine, first, &part->compute));
  ranges[0][0] = f->served ? 0 : ranges[0][0], ranges[0][1] = f->served ? 0 : ranges[0][1];
  ranges[1][0] = computing + first, ranges[1][1] = computing + first + count - 1;
  MPI_TRY(e, MPI_Group_range_incl(all, 1 + f->served, ranges, &with_server));
  MPI_TRY(e, MPI_Comm_create_group(f->comm, with_server, first + 1, &part->comm));
  MPI_TRY(e, MPI_Group_free(&all));
  MPI_TRY(e, MPI_Group_free(&mine));
  MPI_TRY(e, MPI_Group_free(&with_server));
  TRY(files_open_access(part, f->access->together, e));
  part->access->log = f->access->log;
  return 0;
}

int files_open_parts(const files *f, files_parts p, files *opened, error *e) {
  const int rank = f->access->rank - (f->served ? 1 : 0);
  for (int i = 0; i < p.count; i++)
    if (f->server || rank / p.ranks == i)
      TRY(files_open_part(f, i * p.ranks, p.ranks, f->server ? &opened[i] : opened, e));
  if (f->server || rank == 0) TRY(files_open_part(f, 0, 1, &opened[f->server ? p.count : 1], e));
  return 0;
}

int files_split(const files *f, files_parts parts, files *group, files *first, error *e) {
  files opened[2] = {{.compute = MPI_COMM_NULL, .comm = MPI_COMM_NULL},
                     {.compute = MPI_COMM_NULL, .comm = MPI_COMM_NULL}};
  files_do(f, &(request){.kind = FILES_SPLIT, .parts = parts, .own.answer = opened}, e);
  *group = opened[0], *first = opened[1];
  return error_agree(e, f->compute);
}

void files_close(files *f) {
  free(f->access);
  if (f->compute != MPI_COMM_NULL) MPI_Comm_free(&f->compute);
  if (f->comm != MPI_COMM_NULL) MPI_Comm_free(&f->comm);
}

void files_carry_config(message *m, const config **c) {
  const config *carried = message_array(m, c, sizeof **c);
  message_array(m, (void *)(uintptr_t)&carried->sources,
                (size_t)carried->source_count * sizeof *carried->sources);
  message_array(m, (void *)(uintptr_t)&carried->receiver_positions,
                (size_t)carried->receiver_count * sizeof *carried->receiver_positions);
}

int files_field_io(const files *f, field_io *io, const slab *slab, const config *c, error *e) {
  if (c->io == IO_AUTO && f->kind->see) TRY(f->kind->see(f, c, &f->access->together, e));
  field_io_init(io, f->access, slab, c->io);
  io->path = c->output_path;
  io->spacing[0] = c->dx, io->spacing[1] = c->dy, io->spacing[2] = c->dz;
  return 0;
}
