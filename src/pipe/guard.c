/* The watchdog of a pipeline. The thread that started the workers waits for their end and looks at
 * everybody's notes four times a second; sched/waits.c judges.
 *
 *   moves --no change for longer than the limit--> stalled: the gate fails, all who wait end
 *         --slow, but within it------------------> a warning, once per action
 *   failed, and a worker here still does not move --give_up_ns--> abandoned: its thread is left
 *         alone, with all memory that it may use, so that the process can end
 *
 * A worker that is ready and gets no processor, because the machine has too much to do, does not
 * stand still: that time is taken off, here and, with the notes, on other ranks.
 *
 * Dead and cut off ranks are the transport's to find; what is known of them is added here.
 */
#include "pipe/halt.h"
#include "pipe/state.h"
#include "pipe/tell.h"

#include "base/clock.h"
#include "base/log.h"
#include "graph/stats.h"
#include "pipe/starved.h"

#include <stdlib.h>
#include <time.h>

enum { CHAIN_MAX = 6 };
static const int64_t look_ns = 250000000, give_up_ns = 2000000000, remote_ns = 2000000000;
static const int64_t circle_ns = 60000000000; /* messages may be under way for long */
static const double first_flops = 1e10;       /* per second, before anything was measured */

struct sl_guard {
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    int running; /* workers here */
    bool abandoned;
    struct sl_work *now, *fresh; /* [worker] */
    int64_t *changed_ns;         /* [worker] when it was seen to move last */
    int64_t *warned_about;       /* [worker] an action that was called slow */
    int64_t *cpu_ns;             /* [worker] see sl_pipe_starved_look */
    int64_t last_ns, failed_ns;
};

/* ---- what is said ---- */

static int rank_of(const struct sl_pipe *pipe, int worker) {
    return sl_comm_rank_of(pipe->comm, worker, pipe->config.plan->worker_count);
}

static void put_worker(struct sl_text *out, const struct sl_pipe *pipe, const struct sl_work *all,
                       int worker) {
    char who[SL_WHO_TEXT];
    sl_comm_who(pipe->comm, rank_of(pipe, worker), who);
    bool lost = sl_comm_is_lost(pipe->comm, rank_of(pipe, worker));
    sl_text_printf(out, "worker %d (%s)%s: ", worker, who, lost ? ", now lost" : "");
    sl_sched_work_put(out, pipe->config.plan, all, worker);
}

/* Who waits for whom, from the far end to `last`. */
static void put_chain(struct sl_text *out, const struct sl_pipe *pipe, const struct sl_work *all,
                      int last) {
    int *chain = malloc(sizeof *chain * (size_t)pipe->config.plan->worker_count);
    if (!chain)
        return;
    int count = sl_sched_waits_chain(pipe->config.plan, all, last, chain), first = 0;
    if (count > CHAIN_MAX) {
        first = count - CHAIN_MAX;
        sl_text_printf(out, "\n  %d more workers wait for these:", first);
    }
    for (int i = first; i < count; i++) {
        sl_text_put(out, "\n  ");
        put_worker(out, pipe, all, chain[i]);
    }
    free(chain);
}

/* A rank is lost: what it held, what it did last, who waits for it. Called by a thread of the
 * transport. */
static void explain(void *ctx, int rank) {
    const struct sl_pipe *pipe = ctx;
    const struct sl_plan *plan = pipe->config.plan;
    struct sl_text text = {0};
    struct sl_work *all = calloc((size_t)plan->worker_count, sizeof *all);
    int *chain = calloc((size_t)plan->worker_count, sizeof *chain), last = -1, longest = 0;
    sl_text_put(&text, sl_err_message());
    for (int s = 0; s < plan->seat_count; s++)
        if (rank_of(pipe, plan->seats[s].worker) == rank)
            sl_text_printf(&text, "; it held stage %s (worker %d)",
                           plan->stages[plan->seats[s].stage].name, plan->seats[s].worker);
    if (all && chain) {
        sl_pipe_read_notes(pipe, all);
        for (int w = 0; w < plan->worker_count; w++) {
            int count = rank_of(pipe, w) == rank ? sl_sched_waits_chain(plan, all, w, chain) : 0;
            last = count > longest ? w : last;
            longest = count > longest ? count : longest;
        }
        sl_text_put(&text, "; who waits for whom:");
        put_chain(&text, pipe, all, last);
    }
    sl_err_set_message(text.at);
    sl_text_free(&text);
    free(all);
    free(chain);
}

static sl_err fail_stalled(const struct sl_pipe *pipe, const struct sl_work *all, int who,
                           bool circle) {
    struct sl_text text = {0};
    char rank[SL_WHO_TEXT];
    const struct sl_work *w = &all[who];
    sl_comm_who(pipe->comm, rank_of(pipe, who), rank);
    if (circle)
        sl_text_printf(&text,
                       "nobody works and nothing moves, for %.1f s: a message is lost; worker %d "
                       "(%s) has waited longest: ",
                       (double)w->still_ns * 1e-9, who, rank);
    else
        sl_text_printf(&text, "worker %d (%s) is stalled: ", who, rank);
    sl_sched_work_put(&text, pipe->config.plan, all, who);
    if (!circle)
        sl_text_printf(&text,
                       "; not ended for %.1f s, %.3f s are expected (if it is only slow: "
                       "`stall_timeout` S)",
                       (double)w->still_ns * 1e-9, (double)w->expect_ns * 1e-9);
    sl_text_put(&text, "; who waits for whom:");
    put_chain(&text, pipe, all, who);
    sl_err err = sl_fail(SL_ERR_PEER, "%s", text.at);
    sl_text_free(&text);
    return err;
}

