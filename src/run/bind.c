/* Binding workers to cores. */
#include "run/bind.h"

#include "base/map.h"
#include "run/cores.h"

#include <string.h>
#include <unistd.h>

void sl_bind_share(const struct sl_bind_rank *ranks, int count, int rank, int64_t *first,
                   int64_t *all) {
    *first = *all = 0;
    for (int r = 0; r < count; r++) {
        if (ranks[r].host != ranks[rank].host || ranks[r].cores != ranks[rank].cores)
            continue;
        *first += r < rank ? ranks[r].workers : 0;
        *all += ranks[r].workers;
    }
}

static sl_err ask_ranks(struct sl_comm *comm, const struct sl_cores *cores, int workers,
                        int64_t *first, int64_t *all) {
    struct sl_arena arena = {0};
    struct sl_bind_rank *ranks = SL_NEW(&arena, struct sl_bind_rank, comm->ranks);
    char host[256] = "";
    gethostname(host, sizeof host - 1);
    ranks[comm->rank] = (struct sl_bind_rank){
        .host = sl_hash(host, strlen(host)),
        .cores = sl_hash(cores->at, sizeof *cores->at * (size_t)cores->count),
        .workers = workers,
    };
    sl_err err = sl_comm_merge(comm, ranks, comm->ranks * (int64_t)sizeof *ranks);
    sl_bind_share(ranks, comm->ranks, comm->rank, first, all);
    sl_arena_free(&arena);
    return err;
}

sl_err sl_bind_choose(struct sl_comm *comm, enum sl_bind_mode mode, int workers, int threads,
                      struct sl_arena *arena, struct sl_bind *out) {
    struct sl_cores cores;
    int64_t first, all;
    *out = (struct sl_bind){0};
    if (mode == SL_BIND_NONE)
        return SL_OK;
    SL_TRY(sl_cores_list(arena, &cores));
    SL_TRY(ask_ranks(comm, &cores, workers, &first, &all));
    int64_t need = all * threads;
    if (need > cores.count && mode == SL_BIND_CORES)
        return sl_fail(SL_ERR_NO,
                       "--bind cores: %lld workers with %d threads each need %lld cores, and rank "
                       "%d may use %d here; use fewer threads or --bind none",
                       (long long)all, threads, (long long)need, comm->rank, cores.count);
    if (need > cores.count || (mode == SL_BIND_AUTO && 2 * need < cores.count))
        return SL_OK;
    out->count = workers;
    out->workers = SL_NEW(arena, cpu_set_t, workers);
    for (int w = 0; w < workers; w++)
        for (int t = 0; t < threads; t++)
            CPU_SET((size_t)cores.at[(first + w) * threads + t], &out->workers[w]);
    return SL_OK;
}

void sl_bind_enter(const struct sl_bind *bind, int worker, cpu_set_t *before) {
    if (!bind->workers)
        return;
    if (before && sched_getaffinity(0, sizeof *before, before) != 0)
        CPU_ZERO(before);
    if (sched_setaffinity(0, sizeof *bind->workers, &bind->workers[worker]) != 0)
        return; /* then it runs wherever the system likes */
}

void sl_bind_leave(const struct sl_bind *bind, const cpu_set_t *before) {
    if (bind->workers && CPU_COUNT(before) && sched_setaffinity(0, sizeof *before, before) != 0)
        return;
}
