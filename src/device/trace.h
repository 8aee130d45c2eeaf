/* Named ranges for NVIDIA's profilers; nothing in a build without NVTX. */
#ifndef STENCIL_TRACE_H
#define STENCIL_TRACE_H

#ifdef STENCIL_HAVE_NVTX
#include <nvtx3/nvToolsExt.h>
static inline void trace_begin(const char *name) {
  nvtxRangePushA(name);
}
static inline void trace_end(void) {
  nvtxRangePop();
}
#else
static inline void trace_begin(const char *name) {
  (void)name;
}
static inline void trace_end(void) {}
#endif

#endif
