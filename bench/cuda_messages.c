/* Latency and bandwidth of messages between two processes that compute on one GPU (or on two GPUs
 * of this host), through memory that both map (CUDA IPC) and through the host; prints RESULT lines.
 *
 *   ./dev bench cuda_messages                            two processes over TCP
 *   mpirun -n 2 build/release/bench/cuda_messages mpi    (or mpi-p2p)
 *
 * A message goes back and forth as in a run: the sender copies it from its device memory to the
 * slot, the receiver from the slot to its own. `us` is half of a round trip, the median of many;
 * the two ways alternate. Contents are compared at the end. Two processes that share a GPU also
 * take turns on it.
 */
#include "base/clock.h"
#include "comm/post.h"
#include "comm/tcp.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

enum { ROUNDS = 41, SIZES = 4, PLACES = 2 };
static const int64_t sizes[SIZES] = {4 << 10, 256 << 10, 4 << 20, 64 << 20};

static void must(sl_err err) {
    if (err == SL_OK)
        return;
    fprintf(stderr, "cuda_messages: %s\n", sl_err_message());
    exit((int)err);
}

struct wire {
    struct sl_comm *comm;
    struct sl_device *device;
    struct sl_channel *there, *back; /* from rank 0 to 1, and from 1 to 0 */
    void *memory;                    /* device memory of size_bytes */
    int64_t size_bytes, n;
};

static void copy(const struct wire *w, void *to, const void *from) {
    must(w->device->row->copy(w->device, SL_STREAM_COMPUTE, to, from, w->size_bytes));
    must(w->device->row->sync(w->device, SL_STREAM_COMPUTE));
}

static void give(const struct wire *w, struct sl_channel *channel) {
    char *at;
    must(sl_comm_channel_reserve(channel, w->n, &at));
    copy(w, at, w->memory);
    must(sl_comm_channel_send(channel, w->n, w->size_bytes));
}

static void take(const struct wire *w, struct sl_channel *channel) {
    struct sl_message message;
    must(sl_comm_channel_receive(channel, w->n, &message));
    copy(w, w->memory, message.at);
    must(sl_comm_channel_release(channel, w->n));
}

/* Microseconds of half a round trip; rank 1 measures nothing. */
static double trip_us(struct wire *w) {
    int64_t start = sl_clock_ns();
    if (w->comm->rank == 0)
        give(w, w->there);
    else
        take(w, w->there);
    if (w->comm->rank == 0)
        take(w, w->back);
    else
        give(w, w->back);
    w->n++;
    return (double)(sl_clock_ns() - start) / 2e3;
}

static void open_wire(struct wire *w, bool ipc) {
    for (int from = 0; from < 2; from++) {
        struct sl_channel_spec spec = {.from = from,
                                       .to = !from,
                                       .places = PLACES,
                                       .size_bytes = w->size_bytes,
                                       .device = from == w->comm->rank ? NULL : w->device,
                                       .sender = from == w->comm->rank ? w->device : NULL,
                                       .ipc = ipc};
        must(sl_comm_channel_open(w->comm, &spec, from ? &w->back : &w->there));
    }
    must(w->device->row->alloc(w->device, w->size_bytes, &w->memory));
}

static void close_wire(struct wire *w) {
    sl_comm_channel_close(w->there);
    sl_comm_channel_close(w->back);
    w->device->row->free(w->device, w->memory);
}

static char *pattern(int64_t size_bytes) {
    char *bytes = malloc((size_t)size_bytes);
    for (int64_t i = 0; bytes && i < size_bytes; i++)
        bytes[i] = (char)(i * 131 + (i >> 13));
    return bytes;
}

/* Rank 0's values came back to it through rank 1. */
static void check(const struct wire *w, const char *want) {
    char *got = calloc(1, (size_t)w->size_bytes);
    must(w->device->row->download(w->device, SL_STREAM_COMPUTE, got, w->memory, w->size_bytes));
    must(w->device->row->sync(w->device, SL_STREAM_COMPUTE));
    if (memcmp(got, want, (size_t)w->size_bytes) != 0)
        must(sl_fail(SL_ERR_REFUSED, "a message of %lld bytes is another one now",
                     (long long)w->size_bytes));
    free(got);
}

