/* An independent judge of lowered schedules: executes the program on symbols.
 *
 * Every value is a 64-bit hash of what it was computed from; buffers and weight slots hold hashes.
 * In the end the weights of every seat must be the hash that the plain meaning of training gives:
 * a loop over iterations that never looks at slots, channels or order. It shares the types of
 * plan.h and sched.h with the product and not a line of sched/deps, lowering or verifier.
 */
#ifndef SL_TESTS_SYMBOLIC_H
#define SL_TESTS_SYMBOLIC_H

#include "sched/sched.h"

/* NULL: harmless. Else: why it is broken (static text). */
const char *symbolic_judge(const struct sl_sched *sched);

#endif
