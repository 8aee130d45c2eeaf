/* An HDF5 file driver for files being written, whose writes never fail as far as HDF5 can see.
 *
 * Why: when HDF5 cannot write its own records, H5Fclose fails and leaves a file half closed, which HDF5
 * closes again, and crashes, at exit or in MPI_Finalize (seen with 1.10.8). A full disk must be one clear
 * line instead. So this driver remembers the first failure, pretends success from then on, and its user looks
 * at what it remembered. */
#ifndef STENCIL_DISK_DRIVER_H
#define STENCIL_DISK_DRIVER_H

#include <hdf5.h>
#include <stdint.h>

/* A file access list with this driver, to be closed by the caller; negative on failure. `*first_error` (owned
 * by the caller, to outlive the file) becomes the errno of the first failed open, write or truncation; set it
 * to 0 before. Growing a file reserves its space, where the file system can. */
hid_t disk_driver_access(int *first_error);

/* Likewise, and keeps `*digest`, 0 before, up to date with the contents of the file, which must be a new one
 * (digest.h). */
hid_t disk_driver_access_digest(int *first_error, uint64_t *digest);

#endif
