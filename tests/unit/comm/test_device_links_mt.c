/* Messages of device memory between three ranks over TCP, which are threads of this process. Over
 * links (comm/nccl_link.h) of the test that check sizes and order at both ends; in shared memory
 * (comm/ipc.h), also if some ranks refuse it; and from a rank to itself, over those links and, with
 * a GPU, over NCCL. */
#include "comm/nccl_link.h"

#include "base/log.h"
#include "base/rng.h"
#include "comm/ipc.h"
#include "comm/tcp.h"
#include "support/apart.h"
#include "support/wires.h"

#include <arpa/inet.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { RANKS = 3, PLACES = 3, MAX = 5000, MESSAGES = 60, FLOATS = 1003 };

static void must(sl_err err) {
    if (err != SL_OK) {
        fprintf(stderr, "%s\n", sl_err_message());
        abort(); /* in any thread */
    }
}

/* ---- memory that two ranks use ---- */

/* Some: rank 2 never enters. Refused: no rank enters. None: no rank shares. */
enum way { LINKS, SHARED, SOME, REFUSED, NONE, WAYS };
static enum way way;
static _Thread_local int own_rank;

static bool is_refused(int rank) { return way >= REFUSED || (way == SOME && rank == 2); }

struct room {
    struct room *next;
    atomic_int inside;
    bool gone;
    _Alignas(64) char bytes[];
};
static struct room *all_rooms; /* after a failure memory stays shared */
static pthread_mutex_t all_mutex = PTHREAD_MUTEX_INITIALIZER;
static atomic_int rooms_entered;

static sl_err share(struct sl_device *device, int64_t size_bytes, struct sl_ipc_area *out,
                    char door[SL_IPC_DOOR]) {
    (void)device;
    if (way == NONE)
        return sl_fail(SL_ERR_SYSTEM, "there is no room");
    struct room *room = calloc(1, sizeof *room + (size_t)size_bytes);
    pthread_mutex_lock(&all_mutex);
    room->next = all_rooms;
    all_rooms = room;
    pthread_mutex_unlock(&all_mutex);
    memcpy(door, &room, sizeof(struct room *));
    *out = (struct sl_ipc_area){apart_hide(room->bytes), 0};
    return SL_OK;
}

static sl_err enter(struct sl_device *device, const char door[SL_IPC_DOOR],
                    struct sl_ipc_area *out) {
    struct room *room;
    (void)device;
    if (is_refused(own_rank))
        return sl_fail(SL_ERR_SYSTEM, "the door is locked");
    memcpy(&room, door, sizeof(struct room *));
    atomic_fetch_add(&room->inside, 1);
    atomic_fetch_add(&rooms_entered, 1);
    *out = (struct sl_ipc_area){apart_hide(room->bytes), 1};
    return SL_OK;
}

static struct room *room_of(const struct sl_ipc_area *area) {
    return (struct room *)(void *)((char *)apart_show(area->at) - offsetof(struct room, bytes));
}

static void leave(const struct sl_ipc_area *area) {
    if (area->index != 1)
        abort();
    atomic_fetch_sub(&room_of(area)->inside, 1);
}

static void take_back(const struct sl_ipc_area *area) {
    struct room *room = room_of(area);
    if (area->index != 0 || room->gone || atomic_load(&room->inside) != 0)
        abort();
    room->gone = true;
}

static const struct sl_ipc_row rooms = {
    .name = "rooms", .share = share, .enter = enter, .leave = leave, .unshare = take_back};

/* ---- ranks as threads ---- */

struct rank {
    int rank;
    struct sl_comm_job job;
    sl_err (*body)(struct rank *r);
    struct sl_comm *comm;
    struct sl_device *device;
    sl_err err;
    char message[512];
};

