/* Groups over tagged messages. The members of a rank are a crew; its first member, the leader,
 * exchanges messages with the leaders of the other ranks.
 *
 * Tables: leaders merge theirs (sl_comm_post_merge) between two barriers of their crews.
 *
 * Sums: rank r adds slice r of all terms, in their order, and sends it to the other ranks. A rank
 * sends its terms when all its members have begun. When the terms of the others have arrived, the
 * next poke of the leader adds and sends the result. Device memory is copied to host memory for
 * sending; or the ranks share it (post_group_ipc.c) and send only flag messages. */
#include "comm/post_group.h"

#include "comm/nccl_link.h"

#include <stdlib.h>
#include <string.h>

/* ---- tables ---- */

static int index_in(const int *ranks, int count, int rank) {
    for (int i = 0; i < count; i++)
        if (ranks[i] == rank)
            return i;
    return -1;
}

/* Like the merge in one process, with a merge of the leaders between the two barriers. */
sl_err sl_comm_post_group_merge(struct sl_group *base, int member, double *table, int64_t count) {
    struct group *group = (struct group *)base;
    int64_t max = base->spec.table_max, members = base->spec.member_count;
    int turn = (int)(group->rounds[member]++ % 2);
    uint64_t *set = group->tables + turn * members * max, *merged = group->merged[turn];
    int64_t bytes = count * (int64_t)sizeof *merged;
    if (count)
        memcpy(set + member * max, table, (size_t)bytes);
    SL_TRY(sl_comm_crew_meet(&group->crew));
    if (member == group->leader) {
        memset(merged, 0, (size_t)bytes);
        for (int i = 0; i < members; i++)
            if (base->spec.ranks[i] == base->comm->rank)
                sl_comm_merge_words(merged, set + i * max, count);
        SL_TRY(sl_comm_post_merge((struct sl_post *)base->comm, &group->ranks, merged,
                                  group->scratch, bytes));
    }
    SL_TRY(sl_comm_crew_meet(&group->crew));
    if (count)
        memcpy(table, merged, (size_t)bytes);
    return SL_OK;
}

/* ---- sums ---- */

static int term_tag(const struct group *group, int term) {
    return group->ranks.tag + SL_MERGE_STEPS + 1 + term;
}

/* Sends floats, under the lock. With ipc they are already there, so only a flag message is sent. */
static sl_err send_floats(struct group *group, const float *at, int64_t count, int to, int tag) {
    struct sl_transfer *op = &group->ops[group->op_count++];
    return sl_comm_post_send((struct sl_post *)group->base.comm, op, group->ipc ? NULL : at,
                             group->ipc ? 0 : count * 4, to, tag);
}

static sl_err receive_floats(struct group *group, float *at, int64_t count, int from, int tag) {
    struct sl_transfer *op = &group->ops[group->op_count++];
    return sl_comm_post_receive((struct sl_post *)group->base.comm, op, group->ipc ? NULL : at,
                                group->ipc ? 0 : count * 4, from, tag);
}

/* Under the lock. For a term of another rank: receives this rank's slice of it. For one of ours:
 * sends the other ranks their slices. */
static sl_err move_term(struct group *group, int term, float **arrived) {
    int owner = group_rank_of_term(group, term), tag = term_tag(group, term);
    struct sl_crew_slice slice =
        sl_comm_slice_of(group->sum_count, group->ranks.me, group->ranks.count);
    if (owner != group->base.comm->rank) {
        /* so that indices of the whole vector can be used */
        group->terms[term] = *arrived - slice.first;
        SL_TRY(receive_floats(group, *arrived, slice.count, owner, tag));
        *arrived += group->slice_max;
        return SL_OK;
    }
    for (int r = 0; r < group->ranks.count; r++) {
        slice = sl_comm_slice_of(group->sum_count, r, group->ranks.count);
        if (r != group->ranks.me)
            SL_TRY(send_floats(group, group->terms[term] + slice.first, slice.count,
                               group->ranks.at[r], tag));
    }
    return SL_OK;
}

