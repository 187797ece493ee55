/* Conformance of transports: order and content of messages of all sizes over many channels, in any
 * order of places, with flow control; barriers, tables and sums of groups; the failure of one member
 * wakes all.
 *
 * Without settings it tests every transport of one process. SL_TEST_TRANSPORT=mpi under mpirun
 * (tests/e2e/mpi_conformance_release.sh) tests that one: every rank runs this program, and the ranks
 * share six workers. SL_TEST_DEVICE=cuda (tests/e2e/cuda_ipc.sh) tests messages between the memories
 * of two GPUs, or of one. */
#include "comm/comm.h"

#include "base/arena.h"
#include "base/rng.h"
#include "support/comm_workers.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLACES = 3, LARGE = (2 << 20) + 12 };

static struct sl_device *ends[WORKERS]; /* of channels; NULL: the host */

/* ---- channels ---- */

static struct sl_channel_spec spec_of(int from, int to, int64_t size_bytes) {
    return (struct sl_channel_spec){
        .from = workers_rank_of(from),
        .to = workers_rank_of(to),
        .places = PLACES,
        .size_bytes = size_bytes,
        .device = ends[to],
        .sender = ends[from],
        .ipc = getenv("SL_TEST_DEVICE") != NULL,
    };
}

/* A channel from every worker to every other. */
struct net {
    struct sl_channel *at[WORKERS][WORKERS];
    int64_t size_bytes, count;
    uint64_t seed;
    int order; /* 0: ascending; 1: within each round of the ring, descending */
};

static void open_net(struct net *net) {
    for (int a = 0; a < WORKERS; a++)
        for (int b = 0; b < WORKERS; b++) {
            struct sl_channel_spec spec = spec_of(a, b, net->size_bytes);
            if (a != b)
                assert_int_equal(sl_comm_channel_open(workers_comm, &spec, &net->at[a][b]), SL_OK);
        }
}

static void close_net(struct net *net) {
    for (int a = 0; a < WORKERS; a++)
        for (int b = 0; b < WORKERS; b++)
            sl_comm_channel_close(net->at[a][b]);
}

static uint64_t key_of(const struct net *net, int from, int to, int64_t n) {
    return workers_mix(net->seed, (uint64_t)(from * WORKERS + to), (uint64_t)n);
}

/* Mostly small, sometimes empty, rarely the max. */
static int64_t size_of(const struct net *net, int from, int to, int64_t n) {
    uint64_t key = key_of(net, from, to, n);
    if (key % 11 == 0)
        return 0;
    if (key % 37 == 0)
        return net->size_bytes;
    return (int64_t)((key >> 8) % 2000) % (net->size_bytes + 1);
}

static int64_t number_of(const struct net *net, int64_t i) {
    int64_t first = i / PLACES * PLACES, last = first + PLACES - 1;
    last = last < net->count ? last : net->count - 1;
    return net->order ? last - (i - first) : i;
}

static _Thread_local char scratch[LARGE];

static sl_err send_one(struct net *net, int from, int to, int64_t n) {
    char *at;
    int64_t size = size_of(net, from, to, n);
    SL_TRY(sl_comm_channel_reserve(net->at[from][to], n, &at));
    workers_fill(scratch, size, key_of(net, from, to, n));
    SL_TRY(workers_copy(ends[from], at, scratch, size));
    return sl_comm_channel_send(net->at[from][to], n, size);
}

static sl_err receive_one(struct net *net, int from, int to, int64_t n) {
    struct sl_message message;
    int64_t size = size_of(net, from, to, n);
    SL_TRY(sl_comm_channel_receive(net->at[from][to], n, &message));
    SL_TRY(workers_copy(ends[to], scratch, message.at, size));
    if (message.size_bytes != size || !workers_hold(scratch, size, key_of(net, from, to, n)))
        return sl_fail(SL_ERR_REFUSED,
                       "message %lld from %d to %d: %lld bytes, expected %lld, or others",
                       (long long)n, from, to, (long long)message.size_bytes, (long long)size);
    return sl_comm_channel_release(net->at[from][to], n);
}

