/* Finds out what started this process. An mpirun forwards output and signals in its own way. */
#ifndef STENCIL_LAUNCHER_H
#define STENCIL_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

/* This process's rank according to the launcher; 0 without one. */
int launcher_rank(void);
/* How many processes the launcher has started, in the same way; 0: unknown. Call both before MPI_Init: Open MPI sets such
 * variables in a process that is alone. */
int launcher_ranks(void);
/* Do all of them run on this node? */
bool launcher_one_node(void);
/* Leaves in CUDA's sight one card, this process's share of those that CUDA_VISIBLE_DEVICES names or the node has: the
 * driver opens all in sight, 0.11 s each. Their memory is reached as before. It does nothing where this node's
 * processes or cards cannot be counted, or cards are cut into parts. Call it before MPI_Init, which may start the
 * driver. */
void launcher_take_card(void);
enum { LAUNCHER_CARD = 64 };
/* The card of rank `rank` of a node of so many cards; list: of CUDA_VISIBLE_DEVICES, or NULL. False: the list names
 * what is no card, or a part of one. */
bool launcher_card(const char *list, int rank, int cards, char card[LAUNCHER_CARD]);
/* Lets this process, and threads it starts from now on, use the cores of its mpirun where that, without being asked to
 * bind, left it fewer than its part of them: a node's one or two ranks have a core each. A binding that was asked for
 * in the environment or on the command line stands. */
void launcher_unbind(void);
/* Process id of the mpirun of Open MPI that is this process's parent; 0: there is none, or it runs on another node. */
pid_t launcher_mpirun(void);
/* Seconds that such an mpirun waits between SIGTERM and SIGKILL when it ends its ranks. It waits as long before
 * SIGTERM. */
double launcher_patience(void);

/* True if this process's stderr appears on the terminal of such an mpirun. */
bool launcher_shows_errors(void);
/* True if stdout is a terminal that a user sees. Under such an mpirun, stdout is first redirected to mpirun's own
 * terminal, if it has one. The pseudo-terminal that Open MPI makes for rank 0 will not do: it has no width, mpirun
 * mixes the order of stdout and stderr, and it prints nothing once it ends its ranks. */
bool launcher_use_terminal(void);

#endif
