/* A step with the tempo of its workers: the schedule is played from several places in it. */
#include "search/candidate.h"

#include "base/sort.h"

enum { PLAYS_MOST = 33, ACTIONS_MOST = 1 << 20 }; /* of one plan, and all that they play */

static int compare(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

sl_err sl_tempo_step(const struct sl_sched *sched, const struct sl_sim_opts *opts,
                     const struct sl_tempo *tempo, const int64_t (*dur)[SL_KIND_COUNT],
                     int64_t *out) {
    int64_t steps[PLAYS_MOST];
    int64_t room = 1 + ACTIONS_MOST / (sl_sched_action_count(sched) + 1);
    int most = sched->rule == SL_RULE_SYNC ? PLAYS_MOST : 1;
    most = room < most ? (int)room : most;
    int plays = tempo->passes < most ? tempo->passes : most;
    struct sl_sim_opts play = *opts;
    play.tempo = *tempo;
    for (int i = 0; i < plays; i++) {
        struct sl_arena arena = {0};
        const struct sl_sim *sim;
        play.first_pass = (int64_t)i * tempo->passes / plays;
        sl_err err = sl_sim_run(&arena, sched, &play, &sim);
        if (err == SL_OK)
            steps[i] = sl_step_ns(sched, sim, dur);
        sl_arena_free(&arena);
        SL_TRY(err);
    }
    sl_sort(steps, plays, sizeof *steps, compare);
    *out = steps[plays / 2];
    return SL_OK;
}
