/* The table of kernels.def and the look-up by name. */
#include "kernel.h"
#include "base/nearest.h"
#include <stdio.h>
#include <string.h>

/* One declaration a line of kernels.def, with layers two. A CUDA kernel's exist only where CUDA is compiled in. */
#define DECLARE_HOST(function)        host_kernel function;
#define DECLARE_LAYERS_HOST(function) extern const struct operation function##_layers;
#define DECLARE_NO_LAYERS_HOST(function)
#ifdef STENCIL_HAVE_CUDA
#define DECLARE_CUDA(function)        cuda_kernel function;
#define DECLARE_LAYERS_CUDA(function) extern const struct operation function##_layers;
#define CUDA_POINTER(pointer)         pointer
#else
#define DECLARE_CUDA(function)
#define DECLARE_LAYERS_CUDA(function)
#define CUDA_POINTER(pointer) NULL
#endif
#define DECLARE_NO_LAYERS_CUDA(function)
#define KERNEL(backend, name, function, equations, layers, flags, note)                                      \
  DECLARE_##backend(function) DECLARE_##layers##_##backend(function)
#include "kernels.def"
#undef KERNEL

#define FUNCTION_HOST(function)  .host = function
#define FUNCTION_CUDA(function)  .cuda = CUDA_POINTER(function)
#define LAYERS_HOST(function)    &function##_layers
#define LAYERS_CUDA(function)    CUDA_POINTER(&function##_layers)
#define NO_LAYERS_HOST(function) NULL
#define NO_LAYERS_CUDA(function) NULL
#define EVERY                    ((1u << EQUATION_COUNT) - 1)
#define KERNEL(backend, name, function, equations, layers, flags, note)                                      \
  {#name, BACKEND_##backend,           equations, flags, layers##_##backend(function),                       \
   note,  FUNCTION_##backend(function)},
const kernel kernel_table[] = {
#include "kernels.def"
};
#undef KERNEL

enum { KERNEL_COUNT = sizeof kernel_table / sizeof kernel_table[0] };
const int kernel_table_size = KERNEL_COUNT;

const char *equation_name(enum equation equation) {
  return EQUATIONS[equation].name;
}

const char *backend_name(enum backend backend) {
  static const char *const names[BACKEND_COUNT] = {[BACKEND_HOST] = "host", [BACKEND_CUDA] = "cuda"};
  return names[backend];
}

static int registry_unknown(const char *name, enum equation equation, enum backend backend, error *e) {
  const char *names[KERNEL_COUNT];
  int count = 0;
  for (int i = 0; i < KERNEL_COUNT; i++)
    if (kernel_does(&kernel_table[i], equation, backend)) names[count++] = kernel_table[i].name;
  const char *nearest = nearest_name(name, names, count);
  char suggestion[128] = "";
  if (nearest) snprintf(suggestion, sizeof suggestion, " (did you mean '%s'?)", nearest);
  return FAIL(e, KERNEL_UNKNOWN, name, backend_name(backend), suggestion);
}

int kernel_find(const char *name, enum equation equation, enum backend backend, const kernel **found,
                error *e) {
  int any = strcmp(name, "auto") == 0;
  for (int i = 0; i < KERNEL_COUNT; i++) {
    const kernel *k = &kernel_table[i];
    if (!kernel_does(k, equation, backend) || (!any && strcmp(name, k->name) != 0)) continue;
    if (!k->host && !k->cuda) return FAIL(e, KERNEL_NOT_COMPILED, k->name);
    *found = k;
    return 0;
  }
  return registry_unknown(name, equation, backend, e);
}
