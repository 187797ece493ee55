/* A step with the tempo of its workers: the schedule is played from several places in it. */
#include "search/candidate.h"

#include "base/sort.h"

enum { PLAYS_MAX = 33, ACTIONS_MAX = 1 << 20 }; /* of one plan, and all that they play */

static int64_t middle(int64_t *at, int count) {
    sl_sort_ints(at, count);
    return at[count / 2];
}

/* Without a flush a long step is often followed by a short one. */
static int64_t mean(const int64_t *at, int count) {
    int64_t sum = 0;
    for (int i = 0; i < count; i++)
        sum += at[i];
    return sum / count;
}

sl_err sl_search_tempo_step(const struct sl_sched *sched, const struct sl_sim_opts *opts,
                            const struct sl_tempo *tempo, const int64_t (*dur)[SL_KIND_COUNT],
                            int64_t *out) {
    int64_t steps[PLAYS_MAX];
    int64_t room = 1 + ACTIONS_MAX / (sl_sched_action_count(sched) + 1);
    int max = room < PLAYS_MAX ? (int)room : PLAYS_MAX;
    int plays = tempo->passes < max ? tempo->passes : max;
    struct sl_sim_opts play = *opts;
    play.tempo = *tempo;
    for (int i = 0; i < plays; i++) {
        struct sl_arena arena = {0};
        const struct sl_sim *sim;
        play.first_pass = (int64_t)i * tempo->passes / plays;
        sl_err err = sl_sim_run(&arena, sched, &play, &sim);
        if (err == SL_OK)
            steps[i] = sl_search_step_ns(sched, sim, dur);
        sl_arena_free(&arena);
        SL_TRY(err);
    }
    *out = sched->rule == SL_RULE_SYNC ? middle(steps, plays) : mean(steps, plays);
    return SL_OK;
}
