/* Pages that two processes of a node see at once: one lends pages of its memory, the other puts them in the place of
 * its own. They have no name that a killed run could leave behind. Ranges begin and end on pages. */
#ifndef STENCIL_SHARED_PAGES_H
#define STENCIL_SHARED_PAGES_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

/* What a process tells the one that borrows; plain bytes. Start from `{0}`: nothing is lent. */
typedef struct lent_pages {
  int64_t process;      /* 0: nothing is lent */
  int64_t descriptor;   /* of that process */
  uint64_t file, node;  /* inode and device: a process may have another number in another container */
  uint64_t bytes, into; /* how far into a page what is shared begins: for the users */
} lent_pages;

/* Bytes of a page. */
size_t shared_pages_size(void);

/* Puts new pages, zeros, in the place of those at `at`, which are lent until shared_pages_end. */
int shared_pages_lend(void *at, size_t bytes, lent_pages *lent, error *e);
/* No process can borrow them any more; who has, and the lender, keep them. Nothing lent: nothing to do. */
void shared_pages_end(lent_pages *lent);
/* Puts the pages that another process has lent in the place of those at `at`. */
int shared_pages_borrow(void *at, const lent_pages *lent, error *e);
/* Puts pages of this process alone, zeros, there again. The other process keeps what it sees. */
int shared_pages_leave(void *at, size_t bytes, error *e);

#endif
