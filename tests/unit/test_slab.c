/* The arithmetic of the partition: every plane owned once, every point in memory once, every range covered
 * once. */
#include "test.h"
#include "halo/slab.h"

/* The planes that a rank needs where faces of the grid reflect: one more than its 4 ghosts. */
static int needed(int rank, int ranks, const bool reflects[2]) {
  const bool face = (rank == 0 && reflects[0]) || (rank == ranks - 1 && reflects[1]);
  return RADIUS + face;
}

static int least_planes(int ranks, const bool reflects[2]) {
  int least = 0;
  for (int rank = 0; rank < ranks; rank++) least += needed(rank, ranks, reflects);
  return least;
}

/* Dealt evenly, to each rank as many as it needs. */
static void check_dealt(int nz, int ranks, const bool reflects[2]) {
  int next = 0;
  for (int rank = 0; rank < ranks; rank++) {
    slab s;
    OK(slab_init(&s, &(slab_shape){3, 5, nz, .reflects = {reflects[0], reflects[1]}}, rank, ranks, &E));
    assert_int_equal(s.z0, next);
    assert_int_equal(slab_first_plane(&s, rank), next);
    assert_int_equal(slab_first_plane(&s, rank + 1), next + s.nz);
    assert_true(s.nz == nz / ranks || s.nz == nz / ranks + 1);
    assert_true(s.nz <= slab_planes(&s).most);
    assert_true(s.nz >= needed(rank, ranks, reflects));
    assert_int_equal(s.lower, rank ? rank - 1 : SLAB_NO_RANK);
    assert_int_equal(s.upper, rank < ranks - 1 ? rank + 1 : SLAB_NO_RANK);
    next += s.nz;
  }
  assert_int_equal(next, nz);
}

/* Every grid that can be partitioned is accepted. Where one cannot, the number of ranks that the error names fits, and
 * one more does not. */
TEST(every_plane_has_one_owner) {
  int refused = 0;
  for (int i = 0; i < 4; i++)
    for (int nz = 8; nz <= 70; nz++)
      for (int ranks = 1; ranks <= nz; ranks++) {
        const bool reflects[2] = {i & 1, i & 2};
        slab s;
        error e = {0};
        if (nz >= least_planes(ranks, reflects)) {
          check_dealt(nz, ranks, reflects);
          continue;
        }
        const int id = slab_init(&s, &(slab_shape){3, 5, nz, .reflects = {reflects[0], reflects[1]}},
                                 ranks - 1, ranks, &e);
        assert_int_equal(id, nz / ranks < RADIUS ? ERROR_SLAB_TOO_MANY_RANKS : ERROR_SLAB_REFLECTS);
        const int most = atoi(strstr(e.text, "at most ") + 8);
        assert_true(nz >= least_planes(most, reflects));
        assert_true(nz < least_planes(most + 1, reflects));
        refused += id == ERROR_SLAB_REFLECTS;
      }
  assert_true(refused > 20);
}

/* A plane counts as 2, one of an absorbing layer as 5. Slabs are as equal as whole planes allow, unless they own the
 * least they may. */
TEST(layers_are_shared_by_work) {
  const int widths[][2] = {{0, 20}, {20, 20}, {7, 0}, {1, 30}};
  int thin = 0;
  for (int i = 0; i < 4; i++)
    for (int nz = 52; nz <= 300; nz += 31)
      for (int ranks = 1; ranks <= nz / RADIUS; ranks++) {
        const int lower = widths[i][0], upper = widths[i][1];
        const double part = (2.0 * nz + 3 * (lower + upper)) / ranks;
        int next = 0;
        for (int rank = 0; rank < ranks; rank++) {
          slab s;
          const slab_shape shape = {3, 5, nz, .layers = {lower, upper}};
          OK(slab_init(&s, &shape, rank, ranks, &E));
          assert_int_equal(s.z0, next);
          assert_true(s.nz >= RADIUS && s.nz >= slab_planes(&s).least && s.nz <= slab_planes(&s).most);
          next += s.nz;
          int work = 0;
          for (int z = s.z0; z < next; z++) work += z < lower || z >= nz - upper ? 5 : 2;
          if (part >= 5 * (RADIUS + 1)) assert_true(work > part - 6 && work < part + 6);
          thin += s.nz == RADIUS && work > part;
        }
        assert_int_equal(next, nz);
      }
  assert_true(thin > 20);
}

