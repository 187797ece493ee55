/* The audit: runs some actions twice and compares the results. */
#include "run/audit.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

enum { PIECE = 1 << 16 };

struct sl_audit {
    int64_t every;
    uint64_t seed, stream;
    struct sl_run_audit_count count;
    char *shadow; /* device memory for the state before the action, or for the first result */
    int64_t shadow_bytes;
    void *piece;       /* a piece of it on the device */
    char *own, *other; /* pieces of the two results, on the host */
    struct sl_harm harm;
};

/* Returns the most bytes that one action may change. A pass changes its slot, gradients and
 * statistics; a step changes weights and optimizer state. */
static int64_t shadow_bytes(const struct sl_worker *w) {
    const struct sl_program *full = w->programs[SL_WORKER_FULL];
    int64_t pass = w->slot_bytes + full->grad_bytes + full->state_bytes;
    int64_t step = full->param_bytes * (1 + w->state_count) + full->grad_bytes;
    return (pass > step ? pass : step) + SL_AUDIT_REGIONS * 64;
}

sl_err sl_run_audit_open(struct sl_worker *w, int64_t every, uint64_t seed) {
    struct sl_audit *audit = calloc(1, sizeof *audit);
    if (!audit)
        sl_out_of_memory(sizeof *audit);
    w->audit = audit;
    audit->every = every;
    audit->seed = seed;
    audit->stream = sl_rng_stream("audit") + (uint64_t)w->stage;
    if (!every)
        return SL_OK;
    audit->shadow_bytes = shadow_bytes(w);
    audit->own = sl_realloc(NULL, (size_t)2 * PIECE);
    audit->other = audit->own + PIECE;
    void *memory;
    SL_TRY(w->device->row->alloc(w->device, audit->shadow_bytes, &memory));
    audit->shadow = memory;
    w->bytes += audit->shadow_bytes + PIECE;
    return w->device->row->alloc(w->device, PIECE, &audit->piece);
}

int64_t sl_run_audit_bytes(const struct sl_worker *w) {
    return w->audit && w->audit->every ? w->audit->shadow_bytes + 3 * PIECE : 0;
}

void sl_run_audit_close(struct sl_worker *w) {
    if (!w->audit)
        return;
    w->device->row->free(w->device, w->audit->shadow);
    w->device->row->free(w->device, w->audit->piece);
    free(w->audit->own);
    free(w->audit);
    w->audit = NULL;
}

void sl_run_audit_harm(struct sl_worker *w, const struct sl_harm *harm) { w->audit->harm = *harm; }

struct sl_run_audit_count sl_run_audit_count(const struct sl_worker *w) {
    return w->audit->count;
}

static void do_harm(struct sl_worker *w, const struct sl_audited *a, int instr) {
    if (w->audit->harm.after)
        w->audit->harm.after(w->audit->harm.ctx, w, a, a->pass, instr);
}

/* ---- repeating an action ---- */

enum visit { SAVE, SWAP, COMPARE };

static sl_err copy(struct sl_worker *w, void *to, const void *from, int64_t size_bytes) {
    return w->device->row->copy(w->device, SL_STREAM_COMPUTE, to, from, size_bytes);
}

static sl_err swap(struct sl_worker *w, char *at, char *shadow, int64_t size_bytes) {
    SL_TRY(copy(w, w->audit->piece, at, size_bytes));
    SL_TRY(copy(w, at, shadow, size_bytes));
    return copy(w, shadow, w->audit->piece, size_bytes);
}

static sl_err compare(struct sl_worker *w, const struct sl_audited *a,
                      const struct sl_audit_region *r, int64_t from, const char *shadow) {
    struct sl_audit *audit = w->audit;
    int64_t size = r->size_bytes - from < PIECE ? r->size_bytes - from : PIECE;
    long long i = 0;
    const struct sl_device_row *row = w->device->row;
    SL_TRY(row->download(w->device, SL_STREAM_COMPUTE, audit->own, (char *)r->at + from, size));
    SL_TRY(row->download(w->device, SL_STREAM_COMPUTE, audit->other, shadow, size));
    SL_TRY(row->sync(w->device, SL_STREAM_COMPUTE));
    if (memcmp(audit->own, audit->other, (size_t)size) == 0)
        return SL_OK;
    while (audit->own[i] == audit->other[i])
        i++;
    return sl_fail(SL_ERR_SYSTEM,
                   "audit: stage %d did %s twice and got different bits (%s, byte %lld: %02x and "
                   "%02x); a processor or memory of this host is not to be trusted. The last "
                   "checkpoint is from before this step",
                   w->stage, a->what, r->name, (long long)from + i, (uint8_t)audit->other[i],
                   (uint8_t)audit->own[i]);
}

