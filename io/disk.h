/* Files on disk. Without a data server the first computing rank uses them (or, collectively, all of them); with one, it alone:
 * one of the computing ranks sends it each request, and it takes its part in that. */
#ifndef STENCIL_DISK_H
#define STENCIL_DISK_H

#include "files.h"

/* For files_open. Its signals are those that the data server has got. */
extern const files_kind files_on_disk;

/* The data server performs requests until files_dismiss, and takes over the error that the run ended with. `signalled` returns
 * the signal that this rank has got, or 0; the computing ranks hear of it (files_signal). */
int files_serve(const files *f, const config *c, int (*signalled)(void), error *e);
/* Lets the server go, with the error, or 0, that all computing ranks end with. */
void files_dismiss(const files *f, const error *e);

#endif
