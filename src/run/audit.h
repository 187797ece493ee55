/* Silent corruption: some actions are done twice, and every bit they wrote is compared.
 *
 *   shadow <- memory that the action may change;  act;  swap the two;  act again;  compare
 *
 * Audited are passes, sums of a parameter's uses, norms and optimizer steps: everything that a
 * worker computes. Which ones is drawn from the seed, one of `every` on average. What is only moved
 * (messages, copies of weights) is not computed and so not computed again.
 */
#ifndef SL_RUN_AUDIT_H
#define SL_RUN_AUDIT_H

#include "run/worker.h"

struct sl_audit;

/* Memory for it is the worker's; `seed` of the run. every 0: nothing is done twice. */
SL_MUST_CHECK sl_err sl_run_audit_open(struct sl_worker *worker, int64_t every, uint64_t seed);
void sl_run_audit_close(struct sl_worker *worker);
int64_t sl_run_audit_bytes(const struct sl_worker *worker); /* what it takes; 0: no audit */

struct sl_audited;

/* Tests: called behind every instruction of a pass (`pass` and `instr`), and behind every other
 * audited action, but only the first time it is done. */
struct sl_harm {
    void (*after)(void *ctx, struct sl_worker *worker, const struct sl_audited *audited,
                  const struct sl_pass *pass, int instr);
    void *ctx;
};
void sl_run_audit_harm(struct sl_worker *worker, const struct sl_harm *harm);

/* Actions so far, and how many of them were done twice. */
struct sl_run_audit_count {
    int64_t seen, twice;
};
struct sl_run_audit_count sl_run_audit_count(const struct sl_worker *worker);

/* The actions, audited where the worker is. */
struct sl_region {
    void *at; /* on the device */
    int64_t size_bytes;
    const char *name;
};
enum { SL_AUDIT_REGIONS = 12 };
struct sl_audited {
    const char *what;
    struct sl_region regions[SL_AUDIT_REGIONS]; /* that it may change */
    int region_count;
    const struct sl_pass *pass; /* NULL: it is none */
    sl_err (*act)(void *ctx, bool again);
    void *ctx;
};
SL_MUST_CHECK sl_err sl_run_audit_act(struct sl_worker *worker, const struct sl_audited *audited);
SL_MUST_CHECK sl_err sl_run_audit_pass(struct sl_worker *worker, const struct sl_pass *pass);

#endif