static int by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void measure(struct sl_comm *comm, struct sl_device *device, int64_t size_bytes) {
    struct wire wires[2] = {{0}, {0}}; /* through the host; through shared memory */
    double us[2][ROUNDS];
    char *bytes = pattern(size_bytes);
    for (int way = 0; way < 2; way++) {
        wires[way] = (struct wire){.comm = comm, .device = device, .size_bytes = size_bytes};
        open_wire(&wires[way], way);
        if (comm->rank == 0)
            must(device->row->upload(device, SL_STREAM_COMPUTE, wires[way].memory, bytes,
                                     size_bytes));
    }
    for (int i = 0; i < ROUNDS; i++)
        for (int way = 0; way < 2; way++)
            us[way][i] = trip_us(&wires[way]);
    for (int way = 0; way < 2; way++) {
        check(&wires[way], bytes);
        close_wire(&wires[way]);
        qsort(us[way], ROUNDS, sizeof us[way][0], by_value);
        if (comm->rank == 0)
            printf("RESULT bench=cuda_messages transport=%s way=%s bytes=%lld us=%.1f gb_s=%.2f\n",
                   comm->row->name, way ? "ipc" : "host", (long long)size_bytes,
                   us[way][ROUNDS / 2], (double)size_bytes / us[way][ROUNDS / 2] / 1e3);
    }
    free(bytes);
}

static int run_rank(const struct sl_transport *row, const struct sl_comm_job *job) {
    struct sl_device_config config = {.threads = 1};
    struct sl_comm *comm;
    struct sl_device *device;
    const char *why = sl_device_find("cuda")->missing();
    if (why) {
        printf("%s\n", why);
        return 77;
    }
    must(sl_comm_open(row, job, &comm));
    if (comm->ranks != 2)
        must(sl_fail(SL_ERR_USAGE, "two ranks are needed: mpirun -n 2 ..."));
    config.index = comm->rank; /* modulo the number of devices */
    must(sl_device_find("cuda")->open(&config, &device));
    for (int i = 0; i < SIZES; i++)
        measure(comm, device, sizes[i]);
    bool used = ((struct sl_post *)comm)->ipc_said[true];
    device->row->close(device);
    must(sl_comm_settle(comm, SL_OK));
    sl_comm_close(comm);
    if (!used)
        must(sl_fail(SL_ERR_REFUSED, "CUDA IPC was refused: both ways went through the host"));
    return 0;
}

/* Starts two processes before either has used the GPU. */
static int run_two(void) {
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t length = sizeof at;
    struct sl_comm_job job = {.ranks = 2, .has_key = true, .timeout_ns = 60000000000};
    int status = 0;
    job.meet_fd = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(job.meet_fd, (struct sockaddr *)&at, length) != 0 || listen(job.meet_fd, 4) != 0 ||
        getsockname(job.meet_fd, (struct sockaddr *)&at, &length) != 0)
        must(sl_fail(SL_ERR_SYSTEM, "cannot listen on this host"));
    snprintf(job.meet, sizeof job.meet, "127.0.0.1:%d", ntohs(at.sin_port));
    pid_t child = fork();
    if (child < 0)
        must(sl_fail(SL_ERR_SYSTEM, "cannot start a second process"));
    if (child == 0) {
        close(job.meet_fd);
        job.rank = 1;
        job.meet_fd = -1;
        exit(run_rank(&sl_comm_transport_tcp, &job));
    }
    int own = run_rank(&sl_comm_transport_tcp, &job);
    waitpid(child, &status, 0);
    return own ? own : WIFEXITED(status) ? WEXITSTATUS(status) : 4;
}

int main(int argc, char **argv) {
    const struct sl_transport *row;
    if (!sl_device_find("cuda")) {
        printf("this build has no CUDA module\n");
        return 77;
    }
    if (argc < 2)
        return run_two();
    must(sl_comm_transport_find(argv[1], &row));
    return run_rank(row, NULL);
}
