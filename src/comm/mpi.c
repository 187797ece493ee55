/* The MPI transport: start, progress, failure, end. Pure standard MPI; a module, because the
 * program itself must run where there is no MPI.
 *
 * Progress: MPI moves little while nobody calls it. Whoever waits polls, and workers poll between
 * actions and between the instructions of a program; there is no thread for it, which would take a
 * core away from computing (docs/design).
 *
 * Failure: the first error of a rank goes to all others as a message; everyone who waits gets it.
 * At the end each rank that failed, or heard of it, has told all others so, and waits (a while) for
 * their telling: then nobody is left waiting, and MPI can be shut down in order.
 */
#include "comm/mpi_state.h"

#include "base/arena.h"
#include "base/clock.h"

#include <limits.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct mpi_failure {
    int err;
    char message[2048];
};

enum { FAILURE_TAG = 1 };
static const int64_t patience_ns = 5000000000;

sl_err mpi_check(int code, const char *call) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (code == MPI_SUCCESS)
        return SL_OK;
    MPI_Error_string(code, text, &length);
    return sl_fail(SL_ERR_PEER, "MPI: %.*s: %s", (int)strcspn(call, "("), call, text);
}

void mpi_lock(struct mpi_comm *comm) { pthread_mutex_lock(&comm->lock); }
void mpi_unlock(struct mpi_comm *comm) { pthread_mutex_unlock(&comm->lock); }

/* ---- operations ---- */

static void grow(struct mpi_comm *comm) {
    if (comm->active < comm->room)
        return;
    comm->room = comm->room ? 2 * comm->room : 64;
    size_t room = (size_t)comm->room;
    comm->requests = sl_realloc(comm->requests, room * sizeof *comm->requests);
    comm->ops = sl_realloc(comm->ops, room * sizeof *comm->ops);
    comm->indices = sl_realloc(comm->indices, room * sizeof *comm->indices);
    comm->statuses = sl_realloc(comm->statuses, room * sizeof *comm->statuses);
}

static void add_op(struct mpi_comm *comm, struct mpi_op *op, MPI_Request request) {
    grow(comm);
    comm->requests[comm->active] = request;
    comm->ops[comm->active++] = op;
}

static void remove_op(struct mpi_comm *comm, int i) {
    comm->active--;
    comm->requests[i] = comm->requests[comm->active];
    comm->ops[i] = comm->ops[comm->active];
}

static sl_err check_size(int64_t size_bytes) {
    if (size_bytes <= INT_MAX)
        return SL_OK;
    return sl_fail(SL_ERR_NO,
                   "a message of %lld bytes is more than MPI takes (%d); use smaller "
                   "micro-batches",
                   (long long)size_bytes, INT_MAX);
}

sl_err mpi_isend(struct mpi_comm *comm, struct mpi_op *op, const void *bytes, int64_t size_bytes,
                 int to, int tag) {
    MPI_Request request;
    SL_TRY(check_size(size_bytes));
    atomic_store_explicit(&op->busy, true, memory_order_relaxed);
    SL_TRY(SL_MPI(MPI_Isend(bytes, (int)size_bytes, MPI_BYTE, to, tag, comm->world, &request)));
    add_op(comm, op, request);
    return SL_OK;
}

sl_err mpi_issend(struct mpi_comm *comm, struct mpi_op *op, const void *bytes, int64_t size_bytes,
                  int to, int tag) {
    MPI_Request request;
    SL_TRY(check_size(size_bytes));
    atomic_store_explicit(&op->busy, true, memory_order_relaxed);
    SL_TRY(SL_MPI(MPI_Issend(bytes, (int)size_bytes, MPI_BYTE, to, tag, comm->world, &request)));
    add_op(comm, op, request);
    return SL_OK;
}

sl_err mpi_irecv(struct mpi_comm *comm, struct mpi_op *op, void *bytes, int64_t size_bytes,
                 int from, int tag) {
    MPI_Request request;
    SL_TRY(check_size(size_bytes));
    atomic_store_explicit(&op->busy, true, memory_order_relaxed);
    SL_TRY(SL_MPI(MPI_Irecv(bytes, (int)size_bytes, MPI_BYTE, from, tag, comm->world, &request)));
    add_op(comm, op, request);
    return SL_OK;
}

bool mpi_drop(struct mpi_comm *comm, struct mpi_op *op) {
    bool failed = atomic_load(&comm->base.gate.failed);
    for (int i = 0; i < comm->active; i++) {
        if (comm->ops[i] != op)
            continue;
        MPI_Cancel(&comm->requests[i]);
        if (failed)
            MPI_Request_free(&comm->requests[i]);
        else
            MPI_Wait(&comm->requests[i], MPI_STATUS_IGNORE);
        remove_op(comm, i);
        return !failed;
    }
    return true;
}

sl_err mpi_take_tags(struct mpi_comm *comm, int64_t count, int *first) {
    if (comm->next_tag + count > comm->last_tag)
        return sl_fail(SL_ERR_NO, "this MPI has %d tags, and channels need more; use fewer stages",
                       comm->last_tag);
    *first = comm->next_tag;
    comm->next_tag += (int)count;
    return SL_OK;
}

