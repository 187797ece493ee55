/* Messages between two threads, with pauses in between as in a pipeline. */
#include "profile/link.h"

#include "base/clock.h"
#include "base/par.h"
#include "base/sort.h"
#include "comm/comm.h"

enum { ROUNDS = 21, PAUSE_NS = 1000000 };

struct talk {
    struct sl_channel *channel;
    int64_t late_ns[ROUNDS];
    sl_err err[2];
};

static void pause_ns(int64_t ns) {
    int64_t until = sl_clock_ns() + ns;
    while (sl_clock_ns() < until)
        ;
}

static sl_err tell(struct talk *t) {
    char *at;
    for (int n = 0; n < ROUNDS; n++) {
        pause_ns(PAUSE_NS);
        SL_TRY(sl_comm_channel_reserve(t->channel, n, &at));
        *at = 0;
        SL_TRY(sl_comm_channel_send(t->channel, n, 1));
    }
    return SL_OK;
}

static sl_err hear(struct talk *t) {
    struct sl_message message;
    for (int n = 0; n < ROUNDS; n++) {
        SL_TRY(sl_comm_channel_receive(t->channel, n, &message));
        t->late_ns[n] = sl_clock_ns() - message.arrived_ns;
        SL_TRY(sl_comm_channel_release(t->channel, n));
    }
    return SL_OK;
}

/* Acts as sender or as receiver. Both may also run one after the other: the channel holds all
 * messages. */
static void act(void *ctx, int64_t who) {
    struct talk *t = ctx;
    t->err[who] = who ? hear(t) : tell(t);
    if (t->err[who] != SL_OK)
        sl_comm_fail(t->channel->comm, t->err[who]);
}

sl_err sl_profile_latency(int64_t *out_ns) {
    const struct sl_transport *row;
    struct sl_comm *comm = NULL;
    struct talk t = {0};
    struct sl_channel_spec spec = {.places = ROUNDS, .size_bytes = 64};
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_comm_transport_find("threads", &row));
    SL_TRY_OUT(sl_comm_open(row, NULL, &comm));
    SL_TRY_OUT(sl_comm_channel_open(comm, &spec, &t.channel));
    sl_par_for(2, 2, act, &t);
    SL_TRY_OUT(t.err[0]);
    SL_TRY_OUT(t.err[1]);
    sl_sort_ints(t.late_ns, ROUNDS);
    *out_ns = t.late_ns[ROUNDS / 2] > 0 ? t.late_ns[ROUNDS / 2] : 0;
out:
    sl_comm_channel_close(t.channel);
    sl_comm_close(comm);
    return err;
}
