/* Checkpoints: the complete state of a run in one file, PATH.SSSSSSSS.h5 (step, eight digits or more), as global
 * arrays. So a run goes on from a checkpoint on any number of ranks and any backend.
 *
 * A file appears under its name only when it is whole and durable, and only then are the oldest ones deleted. It is
 * an HDF5 file. Its user block of 4096 bytes is the header, which says where the arrays are; each array is one
 * contiguous block. Every rank writes and reads its own rows (rows.h). Each row has a checksum, and the header holds
 * a digest of all the rest, so a file with any changed byte is refused.
 *
 * Functions that take an io_access or an open checkpoint are collective over it, unless they say otherwise. They
 * return the same error on every rank. */
#ifndef STENCIL_CHECKPOINT_H
#define STENCIL_CHECKPOINT_H

#include "io/bytes/message.h"
#include "io/bytes/rows.h"
#include "io/bytes/run_meta.h"

enum { CHECKPOINT_ARRAYS = NEW_FILE_ARRAYS };

enum checkpoint_type { CHECKPOINT_FLOAT, CHECKPOINT_INT64, CHECKPOINT_TYPES };

/* An array and this rank's part of it. Writing needs `source`, reading `sink`. Name, type and shape are the same on
 * all ranks. A row is what one index of the first axis means: a plane, all samples of a receiver. */
typedef struct checkpoint_array {
  char name[32]; /* without blanks */
  enum checkpoint_type type;
  int axes;         /* 1 to 3 */
  int64_t shape[3]; /* slowest axis first; any may be 0; 0 for axes that the array lacks */
  uint64_t at;      /* its first byte in the file; 0: it has no values */

  /* This rank's rows. In writing, the ranks' rows together are all of the array's, each once; a rank may have none.
   * In reading, any rows; several ranks may read the same ones. */
  int64_t first, count;

  row_mover *source, *sink;
  void *context;
} checkpoint_array;

/* The metadata of a checkpoint. */
typedef struct checkpoint_meta {
  run_meta run;
  /* The fingerprint, which must equal that of the run that continues: keys and their values, a line each, "[grid]
   * nx\n512\n". No two keys are equal, none is empty. */
  const char *keys;
} checkpoint_meta;

/* The owner and the age of a checkpoint. The header holds it. */
typedef struct checkpoint_mark {
  uint64_t run;       /* the run's number; a restart takes over that of its checkpoint */
  uint64_t process;   /* the number of the process that wrote the file */
  int64_t generation; /* greater in files written later under a path; -1: the header cannot be read */
} checkpoint_mark;

typedef struct checkpoint_place {
  const char *path;     /* files are PATH.SSSSSSSS.h5 */
  int keep;             /* this many of the run's newest stay, at least 1 */
  checkpoint_mark self; /* from checkpoint_begin; zeros: the run has no number */
} checkpoint_place;

/* Writes a checkpoint, then deletes the run's oldest beyond `keep`, in the order of writing: a run may have gone back
 * to an earlier step. A run owns the checkpoints that it wrote, in this process or before it. Others' files are never
 * deleted; one with the name of the new checkpoint is moved aside. First it removes half-written files of killed runs
 * under this path. A full disk, a missing folder and the like are exit 2 and name the file. After these, or if a source
 * fails, earlier checkpoints are unchanged and no other file is left. */
int checkpoint_write(io_access *access, const checkpoint_place *place, const checkpoint_meta *meta,
                     const checkpoint_array *arrays, int count, error *e);

/* An open checkpoint. */
typedef struct checkpoint {
  io_access *access;    /* not owned */
  char name[FILE_NAME]; /* of the file; empty: none is open */
  int64_t step;
  double time, dt;
  checkpoint_mark mark;
  int fd;      /* the file, open on ranks that use it; -1: it is not open */
  bool direct; /* every rank has the file open */
  int count;
  checkpoint_array arrays[CHECKPOINT_ARRAYS]; /* without the ranks' parts */
  message held;                               /* what rank 0 sent of the file; the next two point into it */
  uint64_t *sums;                             /* checksums of all rows */
  const char *keys;                           /* the fingerprint */
} checkpoint;

/* Called on every rank with the reason why a file cannot be used; it begins with the file's name. */
typedef void checkpoint_skipped(void *context, const char *reason);

/* The search for a checkpoint. */
typedef struct checkpoint_search {
  const char *file;            /* the file to open; NULL: the newest of `path` that can be opened */
  const char *path;            /* of PATH.*.h5; the newest was written last */
  int64_t before;              /* only files of earlier generations than this; negative: all */
  checkpoint_skipped *skipped; /* or NULL */
  void *context;
} checkpoint_search;

/* Opens a checkpoint. One that is missing, foreign, of another format, truncated or damaged outside its arrays is exit
 * 2; a search for the newest skips it. If a search finds none, that is no error, and c->name is empty. After a failure
 * nothing is open. */
int checkpoint_open(checkpoint *c, io_access *access, const checkpoint_search *search, error *e);

/* The checkpoints that a process finds when it begins. */
typedef struct checkpoint_start {
  checkpoint_mark self; /* for checkpoint_place */
  int moved, number;    /* files moved aside, as PATH.old<number>.SSSSSSSS.h5 */
  int64_t newest;       /* step of the newest file moved; -1: none is a checkpoint */
  int others;           /* files of other runs, which stay */
} checkpoint_start;

/* Begins to write a run's checkpoints under `path`. The run is the one that wrote `from`; NULL: a new one, which
 * moves all files there aside. With `from`, checkpoint_write moves another run's file aside where it needs that name.
 * A kill on the way loses nothing: each file has one name or the other. */
int checkpoint_begin(io_access *access, const char *path, const checkpoint *from, checkpoint_start *start,
                     error *e);

/* Exit 2, naming file, key, expected and found, unless the fingerprint has these keys and values, in any order. Not
 * collective. */
int checkpoint_match(const checkpoint *c, const char *keys, error *e);

/* Does the fingerprint of `c` have this key? Not collective. */
bool checkpoint_has_key(const checkpoint *c, const char *key);

/* NULL where no array has this name. Not collective. */
const checkpoint_array *checkpoint_find_array(const checkpoint *c, const char *name);

/* Reads this rank's parts of arrays into their sinks and compares each row with its checksum. Damage is exit 2
 * (CHECKPOINT_DAMAGED) and names array and row. A missing array, or another shape or type, is exit 2 too. */
int checkpoint_read(const checkpoint *c, const checkpoint_array *arrays, int count, error *e);
/* Reads all arrays and compares them with their checksums, each row on one rank. */
int checkpoint_verify(const checkpoint *c, error *e);

void checkpoint_close(checkpoint *c);

#endif
