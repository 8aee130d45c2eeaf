#include "digest.h"
#include <string.h>

/* One to one in `word`, since every step is: what a change of one word changes in the sum is never 0. */
static uint64_t contribution(uint64_t index, uint64_t word) {
  word ^=
      word >> 32; /* or else the highest bit would not meet the factor, which differs from place to place */
  word *= (index * 0x9e3779b97f4a7c15u) | 1;
  return word ^ (word >> 29);
}

uint64_t digest_part(uint64_t place, const void *bytes, size_t size) {
  const char *p = bytes;
  uint64_t sum = 0, index = place / 8, word;
  for (; size >= sizeof word; size -= sizeof word, p += sizeof word) {
    memcpy(&word, p, sizeof word);
    sum += contribution(index++, word);
  }
  word = 0;
  memcpy(&word, p, size);
  return sum + contribution(index, word);
}