/* All workers send a round of the ring to all others, then receive. */
static sl_err all_to_all(int worker, void *ctx) {
    struct net *net = ctx;
    for (int64_t i = 0; i < net->count; i += PLACES)
        for (int half = 0; half < 2; half++)
            for (int peer = 0; peer < WORKERS; peer++)
                for (int64_t k = i; peer != worker && k < i + PLACES && k < net->count; k++)
                    SL_TRY(half ? receive_one(net, peer, worker, number_of(net, k))
                                : send_one(net, worker, peer, number_of(net, k)));
    return SL_OK;
}

static void try_net(int64_t size_bytes, int64_t count, int order) {
    struct net net = {.size_bytes = size_bytes, .count = count, .seed = 5, .order = order};
    open_net(&net);
    workers_run_well(all_to_all, &net);
    net.seed = 6; /* the same channels once more, numbered from 0 */
    workers_run_well(all_to_all, &net);
    close_net(&net);
}

static void test_messages(void **state) {
    (void)state;
    const char *full_text = getenv("SL_TEST_FULL");
    bool full = full_text && strcmp(full_text, "1") == 0;
    int64_t count = full ? 10000 : getenv("SL_TEST_DEVICE") ? 15 : 200; /* x 30 channels */
    try_net(3000, count, 0);
    try_net(3000, count, 1);
    printf("count: random messages %lld\n", (long long)count * 30 * 4);
}

static void test_large_messages(void **state) {
    (void)state;
    try_net(LARGE, 7, 0);
    try_net(LARGE, 7, 1);
    try_net(0, 7, 0);
}

/* A chain of workers, the last one slow: no sender is more than two rings ahead. */
struct chain {
    struct sl_channel *at[WORKERS];
    atomic_int_least64_t sent[WORKERS], released[WORKERS];
    int64_t count;
};

static sl_err pass_on(int worker, void *ctx) {
    struct chain *c = ctx;
    for (int64_t n = 0; n < c->count; n++) {
        struct sl_message message;
        char *at, first = (char)n;
        if (worker > 0) {
            SL_TRY(sl_comm_channel_receive(c->at[worker - 1], n, &message));
            SL_TRY(workers_copy(ends[worker], &first, message.at, 1));
            if (message.size_bytes != 1 || first != (char)n)
                return sl_fail(SL_ERR_REFUSED, "message %lld holds %d", (long long)n, first);
            if (workers_are_here(worker - 1) &&
                atomic_load(&c->sent[worker - 1]) - atomic_load(&c->released[worker]) > 2 * PLACES)
                return sl_fail(SL_ERR_REFUSED, "worker %d is not held back", worker - 1);
            for (int i = 0; worker == WORKERS - 1 && i < 20; i++)
                sl_comm_poll(workers_comm);
            atomic_fetch_add(&c->released[worker], 1);
            SL_TRY(sl_comm_channel_release(c->at[worker - 1], n));
        }
        if (worker == WORKERS - 1)
            continue;
        SL_TRY(sl_comm_channel_reserve(c->at[worker], n, &at));
        SL_TRY(workers_copy(ends[worker], at, &first, 1));
        atomic_fetch_add(&c->sent[worker], 1);
        SL_TRY(sl_comm_channel_send(c->at[worker], n, 1));
    }
    return SL_OK;
}

static void test_back_pressure(void **state) {
    (void)state;
    struct chain c = {.count = getenv("SL_TEST_DEVICE") ? 100 : 500};
    for (int w = 0; w + 1 < WORKERS; w++) {
        struct sl_channel_spec spec = spec_of(w, w + 1, 1);
        assert_int_equal(sl_comm_channel_open(workers_comm, &spec, &c.at[w]), SL_OK);
    }
    workers_run_well(pass_on, &c);
    for (int w = 0; w + 1 < WORKERS; w++)
        sl_comm_channel_close(c.at[w]);
}

/* ---- groups ---- */

enum { TABLE = 37, ROUNDS = 60, TERMS = 9 };

/* Workers 0, 2, 3 and 5; worker 2 has several terms, worker 5 none. */
static const int members[] = {0, 2, 3, 5};
static const int terms[TERMS] = {1, 0, 1, 2, 2, 0, 1, 1, 0};

