/* Halo exchange in z. A transport moves each slab's outermost own planes into the neighbours' ghost planes.
 * The table has one entry a transport; `sendrecv`, through pinned bounce buffers and MPI_Sendrecv, is the
 * reference. */
#ifndef STENCIL_HALO_H
#define STENCIL_HALO_H

#include <mpi.h>
#include "device.h"
#include "slab.h"

/* Events a transport records on STREAM_BOUNDARY for the report. */
typedef struct halo_events {
  int to_host;                    /* after the copies to the host */
  int to_device_begin, to_device; /* around the copies of the ghosts to the device */
} halo_events;

typedef struct halo halo;
struct transport {
  const char *name;
  int (*open)(halo *h, error *e);
  /* Sends the boundary planes of `field` and fills its ghost planes. In order after what STREAM_BOUNDARY
   * holds; on return the ghost copies are enqueued there, later work on that stream may use them. `events`
   * may be NULL. `serial` also waits for the ghost copies (overlap = off). */
  int (*exchange)(halo *h, float *field, const halo_events *events, bool serial, error *e);
  void (*close)(halo *h);
};

/* Everything a transport needs. Zero-initialised by halo_open. */
struct halo {
  const struct transport *transport;
  device *dev;
  const slab *slab;
  MPI_Comm comm;
  MPI_Datatype row; /* one row of the slab, pitch floats */
  float *send[2],
      *receive[2]; /* pinned, ghost planes each; [0] lower, [1] upper; NULL where there is no neighbour */
  double exchange_seconds; /* time in MPI since opened */
};

/* The transport called `name`; for "auto" the best this program has, NULL if there is none of that name. */
const struct transport *transport_find(const char *name);

/* Opens the transport called `name` ("auto": the best this program has). Collective over `comm`, the
 * computing ranks in slab order. `dev`, `slab` and `comm` must outlive it. */
int halo_open(halo *h, const char *name, device *dev, const slab *slab, MPI_Comm comm, error *e);
/* True where this slab has a neighbour: otherwise an exchange does nothing and records no event. */
bool halo_needed(const halo *h);
int halo_exchange(halo *h, float *field, const halo_events *events, bool serial, error *e);
void halo_close(halo *h);

#endif
