/* The status of workers. Each worker writes its own status; the watchdog reads it, and the thread
 * that detects a lost rank. Heartbeats carry it to the other ranks. */
#include "pipe/reporter.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

static const int64_t nothing = -1;

/* A status is one word, so that other threads can read it while the worker runs. Fields and bits:
 *     doing  kind: 8 at bit 56, stage: 16 at bit 32, micro-batch: 32 at bit 0
 *     wait   kind of wait: 8 at bit 56, gradient: 1 at bit 55, edge or group: 16 at bit 32,
 *            worker: 16 at bit 16, micro-batch of its iteration: 16 at bit 0 */
void sl_pipe_status_action(struct sl_pipe_worker *w, const struct sl_action *action) {
    int64_t doing = action ? (int64_t)action->kind << 56 | (int64_t)(uint16_t)action->stage << 32 |
                                 (int64_t)(uint32_t)action->micro
                           : nothing;
    struct sl_pipe_status *notes = &w->status;
    int64_t done = atomic_load_explicit(&notes->done, memory_order_relaxed);
    atomic_store_explicit(&notes->done, done + 1, memory_order_relaxed);
    atomic_store_explicit(&notes->doing, doing, memory_order_relaxed);
    atomic_store_explicit(&notes->wait, 0, memory_order_relaxed);
}

void sl_pipe_status_done(struct sl_pipe_worker *w, enum sl_kind kind, int64_t dur_ns) {
    struct sl_pipe_status *notes = &w->status;
    bool first = !(notes->seen >> kind & 1);
    int64_t longest = atomic_load_explicit(&notes->longest_ns[kind], memory_order_relaxed);
    if (dur_ns < notes->expected_ns[kind])
        dur_ns = notes->expected_ns[kind];
    if (!first && dur_ns <= longest)
        return;
    notes->seen |= (uint32_t)1 << kind;
    atomic_store_explicit(&notes->longest_ns[kind], dur_ns, memory_order_relaxed);
}

void sl_pipe_status_wait(struct sl_pipe_worker *w, struct sl_pipe_wait note) {
    int64_t word = (int64_t)note.wait << 56 | (int64_t)note.grad << 55 |
                   (int64_t)(uint16_t)note.of << 32 | (int64_t)(uint16_t)note.peer << 16 |
                   (int64_t)(uint16_t)note.peer_micro;
    atomic_store_explicit(&w->status.wait, word, memory_order_relaxed);
}

void sl_pipe_status_resume(struct sl_pipe_worker *w) {
    atomic_store_explicit(&w->status.wait, 0, memory_order_relaxed);
}

static struct sl_work read_own(const struct sl_pipe *pipe, int worker) {
    const struct sl_pipe_status *notes = &pipe->workers[worker].status;
    int64_t doing = atomic_load_explicit(&notes->doing, memory_order_relaxed);
    int64_t wait = atomic_load_explicit(&notes->wait, memory_order_relaxed);
    struct sl_work work = {
        .known = true,
        .done = atomic_load_explicit(&notes->done, memory_order_relaxed),
        .moved = atomic_load_explicit(&pipe->comm->moved, memory_order_relaxed),
        .starved_ns = atomic_load_explicit(&notes->starved_ns, memory_order_relaxed),
    };
    if (doing == nothing)
        return work;
    work.busy = true;
    work.kind = (int32_t)(doing >> 56);
    work.stage = (int32_t)(doing >> 32 & 0xffff);
    work.micro = (int32_t)(doing & 0x7fffffff);
    work.wait = (int32_t)(wait >> 56);
    work.grad = (int32_t)(wait >> 55 & 1);
    work.of = (int32_t)(wait >> 32 & 0xffff);
    work.peer = (int32_t)(wait >> 16 & 0xffff);
    work.peer_micro = (int32_t)(wait & 0xffff);
    work.expect_ns = atomic_load_explicit(&notes->longest_ns[work.kind], memory_order_relaxed);
    return work;
}

/* Returns the first worker of a rank and their number; the workers of a rank are consecutive. */
static int first_of(const struct sl_pipe *pipe, int rank, int *count) {
    int workers = pipe->config.plan->worker_count, first = 0;
    while (first < workers && sl_comm_rank_of(pipe->comm, first, workers) < rank)
        first++;
    *count = 0;
    while (first + *count < workers && sl_comm_rank_of(pipe->comm, first + *count, workers) == rank)
        ++*count;
    return first;
}

int64_t sl_pipe_status_bytes(const struct sl_pipe *pipe, int rank) {
    int count;
    first_of(pipe, rank, &count);
    return count * (int64_t)sizeof(struct sl_work) + (int64_t)sizeof(struct sl_pipe_loss_sums);
}

static void show_work(const struct sl_pipe *pipe, void *out) {
    int count, first = first_of(pipe, pipe->comm->rank, &count);
    for (int i = 0; i < count; i++) {
        struct sl_work work = read_own(pipe, first + i);
        memcpy((char *)out + (size_t)i * sizeof work, &work, sizeof work);
    }
}

void sl_pipe_status_publish(void *ctx, void *out) {
    const struct sl_pipe *pipe = ctx;
    int64_t bytes = sl_pipe_status_bytes(pipe, pipe->comm->rank);
    struct sl_pipe_loss_sums word;
    show_work(pipe, out);
    sl_pipe_reporter_publish(pipe, &word);
    memcpy((char *)out + bytes - sizeof word, &word, sizeof word);
}

/* Returns the bytes that a rank has published, or NULL if there are none; the caller frees them. */
static char *read_rank(const struct sl_pipe *pipe, int rank, int64_t *age_ns) {
    int64_t bytes = sl_pipe_status_bytes(pipe, rank);
    char *seen = sl_realloc(NULL, (size_t)bytes);
    if (sl_comm_look(pipe->comm, rank, seen, bytes, age_ns))
        return seen;
    free(seen);
    return NULL;
}

bool sl_pipe_status_losses(const struct sl_pipe *pipe, int rank, struct sl_pipe_loss_sums *out) {
    int64_t age_ns;
    char *seen = read_rank(pipe, rank, &age_ns);
    if (seen)
        memcpy(out, seen + sl_pipe_status_bytes(pipe, rank) - sizeof *out, sizeof *out);
    free(seen);
    return seen != NULL;
}

void sl_pipe_status_read(const struct sl_pipe *pipe, struct sl_work *out) {
    const struct sl_plan *plan = pipe->config.plan;
    int count;
    for (int rank = 0; rank < pipe->comm->ranks; rank++) {
        struct sl_work *at = &out[first_of(pipe, rank, &count)];
        int64_t age_ns = 0;
        char *seen = rank == pipe->comm->rank ? NULL : read_rank(pipe, rank, &age_ns);
        memset(at, 0, (size_t)count * sizeof *at);
        if (rank == pipe->comm->rank)
            show_work(pipe, at);
        else if (seen)
            memcpy(at, seen, (size_t)count * sizeof *at);
        free(seen);
        for (int i = 0; i < count; i++) {
            if (!sl_sched_work_is_valid(plan, &at[i]))
                at[i] = (struct sl_work){0};
            at[i].still_ns = age_ns;
        }
    }
}
