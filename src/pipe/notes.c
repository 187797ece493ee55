/* Notes: what every worker is at, written by it and read by the watchdog, by the thread that finds
 * a rank lost, and, with the signs of life, by all other ranks. */
#include "pipe/tell.h"

#include "base/arena.h"

#include <stdlib.h>
#include <string.h>

static const int64_t nothing = -1;

/* One word each, so that others can read while the worker goes on:
 *     doing  kind 8 | stage 16 at bit 32 | micro-batch 32
 *     wait   what 8 | gradient 1 at bit 55 | edge or group 16 at bit 32 | worker 16 | micro-batch
 *            16, of its iteration */
void sl_pipe_note_action(struct sl_pipe_worker *w, const struct sl_action *action) {
    int64_t doing = action ? (int64_t)action->kind << 56 | (int64_t)(uint16_t)action->stage << 32 |
                                 (int64_t)(uint32_t)action->micro
                           : nothing;
    struct sl_notes *notes = &w->notes;
    int64_t done = atomic_load_explicit(&notes->done, memory_order_relaxed);
    atomic_store_explicit(&notes->done, done + 1, memory_order_relaxed);
    atomic_store_explicit(&notes->doing, doing, memory_order_relaxed);
    atomic_store_explicit(&notes->wait, 0, memory_order_relaxed);
}

void sl_pipe_note_done(struct sl_pipe_worker *w, enum sl_kind kind, int64_t dur_ns) {
    struct sl_notes *notes = &w->notes;
    bool first = !(notes->seen >> kind & 1);
    int64_t longest = atomic_load_explicit(&notes->longest_ns[kind], memory_order_relaxed);
    if (dur_ns < notes->expected_ns[kind])
        dur_ns = notes->expected_ns[kind];
    if (!first && dur_ns <= longest)
        return;
    notes->seen |= (uint32_t)1 << kind;
    atomic_store_explicit(&notes->longest_ns[kind], dur_ns, memory_order_relaxed);
}

void sl_pipe_note_wait(struct sl_pipe_worker *w, struct sl_wait_note note) {
    int64_t word = (int64_t)note.wait << 56 | (int64_t)note.grad << 55 |
                   (int64_t)(uint16_t)note.of << 32 | (int64_t)(uint16_t)note.peer << 16 |
                   (int64_t)(uint16_t)note.peer_micro;
    atomic_store_explicit(&w->notes.wait, word, memory_order_relaxed);
}

void sl_pipe_note_go(struct sl_pipe_worker *w) {
    atomic_store_explicit(&w->notes.wait, 0, memory_order_relaxed);
}

static struct sl_work read_own(const struct sl_pipe *pipe, int worker) {
    const struct sl_notes *notes = &pipe->workers[worker].notes;
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

/* Workers are dealt in blocks: those of a rank are first .. last. */
static int first_of(const struct sl_pipe *pipe, int rank, int *count) {
    int workers = pipe->config.plan->worker_count, first = 0;
    while (first < workers && sl_comm_rank_of(pipe->comm, first, workers) < rank)
        first++;
    *count = 0;
    while (first + *count < workers && sl_comm_rank_of(pipe->comm, first + *count, workers) == rank)
        ++*count;
    return first;
}

int64_t sl_pipe_notes_bytes(const struct sl_pipe *pipe, int rank) {
    int count;
    first_of(pipe, rank, &count);
    return count * (int64_t)sizeof(struct sl_work) + (int64_t)sizeof(struct sl_word);
}

static void show_work(const struct sl_pipe *pipe, void *out) {
    int count, first = first_of(pipe, pipe->comm->rank, &count);
    for (int i = 0; i < count; i++) {
        struct sl_work work = read_own(pipe, first + i);
        memcpy((char *)out + (size_t)i * sizeof work, &work, sizeof work);
    }
}

void sl_pipe_show_notes(void *ctx, void *out) {
    const struct sl_pipe *pipe = ctx;
    int64_t bytes = sl_pipe_notes_bytes(pipe, pipe->comm->rank);
    struct sl_word word;
    show_work(pipe, out);
    sl_pipe_tell_show(pipe, &word);
    memcpy((char *)out + bytes - sizeof word, &word, sizeof word);
}

/* All that a rank has shown: the caller frees it. NULL: nothing. */
static char *look_at(const struct sl_pipe *pipe, int rank, int64_t *age_ns) {
    int64_t bytes = sl_pipe_notes_bytes(pipe, rank);
    char *seen = sl_realloc(NULL, (size_t)bytes);
    if (sl_comm_look(pipe->comm, rank, seen, bytes, age_ns))
        return seen;
    free(seen);
    return NULL;
}

bool sl_pipe_look_word(const struct sl_pipe *pipe, int rank, struct sl_word *out) {
    int64_t age_ns;
    char *seen = look_at(pipe, rank, &age_ns);
    if (seen)
        memcpy(out, seen + sl_pipe_notes_bytes(pipe, rank) - sizeof *out, sizeof *out);
    free(seen);
    return seen != NULL;
}

void sl_pipe_read_notes(const struct sl_pipe *pipe, struct sl_work *out) {
    const struct sl_plan *plan = pipe->config.plan;
    int count;
    for (int rank = 0; rank < pipe->comm->ranks; rank++) {
        struct sl_work *at = &out[first_of(pipe, rank, &count)];
        int64_t age_ns = 0;
        char *seen = rank == pipe->comm->rank ? NULL : look_at(pipe, rank, &age_ns);
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
