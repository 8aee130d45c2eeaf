/* The table of kernels.def and the look-up by name. */
#include "kernel.h"
#include "base/nearest.h"
#include <stdio.h>
#include <string.h>

host_kernel host_simd, host_simd_cached, host_simd_columns, host_reference;
extern const struct operation host_simd_layers, host_simd_cached_layers, host_simd_columns_layers;
#ifdef STENCIL_HAVE_CUDA
cuda_kernel cuda_bulk_tensor, cuda_multi_stage, cuda_partitioned, cuda_primitives, cuda_thread_scope,
    cuda_barrier, cuda_cg_memcpy, cuda_single_stage, cuda_naive;
extern const struct operation cuda_bulk_tensor_layers, cuda_multi_stage_layers;
#define CUDA(pointer) pointer
#else
#define CUDA(pointer) NULL
#endif

enum { EVERY = (1u << EQUATION_COUNT) - 1 };
const kernel kernel_table[] = {
#include "kernels.def"
};

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
