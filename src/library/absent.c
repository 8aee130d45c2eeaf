/* Functions that the driver refers to but the library never calls: checkpoints, states in a file, the JSON report.
 * stencil_open refuses their keys. */
#include "io/checkpoint/checkpoint.h"
#include "io/output/space.h"
#include "survey/report.h"

void checkpoint_close(checkpoint *c) {
  c->fd = -1;
}

bool checkpoint_has_key(const checkpoint *c, const char *key) {
  (void)c, (void)key;
  return false;
}

int checkpoint_match(const checkpoint *c, const char *keys, error *e) {
  (void)c, (void)keys;
  return FAIL(e, LIBRARY_LACKS, "checkpoints");
}

const checkpoint_array *checkpoint_find_array(const checkpoint *c, const char *name) {
  (void)c, (void)name;
  return NULL;
}

int space_of(const char *path, disk_space *space, error *e) {
  (void)path, (void)space;
  return FAIL(e, LIBRARY_LACKS, "states in a file");
}

void report_print(const report *r, bool verbose, FILE *to) {
  (void)r, (void)verbose, (void)to;
}

int report_check(const char *path, error *e) {
  (void)path;
  return FAIL(e, LIBRARY_LACKS, "reports");
}

int report_write(const report *r, const char *path, error *e) {
  (void)r;
  return report_check(path, e);
}
