/* What the entry points of libFuzzer share. Each takes any bytes as one kind of input and aborts where the program does
 * not answer them as documented. In the preset `fuzz` libFuzzer makes the bytes; elsewhere replay.c hands in the kept
 * ones of corpus/. */
#ifndef STENCIL_FUZZ_H
#define STENCIL_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "base/error.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void demand(int holds, const char *what, const char *text) {
  if (holds) return;
  fprintf(stderr, "fuzz: %s: %s\n", what, text);
  abort();
}

/* `id` is what a function returned that filled `e`: 0, or an error of this exit code in one line. */
static inline void demand_answer(int id, const error *e, enum exit_code code) {
  demand(id == e->id && error_exit_code(id) == (id ? (int)code : 0), "wrong code", e->text);
  demand(!strpbrk(e->text, "\n\r") && (e->text[0] != '\0') == (id != 0), "not one line", e->text);
}

/* A file in memory that holds these bytes; close it. */
static inline int memory_file(const void *bytes, size_t size) {
  const int file = memfd_create("fuzz", 0);
  demand(file >= 0 && write(file, bytes, size) == (ssize_t)size, "cannot write", "memory file");
  return file;
}

/* The name of an open file, the same each time for the same descriptor. */
typedef char memory_name[32];
static inline const char *memory_file_name(int file, memory_name name) {
  snprintf(name, sizeof(memory_name), "/proc/self/fd/%d", file);
  return name;
}

/* Takes `bytes` from the front of what is left of the input; zeros where there are not so many. */
typedef struct input {
  const uint8_t *at;
  size_t left;
} input;
static inline void input_take(input *in, void *to, size_t bytes) {
  const size_t given = in->left < bytes ? in->left : bytes;
  memset(to, 0, bytes);
  if (given) memcpy(to, in->at, given);
  in->at += given, in->left -= given;
}

#endif
