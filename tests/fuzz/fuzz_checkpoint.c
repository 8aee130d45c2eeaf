/* Any bytes as a checkpoint are refused in one line. Where they have a header that can be read, one written anew reads
 * back as the same and holds; the checkpoint then opens, and its arrays are compared with their sums, or it is
 * refused. */
#include <mpi.h>
#include "fuzz.h"
#include "io/checkpoint/checkpoint_internal.h"

static io_access files; /* of this process */

static int same(const checkpoint_header *a, const checkpoint_header *b) {
  if (memcmp(&a->mark, &b->mark, sizeof a->mark) || a->sums_at != b->sums_at || a->count != b->count ||
      a->step != b->step || a->keys_at != b->keys_at || a->keys_bytes != b->keys_bytes)
    return 0;
  for (int i = 0; i < a->count; i++) {
    const checkpoint_array *x = &a->arrays[i], *y = &b->arrays[i];
    if (strcmp(x->name, y->name) || x->type != y->type || x->axes != y->axes || x->at != y->at ||
        memcmp(x->shape, y->shape, sizeof x->shape))
      return 0;
  }
  return 1;
}

/* Opens a checkpoint whose header holds. */
static void check_open(const char *name) {
  checkpoint c;
  error e = {0}, other = {0}, damaged = {0};
  const int id = checkpoint_open(&c, &files, &(checkpoint_search){.file = name}, &e);
  demand_answer(id, &e, EXIT_CODE_FILE);
  if (id) return;
  const int differs = checkpoint_match(&c, "[grid] nx\n7\n", &other);
  demand(!differs || error_exit_code(differs) == EXIT_CODE_CONFIG ||
             error_exit_code(differs) == EXIT_CODE_FILE,
         "wrong code", other.text);
  demand_answer(checkpoint_verify(&c, &damaged), &damaged, EXIT_CODE_FILE);
  checkpoint_close(&c);
}

static void check_again(int file, const char *name, checkpoint_header *first) {
  checkpoint_header second;
  int fd;
  error e = {0};
  if (checkpoint_write_header(name, file, first, &e)) { /* arrays beyond the end of the file */
    demand_answer(e.id, &e, EXIT_CODE_FILE);
    return;
  }
  demand(checkpoint_read_header(name, &second, &fd, &e) == 0, "a new header is refused", e.text);
  demand(same(first, &second), "round trip", "of a header");
  bool behind = second.bytes >= CHECKPOINT_HEADER; /* the program writes all arrays behind the header */
  for (int i = 0; i < second.count; i++) behind = behind && second.arrays[i].at >= CHECKPOINT_HEADER;
  const int damaged = checkpoint_check_header(name, fd, &second, &e);
  demand_answer(damaged, &e, EXIT_CODE_FILE);
  demand(!behind || !damaged, "a new header does not hold", e.text);
  close(fd);
  check_open(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  checkpoint_header s;
  memory_name name;
  int fd = -1;
  error e = {0}, damaged = {0};
  const int file = memory_file(data, size);
  memory_file_name(file, name);
  const int id = checkpoint_read_header(name, &s, &fd, &e);
  demand_answer(id, &e, EXIT_CODE_FILE);
  demand((checkpoint_read_mark(name).generation == -1) >= (id != 0), "mark", "of a file without a header");
  if (!id) {
    demand_answer(checkpoint_check_header(name, fd, &s, &damaged), &damaged, EXIT_CODE_FILE);
    if (s.bytes == size) check_again(file, name, &s); /* else what it says may lie beyond the file */
  }
  if (fd >= 0) close(fd);
  close(file);
  return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
  error e = {0};
  setenv("OMPI_MCA_opal_signal", "", 1); /* crashes are libFuzzer's to report */
  MPI_Init(argc, argv);
  demand(io_access_open(&files, MPI_COMM_SELF, true, &e) == 0, "access", e.text);
  files.threads = 1;
  files.block_bytes = 4096;
  return 0;
}