static void *rank_main(void *arg) {
    struct rank *r = arg;
    struct sl_device_config config = {.threads = 1};
    must(sl_comm_open(&sl_comm_transport_tcp, &r->job, &r->comm));
    if (way == LINKS) {
        must(sl_comm_nccl_link_attach(r->comm, &wires, "wires", false));
        assert_string_equal(r->comm->row->name, "wires");
    }
    ((struct sl_post *)r->comm)->ipc = &rooms;
    own_rank = r->rank;
    must(apart_row()->open(&config, &r->device));
    r->err = r->body(r);
    if (r->err != SL_OK)
        sl_comm_fail(r->comm, r->err);
    r->err = sl_comm_settle(r->comm, r->err);
    snprintf(r->message, sizeof r->message, "%s", r->err != SL_OK ? sl_err_message() : "");
    sl_comm_close(r->comm);
    r->device->row->close(r->device);
    return NULL;
}

static void run_ranks(sl_err (*body)(struct rank *r), struct rank ranks[RANKS]) {
    pthread_t threads[RANKS];
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&at, length), 0);
    assert_int_equal(listen(fd, RANKS), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &length), 0);
    for (int i = 0; i < RANKS; i++) {
        ranks[i] = (struct rank){.rank = i, .body = body};
        ranks[i].job = (struct sl_comm_job){.rank = i,
                                            .ranks = RANKS,
                                            .meet_fd = i ? -1 : fd,
                                            .has_key = true,
                                            .timeout_ns = 60000000000};
        snprintf(ranks[i].job.meet, sizeof ranks[i].job.meet, "127.0.0.1:%d", ntohs(at.sin_port));
        assert_int_equal(pthread_create(&threads[i], NULL, rank_main, &ranks[i]), 0);
    }
    for (int i = 0; i < RANKS; i++)
        pthread_join(threads[i], NULL);
}

static void run_well(sl_err (*body)(struct rank *r)) {
    struct rank ranks[RANKS];
    run_ranks(body, ranks);
    for (int i = 0; i < RANKS; i++)
        if (ranks[i].err != SL_OK)
            fail_msg("rank %d: %s", i, ranks[i].message);
}

/* ---- channels ---- */

static int64_t size_of(int from, int to, int64_t n) {
    uint32_t draw = sl_rng_u32(5, (uint64_t)(from * RANKS + to), (uint64_t)n);
    return draw % 9 == 0 ? 0 : draw % (MAX + 1);
}

static void fill(char *at, int64_t size, int from, int to, int64_t n) {
    for (int64_t i = 0; i < size; i++)
        at[i] = (char)(sl_rng_u32(6, (uint64_t)(from * RANKS + to), (uint64_t)n) + (uint32_t)i);
}

struct net {
    struct sl_channel *at[RANKS][RANKS];
};

static sl_err open_net(struct rank *r, struct net *net) {
    for (int a = 0; a < RANKS; a++)
        for (int b = 0; b < RANKS; b++) {
            struct sl_channel_spec spec = {.from = a,
                                           .to = b,
                                           .places = PLACES,
                                           .size_bytes = MAX,
                                           .device = b == r->rank ? r->device : NULL,
                                           .sender = a == r->rank ? r->device : NULL,
                                           .ipc = true};
            net->at[a][b] = NULL;
            if (a != b)
                SL_TRY(sl_comm_channel_open(r->comm, &spec, &net->at[a][b]));
        }
    return SL_OK;
}

static void close_net(struct net *net) {
    for (int i = 0; i < RANKS * RANKS; i++)
        sl_comm_channel_close(net->at[i / RANKS][i % RANKS]);
}

static sl_err send_one(struct rank *r, struct net *net, int to, int64_t n) {
    char *at, host[MAX];
    int64_t size = size_of(r->rank, to, n);
    SL_TRY(sl_comm_channel_reserve(net->at[r->rank][to], n, &at));
    fill(host, size, r->rank, to, n);
    if (apart_is(at) == is_refused(r->rank))
        return sl_fail(SL_ERR_REFUSED, "a place is where it should not be");
    SL_TRY(r->device->row->upload(r->device, SL_STREAM_COMPUTE, at, host, size));
    return sl_comm_channel_send(net->at[r->rank][to], n, size);
}

