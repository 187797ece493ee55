/* Links (comm/nccl_link.h) between devices whose memory is apart (support/apart.h), within this process;
 * they insist on the same sizes in the same order at both ends. */
#ifndef SL_TEST_WIRES_H
#define SL_TEST_WIRES_H

#include "comm/nccl_link.h"

extern const struct sl_nccl_link_row wires;
extern bool wires_break; /* links made now break when they are used */
void wires_free(void);   /* all that were made, at the end: an end may open late */

#endif
