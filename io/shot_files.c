#include "shot_files.h"
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "gradient_file.h"
#include "io_internal.h"

const char *const RESULT_ENDINGS[RESULTS] = {RECEIVERS_ENDING, MAPS_ENDING, GRADIENT_ENDING};

bool result_is_written(const config *c, enum result which) {
  return which == RESULT_TRACES ? c->receivers != RECEIVERS_NONE
         : which == RESULT_MAPS ? config_has_maps(c)
                                : config_has_gradient(c);
}

/* HDF5 itself sees that a file is as long as it should be. */
static enum shot_found shot_find_file(const char *name, const char *fingerprint) {
  char *found = NULL;
  new_hdf5 none = {.name = name};
  hid_t type = text_type(&none, H5T_VARIABLE);
  if (access(name, F_OK)) return SHOT_NEW;
  hid_t file = H5Fopen(name, H5F_ACC_RDONLY, H5P_DEFAULT);
  hid_t attribute = file < 0 ? -1 : H5Aopen(file, "fingerprint", H5P_DEFAULT);
  const bool same = attribute >= 0 && H5Aread(attribute, type, (void *)&found) >= 0 && found &&
                    strcmp(found, fingerprint) == 0;
  if (found) H5free_memory(found);
  if (attribute >= 0) H5Aclose(attribute);
  if (file >= 0) H5Fclose(file);
  H5Tclose(type);
  return same ? SHOT_DONE : SHOT_OTHER;
}

/* What two files say together. */
static enum shot_found shot_combine(enum shot_found a, enum shot_found b) {
  return a == SHOT_OTHER || b == SHOT_OTHER ? SHOT_OTHER : a == b ? a : SHOT_NEW;
}

/* Adds the saved fields to what is `found` so far. */
static enum shot_found shot_find_fields(const config *c, const space_steps *w, const char *fingerprint,
                                        enum shot_found found) {
  char name[FILE_NAME];
  error none = {0};
  const int64_t every = w->every > 0 ? w->every : w->last + 1;
  for (int64_t step = w->every > 0 ? 0 : w->last; step <= w->last && found != SHOT_OTHER; step += every)
    if ((w->every > 0 || w->ends) && !path_step_name(name, c->output_path, step, ".hdf", &none))
      found = shot_combine(found, shot_find_file(name, fingerprint));
  if (w->every > 0 && w->ends && w->last % w->every &&
      !path_step_name(name, c->output_path, w->last, ".hdf", &none))
    found = shot_combine(found, shot_find_file(name, fingerprint));
  return found;
}

enum shot_found shot_find(const config *c, const space_steps *which, const char *fingerprint) {
  char name[FILE_NAME + 16];
  bool any = which->every > 0 || which->ends;
  enum shot_found found = SHOT_DONE;
  for (enum result i = 0; i < RESULTS; i++) {
    if (!result_is_written(c, i)) continue;
    snprintf(name, sizeof name, "%s%s", c->output_path, RESULT_ENDINGS[i]);
    found = shot_combine(found, shot_find_file(name, fingerprint));
    any = true;
  }
  return any ? shot_find_fields(c, which, fingerprint, found) : SHOT_NEW;
}
