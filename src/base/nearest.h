/* Suggestions for misspelt names: keys, sections, options and kernels. */
#ifndef STENCIL_NEAREST_H
#define STENCIL_NEAREST_H

/* The entry of `names` (`count` of them) closest to `name`, ignoring case; NULL if none is close: about one slip (a
 * letter changed, missing, added, or two swapped) in four letters. The first wins a tie. `name` may be empty or of any
 * length; NULL entries are skipped. Returns one of the pointers in `names`. */
const char *nearest_name(const char *name, const char *const names[], int count);

#endif
