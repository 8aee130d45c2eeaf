/* MPI of one rank, for a library without MPI. It has the functions that the engine uses, as MPI defines them for a
 * communicator of one rank. A message is sent only by MPI_Sendrecv, to the rank itself. */
#ifndef STENCIL_ONE_RANK_MPI_H
#define STENCIL_ONE_RANK_MPI_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef int MPI_Comm, MPI_Group, MPI_Info, MPI_Op, MPI_Request, MPI_Message, MPI_Errhandler;
typedef int MPI_Datatype; /* its bytes */
typedef intptr_t MPI_Aint;
typedef void *MPI_Win; /* its memory */
typedef struct MPI_Status {
  int MPI_SOURCE, MPI_TAG, MPI_ERROR;
} MPI_Status;

enum { MPI_SUCCESS, MPI_ERR_OTHER };
enum { MPI_COMM_NULL, MPI_COMM_WORLD, MPI_COMM_SELF };
enum { MPI_PROC_NULL = -2, MPI_ANY_SOURCE = -1, MPI_UNDEFINED = -32766 };
enum { MPI_MAX, MPI_MIN, MPI_SUM, MPI_BOR, MPI_LOR, MPI_LAND };
enum {
  MPI_DATATYPE_NULL = 0,
  MPI_BYTE = 1,
  MPI_CHAR = 1,
  MPI_C_BOOL = 1,
  MPI_INT = 4,
  MPI_UINT32_T = 4,
  MPI_FLOAT = 4
};
enum { MPI_INT64_T = 8, MPI_UINT64_T = 8, MPI_DOUBLE = 8 };
enum { MPI_INFO_NULL, MPI_REQUEST_NULL = 0, MPI_ERRORS_RETURN = 0, MPI_COMM_TYPE_SHARED = 0 };
enum { MPI_THREAD_SINGLE, MPI_THREAD_MULTIPLE = 3 };
enum { MPI_MAX_ERROR_STRING = 64, MPI_MAX_LIBRARY_VERSION_STRING = 64 };
#define MPI_IN_PLACE        ((void *)-1)
#define MPI_STATUS_IGNORE   ((MPI_Status *)0)
#define MPI_STATUSES_IGNORE ((MPI_Status *)0)
#define MPI_WIN_NULL        ((MPI_Win)0)

