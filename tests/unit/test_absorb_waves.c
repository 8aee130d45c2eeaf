/* Absorbing layers: what they send back, against a grid too large to, and whether they stay stable.
 *   test_absorb_waves [cuda]   on the host device, or on a GPU */
#include "absorb_harness.h"

/* --- reflection ----------------------------------------------------------------------------------------- */

/* A wave packet: cos(kx x) in an envelope of `width`, times cos(ky y), that at time t is at x = at + speed t.
 */
typedef struct packet {
  int axis; /* that it moves along, up where sign > 0 */
  int sign;
  double at, width, kx, ky, omega, speed;
} packet;

static float packet_value(const packet *p, const int x[3], double t) {
  const int along = p->axis, across = (p->axis + 1) % 3;
  const double s = p->sign * (x[along] - p->at), q = (s - p->speed * t) / p->width;
  return (float)(exp(-q * q) * cos(p->kx * s - p->omega * t) * cos(p->ky * x[across]));
}

/* The packet on a grid of `length` points along its axis that begins `lower` points below 0, `kind` at both
 * ends, periodic otherwise. */
static void packet_open(world *w, const packet *p, enum boundary_kind kind, int length, int across, int lower,
                        double dt) {
  enum boundary_kind kinds[FACE_COUNT] = {P, P, P, P, P, P};
  int n[3] = {4, 4, 4};
  n[p->axis] = length, n[(p->axis + 1) % 3] = across;
  kinds[2 * p->axis] = kinds[2 * p->axis + 1] = kind;
  const config c = box(n[0], n[1], n[2], 20, kinds);
  grid_field now = grid_new(n[0], n[1], n[2]), before = grid_new(n[0], n[1], n[2]);
  for (int z = 0; z < n[2]; z++)
    for (int y = 0; y < n[1]; y++)
      for (int x = 0; x < n[0]; x++) {
        int at[3] = {x, y, z};
        at[p->axis] -= lower;
        *grid_at(&now, z, y, x) = packet_value(p, at, 0);
        *grid_at(&before, z, y, x) = packet_value(p, at, -dt);
      }
  world_open(w, backend, &c, (cutting){1, 1, false, 0}, 1, NULL);
  world_put(w, &now, &before);
  free(now.values), free(before.values);
}

/* Greatest difference between the two at points of the small one outside its layers. */
static double packet_difference(world *small, world *large, int axis, int lower) {
  grid_field a = world_get(small), b = world_get(large);
  const int n[3] = {a.nx, a.ny, a.nz};
  double most = 0;
  int x[3];
  for (x[2] = 0; x[2] < n[2]; x[2]++)
    for (x[1] = 0; x[1] < n[1]; x[1]++)
      for (x[0] = 0; x[0] < n[0]; x[0]++) {
        int y[3] = {x[0], x[1], x[2]};
        y[axis] += lower;
        if (x[axis] < 20 || x[axis] >= n[axis] - 20) continue;
        most =
            fmax(most, fabs((double)*grid_at(&a, x[2], x[1], x[0]) - (double)*grid_at(&b, y[2], y[1], y[0])));
      }
  free(a.values), free(b.values);
  return most;
}

/* dB of what a packet of 10 points a wavelength leaves behind, at `degrees` from normal, where faces are of
 * `kind`. */
static double packet_reflection(enum boundary_kind kind, int axis, int sign, double degrees, int across,
                                double width, int steps) {
  const int length = 40 + (int)(6 * width), lower = length, samples = 8;
  const double dt = 0.9 * 2 / sqrt(fd_sum(8, (double[]){1, 1, 1}));
  packet p = {.axis = axis, .sign = sign, .at = length / 2.0, .width = width};
  p.ky = across > 4 ? 2 * 2 * acos(-1) / across : 0; /* two waves across */
  p.omega = p.ky > 0 ? p.ky / sin(degrees * acos(-1) / 180) : 2 * acos(-1) / 10;
  p.kx = p.omega * cos(degrees * acos(-1) / 180);
  p.speed = p.kx / p.omega;
  world small, large;
  packet_open(&small, &p, kind, length, across, 0, dt);
  packet_open(&large, &p, A, 3 * length, across, lower, dt);
  double most = 0;
  for (int i = 0; i < samples; i++) {
    world_step(&small, steps / samples);
    world_step(&large, steps / samples);
    most = fmax(most, packet_difference(&small, &large, axis, lower));
  }
  world_close(&small);
  world_close(&large);
  return 20 * log10(most);
}

static void normal_incidence_is_absorbed(void **state) {
  (void)state;
  for (int axis = 0; axis < 3; axis++)
    for (int sign = -1; sign <= 1; sign += 2) {
      double db = packet_reflection(A, axis, sign, 0, 4, 16, 480);
      printf("normal incidence, axis %c %s: %.1f dB\n", 'x' + axis, sign > 0 ? "high" : "low", db);
      assert_true(db < -60);
    }
}

/* 23 points across: two waves of 11.5 points, 60 degrees of a wave of 10. */
static void oblique_incidence_is_absorbed(void **state) {
  (void)state;
  for (int axis = 0; axis < 3; axis++) {
    double db = packet_reflection(A, axis, axis == 1 ? -1 : 1, 60, 23, 20, 720);
    printf("60 degrees, axis %c: %.1f dB\n", 'x' + axis, db);
    assert_true(db < -40);
  }
}

