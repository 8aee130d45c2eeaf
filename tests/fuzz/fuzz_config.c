/* Any bytes are a valid configuration or one line of error, and what is valid survives config_print and config_load.
 * Compiled as fuzz_overrides, the bytes are overrides of a small configuration instead, a line each. */
#include "fuzz.h"
#include "config_load.h"
#include "config_same.h"
#include "config/config.h"

enum { OVERRIDES = 16 };

static int load(config *c, const void *data, size_t size, int count, const char *const overrides[],
                error *e) {
  memory_name name;
  const int file = memory_file(data, size);
  const int id = config_load(c, memory_file_name(file, name), count, overrides, e);
  close(file);
  return id;
}

static int check(const void *data, size_t size, int count, const char *const overrides[]) {
  config first, second;
  error e = {0};
  const int id = load(&first, data, size, count, overrides, &e);
  demand_answer(id, &e, EXIT_CODE_CONFIG);
  if (id) return 0;
  char *text = config_print(&first);
  demand(text != NULL, "out of memory", "for the printed configuration");
  demand(load(&second, text, strlen(text), 0, NULL, &e) == 0, e.text, text);
  demand(config_same(&first, &second), "round trip", text);
  config_free(&first);
  config_free(&second);
  free(text);
  return 0;
}

#ifdef FUZZ_OVERRIDES
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static const char base[] = "[grid]\nnx = 20\nny = 20\nnz = 20\n[time]\nsteps = 9\n[equation]\ntype = wave\n"
                             "[source.1]\nposition = 1 2 3\nf0 = 9\n[receivers]\npoints = 1 2 3\n";
  const char *overrides[OVERRIDES];
  int count = 0;
  char *text = malloc(size + 1), *rest = text;
  demand(text != NULL, "out of memory", "for overrides");
  memcpy(text, data, size);
  text[size] = '\0';
  while (count < OVERRIDES && rest) overrides[count++] = strsep(&rest, "\n");
  check(base, strlen(base), count, overrides);
  free(text);
  return 0;
}
#else
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  return check(data, size, 0, NULL);
}
#endif
