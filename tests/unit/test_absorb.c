/* Absorbing layers: bits that depend on nothing, state that moves between numbers of slabs, memory.
 *   test_absorb [cuda]   on the host device, or on a GPU
 * STENCIL_TEST_SMALL: two steps of each kind of long rows on one slab, for tools that watch kernels. */
#include "absorb_harness.h"
#include "kernels/host/host_simd.h"

static void check_same(const grid_field *got, const grid_field *expected, const char *what, int which) {
  for (int z = 0; z < got->nz; z++)
    for (int y = 0; y < got->ny; y++)
      for (int x = 0; x < got->nx; x++) {
        float a = *grid_at(got, z, y, x), b = *grid_at(expected, z, y, x);
        if (memcmp(&a, &b, sizeof a) != 0)
          fail_msg("%s %d: z %d y %d x %d: %a, expected %a", what, which, z, y, x, (double)a, (double)b);
      }
}

#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
/* What sanitizers find shows in the first steps. */
enum { STEPS = 8, LONG_STEPS = 3, LONG_NY = 44, LONG_NZ = 26 };
#else
enum { STEPS = 40, LONG_STEPS = 8, LONG_NY = 61, LONG_NZ = 110 };
#endif

/* --- bits ----------------------------------------------------------------------------------------------- */

static const enum boundary_kind MIXES[][FACE_COUNT] = {
    {A, A, A, A, A, A}, {A, D, N, A, D, A}, {A, A, P, P, A, N}, {P, P, A, F, N, A},
    {D, A, A, A, A, D}, {N, D, F, A, P, P}, {A, A, N, D, F, F}, {F, A, A, F, F, N},
    {A, A, A, A, D, A}, {A, A, N, A, A, A}, {F, A, A, N, F, A}, {A, A, F, A, F, A},
    {A, A, D, A, A, A}, {A, F, A, N, A, D}, {A, N, O, O, D, A}, {O, O, O, O, A, A}};
enum {
  MIX_COUNT = sizeof MIXES / sizeof MIXES[0],
  WIDE = 6, /* mixes from here on have layers of 33 points, */
  LONG = 8, /* ... from here on rows of several tiles of the CUDA kernels */
#if defined __SANITIZE_THREAD__ || defined __SANITIZE_ADDRESS__
  MIX_TRIED = LONG + 1 /* sanitizers are slow, and long rows are all alike to the host */
#else
  MIX_TRIED = MIX_COUNT
#endif
};

static const cutting CUTS[] = {{1, 1, false, 0}, {1, 3, false, 0}, {1, 2, true, 3}, {2, 2, false, 0},
                               {3, 1, true, 0},  {3, 2, false, 2}, {4, 3, false, 0}};
enum { CUT_COUNT = sizeof CUTS / sizeof CUTS[0] };

/* How much is tried: all, or little where STENCIL_TEST_SMALL is set. */
static int tried(int all, int little) {
  return getenv("STENCIL_TEST_SMALL") ? little : all;
}

/* A grid of odd sizes, thin enough in z for layers that several slabs share; or with layers along x and y that are
 * wider than a warp. */
static config mixed_box(int mix) {
  /* whole packs of points; rows and layers that are none; a layer in two tiles; the widest that a tile's box can hold;
   * rows for narrow tiles; a low layer alone, in rows that end within a pack; 2D; 1D */
  static const int LONG_SIZES[][4] = {
      {284, LONG_NY, LONG_NZ, 20}, {161, 61, 110, 18}, {278, 61, 70, 28}, {164, 44, 50, 32},
      {101, 31, 60, 20},           {165, 45, 60, 20},  {165, 1, 60, 20},  {1, 1, 60, 20}};
  const int *n = LONG_SIZES[mix < LONG ? 0 : mix - LONG];
  config c = mix < WIDE   ? box(29, 21, 20, 7, MIXES[mix])
             : mix < LONG ? box(75, 44, 20, 33, MIXES[mix])
                          : box(n[0], n[1], n[2], n[3], MIXES[mix]);
  c.dx = 1.25, c.dz = 0.8;
  c.space_order = mix == 1 ? 4 : mix == 2 ? 2 : 8;
  return c;
}

