/* Tests over ranks. SL_TEST_TRANSPORT names the transport that the ranks of mpirun or 'sluice
 * launch' have between them; without it pipelines are threads of this process. Every rank runs the
 * whole test, its own references included, and compares the stages that it holds. */
#ifndef SL_TEST_RANKS_H
#define SL_TEST_RANKS_H

#include "comm/comm.h"

/* Before and after cmocka's run: `failed` is what that returned, and the result is for main. A rank
 * that has failed leaves at once, and its launcher ends the others. */
void ranks_open(void);
int ranks_close(int failed);

/* What pipelines are opened with; NULL: threads. */
struct sl_comm *ranks_comm(void);
/* Of their watchdog: more ranks than cores are slow, not stalled. */
static const int64_t ranks_stall_ns = 300000000000;
/* Between two tests of many: shared memory is given back. All ranks call it. */
void ranks_renew(void);
/* Are there workers for all ranks? */
bool ranks_fit(int workers);
/* Ranks without SL_TEST_FULL: a message takes a turn of the scheduler where cores are few, so tests
 * do a small part of what they do on threads. */
bool ranks_short(void);
/* "", or " on 3 ranks (mpi)". */
const char *ranks_text(void);

#endif
