/* The watchdog of a pipeline. The thread that started the workers waits for their end. Four times a
 * second it reads the status of all workers; sched/waits.c decides whether any worker is
 * stalled.
 *
 *   moves  --no change for longer than the limit-->  stalled: the gate fails, all waits end
 *          --slow, but within the limit---------->  a warning, once per action
 *   failed, and a local worker still does not move
 *          --give_up_ns-------------------------->  abandoned: its thread and all memory that it may
 *                                                   use stay, so that the process can end
 *
 * Time in which a worker is ready but has no CPU does not count. The watchdog measures it for local
 * workers and publishes it with their status.
 *
 * The transport detects dead and unreachable ranks; explain() adds what is known about them. */
#include "pipe/halt.h"
#include "pipe/reporter.h"
#include "pipe/state.h"

#include "base/clock.h"
#include "base/log.h"
#include "graph/stats.h"
#include "pipe/starved.h"

#include <stdlib.h>
#include <time.h>

enum { CHAIN_MAX = 6 };
static const int64_t look_ns = 250000000, give_up_ns = 2000000000, remote_ns = 2000000000;
/* Time limit for a circle of waits. It is long because messages may take long. */
static const int64_t circle_ns = 60000000000;
static const double first_flops = 1e10; /* flops per second, assumed before the first measurement */

struct sl_pipe_watchdog {
    pthread_mutex_t mutex;
    pthread_cond_t ended;
    int running; /* number of local workers that run */
    bool abandoned;
    struct sl_work *now, *fresh; /* [worker] the status at the last look, and the one just read */
    int64_t *changed_ns;         /* [worker] when its status last changed */
    int64_t *warned_about;       /* [worker] number of the action that it was last warned about */
    int64_t *cpu_ns;             /* [worker] state of sl_pipe_starved_poll */
    int64_t last_ns, failed_ns;
};

/* ---- messages ---- */

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

/* Writes the chain of waits that ends at worker `last`. */
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

/* Describes a lost rank: its stages, its last action, the workers that wait for it. Called by a
 * thread of the transport. */
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
        sl_pipe_status_read(pipe, all);
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
    struct sl_pipe_watchdog *g = pipe->watchdog;
    struct sl_text text = {0};
    if (g->warned_about[worker] == g->now[worker].done)
        return;
    g->warned_about[worker] = g->now[worker].done;
    put_worker(&text, pipe, g->now, worker);
    sl_log_warn("slow: %s, for %.1f s", text.at, (double)g->now[worker].still_ns * 1e-9);
    sl_text_free(&text);
}

/* ---- observation ---- */

static bool has_moved(const struct sl_work *a, const struct sl_work *b) {
    return a->known != b->known || a->busy != b->busy || a->done != b->done || a->wait != b->wait ||
           a->of != b->of || a->peer != b->peer || a->peer_micro != b->peer_micro ||
           a->moved != b->moved;
}

/* Adds the starved time of local workers to their status. */
static void add_starved(struct sl_pipe *pipe, int64_t span_ns) {
    for (int w = 0; w < pipe->config.plan->worker_count; w++) {
        struct sl_pipe_status *notes = &pipe->workers[w].status;
        if (!sl_pipe_is_local(pipe, w))
            continue;
        int64_t ns =
            sl_pipe_starved_poll(atomic_load_explicit(&notes->thread, memory_order_relaxed),
                                 span_ns, &pipe->watchdog->cpu_ns[w]);
        atomic_fetch_add_explicit(&notes->starved_ns, ns, memory_order_relaxed);
    }
}

/* Reads the status of all workers and computes how long each has not changed. Time in which this
 * process was not running, or the worker was starved, does not count. */
static void look(struct sl_pipe *pipe, int64_t now_ns) {
    struct sl_pipe_watchdog *g = pipe->watchdog;
    int count = pipe->config.plan->worker_count;
    struct sl_work *fresh = g->fresh;
    int64_t away_ns = now_ns - g->last_ns;
    g->last_ns = now_ns;
    add_starved(pipe, away_ns);
    sl_pipe_status_read(pipe, fresh);
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
    return worker >= 0 && sl_pipe_is_local(pipe, worker);
}

