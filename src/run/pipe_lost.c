/* A rank is lost: which stages it held, and what the workers here were doing, for the message. */
#include "run/pipe_state.h"

#include "base/text.h"

#include <string.h>

enum { NOTHING = -1 };

/* One word, so that the thread that finds the loss can read it while the worker goes on. */
void sl_pipe_note_action(struct sl_pipe_worker *w, const struct sl_action *action) {
    int64_t doing = action ? (int64_t)action->kind << 56 | (int64_t)(uint16_t)action->stage << 32 |
                                 (int64_t)(uint32_t)action->micro
                           : NOTHING;
    atomic_store_explicit(&w->doing, doing, memory_order_relaxed);
}

static void put_here(const struct sl_pipe *pipe, int worker, struct sl_text *text) {
    int64_t doing = atomic_load_explicit(&pipe->workers[worker].doing, memory_order_relaxed);
    if (!sl_pipe_is_here(pipe, worker) || doing == NOTHING)
        return;
    int stage = (int)(doing >> 32 & 0xffff);
    sl_text_printf(text, "; worker %d of rank %d was in %s of stage %s, micro-batch %d", worker,
                   pipe->comm->rank, sl_kind_name((enum sl_kind)(doing >> 56)),
                   pipe->config.plan->stages[stage].name, (int)(doing & 0x7fffffff));
}

static void explain(void *ctx, int rank) {
    const struct sl_pipe *pipe = ctx;
    const struct sl_plan *plan = pipe->config.plan;
    struct sl_text text = {0};
    sl_text_put(&text, sl_err_message());
    for (int s = 0; s < plan->seat_count; s++)
        if (sl_comm_rank_of(pipe->comm, plan->seats[s].worker, plan->worker_count) == rank)
            sl_text_printf(&text, "; it held stage %s (worker %d)",
                           plan->stages[plan->seats[s].stage].name, plan->seats[s].worker);
    for (int w = 0; w < plan->worker_count; w++)
        put_here(pipe, w, &text);
    sl_err_set_message(text.at);
    sl_text_free(&text);
}

void sl_pipe_explain(struct sl_pipe *pipe, bool on) {
    sl_comm_explain(pipe->comm, on ? explain : NULL, pipe);
}
