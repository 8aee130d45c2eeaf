/* One number for the contents of a file, that can be kept up to date while parts of the file are written in any
 * order. */
#ifndef STENCIL_DIGEST_H
#define STENCIL_DIGEST_H

#include <stddef.h>
#include <stdint.h>

/* The digest of a file is the sum, modulo 2^64, of what its words of 8 bytes give at their places; a word of zeros
 * gives nothing, so that holes and what lies beyond the end need no care. Two files that differ in a single word never
 * have the same digest, two others with a probability of about 2^-64. It finds damage, not malice.
 *
 * Returns the part of `size` bytes at byte `place` of a file; `place` is a multiple of 8, and so is `size` unless the
 * file ends there. */
uint64_t digest_part(uint64_t place, const void *bytes, size_t size);

#endif
