/* Errors as values. A function that can fail returns 0 or an error id and fills the caller's `error`; TRY passes it up.
 * main reports an error, once for all ranks, and exits. Two functions end the job themselves: error_abort, for a rank
 * that fails while others wait in MPI (error_mpi.h), and thread_end_process, for a thread that finds the main thread
 * stuck (thread.h). */
#ifndef STENCIL_ERROR_H
#define STENCIL_ERROR_H

#include <inttypes.h>
#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Exit codes of the program, as --help lists them. */
enum exit_code {
  EXIT_CODE_DONE = 0,
  EXIT_CODE_CONFIG = 1,  /* usage or configuration */
  EXIT_CODE_FILE = 2,    /* input or output file */
  EXIT_CODE_NUMERIC = 3, /* NaN, Inf, unstable time step */
  EXIT_CODE_DEVICE = 4,  /* device or MPI failure */
  EXIT_CODE_STOPPED = 75 /* stopped early, checkpoint written */
};

/* One id for each message of error.def: ERROR_<id>. 0 is "no error". */
enum error_id {
  ERROR_NONE = 0,
#define X(id, exit, format) ERROR_##id,
#include "error.def"
#undef X
  ERROR_COUNT
};

/* Format of each message: visible constants, so that the compiler checks the arguments of every FAIL. */
#define X(id, exit, format) static const char ERROR_FORMAT_##id[] __attribute__((unused)) = format;
#include "error.def"
#undef X

enum { ERROR_TEXT = 4096 };

/* A line of the source. */
typedef struct error_place {
  const char *file, *function;
  int line;
} error_place;
#ifdef __cplusplus
#define ERROR_HERE (error_place{__FILE__, __func__, __LINE__})
#else
#define ERROR_HERE ((error_place){__FILE__, __func__, __LINE__})
#endif

/* The first failure seen on this rank. Plain data: it can be sent to other ranks as bytes. Start from `{0}`.
 */
typedef struct error {
  int id;                /* enum error_id; 0 while nothing has failed */
  char text[ERROR_TEXT]; /* one line without newline; a longer text is cut */
  char place[128];       /* where it was found: "halo/slab.c:85 slab_init" */
  int rank;              /* the rank that found it; set when ranks agree on it */
  int agreed;            /* not 0: ranks have agreed on this error */
} error;

/* Records a failure at a place, unless `e` already holds one. Returns the id that `e` then holds. Use it through
 * FAIL. */
int error_set(error *e, error_place at, int id, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Allocates `count` items of `size` bytes, all zeros, at least one byte. The caller frees *pointer. A failure is
 * OUT_OF_MEMORY for `what`, and sets *pointer to NULL. Use it through ALLOC, which takes a variable of any pointer
 * type. */
int error_alloc(error *e, error_place at, void *pointer, size_t count, size_t size, const char *what);
#define ALLOC(e, pointer, count, what)                                                                       \
  error_alloc((e), ERROR_HERE, &(pointer), (size_t)(count), sizeof *(pointer), (what))
/* Reallocates *pointer (NULL is allowed) for `count` items, at least one; the items keep their values. A failure leaves
 * *pointer as it was. Use it through GROW. */
int error_grow(error *e, error_place at, void *pointer, size_t count, size_t size, const char *what);
#define GROW(e, pointer, count, what)                                                                        \
  error_grow((e), ERROR_HERE, &(pointer), (size_t)(count), sizeof *(pointer), (what))

/* Exit code that belongs to an error id; 0 for ERROR_NONE. */
int error_exit_code(int id);

/* Shows compilers and analysers, which see one file at a time, that error_set never returns 0. */
static inline int error_failed(const error *e, int id) {
  if (id == ERROR_NONE || e->id != id) __builtin_unreachable();
  return id;
}

#define FAIL(e, ID, ...)                                                                                     \
  error_failed((e), error_set((e), ERROR_HERE, ERROR_##ID, ERROR_FORMAT_##ID, ##__VA_ARGS__))

/* Runs a call that returns 0 or an error id; on failure returns that id from the enclosing function. */
#define TRY(call)                                                                                            \
  do {                                                                                                       \
    int try_id_ = (call);                                                                                    \
    if (try_id_) return try_id_;                                                                             \
  } while (0)

#ifdef __cplusplus
}
#endif
#endif