struct meet {
    struct sl_group *all, *some, *again; /* the last two are of the same members */
    int rounds;
    int64_t count; /* of a sum */
};

static double entry(int round, int i) { return 1.0 / (1 + round * TABLE + i); }

static sl_err share_table(struct sl_group *group, int member, int count, int round) {
    double table[TABLE] = {0};
    for (int i = member; i < TABLE; i += count)
        table[i] = entry(round, i);
    SL_TRY(sl_comm_group_merge(group, member, table, TABLE));
    for (int i = 0; i < TABLE; i++)
        if (table[i] != entry(round, i))
            return sl_fail(SL_ERR_REFUSED, "round %d, entry %d is %g", round, i, table[i]);
    return SL_OK;
}

/* Any other order of the sum rounds differently. */
static float term_value(int round, int term, int64_t i) {
    uint64_t x = workers_mix((uint64_t)round, (uint64_t)term, (uint64_t)i);
    return (float)((double)(x % 2000003) / 997.0 - 1003.0);
}

static sl_err check_sum(int worker, int round, const float *out, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        float want = term_value(round, 0, i);
        for (int t = 1; t < TERMS; t++)
            want += term_value(round, t, i);
        if (memcmp(&want, &out[i], sizeof want) != 0)
            return sl_fail(SL_ERR_REFUSED, "worker %d, round %d: sum %lld is %.9g, not %.9g",
                           worker, round, (long long)i, (double)out[i], (double)want);
    }
    return SL_OK;
}

/* This memory as the worker's device sees it. */
static sl_err open_seen(int worker, float *memory, int64_t size, float **out) {
    void *at = workers_seen(memory);
    sl_err err = SL_OK;
    if (ends[worker])
        err = ends[worker]->row->alloc(ends[worker], size, &at);
    if (err != SL_OK)
        free(memory);
    *out = at;
    return err;
}

/* In place (odd rounds) and out of place (even ones: two sums at a time, ended in reverse order). Any
 * number of pokes at any time. */
static sl_err add_up(struct meet *m, int worker, int member, int round) {
    const float *own[TERMS];
    int64_t size = (m->count * (TERMS + 2) + 1) * (int64_t)sizeof(float);
    float *memory = sl_realloc(NULL, (size_t)size), *seen = NULL;
    SL_TRY(open_seen(worker, memory, size, &seen));
    float *more = memory + m->count * (TERMS + 1);
    int own_count = 0;
    for (int t = 0; t < TERMS; t++) {
        if (terms[t] != member)
            continue;
        float *term = memory + m->count * ++own_count;
        for (int64_t i = 0; i < m->count; i++)
            term[i] = term_value(round, t, i);
        own[own_count - 1] = seen + (term - memory);
    }
    float *out = round % 2 && own_count ? memory + m->count * own_count : memory;
    sl_err err = SL_OK;
    if (ends[worker])
        SL_TRY_OUT(workers_copy(ends[worker], seen, memory, size));
    SL_TRY_OUT(sl_comm_group_sum_begin(m->some, member, own, m->count, seen + (out - memory)));
    if (round % 2 == 0)
        SL_TRY_OUT(
            sl_comm_group_sum_begin(m->again, member, own, m->count, seen + (more - memory)));
    for (int i = 0; i < round * (worker + 1) % 5; i++) {
        sl_comm_poll(workers_comm);
        SL_TRY_OUT(sl_comm_group_sum_poke(m->some, member));
        if (round % 2 == 0)
            SL_TRY_OUT(sl_comm_group_sum_poke(m->again, member));
    }
    if (round % 2 == 0) {
        SL_TRY_OUT(sl_comm_group_sum_end(m->again, member));
        if (ends[worker])
            SL_TRY_OUT(workers_copy(ends[worker], more, seen + (more - memory), m->count * 4));
        SL_TRY_OUT(check_sum(worker, round, more, m->count));
    }
    SL_TRY_OUT(sl_comm_group_sum_end(m->some, member));
    if (ends[worker])
        SL_TRY_OUT(workers_copy(ends[worker], out, seen + (out - memory), m->count * 4));
    SL_TRY_OUT(check_sum(worker, round, out, m->count));
out:
    if (ends[worker])
        ends[worker]->row->free(ends[worker], seen);
    free(memory);
    return err;
}

