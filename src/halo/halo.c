/* The transports' table, and which of them runs. */
#include "halo.h"
#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "transport.h"

#define TRANSPORT(constant, name, note) {#name, note, &transport_##name},
static const transport_entry halo_transports[] = {
#include "transports.def"
};
#undef TRANSPORT
enum { TRANSPORTS = sizeof halo_transports / sizeof *halo_transports };

/* `auto` goes through transports.def from simple to elaborate. It takes a more elaborate transport only if that needs
 * less than this part of the time of its choice so far. */
static const double WORTH = 0.95;

int transport_fields(const halo *h) {
  int count = 0;
  while (count < HALO_FIELDS && h->setup.fields[count]) count++;
  return count;
}

int transport_neighbour(const halo *h, int side) {
  int rank = side == LOWER ? h->slab->lower : h->slab->upper;
  return rank == SLAB_NO_RANK ? MPI_PROC_NULL : rank;
}

int transport_local_neighbour(const halo *h, int side, int *local, error *e) {
  const int neighbour = transport_neighbour(h, side);
  MPI_Group all, node;
  *local = MPI_UNDEFINED;
  if (neighbour == MPI_PROC_NULL) return 0;
  MPI_TRY(e, MPI_Comm_group(h->comm, &all));
  MPI_TRY(e, MPI_Comm_group(h->node, &node));
  MPI_TRY(e, MPI_Group_translate_ranks(all, 1, &neighbour, node, local));
  MPI_TRY(e, MPI_Group_free(&all));
  MPI_TRY(e, MPI_Group_free(&node));
  return 0;
}

size_t transport_bytes(const slab *s) {
  return (size_t)RADIUS * s->plane * sizeof(float);
}

static float *halo_planes_at(float *field, const slab *s, int z) {
  return field + slab_offset(s, z, -RADIUS, -RADIUS);
}

float *transport_own(float *field, const slab *s, int side) {
  return halo_planes_at(field, s, side == LOWER ? 0 : s->nz - RADIUS);
}

float *transport_ghosts(float *field, const slab *s, int side) {
  return halo_planes_at(field, s, side == LOWER ? -RADIUS : s->nz);
}

int transport_record(const halo *h, int set, enum halo_event event, error *e) {
  if (set == HALO_UNTIMED) return 0;
  return h->dev->table->record(h->dev, h->stream, h->events[set][event], e);
}

int transport_count(void) {
  return TRANSPORTS;
}

const transport_entry *transport_at(int i) {
  return &halo_transports[i];
}

/* The transport called `name`; NULL: there is none, as for "auto". */
static const transport_entry *halo_find(const char *name) {
  for (int i = 0; i < TRANSPORTS; i++)
    if (strcmp(name, halo_transports[i].name) == 0) return &halo_transports[i];
  return NULL;
}

static bool halo_possible(const halo *h, const transport *t, char why[HALO_WHY]) {
  return !t->possible || t->possible(h, why);
}

int transport_check(const char *name, device *dev, error *e) {
  const halo h = {.dev = dev};
  char why[HALO_WHY] = "";
  const transport_entry *t = halo_find(name);
  return !t || halo_possible(&h, t->transport, why) ? 0 : FAIL(e, TRANSPORT_IMPOSSIBLE, name, why);
}

/* --- opening one ------------------------------------------------------------------------------------------------ */

static void halo_leave(halo *h) {
  if (h->transport && h->transport->close) h->transport->close(h);
  h->transport = NULL;
  h->name = NULL;
  free(h->state);
  h->state = NULL;
  h->on_device = h->mapped = false;
  h->stream = STREAM_BOUNDARY;
  h->method[0] = 0;
}

/* Opens a transport. Agreed; after a failure nothing is open. */
static int halo_enter(halo *h, const transport_entry *entry, bool test, error *e) {
  char why[HALO_WHY] = "";
  const transport *t = entry->transport;
  if (!halo_possible(h, t, why))
    FAIL(e, TRANSPORT_REFUSED, why);
  else if (t->state_bytes && !(h->state = calloc(1, t->state_bytes)))
    FAIL(e, OUT_OF_MEMORY, t->state_bytes, "the transport");
  if (!error_agree(e, h->comm)) {
    h->transport = t;
    h->name = entry->name;
    h->on_device = t->on_device;
    if (t->open) t->open(h, e);
    h->mapped = h->mapped || (!halo_needed(h) && h->dev->table->backend == BACKEND_HOST);
    h->stream = h->mapped ? STREAM_INTERIOR : STREAM_BOUNDARY;
    if (!error_agree(e, h->comm) && test && t != &transport_sendrecv) halo_test(h, e);
  }
  if (e->id) halo_leave(h);
  return e->id;
}

/* Opens the transport called `name`. A failure is an error of the configuration, unless memory ran out. */
static int halo_enter_named(halo *h, const char *name, error *e) {
  error reason = {0};
  const transport_entry *t = halo_find(name);
  if (!halo_enter(h, t, true, &reason)) return 0;
  bool memory = reason.id == ERROR_OUT_OF_MEMORY || reason.id == ERROR_DEVICE_MEMORY;
  if (!memory && t->transport != &transport_sendrecv) return FAIL(e, TRANSPORT_IMPOSSIBLE, name, reason.text);
  if (!e->id) *e = reason;
  return e->id;
}

