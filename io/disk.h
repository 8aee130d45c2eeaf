/* Files on disk. Without a data server the first computing rank uses the files, or all of them do (collective). A
 * data server uses the files alone: one computing rank sends it each request, and the server performs its part. */
#ifndef STENCIL_DISK_H
#define STENCIL_DISK_H

#include "files.h"

/* The kind for files_open. Its signals are those that the data server has got. */
extern const files_kind files_on_disk;

/* The data server performs requests until files_dismiss, then returns the error that the run ended with. `signalled`
 * returns the signal that this rank has got, or 0. The server passes a signal on to the computing ranks
 * (files_signal). */
int files_serve(const files *f, const config *c, int (*signalled)(void), error *e);
/* Ends the server's loop. `e` is the error that all computing ranks end with, or none. */
void files_dismiss(const files *f, const error *e);

#endif
