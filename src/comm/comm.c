/* The parts of channels and groups that all transports share. */
#include "comm/comm.h"

#include "base/arena.h"

#include <stdio.h>
#include <unistd.h>

sl_err sl_comm_open(const struct sl_transport *row, const struct sl_comm_job *job,
                    struct sl_comm **out) {
    return row->open(job, out);
}

sl_err sl_comm_settle(struct sl_comm *comm, sl_err err) { return comm->row->settle(comm, err); }

void sl_comm_close(struct sl_comm *comm) {
    if (comm)
        comm->row->close(comm);
}

void sl_comm_fail(struct sl_comm *comm, sl_err err) {
    sl_comm_gate_fail(&comm->gate, err);
    if (comm->row->failed)
        comm->row->failed(comm);
}

void sl_comm_init(struct sl_comm *comm) {
    sl_comm_gate_open(&comm->gate);
    pthread_mutex_init(&comm->hooks_mutex, NULL);
}

void sl_comm_done(struct sl_comm *comm) {
    sl_comm_gate_close(&comm->gate);
    pthread_mutex_destroy(&comm->hooks_mutex);
}

/* ---- heartbeats ---- */

static struct sl_comm *life_of(struct sl_comm *comm) { return comm->life ? comm->life : comm; }

void sl_comm_hook(struct sl_comm *comm, const struct sl_comm_hooks *hooks) {
    comm = life_of(comm);
    pthread_mutex_lock(&comm->hooks_mutex);
    comm->hooks = hooks ? *hooks : (struct sl_comm_hooks){0};
    pthread_mutex_unlock(&comm->hooks_mutex);
}

void sl_comm_say(struct sl_comm *comm, void (*say)(const char *message)) {
    comm = life_of(comm);
    pthread_mutex_lock(&comm->hooks_mutex);
    comm->say = say;
    pthread_mutex_unlock(&comm->hooks_mutex);
}

bool sl_comm_has_said(struct sl_comm *comm) {
    comm = life_of(comm);
    pthread_mutex_lock(&comm->hooks_mutex);
    bool said = comm->said;
    pthread_mutex_unlock(&comm->hooks_mutex);
    return said;
}

bool sl_comm_look(struct sl_comm *comm, int rank, void *out, int64_t size_bytes, int64_t *age_ns) {
    comm = life_of(comm);
    return comm->row->look && comm->row->look(comm, rank, out, size_bytes, age_ns);
}

bool sl_comm_is_lost(struct sl_comm *comm, int rank) {
    comm = life_of(comm);
    return comm->row->is_lost && comm->row->is_lost(comm, rank);
}

void sl_comm_who(struct sl_comm *comm, int rank, char out[SL_WHO_TEXT]) {
    char host[64] = "?";
    comm = life_of(comm);
    if (comm->row->who) {
        comm->row->who(comm, rank, out);
    } else if (rank == comm->rank) {
        gethostname(host, sizeof host - 1);
        snprintf(out, SL_WHO_TEXT, "rank %d, host %s, process %d", rank, host, (int)getpid());
    } else {
        snprintf(out, SL_WHO_TEXT, "rank %d", rank);
    }
}

void sl_comm_poll(struct sl_comm *comm) {
    if (comm->gate.poll)
        comm->gate.poll(comm->gate.poll_ctx);
}

int sl_comm_rank_of(const struct sl_comm *comm, int worker, int worker_count) {
    return (int)((int64_t)worker * comm->ranks / worker_count);
}

sl_err sl_comm_merge(struct sl_comm *comm, void *bytes, int64_t size_bytes) {
    return comm->row->merge(comm, bytes, size_bytes);
}

