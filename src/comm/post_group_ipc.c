/* Sums of ranks that share device memory (ipc.c). Each rank shares an area that contains
 *
 *     terms of other ranks: its slice of each  |  the sum, twice
 *
 * The other ranks write to it: their terms at begin, their slices of the sum after adding. A
 * flag message follows each write. A rank can be at most one sum ahead of another, because it
 * needs all slices; so sums alternate between two buffers. Terms need one buffer: a rank that
 * begins a sum has all slices of the previous one, so all its terms have been read. */
#include "comm/post_group.h"

/* Counts the terms before `term` that other ranks send to this one. */
static int64_t count_arriving(const struct group *group, int rank, int term) {
    int64_t count = 0;
    for (int t = 0; t < term; t++)
        count += group_rank_of_term(group, t) != group->ranks.at[rank];
    return count;
}

static int64_t sum_floats(const struct group *group) {
    return (group->base.spec.sum_max + 15) & ~15LL;
}

int64_t sl_comm_group_ipc_bytes(const struct group *group, int rank) {
    int64_t arriving = count_arriving(group, rank, group->base.spec.term_count);
    return (arriving * group->slice_max + 2 * sum_floats(group)) * (int64_t)sizeof(float);
}

static float *floats_of(const struct group *group, int rank) {
    return (float *)(void *)group->shared[rank].area.at;
}

float *sl_comm_group_ipc_sum(const struct group *group, int rank) {
    int64_t arriving = count_arriving(group, rank, group->base.spec.term_count);
    return floats_of(group, rank) + arriving * group->slice_max +
           group->sums % 2 * sum_floats(group);
}

void sl_comm_group_ipc_close(struct group *group) {
    for (int r = 0; group->shared && r < group->ranks.count; r++)
        sl_comm_ipc_close((struct sl_post *)group->base.comm, &group->shared[r]);
    group->ipc = false;
}

/* Connects all pairs, in the same order on all ranks. */
sl_err sl_comm_group_ipc_open(struct group *group, const struct sl_group_spec *spec) {
    struct sl_post *post = (struct sl_post *)group->base.comm;
    int me = group->ranks.me, count = group->ranks.count;
    int64_t refused = 0, scratch = 0;
    if (!spec->ipc || post->nccl_link || count < 2)
        return SL_OK;
    group->shared = SL_NEW(&group->arena, struct sl_ipc, count);
    for (int i = 0; i < count * count; i++) {
        int owner = i / count, other = i % count;
        struct sl_ipc_pair pair = {
            .from = group->ranks.at[other],
            .to = group->ranks.at[owner],
            .tag = group->ranks.tag + SL_MERGE_STEPS,
            .device = spec->devices[group->leader],
            .size_bytes = sl_comm_group_ipc_bytes(group, owner),
        };
        if (owner == other || (owner != me && other != me))
            continue;
        SL_TRY(sl_comm_ipc_open(post, &pair, &group->shared[owner]));
        refused |= !group->shared[owner].area.at;
    }
    SL_TRY(sl_comm_post_merge(post, &group->ranks, &refused, &scratch, sizeof refused));
    if (refused)
        sl_comm_group_ipc_close(group);
    group->ipc = !refused;
    return SL_OK;
}

sl_err sl_comm_group_ipc_give(const struct group *group, int member, int term, int64_t count) {
    struct sl_device *device = group->devices[member];
    for (int r = 0; r < group->ranks.count; r++) {
        struct sl_crew_slice slice = sl_comm_slice_of(count, r, group->ranks.count);
        float *to = floats_of(group, r) + count_arriving(group, r, term) * group->slice_max;
        if (r != group->ranks.me && slice.count)
            SL_TRY(device->row->copy(device, SL_STREAM_COMPUTE, to,
                                     group->terms[term] + slice.first, slice.count * 4));
    }
    return SL_OK;
}

sl_err sl_comm_group_ipc_hand(const struct group *group, struct sl_crew_slice own) {
    struct sl_device *device = group->devices[group->leader];
    const float *from = sl_comm_group_ipc_sum(group, group->ranks.me) + own.first;
    for (int r = 0; r < group->ranks.count; r++)
        if (r != group->ranks.me && own.count)
            SL_TRY(device->row->copy(device, SL_STREAM_COMPUTE,
                                     sl_comm_group_ipc_sum(group, r) + own.first, from,
                                     own.count * 4));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}
