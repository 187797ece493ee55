/* Binding workers to cores. */
#include "run/bind.h"

#include "base/map.h"
#include "device/bind.h"

#include <string.h>
#include <unistd.h>

void sl_bind_share(const struct sl_bind_rank *ranks, int count, int rank, int64_t *first,
                   int64_t *all) {
    *first = *all = 0;
    for (int r = 0; r < count; r++) {
        if (ranks[r].host != ranks[rank].host || ranks[r].places != ranks[rank].places)
            continue;
        *first += r < rank ? ranks[r].workers : 0;
        *all += ranks[r].workers;
    }
}

static sl_err ask_ranks(struct sl_comm *comm, int workers, int64_t *first, int64_t *all) {
    struct sl_arena arena = {0};
    struct sl_bind_rank *ranks = SL_NEW(&arena, struct sl_bind_rank, comm->ranks);
    int *places = SL_NEW(&arena, int, SL_BIND_MOST), count = sl_bind_places(places);
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    ranks[comm->rank] = (struct sl_bind_rank){
        .host = sl_hash(host, strlen(host)),
        .places = sl_hash(places, sizeof *places * (size_t)count),
        .workers = workers,
    };
    sl_err err = sl_comm_merge(comm, ranks, comm->ranks * (int64_t)sizeof *ranks);
    sl_bind_share(ranks, comm->ranks, comm->rank, first, all);
    sl_arena_free(&arena);
    return err;
}

sl_err sl_bind_choose(struct sl_comm *comm, enum sl_bind_mode mode, int workers, int threads,
                      int *first) {
    int64_t before, all;
    *first = -1;
    if (mode == SL_BIND_NONE)
        return SL_OK;
    SL_TRY(ask_ranks(comm, workers, &before, &all));
    int64_t need = all * threads, have = sl_bind_count();
    if (need > have && mode == SL_BIND_CORES)
        return sl_fail(SL_ERR_NO,
                       "--bind cores: %lld workers of %d threads need %lld cores, and rank %d may "
                       "use %lld here; use fewer threads or --bind none",
                       (long long)all, threads, (long long)need, comm->rank, (long long)have);
    if (need > have || (mode == SL_BIND_AUTO && 2 * need < have))
        return SL_OK;
    *first = (int)(before * threads);
    return SL_OK;
}