static sl_err receive_one(struct rank *r, struct net *net, int from, int64_t n) {
    char host[MAX], want[MAX];
    struct sl_message message;
    int64_t size = size_of(from, r->rank, n);
    SL_TRY(sl_comm_channel_receive(net->at[from][r->rank], n, &message));
    SL_TRY(r->device->row->download(r->device, SL_STREAM_COMPUTE, host, message.at, size));
    fill(want, size, from, r->rank, n);
    if (message.size_bytes != size || memcmp(host, want, (size_t)size) != 0)
        return sl_fail(SL_ERR_REFUSED, "message %lld from %d is another one", (long long)n, from);
    return sl_comm_channel_release(net->at[from][r->rank], n);
}

/* Fill rings, then empty them in another order: a waiting message blocks no other. */
static sl_err all_to_all(struct rank *r) {
    struct net net = {0};
    sl_err err = SL_OK;
    SL_TRY_OUT(open_net(r, &net));
    for (int64_t i = 0; i < MESSAGES; i += PLACES)
        for (int half = 0; half < 2; half++)
            for (int k = 0; k < PLACES * RANKS; k++) {
                int peer = k % RANKS;
                int64_t n = half ? i + PLACES - 1 - k / RANKS : i + k / RANKS;
                if (peer != r->rank)
                    SL_TRY_OUT(half ? receive_one(r, &net, peer, n) : send_one(r, &net, peer, n));
            }
out:
    close_net(&net);
    return err;
}

static void test_messages(void **state) {
    (void)state;
    run_well(all_to_all);
}

static void test_shared(void **state) {
    (void)state;
    way = SHARED;
    run_well(all_to_all);
    assert_int_equal(atomic_load(&rooms_entered), RANKS * (RANKS - 1));
    for (const struct room *room = all_rooms; room; room = room->next)
        assert_true(room->gone && atomic_load(&room->inside) == 0);
    way = LINKS;
}

/* The same messages, all or some through host memory. */
static void test_shared_refused(void **state) {
    (void)state;
    for (int i = SOME; i < WAYS; i++) {
        way = (enum way)i;
        run_well(all_to_all);
        for (const struct room *room = all_rooms; room; room = room->next)
            assert_true(room->gone && atomic_load(&room->inside) == 0);
    }
    way = LINKS;
}

/* ---- sums ---- */

enum { ROUNDS = 20 };

static float term(int number, int round, int64_t i) {
    uint64_t at = (uint64_t)(round * RANKS + number);
    return (float)(sl_rng_u32(7, at, (uint64_t)i) % 2000003) / 997.0F - 1003.0F;
}

/* In place (over the first term) or out of place. */
static sl_err sum_once(struct rank *r, struct sl_group *group, int round, float *memory) {
    const int *owners = group->spec.terms;
    const float *own[RANKS];
    float host[FLOATS];
    int count = 0;
    for (int t = 0; t < RANKS; t++) {
        if (owners[t] != r->rank)
            continue;
        for (int64_t i = 0; i < FLOATS; i++)
            host[i] = term(t, round, i);
        own[count] = memory + count * FLOATS;
        SL_TRY(r->device->row->upload(r->device, SL_STREAM_COMPUTE, memory + count++ * FLOATS, host,
                                      sizeof host));
    }
    SL_TRY(sl_comm_group_sum_begin(group, r->rank, own, FLOATS, memory));
    SL_TRY(sl_comm_group_sum_end(group, r->rank));
    SL_TRY(r->device->row->download(r->device, SL_STREAM_COMPUTE, host, memory, sizeof host));
    for (int64_t i = 0; i < FLOATS; i++) {
        float want = term(0, round, i) + term(1, round, i);
        want += term(2, round, i);
        if (memcmp(&want, &host[i], sizeof want) != 0)
            return sl_fail(SL_ERR_REFUSED, "round %d: element %lld is off", round, (long long)i);
    }
    return SL_OK;
}

