/* Digests: of a text, and of what a dataset says. For one process alone, not collective. */
#ifndef STENCIL_DIGEST_H
#define STENCIL_DIGEST_H

#include <stddef.h>
#include "base/error.h"

enum { DIGEST_TEXT = 33 }; /* hexadecimal digits and the final 0 */

void digest_text(const char *text, char digest[DIGEST_TEXT]);
/* The digest of the values, the shape and the attributes on units and scaling of dataset "FILE:/path". Exit 2 where it
 * cannot be read. */
int digest_dataset(const char *dataset, char digest[DIGEST_TEXT], error *e);

#endif
