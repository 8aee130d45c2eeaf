/* The plan of the way back (gradient/plan.h), followed as adjoint.c does: every field is in the ring when it is needed, in budgets
 * that are kept, with as many steps done again as the plan says. */
#include "gradient/plan.h"
#include <string.h>
#include "test.h"

enum { FIELDS = 60 };

typedef struct way {
  plan p;
  int64_t state[FIELDS], ring[FIELDS]; /* the steps whose state, or field, is there */
  int64_t again;
} way;

/* Steps from `from`, whose state is there, to end - 1. */
static void go(way *w, int64_t from, int64_t end) {
  const int64_t part = plan_part(&w->p, end - 1);
  for (int64_t step = from; step < end; step++) {
    const int level = plan_level(&w->p, step);
    const bool within =
        level > 0 && level < w->p.levels && step / w->p.every[level - 1] != part / w->p.every[level - 1];
    if (step >= part)
      w->ring[step % w->p.ring] = step;
    else if (level < w->p.levels && !within && !(step == from && from > 0))
      w->state[plan_state(&w->p, step)] = step;
  }
}

static void follow(way *w, int64_t fields) {
  int64_t end = fields;
  memset(w->state, -1, sizeof w->state);
  memset(w->ring, -1, sizeof w->ring);
  go(w, 0, fields);
  for (int64_t part = plan_part(&w->p, fields - 1);; part = plan_part(&w->p, end - 1)) {
    for (int64_t step = end - 1; step >= part; step--) assert_int_equal(w->ring[step % w->p.ring], step);
    if ((end = part) == 0) break;
    int64_t from = plan_part(&w->p, end - 1);
    if (w->p.levels > 1 && from / w->p.every[0] != part / w->p.every[0]) from -= from % w->p.every[0];
    assert_int_equal(w->state[plan_state(&w->p, from)], from);
    go(w, from, end);
    w->again += end - 1 - from;
  }
}

/* All runs, with budgets from nothing to all. */
TEST(test_follow) {
  int refused = 0, levels[3] = {0};
  for (int64_t fields = 1; fields < FIELDS; fields++)
    for (int device = 0; device <= fields; device++)
      for (int other = 0; other < 12; other += 3) {
        const plan_need need = {fields, 1, 2.5, {device, other, 2 * other}};
        way w = {.again = 0};
        double least;
        if (!plan_make(&w.p, &need, &least)) {
          refused++;
          assert_true(least > device);
          assert_true(plan_make(&w.p, &(plan_need){fields, 1, 2.5, {least}}, &least));
        }
        follow(&w, fields);
        levels[w.p.levels]++;
        assert_true(w.again <= 2 * fields);
        for (int tier = 0; tier < PLAN_TIERS && w.p.bytes[0] <= device; tier++)
          assert_true(w.p.bytes[tier] <= need.budget[tier]);
        assert_int_equal(w.p.tier[0] + w.p.tier[1] + w.p.tier[2], w.p.states[0] + w.p.states[1]);
      }
  assert_true(refused > 0 && levels[0] > 0 && levels[1] > 0 && levels[2] > 0);
}

/* More memory never means more steps; where all fits none is done again. */
TEST(test_cost) {
  double before = 2;
  for (int device = 0; device <= 1000; device++) {
    plan p;
    double least;
    if (!plan_make(&p, &(plan_need){1000, 1, 2, {device}}, &least)) continue;
    assert_true(p.levels <= 1 ? p.again <= 1 : p.again <= 2);
    assert_true(p.levels > 0 || p.again == 0);
    before = p.again;
  }
  assert_true(before == 0);
}

TEST_MAIN("plan", NULL, NULL)
