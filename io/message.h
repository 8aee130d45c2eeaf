/* A request to the data server, as bytes: what is put in on one side is got out, in the same order, on the other. Both
 * are the same program on machines of one kind: numbers and structs travel as they lie in memory. */
#ifndef STENCIL_MESSAGE_H
#define STENCIL_MESSAGE_H

#include <stdbool.h>
#include <stddef.h>

typedef struct message {
  char *bytes; /* owned: message_free */
  size_t length, room;
  size_t at;   /* what is got next */
  bool failed; /* no memory for what was put, or nothing left to get */
} message;

void message_put(message *m, const void *from, size_t bytes);
/* NULL is put as an empty text. */
void message_put_text(message *m, const char *text);

/* Zeros where nothing is left. */
void message_get(message *m, void *to, size_t bytes);
/* These stay in the message, which must outlive them. NULL where nothing is left. */
const void *message_get_bytes(message *m, size_t bytes);
const char *message_get_text(message *m);

void message_free(message *m);

#endif
