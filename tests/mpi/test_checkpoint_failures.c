/* Writing a checkpoint fails or is killed: every rank gives the same line, nothing is left behind, and older
 * checkpoints are unchanged. What does not depend on the number of ranks is tested with one. */
#include "checkpoint_fixture.h"
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

enum { KILLS = 60 };

/* The source or sink of one rank fails at its first or last row. Every rank gives the same message, the checkpoint
 * before is unchanged, and no other file is left. */
TEST_OF(test_one_rank_fails, fixture *x) {
  const int which[] = {0, 5, 7};
  const char *path = text_of("%s/fails", x->folder);
  WRITE(x, path, 1, 1);
  for (int i = 0; i < 2 * 3 * ACCESSES * x->ranks; i++) {
    state s;
    checkpoint c;
    error e = {0}, r = {0}, o = {0};
    const int guilty = i / 6 / ACCESSES;
    part *p;
    io_access *access = &x->accesses[i / 6 % ACCESSES];
    checkpoint_meta m = checkpoint_meta_of(2);
    checkpoint_place place = {.path = path, .keep = 1};
    access->block_bytes = i / 3 % 2 ? 1 : 300;
    state_init(&s, 1, 0, 0, x->rank, x->ranks);
    state_shrink(&s);
    p = &s.parts[which[i % 3]];
    if (x->rank == guilty) p->fail_row = p->array->first + i / 3 % 2 * (p->array->count - 1);
    assert_int_equal(checkpoint_write(access, &place, &m, s.arrays, s.count, &e), ERROR_DEVICE_FAILED);
    assert_string_equal(e.text, "test device: a copy failed: on purpose");
    assert_int_equal(count_files(x, path), 1);
    assert_int_equal(checkpoint_open(&c, access, &(checkpoint_search){NULL, path, -1, NULL, NULL}, &o), 0);
    assert_int_equal(c.step, 1);
    assert_int_equal(state_read(&c, &s, &r), ERROR_DEVICE_FAILED);
    assert_string_equal(r.text, e.text);
    checkpoint_close(&c);
  }
}

/* Parts that do not make up an array are refused, before anything is written of them. */
TEST_OF(test_parts, fixture *x) {
  const char *path = text_of("%s/parts", x->folder);
  checkpoint_meta m = checkpoint_meta_of(2);
  checkpoint_place place = {.path = path, .keep = 1};
  for (int i = 0; i < 3; i++) {
    state s;
    error e = {0};
    state_init(&s, 1, 0, 0, x->rank, x->ranks);
    if (i == 0 && x->rank == x->ranks - 1) s.arrays[0].count--;
    if (i == 1 && x->rank == 0) s.arrays[5].first++;
    if (i == 2 && x->rank == 0) s.arrays[5].count++;
    assert_int_equal(checkpoint_write(&x->accesses[i], &place, &m, s.arrays, s.count, &e),
                     ERROR_CHECKPOINT_PARTS);
    assert_int_equal(count_files(x, path), 0);
  }
}

/* The disk is full at each stage: the same line each time, and the checkpoint before is intact. Then there is room
 * again. */
TEST_OF(test_disk_full, fixture *x) {
  static image before, after;
  error e;
  skip_if_many(x);
  const char *path = text_of("%s/full", x->folder);
  const char *text = text_of("%s.00000010.h5: cannot write: File too large", path);
  WRITE(x, path, 9, 2);
  load(&before, path, 9);
  for (size_t limit = 0; limit < before.size; limit += 1 + random_bits(limit) % 300) {
    e = (error){0};
    limit_file_size(limit);
    int id = write_state(x, path, 10, 2, &e);
    limit_file_size(RLIM_INFINITY);
    assert_int_equal(id, ERROR_FILE_WRITE);
    assert_string_equal(e.text, text);
    assert_int_equal(count_files(x, path), 1);
  }
  load(&after, path, 9);
  assert_true(after.size == before.size && memcmp(after.bytes, before.bytes, after.size) == 0);
  WRITE(x, path, 10, 2);
  load(&after, path, 10);
  assert_int_equal(judge(x, after.name, 10, &e), 0);
}

static int no_source(void *context, int64_t row, int64_t rows, void *values, error *e) {
  (void)context, (void)row, (void)rows, (void)values, (void)e;
  fail_msg("nothing should have been written");
  return 0;
}

/* More than any disk has, up to more than 64 bits can count: refused before anything is written. */
TEST_OF(test_space, fixture *x) {
  const int64_t shapes[][3] = {{1 << 30, 1 << 20, 100}, {INT64_MAX, INT64_MAX, INT64_MAX}};
  const char *path = text_of("%s/space", x->folder);
  const char *begin = text_of("%s.00000001.h5: cannot write: ", path);
  for (int i = 0; i < 2; i++) {
    error e = {0};
    checkpoint_meta m = checkpoint_meta_of(1);
    checkpoint_place place = {.path = path, .keep = 1};
    checkpoint_array a = {.name = "u", .type = CHECKPOINT_INT64, .axes = 3, .source = no_source};
    memcpy(a.shape, shapes[i], sizeof a.shape);
    if (x->rank == 0) a.count = a.shape[0];
    assert_int_equal(checkpoint_write(&x->accesses[i], &place, &m, &a, 1, &e), ERROR_FILE_SPACE);
    assert_memory_equal(e.text, begin, strlen(begin));
    uint64_t needed = strtoull(e.text + strlen(begin), NULL, 10);
    assert_true(i ? needed == UINT64_MAX : needed > (uint64_t)800 << 50 && needed < (uint64_t)801 << 50);
    assert_int_equal(count_files(x, path), 0);
  }
}

/* A child that writes one after another until it is killed. */
static void write_for_ever(fixture *x, const char *path, int64_t step) {
  for (;; step++) {
    error e = {0};
    state s;
    checkpoint_meta m = checkpoint_meta_of(step);
    checkpoint_place place = {.path = path, .keep = 2};
    state_init(&s, (int)step, 0, 0, x->rank, x->ranks);
    state_shrink(&s);
    if (checkpoint_write(&x->alone, &place, &m, s.arrays, s.count, &e)) _exit(1);
  }
}

TEST_OF(test_kill, fixture *x) {
  char name[160];
  int64_t step = 0;
  int stale = 0;
  skip_if_many(x);
  const char *path = text_of("%s/kill", x->folder);
  WRITE(x, path, 1, 2);
  for (int i = 0; i < KILLS; i++) {
    pid_t child = fork();
    if (child == 0) write_for_ever(x, path, step + 2);
    const struct timespec moment = {
        0, 1000 * (long)(random_bits((uint64_t)time(NULL) * KILLS + (uint64_t)i) % 40000)};
    nanosleep(&moment, NULL);
    int status;
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status)); /* it has not ended early, on an error */
    checkpoint c;
    notes n = {0};
    OK(checkpoint_open(&c, &x->alone, &(checkpoint_search){NULL, path, -1, note_skipped, &n}, &E));
    assert_true(c.name[0] && c.step >= step && n.count == 0);
    step = c.step;
    checkpoint_close(&c);
    snprintf(name, sizeof name, "%s.%08" PRId64 ".h5", path, step);
    OK(judge(x, name, step, &E));
    stale += count_files(x, path) > 2;
  }
  print_message("killed %d times after up to step %d, %d times in the middle\n", KILLS, (int)step, stale);
  WRITE(x, path, step + 1, 2);
  assert_int_equal(count_files(x, path), 2);
}

FIXTURE_MAIN