/* The two tests above can fail: a wall reflects what they measure. */
static void walls_reflect(void **state) {
  (void)state;
  assert_true(packet_reflection(F, 0, 1, 0, 4, 16, 480) > -3);
  assert_true(packet_reflection(F, 2, 1, 60, 23, 20, 720) > -3);
}

/* A blob of waves around 10 points, in all directions from (y, x), alike along z. */
static void blob_open(world *w, int nx, int ny, int y, int x) {
  const enum boundary_kind kinds[FACE_COUNT] = {A, A, A, A, P, P};
  const config c = box(nx, ny, 4, 20, kinds);
  const double sigma = 10 * sqrt(2) / (2 * acos(-1));
  grid_field u = grid_new(nx, ny, 4);
  for (int k = 0; k < 4; k++)
    for (int j = 0; j < ny; j++)
      for (int i = 0; i < nx; i++) {
        double q = ((i - x) * (i - x) + (j - y) * (j - y)) / (2 * sigma * sigma);
        *grid_at(&u, k, j, i) = (float)((1 - q) * exp(-q));
      }
  world_open(w, backend, &c, (cutting){1, 1, false, 0}, 1, NULL);
  world_put(w, &u, &u);
  free(u.values);
}

/* The greatest value at a receiver, and the greatest difference to a grid whose faces are far away. */
typedef struct heard {
  double most, off;
} heard;

static void listen_to(heard *h, const grid_field *small, const grid_field *large, int margin, int y, int x) {
  double u = (double)*grid_at(large, 0, y + margin, x + margin);
  h->most = fmax(h->most, fabs(u));
  h->off = fmax(h->off, fabs((double)*grid_at(small, 0, y, x) - u));
}

/* Source and receivers are 25 points off the layer at x_lo; what a mirror there would send to a receiver has
 * come in at the angle listed. Corners and the layers of y are near, too. */
static void point_source_is_absorbed(void **state) {
  (void)state;
  enum {
    WIDTH = 20,
    OFF = 25,
    NX = 2 * WIDTH + OFF + 10,
    NY = 2 * WIDTH + 112,
    SOURCE = WIDTH + 12,
    MARGIN = 90
  };
  static const struct {
    int degrees, along;
    double limit;
  } ears[] = {{30, 29, -60}, {45, 50, -60}, {60, 87, -40}};
  world small, large;
  heard at[3] = {{0}}, anywhere = {0};
  blob_open(&small, NX, NY, SOURCE, WIDTH + OFF);
  blob_open(&large, NX + 2 * MARGIN, NY + 2 * MARGIN, SOURCE + MARGIN, WIDTH + OFF + MARGIN);
  for (int step = 0; step < 360; step += 4) {
    world_step(&small, 4);
    world_step(&large, 4);
    grid_field a = world_get(&small), b = world_get(&large);
    for (int i = 0; i < 3; i++) listen_to(&at[i], &a, &b, MARGIN, SOURCE + ears[i].along, WIDTH + OFF);
    for (int y = WIDTH; y < NY - WIDTH; y++)
      for (int x = WIDTH; x < NX - WIDTH; x++) listen_to(&anywhere, &a, &b, MARGIN, y, x);
    free(a.values), free(b.values);
  }
  for (int i = 0; i < 3; i++) {
    double db = 20 * log10(at[i].off / at[i].most);
    printf("point source, %d degrees: %.1f dB of the direct wave\n", ears[i].degrees, db);
    assert_true(at[i].most > 0.01 && db < ears[i].limit);
  }
  printf("point source, anywhere: %.1f dB of the source\n", 20 * log10(anywhere.off));
  assert_true(anywhere.off < 1e-3);
  world_close(&small);
  world_close(&large);
}

/* --- stability ------------------------------------------------------------------------------------------ */

/* All faces absorb, velocities differ from point to point, and the start is random: every wave must leave. */
static void twenty_thousand_steps_are_stable(void **state) {
  (void)state;
  const enum boundary_kind all[FACE_COUNT] = {A, A, A, A, A, A};
  const config c = box(14, 15, 13, 5, all);
  grid_field v = random_field(&c, 0.5, 1, 5), u = random_field(&c, -1, 1, 6);
  world w;
  world_open(&w, backend, &c, (cutting){1, 1, false, 0}, 1, &v);
  world_put(&w, &u, &u);
  double before = grid_max(&u);
  for (int leg = 0; leg < 4; leg++) {
    world_step(&w, 5000);
    grid_field now = world_get(&w);
    double max = grid_max(&now);
    printf("after %d steps: %.2g\n", 5000 * (leg + 1), max);
    assert_true(isfinite(max) && max < before);
    before = max;
    free(now.values);
  }
  assert_true(before < 1e-3);
  world_close(&w);
  free(v.values), free(u.values);
}

int main(int argc, char **argv) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(normal_incidence_is_absorbed), cmocka_unit_test(oblique_incidence_is_absorbed),
      cmocka_unit_test(walls_reflect), cmocka_unit_test(point_source_is_absorbed),
      cmocka_unit_test(twenty_thousand_steps_are_stable)};
  return ABSORB_RUN(argc, argv, "waves in absorbing layers", tests);
}
