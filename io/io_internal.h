/* What the files of io/ share. It includes hdf5.h, so nothing outside io/ includes it. */
#ifndef STENCIL_IO_INTERNAL_H
#define STENCIL_IO_INTERNAL_H

#include <hdf5.h>
#include "disk_driver.h"
#include "atomic_file.h"
#include "field_io.h"

enum { HDF5_TEXT = 512, FILE_NAME = CONFIG_TEXT + 32, PATH_ENDING = 160 };

/* A block of a file on its way through memory, bytes, where nobody says otherwise (block_bytes): large enough for any
 * disk; small beside a slab; far from MPI-IO's trouble at 2 GiB. */
enum { FILE_BLOCK = 16 << 20 };

/* Why the HDF5 call just made failed, in HDF5's words, for the end of a message. Use through HDF5_WHY, before
 * any other HDF5 call, which would forget it. */
const char *hdf5_why(char text[HDF5_TEXT]);
#define HDF5_WHY hdf5_why((char[HDF5_TEXT]){""})

/* A file access list for the POSIX driver without file locks, which many cluster file systems lack (an input
 * is only read, an output is written under a name nobody else uses). Negative on failure. */
hid_t hdf5_access(void);

/* The folder of `path`: "." where it names none. */
void path_folder(const char *path, char folder[FILE_NAME]);
/* Exit 2 unless a file named PATH and `ending` (6 to PATH_ENDING - 1 characters) can be created. Leaves nothing
 * behind. */
int path_check_ending(named_path p, const char *ending, error *e);

/* What follows BASE.SSSSSSSS and `extension`, where BASE is the last part of `path`, at the beginning of the name of a
 * file; NULL where it is no such name. */
const char *path_step(const char *path, const char *extension, const char *file, int64_t *step);

/* "FILE:/path" cut in two at its last ":/". */
typedef struct field_name {
  char file[FILE_NAME];
  const char *dataset; /* into the name that was cut */
} field_name;
int field_name_split(field_name *n, const char *name, error *e);

/* Which datasets a name may mean: how many axes they have, and how a message calls them. */
typedef struct dataset_kind {
  int rank_min, rank_max;
  const char *name; /* "3D" */
} dataset_kind;

/* Opens dataset `name`, FILE:/path, for reading and checks that it holds numbers. Not collective. `*file` and
 * `*dataset`, H5I_INVALID_HID before, stay open after a failure too if they were: the caller closes them. Where there
 * is no such dataset, the message lists those of this kind. */
int dataset_open(const char *name, dataset_kind kind, hid_t *file, hid_t *dataset, error *e);

enum { SHAPE_TEXT = 32 + H5S_MAX_RANK * 24 };
/* The shape of an open dataset, also in words. */
int dataset_shape(const char *name, hid_t dataset, hsize_t shape[H5S_MAX_RANK], int *rank,
                  char text[SHAPE_TEXT], error *e);

/* An open dataset of a field and the buffer its blocks pass through. */
typedef struct field_file {
  const field_io *io;
  const char *name;    /* for messages: FILE:/path of an input, the final name of an output; not owned */
  hid_t file, dataset; /* H5I_INVALID_HID where not open, as on the other ranks of IO_GATHER */
  int block;           /* planes a block holds at most */
  float *buffer;       /* block * ny * nx floats, owned */
  MPI_Datatype row;    /* nx floats: blocks are counted in rows, since floats may exceed an int */
} field_file;

/* A field_file with nothing open, and no buffer. Call field_file_free in any case. */
void field_file_init(field_file *f, const field_io *io, const char *name);
/* Takes the buffer and the row type. */
int field_file_buffer(field_file *f, error *e);
void field_file_free(field_file *f);

/* Closes what is open. Returns 0, or -1 if HDF5 could not. */
int field_file_close(field_file *f);

/* Ranks of io->comm, this one among them, and the first global plane of one of them (also of rank == ranks: nz). The
 * data server is one without planes before the others. */
int field_io_ranks(const field_io *io);
int field_io_rank(const field_io *io);
int field_io_first_plane(const field_io *io, int rank);

/* Planes of a block that is to take at most `bytes`: at least 1, at most those of the largest slab. The same on every
 * rank. */
int field_io_planes(const field_io *io, size_t bytes);

/* Number of planes of the block at plane z of a slab that ends before plane `end`: 0 past the end. */
int field_block(const field_file *f, int z, int end);

enum field_direction { FIELD_READ, FIELD_WRITE };

/* Read, and write, global planes [z, z + planes), on this rank alone.
 * Not as a collective MPI-IO transfer, though all ranks have the file open together: a block is one
 * contiguous piece, so there is nothing to combine, and where a write failed on one rank (Open
 * MPI 4.1), a collective one was reported to none and its ranks then hung in the next collective call. */
int field_get(const field_file *f, int z, int planes, float *values, error *e);
int field_put(const field_file *f, int z, int planes, const float *values, error *e);

/* Sends the first `planes` planes of f->buffer to `rank`; 0 planes say that no more will come. Returns once
 * they are being received. */
int field_send(const field_file *f, int rank, int planes, error *e);
/* Receives a block from `rank` into f->buffer. */
int field_receive(const field_file *f, int rank, int *planes, error *e);

/* Opens dataset f->name for reading and checks all but its values. Not collective. What it opened stays open
 * after a failure too: field_file_close. */
int field_open(field_file *f, int nx, int ny, int nz, error *e);
/* Opens a dataset that is known to be good on all ranks together. Collective, and agreed. */
int field_open_parallel(field_file *f, const char *file, const char *dataset, unsigned flags, error *e);

/* Attributes of an open object of the file whose name, for messages, is `file`: `count` values, or a scalar for 0. */
int attribute_int64(const char *file, hid_t object, const char *name, int count, const int64_t *values,
                    error *e);
int attribute_double(const char *file, hid_t object, const char *name, int count, const double *values,
                     error *e);
/* A string of `size` bytes, or for H5T_VARIABLE one of any length: those lie outside the object header with its
 * 64 KiB limit, and are what h5py gives back as str. NULL: empty. */
int attribute_string(const char *file, hid_t object, const char *name, size_t size, const char *text,
                     error *e);
/* Which program made this, and when: created_by, creation_date, git_hash. */
int attribute_origin(const char *file, hid_t object, error *e);

/* Creates `path` for f->io's slab with the dataset, to be filled, and all that describes it. Its space is
 * reserved where the file system can, so that a full disk is seen here. Not collective. `disk`, which is opened here, is
 * to be closed after the file: what fails on disk only it sees. */
int field_create(field_file *f, const char *path, const field_meta *meta, disk_driver *disk, error *e);
/* FILE_WRITE for what `disk` has seen, if anything. */
int field_disk_failed(const field_file *f, const disk_driver *disk, error *e);

#endif