/* ---- progress ---- */

/* Under the lock. */
static bool test_ops(struct mpi_comm *comm) {
    int done = 0;
    if (MPI_Testsome(comm->active, comm->requests, &done, comm->indices, comm->statuses) !=
            MPI_SUCCESS ||
        done == MPI_UNDEFINED || done == 0)
        return false;
    /* From the last to the first, so that the rest keep their places. */
    for (int a = 1; a < done; a++)
        for (int b = a; b > 0 && comm->indices[b] > comm->indices[b - 1]; b--) {
            int index = comm->indices[b];
            MPI_Status status = comm->statuses[b];
            comm->indices[b] = comm->indices[b - 1];
            comm->statuses[b] = comm->statuses[b - 1];
            comm->indices[b - 1] = index;
            comm->statuses[b - 1] = status;
        }
    for (int i = 0; i < done; i++) {
        struct mpi_op *op = comm->ops[comm->indices[i]];
        remove_op(comm, comm->indices[i]);
        if (op->done)
            op->done(op, &comm->statuses[i]);
        atomic_store_explicit(&op->busy, false, memory_order_release);
    }
    return true;
}

static void announce(struct mpi_comm *comm) {
    comm->announced = true;
    comm->told->err = sl_gate_error(&comm->base.gate);
    /* What we heard from others says already whose it is. */
    if (comm->failed_ranks > 0 || comm->told->err == SL_OK)
        snprintf(comm->told->message, sizeof comm->told->message, "%s", sl_err_message());
    else
        snprintf(comm->told->message, sizeof comm->told->message, "rank %d: %s", comm->base.rank,
                 sl_err_message());
    for (int r = 0; r < comm->base.ranks; r++) {
        MPI_Request request;
        if (r != comm->base.rank && MPI_Isend(comm->told, (int)sizeof *comm->told, MPI_BYTE, r,
                                              FAILURE_TAG, comm->control, &request) == MPI_SUCCESS)
            MPI_Request_free(&request); /* `told` lives as long as the transport */
    }
}

static void listen(struct mpi_comm *comm) {
    MPI_Request request;
    atomic_store(&comm->hear.busy, true);
    if (MPI_Irecv(comm->heard, (int)sizeof *comm->heard, MPI_BYTE, MPI_ANY_SOURCE, FAILURE_TAG,
                  comm->control, &request) == MPI_SUCCESS)
        add_op(comm, &comm->hear, request);
}

static void hear(struct mpi_op *op, const MPI_Status *status) {
    struct mpi_comm *comm = (struct mpi_comm *)((char *)op - offsetof(struct mpi_comm, hear));
    (void)status;
    comm->failed_ranks++;
    sl_err_set_message(comm->heard->message);
    sl_gate_fail(&comm->base.gate, (sl_err)comm->heard->err);
    if (comm->failed_ranks < comm->base.ranks - 1)
        listen(comm);
}

static bool poll(void *ctx) {
    struct mpi_comm *comm = ctx;
    if (pthread_mutex_trylock(&comm->lock) != 0)
        return false;
    if (!comm->announced && atomic_load_explicit(&comm->base.gate.failed, memory_order_relaxed))
        announce(comm);
    bool moved = test_ops(comm);
    mpi_unlock(comm);
    return moved;
}

struct wait {
    struct mpi_op *ops;
    int count;
};

static bool all_done(void *ctx) {
    struct wait *w = ctx;
    for (; w->count > 0; w->count--)
        if (atomic_load_explicit(&w->ops[w->count - 1].busy, memory_order_acquire))
            return false;
    return true;
}

sl_err mpi_wait(struct mpi_comm *comm, struct mpi_op *ops, int count) {
    struct wait wait = {ops, count};
    return sl_gate_wait(&comm->base.gate, all_done, &wait);
}

/* ---- start and end ---- */

static sl_err start_mpi(struct mpi_comm *comm) {
    int started = 0, level = 0, found = 0, *most;
    SL_TRY(SL_MPI(MPI_Initialized(&started)));
    comm->own_init = !started;
    if (!started)
        SL_TRY(SL_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level)));
    SL_TRY(SL_MPI(MPI_Query_thread(&level)));
    if (level < MPI_THREAD_SERIALIZED)
        return sl_fail(SL_ERR_SYSTEM, "this MPI cannot be called from several threads in turn "
                                      "(MPI_THREAD_SERIALIZED)");
    SL_TRY(SL_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm->world)));
    SL_TRY(SL_MPI(MPI_Comm_dup(MPI_COMM_WORLD, &comm->control)));
    SL_TRY(SL_MPI(MPI_Comm_set_errhandler(comm->world, MPI_ERRORS_RETURN)));
    SL_TRY(SL_MPI(MPI_Comm_set_errhandler(comm->control, MPI_ERRORS_RETURN)));
    SL_TRY(SL_MPI(MPI_Comm_rank(comm->world, &comm->base.rank)));
    SL_TRY(SL_MPI(MPI_Comm_size(comm->world, &comm->base.ranks)));
    SL_TRY(SL_MPI(MPI_Comm_get_attr(comm->world, MPI_TAG_UB, &most, &found)));
    comm->last_tag = found ? *most : 32767;
    return SL_OK;
}

