/* Finds how many buffers the sends of a program assume.
 *
 *     worker 0    SEND a   RECV b        with sends that wait for their receive, both wait for
 * ever;
 *     worker 1    SEND b   RECV a        with one buffer per channel, both continue
 *
 * Programs that we lower need none: each RECV is posted before its SEND (lower.c). */
#ifndef SL_INTEROP_SEND_BUFFERS_H
#define SL_INTEROP_SEND_BUFFERS_H

#include "sched/sched.h"

/* Returns the least number of messages that a channel (two workers, one direction) must hold so
 * that the program completes. 0: none are needed, or there are too many workers to find out; -1: no
 * number is enough. Plays only passes, SEND and RECV. */
int32_t sl_interop_send_buffers(const struct sl_sched *program);

#endif
