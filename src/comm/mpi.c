/* The MPI transport: start, progress, failure, end. It uses only standard MPI. It is a module,
 * because the program itself must run without MPI.
 *
 * Progress: MPI moves data only inside its calls. Waiting threads poll, and workers poll between
 * actions and between the instructions of a program. A progress thread would cost a core.
 *
 * Heartbeats use TCP connections (mpi_life.c), because an MPI call may hang when a rank dies.
 *
 * Failure: a rank sends its first error to all others, and all waiting workers return it. At the
 * end each rank that failed or received an error has sent a message to all others and waits, with
 * a timeout, for theirs. Then no rank is left waiting, and MPI can be finalized. */
#include "comm/mpi_state.h"

#include "base/arena.h"
#include "base/clock.h"
#include "comm/module_build.h"

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
static const struct sl_post_row post_row;
static const int64_t timeout_ns = 5000000000;

sl_err sl_comm_mpi_check(int code, const char *call) {
    char text[MPI_MAX_ERROR_STRING];
    int length = 0;
    if (code == MPI_SUCCESS)
        return SL_OK;
    MPI_Error_string(code, text, &length);
    return sl_fail(SL_ERR_PEER, "MPI: %.*s: %s", (int)strcspn(call, "("), call, text);
}

static struct mpi_comm *of(struct sl_post *post) { return (struct mpi_comm *)post; }

static void lock(struct sl_post *post) { pthread_mutex_lock(&of(post)->lock); }
static void unlock(struct sl_post *post) { pthread_mutex_unlock(&of(post)->lock); }

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

static void add_op(struct mpi_comm *comm, struct sl_transfer *op, MPI_Request request) {
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
    return sl_fail(SL_ERR_REFUSED,
                   "a message of %lld bytes is more than MPI takes (%d); use smaller "
                   "micro-batches",
                   (long long)size_bytes, INT_MAX);
}

static sl_err mpi_isend(struct sl_post *post, struct sl_transfer *op, const void *bytes,
                        int64_t size_bytes, int to, int tag) {
    struct mpi_comm *comm = of(post);
    MPI_Request request;
    SL_TRY(check_size(size_bytes));
    atomic_store_explicit(&op->busy, true, memory_order_relaxed);
    SL_TRY(SL_MPI(MPI_Isend(bytes, (int)size_bytes, MPI_BYTE, to, tag, comm->world, &request)));
    add_op(comm, op, request);
    return SL_OK;
}

static sl_err mpi_issend(struct sl_post *post, struct sl_transfer *op, const void *bytes,
                         int64_t size_bytes, int to, int tag) {
    struct mpi_comm *comm = of(post);
    MPI_Request request;
    SL_TRY(check_size(size_bytes));
    atomic_store_explicit(&op->busy, true, memory_order_relaxed);
    SL_TRY(SL_MPI(MPI_Issend(bytes, (int)size_bytes, MPI_BYTE, to, tag, comm->world, &request)));
    add_op(comm, op, request);
    return SL_OK;
}

static sl_err mpi_irecv(struct sl_post *post, struct sl_transfer *op, void *bytes,
                        int64_t size_bytes, int from, int tag) {
    struct mpi_comm *comm = of(post);
    MPI_Request request;
    SL_TRY(check_size(size_bytes));
    atomic_store_explicit(&op->busy, true, memory_order_relaxed);
    SL_TRY(SL_MPI(MPI_Irecv(bytes, (int)size_bytes, MPI_BYTE, from, tag, comm->world, &request)));
    add_op(comm, op, request);
    return SL_OK;
}

static bool mpi_drop(struct sl_post *post, struct sl_transfer *op) {
    struct mpi_comm *comm = of(post);
    bool failed = atomic_load(&comm->post.base.gate.failed);
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

/* ---- progress ---- */

/* Tests the active operations; under the lock. */
static bool test_ops(struct mpi_comm *comm) {
    int done = 0;
    if (MPI_Testsome(comm->active, comm->requests, &done, comm->indices, comm->statuses) !=
            MPI_SUCCESS ||
        done == MPI_UNDEFINED || done == 0)
        return false;
    /* sorts from last to first, so that the remaining indices stay valid when one is removed */
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
        struct sl_transfer *op = comm->ops[comm->indices[i]];
        remove_op(comm, comm->indices[i]);
        int count = 0;
        MPI_Get_count(&comm->statuses[i], MPI_BYTE, &count);
        if (op->done)
            op->done(op, count);
        atomic_store_explicit(&op->busy, false, memory_order_release);
    }
    atomic_fetch_add_explicit(&comm->post.base.moved, done, memory_order_relaxed);
    return true;
}

