/* Measures rounds of F, recomputed F, B. */
#include "profile/recompute.h"

#include "base/sort.h"

#include <string.h>

/* Runs one forward pass and returns the time of its kernels. */
static sl_err time_forward(struct sl_body *b, int slot, int64_t *out_ns) {
    const struct sl_program *p = b->program;
    memset(b->op_ns, 0, sizeof *b->op_ns * (size_t)p->instr_count);
    SL_TRY(sl_profile_body_pass(b, SL_PHASE_F, slot));
    *out_ns = 0;
    for (int i = p->begin[SL_PHASE_F]; i < p->end[SL_PHASE_F]; i++)
        *out_ns += b->op_ns[i];
    return SL_OK;
}

static int compare(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Runs F of this micro-batch, then recompute and B of the preceding one. */
static sl_err time_round(struct sl_body *b, int64_t round, double *out) {
    int slot = (int)(round % 2);
    int64_t first_ns, recompute_ns;
    SL_TRY(sl_profile_body_feed(b, slot, round));
    SL_TRY(time_forward(b, slot, &first_ns));
    for (int64_t i = 0; i < b->feeds.count; i++)
        first_ns += b->feeds.at[i].kind <= SL_FEED_SEED ? b->feeds.at[i].dur_ns : 0;
    SL_TRY(time_forward(b, 1 - slot, &recompute_ns));
    *out = (double)recompute_ns / (double)(first_ns + 1);
    return sl_profile_body_pass(b, SL_PHASE_B, 1 - slot);
}

sl_err sl_profile_recompute_measure(struct sl_body *body, int workers, double *out) {
    double shares[SL_ROUNDS_MAX + 1];
    int rounds = sl_rounds_of(workers);
    SL_TRY(sl_profile_body_feed(body, 1, 0));
    SL_TRY(sl_profile_body_pass(body, SL_PHASE_F, 1));
    for (int round = 0; round <= rounds; round++) /* round 0 is a warm-up */
        SL_TRY(time_round(body, round, &shares[round]));
    sl_sort(shares + 1, rounds, sizeof *shares, compare);
    *out = shares[1 + rounds / 2];
    return SL_OK;
}