static void start_random(world *w, const char *on, const config *c, cutting cut) {
  grid_field v = random_field(c, 0.6, 1, 1), now = random_field(c, -1, 1, 2),
             before = random_field(c, -1, 1, 3);
  world_open(w, on, c, cut, 1, &v);
  world_put(w, &now, &before);
  free(v.values), free(now.values), free(before.values);
}

/* The next name of a kernel that has layers of its own, or leaves them to the operation, from *next on, that this machine
 * runs; NULL: that was the last. */
static const char *next_kernel(const char *backend, int *next) {
  static const char *const names[] = {"simd", "bulk_tensor", "multi_stage", "naive"};
  const device_options options = {.local_ranks = 1, .threads = 1};
  device *dev;
  OK(device_open(backend, &options, &dev, &E));
  while (*next < COUNT(names) && !kernel_here(dev, names[*next])) ++*next;
  dev->table->close(dev);
  return *next < COUNT(names) ? names[(*next)++] : NULL;
}

TEST_OF(bits_do_not_depend_on_the_cut, const char *backend) {
  for (int mix = tried(0, LONG); mix < MIX_TRIED; mix++) {
    const config c = mixed_box(mix);
    const int steps = tried(mix < LONG ? STEPS : LONG_STEPS, 2);
    world w;
    start_random(&w, "host", &c, CUTS[0]);
    world_step(&w, steps);
    grid_field expected = world_get(&w);
    world_close(&w);
    assert_true(grid_max(&expected) > 1e-3 && isfinite(grid_max(&expected)));
    const char *name;
    for (int next = 0; (name = next_kernel(backend, &next));)
      for (int i = 0; i < tried(CUT_COUNT, 1); i += mix < LONG ? 1 : 3) {
        bool wraps = c.boundary[FACE_Z_LO] == P; /* round several slabs: the step loop's business */
        if (wraps && CUTS[i].slabs > 1) continue;
        world_kernel = name;
        start_random(&w, backend, &c, CUTS[i]);
        world_kernel = NULL;
        world_step(&w, steps);
        grid_field got = world_get(&w);
        check_same(&got, &expected, name, i);
        world_close(&w);
        free(got.values);
      }
    free(expected.values);
  }
}

/* A copy of slab p's newer field and its layers' state, and the args of a launch that reads and writes them. */
typedef struct outcome {
  float *field, *state;
  absorb_args args;
} outcome;

static outcome outcome_of(const world *w, const piece *p) {
  const size_t floats = slab_floats(&p->s), bytes = absorb_bytes(&w->c, &p->s);
  outcome o = {.field = aligned_alloc(256, (floats * sizeof(float) + 255) / 256 * 256),
               .state = malloc(bytes),
               .args = p->layers.args};
  memcpy(o.field, p->field[!w->current], floats * sizeof(float));
  memcpy(o.state, p->layers.memory, bytes);
  o.args.field = piece_args(w, p);
  o.args.field.out = o.field + slab_offset(&p->s, 0, 0, 0);
  o.args.field.z_end = p->s.nz;
  for (int i = 0; i < ABSORB_AXES; i++) {
    absorb_axis *s = &o.args.axis[i];
    if (!s->coefficients) continue;
    float **zeta_or_layer_terms = i == 0 ? &o.args.layer_terms : &s->zeta;
    s->psi_out = o.state + (s->psi_out - p->layers.memory);
    *zeta_or_layer_terms = o.state + (*zeta_or_layer_terms - p->layers.memory);
  }
  return o;
}

static void outcome_free(const outcome *o) {
  free(o->field), free(o->state);
}

static void check_outcome(const world *w, const piece *p, const host_isa *isa, enum host_form form, int parts,
                          const outcome *expected) {
  outcome got = outcome_of(w, p);
  for (int part = 0; part < parts; part++)
    host_simd_launch(isa, form, &got.args.field, &got.args, part, parts);
  assert_memory_equal(got.state, expected->state, absorb_bytes(&w->c, &p->s));
  for (int z = -RADIUS; z < p->s.nz + RADIUS; z++)
    for (int y = -RADIUS; y < p->s.ny + RADIUS; y++)
      for (int x = -RADIUS; x < p->s.nx + RADIUS; x++) {
        const size_t at = slab_offset(&p->s, z, y, x);
        if (memcmp(&got.field[at], &expected->field[at], sizeof(float)) != 0)
          fail_msg("%s, %d x %d x %d points in %d parts: z %d y %d x %d: %a, not %a", isa->name, p->s.nx,
                   p->s.ny, p->s.nz, parts, z, y, x, (double)got.field[at], (double)expected->field[at]);
      }
  outcome_free(&got);
}

