/* Halo exchange in z. A transport moves each slab's outermost own planes into the neighbours' ghost planes. Each
 * transport is an entry of a table; all give the same result. `sendrecv`, through pinned bounce buffers and
 * MPI_Sendrecv, is the reference. */
#ifndef STENCIL_HALO_H
#define STENCIL_HALO_H

#include <mpi.h>
#include <stdbool.h>
#include "device/device.h"
#include "slab.h"

/* The events that a timed exchange records on the halo's stream. */
enum halo_event {
  HALO_TO_HOST,         /* after the copies to the host */
  HALO_TO_DEVICE_BEGIN, /* before the copies of the ghosts to the device */
  HALO_TO_DEVICE,       /* after the copies of the ghosts to the device */
  HALO_EVENTS
};
enum {
  HALO_SETS = 3,    /* sets of events, 0 to 2, for the times of so many exchanges */
  HALO_UNTIMED = -1 /* in place of a set: no events */
};

enum { HALO_WHY = 256, HALO_STORY = 1024, HALO_FIELDS = EQUATION_STATES };

/* The fields that an exchange works on. */
typedef struct halo_setup {
  device *dev;
  const slab *slab;
  MPI_Comm comm; /* the computing ranks, in slab order */
  /* All fields that are ever exchanged: device memory of slab_floats each, in the same order on every rank. The first
   * NULL ends the list. */
  float *fields[HALO_FIELDS];
  int node_ranks; /* 0: as MPI says. Else, for tests: so many consecutive ranks are a node */
} halo_setup;

typedef struct halo halo;
typedef struct transport {
  /* True if this rank can use the transport; else `why` gets the reason. Not collective. NULL: any rank can. */
  bool (*possible)(const halo *h, char why[HALO_WHY]);
  /* Collective. A rank that fails still takes part in all collective calls; the caller makes the ranks agree. */
  int (*open)(halo *h, error *e);
  /* Sends the boundary planes of `field` and fills its ghost planes. It runs after the earlier work of the halo's
   * stream. On return the arrival of the ghosts is enqueued there, so later work of that stream may use them. `set`:
   * the set of events to record, or HALO_UNTIMED. halo_exchange itself records HALO_TO_DEVICE, and all events where
   * halo.on_device. */
  int (*exchange)(halo *h, float *field, int set, error *e);
  /* Begins a serial exchange, where neighbours may still use the field. NULL: the exchange needs no beginning. */
  int (*meet)(halo *h, error *e);
  void (*close)(halo *h); /* collective; also after a failed open. Both may be NULL: nothing to do */
  size_t state_bytes;     /* bytes of halo.state, which is zeros at first */
  bool on_device;         /* first value of halo.on_device; open may change it */
  /* For --version: sets `text` to the library that the transport needs, or to why there is none. NULL: it needs
   * none. */
  void (*describe)(char text[HALO_WHY]);
} transport;

/* A line of transports.def. */
typedef struct transport_entry {
  const char *name, *note;
  const transport *transport;
} transport_entry;

/* Everything a transport needs. Zero-initialised by halo_open. */
struct halo {
  const transport *transport;
  const char *name; /* the open transport's name; NULL: none is open */
  halo_setup setup;
  device *dev; /* `dev`, `slab` and `comm` as in the setup */
  const slab *slab;
  MPI_Comm comm;
  MPI_Comm node;                                /* the ranks of this node */
  MPI_Datatype row;                             /* one row of the slab, pitch floats */
  void *state;                                  /* the transport's, freed after its close */
  device_event *events[HALO_SETS][HALO_EVENTS]; /* timed; owned */
  /* Seconds from the first plane sent to the last received, as the host sees it, summed since the halo was opened. */
  double exchange_seconds;
  /* The whole exchange runs on the device, between HALO_TO_HOST and HALO_TO_DEVICE_BEGIN, without the host. */
  bool on_device;
  bool trial; /* the transport is only measured; fields will not be used */
  /* An exchange moves nothing: ghosts are the neighbours' own planes, or a host's slab has no neighbour. */
  bool mapped;
  /* The stream of exchanges: STREAM_BOUNDARY, but STREAM_INTERIOR where `mapped`. There nothing runs beside a step, and
   * each change of streams would wake a thread. */
  int stream;
  char method[HALO_WHY];  /* which of its methods the transport uses, for the log; empty if it has only one */
  char story[HALO_STORY]; /* how `auto` chose, for the log; empty if it had nothing to choose */
};

/* The table, from simple to elaborate. */
int transport_count(void);
const transport_entry *transport_at(int i);

/* Exit 1, saying why, if this rank cannot use the transport called `name`. Not collective. */
int transport_check(const char *name, device *dev, error *e);

/* Opens the transport called `name`. A transport that this program or machine cannot use is exit 1 with the reason. All
 * except `sendrecv` must pass a test with patterns in all fields. "auto": the fastest by measurement of those that
 * pass. Collective over the setup's comm, and agreed. The setup's pointers must outlive the halo. After a failure no
 * transport is open; halo_close frees the rest. Opening and closing overwrite the fields, with NaN in and beside the
 * planes that are exchanged. So load fields after opening and read them before closing. While the halo is open, ghosts
 * towards a neighbour may be the same memory as the neighbour's own planes (transport_shared.c). So only the exchange
 * may write ghosts. Others may write there only the neighbour's own values. Own planes may change only in steps that
 * alternate with exchanges, or when all ranks are known to be done with the field. */
int halo_open(halo *h, const char *name, const halo_setup *setup, error *e);
/* True where this slab has a neighbour: otherwise an exchange does nothing and records no event. */
bool halo_needed(const halo *h);
/* Exchanges the planes of `field`, one of the setup's: see transport.exchange. `serial` also waits for the ghosts
 * (overlap = off). Collective. After a failure neighbours
 * may wait for ever: end the job (error_abort). */
int halo_exchange(halo *h, float *field, int set, bool serial, error *e);
/* Collective. Call it also after a failed halo_open; a zero-initialised halo is allowed. */
void halo_close(halo *h);

#endif
