/* Audit: detects silent data corruption. A worker repeats some actions and compares every bit that
 * they write.
 *
 *   shadow <- memory that the action may change;  act;  swap the two;  repeat;  compare
 *
 * Audited actions are all that a worker computes: passes, sums of a parameter's uses, norms and
 * optimizer steps. The seed selects one of `every` on average. Messages and copies of weights are
 * not audited.
 */
#ifndef SL_RUN_AUDIT_H
#define SL_RUN_AUDIT_H

#include "run/worker.h"

struct sl_audit;

/* The audit selects actions by `seed`, the seed of the run; every 0: no audit. The worker owns the
 * memory. */
SL_MUST_CHECK sl_err sl_run_audit_open(struct sl_worker *worker, int64_t every, uint64_t seed);
void sl_run_audit_close(struct sl_worker *worker);
int64_t sl_run_audit_bytes(const struct sl_worker *worker); /* bytes of its memory; 0: no audit */

struct sl_audited;

/* For tests: called after every instruction of a pass (`pass` and `instr`) and after every other
 * audited action, but not when it is repeated. */
struct sl_harm {
    void (*after)(void *ctx, struct sl_worker *worker, const struct sl_audited *audited,
                  const struct sl_worker_pass *pass, int instr);
    void *ctx;
};
void sl_run_audit_harm(struct sl_worker *worker, const struct sl_harm *harm);

/* seen: actions so far; twice: how many of them were repeated. */
struct sl_run_audit_count {
    int64_t seen, twice;
};
struct sl_run_audit_count sl_run_audit_count(const struct sl_worker *worker);

/* A part of memory that an action may change; sl_audited describes the whole action. */
struct sl_audit_region {
    void *at; /* on the device */
    int64_t size_bytes;
    const char *name;
};
enum { SL_AUDIT_REGIONS = 12 };
struct sl_audited {
    const char *what;
    struct sl_audit_region regions[SL_AUDIT_REGIONS]; /* all that it may change */
    int region_count;
    const struct sl_worker_pass *pass; /* NULL: the action is not a pass */
    sl_err (*act)(void *ctx, bool repeated);
    void *ctx;
};
SL_MUST_CHECK sl_err sl_run_audit_act(struct sl_worker *worker, const struct sl_audited *audited);
SL_MUST_CHECK sl_err sl_run_audit_pass(struct sl_worker *worker, const struct sl_worker_pass *pass);

#endif
