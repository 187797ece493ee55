/* Turns around a ring of workers. */
#include "profile/relay.h"

#include "base/clock.h"
#include "base/sort.h"

#include <stddef.h>

enum { ROUNDS_MOST = 9 };

void sl_relay_open(struct sl_arena *arena, struct sl_relay *relay, int workers, int rounds) {
    rounds = workers < 2 ? 0 : rounds < ROUNDS_MOST ? rounds : ROUNDS_MOST;
    *relay = (struct sl_relay){.workers = workers, .rounds = rounds};
    relay->samples = SL_NEW(arena, struct sl_relay_sample, (int64_t)workers * rounds + 1);
    relay->turns = sl_arena_alloc(arena, (int64_t)sizeof *relay->turns * workers);
    for (int w = 0; w < workers; w++)
        atomic_init(&relay->turns[w], 0);
    sl_gate_open(&relay->gate);
}

void sl_relay_close(struct sl_relay *relay) { sl_gate_close(&relay->gate); }

struct wait {
    atomic_int *turns;
    int until;
};

static bool is_over(void *ctx) {
    struct wait *wait = ctx;
    return atomic_load(wait->turns) >= wait->until;
}

/* The worker before has had as many turns; the first one may be half a ring ahead of the last. */
static sl_err await(struct sl_relay *relay, int worker, int turn) {
    int ahead = relay->workers / 2;
    struct wait wait = {&relay->turns[worker ? worker - 1 : relay->workers - 1],
                        worker ? turn + 1 : turn + 1 - ahead};
    return sl_gate_wait(&relay->gate, is_over, &wait);
}

static sl_err take_turn(struct sl_relay *relay, int worker, struct sl_body *body, int turn,
                        int64_t *pass_ns, int64_t *waited_ns) {
    int64_t before = sl_clock_ns();
    SL_TRY(await(relay, worker, turn));
    int64_t start = sl_clock_ns();
    SL_TRY(sl_body_pass(body, turn % 2 ? SL_PHASE_B : SL_PHASE_F, 0));
    *pass_ns = sl_clock_ns() - start;
    *waited_ns = start - before;
    atomic_store(&relay->turns[worker], turn + 1);
    sl_gate_ring(&relay->gate);
    return SL_OK;
}

sl_err sl_relay_run(struct sl_relay *relay, int worker, struct sl_body *body) {
    struct sl_relay_sample *out = relay->samples + (int64_t)worker * relay->rounds;
    sl_err err = SL_OK;
    for (int round = 0; round < relay->rounds && err == SL_OK; round++) {
        int64_t f_waited = 0, b_waited = 0;
        err = sl_body_feed(body, 0, round);
        if (err == SL_OK)
            err = take_turn(relay, worker, body, 2 * round, &out[round].f_ns, &f_waited);
        if (err == SL_OK)
            err = take_turn(relay, worker, body, 2 * round + 1, &out[round].b_ns, &b_waited);
        out[round].waited_ns = (f_waited + b_waited) / 2;
    }
    if (err != SL_OK)
        sl_gate_fail(&relay->gate, err);
    return err;
}

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static int64_t middle(const struct sl_relay *relay, int worker, size_t field) {
    const struct sl_relay_sample *at = relay->samples + (int64_t)worker * relay->rounds;
    int64_t sorted[ROUNDS_MOST];
    for (int k = 0; k < relay->rounds; k++)
        sorted[k] = *(const int64_t *)(const void *)((const char *)&at[k] + field);
    sl_sort(sorted, relay->rounds, sizeof *sorted, compare);
    return sorted[relay->rounds / 2];
}

void sl_relay_add(const struct sl_relay *relay, int worker, int64_t warm_f_ns, int64_t warm_b_ns,
                  struct sl_cold *sum) {
    if (!relay->rounds)
        return;
    sum->f_ns += middle(relay, worker, offsetof(struct sl_relay_sample, f_ns)) - warm_f_ns;
    sum->b_ns += middle(relay, worker, offsetof(struct sl_relay_sample, b_ns)) - warm_b_ns;
    sum->after_ns += middle(relay, worker, offsetof(struct sl_relay_sample, waited_ns));
}

static int64_t within(int64_t ns) {
    return ns < 0 ? 0 : ns > SL_COLD_MOST_NS ? SL_COLD_MOST_NS : ns;
}

struct sl_cold sl_relay_mean(const struct sl_cold *sum, int count) {
    return (struct sl_cold){within(sum->f_ns / count), within(sum->b_ns / count),
                            within(sum->after_ns / count)};
}