sl_err sl_comm_agree(struct sl_comm *comm, const char *what, uint64_t hash) {
    struct sl_arena arena = {0};
    uint64_t *all = SL_NEW(&arena, uint64_t, comm->ranks);
    all[comm->rank] = hash;
    sl_err err = sl_comm_merge(comm, all, comm->ranks * (int64_t)sizeof *all);
    for (int r = 1; r < comm->ranks && err == SL_OK; r++)
        if (all[r] != all[0])
            err = sl_fail(SL_ERR_REFUSED,
                          "rank %d and rank 0 differ: %s; all ranks must be started "
                          "with the same program, options and files",
                          r, what);
    sl_arena_free(&arena);
    return err;
}

struct consent {
    int64_t err;
    char message[1016];
};

sl_err sl_comm_consent(struct sl_comm *comm, sl_err err) {
    struct sl_arena arena = {0};
    struct consent *all = SL_NEW(&arena, struct consent, comm->ranks);
    all[comm->rank].err = err;
    if (err != SL_OK)
        snprintf(all[comm->rank].message, sizeof all->message, "%s", sl_err_message());
    sl_err shared = sl_comm_merge(comm, all, comm->ranks * (int64_t)sizeof *all);
    for (int r = 0; r < comm->ranks && shared == SL_OK; r++) {
        shared = (sl_err)all[r].err;
        if (shared != SL_OK)
            sl_err_set_message(all[r].message);
    }
    sl_arena_free(&arena);
    return shared;
}

sl_err sl_comm_channel_open(struct sl_comm *comm, const struct sl_channel_spec *spec,
                            struct sl_channel **out) {
    SL_ASSERT(spec->from >= 0 && spec->from < comm->ranks && spec->to >= 0 &&
              spec->to < comm->ranks && spec->places > 0 && spec->size_bytes >= 0);
    return comm->row->channel_open(comm, spec, out);
}

void sl_comm_channel_close(struct sl_channel *channel) {
    if (channel)
        channel->comm->row->channel_close(channel);
}

sl_err sl_comm_channel_reserve(struct sl_channel *channel, int64_t n, char **out) {
    return channel->comm->row->reserve(channel, n, out);
}

sl_err sl_comm_channel_send(struct sl_channel *channel, int64_t n, int64_t size_bytes) {
    SL_ASSERT(size_bytes >= 0 && size_bytes <= channel->spec.size_bytes);
    return channel->comm->row->send(channel, n, size_bytes);
}

sl_err sl_comm_channel_receive(struct sl_channel *channel, int64_t n, struct sl_message *out) {
    return channel->comm->row->receive(channel, n, out);
}

sl_err sl_comm_channel_release(struct sl_channel *channel, int64_t n) {
    return channel->comm->row->release(channel, n);
}

sl_err sl_comm_group_open(struct sl_comm *comm, const struct sl_group_spec *spec,
                          struct sl_group **out) {
    SL_ASSERT(spec->member_count > 0);
    for (int i = 0; i < spec->term_count; i++)
        SL_ASSERT(spec->terms[i] >= 0 && spec->terms[i] < spec->member_count);
    return comm->row->group_open(comm, spec, out);
}

void sl_comm_group_close(struct sl_group *group) {
    if (group)
        group->comm->row->group_close(group);
}

sl_err sl_comm_group_meet(struct sl_group *group, int member) {
    return group->comm->row->group_merge(group, member, NULL, 0);
}

sl_err sl_comm_group_merge(struct sl_group *group, int member, double *table, int64_t count) {
    SL_ASSERT(count <= group->spec.table_max);
    return group->comm->row->group_merge(group, member, table, count);
}

sl_err sl_comm_group_sum_begin(struct sl_group *group, int member, const float *const *terms,
                               int64_t count, float *out) {
    SL_ASSERT(group->spec.term_count > 0 && count <= group->spec.sum_max);
    return group->comm->row->sum_begin(group, member, terms, count, out);
}

sl_err sl_comm_group_sum_poke(struct sl_group *group, int member) {
    return group->comm->row->sum_poke(group, member);
}

sl_err sl_comm_group_sum_end(struct sl_group *group, int member) {
    return group->comm->row->sum_end(group, member);
}