static void announce(struct mpi_comm *comm) {
    comm->announced = true;
    comm->told->err = (int)sl_comm_gate_error(&comm->post.base.gate);
    /* a received error already names its rank */
    if (comm->failed_ranks > 0 || comm->told->err == SL_OK || sl_comm_mpi_life_lost(comm) > 0)
        snprintf(comm->told->message, sizeof comm->told->message, "%s", sl_err_message());
    else
        snprintf(comm->told->message, sizeof comm->told->message, "rank %d: %s",
                 comm->post.base.rank, sl_err_message());
    for (int r = 0; r < comm->post.base.ranks; r++) {
        MPI_Request request;
        if (r != comm->post.base.rank &&
            MPI_Isend(comm->told, (int)sizeof *comm->told, MPI_BYTE, r, FAILURE_TAG, comm->control,
                      &request) == MPI_SUCCESS)
            MPI_Request_free(&request); /* no wait: `told` lives as long as the transport */
    }
}

static void listen(struct mpi_comm *comm) {
    MPI_Request request;
    atomic_store(&comm->hear.busy, true);
    if (MPI_Irecv(comm->heard, (int)sizeof *comm->heard, MPI_BYTE, MPI_ANY_SOURCE, FAILURE_TAG,
                  comm->control, &request) == MPI_SUCCESS)
        add_op(comm, &comm->hear, request);
}

static void hear(struct sl_transfer *op, int64_t size_bytes) {
    struct mpi_comm *comm = (struct mpi_comm *)((char *)op - offsetof(struct mpi_comm, hear));
    (void)size_bytes;
    comm->failed_ranks++;
    sl_err_set_message(comm->heard->message);
    sl_comm_gate_fail(&comm->post.base.gate, (sl_err)comm->heard->err);
    if (comm->failed_ranks < comm->post.base.ranks - 1)
        listen(comm);
}

static bool poll(void *ctx) {
    struct mpi_comm *comm = ctx;
    if (pthread_mutex_trylock(&comm->lock) != 0)
        return false;
    if (!comm->announced &&
        atomic_load_explicit(&comm->post.base.gate.failed, memory_order_relaxed))
        announce(comm);
    bool moved = test_ops(comm);
    unlock(&comm->post);
    return moved;
}

/* ---- start and end ---- */

static sl_err start_mpi(struct mpi_comm *comm, const struct sl_comm_job *job) {
    int started = 0, level = 0, found = 0, *max;
    SL_TRY(SL_MPI(MPI_Initialized(&started)));
    comm->own_init = !started;
    if (!started)
        SL_TRY(SL_MPI(MPI_Init_thread(NULL, NULL, MPI_THREAD_SERIALIZED, &level)));
    SL_TRY(SL_MPI(MPI_Query_thread(&level)));
    if (level < MPI_THREAD_SERIALIZED)
        return sl_fail(SL_ERR_SYSTEM, "this MPI cannot be called from several threads in turn "
                                      "(MPI_THREAD_SERIALIZED)");
    MPI_Comm all = MPI_COMM_WORLD;
    if (job && job->communicator)
        memcpy(&all, job->communicator, sizeof all);
    SL_TRY(SL_MPI(MPI_Comm_dup(all, &comm->world)));
    SL_TRY(SL_MPI(MPI_Comm_dup(all, &comm->control)));
    SL_TRY(SL_MPI(MPI_Comm_set_errhandler(comm->world, MPI_ERRORS_RETURN)));
    SL_TRY(SL_MPI(MPI_Comm_set_errhandler(comm->control, MPI_ERRORS_RETURN)));
    SL_TRY(SL_MPI(MPI_Comm_rank(comm->world, &comm->post.base.rank)));
    SL_TRY(SL_MPI(MPI_Comm_size(comm->world, &comm->post.base.ranks)));
    SL_TRY(SL_MPI(MPI_Comm_get_attr(comm->world, MPI_TAG_UB, &max, &found)));
    comm->post.last_tag = found ? *max : 32767;
    return SL_OK;
}

static void free_comm(struct mpi_comm *comm) {
    sl_comm_done(&comm->post.base);
    pthread_mutex_destroy(&comm->lock);
    free(comm->requests);
    free(comm->ops);
    free(comm->indices);
    free(comm->statuses);
    sl_comm_post_close(&comm->post);
    free(comm->told);
    free(comm->heard);
    free(comm);
}

