/* Binding workers to cores. */
#include "pipe/bind.h"

#include "base/log.h"
#include "base/map.h"
#include "device/bind.h"

#include <string.h>
#include <unistd.h>

void sl_pipe_bind_share(const struct sl_bind_rank *ranks, int count, int rank, int64_t *first,
                        int64_t *all) {
    *first = *all = 0;
    for (int r = 0; r < count; r++) {
        if (ranks[r].host != ranks[rank].host || ranks[r].places != ranks[rank].places)
            continue;
        *first += r < rank ? ranks[r].workers : 0;
        *all += ranks[r].workers;
    }
}

int sl_pipe_bind_find_crowded(const struct sl_bind_rank *ranks, int count, int threads) {
    for (int r = 0; r < count; r++) {
        int64_t first, all;
        sl_pipe_bind_share(ranks, count, r, &first, &all);
        if (ranks[r].have > 0 && all * threads > ranks[r].have && ranks[r].have < ranks[r].online)
            return r;
    }
    return -1;
}

static void warn_of_crowd(const struct sl_bind_rank *ranks, int count, int rank, int threads) {
    const struct sl_bind_rank *here = &ranks[rank];
    int64_t first, all;
    sl_pipe_bind_share(ranks, count, rank, &first, &all);
    all *= threads;
    sl_log_warn("rank %d: %lld threads share %lld of the host's %lld CPUs, all it may "
                "use%s",
                rank, (long long)all, (long long)here->have, (long long)here->online,
                count > 1 ? ": if mpirun has bound it, try its '--bind-to none' or "
                            "'--map-by slot:PE=THREADS'"
                          : " (taskset or a control group); use fewer stages or threads, or give "
                            "it more CPUs");
}

static sl_err ask_ranks(struct sl_comm *comm, int workers, int threads, int64_t *first,
                        int64_t *all) {
    struct sl_arena arena = {0};
    struct sl_bind_rank *ranks = SL_NEW(&arena, struct sl_bind_rank, comm->ranks);
    int *places = SL_NEW(&arena, int, SL_BIND_MAX), count = sl_device_bind_places(places);
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    ranks[comm->rank] = (struct sl_bind_rank){
        .host = sl_hash(host, strlen(host)),
        .places = sl_hash(places, sizeof *places * (size_t)count),
        .workers = workers,
        .have = count,
        .online = sysconf(_SC_NPROCESSORS_ONLN),
    };
    sl_err err = sl_comm_merge(comm, ranks, comm->ranks * (int64_t)sizeof *ranks);
    sl_pipe_bind_share(ranks, comm->ranks, comm->rank, first, all);
    if (err == SL_OK && sl_pipe_bind_find_crowded(ranks, comm->ranks, threads) == comm->rank)
        warn_of_crowd(ranks, comm->ranks, comm->rank, threads);
    sl_arena_free(&arena);
    return err;
}

sl_err sl_pipe_bind_choose(struct sl_comm *comm, enum sl_bind_mode mode, int workers, int threads,
                           int *first) {
    int64_t before, all;
    *first = -1;
    comm->gate.own_places = false;
    SL_TRY(ask_ranks(comm, workers, threads, &before, &all));
    if (mode == SL_BIND_NONE)
        return SL_OK;
    int64_t need = all * threads, have = sl_device_bind_count();
    if (need > have && mode == SL_BIND_CORES)
        return sl_fail(SL_ERR_REFUSED,
                       "`bind` cores: %lld workers of %d threads need %lld cores, and rank %d may "
                       "use %lld; use fewer threads or `bind` none",
                       (long long)all, threads, (long long)need, comm->rank, (long long)have);
    if (need > have || (mode == SL_BIND_AUTO && 2 * need < have))
        return SL_OK;
    *first = (int)(before * threads);
    comm->gate.own_places = true;
    return SL_OK;
}
