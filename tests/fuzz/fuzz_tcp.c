/* Input of the TCP transport: any bytes, in pieces, while receives are posted. Each receive gets a
 * message of the right size, or the transport names the peer that broke the protocol. The first
 * byte selects the receives, and whether a sent message waits for its ACK. */
#include "comm/tcp.h"
#include "comm/tcp_state.h"
#include "fuzz/meter.h"

#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECEIVES = 3, ROOM = 48, WAITS = 1 << RECEIVES };

struct world {
    struct tcp_comm comm;
    struct tcp_peer peers[2];
    struct sl_transfer ops[RECEIVES + 1];
    char into[RECEIVES][ROOM];
    int far; /* the peer's end */
};

static void check_size(struct sl_transfer *op, int64_t size_bytes) {
    (void)op;
    if (size_bytes < 0 || size_bytes > ROOM)
        abort();
}

static void open_world(struct world *w, uint8_t choice) {
    int pair[2];
    *w = (struct world){.comm = {.post = {.base = {.row = &sl_comm_transport_tcp, .ranks = 2}},
                                 .peers = w->peers,
                                 .early_bytes = 1 << 20,
                                 .poll_fd = -1,
                                 .wake_fd = -1}};
    if (socketpair(AF_UNIX, SOCK_STREAM, 0, pair) != 0)
        abort();
    sl_comm_gate_open(&w->comm.post.base.gate);
    pthread_mutex_init(&w->comm.lock, NULL);
    w->far = pair[1];
    for (int r = 0; r < 2; r++) {
        w->peers[r].fd = r ? pair[0] : -1;
        w->peers[r].out_end = &w->peers[r].out;
    }
    for (int i = 0; i < RECEIVES; i++) {
        if (!(choice >> i & 1))
            continue;
        struct tcp_in *in = malloc(sizeof *in);
        w->ops[i].done = check_size;
        atomic_store(&w->ops[i].busy, true);
        *in = (struct tcp_in){
            .next = w->peers[1].in, .op = &w->ops[i], .bytes = w->into[i], .room = ROOM, .tag = i};
        w->peers[1].in = in;
    }
    if (choice & WAITS) {
        struct tcp_out *out = malloc(sizeof *out);
        atomic_store(&w->ops[RECEIVES].busy, true);
        *out = (struct tcp_out){.op = &w->ops[RECEIVES], .head = {.kind = TCP_SYNC, .serial = 1}};
        w->peers[1].unacked = out;
    }
}

static void close_world(struct world *w) {
    close(w->far);
    sl_comm_tcp_free_peer(&w->peers[1]);
    sl_comm_gate_close(&w->comm.post.base.gate);
    pthread_mutex_destroy(&w->comm.lock);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static struct world w;
    if (size < 1)
        return 0;
    open_world(&w, data[0]);
    sl_meter_start();
    for (size_t at = 1; at < size && !w.peers[1].gone;) {
        size_t piece = 1 + (at * 7919 + data[0]) % 61;
        piece = piece < size - at ? piece : size - at;
        if (write(w.far, data + at, piece) != (ssize_t)piece)
            abort();
        at += piece;
        while (!w.peers[1].gone && sl_comm_tcp_read_piece(&w.comm, 1))
            continue;
    }
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    close_world(&w);
    return 0;
}