static sl_err open_row(const struct sl_transport *row, bool shares, const struct sl_comm_job *job,
                       struct sl_comm **out) {
    struct mpi_comm *comm = sl_realloc(NULL, sizeof *comm);
    *comm = (struct mpi_comm){.post = {.base = {.row = row}, .row = &post_row}};
    comm->node = MPI_COMM_NULL;
    sl_comm_init(&comm->post.base);
    pthread_mutex_init(&comm->lock, NULL);
    comm->told = sl_realloc(NULL, sizeof *comm->told);
    comm->heard = sl_realloc(NULL, sizeof *comm->heard);
    sl_err err = start_mpi(comm, job);
    if (err == SL_OK && shares)
        err = sl_comm_mpi_node_open(comm);
    if (err != SL_OK) {
        free_comm(comm);
        return err;
    }
    sl_comm_post_open(&comm->post);
    comm->post.base.gate.poll = poll;
    comm->post.base.gate.poll_ctx = comm;
    comm->hear.done = hear;
    if (comm->post.base.ranks > 1) {
        listen(comm);
        sl_comm_mpi_life_open(comm);
    }
    *out = &comm->post.base;
    return SL_OK;
}

/* Waits until all other ranks have announced their end. False: the timeout came first. */
static bool hear_all(struct mpi_comm *comm) {
    int64_t end = sl_clock_ns() + timeout_ns;
    while (sl_clock_ns() < end) {
        poll(comm);
        if (comm->failed_ranks + sl_comm_mpi_life_lost(comm) >= comm->post.base.ranks - 1)
            return true;
        sched_yield();
    }
    return false;
}

static void stop_mpi(struct mpi_comm *comm) {
    lock(&comm->post);
    for (int i = 0; i < comm->active; i++) {
        MPI_Cancel(&comm->requests[i]);
        MPI_Request_free(&comm->requests[i]);
    }
    unlock(&comm->post);
    sl_comm_mpi_node_close(comm, atomic_load(&comm->post.base.gate.failed));
    MPI_Comm_free(&comm->world);
    MPI_Comm_free(&comm->control);
    if (comm->own_init)
        MPI_Finalize();
}

/* Exchanges results. After a failure it waits until all other ranks have announced theirs, so that
 * none is left waiting. */
static sl_err settle(struct sl_comm *base, sl_err err) {
    struct mpi_comm *comm = (struct mpi_comm *)base;
    if (err == SL_OK) /* the final barrier: no rank leaves while another works */
        err = sl_comm_post_merge(&comm->post, &comm->post.everyone, NULL, NULL, 0);
    if (err != SL_OK)
        sl_comm_gate_fail(&base->gate, err);
    sl_err first = sl_comm_gate_error(&base->gate);
    base->broken = first != SL_OK && (!hear_all(comm) || sl_comm_mpi_life_lost(comm) > 0);
    while (base->speaker < base->rank && sl_comm_is_lost(base, base->speaker))
        base->speaker++;
    return first;
}

static void close_comm(struct sl_comm *base) {
    if (!base->broken)
        sl_comm_mpi_life_close((struct mpi_comm *)base);
    if (base->broken)
        MPI_Abort(((struct mpi_comm *)base)->world, (int)base->gate.err);
    stop_mpi((struct mpi_comm *)base);
    free_comm((struct mpi_comm *)base);
}

static const struct sl_post_row post_row = {
    .lock = lock,
    .unlock = unlock,
    .send = mpi_isend,
    .send_sync = mpi_issend,
    .receive = mpi_irecv,
    .drop = mpi_drop,
    .share = sl_comm_mpi_node_share,
};

static sl_err open_mpi(const struct sl_comm_job *job, struct sl_comm **out) {
    return open_row(&sl_comm_transport_mpi, true, job, out);
}

static sl_err open_p2p(const struct sl_comm_job *job, struct sl_comm **out) {
    return open_row(&sl_comm_transport_mpi_p2p, false, job, out);
}

const char sl_comm_module_build[] = SL_MODULE_BUILD;

const struct sl_transport sl_comm_transport_mpi = {
    .name = "mpi",
    .brief = "ranks of an MPI job",
    .made_for = SL_MPI_MADE_FOR,
    .has_launcher = true,
    .open = open_mpi,
    .settle = settle,
    .close = close_comm,
    SL_POST_FUNCTIONS,
};

const struct sl_transport sl_comm_transport_mpi_p2p = {
    .name = "mpi-p2p",
    .brief = "ranks of an MPI job, messages only",
    .made_for = SL_MPI_MADE_FOR,
    .has_launcher = true,
    .open = open_p2p,
    .settle = settle,
    .close = close_comm,
    SL_POST_FUNCTIONS,
};
