/* The plan by which the adjoint gets the forward fields: from memory, or by repeating steps from states that were
 * kept. */
#ifndef STENCIL_PLAN_H
#define STENCIL_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum { PLAN_TIERS = 3 };
enum plan_tier { TIER_DEVICE, TIER_HOST, TIER_FILE };

/* The task of a plan. */
typedef struct plan_need {
  int64_t fields;      /* fields of the forward run: one more than its steps */
  double field, state; /* bytes of a field in the ring buffer; of a state, from which steps can go on */
  double budget[PLAN_TIERS];
} plan_need;

/* The adjoint needs forward fields from the last step to the first. The run is cut into parts of equal length, and
 * these into segments. The ring buffer holds all fields of one segment. A state is kept at the beginning of each part.
 * In one part at a time states are also kept at the beginning of each segment; they share the ring buffer's memory. A
 * state that is no longer needed leaves memory for more fields, so segments are longer towards the beginning of their
 * part. The first one is shorter. */
typedef struct plan {
  plan_need need;
  int64_t part, parts; /* steps of a part; number of parts */
  int64_t segments;    /* of a part */
  int64_t cut;         /* steps by which the first segment is shorter than memory would allow */
  int64_t inside;      /* states within a part that are not on the device: those of its first segments */
  int64_t away, near;  /* parts whose states are not on the device, the first ones; parts whose states are */
  double shared_bytes; /* bytes for the ring and the states within a part that share it */
  int64_t tier[PLAN_TIERS]; /* states in each */
  double bytes[PLAN_TIERS]; /* of each tier */
  double again;             /* forward steps done again, over those of the run */
} plan;

/* Makes the plan that uses slower tiers least; of such plans, the one that repeats the fewest steps. It prefers slower
 * tiers to repeating steps twice. False where no plan fits: *least is then the memory that the device alone would
 * need. */
bool plan_make(plan *p, const plan_need *need, double *least);

/* The first step of the segment that `step` lies in. */
int64_t plan_segment(const plan *p, int64_t step);
/* The number of steps to the beginning of the next segment. */
int64_t plan_ahead(const plan *p, int64_t step);
/* The first step of the part that `step` lies in. */
int64_t plan_part(const plan *p, int64_t step);
/* The number, in its tier, of the state at `step`, the first step of a segment. States on the device count from the end
 * of the memory that they share with the ring buffer. */
int64_t plan_state(const plan *p, int64_t step, enum plan_tier *tier);
/* Fields that the ring buffer holds beside so many states on the device. */
int64_t plan_beside(const plan *p, int64_t states);

#endif
