#include "error.h"
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The last folder and the file of a path, such as halo/slab.c. */
static const char *error_file(const char *path) {
  const char *end = strrchr(path, '/');
  while (end && end > path && end[-1] != '/') end--;
  return end ? end : path;
}

int error_set(error *e, error_place at, int id, const char *format, ...) {
  if (e->id) return e->id; /* the first failure is the cause of the later ones */
  va_list args;
  va_start(args, format);
  vsnprintf(e->text, sizeof e->text, format, args);
  va_end(args);
  for (char *c = e->text; *c;
       c++) { /* texts of users and libraries may contain anything: the text is made one harmless line */
    if (*c == '\n' || *c == '\r' || *c == '\t') *c = ' ';
    if ((unsigned char)*c < ' ' || *c == 0x7F) *c = '?';
  }
  snprintf(e->place, sizeof e->place, "%s:%d %s", error_file(at.file), at.line, at.function);
  e->id = id;
  return id;
}

int error_alloc(error *e, error_place at, void *pointer, size_t count, size_t size, const char *what) {
  void *memory = count && size ? calloc(count, size) : calloc(1, 1);
  memcpy(pointer, &memory, sizeof memory); /* *pointer may have any pointer type */
  return memory ? 0 : error_set(e, at, ERROR_OUT_OF_MEMORY, ERROR_FORMAT_OUT_OF_MEMORY, count * size, what);
}

int error_grow(error *e, error_place at, void *pointer, size_t count, size_t size, const char *what) {
  void *memory;
  memcpy(&memory, pointer, sizeof memory);
  memory = realloc(memory, count * size);
  if (!memory) return error_set(e, at, ERROR_OUT_OF_MEMORY, ERROR_FORMAT_OUT_OF_MEMORY, count * size, what);
  memcpy(pointer, &memory, sizeof memory);
  return 0;
}

int error_exit_code(int id) {
  static const unsigned char codes[] = {
      0,
#define X(name, exit, format) EXIT_CODE_##exit,
#include "error.def"
#undef X
  };
  return id >= 0 && id < ERROR_COUNT ? codes[id] : EXIT_CODE_DEVICE;
}
