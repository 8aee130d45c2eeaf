/* Suggestions for misspelt names: keys, sections, options and kernels. */
#ifndef STENCIL_NEAREST_H
#define STENCIL_NEAREST_H

/* Finds the entry of `names` (`count` entries) closest to `name`, ignoring case; NULL: no entry is close. Close is
 * about one slip in four letters: a letter changed, missing, added, or two swapped. The first wins a tie. `name` may be
 * empty or of any length; NULL entries are skipped. Returns one of the pointers in `names`. */
const char *nearest_name(const char *name, const char *const names[], int count);

#endif
