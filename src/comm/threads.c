/* The transport of one process.
 *
 * Sum of a group: when all members have begun, member i adds slice i of all terms, in their
 * order, into its own `out`. When all have added, each copies the other slices from their
 * owners; then comes a barrier. Only member i reads slice i of any term before that, so `out`
 * may be a term. */
#include "comm/threads.h"

#include "base/arena.h"
#include "comm/crew.h"
#include "comm/ring.h"

#include <stdlib.h>
#include <string.h>

struct channel {
    struct sl_channel base;
    struct sl_ring ring;
};

struct group {
    struct sl_group base;
    struct sl_arena arena;
    struct sl_crew crew;
    uint64_t *tables;        /* [2][member_count][table_max] tables; rounds alternate */
    int64_t *rounds;         /* [member_count] merges so far */
    const float **terms;     /* [term_count] terms of the current sum */
    float **outs;            /* [member_count] */
    struct sl_adder *adders; /* [member_count] */
    int64_t *sums;           /* [member_count] sums that it has begun */
    bool *added;             /* [member_count] has it added its slice of the current sum? */
    int64_t sum_count;
    /* over all sums: begins of members; slices that have been added */
    atomic_int_least64_t begun, slices;
};

static sl_err open_comm(const struct sl_comm_job *job, struct sl_comm **out) {
    (void)job;
    struct sl_comm *comm = sl_realloc(NULL, sizeof *comm);
    *comm = (struct sl_comm){.row = &sl_comm_transport_threads, .ranks = 1};
    sl_comm_init(comm);
    *out = comm;
    return SL_OK;
}

static sl_err settle(struct sl_comm *comm, sl_err err) {
    sl_err first = sl_comm_gate_error(&comm->gate);
    return first != SL_OK ? first : err;
}

static void close_comm(struct sl_comm *comm) {
    sl_comm_done(comm);
    free(comm);
}

static sl_err merge_ranks(struct sl_comm *comm, void *bytes, int64_t size_bytes) {
    (void)comm;
    (void)bytes;
    (void)size_bytes;
    return SL_OK;
}

/* ---- channels ---- */

static sl_err open_channel(struct sl_comm *comm, const struct sl_channel_spec *spec,
                           struct sl_channel **out) {
    struct channel *channel = sl_realloc(NULL, sizeof *channel);
    *channel = (struct channel){.base = {comm, *spec}};
    sl_err err = sl_comm_ring_open(&channel->ring, &comm->gate, spec);
    if (err != SL_OK) {
        free(channel);
        return err;
    }
    comm->bytes += sl_comm_ring_bytes(&channel->ring);
    *out = &channel->base;
    return SL_OK;
}

static struct sl_ring *ring_of(struct sl_channel *channel) {
    return &((struct channel *)channel)->ring;
}

static void close_channel(struct sl_channel *channel) {
    channel->comm->bytes -= sl_comm_ring_bytes(ring_of(channel));
    sl_comm_ring_close(ring_of(channel));
    free(channel);
}

static sl_err reserve(struct sl_channel *channel, int64_t n, char **out) {
    return sl_comm_ring_reserve(ring_of(channel), n, out);
}

static sl_err send(struct sl_channel *channel, int64_t n, int64_t size_bytes) {
    sl_comm_ring_send(ring_of(channel), n, size_bytes);
    return SL_OK;
}

static sl_err receive(struct sl_channel *channel, int64_t n, struct sl_message *out) {
    return sl_comm_ring_receive(ring_of(channel), n, out);
}

static sl_err release(struct sl_channel *channel, int64_t n) {
    sl_comm_ring_release(ring_of(channel), n);
    return SL_OK;
}

/* ---- groups ---- */

static void close_group(struct sl_group *base) {
    struct group *group = (struct group *)base;
    for (int i = 0; i < base->spec.member_count; i++)
        sl_comm_adder_close(&group->adders[i]);
    sl_arena_free(&group->arena);
    free(group);
}

static sl_err open_group(struct sl_comm *comm, const struct sl_group_spec *spec,
                         struct sl_group **out) {
    struct group *group = sl_realloc(NULL, sizeof *group);
    int members = spec->member_count;
    *group = (struct group){.base = {comm, *spec}, .crew = {&comm->gate, members, 0}};
    int *terms = SL_NEW(&group->arena, int, spec->term_count + 1);
    if (spec->term_count)
        memcpy(terms, spec->terms, sizeof *terms * (size_t)spec->term_count);
    group->base.spec.terms = terms;
    group->base.spec.ranks = NULL; /* all members are in this process */
    group->base.spec.devices = NULL;
    group->tables = SL_NEW(&group->arena, uint64_t, 2 * members * spec->table_max + 1);
    group->rounds = SL_NEW(&group->arena, int64_t, members);
    group->terms = SL_NEW(&group->arena, const float *, spec->term_count + 1);
    group->outs = SL_NEW(&group->arena, float *, members);
    group->adders = SL_NEW(&group->arena, struct sl_adder, members);
    group->sums = SL_NEW(&group->arena, int64_t, members);
    group->added = SL_NEW(&group->arena, bool, members);
    sl_err err = SL_OK;
    for (int i = 0; i < members && spec->term_count && err == SL_OK; i++)
        err = sl_comm_adder_open(&group->adders[i], spec->devices[i]);
    if (err != SL_OK)
        close_group(&group->base);
    else
        *out = &group->base;
    return err;
}

