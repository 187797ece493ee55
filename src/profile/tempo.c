/* Collects tempo: measured pass times relative to the table. */
#include "profile/tempo.h"

void sl_profile_tempo_open(struct sl_arena *arena, struct sl_tempo_log *log, int workers,
                           int rounds, int sizes) {
    int max = SL_TEMPO_PASSES / 2 / sizes;
    *log = (struct sl_tempo_log){
        .workers = workers, .rounds = rounds < max ? rounds : max, .sizes = sizes};
    log->millionths = SL_NEW(arena, int32_t, 2 * (int64_t)workers * sizes * log->rounds + 1);
}

/* Returns measured / table in millionths; SL_TEMPO_EVEN if the table has no time for the pass. */
static int32_t share(int64_t took, int64_t table) {
    if (table < 1)
        return SL_TEMPO_EVEN;
    double millionths = 1e6 * (double)took / (double)table;
    return millionths < SL_TEMPO_MAX ? (int32_t)(millionths + 0.5) : SL_TEMPO_MAX;
}

void sl_profile_tempo_add(struct sl_tempo_log *log, int worker, int size,
                          const struct sl_profile_pair *took, struct sl_profile_pair table) {
    int32_t *out =
        log->millionths + 2 * ((int64_t)worker * log->sizes + size) * (int64_t)log->rounds;
    for (int k = 0; k < log->rounds; k++) {
        out[2 * k] = share(took[k].f, table.f);
        out[2 * k + 1] = share(took[k].b, table.b);
    }
}

struct sl_tempo sl_profile_tempo_of(const struct sl_tempo_log *log) {
    return (struct sl_tempo){log->workers, 2 * log->sizes * log->rounds, log->millionths};
}