/* Each rank has a term; one has two, another none. */
static sl_err add_up(struct rank *r) {
    static const int ranks[RANKS] = {0, 1, 2}, terms[2][RANKS] = {{1, 2, 0}, {1, 0, 1}};
    struct sl_device *devices[RANKS] = {0};
    void *memory;
    sl_err err = SL_OK;
    devices[r->rank] = r->device;
    SL_TRY(r->device->row->alloc(r->device, RANKS * FLOATS * 4, &memory));
    for (int i = 0; i < 2; i++) {
        struct sl_group *group = NULL;
        struct sl_group_spec spec = {.member_count = RANKS,
                                     .ranks = ranks,
                                     .table_max = 1,
                                     .term_count = RANKS,
                                     .terms = terms[i],
                                     .sum_max = FLOATS,
                                     .devices = devices,
                                     .ipc = true};
        SL_TRY_OUT(sl_comm_group_open(r->comm, &spec, &group));
        for (int round = 0; round < ROUNDS && err == SL_OK; round++)
            err = sum_once(r, group, round, memory);
        sl_comm_group_close(group);
        SL_TRY_OUT(err);
    }
out:
    r->device->row->free(r->device, memory);
    return err;
}

static void test_sums(void **state) {
    (void)state;
    for (int i = WAYS - 1; i >= LINKS; i--) {
        way = (enum way)i;
        run_well(add_up);
    }
}

/* ---- failure ---- */

static sl_err wait_for_ever(struct rank *r) {
    struct net net = {0};
    struct sl_message message;
    sl_err err = SL_OK;
    SL_TRY_OUT(open_net(r, &net));
    SL_TRY_OUT(send_one(r, &net, (r->rank + 1) % RANKS, 1));
    if (r->rank == 1)
        SL_TRY_OUT(sl_fail(SL_ERR_INPUT, "rank 1 broke its leg"));
    SL_TRY_OUT(sl_comm_channel_receive(net.at[1][r->rank], 2, &message));
out:
    close_net(&net);
    return err;
}

static void test_failure(void **state) {
    (void)state;
    struct rank ranks[RANKS];
    for (int i = WAYS - 1; i >= LINKS; i--) {
        way = (enum way)i;
        run_ranks(wait_for_ever, ranks);
        for (int k = 0; k < RANKS; k++) {
            assert_int_equal(ranks[k].err, SL_ERR_INPUT);
            assert_non_null(strstr(ranks[k].message, "rank 1 broke its leg"));
        }
    }
}

/* A waiting thread finds a broken link; the error names both ends. */
static void test_broken_link(void **state) {
    (void)state;
    struct rank ranks[RANKS];
    wires_break = true;
    run_ranks(all_to_all, ranks);
    wires_break = false;
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].err, SL_ERR_PEER);
        assert_non_null(strstr(ranks[i].message, "between ranks"));
        assert_non_null(strstr(ranks[i].message, "the wire is cut"));
    }
}

/* A device that uses host memory cannot use links. */
static sl_err open_plain(struct rank *r) {
    struct sl_device_config config = {.threads = 1};
    struct sl_device *cpu;
    struct sl_channel *channel = NULL;
    SL_TRY(sl_device_find("cpu")->open(&config, &cpu));
    struct sl_channel_spec spec = {
        .from = 0, .to = 1, .places = 1, .size_bytes = 8, .device = cpu, .sender = cpu};
    sl_err err = sl_comm_channel_open(r->comm, &spec, &channel);
    sl_comm_channel_close(channel);
    cpu->row->close(cpu);
    return r->rank == 2 ? SL_OK : err;
}

static void test_refused(void **state) {
    (void)state;
    struct rank ranks[RANKS];
    run_ranks(open_plain, ranks);
    for (int i = 0; i < RANKS; i++) {
        assert_int_equal(ranks[i].err, SL_ERR_REFUSED);
        assert_non_null(strstr(ranks[i].message, "moves GPU memory"));
    }
}