static sl_err visit_regions(struct sl_worker *w, const struct sl_audited *a, enum visit what) {
    char *shadow = w->audit->shadow;
    for (int i = 0; i < a->region_count; i++) {
        const struct sl_audit_region *r = &a->regions[i];
        for (int64_t from = 0; from < r->size_bytes; from += PIECE) {
            int64_t size = r->size_bytes - from < PIECE ? r->size_bytes - from : PIECE;
            char *at = (char *)r->at + from;
            SL_TRY(what == SAVE   ? copy(w, shadow + from, at, size)
                   : what == SWAP ? swap(w, at, shadow + from, size)
                                  : compare(w, a, r, from, shadow + from));
        }
        shadow += (r->size_bytes + 63) / 64 * 64;
    }
    SL_ASSERT(shadow - w->audit->shadow <= w->audit->shadow_bytes);
    return SL_OK;
}

static bool is_chosen(struct sl_audit *audit) {
    return audit->every &&
           sl_rng_below(audit->seed, audit->stream, (uint64_t)audit->count.seen, audit->every) == 0;
}

sl_err sl_run_audit_act(struct sl_worker *w, const struct sl_audited *a) {
    if (!w->audit)
        return a->act(a->ctx, false);
    bool twice = is_chosen(w->audit);
    w->audit->count.seen++;
    if (twice)
        SL_TRY(visit_regions(w, a, SAVE));
    SL_TRY(a->act(a->ctx, false));
    if (!a->pass)
        do_harm(w, a, -1);
    if (!twice)
        return SL_OK;
    w->audit->count.twice++;
    SL_TRY(visit_regions(w, a, SWAP));
    SL_TRY(a->act(a->ctx, true));
    return visit_regions(w, a, COMPARE);
}

/* ---- passes ---- */

struct pass_ctx {
    struct sl_worker *worker;
    const struct sl_worker_pass *pass;
    const struct sl_audited *audited;
};

static sl_err harm_after(void *ctx, int instr) {
    const struct pass_ctx *c = ctx;
    if (c->pass->after)
        SL_TRY(c->pass->after(c->pass->ctx, instr));
    do_harm(c->worker, c->audited, instr);
    return SL_OK;
}

static sl_err act_pass(void *ctx, bool repeated) {
    struct pass_ctx *c = ctx;
    struct sl_worker_pass pass = *c->pass;
    if (!repeated && c->worker->audit->harm.after) {
        pass.after = harm_after;
        pass.ctx = c;
    }
    return sl_run_worker_run(c->worker, &pass);
}

sl_err sl_run_audit_pass(struct sl_worker *w, const struct sl_worker_pass *pass) {
    static const char *const names[SL_PHASE_COUNT] = {
        [SL_PHASE_F] = "a forward pass",
        [SL_PHASE_B] = "a backward pass",
        [SL_PHASE_I] = "a backward pass (of inputs)",
        [SL_PHASE_W] = "a backward pass (of weights)",
    };
    const struct sl_program *p = w->programs[pass->program];
    struct pass_ctx ctx = {.worker = w, .pass = pass};
    struct sl_audited audited = {
        .what = names[pass->phase],
        .regions = {{w->slot[pass->slot], p->slot_bytes, "activations"},
                    {w->grad[pass->grad_slot], p->grad_bytes, "gradients"},
                    {w->state, p->state_bytes, "running statistics"}},
        .region_count = 3,
        .pass = pass,
        .act = act_pass,
        .ctx = &ctx,
    };
    ctx.audited = &audited;
    return sl_run_audit_act(w, &audited);
}