TEST(too_many_ranks_names_the_largest_number) {
  slab s;
  error e = {0};
  assert_int_equal(slab_init(&s, &(slab_shape){.nx = 8, .ny = 8, .nz = 23}, 0, 6, &e),
                   ERROR_SLAB_TOO_MANY_RANKS);
  assert_string_equal(e.text,
                      "[grid] nz = 23 gives 6 ranks fewer than 4 planes each: at most 5 ranks fit this grid");
  assert_int_equal(error_exit_code(e.id), EXIT_CODE_CONFIG);
  e = (error){0};
  assert_ok(slab_init(&s, &(slab_shape){.nx = 8, .ny = 8, .nz = 23}, 4, 5, &e), &e);
  assert_int_equal(slab_init(&s, &(slab_shape){.nx = 8, .ny = 8, .nz = 3}, 0, 1, &e), ERROR_SLAB_TOO_THIN);
  assert_string_equal(e.text, "[grid] nz = 3: at least 4 planes are needed");
  e = (error){0};
  assert_int_equal(slab_init(&s, &(slab_shape){.nx = 8, .ny = 8, .nz = 4}, 0, 2, &e),
                   ERROR_SLAB_TOO_MANY_RANKS);
  assert_string_equal(e.text,
                      "[grid] nz = 4 gives 2 ranks fewer than 4 planes each: at most 1 rank fits this grid");
}

TEST(thin_slabs_at_reflecting_faces_are_refused) {
  slab s;
  const bool both[2] = {true, true}, lower[2] = {true, false};
  FAILS(slab_init(&s, &(slab_shape){8, 8, 13, .reflects = {both[0], both[1]}}, 1, 3, &E), ERROR_SLAB_REFLECTS,
        "[grid] nz = 13 gives 3 ranks only 4 planes at a reflecting z face, where 5 are needed: "
        "at most 2 ranks fit this grid");
  assert_int_equal(error_exit_code(E.id), EXIT_CODE_CONFIG);
  FAILS(slab_init(&s, &(slab_shape){8, 8, 4, .reflects = {lower[0], lower[1]}}, 0, 1, &E),
        ERROR_SLAB_TOO_THIN, "[grid] nz = 4: at least 5 planes are needed");
}

TEST(ranges_cover_the_slab_once) {
  for (int nz = RADIUS; nz <= 40; nz++)
    for (int sides = 0; sides < 4; sides++) {
      slab s = {.nz = nz, .lower = sides & 1 ? 0 : SLAB_NO_RANK, .upper = sides & 2 ? 2 : SLAB_NO_RANK};
      zrange lo, interior, hi;
      slab_ranges(&s, &lo, &interior, &hi);
      assert_int_equal(lo.begin, 0);
      assert_int_equal(lo.end, interior.begin);
      assert_int_equal(interior.end, hi.begin);
      assert_int_equal(hi.end, nz);
      /* The boundary kernels compute the planes that are sent, and no others. */
      assert_int_equal(zrange_planes(lo), sides & 1 ? RADIUS : 0);
      if (!(sides & 2)) assert_int_equal(zrange_planes(hi), 0);
      if ((sides & 2) && nz >= 2 * RADIUS) assert_int_equal(zrange_planes(hi), RADIUS);
      if (sides == 3 && nz < 2 * RADIUS) assert_int_equal(zrange_planes(interior), 0);
    }
}

TEST(points_and_ghosts_do_not_overlap) {
  for (int nx = 1; nx <= 65; nx += (nx < 36 ? 1 : 7)) {
    slab s;
    OK(slab_init(&s, &(slab_shape){.nx = nx, .ny = 3, .nz = 5}, 0, 1, &E));
    unsigned char *used = calloc(slab_floats(&s), 1);
    for (int z = -4; z < 9; z++)
      for (int y = -4; y < 7; y++)
        for (int x = -4; x < nx + 4; x++) {
          size_t at = slab_offset(&s, z, y, x);
          assert_true(at < slab_floats(&s));
          assert_int_equal(used[at]++, 0);
          assert_int_equal(at,
                           slab_offset(&s, 0, 0, 0) + (size_t)z * s.plane + (size_t)y * s.pitch + (size_t)x);
        }
    free(used);
    assert_int_equal(slab_offset(&s, 2, 1, 0) % SLAB_ALIGN, 0);
    assert_int_equal(s.pitch % SLAB_ALIGN, 0);
    assert_int_equal(s.plane % SLAB_ALIGN, 0);
  }
}

