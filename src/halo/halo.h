/* Halo exchange in z. A transport moves each slab's outermost own planes into the neighbours' ghost planes: one entry
 * of a table each, all with the same result. `sendrecv`, through pinned bounce buffers and MPI_Sendrecv, is the
 * reference. */
#ifndef STENCIL_HALO_H
#define STENCIL_HALO_H

#include <mpi.h>
#include <stdbool.h>
#include "device/device.h"
#include "slab.h"

/* Events a transport records on STREAM_BOUNDARY for the report. */
typedef struct halo_events {
  int to_host;                    /* after the copies to the host */
  int to_device_begin, to_device; /* around the copies of the ghosts to the device */
} halo_events;

enum { HALO_WHY = 256, HALO_STORY = 1024, HALO_FIELDS = 3 };

/* What an exchange works on. */
typedef struct halo_setup {
  device *dev;
  const slab *slab;
  MPI_Comm comm; /* the computing ranks, in slab order */
  /* All that are ever exchanged: device memory, slab_floats each; in the same order on every rank. Those after the
   * first NULL do not count. */
  float *fields[HALO_FIELDS];
  int node_ranks; /* 0: which ranks share a node is asked of MPI. Else so many in a row do, for tests */
} halo_setup;

typedef struct halo halo;
typedef struct transport {
  /* Can this rank use it? `why`: why not. Not collective. NULL: any rank can. */
  bool (*possible)(const halo *h, char why[HALO_WHY]);
  /* Collective. A rank that fails does so after all have arrived: the caller agrees on the failure. */
  int (*open)(halo *h, error *e);
  /* Sends the boundary planes of `field` and fills its ghost planes. In order after what STREAM_BOUNDARY
   * holds; on return the ghosts' arrival is enqueued there, later work on that stream may use them. `events`
   * may be NULL. `serial` also waits for the ghosts (overlap = off). */
  int (*exchange)(halo *h, float *field, const halo_events *events, bool serial, error *e);
  void (*close)(halo *h); /* collective; also after an open that failed */
  bool on_device;         /* of the halo, unless open finds otherwise */
  const char *built_with; /* for --version; NULL: nothing to say */
} transport;

/* A line of transports.def. */
typedef struct transport_entry {
  const char *name, *note;
  const transport *transport;
} transport_entry;

/* Everything a transport needs. Zero-initialised by halo_open. */
struct halo {
  const transport *transport;
  const char *name; /* its, while one is open */
  halo_setup setup;
  device *dev; /* these three as in the setup */
  const slab *slab;
  MPI_Comm comm;
  MPI_Comm node;    /* the ranks of this node */
  MPI_Datatype row; /* one row of the slab, pitch floats */
  void *state;      /* of the transport, owned by it */
  /* The host's, from the first plane on its way to the last that came, since opened. */
  double exchange_seconds;
  /* What happens between the events to_host and to_device_begin is the exchange itself, and the host is not in it. */
  bool on_device;
  bool mapped;            /* ghosts are the neighbours' own planes: an exchange moves nothing */
  char way[HALO_WHY];     /* which of its ways the transport goes, for the log; empty if it has only one */
  char story[HALO_STORY]; /* how `auto` chose, for the log; empty if it had nothing to choose */
};

/* The table, from simple to elaborate. */
int transport_count(void);
const transport_entry *transport_at(int i);

/* Exit 1, saying why, if this rank cannot use the transport called `name`. Not collective. */
int transport_check(const char *name, device *dev, error *e);

/* Opens the transport called `name`. One that this program or machine cannot do is exit 1 saying why. Any but
 * `sendrecv` must pass a test with patterns in all fields. "auto": the fastest by measurement of those that pass.
 * Collective over the setup's comm, and agreed. What the setup names must outlive the halo.
 *
 * Opening and closing leave NaN in and beside the planes that are exchanged: fields are filled between them. From then
 * on ghosts towards a neighbour may be the neighbour's own planes, seen by both (transport_shared.c). So nobody writes
 * them but the exchange, unless with what the neighbour has there; and own planes change in steps that take turns with
 * exchanges, or when all ranks are known to be done with the field. */
int halo_open(halo *h, const char *name, const halo_setup *setup, error *e);
/* True where this slab has a neighbour: otherwise an exchange does nothing and records no event. */
bool halo_needed(const halo *h);
int halo_exchange(halo *h, float *field, const halo_events *events, bool serial, error *e);
void halo_close(halo *h);

#endif
