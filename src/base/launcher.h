/* Finds out what started this process. An mpirun forwards output and signals in its own way. */
#ifndef STENCIL_LAUNCHER_H
#define STENCIL_LAUNCHER_H

#include <stdbool.h>
#include <sys/types.h>

/* This process's rank according to the launcher; 0 without a launcher. */
int launcher_rank(void);
/* How many processes the launcher has started; 0: unknown. Call launcher_rank and launcher_ranks before MPI_Init: Open
 * MPI sets the launcher's variables even in a process that is alone. */
int launcher_ranks(void);
/* Do all processes of the launcher run on this node? */
bool launcher_one_node(void);
/* Leaves one card visible to CUDA: this process's share of the cards that CUDA_VISIBLE_DEVICES names or the node has.
 * The driver opens every visible card, 0.11 s each. Memory of the others is reached as before. The function does
 * nothing where this node's processes or cards cannot be counted, or cards are cut into parts. Call it before MPI_Init,
 * which may start the driver. */
void launcher_take_card(void);
enum { LAUNCHER_CARD = 64 };
/* Sets `card` to the card of rank `rank` on a node with `cards` cards. `list`: CUDA_VISIBLE_DEVICES, or NULL. False:
 * the list names something that is not a whole card. */
bool launcher_card(const char *list, int rank, int cards, char card[LAUNCHER_CARD]);
/* Lets this process and its later threads use all cores of its mpirun, where mpirun bound it unasked to fewer than its
 * share. (mpirun binds one or two ranks of a node to a core each.) A binding requested in the environment or on the
 * command line stays. */
void launcher_unbind(void);
/* Process id of the mpirun of Open MPI that is this process's parent; 0: there is none, or it runs on another node. */
pid_t launcher_mpirun(void);
/* Seconds that Open MPI's mpirun waits between SIGTERM and SIGKILL when it ends its ranks. It waits as long before
 * SIGTERM. */
double launcher_patience(void);

/* True if this process's stderr appears on the terminal of Open MPI's mpirun. */
bool launcher_shows_errors(void);
/* True if stdout is a terminal that a user sees. Under Open MPI's mpirun, stdout is first redirected to mpirun's own
 * terminal, if mpirun has one. The pseudo-terminal that Open MPI makes for rank 0 will not do: it has no width; mpirun
 * mixes the order of stdout and stderr, and prints nothing once it ends its ranks. */
bool launcher_use_terminal(void);

#endif