/* --- auto ------------------------------------------------------------------------------------------------------- */

static void halo_tell(halo *h, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void halo_tell(halo *h, const char *format, ...) {
  va_list args;
  const size_t length = strlen(h->story);
  va_start(args, format);
  vsnprintf(h->story + length, sizeof h->story - length, format, args);
  va_end(args);
}

/* Shall `auto` measure this transport? NCCL takes a second to start, and on one node it is slower than ipc. The answer
 * is the same on every rank. */
static bool halo_worth_trying(const halo *h, const transport *t, const double seconds[TRANSPORTS]) {
  int all = 0, near = 0;
  MPI_Comm_size(h->comm, &all);
  MPI_Comm_size(h->node, &near);
  return t != &transport_nccl || near < all || isinf(seconds[halo_find("ipc") - halo_transports]);
}

/* Opens and measures the transports. Every rank has the same times; INFINITY: the transport is impossible here, or not
 * tried. */
static int halo_compare(halo *h, double seconds[TRANSPORTS], error *e) {
  for (int i = 0; i < TRANSPORTS; i++) {
    const char *name = halo_transports[i].name, *before = i ? "; " : "";
    error refused = {0};
    seconds[i] = INFINITY;
    if (!halo_worth_trying(h, halo_transports[i].transport, seconds)) {
      halo_tell(h, "%s%s: not tried beside ipc", before, name);
      continue;
    }
    h->trial = true;
    const int impossible = halo_enter(h, &halo_transports[i], false, &refused);
    h->trial = false;
    if (impossible) {
      halo_tell(h, "%s%s: %s", before, name, refused.text);
      continue;
    }
    const int failure = halo_measure(h, &seconds[i], e);
    halo_leave(h);
    if (failure) return failure;
    halo_tell(h, "%s%s %.3g ms", before, name, 1e3 * seconds[i]);
  }
  return 0;
}

/* Keeps the fastest that passes its test. The test comes second because it takes longer than the measurement. */
static int halo_choose(halo *h, error *e) {
  double seconds[TRANSPORTS];
  TRY(halo_compare(h, seconds, e));
  for (;;) {
    int best = 0;
    error refused = {0};
    for (int i = 1; i < TRANSPORTS; i++)
      if (seconds[i] < WORTH * seconds[best]) best = i;
    if (best == 0) return halo_enter(h, &halo_transports[0], false, e);
    if (!halo_enter(h, &halo_transports[best], true, &refused)) return 0;
    halo_tell(h, "; %s: %s", halo_transports[best].name, refused.text);
    seconds[best] = INFINITY;
  }
}

static int halo_find_node(halo *h, error *e) {
  int rank, ranks = h->setup.node_ranks;
  MPI_TRY(e, MPI_Comm_rank(h->comm, &rank));
  if (ranks)
    MPI_TRY(e, MPI_Comm_split(h->comm, rank / ranks, rank, &h->node));
  else
    MPI_TRY(e, MPI_Comm_split_type(h->comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &h->node));
  return 0;
}

int halo_open(halo *h, const char *name, const halo_setup *setup, error *e) {
  int ranks;
  *h = (halo){.setup = *setup,
              .dev = setup->dev,
              .slab = setup->slab,
              .comm = setup->comm,
              .node = MPI_COMM_NULL,
              .row = MPI_DATATYPE_NULL};
  h->dev->table->make_events(h->dev, h->events[0], HALO_SETS * HALO_EVENTS, true, e);
  TRY(error_agree(e, h->comm));
  MPI_TRY(e, MPI_Type_contiguous((int)h->slab->pitch, MPI_FLOAT, &h->row));
  MPI_TRY(e, MPI_Type_commit(&h->row));
  MPI_TRY(e, MPI_Comm_size(h->comm, &ranks));
  TRY(halo_find_node(h, e));
  if (strcmp(name, "auto") != 0) return halo_enter_named(h, name, e);
  return ranks == 1 ? halo_enter(h, &halo_transports[0], false, e) : halo_choose(h, e);
}

bool halo_needed(const halo *h) {
  return transport_neighbour(h, LOWER) != MPI_PROC_NULL || transport_neighbour(h, UPPER) != MPI_PROC_NULL;
}

int halo_exchange(halo *h, float *field, int set, bool serial, error *e) {
  const transport *t = h->transport;
  if (!halo_needed(h)) return 0;
  if (serial && t->meet) TRY(t->meet(h, e));
  if (h->on_device) TRY(transport_record(h, set, HALO_TO_HOST, e));
  TRY(t->exchange(h, field, set, e));
  if (h->on_device) TRY(transport_record(h, set, HALO_TO_DEVICE_BEGIN, e));
  TRY(transport_record(h, set, HALO_TO_DEVICE, e));
  return serial ? h->dev->table->sync(h->dev, h->stream, e) : 0;
}

void halo_close(halo *h) {
  if (!h->dev) return;
  halo_leave(h);
  if (h->row != MPI_DATATYPE_NULL) MPI_Type_free(&h->row);
  if (h->node != MPI_COMM_NULL) MPI_Comm_free(&h->node);
  h->dev->table->unmake_events(h->dev, h->events[0], HALO_SETS * HALO_EVENTS);
  h->dev = NULL;
}