static void judge(struct sl_pipe *pipe, int64_t now_ns) {
    struct sl_pipe_watchdog *g = pipe->watchdog;
    int count = pipe->config.plan->worker_count, who = -1;
    struct sl_stall_rule rule = {.floor_ns =
                                     pipe->config.stall_ns ? pipe->config.stall_ns : SL_STALL_NS,
                                 .remote_ns = remote_ns,
                                 .first = 0,
                                 .last_here = -1};
    rule.circle_ns = rule.floor_ns > circle_ns ? rule.floor_ns : circle_ns;
    for (int w = count - 1; w >= 0; w--)
        if (sl_pipe_is_local(pipe, w)) {
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

/* Returns the duration of a pass on a slow machine, used before the first measurement. */
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

void sl_pipe_watchdog_open(struct sl_pipe *pipe) {
    int count = pipe->config.plan->worker_count;
    struct sl_pipe_watchdog *g = SL_NEW(&pipe->arena, struct sl_pipe_watchdog, 1);
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
    pipe->watchdog = g;
    int64_t guess = guess_ns(pipe);
    for (int w = 0; w < count; w++) {
        sl_pipe_status_action(&pipe->workers[w], NULL);
        for (int k = 0; k < SL_KIND_COUNT; k++)
            atomic_store_explicit(&pipe->workers[w].status.longest_ns[k], guess,
                                  memory_order_relaxed);
    }
    struct sl_comm_hooks hooks = {.ctx = pipe,
                                  .explain = explain,
                                  .state = sl_pipe_status_publish,
                                  .state_bytes = sl_pipe_status_bytes(pipe, pipe->comm->rank)};
    sl_comm_hook(pipe->comm, &hooks);
}

void sl_pipe_watchdog_close(struct sl_pipe *pipe) {
    if (!pipe->watchdog)
        return;
    sl_comm_hook(pipe->comm, NULL);
    if (pipe->watchdog->abandoned)
        return;
    pthread_mutex_destroy(&pipe->watchdog->mutex);
    pthread_cond_destroy(&pipe->watchdog->ended);
}

bool sl_pipe_is_abandoned(const struct sl_pipe *pipe) {
    return pipe && pipe->watchdog && pipe->watchdog->abandoned;
}

/* Sets the expected duration of each kind of action in the current schedule: the longest of the
 * worker's stages. */
static void expect(struct sl_pipe *pipe, int worker) {
    const struct sl_plan *plan = pipe->config.plan;
    struct sl_pipe_status *notes = &pipe->workers[worker].status;
    for (int k = 0; k < SL_KIND_COUNT; k++) {
        notes->expected_ns[k] = 0;
        for (int i = 0; i < plan->worker_seat_count[worker]; i++) {
            int64_t ns = pipe->sched->dur_ns[plan->seats[plan->worker_seats[worker][i]].stage][k];
            notes->expected_ns[k] = ns > notes->expected_ns[k] ? ns : notes->expected_ns[k];
        }
    }
}

void sl_pipe_watchdog_start(struct sl_pipe *pipe, int workers) {
    struct sl_pipe_watchdog *g = pipe->watchdog;
    g->running = workers;
    g->failed_ns = 0;
    g->last_ns = sl_clock_ns();
    for (int w = 0; w < pipe->config.plan->worker_count; w++) {
        g->changed_ns[w] = g->last_ns;
        g->cpu_ns[w] = 0; /* the new run has a new thread */
        atomic_store_explicit(&pipe->workers[w].status.thread, 0, memory_order_relaxed);
        expect(pipe, w);
    }
}

void sl_pipe_watchdog_ended(struct sl_pipe *pipe) {
    pthread_mutex_lock(&pipe->watchdog->mutex);
    if (--pipe->watchdog->running == 0)
        pthread_cond_signal(&pipe->watchdog->ended);
    pthread_mutex_unlock(&pipe->watchdog->mutex);
}

/* Waits until all local workers have ended or it is time to look again. Returns true if all have
 * ended. */
static bool await_end(struct sl_pipe_watchdog *g) {
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

void sl_pipe_watchdog_wait(struct sl_pipe *pipe) {
    while (!pipe->watchdog->abandoned && !await_end(pipe->watchdog)) {
        int64_t now = sl_clock_ns();
        look(pipe, now);
        judge(pipe, now);
        sl_pipe_halt_poll(pipe);
        sl_pipe_reporter_poll(pipe);
    }
}
