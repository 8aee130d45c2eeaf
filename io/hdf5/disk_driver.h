/* An HDF5 driver for files being written, whose writes never fail for HDF5. When HDF5 cannot write its own records,
 * H5Fclose fails and leaves the file half closed. HDF5 then closes it again at exit or in MPI_Finalize, and crashes
 * (seen with 1.10.8). A full disk must be one clear line instead. So this driver keeps the first failure and reports
 * success from then on. The functions of io_internal.h add their failures and write nothing after one. new_hdf5_close
 * returns the failure. */
#ifndef STENCIL_DISK_DRIVER_H
#define STENCIL_DISK_DRIVER_H

#include <hdf5.h>
#include <stdbool.h>
#include "base/error.h"

typedef struct new_hdf5 {
  const char *name; /* the final one, for messages; not owned */
  hid_t file;       /* H5I_INVALID_HID where not open */
  hid_t access;     /* the access list with the driver; 0: none */
  error failure;    /* the first one */
} new_hdf5;

/* Creates `temporary`, which will be renamed to f->name. Datasets of 64 KiB or more begin on pages. `user_block`:
 * bytes before HDF5's own, 0 or a power of 2; if it is not 0 the file has the newer, smaller format. `*f` must stay
 * where it is until new_hdf5_close, which is due after a failure, too. */
void new_hdf5_create(new_hdf5 *f, const char *temporary, uint64_t user_block);
/* Unless `ok`, fails with FILE_WRITE and the reason of the HDF5 call just made. Returns whether nothing has failed so
 * far. */
bool new_hdf5_check(new_hdf5 *f, bool ok);
/* Fails with the first failure so far, if there is one. */
int new_hdf5_failed(const new_hdf5 *f, error *e);
/* Closes the file, then does the same. */
int new_hdf5_close(new_hdf5 *f, error *e);

#endif
