/* Sends structs as bytes to other processes, which run the same program on machines of one kind. One function carries a
 * struct both ways. While a message is written, the calls below append their arguments; while it is read, in the same
 * order, they fill them. So both sides share one description. */
#ifndef STENCIL_MESSAGE_H
#define STENCIL_MESSAGE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include "base/error.h"

typedef struct message {
  char *bytes; /* owned: message_free */
  size_t length, capacity;
  size_t at;    /* the position of the next read */
  bool reading; /* being read; else written */
  bool failed;  /* memory was short while writing */
} message;

/* A value that is sent as it lies in memory. */
void message_value(message *m, void *value, size_t bytes);
/* The array that a pointer points to; `pointer` is the address of that pointer. Reading sets the pointer to a place
 * in the message. So the message must outlive the pointer; the array may be changed. Returns the pointer. */
void *message_array(message *m, void *pointer, size_t bytes);
/* A text, which may be NULL; likewise. */
void message_text(message *m, const char **text);

/* Every rank gets rank 0's bytes, any number of them. Collective over `comm`. */
int message_broadcast(void *bytes, size_t count, MPI_Comm comm, error *e);
/* Sends rank 0's message to every rank of `comm`. All ranks, rank 0 too, then read it from the beginning. Other
 * ranks' messages must be empty. Collective, agreed. */
int message_to_all(message *m, MPI_Comm comm, error *e);
void message_free(message *m);

#endif