static sl_err meet_all(int worker, void *ctx) {
    struct meet *m = ctx;
    int member = -1;
    for (int i = 0; i < SL_COUNT(members); i++)
        if (members[i] == worker)
            member = i;
    for (int round = 0; round < m->rounds; round++) {
        SL_TRY(share_table(m->all, worker, WORKERS, round));
        if (round % 3 == 0)
            SL_TRY(sl_comm_group_meet(m->all, worker));
        if (member < 0)
            continue;
        SL_TRY(share_table(m->some, member, SL_COUNT(members), round));
        SL_TRY(add_up(m, worker, member, round));
    }
    return SL_OK;
}

static void open_groups(struct meet *m) {
    int ranks[WORKERS], some[SL_COUNT(members)];
    struct sl_device *owners[SL_COUNT(members)];
    for (int w = 0; w < WORKERS; w++)
        ranks[w] = workers_rank_of(w);
    for (int i = 0; i < SL_COUNT(members); i++) {
        some[i] = ranks[members[i]];
        owners[i] = ends[members[i]] ? ends[members[i]] : workers_device[members[i]];
    }
    struct sl_group_spec all = {.member_count = WORKERS, .ranks = ranks, .table_max = TABLE};
    struct sl_group_spec part = {.member_count = SL_COUNT(members),
                                 .ranks = some,
                                 .table_max = TABLE + 3,
                                 .term_count = TERMS,
                                 .terms = terms,
                                 .sum_max = m->count,
                                 .devices = owners,
                                 .ipc = getenv("SL_TEST_DEVICE") != NULL};
    assert_int_equal(sl_comm_group_open(workers_comm, &all, &m->all), SL_OK);
    assert_int_equal(sl_comm_group_open(workers_comm, &part, &m->some), SL_OK);
    assert_int_equal(sl_comm_group_open(workers_comm, &part, &m->again), SL_OK);
}

static void close_groups(struct meet *m) {
    sl_comm_group_close(m->again);
    sl_comm_group_close(m->some);
    sl_comm_group_close(m->all);
}

static void test_groups(void **state) {
    (void)state;
    static const int64_t counts[] = {1, 0, 15, 16, 17, 64, 1003, 100003, 17, 10007};
    bool gpu = getenv("SL_TEST_DEVICE") != NULL;
    for (int i = 0; i < SL_COUNT(counts); i += gpu ? 3 : 1) {
        workers_set_apart(i >= 8 && !gpu);
        struct meet m = {.rounds = gpu || counts[i] >= 10000 ? 4 : ROUNDS, .count = counts[i]};
        open_groups(&m);
        workers_run_well(meet_all, &m);
        close_groups(&m);
    }
    workers_set_apart(false);
}

static void test_ranks(void **state) {
    (void)state;
    unsigned char bytes[1003] = {0};
    for (int i = workers_comm->rank; i < SL_COUNT(bytes); i += workers_comm->ranks)
        bytes[i] = (unsigned char)(i * 7 + 1);
    assert_int_equal(sl_comm_merge(workers_comm, bytes, SL_COUNT(bytes)), SL_OK);
    for (int i = 0; i < SL_COUNT(bytes); i++)
        assert_int_equal(bytes[i], (unsigned char)(i * 7 + 1));
    assert_int_equal(sl_comm_merge(workers_comm, NULL, 0), SL_OK);
}

/* ---- failure: the last test of a comm ---- */

struct trap {
    struct net net;
    struct meet meet;
    int fails; /* the worker that does */
};