static void warn_slow(struct sl_pipe *pipe, int worker) {
    struct sl_guard *g = pipe->guard;
    struct sl_text text = {0};
    if (g->warned_about[worker] == g->now[worker].done)
        return;
    g->warned_about[worker] = g->now[worker].done;
    put_worker(&text, pipe, g->now, worker);
    sl_log_warn("slow: %s, for %.1f s", text.at, (double)g->now[worker].still_ns * 1e-9);
    sl_text_free(&text);
}

/* ---- looking ---- */

static bool has_moved(const struct sl_work *a, const struct sl_work *b) {
    return a->known != b->known || a->busy != b->busy || a->done != b->done || a->wait != b->wait ||
           a->of != b->of || a->peer != b->peer || a->peer_micro != b->peer_micro ||
           a->moved != b->moved;
}

/* The notes of workers here tell how long they were ready and had no processor. */
static void note_starved(struct sl_pipe *pipe, int64_t span_ns) {
    for (int w = 0; w < pipe->config.plan->worker_count; w++) {
        struct sl_notes *notes = &pipe->workers[w].notes;
        if (!sl_pipe_is_here(pipe, w))
            continue;
        int64_t ns =
            sl_pipe_starved_look(atomic_load_explicit(&notes->thread, memory_order_relaxed),
                                 span_ns, &pipe->guard->cpu_ns[w]);
        atomic_fetch_add_explicit(&notes->starved_ns, ns, memory_order_relaxed);
    }
}

/* What is known now, and since when each has stood still. Time in which this process did not run
 * itself does not count, nor does time in which a worker was starved. */
static void look(struct sl_pipe *pipe, int64_t now_ns) {
    struct sl_guard *g = pipe->guard;
    int count = pipe->config.plan->worker_count;
    struct sl_work *fresh = g->fresh;
    int64_t away_ns = now_ns - g->last_ns;
    g->last_ns = now_ns;
    note_starved(pipe, away_ns);
    sl_pipe_read_notes(pipe, fresh);
    for (int w = 0; w < count; w++) {
        int64_t starved_ns = fresh[w].starved_ns - g->now[w].starved_ns;
        int64_t off_ns = away_ns > 4 * look_ns           ? away_ns
                         : fresh[w].wait == SL_WAIT_NONE ? starved_ns
                                                         : 0;
        if (has_moved(&g->now[w], &fresh[w]) || off_ns >= now_ns - g->changed_ns[w])
            g->changed_ns[w] = now_ns;
        else if (off_ns > 0)
            g->changed_ns[w] += off_ns;
        g->now[w] = fresh[w];
        g->now[w].still_ns = now_ns - g->changed_ns[w];
    }
}

static bool is_mine(const struct sl_pipe *pipe, int worker) {
    return worker >= 0 && sl_pipe_is_here(pipe, worker);
}

static void judge(struct sl_pipe *pipe, int64_t now_ns) {
    struct sl_guard *g = pipe->guard;
    int count = pipe->config.plan->worker_count, who = -1;
    struct sl_stall_rule rule = {.floor_ns =
                                     pipe->config.stall_ns ? pipe->config.stall_ns : SL_STALL_NS,
                                 .remote_ns = remote_ns,
                                 .first = 0,
                                 .last_here = -1};
    rule.circle_ns = rule.floor_ns > circle_ns ? rule.floor_ns : circle_ns;
    for (int w = count - 1; w >= 0; w--)
        if (sl_pipe_is_here(pipe, w)) {
            rule.first = w;
            rule.last_here = rule.last_here < 0 ? w : rule.last_here;
        }
    enum sl_verdict verdict = sl_sched_stall_judge(pipe->config.plan, g->now, &rule, &who);
    if (atomic_load(&pipe->comm->gate.failed)) {
        g->failed_ns = g->failed_ns ? g->failed_ns : now_ns;
        g->abandoned =
            verdict == SL_STALLED && is_mine(pipe, who) && now_ns - g->failed_ns > give_up_ns;
        return;
    }
    if (verdict != SL_MOVES) {
        sl_comm_fail(pipe->comm, fail_stalled(pipe, g->now, who, verdict == SL_CIRCLE));
        return;
    }
    for (int w = 0; w < count && pipe->comm->rank == 0; w++)
        if (sl_sched_stall_is_slow(&g->now[w], rule.floor_ns))
            warn_slow(pipe, w);
}

/* ---- waiting for the workers ---- */

