#include "host_copy.h"
#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { SHARE_MIN = 1 << 20 /* bytes below which sharing a copy among threads costs more than it saves */ };

typedef struct nan_task {
  float *to;
  size_t count;
} nan_task;

static void host_copy_share(size_t count, int part, int parts, size_t *begin, size_t *end) {
  size_t share =
      (count / (size_t)parts + 1023) / 1024 * 1024; /* whole pages of floats: first touch places them */
  *begin = share * (size_t)part < count ? share * (size_t)part : count;
  *end = part == parts - 1 || *begin + share > count ? count : *begin + share;
}

static void host_copy_run_nan(const void *payload, int part, int parts) {
  const nan_task *t = payload;
  size_t begin, end;
  host_copy_share(t->count, part, parts, &begin, &end);
  memset(t->to + begin, 0xFF, (end - begin) * sizeof(float)); /* all bits set is a NaN */
}

/* Writes past the caches: a copy on the device is a whole field, and reading each line before it is overwritten would
 * make the measured copy bandwidth a third too low. */
static void host_copy_streaming(float *to, const float *from, size_t count) {
#ifdef __SSE2__
  size_t i = 0;
  for (; i < count && ((size_t)(to + i) & 15); i++) to[i] = from[i];
  for (; i + 16 <= count; i += 16)
    for (size_t k = 0; k < 16; k += 4) _mm_stream_ps(to + i + k, _mm_loadu_ps(from + i + k));
  _mm_sfence();
  for (; i < count; i++) to[i] = from[i];
#else
  memcpy(to, from, count * sizeof *to);
#endif
}

static void host_copy_run(const void *payload, int part, int parts) {
  error *failure = ((const copy_task *)payload)->failure;
  const copy_args *c = &((const copy_task *)payload)->copy;
  if (failure->id) return;
  if (!c->to || !c->from) {
    if (part == 0) FAIL(failure, DEVICE_FAILED, "host", "copy", "invalid argument: null pointer");
    return;
  }
  if (c->bytes < SHARE_MIN) {
    memcpy(c->to, c->from, c->bytes);
    return;
  }
  unsigned char *to = c->to;
  const unsigned char *from = c->from;
  size_t begin, end, whole = c->bytes / sizeof(float) * sizeof(float);
  host_copy_share(whole / sizeof(float), part, parts, &begin, &end);
  if (c->direction == COPY_ON_DEVICE)
    host_copy_streaming((float *)c->to + begin, (const float *)c->from + begin, end - begin);
  else
    memcpy(to + begin * sizeof(float), from + begin * sizeof(float), (end - begin) * sizeof(float));
  if (part == parts - 1) memcpy(to + whole, from + whole, c->bytes - whole);
}

void host_copy_push(host_stream *s, const copy_task *task, int threads) {
  bool shared = task->copy.bytes >= SHARE_MIN && task->copy.to && task->copy.from;
  host_stream_push(s, host_copy_run, task, sizeof *task, shared ? threads : 1, 1);
}

void host_copy_push_nan(host_stream *s, float *to, size_t count, int threads) {
  nan_task task = {to, count};
  host_stream_push(s, host_copy_run_nan, &task, sizeof task, threads, 1);
}