static inline double MPI_Wtime(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Reductions and gathers: the result is the rank's own values. */
static inline int mpi_copy(const void *from, void *to, int count, MPI_Datatype type) {
  if (from != MPI_IN_PLACE && to && count) memcpy(to, from, (size_t)count * (size_t)type);
  return MPI_SUCCESS;
}
#define MPI_Allreduce(from, to, count, type, op, comm)                                                       \
  ((void)(op), (void)(comm), mpi_copy(from, to, count, type))
#define MPI_Reduce(from, to, count, type, op, root, comm) MPI_Allreduce(from, to, count, type, op, comm)
#define MPI_Iallreduce(from, to, count, type, op, comm, request)                                             \
  ((void)(comm), (void)(op), (void)(request), mpi_copy(from, to, count, type))
#define MPI_Ireduce(from, to, count, type, op, root, comm, request)                                          \
  MPI_Iallreduce(from, to, count, type, op, comm, request)
#define MPI_Exscan(from, to, count, type, op, comm)                                                          \
  ((void)(from), (void)(to), (void)(op), (void)(comm), MPI_SUCCESS)
#define MPI_Gather(from, count, type, to, n, as, root, comm) ((void)(comm), mpi_copy(from, to, count, type))
#define MPI_Allgather(from, count, type, to, n, as, comm)    ((void)(comm), mpi_copy(from, to, count, type))
#define MPI_Allgatherv(from, count, type, to, n, at, as, comm)                                               \
  ((void)(n), (void)(at), (void)(comm), mpi_copy(from, to, count, type))
#define MPI_Bcast(values, count, type, root, comm) ((void)(values), (void)(count), (void)(comm), MPI_SUCCESS)
#define MPI_Ibcast(values, count, type, root, comm, request)                                                 \
  ((void)(request), MPI_Bcast(values, count, type, root, comm))
static inline int MPI_Barrier(MPI_Comm comm) {
  (void)comm;
  return MPI_SUCCESS;
}

static inline int mpi_set(int *to, int value) {
  *to = value;
  return MPI_SUCCESS;
}
#define MPI_Comm_rank(comm, rank) ((void)(comm), mpi_set(rank, 0))
#define MPI_Comm_size(comm, size) ((void)(comm), mpi_set(size, 1))
#define MPI_Comm_dup(comm, made)  mpi_set(made, comm)
#define MPI_Comm_free(comm)       mpi_set(comm, MPI_COMM_NULL)
#define MPI_Comm_split(comm, color, key, made)                                                               \
  ((void)(key), (void)(comm), mpi_set(made, (color) == MPI_UNDEFINED ? MPI_COMM_NULL : MPI_COMM_WORLD))
#define MPI_Comm_split_type(comm, type, key, info, made) ((void)(key), mpi_set(made, comm))
#define MPI_Comm_group(comm, group)                      ((void)(comm), mpi_set(group, 1))
#define MPI_Comm_create_group(comm, group, tag, made)    ((void)(group), (void)(tag), mpi_set(made, comm))
#define MPI_Comm_set_errhandler(comm, handler)           ((void)(comm), MPI_SUCCESS)
#define MPI_Group_range_incl(group, count, ranges, made) ((void)(ranges), mpi_set(made, group))
#define MPI_Group_translate_ranks(group, count, ranks, other, found)                                         \
  ((void)(group), (void)(other), mpi_copy(ranks, found, count, MPI_INT))
#define MPI_Group_free(group)                  mpi_set(group, 0)
#define MPI_Type_contiguous(count, type, made) mpi_set(made, (count) * (type))
#define MPI_Type_commit(type)                  ((void)(type), MPI_SUCCESS)
#define MPI_Type_free(type)                    mpi_set(type, MPI_DATATYPE_NULL)
#define MPI_Query_thread(level)                mpi_set(level, MPI_THREAD_MULTIPLE)

/* Messages. */
#define MPI_Sendrecv(from, count, type, to, tag, into, target, as, source, back, comm, status)               \
  ((void)(tag), (void)(back), (void)(comm),                                                                  \
   (to) == MPI_PROC_NULL ? MPI_SUCCESS : mpi_copy(from, into, count, type))
static inline int mpi_none(int *there) {
  if (there) *there = 0;
  return MPI_SUCCESS;
}
#define MPI_Iprobe(source, tag, comm, there, status) ((void)(comm), (void)(status), mpi_none(there))
#define MPI_Improbe(source, tag, comm, there, found, status)                                                 \
  ((void)(tag), (void)(comm), (void)(found), (void)(status), mpi_none(there))
#define MPI_Send(...)             ((void)sizeof(mpi_unused(__VA_ARGS__)), MPI_ERR_OTHER)
#define MPI_Isend(...)            ((void)sizeof(mpi_unused(__VA_ARGS__)), MPI_ERR_OTHER)
#define MPI_Recv(...)             ((void)sizeof(mpi_unused(__VA_ARGS__)), MPI_ERR_OTHER)
#define MPI_Irecv(...)            ((void)sizeof(mpi_unused(__VA_ARGS__)), MPI_ERR_OTHER)
#define MPI_Mrecv(...)            ((void)sizeof(mpi_unused(__VA_ARGS__)), MPI_ERR_OTHER)
#define MPI_Send_init(...)        ((void)sizeof(mpi_unused(__VA_ARGS__)), MPI_ERR_OTHER)
#define MPI_Recv_init(...)        ((void)sizeof(mpi_unused(__VA_ARGS__)), MPI_ERR_OTHER)
#define MPI_Get_count(...)        ((void)sizeof(mpi_unused(__VA_ARGS__)), MPI_ERR_OTHER)
#define MPI_Win_shared_query(...) ((void)sizeof(mpi_unused(__VA_ARGS__)), MPI_ERR_OTHER)
int mpi_unused(const void *first, ...); /* not defined, never called: it makes arguments count as used */
#define MPI_Startall(count, requests)          ((void)(requests), MPI_SUCCESS)
#define MPI_Start(request)                     ((void)(request), MPI_SUCCESS)
#define MPI_Waitall(count, requests, statuses) ((void)(requests), MPI_SUCCESS)
#define MPI_Wait(request, status)              mpi_set(request, MPI_REQUEST_NULL)
#define MPI_Test(request, done, status)        (mpi_set(request, MPI_REQUEST_NULL), (void)(status), mpi_set(done, 1))
#define MPI_Request_free(request)              mpi_set(request, MPI_REQUEST_NULL)

/* Memory that ranks of a node share. */
static inline int mpi_window(MPI_Aint bytes, void *memory, MPI_Win *window) {
  *window = calloc(1, (size_t)bytes + 1);
  memcpy(memory, window, sizeof *window);
  return *window ? MPI_SUCCESS : MPI_ERR_OTHER;
}
#define MPI_Win_allocate_shared(bytes, unit, info, comm, memory, window)                                     \
  ((void)(comm), mpi_window(bytes, memory, window))
static inline int MPI_Win_free(MPI_Win *window) {
  free(*window);
  *window = MPI_WIN_NULL;
  return MPI_SUCCESS;
}

static inline int MPI_Error_string(int code, char *text, int *length) {
  (void)code;
  strcpy(text, "no MPI");
  *length = (int)strlen(text);
  return MPI_SUCCESS;
}
static inline int MPI_Finalize(void) {
  return MPI_SUCCESS;
}
/* error_abort calls MPI_Abort only if there are other ranks. */
static inline int MPI_Abort(MPI_Comm comm, int code) {
  (void)comm, (void)code;
  return MPI_ERR_OTHER;
}

#endif
