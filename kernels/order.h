/* The smaller and the larger of two numbers. */
#ifndef STENCIL_ORDER_H
#define STENCIL_ORDER_H

static inline int smaller(int a, int b) {
  return a < b ? a : b;
}

static inline int larger(int a, int b) {
  return a > b ? a : b;
}

#endif