/* ---- one rank, to itself ---- */

/* Tags are sent in one order and received in another. */
static void speak_to_itself(const struct sl_nccl_link_row *row, const struct sl_device_row *kind) {
    enum { TAGS = 7, SIZE = 300000 };
    struct sl_comm_job job = {.ranks = 1, .meet_fd = -1};
    struct sl_device_config config = {.threads = 1};
    struct sl_comm *comm;
    struct sl_device *device;
    struct sl_transfer sends[TAGS], receives[TAGS];
    void *from, *to;
    char *host = malloc(TAGS * SIZE), *got = malloc(TAGS * SIZE);
    must(kind->open(&config, &device));
    must(sl_comm_open(&sl_comm_transport_tcp, &job, &comm));
    must(sl_comm_nccl_link_attach(comm, row, "loop", true));
    struct sl_post *post = (struct sl_post *)comm;
    must(sl_comm_nccl_link_connect(post, 0, 0));
    must(device->row->alloc(device, TAGS * SIZE, &from));
    must(device->row->alloc(device, TAGS * SIZE, &to));
    for (int round = 0; round < ROUNDS; round++) {
        memset(sends, 0, sizeof sends);
        memset(receives, 0, sizeof receives);
        for (int i = 0; i < TAGS * SIZE; i++)
            host[i] = (char)sl_rng_u32(8, (uint64_t)round, (uint64_t)i);
        must(device->row->upload(device, SL_STREAM_COMPUTE, from, host, TAGS * SIZE));
        must(device->row->sync(device, SL_STREAM_COMPUTE));
        sl_comm_post_lock(post);
        for (int k = 0; k < TAGS; k++) {
            int s = (k + round) % TAGS, t = (3 * k + round) % TAGS;
            must(sl_comm_post_send(post, &sends[s], (char *)from + s * SIZE, SIZE - s, 0, 100 + s));
            must(sl_comm_post_receive(post, &receives[t], (char *)to + t * SIZE, SIZE, 0, 100 + t));
        }
        sl_comm_post_unlock(post);
        must(sl_comm_post_wait(post, sends, TAGS));
        must(sl_comm_post_wait(post, receives, TAGS));
        must(device->row->download(device, SL_STREAM_COMPUTE, got, to, TAGS * SIZE));
        must(device->row->sync(device, SL_STREAM_COMPUTE));
        for (int k = 0; k < TAGS; k++)
            assert_memory_equal(got + k * SIZE, host + k * SIZE, (size_t)(SIZE - k));
    }
    device->row->free(device, from);
    device->row->free(device, to);
    must(sl_comm_settle(comm, SL_OK));
    sl_comm_close(comm);
    device->row->close(device);
    free(host);
    free(got);
}

static void test_loop(void **state) {
    (void)state;
    speak_to_itself(&wires, apart_row());
}

static void test_loop_gpu(void **state) {
    const char *why;
    const struct sl_nccl_link_row *gpus = sl_device_nccl_link_gpus(&why);
    (void)state;
    if (!gpus) {
        printf("without a GPU: %s\n", why);
        skip();
    }
    speak_to_itself(gpus, sl_device_find("cuda"));
    printf("count: messages over NCCL, one rank to itself 140\n");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_messages),       cmocka_unit_test(test_shared),
        cmocka_unit_test(test_shared_refused), cmocka_unit_test(test_sums),
        cmocka_unit_test(test_failure),        cmocka_unit_test(test_broken_link),
        cmocka_unit_test(test_refused),        cmocka_unit_test(test_loop),
        cmocka_unit_test(test_loop_gpu),
    };
    sl_log_open(SL_LOG_QUIET, false,
                false); /* which one thread writes, and here ranks are threads */
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    wires_free();
    for (struct room *room = all_rooms, *next; room; room = next) {
        next = room->next;
        free(room);
    }
    return failed;
}
