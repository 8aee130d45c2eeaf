#include "host_parts.h"
#include <stdint.h>
#include <stdlib.h>

void host_parts_open(host_parts *p, int count) {
  const unsigned long long number = (atomic_load_explicit(&p->left, memory_order_relaxed) >> 32) + 1;
  atomic_store_explicit(&p->left, number << 32 | (unsigned)count, memory_order_release);
}

bool host_parts_take(host_parts *p, int *left) {
  unsigned long long seen = atomic_load_explicit(&p->left, memory_order_acquire);
  while ((uint32_t)seen) {
    if (!atomic_compare_exchange_weak_explicit(&p->left, &seen, seen - 1, memory_order_acq_rel,
                                               memory_order_acquire))
      continue;
    *left = (int)(uint32_t)(seen - 1);
    return true;
  }
  return false;
}

host_members *host_members_new(const device_share *s, int threads) {
  host_members *m = calloc(1, sizeof *m + (size_t)s->ranks * sizeof *m->all);
  if (!m) return NULL;
  m->rank = s->rank;
  m->ranks = s->ranks;
  for (int i = 0; i < DEVICE_FIELDS; i++) m->own[i] = s->own[i];
  for (int r = 0; r < s->ranks; r++) m->all[r] = s->members[r];
  m->mine = m->all[m->rank].board;
  atomic_store(&m->mine->threads, threads);
  return m;
}

/* Which of this rank's fields it is; -1 if none. */
static int host_members_field(const host_members *m, const float *first) {
  int i = 0;
  while (i < DEVICE_FIELDS && (!first || m->own[i] != first)) i++;
  return i < DEVICE_FIELDS ? i : -1;
}

bool host_board_takes(const host_members *m, const kernel *k, const kernel_args *args) {
  return k >= kernel_table && k < kernel_table + kernel_table_size && host_members_field(m, args->in) >= 0 &&
         host_members_field(m, args->out) >= 0 && (!args->medium || host_members_field(m, args->medium) >= 0);
}

void host_board_write(const host_members *m, const kernel *k, const kernel_args *args, int pieces) {
  host_board *b = m->mine;
  b->kernel = (int)(k - kernel_table);
  b->pieces = pieces;
  b->fields[0] = host_members_field(m, args->in);
  b->fields[1] = host_members_field(m, args->out);
  b->fields[2] = host_members_field(m, args->medium);
  b->args = *args;
}

static void host_board_do(const device_member *m, int part) {
  host_board *b = m->board;
  kernel_args args = b->args;
  args.in = m->fields[b->fields[0]];
  args.out = m->fields[b->fields[1]];
  args.medium = b->fields[2] < 0 ? NULL : m->fields[b->fields[2]];
  kernel_table[b->kernel].host(&args, part, b->threads * b->pieces);
  atomic_fetch_sub_explicit(&b->undone, 1, memory_order_release);
}

bool host_members_help(const host_members *m) {
  for (int i = 1; i < m->ranks; i++) {
    const device_member *other = &m->all[(m->rank + i) % m->ranks];
    host_board *b = other->board;
    const int threads = atomic_load_explicit(&b->threads, memory_order_relaxed);
    for (int t = 0, left; t < threads; t++) {
      if (!host_parts_take(&b->parts[t], &left)) continue;
      host_board_do(other, host_parts_number(t, b->pieces, left));
      return true;
    }
  }
  return false;
}
