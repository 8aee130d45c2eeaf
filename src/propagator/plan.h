/* How the way back gets the fields of the forward run: from memory, or by steps done again from states that were kept. */
#ifndef STENCIL_PLAN_H
#define STENCIL_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum { PLAN_TIERS = 3 };
enum plan_tier { TIER_DEVICE, TIER_HOST, TIER_FILE };

/* What is to be planned. */
typedef struct plan_need {
  int64_t fields;      /* of the forward run: one more than steps */
  double field, state; /* bytes of a field in the ring, and of all that a step needs to go on */
  double budget[PLAN_TIERS];
} plan_need;

/* Fields are needed from the last one to the first. The run is cut into parts of equal length, and these into segments. All fields
 * of a segment are kept, of one at a time: in the ring. Where a part begins a state is kept; where a segment begins, too, of one
 * part at a time. The ring shares its memory with those states: the way back is done with one after the other, and what it is done
 * with makes room for more fields. So segments are the longer the nearer to the beginning of their part; the first one is cut. */
typedef struct plan {
  plan_need need;
  int64_t part, parts;      /* steps of a part; how many */
  int64_t segments;         /* of a part */
  int64_t cut;              /* steps that the first one has less than there is room for */
  int64_t inside;           /* states within a part that are not on the device: of the first segments */
  int64_t away, near;       /* parts whose states are not there: the first ones; the others */
  double shared_bytes;      /* bytes for the ring and the states within a part that share it */
  int64_t tier[PLAN_TIERS]; /* states in each */
  double bytes[PLAN_TIERS]; /* what each takes */
  double again;             /* forward steps done again, over those of the run */
} plan;

/* The plan that leaves slower tiers alone as far as can be, and of such plans the one that does the fewest steps again; rather
 * than that steps are done again twice it takes slower tiers. False where none fits: then *least is what the device alone would
 * have to have. */
bool plan_make(plan *p, const plan_need *need, double *least);

/* Where the segment that `step` lies in begins. */
int64_t plan_segment(const plan *p, int64_t step);
/* The steps to where the next one begins. */
int64_t plan_ahead(const plan *p, int64_t step);
/* Where the part that it lies in begins. */
int64_t plan_part(const plan *p, int64_t step);
/* Where the state at `step`, where a segment begins, is: the number in its tier. Those on the device count from the end of the
 * memory that they share with the ring. */
int64_t plan_state(const plan *p, int64_t step, enum plan_tier *tier);
/* Fields that the ring has room for beside so many states on the device. */
int64_t plan_beside(const plan *p, int64_t states);

#endif
