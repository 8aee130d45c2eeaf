/* The host kernels `simd` in portable C (host_simd.c), one point at a time. A compiler whose target has fused
 * multiply-add makes vectors of the loops by itself. */
#include "host_simd.h"

#define SAMPLE                     host_sample_portable
#define LANES                      1
#define vec                        float
#define vec_set(a)                 (a)
#define vec_load(p)                (*(p))
#define vec_fma(a, b, c)           fmaf(a, b, c)
#define vec_keep(v, bits)          ((bits)&1 ? (v) : 0)
#define vec_pick(v, from)          ((void)(from), (v))
#define vec_where(bits, a, b)      ((bits)&1 ? (a) : (b))
#define vec_load_some(p, bits)     ((bits)&1 ? *(p) : 0)
#define vec_store(p, v)            (*(p) = (v))
#define vec_stream(p, v)           (*(p) = (v))
#define vec_store_some(p, v, bits) ((bits)&1 ? (void)(*(p) = (v)) : (void)0)
#define prefetch(p)                ((void)(p))
#define prefetch_near(p)           ((void)(p))
#define leave()                    ((void)0)
#define settle(v)                  ((void)0)
#define VECTORS                    1
#define X_LOADS(vectors)           (2 * RADIUS + 1)
#define vec_x_load(u, i)           vec_load((u) + (i)-RADIUS)
#define vec_x_pair(x, i, r)        (x[i + RADIUS - (r)] + x[i + RADIUS + (r)])
#include "host_simd_body.h"

const host_isa host_isa_portable = {"portable C", LANES, block_of, inject, host_sample_portable};