/* A group of four planes reads 12 planes and 9 rows around a point. These must not share one set of a first-level cache
 * (a place within SLAB_PAGE), which keeps 8 lines. */
TEST(rows_and_planes_lie_apart_in_caches) {
  for (int nx = 1; nx <= 2100; nx += nx < 300 ? 1 : 13)
    for (int ny = 1; ny <= 300; ny += ny < 70 ? 1 : 7) {
      slab s;
      int planes[SLAB_PAGE / SLAB_ALIGN] = {0}, rows[SLAB_PAGE / SLAB_ALIGN] = {0};
      OK(slab_init(&s, &(slab_shape){.nx = nx, .ny = ny, .nz = 8}, 0, 1, &E));
      for (int z = -4; z < 8; z++)
        assert_true(++planes[slab_offset(&s, z, 0, 0) % SLAB_PAGE / SLAB_ALIGN] <= 3);
      for (int y = -4; y <= 4; y++)
        assert_int_equal(++rows[slab_offset(&s, 0, y, 0) % SLAB_PAGE / SLAB_ALIGN], 1);
      assert_true(s.pitch < (size_t)nx + 8 + 2 * SLAB_ALIGN);
      const int rows_more = (int)slab_rows(&s) - ny;
      assert_true(rows_more >= 8 && rows_more <= 12);
    }
}

/* Going up from rank to rank comes back to the start; every edge plane is exchanged, and planes inside stay. */
TEST(wrapped_ranks_form_a_ring) {
  for (int ranks = 1; ranks <= 5; ranks++) {
    slab s[5];
    for (int r = 0; r < ranks; r++) {
      OK(slab_init(&s[r], &(slab_shape){.nx = 8, .ny = 8, .nz = 43}, r, ranks, &E));
      int lower = s[r].lower, upper = s[r].upper;
      slab_wrap(&s[r], false);
      if (r > 0) assert_int_equal(s[r].lower, lower);
      if (r < ranks - 1) assert_int_equal(s[r].upper, upper);
    }
    for (int r = 0; r < ranks; r++) {
      zrange lo, interior, hi;
      slab_ranges(&s[r], &lo, &interior, &hi);
      assert_int_equal(zrange_planes(lo), ranks > 1 ? 4 : 0);
      assert_int_equal(zrange_planes(hi), ranks > 1 ? 4 : 0);
      if (ranks == 1)
        assert_int_equal(s[r].upper, SLAB_NO_RANK);
      else
        assert_int_equal(s[s[r].upper].lower, r);
      if (ranks > 1) assert_int_equal((s[r].z0 + s[r].nz) % 43, s[s[r].upper].z0);
    }
  }
}

/* A plane and its copy among a neighbour's ghosts lie at the same place within a page. */
TEST(copies_of_planes_lie_alike_in_pages) {
  int leads = 0;
  for (int ny = 1; ny <= 9; ny++) {
    slab s[5];
    for (int r = 0; r < 5; r++) {
      OK(slab_init(&s[r], &(slab_shape){.nx = 20, .ny = ny, .nz = 43}, r, 5, &E));
      assert_int_equal(s[r].lead % SLAB_ALIGN, 0);
      assert_true(slab_offset(&s[r], s[r].nz + RADIUS - 1, ny + 3, 23) < slab_floats(&s[r]));
      leads += s[r].lead > 0;
    }
    for (int r = 0; r < 4; r++)
      for (int z = -RADIUS; z < RADIUS; z++)
        assert_int_equal(slab_offset(&s[r], s[r].nz + z, 0, 0) % SLAB_PAGE,
                         slab_offset(&s[r + 1], z, 0, 0) % SLAB_PAGE);
  }
  assert_true(leads > 20);
}

TEST(sizes_beyond_32_bits) {
  slab s;
  OK(slab_init(&s, &(slab_shape){.nx = 2048, .ny = 2048, .nz = 4096}, 0, 1, &E));
  assert_true(slab_floats(&s) > (size_t)2048 * 2048 * 4096);
  size_t last = slab_offset(&s, 4095, 2047, 2047);
  assert_true(last > (size_t)UINT32_MAX);
  assert_int_equal(last, slab_offset(&s, 0, 0, 0) + 4095 * s.plane + 2047 * s.pitch + 2047);
}

TEST_MAIN("slab", NULL, NULL)
