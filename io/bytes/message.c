#include "message.h"
#include <stdlib.h>
#include <string.h>
#include "base/error_mpi.h"
#include "base/numbers.h"

enum { ALIGN = 8 /* each value begins at a multiple, so that numbers can be read in place */ };

static bool message_grow(message *m, size_t length) {
  if (length <= m->capacity) return true;
  const size_t capacity = 2 * length;
  char *longer = realloc(m->bytes, capacity);
  if (!longer) return false;
  m->bytes = longer;
  m->capacity = capacity;
  return true;
}

/* Where the next bytes are, or will be; NULL where there is no memory. */
static char *message_place(message *m, size_t bytes) {
  const size_t padded = round_up(bytes, ALIGN), at = m->reading ? m->at : m->length;
  if (m->reading) {
    m->at += padded;
    return m->bytes + at;
  }
  if (!message_grow(m, at + padded)) m->failed = true;
  if (m->failed) return NULL;
  if (padded) memset(m->bytes + at, 0, padded); /* for 0 bytes, m->bytes may be NULL */
  m->length += padded;
  return m->bytes + at;
}

void message_value(message *m, void *value, size_t bytes) {
  char *place = message_place(m, bytes);
  if (!place || !bytes) return;
  memcpy(m->reading ? value : place, m->reading ? place : value, bytes);
}

void *message_array(message *m, void *pointer, size_t bytes) {
  void *array;
  char *place = message_place(m, bytes);
  memcpy(&array, pointer, sizeof array);
  if (!m->reading && place && bytes) memcpy(place, array, bytes);
  if (!m->reading) return array;
  memcpy(pointer, &place, sizeof place);
  return place;
}

void message_text(message *m, const char **text) {
  size_t bytes = !m->reading && *text ? strlen(*text) + 1 : 0;
  message_value(m, &bytes, sizeof bytes);
  message_array(m, text, bytes);
  if (m->reading && !bytes) *text = NULL;
}

int message_broadcast(void *bytes, size_t count, MPI_Comm comm, error *e) {
  enum { MOST = 1 << 30 /* at once: MPI counts in an int */ };
  int ranks;
  MPI_TRY(e, MPI_Comm_size(comm, &ranks));
  if (ranks == 1) return 0; /* several threads of the only rank may be here */
  for (size_t at = 0; at < count; at += MOST) {
    const int piece = (int)(count - at < MOST ? count - at : MOST);
    MPI_AWAIT(e, MPI_Ibcast((char *)bytes + at, piece, MPI_BYTE, 0, comm, &request)); /* may be long */
  }
  return 0;
}

int message_to_all(message *m, MPI_Comm comm, error *e) {
  size_t length = m->failed ? SIZE_MAX : m->length;
  TRY(message_broadcast(&length, sizeof length, comm, e));
  if (length == SIZE_MAX || !message_grow(m, length))
    FAIL(e, OUT_OF_MEMORY, length, "what rank 0 tells the others");
  TRY(error_agree(e, comm));
  m->length = length;
  m->reading = true;
  m->at = 0;
  return message_broadcast(m->bytes, length, comm, e);
}

void message_free(message *m) {
  free(m->bytes);
  *m = (message){0};
}