/* Places the terms of a member and its result in memory that messages can use. */
static sl_err place_member(struct group *group, int member, const float *const *terms,
                           int64_t count, float *out) {
    const struct sl_group_spec *spec = &group->base.spec;
    struct mirror *mirror = &group->mirrors[member];
    float *at = mirror->terms;
    group->outs[member] = out;
    for (int t = 0; t < spec->term_count; t++) {
        if (spec->terms[t] != member)
            continue;
        group->terms[t] = *terms++;
        if (group->ipc)
            SL_TRY(sl_comm_group_ipc_give(group, member, t, count));
        if (!mirror->device)
            continue;
        SL_TRY(mirror->device->row->download(mirror->device, SL_STREAM_COMPUTE, at, group->terms[t],
                                             count * 4));
        group->terms[t] = at;
        at += spec->sum_max;
    }
    if (!mirror->device && !group->ipc)
        return SL_OK;
    mirror->out = out;
    group->outs[member] = at;
    return group->devices[member]->row->sync(group->devices[member], SL_STREAM_COMPUTE);
}

sl_err sl_comm_post_sum_begin(struct sl_group *base, int member, const float *const *terms,
                              int64_t count, float *out) {
    struct group *group = (struct group *)base;
    struct sl_post *post = (struct sl_post *)base->comm;
    float *arrived = group->arrived;
    SL_TRY(place_member(group, member, terms, count, out));
    if (member == group->leader) {
        group->sum_count = count;
        group->added = false;
        group->sums++;
        if (group->ipc)
            group->outs[member] = sl_comm_group_ipc_sum(group, group->ranks.me);
    }
    if (atomic_fetch_add(&group->begun, 1) + 1 < group->crew.members)
        return SL_OK;
    /* the last member has begun, so all terms of this rank are known */
    sl_err err = SL_OK;
    atomic_store(&group->begun, 0);
    group->op_count = 0;
    sl_comm_post_lock(post);
    for (int t = 0; t < base->spec.term_count && err == SL_OK; t++)
        err = move_term(group, t, &arrived);
    sl_comm_post_unlock(post);
    atomic_fetch_add(&group->posted, 1);
    sl_comm_gate_ring(&base->comm->gate);
    return err;
}

static bool is_posted(void *ctx) {
    struct group *group = ctx;
    return atomic_load_explicit(&group->posted, memory_order_acquire) >= group->sums;
}

static bool is_idle(struct group *group) {
    for (int i = 0; i < group->op_count; i++)
        if (atomic_load_explicit(&group->ops[i].busy, memory_order_acquire))
            return false;
    return true;
}

/* Called by the leader when all terms have arrived: adds this rank's slice, then exchanges
 * slices. */
static sl_err add_slice(struct group *group) {
    struct sl_post *post = (struct sl_post *)group->base.comm;
    struct sl_crew_slice own =
        sl_comm_slice_of(group->sum_count, group->ranks.me, group->ranks.count);
    int tag = group->ranks.tag + SL_MERGE_STEPS, term_count = group->base.spec.term_count;
    float *out = group->outs[group->leader];
    sl_err err = SL_OK;
    SL_TRY(sl_comm_adder_sum(&group->adder, group->terms, term_count, own, out));
    if (group->ipc)
        SL_TRY(sl_comm_group_ipc_hand(group, own));
    group->added = true;
    group->op_count = 0;
    sl_comm_post_lock(post);
    for (int r = 0; r < group->ranks.count && err == SL_OK; r++) {
        struct sl_crew_slice slice = sl_comm_slice_of(group->sum_count, r, group->ranks.count);
        if (r == group->ranks.me)
            continue;
        err = receive_floats(group, out + slice.first, slice.count, group->ranks.at[r], tag);
        if (err == SL_OK)
            err = send_floats(group, out + own.first, own.count, group->ranks.at[r], tag);
    }
    sl_comm_post_unlock(post);
    return err;
}

sl_err sl_comm_post_sum_poke(struct sl_group *base, int member) {
    struct group *group = (struct group *)base;
    if (member != group->leader || group->added || !is_posted(group) || !is_idle(group))
        return SL_OK;
    return add_slice(group);
}

static sl_err finish_sum(struct group *group) {
    struct sl_post *post = (struct sl_post *)group->base.comm;
    if (!group->added) {
        SL_TRY(sl_comm_gate_wait(&post->base.gate, is_posted, group));
        SL_TRY(sl_comm_post_wait(post, group->ops, group->op_count));
        SL_TRY(add_slice(group));
    }
    return sl_comm_post_wait(post, group->ops, group->op_count);
}

