#include "shot_files.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "gradient_file.h"
#include "io/hdf5/io_internal.h"

/* The state of one file. HDF5 itself checks that a file is as long as it should be. */
static enum shot_found shot_find_file(const char *name, const char *fingerprint) {
  char found[ATTRIBUTE_TEXT], why[HDF5_TEXT];
  if (access(name, F_OK)) return SHOT_NEW;
  hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
  const bool same =
      file >= 0 && attribute_get_text(file, "fingerprint", found, why) > 0 && strcmp(found, fingerprint) == 0;
  if (file >= 0) H5Fclose(file);
  return same ? SHOT_DONE : SHOT_OTHER;
}

/* The combined state of two files. */
static enum shot_found shot_combine(enum shot_found a, enum shot_found b) {
  return a == SHOT_OTHER || b == SHOT_OTHER ? SHOT_OTHER : a == b ? a : SHOT_NEW;
}

/* Adds a saved field to what is `found` so far. */
static enum shot_found shot_find_field(const config *c, int64_t step, const char *fingerprint,
                                       enum shot_found found) {
  char name[FILE_NAME];
  error none = {0};
  if (path_step_name(name, c->output_path, step, ".hdf", &none)) return found;
  return shot_combine(found, shot_find_file(name, fingerprint));
}

enum shot_found shot_find(const config *c, const space_steps *which, const char *fingerprint) {
  char name[FILE_NAME];
  error none = {0};
  bool any = which->every > 0 || which->ends;
  enum shot_found found = SHOT_DONE;
  for (enum output_file i = OUTPUT_TRACES; i < OUTPUT_FILES; i++) {
    if (!config_writes(c, i)) continue;
    path_name(name, c->output_path, OUTPUT_ENDINGS[i], &none);
    found = shot_combine(found, shot_find_file(name, fingerprint));
    any = true;
  }
  for (int64_t step = 0; which->every > 0 && step <= which->last && found != SHOT_OTHER; step += which->every)
    found = shot_find_field(c, step, fingerprint, found);
  if (which->ends && (which->every == 0 || which->last % which->every))
    found = shot_find_field(c, which->last, fingerprint, found);
  return any ? found : SHOT_NEW;
}
