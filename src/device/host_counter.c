#include "host_counter.h"
#include "base/clock.h"
#include "base/pace.h"

typedef struct counter_task {
  uint32_t *counter;
  uint32_t value;
  double patience; /* s */
} counter_task;

static void signal_run(const void *payload, int part, int parts) {
  (void)part, (void)parts;
  const counter_task *t = payload;
  __atomic_store_n(t->counter, t->value, __ATOMIC_RELEASE);
}

/* Leaves the core to others: one of them may be the stream that computes. */
static void await_run(const void *payload, int part, int parts) {
  (void)part, (void)parts;
  const double LONGEST = 200e-6; /* s */
  const counter_task *t = payload;
  const pace p = {.begin = clock_seconds(), .eager = t->patience};
  while ((int32_t)(__atomic_load_n(t->counter, __ATOMIC_ACQUIRE) - t->value) < 0) pace_wait(&p, LONGEST);
}

void host_counter_signal(host_stream *s, uint32_t *counter, uint32_t value) {
  counter_task signal = {counter, value, 0};
  host_stream_push(s, signal_run, &signal, sizeof signal, 1, 1);
}

void host_counter_await(host_stream *s, const uint32_t *counter, uint32_t value, double patience) {
  counter_task await = {(uint32_t *)(uintptr_t)counter, value, patience};
  host_stream_push(s, await_run, &await, sizeof await, 1, 1);
}
