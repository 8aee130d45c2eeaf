/* Structs of one process as bytes for others, which are the same program on machines of one kind. One function carries a
 * struct both ways: where the message is being written, the calls below add what they are given; where it is read, in the
 * same order, they bring it back. So there is one description of what is sent, and it cannot differ on the two sides. */
#ifndef STENCIL_MESSAGE_H
#define STENCIL_MESSAGE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include "base/error.h"

typedef struct message {
  char *bytes; /* owned: message_free */
  size_t length, capacity;
  size_t at;    /* what is read next */
  bool reading; /* else it is being written */
  bool failed;  /* there was no memory for what was written */
} message;

/* A value that is sent as it lies in memory. */
void message_value(message *m, void *value, size_t bytes);
/* What a pointer leads to: `pointer` is its address. When read it is set to a place in the message, which must outlive it
 * and may be changed. Returns the pointer. */
void *message_array(message *m, void *pointer, size_t bytes);
/* A text, which may be NULL; likewise. */
void message_text(message *m, const char **text);

/* Every rank gets rank 0's bytes, any number of them. Collective over `comm`. */
int message_broadcast(void *bytes, size_t count, MPI_Comm comm, error *e);
/* Every rank of `comm` gets rank 0's message, and all of them, rank 0 as well, read it from the beginning. The others' must
 * be empty. Collective, agreed. */
int message_to_all(message *m, MPI_Comm comm, error *e);
void message_free(message *m);

#endif