/* For every instruction set and number of parts, the kernel with layers gives the bits of the reference kernel
 * followed by the layers point by point. */
static void check_slab(const world *w, const piece *p, int parts) {
  const kernel *reference;
  const host_isa *isa;
  OK(kernel_find("reference", EQUATION_WAVE, BACKEND_HOST, &reference, &E));
  outcome expected = outcome_of(w, p);
  reference->host(&expected.args.field, 0, 1);
  operation_absorb.host(&expected.args, 0, 1);
  for (int i = 0; (isa = host_isa_get(i)); i++) {
    for (int form = 0; form < HOST_FORMS; form++)
      check_outcome(w, p, isa, (enum host_form)form, form == HOST_CACHED ? 1 : parts, &expected);
  }
  outcome_free(&expected);
}

/* The kernels are called by this thread alone: for ThreadSanitizer, which makes them slow, one case is enough. */
#ifdef __SANITIZE_THREAD__
enum { MIX_FIRST = 1, MIX_LAST = 1, SLABS_MOST = 1 };
#else
enum { MIX_FIRST = 0, MIX_LAST = MIX_TRIED, SLABS_MOST = 3 };
#endif

TEST(kernels_add_what_points_get) {
  for (int mix = MIX_FIRST; mix <= MIX_LAST; mix++)
    for (int slabs = 1; slabs <= SLABS_MOST; slabs++) {
      const config c =
          mix < MIX_TRIED ? mixed_box(mix) : box(BLOCK_X + 13, 37, 20, 17, MIXES[0]); /* more than a block */
      world w;
      start_random(&w, "host", &c, (cutting){slabs, 1, false, 0});
      for (int step = 0; step < 4; step++, world_step(&w, 1))
        for (int i = 0; step == 3 && i < slabs; i++) check_slab(&w, &w.piece[i], 2 * mix + slabs);
      world_close(&w);
    }
}

/* --- state ---------------------------------------------------------------------------------------------- */

/* Copies what slab p owns of (or, to the device, holds of) state array `which` between the device and
 * `whole`. */
static void move_state(world *w, const piece *p, int which, float *whole, copy_direction direction) {
  field_set all = {.count = 0};
  absorb_fields(&p->layers, &all);
  const field *s = all.list;
  assert_true(which < all.count);
  const size_t plane = (size_t)(s[which].shape[1] * s[which].shape[2]);
  for (int i = 0; i < s[which].count; i++) {
    const field_slice l = s[which].slices[i];
    bool up = direction == COPY_TO_DEVICE;
    const int skip = up ? 0 : l.own, planes = up ? l.held : l.owned;
    float *local = s[which].values + (size_t)(l.local + skip) * plane,
          *global = whole + (size_t)(l.global + skip) * plane;
    assert_true(l.global >= 0 && l.global + l.held <= s[which].shape[0] && l.own >= 0 &&
                l.own + l.owned <= l.held);
    OK(w->dev->table->copy(w->dev, STREAM_BOUNDARY,
                           &(copy_args){up ? local : global, up ? global : local,
                                        (size_t)planes * plane * sizeof(float), direction},
                           &E));
  }
  world_sync(w);
}

