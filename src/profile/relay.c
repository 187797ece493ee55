/* Relay: the workers of a ring take turns. */
#include "profile/relay.h"

#include "base/clock.h"
#include "base/sort.h"

#include <stddef.h>

enum { PASSES = 3 /* per turn */, RARE = 32 /* leave out the longest 1/32 of the hand-overs */ };

void sl_profile_relay_open(struct sl_arena *arena, struct sl_relay *relay, int workers,
                           int rounds) {
    int max = sl_rounds_of(workers);
    rounds = workers < 2 ? 0 : rounds < max ? rounds : max;
    *relay = (struct sl_relay){.workers = workers, .rounds = rounds};
    relay->samples = SL_NEW(arena, struct sl_relay_sample, (int64_t)workers * rounds + 1);
    relay->turns = sl_arena_alloc(arena, (int64_t)sizeof *relay->turns * workers);
    relay->ended_ns = SL_NEW(arena, int64_t, 2 * (int64_t)workers * rounds + 1);
    relay->late_ns = SL_NEW(arena, int64_t, 2 * (int64_t)workers * rounds + 1);
    for (int w = 0; w < workers; w++)
        atomic_init(&relay->turns[w], 0);
    sl_comm_gate_open(&relay->gate);
}

void sl_profile_relay_close(struct sl_relay *relay) { sl_comm_gate_close(&relay->gate); }

struct wait {
    atomic_int *turns;
    int until;
};

static bool is_over(void *ctx) {
    struct wait *wait = ctx;
    return atomic_load(wait->turns) >= wait->until;
}

/* Waits until the predecessor has completed this turn. Worker 0 may be half a ring ahead of the
 * last worker. */
static sl_err await(struct sl_relay *relay, int worker, int turn) {
    int before = worker ? worker - 1 : relay->workers - 1;
    int64_t all = 2 * (int64_t)relay->rounds, begin = sl_clock_ns();
    struct wait wait = {&relay->turns[before], worker ? turn + 1 : turn + 1 - relay->workers / 2};
    SL_TRY(sl_comm_gate_wait(&relay->gate, is_over, &wait));
    int64_t ended = wait.until > 0 ? relay->ended_ns[before * all + wait.until - 1] : begin;
    relay->late_ns[worker * all + turn] = ended > begin ? sl_clock_ns() - ended : -1;
    return SL_OK;
}

/* Runs pass n of a worker. F and B alternate, as in a run; B is of the micro-batch before the last
 * one. */
static sl_err time_pass(struct sl_body *body, int n, int64_t *out_ns) {
    enum sl_phase phase = n % 2 ? SL_PHASE_B : SL_PHASE_F;
    int slot = (n / 2 + (phase == SL_PHASE_F)) % 2;
    if (phase == SL_PHASE_F)
        SL_TRY(sl_profile_body_feed(body, slot, n / 2 + 1));
    int64_t start = sl_clock_ns();
    SL_TRY(sl_profile_body_pass(body, phase, slot));
    *out_ns = sl_clock_ns() - start;
    return SL_OK;
}

struct turn {
    int64_t pass_ns[PASSES], waited_ns;
};

static sl_err take_turn(struct sl_relay *relay, int worker, struct sl_body *body, int number,
                        struct turn *turn) {
    int64_t before = sl_clock_ns();
    SL_TRY(await(relay, worker, number));
    turn->waited_ns = sl_clock_ns() - before;
    for (int i = 0; i < PASSES; i++)
        SL_TRY(time_pass(body, PASSES * number + i, &turn->pass_ns[i]));
    relay->ended_ns[worker * 2 * (int64_t)relay->rounds + number] = sl_clock_ns();
    atomic_store(&relay->turns[worker], number + 1);
    sl_comm_gate_ring(&relay->gate);
    return SL_OK;
}

/* Runs two turns: F B F, then B F B. */
static sl_err run_round(struct sl_relay *relay, int worker, struct sl_body *body, int round,
                        struct sl_relay_sample *out) {
    struct turn f, b;
    SL_TRY(take_turn(relay, worker, body, 2 * round, &f));
    SL_TRY(take_turn(relay, worker, body, 2 * round + 1, &b));
    *out = (struct sl_relay_sample){.f_ns = f.pass_ns[0] - f.pass_ns[PASSES - 1],
                                    .b_ns = b.pass_ns[0] - b.pass_ns[PASSES - 1],
                                    .waited_ns = (f.waited_ns + b.waited_ns) / 2};
    return SL_OK;
}

sl_err sl_profile_relay_run(struct sl_relay *relay, int worker, struct sl_body *body) {
    struct sl_relay_sample *out = relay->samples + (int64_t)worker * relay->rounds;
    sl_err err = sl_profile_body_feed(body, 0, 0);
    if (err == SL_OK)
        err = sl_profile_body_pass(body, SL_PHASE_F, 0);
    for (int round = 0; round < relay->rounds && err == SL_OK; round++)
        err = run_round(relay, worker, body, round, &out[round]);
    if (err != SL_OK)
        sl_comm_gate_fail(&relay->gate, err);
    return err;
}

static int64_t middle(const struct sl_relay *relay, int worker, size_t field) {
    const struct sl_relay_sample *at = relay->samples + (int64_t)worker * relay->rounds;
    int64_t sorted[SL_ROUNDS_MAX];
    for (int k = 0; k < relay->rounds; k++)
        sorted[k] = *(const int64_t *)(const void *)((const char *)&at[k] + field);
    sl_sort_ints(sorted, relay->rounds);
    return sorted[relay->rounds / 2];
}

void sl_profile_relay_add(const struct sl_relay *relay, int worker, struct sl_cold *sum) {
    if (!relay->rounds)
        return;
    sum->f_ns += middle(relay, worker, offsetof(struct sl_relay_sample, f_ns));
    sum->b_ns += middle(relay, worker, offsetof(struct sl_relay_sample, b_ns));
    sum->after_ns += middle(relay, worker, offsetof(struct sl_relay_sample, waited_ns));
}

int64_t sl_profile_relay_late(struct sl_relay *relay) {
    int64_t count = 0, sum = 0;
    for (int64_t i = 0; i < 2 * (int64_t)relay->workers * relay->rounds; i++)
        if (relay->late_ns[i] >= 0)
            relay->late_ns[count++] = relay->late_ns[i];
    sl_sort_ints(relay->late_ns, count);
    count -= count / RARE;
    for (int64_t i = 0; i < count; i++)
        sum += relay->late_ns[i];
    return count ? sum / count : 0;
}

static int64_t within(int64_t ns) { return ns < 0 ? 0 : ns > SL_COLD_MAX_NS ? SL_COLD_MAX_NS : ns; }

struct sl_cold sl_profile_relay_mean(const struct sl_cold *sum, int count) {
    return (struct sl_cold){within(sum->f_ns / count), within(sum->b_ns / count),
                            within(sum->after_ns / count)};
}
