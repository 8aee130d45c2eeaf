/* What is probably a mistake in a configuration: above all, runs in which nothing can happen. */
#include <inttypes.h>
#include <math.h>
#include "announce.h"

static void remarks_gaussian(const simulation *s) {
  const config *c = s->config;
  const double *center = c->gaussian_center;
  double ends[2];
  const int axis = c->initial == INITIAL_GAUSSIAN ? config_outside(c, center, ends) : -1;
  if (axis < 0) return;
  log_line(
      s->log,
      "warning: [initial] center = %.15g %.15g %.15g is outside the grid, where %c is from %.15g to %.15g",
      center[0], center[1], center[2], "xyz"[axis], ends[0], ends[1]);
}

/* Does the field hold a point of this place at 0? */
static bool remarks_held(const config *c, const double position[3]) {
  const double spacing[3] = {c->dx, c->dy, c->dz};
  const int points[3] = {c->nx, c->ny, c->nz};
  for (int face = 0; face < FACE_COUNT; face++) {
    const int axis = face / 2;
    const double at = c->origin[axis] + (face % 2 ? (points[axis] - 1) * spacing[axis] : 0);
    if (c->boundary[face] == BOUNDARY_DIRICHLET && fabs(position[axis] - at) <= 1e-9 * spacing[axis])
      return true;
  }
  return false;
}

static bool remarks_sounds(const config *c, const source_config *s) {
  return s->amplitude != 0 && !remarks_held(c, s->position);
}

/* s: about when a source begins, one period before its peak. A wavelet of a file may begin at once. */
static double remarks_begin(const source_config *s) {
  return s->wavelet == WAVELET_FILE ? 0 : fmax(0, s->t0 - 1 / s->f0);
}

/* Is the field 0 unless sources change that? */
static bool remarks_at_rest(const config *c) {
  const bool zero = c->initial == INITIAL_ZERO || (c->initial == INITIAL_NUMBER && c->initial_number == 0) ||
                    (c->initial == INITIAL_GAUSSIAN && c->gaussian_amplitude == 0);
  if (!zero || (c->equation == EQUATION_WAVE && c->previous == PREVIOUS_FILE)) return false;
  for (int face = 0; face < FACE_COUNT; face++)
    if (c->boundary[face] == BOUNDARY_FIXED && c->boundary_value != 0) return false;
  return true;
}

/* m: the shortest way from one place to another, which leads across the faces of periodic axes, too. */
static double remarks_way(const config *c, const double from[3], const double to[3]) {
  const double length[3] = {c->nx * c->dx, c->ny * c->dy, c->nz * c->dz};
  double d[3];
  for (int axis = 0; axis < 3; axis++) {
    d[axis] = fabs(to[axis] - from[axis]);
    if (c->boundary[2 * axis] == BOUNDARY_PERIODIC) d[axis] = fmin(d[axis], length[axis] - d[axis]);
  }
  return hypot(hypot(d[0], d[1]), d[2]);
}

/* s: about when the first wave comes to a place; INFINITY without sources. */
static double remarks_arrival(const simulation *s, const double place[3]) {
  const config *c = s->config;
  double first = INFINITY;
  for (int i = 0; i < c->source_count; i++) {
    const source_config *from = &c->sources[i];
    if (!remarks_sounds(c, from)) continue;
    const double way = remarks_way(c, from->position, place);
    first = fmin(first, remarks_begin(from) + way / s->physics.medium_max);
  }
  return first;
}

/* Positions of receivers in a file are read later. */
static void remarks_receivers(const simulation *s, bool rest) {
  const config *c = s->config;
  const double end = s->physics.dt * (double)s->physics.steps;
  double arrival = INFINITY;
  int held = 0;
  for (int i = 0; i < c->receiver_count; i++) {
    held += remarks_held(c, c->receiver_positions[i]);
    if (rest && arrival > end) arrival = fmin(arrival, remarks_arrival(s, c->receiver_positions[i]));
  }
  if (c->receiver_count && held == c->receiver_count)
    log_line(s->log, "warning: every receiver lies on a dirichlet face, where the field is 0");
  else if (c->receiver_count && rest && arrival > end)
    log_line(
        s->log,
        "warning: no wave comes to a receiver: the first one would at about %.4g s, the run ends at %.4g s",
        arrival, end);
}

void announce_remarks(const simulation *s) {
  const config *c = s->config;
  const bool rest = remarks_at_rest(c);
  int sounding = 0;
  if (c->idle[0]) log_line(s->log, "ignored settings: %s", c->idle);
  if (s->from && s->from->step >= s->physics.steps)
    log_line(s->log,
             "nothing is left to do: the checkpoint is of step %" PRId64 ", the run ends at step %" PRId64,
             s->from->step, s->physics.steps);
  if (!c->output_final && !c->output_every && c->receivers == RECEIVERS_NONE && !c->checkpoint_every_steps &&
      c->checkpoint_every_seconds <= 0)
    log_line(s->log,
             "warning: nothing is saved: [output] final = off, and no every, receivers or checkpoints");
  if (s->from) return; /* the checkpoint says what the field is */
  remarks_gaussian(s);
  for (int i = 0; i < c->source_count; i++) sounding += remarks_sounds(c, &c->sources[i]);
  if (c->source_count && !sounding)
    log_line(s->log,
             "warning: every source has amplitude 0 or lies on a dirichlet face, where the field is 0");
  if (rest && !sounding)
    log_line(s->log, "warning: nothing can happen: the initial field is 0, and nothing changes it");
  else
    remarks_receivers(s, rest);
}