/* Copies the sum from the leader to a member, and to the member's device. */
static sl_err hand_out(struct group *group, int member, float *out) {
    struct mirror *mirror = &group->mirrors[member];
    struct sl_device *device = group->devices[member];
    int64_t bytes = group->sum_count * 4;
    const float *sum = group->outs[group->leader];
    if (mirror->device)
        SL_TRY(device->row->upload(device, SL_STREAM_COMPUTE, mirror->out, sum, bytes));
    else if (group->ipc || member != group->leader)
        SL_TRY(device->row->copy(device, SL_STREAM_COMPUTE, out, sum, bytes));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

sl_err sl_comm_post_sum_end(struct sl_group *base, int member) {
    struct group *group = (struct group *)base;
    float *out = group->ipc ? group->mirrors[member].out : group->outs[member];
    if (member == group->leader)
        SL_TRY(finish_sum(group));
    SL_TRY(sl_comm_crew_meet(&group->crew));
    SL_TRY(hand_out(group, member, out));
    return sl_comm_crew_meet(&group->crew);
}

/* ---- opening ---- */

static void list_ranks(struct group *group, const struct sl_group_spec *spec) {
    int rank = group->base.comm->rank;
    group->ranks.at = SL_NEW(&group->arena, int, spec->member_count);
    group->leader = -1;
    for (int i = 0; i < spec->member_count; i++) {
        if (index_in(group->ranks.at, group->ranks.count, spec->ranks[i]) < 0)
            group->ranks.at[group->ranks.count++] = spec->ranks[i];
        if (spec->ranks[i] != rank)
            continue;
        group->crew.members++;
        if (group->leader < 0)
            group->leader = i;
    }
    group->ranks.me = index_in(group->ranks.at, group->ranks.count, rank);
}

static int *copy_ints(struct sl_arena *arena, const int *from, int count) {
    int *to = SL_NEW(arena, int, count + 1);
    if (count)
        memcpy(to, from, sizeof *to * (size_t)count);
    return to;
}

static sl_err alloc_floats(int64_t floats, float **out) {
    int64_t bytes = floats * 4 / 64 * 64 + 64;
    *out = aligned_alloc(64, (size_t)bytes);
    if (*out)
        return SL_OK;
    return sl_fail(SL_ERR_SYSTEM, "cannot allocate %lld bytes to add up gradients",
                   (long long)bytes);
}

static sl_err open_mirrors(struct group *group, const struct sl_group_spec *spec) {
    bool links = ((struct sl_post *)group->base.comm)->nccl_link || group->ipc;
    for (int i = 0; i < spec->member_count; i++) {
        int64_t own = 0;
        if (spec->ranks[i] != group->base.comm->rank)
            continue;
        group->devices[i] = spec->devices[i];
        if (!spec->devices[i]->row->apart || links)
            continue;
        for (int t = 0; t < spec->term_count; t++)
            own += spec->terms[t] == i;
        group->mirrors[i].device = spec->devices[i];
        SL_TRY(alloc_floats((own + 1) * spec->sum_max, &group->mirrors[i].terms));
    }
    if (!group->mirrors[group->leader].device)
        return sl_comm_adder_open(&group->adder, spec->devices[group->leader]);
    struct sl_device_config config = {.threads = 1};
    SL_TRY(sl_device_find("cpu")->open(&config, &group->host));
    return sl_comm_adder_open(&group->adder, group->host);
}

/* Allocates memory for arriving terms, on the device that adds them. */
static sl_err alloc_arrived(struct group *group, int64_t floats) {
    struct sl_device *device = group->adder.device;
    void *memory;
    if (!device->row->apart)
        return alloc_floats(floats, &group->arrived);
    SL_TRY(device->row->alloc(device, floats * 4, &memory));
    group->arrived = memory;
    return SL_OK;
}

static sl_err open_sums(struct group *group, const struct sl_group_spec *spec) {
    int arriving = 0;
    for (int t = 0; t < spec->term_count; t++)
        arriving += group_rank_of_term(group, t) != group->base.comm->rank;
    for (int r = 0; r < group->ranks.count; r++) {
        int64_t count = sl_comm_slice_of(spec->sum_max, r, group->ranks.count).count;
        group->slice_max = count > group->slice_max ? count : group->slice_max;
    }
    group->slice_max = (group->slice_max + 15) & ~15LL; /* each term begins at a cache line */
    group->terms = SL_NEW(&group->arena, const float *, spec->term_count);
    group->outs = SL_NEW(&group->arena, float *, spec->member_count);
    group->ops =
        SL_NEW(&group->arena, struct sl_transfer, (spec->term_count + 2) * group->ranks.count);
    group->mirrors = SL_NEW(&group->arena, struct mirror, spec->member_count);
    group->devices = SL_NEW(&group->arena, struct sl_device *, spec->member_count);
    SL_TRY(sl_comm_group_ipc_open(group, spec));
    SL_TRY(open_mirrors(group, spec));
    group->arrived_bytes = (arriving * group->slice_max + 16) * (int64_t)sizeof *group->arrived;
    if (group->ipc) {
        group->arrived = (float *)(void *)group->shared[group->ranks.me].area.at;
        group->arrived_bytes = sl_comm_group_ipc_bytes(group, group->ranks.me);
        return SL_OK;
    }
    return alloc_arrived(group, arriving * group->slice_max + 16);
}

static sl_err connect_ranks(const struct group *group) {
    struct sl_post *post = (struct sl_post *)group->base.comm;
    for (int a = 0; a < group->ranks.count; a++)
        for (int b = 0; b < a; b++)
            SL_TRY(sl_comm_nccl_link_connect(post, group->ranks.at[a], group->ranks.at[b]));
    return SL_OK;
}

static int64_t bytes_of(const struct group *group) {
    return group->arrived_bytes + group->arena.used_bytes;
}

sl_err sl_comm_post_group_open(struct sl_comm *comm, const struct sl_group_spec *spec,
                               struct sl_group **out) {
    int tag, members = spec->member_count;
    SL_TRY(sl_comm_post_take_tags((struct sl_post *)comm, SL_MERGE_STEPS + 1 + spec->term_count,
                                  &tag));
    struct group *group = sl_realloc(NULL, sizeof *group);
    *group = (struct group){.base = {comm, *spec}, .crew = {&comm->gate, 0, 0}, .ranks.tag = tag};
    group->base.spec.ranks = copy_ints(&group->arena, spec->ranks, members);
    group->base.spec.terms = copy_ints(&group->arena, spec->terms, spec->term_count);
    group->base.spec.devices = NULL;
    list_ranks(group, spec);
    sl_err err = spec->term_count ? connect_ranks(group) : SL_OK;
    if (err == SL_OK && group->ranks.me >= 0) {
        group->tables = SL_NEW(&group->arena, uint64_t, 2 * members * spec->table_max + 1);
        for (int i = 0; i < 2; i++)
            group->merged[i] = SL_NEW(&group->arena, uint64_t, spec->table_max + 1);
        group->scratch = SL_NEW(&group->arena, uint64_t, spec->table_max + 1);
        group->rounds = SL_NEW(&group->arena, int64_t, members);
        if (spec->term_count)
            err = open_sums(group, spec);
    }
    comm->bytes += bytes_of(group);
    if (err != SL_OK)
        sl_comm_post_group_close(&group->base);
    else
        *out = &group->base;
    return err;
}

void sl_comm_post_group_close(struct sl_group *base) {
    struct group *group = (struct group *)base;
    struct sl_post *post = (struct sl_post *)base->comm;
    bool idle = true;
    sl_comm_post_lock(post);
    for (int i = 0; i < group->op_count; i++)
        idle &= sl_comm_post_drop(post, &group->ops[i]);
    sl_comm_post_unlock(post);
    if (!idle)
        return;
    base->comm->bytes -= bytes_of(group);
    struct sl_device *device = group->adder.device;
    if (group->ipc)
        group->arrived = NULL; /* the group does not own this memory */
    if (device && device->row->apart && group->arrived)
        device->row->free(device, group->arrived);
    else
        free(group->arrived);
    sl_comm_group_ipc_close(group);
    sl_comm_adder_close(&group->adder);
    if (group->host)
        group->host->row->close(group->host);
    for (int i = 0; group->mirrors && i < base->spec.member_count; i++)
        free(group->mirrors[i].terms);
    sl_arena_free(&group->arena);
    free(group);
}
