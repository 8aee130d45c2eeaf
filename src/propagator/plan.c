#include "plan.h"
#include <math.h>

/* --- a cut ------------------------------------------------------------------------------------------------------ */

static int64_t plan_count(int64_t steps, int64_t each) {
  return (steps + each - 1) / each;
}

/* The steps that memory allows for segment i of a part. The states of earlier segments share that memory, except the
 * one directly before, which is not needed once the ring buffer is filled. */
static int64_t plan_steps(const plan *p, int64_t i) {
  const int64_t states = i - 1 - p->inside;
  return (int64_t)floor((p->shared_bytes - (states > 0 ? (double)states * p->need.state : 0)) /
                        p->need.field);
}

/* Counts the segments needed for `most` steps, as far as memory allows. Returns their steps. */
static int64_t plan_cover(plan *p, int64_t most) {
  const int64_t first = plan_steps(p, 0);
  if (first < 1) return 0;
  p->segments = plan_count(most, first);
  if (p->segments > p->inside + 2) p->segments = p->inside + 2;
  int64_t steps = p->segments * first;
  for (int64_t more; steps < most && (more = plan_steps(p, p->segments)) > 0; steps += more) p->segments++;
  return steps;
}

/* A segment of a part. */
typedef struct plan_segment_at {
  int64_t number, begin, end; /* steps from the beginning of the part */
} plan_segment_at;

static plan_segment_at plan_find(const plan *p, int64_t step) {
  const int64_t at = step % p->part;
  plan_segment_at s = {0, 0, plan_steps(p, 0) - p->cut};
  while (s.end <= at) s.begin = s.end, s.end += plan_steps(p, ++s.number);
  return s;
}

/* Completes a cut whose `shared_bytes`, `inside` and `near` are set. False: no segment fits. */
static bool plan_cut(plan *p) {
  const int64_t fields = p->need.fields, reach = plan_cover(p, fields);
  if (reach == 0) return false;
  p->parts = plan_count(fields, reach < fields ? reach : fields);
  p->part = plan_count(fields, p->parts); /* all parts have one length */
  p->parts = plan_count(fields, p->part);
  p->cut = plan_cover(p, p->part) - p->part;
  p->again = (double)((p->parts - 1) * (p->part + plan_find(p, p->part - 1).begin) +
                      plan_find(p, fields - 1).begin) /
             (double)fields;
  return true;
}

/* --- memory ----------------------------------------------------------------------------------------------------- */

static int64_t plan_smaller(int64_t a, int64_t b) {
  return a < b ? a : b;
}

/* Divides the states of a cut among the tiers; the host has room for `host` states. Takes no more memory than
 * needed. */
static void plan_place(plan *p, int64_t host) {
  const plan_need *need = &p->need;
  if (p->segments == 1) p->near = p->away = p->inside = p->cut = 0;
  double bytes_needed = (double)p->part * need->field;
  for (int64_t i = 1; i < p->segments; i++) {
    const int64_t states = i - 1 > p->inside ? i - 1 - p->inside : 0;
    const double bytes = (double)plan_steps(p, i) * need->field + (double)states * need->state;
    if (i == 1 || bytes > bytes_needed) bytes_needed = bytes;
  }
  p->shared_bytes = bytes_needed;
  p->inside = plan_smaller(p->inside, p->segments > 2 ? p->segments - 2 : 0);
  p->tier[TIER_DEVICE] = p->near + (p->segments > 2 ? p->segments - 2 - p->inside : 0);
  p->tier[TIER_HOST] = plan_smaller(p->away + p->inside, host);
  p->tier[TIER_FILE] = p->away + p->inside - p->tier[TIER_HOST];
  p->bytes[TIER_DEVICE] = bytes_needed + (double)(p->near + (p->away + p->inside > 0)) * need->state;
  for (int tier = TIER_HOST; tier < PLAN_TIERS; tier++) p->bytes[tier] = (double)p->tier[tier] * need->state;
}

/* Finds the best cut into at most `most` parts, with at most `capacity` states off the device. A state that leaves the
 * device passes through a buffer of its size there. */
static bool plan_fit(plan *best, const plan_need *need, int64_t most, int64_t capacity) {
  const double device = need->budget[TIER_DEVICE] - (capacity > 0 ? need->state : 0);
  bool found = false;
  for (int64_t inside = 0; inside <= plan_smaller(capacity, need->fields) && !found; inside++)
    for (int64_t near = 0; inside == 0 || near == 0; near++) {
      plan p = {
          .need = *need, .inside = inside, .near = near, .shared_bytes = device - (double)near * need->state};
      if (!plan_cut(&p)) break;
      p.near = plan_smaller(near, p.parts), p.away = p.segments > 1 ? p.parts - p.near : 0;
      if (p.parts > most || p.away + inside > capacity) continue;
      if (found && (p.away > best->away || (p.away == best->away && p.again >= best->again))) continue;
      *best = p;
      found = true;
    }
  return found;
}

/* The number of states that fit a tier. */
static int64_t plan_capacity(const plan_need *need, enum plan_tier tier) {
  const double count = floor(need->budget[tier] / need->state), most = (double)need->fields;
  return count < 0 ? 0 : (int64_t)(count < most ? count : most);
}

static bool plan_best(plan *p, const plan_need *need) {
  const int64_t host = plan_capacity(need, TIER_HOST), all = host + plan_capacity(need, TIER_FILE);
  const int64_t capacity[PLAN_TIERS] = {0, host, all}, most[2] = {1, need->fields};
  for (int twice = 0; twice < 2; twice++)
    for (int tier = 0; tier < PLAN_TIERS; tier++)
      if (plan_fit(p, need, most[twice], capacity[tier])) {
        plan_place(p, host);
        return true;
      }
  return false;
}

bool plan_make(plan *p, const plan_need *need, double *least) {
  enum { HALVES = 60 };
  plan_need alone = *need;
  double below = 0;
  if (plan_best(p, need)) return true;
  alone.budget[TIER_HOST] = alone.budget[TIER_FILE] = 0;
  *least = (double)need->fields * need->field;
  for (int i = 0; i < HALVES; i++) {
    alone.budget[TIER_DEVICE] = (below + *least) / 2;
    *(plan_best(p, &alone) ? least : &below) = alone.budget[TIER_DEVICE];
  }
  return false;
}

/* --- where things are --------------------------------------------------------------------------------------------- */

int64_t plan_segment(const plan *p, int64_t step) {
  return plan_part(p, step) + plan_find(p, step).begin;
}

int64_t plan_ahead(const plan *p, int64_t step) {
  return plan_smaller(plan_find(p, step).end, p->part) - step % p->part;
}

int64_t plan_part(const plan *p, int64_t step) {
  return step - step % p->part;
}

int64_t plan_state(const plan *p, int64_t step, enum plan_tier *tier) {
  const int64_t part = step / p->part, within = plan_find(p, step).number - 1;
  const bool on_device = within < 0 ? part >= p->away : within >= p->inside;
  if (on_device) {
    *tier = TIER_DEVICE;
    return within < 0 ? part - p->away : p->near + within - p->inside;
  }
  const int64_t number = within < 0 ? p->inside + part : within;
  *tier = number < p->tier[TIER_HOST] ? TIER_HOST : TIER_FILE;
  return *tier == TIER_HOST ? number : number - p->tier[TIER_HOST];
}

int64_t plan_beside(const plan *p, int64_t states) {
  return (int64_t)floor((p->shared_bytes - (double)(states - p->near) * p->need.state) / p->need.field);
}
