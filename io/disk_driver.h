/* An HDF5 file driver for files being written, whose writes never fail as far as HDF5 can see.
 *
 * Why: when HDF5 cannot write its own records, H5Fclose fails and leaves a file half closed, which HDF5
 * closes again, and crashes, at exit or in MPI_Finalize (seen with 1.10.8). A full disk must be one clear
 * line instead. So this driver remembers the first failure, pretends success from then on, and its user looks
 * at what it remembered. */
#ifndef STENCIL_DISK_DRIVER_H
#define STENCIL_DISK_DRIVER_H

#include <hdf5.h>
#include <stdbool.h>
#include <stdint.h>

/* The driver of one file. */
typedef struct disk_driver {
  hid_t access; /* the file access list to create the file with; 0: not open */
  int error;    /* errno of the first failed open, write, truncation or close; 0: none */
} disk_driver;

/* Makes the access list, and says whether it could. `*d` must stay where it is until the file is closed. */
bool disk_driver_open(disk_driver *d);

/* Gives the list back, after the file is closed: H5Fclose drops the file's reference to its driver and only then calls
 * it (H5FD_close of 1.10), so another reference must be left. What the driver has seen stays. Harmless where not open. */
void disk_driver_close(disk_driver *d);

#endif
