/* Observers read the field while steps run: receivers, saved fields, checks. The step loop calls `limit`, which says
 * how far it may go, and then `look`. */
#ifndef STENCIL_OBSERVER_H
#define STENCIL_OBSERVER_H

#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"
#include "kernels/host/wavefront.h"

typedef struct observer {
  void *self; /* not owned */
  /* True: `look` is called between passes, by all ranks together, and its error is the same everywhere. False: `look`
   * only enqueues, and its error is this rank's. */
  bool agreed;
  bool extra; /* the observer looks at extra steps, too (exact_time.h) */
  /* Steps from `step`, which is done, to the next one after which it looks: 1 or more; INT64_MAX: never. The same on
   * every rank. */
  int64_t (*limit)(const void *self, int64_t step);
  /* Looks at the field after `step` steps: own point (0, 0, 0), with ghosts. `stream`: the observer's own work belongs
   * there, and later work there finds this field. */
  int (*look)(void *self, const float *field, int64_t step, int stream, error *e);
  /* Optional. Makes a pass of several steps observe each of its `steps` steps from `step` on except the last, so that
   * it need not end at an observed step. */
  int (*within)(void *self, wavefront_args *pass, int64_t step, int steps, error *e);
} observer;

enum { OBSERVERS_MAX = 8 };

typedef struct observers {
  observer list[OBSERVERS_MAX];
  int count;
} observers;

/* Does the observer look after this step? */
static inline bool observer_due(const observer *o, int64_t step) {
  return o->limit(o->self, step - 1) == 1;
}

/* How far steps may go from `step` before some observer looks, at most `limit`; in passes that look `within`, if so. */
static inline int64_t observers_limit(const observers *all, int64_t step, bool within, int64_t limit) {
  for (const observer *o = all->list; o < all->list + all->count; o++) {
    const int64_t ahead = within && o->within ? INT64_MAX : o->limit(o->self, step);
    if (ahead < limit) limit = ahead;
  }
  return limit;
}

/* observer.limit of an observer that looks every so many steps. */
static inline int64_t observer_every(int64_t every, int64_t step) {
  return every > 0 ? every - step % every : INT64_MAX;
}

#endif
