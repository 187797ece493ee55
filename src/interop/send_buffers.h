/* Buffers that the sends of a program assume.
 *
 *     worker 0    SEND a   RECV b        with sends that wait for their receive, both wait for ever;
 *     worker 1    SEND b   RECV a        with one buffer per channel, both go on
 *
 * Lowering needs none: it posts each RECV before its SEND (lower.c).
 */
#ifndef SL_INTEROP_SEND_BUFFERS_H
#define SL_INTEROP_SEND_BUFFERS_H

#include "sched/sched.h"

/* Least number of messages that a channel (two workers, one direction) must be able to hold so that
 * the program completes. 0: none, or too many workers to tell; -1: no number is enough. Only passes,
 * SEND and RECV are played. */
int32_t sl_interop_send_buffers(const struct sl_sched *program);

#endif
