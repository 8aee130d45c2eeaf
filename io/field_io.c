#include "io_internal.h"
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"

enum { TAG_BLOCK = 7001 };

void field_io_start(void) {
  H5Eset_auto2(H5E_DEFAULT, NULL, NULL);
  signal(SIGXFSZ,
         SIG_IGN); /* a file above the limit of `ulimit -f` is an error to report, not a reason to die */
}

bool field_io_parallel(void) {
#ifdef H5_HAVE_PARALLEL
  return true;
#else
  return false;
#endif
}

void field_io_version(char text[64]) {
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  snprintf(text, 64, "%u.%u.%u (%s)", major, minor, release, field_io_parallel() ? "parallel" : "serial");
}

/* Within a node planes reach rank 0 faster than ranks agree about a file: two ranks of one node wrote fields of 256^3
 * points 1.6 to 2.3 times as fast that way. Between nodes one rank's link is not enough for all. */
static int choose_mode(MPI_Comm comm, enum io_kind *mode, error *e) {
  int ranks, together;
  MPI_Comm node;
  *mode = IO_GATHER;
  if (!field_io_parallel()) return 0;
  MPI_TRY(e, MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node));
  MPI_TRY(e, MPI_Comm_size(node, &together));
  MPI_TRY(e, MPI_Comm_free(&node));
  MPI_TRY(e, MPI_Comm_size(comm, &ranks));
  if (together < ranks) *mode = IO_COLLECTIVE;
  return 0;
}

int field_io_init(field_io *io, MPI_Comm comm, const slab *s, enum io_kind mode, error *e) {
  if (mode == IO_AUTO) TRY(choose_mode(comm, &mode, e));
  *io = (field_io){.comm = comm, .slab = s, .mode = mode, .block_bytes = FILE_BLOCK};
  if (mode == IO_COLLECTIVE && !field_io_parallel()) return FAIL(e, IO_NOT_COLLECTIVE);
  return 0;
}

/* H5Ewalk2 from the innermost function outwards: keeps the first description there is. */
static herr_t keep_innermost(unsigned n, const H5E_error2_t *record, void *text) {
  (void)n;
  if (!*(char *)text && record->desc) snprintf(text, HDF5_TEXT, "%s", record->desc);
  return 0;
}

const char *hdf5_why(char text[HDF5_TEXT]) {
  static const char mark[] =
      "error message = '"; /* the system's words among the file driver's many numbers */
  text[0] = 0;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, text);
  char *system = strstr(text, mark), *end = system ? strchr(system + strlen(mark), '\'') : NULL;
  if (end) {
    *end = 0;
    memmove(text, system + strlen(mark), strlen(system + strlen(mark)) + 1);
  }
  return text[0] ? text : "no reason given by HDF5";
}

hid_t hdf5_access(void) {
  hid_t access = H5Pcreate(H5P_FILE_ACCESS);
#if H5_VERSION_GE(1, 10, 7) && !(H5_VERS_MAJOR == 1 && H5_VERS_MINOR == 12 && H5_VERS_RELEASE == 0)
  if (access >= 0 && H5Pset_file_locking(access, false, true) < 0) {
    H5Pclose(access);
    return H5I_INVALID_HID;
  }
#endif
  return access;
}

void field_file_init(field_file *f, const field_io *io, const char *name) {
  *f = (field_file){.io = io, .name = name, .block = 1, .row = MPI_DATATYPE_NULL};
  f->file = f->dataset = H5I_INVALID_HID;
}

int field_file_buffer(field_file *f, error *e) {
  const slab *s = f->io->slab;
  const size_t plane = (size_t)s->ny * (size_t)s->nx * sizeof(float);
  f->block = field_io_planes(f->io, f->io->block_bytes);
  f->buffer = malloc((size_t)f->block * plane);
  if (!f->buffer) return FAIL(e, OUT_OF_MEMORY, (size_t)f->block * plane, "a block of file data");
  MPI_TRY(e, MPI_Type_contiguous(s->nx, MPI_FLOAT, &f->row));
  MPI_TRY(e, MPI_Type_commit(&f->row));
  return 0;
}

