/* The seal of a checkpoint: a block of text before the HDF5 file proper, which says what the rest must be. A file is
 * compared with its seal before HDF5 sees it, which may crash on a damaged one (versions up to 1.10.8 free what they
 * have not set, for one). */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "checkpoint_internal.h"
#include "digest.h"

enum { READ_BYTES = 4 << 20 };
#define MAGIC "stencil checkpoint\n"

typedef struct seal {
  int format;
  checkpoint_mark mark;
  uint64_t bytes; /* of the file, seal included */
} seal;

/* `rest`: digest of all bytes behind the seal. The seal's own digest is of those and of the seal without it. */
static void print(char block[CHECKPOINT_SEAL], const seal *s, uint64_t rest) {
  uint64_t digest = 0;
  for (int pass = 0; pass < 2; pass++) {
    memset(block, 0, CHECKPOINT_SEAL);
    snprintf(block, CHECKPOINT_SEAL,
             MAGIC "format %d\nrun %016" PRIx64 "\nleg %016" PRIx64 "\ngeneration %" PRId64 "\nbytes %" PRIu64
                   "\ndigest %016" PRIx64 "\n",
             s->format, s->mark.run, s->mark.leg, s->mark.generation, s->bytes, digest);
    digest = rest + digest_part(0, block, CHECKPOINT_SEAL);
  }
}

/* False where the block is no seal at all; one of another format may hold anything from there on. */
static bool parse(const char block[CHECKPOINT_SEAL], seal *s) {
  char text[CHECKPOINT_SEAL + 1] = "";
  memcpy(text, block, CHECKPOINT_SEAL);
  *s = (seal){0};
  if (strncmp(text, MAGIC, strlen(MAGIC))) return false;
  const char *rest = text + strlen(MAGIC);
  int found = sscanf(rest, "format %d run %" SCNx64 " leg %" SCNx64 " generation %" SCNd64 " bytes %" SCNu64,
                     &s->format, &s->mark.run, &s->mark.leg, &s->mark.generation, &s->bytes);
  return found == 5 || (found >= 1 && s->format != CHECKPOINT_FORMAT);
}

/* Opens a file for reading. */
static int open_plain(const char *name, const char *file, int *fd, uint64_t *bytes, error *e) {
  struct stat s;
  *fd = open(file,
             O_RDONLY | O_CLOEXEC | O_NONBLOCK); /* whoever names a pipe must not wait for its other end */
  int reason = *fd < 0 || fstat(*fd, &s) ? errno
               : S_ISDIR(s.st_mode)      ? EISDIR
               : !S_ISREG(s.st_mode)     ? EINVAL
                                         : 0;
  *bytes = reason ? 0 : (uint64_t)s.st_size;
  return reason ? FAIL(e, FIELD_FILE, name, strerror(reason)) : 0;
}

/* Reads up to `size` bytes; fewer only at the end of the file. */
static int read_bytes(const char *name, int fd, char *to, size_t size, size_t *found, error *e) {
  for (*found = 0; *found < size;) {
    ssize_t n = read(fd, to + *found, size - *found);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) return FAIL(e, CHECKPOINT_DAMAGED, name, strerror(errno));
    if (n == 0) break;
    *found += (size_t)n;
  }
  return 0;
}

static int read_seal(const char *name, int fd, char block[CHECKPOINT_SEAL], seal *s, error *e) {
  size_t found;
  TRY(read_bytes(name, fd, block, CHECKPOINT_SEAL, &found, e));
  if (found < CHECKPOINT_SEAL || !parse(block, s)) return FAIL(e, CHECKPOINT_FOREIGN, name);
  return s->format == CHECKPOINT_FORMAT ? 0 : FAIL(e, CHECKPOINT_VERSION, name, s->format, CHECKPOINT_FORMAT);
}

static int sum_rest(const char *name, int fd, uint64_t *digest, error *e) {
  size_t found = READ_BYTES;
  uint64_t place = CHECKPOINT_SEAL;
  char *block = malloc(READ_BYTES);
  if (!block) return FAIL(e, OUT_OF_MEMORY, (size_t)READ_BYTES, "a block of a checkpoint");
  for (*digest = 0; found == READ_BYTES && !e->id; place += found)
    if (!read_bytes(name, fd, block, READ_BYTES, &found, e)) *digest += digest_part(place, block, found);
  free(block);
  return e->id;
}

static int check(const char *name, int fd, uint64_t bytes, error *e) {
  char block[CHECKPOINT_SEAL], expected[CHECKPOINT_SEAL], reason[128];
  seal s;
  uint64_t rest = 0;
  TRY(read_seal(name, fd, block, &s, e));
  if (s.bytes != bytes) {
    snprintf(reason, sizeof reason, "%" PRIu64 " bytes long, was written with %" PRIu64, bytes, s.bytes);
    return FAIL(e, CHECKPOINT_DAMAGED, name, reason);
  }
  TRY(sum_rest(name, fd, &rest, e));
  print(expected, &s, rest); /* so that the seal itself is compared byte by byte */
  bool same = memcmp(expected, block, CHECKPOINT_SEAL) == 0;
  return same ? 0 : FAIL(e, CHECKPOINT_DAMAGED, name, "its contents have changed since it was written");
}

int checkpoint_check_seal(const char *file, error *e) {
  int fd;
  uint64_t bytes;
  if (!open_plain(file, file, &fd, &bytes, e)) check(file, fd, bytes, e);
  if (fd >= 0) close(fd);
  return e->id;
}

checkpoint_mark checkpoint_read_mark(const char *file) {
  int fd;
  uint64_t bytes;
  char block[CHECKPOINT_SEAL];
  seal s;
  error e = {0};
  bool known = !open_plain(file, file, &fd, &bytes, &e) && !read_seal(file, fd, block, &s, &e);
  if (fd >= 0) close(fd);
  return known ? s.mark : (checkpoint_mark){.generation = -1};
}

int checkpoint_write_seal(const char *name, const char *temporary, const checkpoint_mark *mark,
                          uint64_t digest, error *e) {
  char block[CHECKPOINT_SEAL];
  struct stat status;
  int fd = open(temporary, O_WRONLY | O_CLOEXEC);
  int rc = fd < 0 || fstat(fd, &status) ? errno : 0;
  ssize_t n = 0;
  if (!rc) {
    print(block, &(seal){CHECKPOINT_FORMAT, *mark, (uint64_t)status.st_size}, digest);
    do n = pwrite(fd, block, CHECKPOINT_SEAL, 0);
    while (n < 0 && errno == EINTR);
    if (n != CHECKPOINT_SEAL) rc = n < 0 ? errno : ENOSPC;
  }
  if (fd >= 0 && close(fd) && !rc) rc = errno;
  return rc ? FAIL(e, FILE_WRITE, name, strerror(rc)) : 0;
}
