/* Small functions of numbers, and the size of a page. */
#ifndef STENCIL_NUMBERS_H
#define STENCIL_NUMBERS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

static inline int smaller(int a, int b) {
  return a < b ? a : b;
}

static inline int64_t larger64(int64_t a, int64_t b) {
  return a > b ? a : b;
}
static inline int64_t smaller64(int64_t a, int64_t b) {
  return a < b ? a : b;
}

static inline int larger(int a, int b) {
  return a > b ? a : b;
}

static inline size_t round_up(size_t n, size_t to) {
  return (n + to - 1) / to * to;
}

/* Bytes of a page of memory. */
static inline size_t page_bytes(void) {
  return (size_t)sysconf(_SC_PAGESIZE);
}

/* Turns any number into one that looks random: every bit of `x` changes half the bits of the result. SplitMix64
 * (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014): a counter is enough as state. */
static inline uint64_t mix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

/* A digest of `count` numbers and their order. */
static inline uint64_t numbers_digest(const double *values, size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++) {
    uint64_t bits;
    memcpy(&bits, &values[i], sizeof bits);
    sum = mix64(sum ^ bits);
  }
  return sum;
}

#endif
