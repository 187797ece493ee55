/* A hash of the actions before a cut. */
#include "base/hash.h"
#include "pipe/resume.h"
#include "sched/cut.h"

/* If more than HASHED_WHOLE actions precede the cut, only the last HASHED_TAIL are hashed, with the
 * repeating lists. */
enum { HASHED_WHOLE = 1 << 20, HASHED_TAIL = 1 << 13 };

static void hash_lists(struct sl_hasher *hasher, const struct sl_sched *sched, int worker) {
    for (int segment = SL_PROLOGUE; segment <= SL_PERIOD; segment++) {
        const struct sl_actions *list = &sched->lists[segment][worker];
        sl_hasher_add(hasher, list->at, sizeof *list->at * (size_t)list->count);
    }
}

uint64_t sl_pipe_cut_hash(const struct sl_sched *sched, const int64_t *at) {
    struct sl_hasher *hasher = sl_hasher_open();
    int64_t all = 0;
    for (int w = 0; w < sched->plan->worker_count; w++)
        all += at[w];
    for (int w = 0; w < sched->plan->worker_count; w++) {
        int64_t from = all > HASHED_WHOLE && at[w] > HASHED_TAIL ? at[w] - HASHED_TAIL : 0;
        if (from)
            hash_lists(hasher, sched, w);
        sl_hasher_add(hasher, &at[w], sizeof at[w]);
        for (int64_t i = from; i < at[w]; i++) {
            struct sl_spot spot = sl_sched_spot(sched, w, i);
            const struct sl_action *listed = &sched->lists[spot.segment][w].at[spot.index];
            int seat = sl_sched_seat(sched->plan, listed->stage, w);
            struct sl_action a = sl_sched_at(sched, seat, listed, spot.rep);
            sl_hasher_add(hasher, &a, sizeof a);
        }
    }
    uint64_t hash = sl_hasher_value(hasher);
    sl_hasher_close(hasher);
    return hash;
}