static void free_comm(struct mpi_comm *comm) {
    sl_gate_close(&comm->base.gate);
    pthread_mutex_destroy(&comm->lock);
    free(comm->requests);
    free(comm->ops);
    free(comm->indices);
    free(comm->statuses);
    free(comm->everyone.at);
    free(comm->told);
    free(comm->heard);
    free(comm);
}

static sl_err open_comm(struct sl_comm **out) {
    struct mpi_comm *comm = sl_realloc(NULL, sizeof *comm);
    *comm = (struct mpi_comm){.base = {.row = &sl_transport_mpi}, .next_tag = MPI_MERGE_STEPS};
    sl_gate_open(&comm->base.gate);
    pthread_mutex_init(&comm->lock, NULL);
    comm->told = sl_realloc(NULL, sizeof *comm->told);
    comm->heard = sl_realloc(NULL, sizeof *comm->heard);
    sl_err err = start_mpi(comm);
    if (err != SL_OK) {
        free_comm(comm);
        return err;
    }
    comm->everyone.count = comm->base.ranks;
    comm->everyone.me = comm->base.rank;
    comm->everyone.at = sl_realloc(NULL, sizeof(int) * (size_t)comm->base.ranks);
    for (int r = 0; r < comm->base.ranks; r++)
        comm->everyone.at[r] = r;
    comm->base.gate.poll = poll;
    comm->base.gate.poll_ctx = comm;
    comm->hear.done = hear;
    if (comm->base.ranks > 1)
        listen(comm);
    *out = &comm->base;
    return SL_OK;
}

/* All others have told that they end, too; false: somebody is silent. */
static bool hear_all(struct mpi_comm *comm) {
    int64_t end = sl_clock_ns() + patience_ns;
    while (sl_clock_ns() < end) {
        poll(comm);
        if (comm->failed_ranks >= comm->base.ranks - 1)
            return true;
        sched_yield();
    }
    return false;
}

static void stop_mpi(struct mpi_comm *comm) {
    mpi_lock(comm);
    for (int i = 0; i < comm->active; i++) {
        MPI_Cancel(&comm->requests[i]);
        MPI_Request_free(&comm->requests[i]);
    }
    mpi_unlock(comm);
    MPI_Comm_free(&comm->world);
    MPI_Comm_free(&comm->control);
    if (comm->own_init)
        MPI_Finalize();
}

/* After a failure: wait until all others have told of it, so that nobody is left waiting. */
static sl_err settle(struct sl_comm *base, sl_err err) {
    struct mpi_comm *comm = (struct mpi_comm *)base;
    if (err == SL_OK) /* a last meeting: nobody leaves while another works */
        err = mpi_merge(comm, &comm->everyone, NULL, NULL, 0);
    if (err != SL_OK)
        sl_gate_fail(&base->gate, err);
    sl_err first = sl_gate_error(&base->gate);
    base->broken = first != SL_OK && !hear_all(comm);
    return first;
}

static void close_comm(struct sl_comm *base) {
    if (base->broken)
        MPI_Abort(((struct mpi_comm *)base)->world, (int)base->gate.err);
    stop_mpi((struct mpi_comm *)base);
    free_comm((struct mpi_comm *)base);
}

static sl_err merge_ranks(struct sl_comm *base, void *bytes, int64_t size_bytes) {
    enum { PIECE = 16 << 20 };
    struct mpi_comm *comm = (struct mpi_comm *)base;
    int64_t room = size_bytes < PIECE ? size_bytes : PIECE, at = 0;
    char *scratch = sl_realloc(NULL, (size_t)room + 1);
    sl_err err = SL_OK;
    do {
        int64_t size = size_bytes - at < room ? size_bytes - at : room;
        SL_TRY_OUT(mpi_merge(comm, &comm->everyone, (char *)bytes + at, scratch, size));
        at += size;
    } while (at < size_bytes);
out:
    if (err == SL_OK) /* else MPI may still write to it */
        free(scratch);
    return err;
}

const struct sl_transport sl_transport_mpi = {
    .name = "mpi",
    .brief = "ranks of an MPI job",
    .open = open_comm,
    .settle = settle,
    .close = close_comm,
    .merge = merge_ranks,
    .channel_open = mpi_channel_open,
    .channel_close = mpi_channel_close,
    .reserve = mpi_reserve,
    .send = mpi_send,
    .receive = mpi_receive,
    .release = mpi_release,
    .group_open = mpi_group_open,
    .group_close = mpi_group_close,
    .group_merge = mpi_group_merge,
    .sum_begin = mpi_sum_begin,
    .sum_end = mpi_sum_end,
};