/* Before anything was measured: what the model needs of a slow machine. */
static int64_t guess_ns(const struct sl_pipe *pipe) {
    struct sl_graph_stats stats;
    int64_t max = 1;
    sl_graph_stats(pipe->train.graph, &stats);
    for (int s = 0; s < pipe->config.plan->stage_count; s++)
        if (pipe->config.plan->stages[s].micro_size > max)
            max = pipe->config.plan->stages[s].micro_size;
    double flops = stats.forward_flops + stats.input_grad_flops + stats.weight_grad_flops;
    return (int64_t)(flops * (double)max / first_flops * 1e9);
}

void sl_pipe_guard_open(struct sl_pipe *pipe) {
    int count = pipe->config.plan->worker_count;
    struct sl_guard *g = SL_NEW(&pipe->arena, struct sl_guard, 1);
    pthread_condattr_t clock;
    pthread_condattr_init(&clock);
    pthread_condattr_setclock(&clock, CLOCK_MONOTONIC);
    pthread_mutex_init(&g->mutex, NULL);
    pthread_cond_init(&g->ended, &clock);
    pthread_condattr_destroy(&clock);
    g->now = SL_NEW(&pipe->arena, struct sl_work, count);
    g->fresh = SL_NEW(&pipe->arena, struct sl_work, count);
    g->changed_ns = SL_NEW(&pipe->arena, int64_t, count);
    g->warned_about = SL_NEW(&pipe->arena, int64_t, count);
    g->cpu_ns = SL_NEW(&pipe->arena, int64_t, count);
    pipe->guard = g;
    int64_t guess = guess_ns(pipe);
    for (int w = 0; w < count; w++) {
        sl_pipe_note_action(&pipe->workers[w], NULL);
        for (int k = 0; k < SL_KIND_COUNT; k++)
            atomic_store_explicit(&pipe->workers[w].notes.longest_ns[k], guess,
                                  memory_order_relaxed);
    }
    struct sl_comm_hooks hooks = {.ctx = pipe,
                                  .explain = explain,
                                  .state = sl_pipe_show_notes,
                                  .state_bytes = sl_pipe_notes_bytes(pipe, pipe->comm->rank)};
    sl_comm_hook(pipe->comm, &hooks);
}

void sl_pipe_guard_close(struct sl_pipe *pipe) {
    if (!pipe->guard)
        return;
    sl_comm_hook(pipe->comm, NULL);
    if (pipe->guard->abandoned)
        return;
    pthread_mutex_destroy(&pipe->guard->mutex);
    pthread_cond_destroy(&pipe->guard->ended);
}

bool sl_pipe_is_abandoned(const struct sl_pipe *pipe) {
    return pipe && pipe->guard && pipe->guard->abandoned;
}

/* By the schedule at hand: of a worker's stages, the longest. */
static void expect(struct sl_pipe *pipe, int worker) {
    const struct sl_plan *plan = pipe->config.plan;
    struct sl_notes *notes = &pipe->workers[worker].notes;
    for (int k = 0; k < SL_KIND_COUNT; k++) {
        notes->expected_ns[k] = 0;
        for (int i = 0; i < plan->worker_seat_count[worker]; i++) {
            int64_t ns = pipe->sched->dur_ns[plan->seats[plan->worker_seats[worker][i]].stage][k];
            notes->expected_ns[k] = ns > notes->expected_ns[k] ? ns : notes->expected_ns[k];
        }
    }
}

void sl_pipe_guard_start(struct sl_pipe *pipe, int workers) {
    struct sl_guard *g = pipe->guard;
    g->running = workers;
    g->failed_ns = 0;
    g->last_ns = sl_clock_ns();
    for (int w = 0; w < pipe->config.plan->worker_count; w++) {
        g->changed_ns[w] = g->last_ns;
        g->cpu_ns[w] = 0; /* another thread */
        atomic_store_explicit(&pipe->workers[w].notes.thread, 0, memory_order_relaxed);
        expect(pipe, w);
    }
}

void sl_pipe_guard_ended(struct sl_pipe *pipe) {
    pthread_mutex_lock(&pipe->guard->mutex);
    if (--pipe->guard->running == 0)
        pthread_cond_signal(&pipe->guard->ended);
    pthread_mutex_unlock(&pipe->guard->mutex);
}

/* True: all have ended. */
static bool await_end(struct sl_guard *g) {
    int64_t until = sl_clock_ns() + look_ns;
    struct timespec at = {.tv_sec = until / 1000000000, .tv_nsec = until % 1000000000};
    int code = 0;
    pthread_mutex_lock(&g->mutex);
    while (g->running > 0 && code == 0)
        code = pthread_cond_timedwait(&g->ended, &g->mutex, &at);
    bool all = g->running == 0;
    pthread_mutex_unlock(&g->mutex);
    return all;
}

void sl_pipe_guard_wait(struct sl_pipe *pipe) {
    while (!pipe->guard->abandoned && !await_end(pipe->guard)) {
        int64_t now = sl_clock_ns();
        look(pipe, now);
        judge(pipe, now);
        sl_pipe_halt_look(pipe);
        sl_pipe_tell(pipe);
    }
}