static sl_err wait_for_ever(int worker, void *ctx) {
    struct trap *trap = ctx;
    struct sl_message message;
    char *at;
    SL_TRY(sl_comm_group_meet(trap->meet.all, worker)); /* all have left the earlier tests */
    if (worker == trap->fails)
        return sl_fail(SL_ERR_INPUT, "worker %d broke its leg", worker);
    switch (worker) {
    case 0: return sl_comm_channel_receive(trap->net.at[1][0], 0, &message);
    case 1: /* no receiver */
        for (int64_t n = 0;; n++) {
            SL_TRY(sl_comm_channel_reserve(trap->net.at[1][2], n, &at));
            SL_TRY(sl_comm_channel_send(trap->net.at[1][2], n, trap->net.size_bytes));
        }
    case 2: return sl_comm_group_meet(trap->meet.all, worker);
    default: return share_table(trap->meet.all, worker, WORKERS, 0);
    }
}

static void try_failure(int who) {
    struct worker out[WORKERS];
    char want[64];
    struct trap trap = {.net = {.size_bytes = 100000}, .meet = {.count = 5}, .fails = who};
    open_net(&trap.net);
    open_groups(&trap.meet);
    workers_run(wait_for_ever, &trap, out);
    snprintf(want, sizeof want, "worker %d broke its leg", who);
    for (int w = 0; w < WORKERS; w++) {
        if (!workers_are_here(w))
            continue;
        assert_int_equal(out[w].err, SL_ERR_INPUT);
        assert_non_null(strstr(out[w].message, want));
    }
    close_groups(&trap.meet);
    close_net(&trap.net);
}

/* ---- */

static int open_comm(const struct sl_transport *row) {
    const struct sl_device_row *cpu = sl_device_find("cpu");
    const char *kind = getenv("SL_TEST_DEVICE");
    struct sl_device_config config = {.threads = 1};
    struct sl_comm_job job;
    if (sl_comm_job_read(getenv, &job) != SL_OK || sl_comm_open(row, &job, &workers_comm) != SL_OK)
        return -1;
    for (int w = 0; w < WORKERS; w++)
        if (workers_are_here(w) &&
            (cpu->open(&config, &workers_device[w]) != SL_OK ||
             (kind && sl_device_find(kind)->open(&config, &ends[w]) != SL_OK)))
            return -1;
    return 0;
}

static sl_err close_comm(void) {
    for (int w = 0; w < WORKERS; w++) {
        if (workers_device[w])
            workers_device[w]->row->close(workers_device[w]);
        if (ends[w])
            ends[w]->row->close(ends[w]);
        workers_device[w] = ends[w] = NULL;
    }
    sl_err err = sl_comm_settle(workers_comm, SL_OK);
    sl_comm_close(workers_comm);
    workers_comm = NULL;
    return err;
}

static void test_failure(void **state) {
    const char *name = getenv("SL_TEST_TRANSPORT");
    for (int who = 0; who < WORKERS; who++) {
        if (name && who != 4)
            continue; /* a comm fails once, and MPI starts once */
        try_failure(who);
        assert_int_equal(close_comm(), SL_ERR_INPUT);
        if (!name)
            assert_int_equal(open_comm(*state), 0);
    }
}

static const struct sl_transport *chosen;

static int setup(void **state) {
    *state = (void *)(uintptr_t)chosen;
    return open_comm(chosen);
}

static int teardown(void **state) {
    (void)state;
    return workers_comm && close_comm() != SL_OK ? -1 : 0;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),      cmocka_unit_test(test_large_messages),
        cmocka_unit_test(test_back_pressure), cmocka_unit_test(test_groups),
        cmocka_unit_test(test_ranks),         cmocka_unit_test(test_failure),
    };
    const char *name = getenv("SL_TEST_TRANSPORT"), *kind = getenv("SL_TEST_DEVICE");
    int failed = 0;
    if (kind && (!sl_device_find(kind) || sl_device_find(kind)->missing()))
        return 77;
    for (const struct sl_transport *const *row = sl_comm_transports; *row; row++) {
        bool needs = (*row)->module || !(*row)->close; /* a module; GPUs over another transport */
        if (name ? strcmp((*row)->name, name) != 0 : needs)
            continue;
        if (sl_comm_transport_find((*row)->name, &chosen) != SL_OK) {
            fprintf(stderr, "%s\n", sl_err_message());
            return 1;
        }
        failed += cmocka_run_group_tests_name(chosen->name, tests, setup, teardown);
    }
    return failed;
}
