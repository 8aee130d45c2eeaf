/* How the way back gets the fields of the forward run: from memory, or by steps done again from states that were kept. */
#ifndef STENCIL_PLAN_H
#define STENCIL_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum { PLAN_LEVELS = 2, PLAN_TIERS = 3 };
enum plan_tier { TIER_DEVICE, TIER_HOST, TIER_FILE };

/* What is to be planned. */
typedef struct plan_need {
  int64_t fields;      /* of the forward run: one more than steps */
  double field, state; /* bytes of a field in the ring, and of all that a step needs to go on */
  double budget[PLAN_TIERS];
} plan_need;

/* Fields are needed from the last one to the first. The run is cut at multiples of every[0]; parts of it at multiples of
 * every[1], and so on. Where a part begins a state is kept, of each level for one part at a time. Of the shortest parts, of
 * `ring` steps, all fields are kept, one part at a time. */
typedef struct plan {
  int levels;                  /* of states; 0: all fields fit the ring */
  int64_t every[PLAN_LEVELS];  /* steps; each a multiple of the next one, and the last one is `ring` */
  int64_t states[PLAN_LEVELS]; /* kept at a time */
  int64_t ring;                /* fields */
  int64_t tier[PLAN_TIERS];    /* states in each, those of the finest level first */
  double bytes[PLAN_TIERS];    /* what each takes */
  double again;                /* forward steps done again, over those of the run */
} plan;

/* The plan that does the fewest steps again within the budgets, and of these one that leaves the slower tiers alone. False
 * where none fits: then *least is what the ring and states take at least, in all tiers. */
bool plan_make(plan *p, const plan_need *need, double *least);

/* Where the part of the shortest kind that `step` lies in begins. */
int64_t plan_part(const plan *p, int64_t step);
/* The number of the state at `step`, in the order of the tiers; -1: no part begins there. */
int64_t plan_state(const plan *p, int64_t step);
/* The level of the state at `step`. */
int plan_level(const plan *p, int64_t step);

#endif
