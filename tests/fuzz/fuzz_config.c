/* libFuzzer entry point: any bytes as a config file are a valid configuration or one line of error, and what
 * is valid survives config_print and config_load. CTest runs it for 20 s, starting from corpus/ and the examples in
 * config/; for longer runs: fuzz_config -max_len=4096 FOLDER tests/fuzz/corpus config, where FOLDER gets new inputs. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include "config/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void demand(int holds, const char *what, const char *text) {
  if (holds) return;
  fprintf(stderr, "fuzz_config: %s: %s\n", what, text);
  abort();
}

/* Loads `size` bytes as a file in memory, of the same name each time. */
static int load_bytes(config *c, const void *data, size_t size, error *e) {
  int file = memfd_create("config", 0);
  char name[64];
  demand(file >= 0 && write(file, data, size) == (ssize_t)size, "cannot write", "memory file");
  snprintf(name, sizeof name, "/proc/self/fd/%d", file);
  int id = config_load(c, name, 0, NULL, e);
  close(file);
  return id;
}

/* Equal but for where the lists are. */
static int same(const config *a, const config *b) {
  config x, y;
  memcpy(&x, a, sizeof x); /* padding too */
  memcpy(&y, b, sizeof y);
  memset(x.idle, 0, sizeof x.idle), memset(y.idle, 0, sizeof y.idle); /* not printed */
  x.sources = y.sources = NULL;
  x.receiver_positions = y.receiver_positions = NULL;
  if (memcmp(&x, &y, sizeof x) != 0) return 0;
  size_t sources = (size_t)a->source_count * sizeof *a->sources;
  size_t positions = (size_t)a->receiver_count * sizeof *a->receiver_positions;
  return (sources == 0 || memcmp(a->sources, b->sources, sources) == 0) &&
         (positions == 0 || memcmp(a->receiver_positions, b->receiver_positions, positions) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  config first, second;
  error e = {0};
  int id = load_bytes(&first, data, size, &e);
  demand(id == e.id && error_exit_code(id) == (id ? EXIT_CODE_CONFIG : EXIT_CODE_DONE), "wrong code", e.text);
  demand(!strpbrk(e.text, "\n\r") && (e.text[0] != '\0') == (id != 0), "not one line", e.text);
  if (id) return 0;
  size_t length = config_print(&first, NULL, 0);
  char *text = malloc(length + 1);
  demand(text != NULL, "out of memory", "for the printed configuration");
  demand(config_print(&first, text, length + 1) == length && strlen(text) == length, "wrong length", text);
  demand(load_bytes(&second, text, length, &e) == 0, e.text, text);
  demand(same(&first, &second), "round trip", text);
  config_free(&first);
  config_free(&second);
  free(text);
  return 0;
}