/* Saves the state of one partition as global arrays, loads it into another partition, and goes on. */
TEST_OF(state_moves_between_cuts, const char *backend) {
  for (int from = 0; from < tried(CUT_COUNT, 1); from++) {
    const config c = mixed_box(from % 2);
    const int to = (from + 3) % CUT_COUNT;
    world w[2];
    for (int i = 0; i < 2; i++) start_random(&w[i], backend, &c, CUTS[i ? to : from]);
    world_step(&w[0], tried(STEPS / 2, 2));
    grid_field now = world_get(&w[0]);
    w[0].current = !w[0].current;
    grid_field before = world_get(&w[0]);
    w[0].current = !w[0].current;
    field_set all = {.count = 0};
    absorb_fields(&w[0].piece[0].layers, &all);
    const field *s = all.list;
    const int count = all.count;
    /* both mixes have layers along every axis: psi of each, zeta of y and z, terms of each layer along x */
    assert_int_equal(count, 5 + (c.boundary[FACE_X_LO] == A) + (c.boundary[FACE_X_HI] == A));
    for (int k = 0; k < count; k++) {
      const size_t floats = (size_t)(s[k].shape[0] * s[k].shape[1] * s[k].shape[2]);
      float *whole = malloc(floats * sizeof *whole);
      memset(whole, 0xFF, floats * sizeof *whole); /* NaN: what no slab saves would show */
      for (int i = 0; i < w[0].cut.slabs; i++) move_state(&w[0], &w[0].piece[i], k, whole, COPY_TO_HOST);
      for (size_t i = 0; i < floats; i++)
        if (!isfinite(whole[i])) fail_msg("%s: value %zu of %zu was not saved", s[k].name, i, floats);
      for (int i = 0; i < w[1].cut.slabs; i++) move_state(&w[1], &w[1].piece[i], k, whole, COPY_TO_DEVICE);
      free(whole);
    }
    world_put(&w[1], &now, &before);
    for (int i = 0; i < 2; i++) world_step(&w[i], tried(STEPS / 2, 2));
    free(now.values), free(before.values);
    now = world_get(&w[0]), before = world_get(&w[1]);
    check_same(&before, &now, "restart", from);
    free(now.values), free(before.values);
    for (int i = 0; i < 2; i++) world_close(&w[i]);
  }
}

TEST_OF(memory_is_as_announced, const char *backend) {
  const enum boundary_kind none[FACE_COUNT] = {P, P, D, N, F, F};
  const device_options options = {.local_ranks = 1, .threads = 1};
  for (int i = 0; i <= MIX_COUNT; i++)
    for (int slabs = 1; slabs <= 3; slabs++) {
      config c = i < MIX_COUNT ? mixed_box(i) : box(20, 20, 20, 5, none);
      const kernel_args weights = {.wx = {0, 1}, .wy = {0, 1}, .wz = {0, 1}};
      device *dev;
      absorb a;
      slab s;
      OK(device_open(backend, &options, &dev, &E));
      OK(slab_init(&s, &(slab_shape){.nx = c.nx, .ny = c.ny, .nz = c.nz}, slabs - 1, slabs, &E));
      const problem on = {.dev = dev, .slab = &s, .config = &c};
      OK(absorb_open(&a, &on, &weights, (absorb_motion){1, 0.1}, &E));
      assert_int_equal(dev->bytes, absorb_bytes(&c, &s));
      assert_int_equal(dev->pinned_bytes, i < MIX_COUNT ? ABSORB_PINNED : 0);
      assert_true(absorb_needed(&a) == (i < MIX_COUNT));
      absorb_close(&a);
      assert_int_equal(dev->bytes + dev->pinned_bytes, 0);
      dev->table->close(dev);
    }
}

/* Each point of a layer along x has an layer term of its own, in whole packs as in the field. */
TEST(terms_have_places_of_their_own) {
  for (int mix = 0; mix < MIX_COUNT; mix++) {
    const config c = mixed_box(mix);
    const absorb_axis x = {.lo = c.boundary[FACE_X_LO] == A ? c.boundary_width : 0,
                           .hi = c.boundary[FACE_X_HI] == A ? c.boundary_width : 0,
                           .points = c.nx};
    const absorb_layer_terms t = absorb_layer_terms_of(&x, c.boundary_width, c.nz);
    const ptrdiff_t floats = (ptrdiff_t)t.planes * c.ny * t.pitch;
    bool *taken = calloc((size_t)floats + 1, sizeof *taken);
    for (int i = 0; i < c.nz * c.ny * c.nx; i++) {
      const absorb_point at = {i / (c.nx * c.ny), i / c.nx % c.ny, i % c.nx};
      const bool high = at.x >= c.nx - x.hi;
      if (!high && at.x >= x.lo) continue;
      const ptrdiff_t place = absorb_layer_term_at(&t, c.ny, high, at);
      assert_true(place >= 0 && place < floats && !taken[place]);
      assert_int_equal(place % 4, at.x % 4);
      taken[place] = true;
    }
    free(taken);
  }
}

BACKEND_MAIN