/* Merges tables. Two sets suffice: a member in the next round writes to the other set, and no
 * member is two rounds ahead. */
static sl_err merge(struct sl_group *base, int member, double *table, int64_t count) {
    struct group *group = (struct group *)base;
    int64_t max = base->spec.table_max, members = base->spec.member_count;
    uint64_t *set = group->tables + (group->rounds[member]++ % 2) * members * max;
    uint64_t *mine = set + member * max;
    size_t bytes = (size_t)count * sizeof *mine;
    if (count)
        memcpy(mine, table, bytes);
    SL_TRY(sl_comm_crew_meet(&group->crew));
    for (int i = 0; i < members && count; i++)
        if (i != member)
            sl_comm_merge_words(table, set + i * max, count);
    return SL_OK;
}

struct count {
    atomic_int_least64_t *at;
    int64_t want;
};

static bool has_come(void *ctx) {
    const struct count *count = ctx;
    return atomic_load_explicit(count->at, memory_order_acquire) >= count->want;
}

/* The condition that all members have reached this point of the member's sum. */
static struct count all_of(const struct group *group, int member, atomic_int_least64_t *at) {
    return (struct count){at, group->sums[member] * group->base.spec.member_count};
}

static sl_err sum_begin(struct sl_group *base, int member, const float *const *terms, int64_t count,
                        float *out) {
    struct group *group = (struct group *)base;
    for (int t = 0; t < base->spec.term_count; t++)
        if (base->spec.terms[t] == member)
            group->terms[t] = *terms++;
    if (member == 0)
        group->sum_count = count;
    group->outs[member] = out;
    group->added[member] = false;
    group->sums[member]++;
    atomic_fetch_add(&group->begun, 1);
    sl_comm_gate_ring(&base->comm->gate);
    return SL_OK;
}

static sl_err add_slice(struct group *group, int member) {
    const struct sl_group_spec *spec = &group->base.spec;
    struct sl_crew_slice own = sl_comm_slice_of(group->sum_count, member, spec->member_count);
    SL_TRY(sl_comm_adder_sum(&group->adders[member], group->terms, spec->term_count, own,
                             group->outs[member]));
    group->added[member] = true;
    atomic_fetch_add(&group->slices, 1);
    sl_comm_gate_ring(&group->base.comm->gate);
    return SL_OK;
}

static sl_err sum_poke(struct sl_group *base, int member) {
    struct group *group = (struct group *)base;
    struct count begun = all_of(group, member, &group->begun);
    return !group->added[member] && has_come(&begun) ? add_slice(group, member) : SL_OK;
}

static sl_err sum_end(struct sl_group *base, int member) {
    struct group *group = (struct group *)base;
    int members = base->spec.member_count;
    struct sl_device *device = group->adders[member].device;
    struct count begun = all_of(group, member, &group->begun);
    struct count added = all_of(group, member, &group->slices);
    float *out = group->outs[member];
    SL_TRY(sl_comm_gate_wait(&base->comm->gate, has_come, &begun));
    if (!group->added[member])
        SL_TRY(add_slice(group, member));
    SL_TRY(sl_comm_gate_wait(&base->comm->gate, has_come, &added));
    for (int i = 0; i < members; i++) {
        struct sl_crew_slice slice = sl_comm_slice_of(group->sum_count, i, members);
        if (i != member)
            SL_TRY(device->row->copy(device, SL_STREAM_COMPUTE, out + slice.first,
                                     group->outs[i] + slice.first, slice.count * 4));
    }
    SL_TRY(device->row->sync(device, SL_STREAM_COMPUTE));
    return sl_comm_crew_meet(&group->crew);
}

const struct sl_transport sl_comm_transport_threads = {
    .name = "threads",
    .brief = "workers are threads of one process",
    .one_process = true,
    .open = open_comm,
    .settle = settle,
    .close = close_comm,
    .merge = merge_ranks,
    .channel_open = open_channel,
    .channel_close = close_channel,
    .reserve = reserve,
    .send = send,
    .receive = receive,
    .release = release,
    .group_open = open_group,
    .group_close = close_group,
    .group_merge = merge,
    .sum_begin = sum_begin,
    .sum_poke = sum_poke,
    .sum_end = sum_end,
};
