/* Code that compilers vectorise for several instruction sets; all give the same bits. */
#ifndef STENCIL_ISA_H
#define STENCIL_ISA_H

/* HOST_ISAS(DEFINE) is DEFINE(isa, target attribute) for each instruction set, the best first, the portable one last.
 * HOST_ISA_OF(name) is the function name_isa for this machine, whose set is number isa_first(). */
#ifdef __x86_64__
#define HOST_ISAS(DEFINE)                                                                                    \
  DEFINE(avx512, __attribute__((target("avx512f"))))                                                         \
  DEFINE(avx2, __attribute__((target("avx2,fma"))))                                                          \
  DEFINE(portable, )
#define HOST_ISA_OF(name)                                                                                    \
  (isa_first() == 0 ? name##_avx512 : isa_first() == 1 ? name##_avx2 : name##_portable)

static inline int isa_first(void) {
  const int avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
  return __builtin_cpu_supports("avx512f") ? 0 : avx2 ? 1 : 2;
}
#else
#define HOST_ISAS(DEFINE) DEFINE(portable, )
#define HOST_ISA_OF(name) name##_portable

static inline int isa_first(void) {
  return 0;
}
#endif

#endif