void field_file_free(field_file *f) {
  free(f->buffer);
  f->buffer = NULL;
  if (f->row != MPI_DATATYPE_NULL) MPI_Type_free(&f->row);
}

int field_file_close(field_file *f) {
  int rc = 0;
  if (f->dataset >= 0 && H5Dclose(f->dataset) < 0) rc = -1;
  if (f->file >= 0 && H5Fclose(f->file) < 0) rc = -1;
  f->dataset = f->file = H5I_INVALID_HID;
  return rc;
}

static int servers(const field_io *io) {
  return io->mode == IO_SERVER ? 1 : 0;
}

int field_io_ranks(const field_io *io) {
  return io->slab->ranks + servers(io);
}

int field_io_rank(const field_io *io) {
  return io->slab->rank + servers(io);
}

int field_io_first_plane(const field_io *io, int rank) {
  return slab_first_plane(io->slab, rank > 0 ? rank - servers(io) : 0);
}

int field_io_planes(const field_io *io, size_t bytes) {
  const slab *s = io->slab;
  const size_t countable = (size_t)(INT_MAX / s->ny); /* MPI counts rows in an int */
  size_t planes = bytes / ((size_t)s->ny * (size_t)s->nx * sizeof(float));
  if (planes > countable) planes = countable;
  if (planes > (size_t)slab_largest(s)) planes = (size_t)slab_largest(s);
  return planes > 1 ? (int)planes : 1;
}

int field_block(const field_file *f, int z, int end) {
  int left = end > z ? end - z : 0;
  return left < f->block ? left : f->block;
}

/* Global planes [z, z + planes): read into `get`, or written from `put`. */
static int transfer(const field_file *f, int z, int planes, float *get, const float *put, error *e) {
  const slab *s = f->io->slab;
  hsize_t shape[3] = {(hsize_t)s->nz_global, (hsize_t)s->ny, (hsize_t)s->nx};
  hsize_t start[3] = {(hsize_t)z, 0, 0}, count[3] = {(hsize_t)planes, shape[1], shape[2]};
  hid_t disk = H5Screate_simple(3, shape, NULL), memory = H5Screate_simple(3, count, NULL);
  herr_t rc =
      disk < 0 || memory < 0 ? -1 : H5Sselect_hyperslab(disk, H5S_SELECT_SET, start, NULL, count, NULL);
  if (rc >= 0 && get)
    rc = H5Dread(f->dataset, H5T_NATIVE_FLOAT, memory, disk, H5P_DEFAULT, get);
  else if (rc >= 0)
    rc = H5Dwrite(f->dataset, H5T_NATIVE_FLOAT, memory, disk, H5P_DEFAULT, put);
  if (rc < 0 && get)
    FAIL(e, FIELD_VALUES, f->name, z, z + planes - 1, HDF5_WHY);
  else if (rc < 0)
    FAIL(e, FILE_WRITE, f->name, HDF5_WHY);
  if (disk >= 0) H5Sclose(disk);
  if (memory >= 0) H5Sclose(memory);
  return e->id;
}

int field_get(const field_file *f, int z, int planes, float *values, error *e) {
  return transfer(f, z, planes, values, NULL, e);
}

int field_put(const field_file *f, int z, int planes, const float *values, error *e) {
  return transfer(f, z, planes, NULL, values, e);
}

int field_send(const field_file *f, int rank, int planes, error *e) {
  /* Synchronous: a fast sender of small blocks must not fill the memory of a slow receiver. */
  MPI_Request request;
  MPI_TRY(e, MPI_Issend(f->buffer, planes * f->io->slab->ny, f->row, rank, TAG_BLOCK, f->io->comm, &request));
  MPI_TRY(e, mpi_wait(&request, MPI_STATUS_IGNORE));
  return 0;
}

int field_receive(const field_file *f, int rank, int *planes, error *e) {
  int rows = 0, ny = f->io->slab->ny;
  MPI_Status status;
  MPI_Request request;
  MPI_TRY(e, MPI_Irecv(f->buffer, f->block * ny, f->row, rank, TAG_BLOCK, f->io->comm, &request));
  MPI_TRY(e, mpi_wait(&request, &status));
  MPI_TRY(e, MPI_Get_count(&status, f->row, &rows));
  *planes = rows / ny;
  return 0;
}
