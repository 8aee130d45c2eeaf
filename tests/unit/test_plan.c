/* The adjoint's plan (propagator/plan.h), followed as adjoint.c does: every field is in the ring buffer when it is
 * needed, within the budgets, with as many steps done again as planned. */
#include "propagator/plan.h"
#include <string.h>
#include "test.h"

enum { FIELDS = 60, BYTES = 2 * FIELDS };
static const plan_need NEED = {.field = 2, .state = 5};

typedef struct way {
  plan p;
  int64_t state[PLAN_TIERS][FIELDS]; /* the steps whose states are in the tiers, */
  int64_t shared[BYTES]; /* and content of the ring buffer's memory: a field's step, or -2 - a state's */
  int64_t again;
} way;

/* Marks what is between two bytes. */
static void mark(way *w, double begin, double end, int64_t of) {
  assert_true(begin >= 0 && end <= BYTES);
  for (int i = (int)begin; i < (int)end; i++) w->shared[i] = of;
}

static double memory(const plan *p) {
  return p->bytes[TIER_DEVICE] - (double)(p->tier[TIER_HOST] + p->tier[TIER_FILE] > 0) * NEED.state;
}

/* A state on the device has the memory from here on. */
static double place(const way *w, int64_t number) {
  assert_true(number >= 0 && number < w->p.tier[TIER_DEVICE]);
  return memory(&w->p) - (double)(number + 1) * NEED.state;
}

static void keep(way *w, int64_t step) {
  enum plan_tier tier;
  const int64_t number = plan_state(&w->p, step, &tier);
  assert_true(number >= 0 && number < w->p.tier[tier]);
  w->state[tier][number] = step;
  if (tier != TIER_DEVICE) return;
  mark(w, place(w, number), place(w, number) + NEED.state, -2 - step);
  assert_true((double)plan_beside(&w->p, number + 1) * NEED.field <= place(w, number));
}

/* Is the state of this step where it was put? */
static void expect(const way *w, int64_t step) {
  enum plan_tier tier;
  const int64_t number = plan_state(&w->p, step, &tier);
  assert_int_equal(w->state[tier][number], step);
  for (int i = 0; tier == TIER_DEVICE && i < (int)NEED.state; i++)
    assert_int_equal(w->shared[(int)place(w, number) + i], -2 - step);
}

/* Steps from `from`, whose state is there, to end - 1. */
static void go(way *w, int64_t from, int64_t end) {
  const int64_t segment = plan_segment(&w->p, end - 1);
  for (int64_t step = from; step < end; step++) {
    const bool cut = plan_segment(&w->p, step) == step;
    const double slot = (double)(step - segment) * NEED.field;
    if (step + 1 < end)
      assert_true(plan_segment(&w->p, step + plan_ahead(&w->p, step)) > plan_segment(&w->p, step));
    if (step >= segment)
      mark(w, slot, slot + NEED.field, step);
    else if (cut && (step > from || from == 0) &&
             (plan_part(&w->p, step) == step || plan_part(&w->p, step) == plan_part(&w->p, segment)))
      keep(w, step);
  }
}

static void follow(way *w, int64_t fields) {
  int64_t end = fields;
  memset(w->state, -1, sizeof w->state);
  memset(w->shared, -1, sizeof w->shared);
  go(w, 0, fields);
  for (int64_t segment = plan_segment(&w->p, fields - 1);; segment = plan_segment(&w->p, end - 1)) {
    for (int64_t step = end - 1; step >= segment; step--)
      for (int i = 0; i < (int)NEED.field; i++)
        assert_int_equal(w->shared[(step - segment) * (int64_t)NEED.field + i], step);
    if ((end = segment) == 0) break;
    int64_t from = plan_segment(&w->p, end - 1);
    if (plan_part(&w->p, from) != plan_part(&w->p, segment)) from = plan_part(&w->p, from);
    expect(w, from);
    go(w, from, end);
    w->again += end - 1 - from;
  }
}

/* All runs, with budgets from nothing to all. */
TEST(test_follow) {
  int refused = 0, kinds[3] = {0}, within = 0, filed = 0;
  for (int64_t fields = 1; fields < FIELDS; fields++)
    for (int device = 0; device <= BYTES; device += 1 + device / 40)
      for (int other = 0; other < 48; other += 6) {
        plan_need need = {fields, NEED.field, NEED.state, {device, other, 2 * other}};
        way w = {.again = 0};
        double least;
        if (!plan_make(&w.p, &need, &least)) {
          refused++;
          assert_true(least > device);
          need.budget[0] = least;
          assert_true(plan_make(&w.p, &need, &least));
        }
        follow(&w, fields);
        kinds[w.p.parts > 1 ? 2 : w.p.segments > 1]++;
        within += w.p.parts > 1 && w.p.inside > 0;
        filed += w.p.tier[TIER_FILE] > 0;
        assert_true((double)w.again <= w.p.again * (double)fields + 1e-6);
        assert_true((double)w.again >= w.p.again * (double)fields - (double)(w.p.parts * (w.p.segments + 1)));
        for (int tier = 0; tier < PLAN_TIERS; tier++) assert_true(w.p.bytes[tier] <= need.budget[tier]);
      }
  assert_true(refused > 0 && kinds[0] > 0 && kinds[1] > 0 && kinds[2] > 0 && within > 0 && filed > 0);
}

/* Where all fits nothing is done again; from less memory to more it is ever less, but for the states' whole steps. */
TEST(test_cost) {
  double before = 2;
  for (int device = 0; device <= 1000; device++) {
    plan p;
    double least;
    if (!plan_make(&p, &(plan_need){1000, 1, 2, {device}}, &least)) continue;
    assert_true(p.parts == 1 ? p.again <= 1 : p.again <= 2);
    assert_true(p.again <= before + 0.02);
    before = p.again;
  }
  assert_true(before == 0);
}

/* A budget that all segments share has far longer ones than segments of one length: 22 fields, states of 2.3 (those of
 * 768^3 points with layers on a card of 80 GB). */
TEST(test_parts) {
  plan p;
  double least;
  assert_true(plan_make(&p, &(plan_need){2001, 1, 2.3, {24.3, 18 * 2.3}}, &least));
  assert_true(p.parts > 1 && p.inside == 0);
  assert_in_range(p.away, 15, 18);
  assert_true(p.again < 1.95);
}

TEST_MAIN("plan", NULL, NULL)
