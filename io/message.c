#include "message.h"
#include <stdlib.h>
#include <string.h>

enum { ALIGN = 8 /* everything begins at a multiple, so that numbers can be read in place */ };

static size_t padded(size_t bytes) {
  return (bytes + ALIGN - 1) / ALIGN * ALIGN;
}

void message_put(message *m, const void *from, size_t bytes) {
  const size_t length = m->length + padded(bytes);
  if (length > m->room) {
    const size_t room = 2 * length;
    char *longer = realloc(m->bytes, room);
    if (!longer) {
      m->failed = true;
      return;
    }
    m->bytes = longer;
    m->room = room;
  }
  if (bytes) memcpy(m->bytes + m->length, from, bytes);
  memset(m->bytes + m->length + bytes, 0, padded(bytes) - bytes);
  m->length = length;
}

void message_put_text(message *m, const char *text) {
  const size_t bytes = text ? strlen(text) + 1 : 1;
  message_put(m, &bytes, sizeof bytes);
  message_put(m, text ? text : "", bytes);
}

const void *message_get_bytes(message *m, size_t bytes) {
  if (m->failed || bytes > m->length - m->at || padded(bytes) > m->length - m->at) {
    m->failed = true;
    return NULL;
  }
  const void *found = m->bytes + m->at;
  m->at += padded(bytes);
  return found;
}

void message_get(message *m, void *to, size_t bytes) {
  const void *found = message_get_bytes(m, bytes);
  if (found)
    memcpy(to, found, bytes);
  else
    memset(to, 0, bytes);
}

const char *message_get_text(message *m) {
  size_t bytes;
  message_get(m, &bytes, sizeof bytes);
  const char *text = bytes ? message_get_bytes(m, bytes) : NULL;
  if (text && text[bytes - 1] == 0) return text;
  m->failed = true;
  return NULL;
}

void message_free(message *m) {
  free(m->bytes);
  *m = (message){0};
}
