/* Counters in memory that several processes see: how the host device's streams wait for those of another process. */
#ifndef STENCIL_HOST_COUNTER_H
#define STENCIL_HOST_COUNTER_H

#include <stdint.h>
#include "host_stream.h"

/* Sets the counter when all earlier work of the stream is done; who awaits it then sees that work. */
void host_counter_signal(host_stream *s, uint32_t *counter, uint32_t value);
/* Holds back later work of the stream until the counter has reached `value`, which may wrap around. `patience`: s in
 * which it does not sleep. */
void host_counter_await(host_stream *s, const uint32_t *counter, uint32_t value, double patience);

#endif
