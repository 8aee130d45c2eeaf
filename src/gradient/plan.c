#include "plan.h"
#include <math.h>

static int64_t plan_parts(int64_t steps, int64_t every) {
  return (steps + every - 1) / every;
}

/* Sets what a cut into parts of `ring` steps takes, and, with two levels, into parts of `multiple` times as many. The last part of
 * a run, or of a part, is in the ring as soon as steps come to its end: it needs no state. */
static void plan_cut(plan *p, const plan_need *need, int64_t ring, int64_t multiple) {
  const int64_t part = ring * multiple, parts = plan_parts(need->fields, part);
  *p = (plan){.ring = ring, .levels = multiple > 1 ? 2 : ring < need->fields};
  if (p->levels == 0) return;
  p->every[0] = part, p->every[p->levels - 1] = ring;
  p->states[0] = multiple > 1 ? parts : parts - 1; /* steps inside the last one are done again, too */
  if (multiple > 1) p->states[1] = multiple - 2;
  p->again = (double)((parts - 1) * part + parts * (part - ring)) / (double)need->fields;
}

/* Puts states into the tiers in order. A state that leaves the device does so through one of its size there. */
static bool plan_place(plan *p, const plan_need *need) {
  int64_t left = p->states[0] + p->states[1];
  double room = need->budget[TIER_DEVICE] - (double)p->ring * need->field;
  p->bytes[TIER_DEVICE] = (double)p->ring * need->field;
  if (room < 0) return false;
  if ((double)left * need->state > room) {
    room -= need->state;
    p->bytes[TIER_DEVICE] += need->state;
  }
  for (int tier = 0; tier < PLAN_TIERS; tier++) {
    const double fits = floor((tier ? need->budget[tier] : room) / need->state);
    const int64_t count = fits < 0 ? 0 : fits < (double)left ? (int64_t)fits : left;
    if (tier == TIER_DEVICE && fits < 0) return false;
    p->tier[tier] = count;
    p->bytes[tier] += (double)count * need->state;
    left -= count;
  }
  return left == 0;
}

/* Fewer steps done again are better, then fewer bytes in slower tiers, then fewer on the device. */
static bool plan_better(const plan *a, const plan *b) {
  if (a->levels != b->levels) return a->levels < b->levels;
  for (int tier = PLAN_TIERS - 1; tier >= 0; tier--)
    if (a->bytes[tier] != b->bytes[tier]) return a->bytes[tier] < b->bytes[tier];
  return false;
}

/* Tries parts of `ring` fields. */
static void plan_try(plan *best, bool *found, double *least, const plan_need *need, int64_t ring) {
  const int64_t fields = need->fields;
  const int64_t middle = (int64_t)sqrt((double)fields / (double)ring);
  for (int64_t multiple = 1; multiple <= middle + 1; multiple = multiple > 1 ? multiple + 1
                                                                : middle > 2 ? middle
                                                                             : 2) {
    plan p;
    plan_cut(&p, need, ring, multiple);
    const double all = (double)ring * need->field + (double)(p.states[0] + p.states[1]) * need->state;
    if (all < *least) *least = all;
    if (!plan_place(&p, need) || (*found && !plan_better(&p, best))) continue;
    *best = p;
    *found = true;
  }
}

bool plan_make(plan *p, const plan_need *need, double *least) {
  bool found = false;
  *least = INFINITY;
  for (int64_t ring = need->fields; ring >= 1; ring = ring > 4096 ? ring - ring / 64 : ring - 1)
    plan_try(p, &found, least, need, ring);
  return found;
}

int64_t plan_part(const plan *p, int64_t step) {
  return step - step % p->ring;
}

int plan_level(const plan *p, int64_t step) {
  int level = 0;
  while (level < p->levels && step % p->every[level]) level++;
  return level;
}

int64_t plan_state(const plan *p, int64_t step) {
  const int level = plan_level(p, step);
  if (level == p->levels) return -1;
  if (p->levels == 1) return step / p->every[0];
  return level == 1 ? step % p->every[0] / p->every[1] - 1 : p->states[1] + step / p->every[0];
}
