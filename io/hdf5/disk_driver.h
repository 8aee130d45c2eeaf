/* HDF5 files that are being written, through a driver whose writes never fail as far as HDF5 can see.
 *
 * Why: when HDF5 cannot write its own records, H5Fclose fails and leaves a file half closed, which HDF5
 * closes again, and crashes, at exit or in MPI_Finalize (seen with 1.10.8). A full disk must be one clear
 * line instead. So this driver remembers the first failure and pretends success from then on. What is put into the file
 * (io_internal.h) adds its own failures, and puts nothing after one. new_hdf5_close tells. */
#ifndef STENCIL_DISK_DRIVER_H
#define STENCIL_DISK_DRIVER_H

#include <hdf5.h>
#include <stdbool.h>
#include "base/error.h"

typedef struct new_hdf5 {
  const char *name; /* the final one, for messages; not owned */
  hid_t file;       /* H5I_INVALID_HID where not open */
  hid_t access;     /* its driver's; 0: none */
  error failure;    /* the first one */
} new_hdf5;

/* Creates `temporary`, which is going to be f->name; datasets of 64 KiB or more will begin on pages. With `user_block` bytes
 * before HDF5's own, 0 or a power of 2, it is of the newer, smaller format. `*f` must stay where it is until
 * new_hdf5_close, which is due after a failure, too. */
void new_hdf5_create(new_hdf5 *f, const char *temporary, uint64_t user_block);
/* FILE_WRITE, unless `ok`: why the HDF5 call just made failed. Returns whether nothing has failed so far. */
bool new_hdf5_check(new_hdf5 *f, bool ok);
/* Fails for the first failure so far. */
int new_hdf5_failed(const new_hdf5 *f, error *e);
/* The same, after closing it. */
int new_hdf5_close(new_hdf5 *f, error *e);

#endif
