/* The tensors of a pipeline as a store: checkpoints are written and read by rank 0, which asks the
 * other ranks for pieces of what their seats hold. Nobody holds a whole model.
 *
 *   rank 0:   ask(GET piece) --> answer(bytes)      ask(PUT piece + bytes) -->      ask(END) -->
 *   others:   serve until END
 *
 * The same in a thread beside the workers when the bytes come from a copy.
 *
 * Files are those of one process, byte for byte.
 */
#include "pipe/state.h"

#include <stdlib.h>
#include <string.h>

/* Both ends have a place for it from the start, used or not. */
enum { PIECE = 1 << 17 };
enum post_kind { POST_GET, POST_PUT, POST_END };

/* What rank 0 asks for; of PUT the bytes follow. */
struct post {
    int64_t kind, seat, part, index, slab, from, size_bytes;
};

/* ---- which stage holds what ---- */

static bool *holds_of(const struct sl_pipe *pipe, int stage, const struct sl_tensor_id *id) {
    const struct sl_graph *graph = pipe->train.graph;
    int64_t params = graph->params.count, all = params + graph->states.count;
    return pipe->holds + stage * all + (id->part == SL_PART_STATE ? params : 0) + id->index;
}

static void find_holders(struct sl_pipe *pipe) {
    const struct sl_graph *graph = pipe->train.graph;
    int64_t all = graph->params.count + graph->states.count;
    pipe->holds = SL_NEW(&pipe->arena, bool, pipe->config.plan->stage_count *all + 1);
    for (int n = 0; n < graph->forward_count; n++) {
        const struct sl_node *node = &graph->nodes.at[n];
        for (int i = 0; i < node->in_count; i++) {
            const struct sl_value *v = node->in[i] < 0 ? NULL : sl_graph_value(graph, node->in[i]);
            if (!v || (v->kind != SL_VALUE_PARAM && v->kind != SL_VALUE_STATE))
                continue;
            struct sl_tensor_id id = {
                .part = v->kind == SL_VALUE_STATE ? SL_PART_STATE : SL_PART_WEIGHT,
                .index = v->index,
            };
            *holds_of(pipe, pipe->config.stage_of[n], &id) = true;
        }
    }
}

sl_err sl_pipe_open_post(struct sl_pipe *pipe) {
    int ranks = pipe->comm->ranks;
    find_holders(pipe);
    pipe->ask = SL_NEW(&pipe->arena, struct sl_channel *, ranks);
    pipe->answer = SL_NEW(&pipe->arena, struct sl_channel *, ranks);
    pipe->asked = SL_NEW(&pipe->arena, int64_t, ranks);
    pipe->answered = SL_NEW(&pipe->arena, int64_t, ranks);
    for (int r = 1; r < ranks; r++) {
        struct sl_channel_spec ask = {
            .from = 0, .to = r, .places = 1, .size_bytes = PIECE + (int64_t)sizeof(struct post)};
        struct sl_channel_spec answer = {.from = r, .to = 0, .places = 1, .size_bytes = PIECE};
        SL_TRY(sl_comm_channel_open(pipe->comm, &ask, &pipe->ask[r]));
        SL_TRY(sl_comm_channel_open(pipe->comm, &answer, &pipe->answer[r]));
    }
    return SL_OK;
}

/* Places that this rank would write to: the receiver's end is cleared when it is opened, a sender's
 * is touched by the first tensor only. */
static int64_t post_bytes(const struct sl_pipe *pipe) {
    int64_t asks = pipe->comm->rank == 0 ? pipe->comm->ranks - 1 : 0;
    return pipe->comm->rank == 0 ? asks * (PIECE + (int64_t)sizeof(struct post)) : PIECE;
}

int64_t sl_pipe_rank_bytes(const struct sl_pipe *pipe, bool files) {
    int64_t bytes = files ? 0 : -post_bytes(pipe), messages = 0;
    for (int w = 0; w < pipe->config.plan->worker_count; w++) {
        if (!sl_pipe_is_here(pipe, w))
            continue;
        bytes += sl_sched_worker_bytes(pipe->sched, w);
        messages += sl_sched_message_bytes(pipe->sched, w);
    }
    return bytes + (pipe->comm->bytes > messages ? pipe->comm->bytes - messages : 0);
}

void sl_pipe_close_post(struct sl_pipe *pipe) {
    for (int r = 1; pipe->answer && r < pipe->comm->ranks; r++) {
        sl_comm_channel_close(pipe->ask[r]);
        sl_comm_channel_close(pipe->answer[r]);
    }
}

/* ---- seats of this rank ---- */

static sl_err seat_get(const struct sl_seat_state *seat, const struct sl_tensor_id *id,
                       int64_t from, int64_t size_bytes, void *out) {
    struct sl_device *device = seat->train.device;
    const char *memory = sl_ckpt_worker_memory(seat->train.worker, id, seat->newest);
    SL_ASSERT(memory);
    SL_TRY(device->row->download(device, SL_STREAM_COMPUTE, out, memory + from, size_bytes));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

/* Weights go into every version. */
static sl_err seat_put(const struct sl_seat_state *seat, const struct sl_tensor_id *id,
                       int64_t from, int64_t size_bytes, const void *bytes) {
    struct sl_device *device = seat->train.device;
    int versions = id->part == SL_PART_WEIGHT ? seat->train.worker->versions : 1;
    for (int v = 0; v < versions; v++) {
        char *memory = sl_ckpt_worker_memory(seat->train.worker, id, v);
        SL_ASSERT(memory);
        SL_TRY(device->row->upload(device, SL_STREAM_COMPUTE, memory + from, bytes, size_bytes));
    }
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

/* ---- asking and serving ---- */

static int rank_of_seat(const struct sl_pipe *pipe, int seat) {
    const struct sl_plan *plan = pipe->config.plan;
    return sl_comm_rank_of(pipe->comm, plan->seats[seat].worker, plan->worker_count);
}

static sl_err ask(struct sl_pipe *pipe, int rank, const struct post *post, const void *bytes) {
    int64_t size = bytes ? post->size_bytes : 0;
    char *at;
    SL_TRY(sl_comm_channel_reserve(pipe->ask[rank], pipe->asked[rank], &at));
    memcpy(at, post, sizeof *post);
    if (bytes)
        memcpy(at + sizeof *post, bytes, (size_t)size);
    return sl_comm_channel_send(pipe->ask[rank], pipe->asked[rank]++, size + (int64_t)sizeof *post);
}

static sl_err get_nccl_link(struct sl_pipe *pipe, int rank, struct post *post, char *out) {
    for (int64_t left = post->size_bytes; left > 0; left -= post->size_bytes) {
        struct sl_message message;
        post->size_bytes = left < PIECE ? left : PIECE;
        SL_TRY(ask(pipe, rank, post, NULL));
        SL_TRY(sl_comm_channel_receive(pipe->answer[rank], pipe->answered[rank], &message));
        memcpy(out, message.at, (size_t)post->size_bytes);
        SL_TRY(sl_comm_channel_release(pipe->answer[rank], pipe->answered[rank]++));
        post->from += post->size_bytes;
        out += post->size_bytes;
    }
    return SL_OK;
}

static sl_err put_nccl_link(struct sl_pipe *pipe, int rank, struct post *post, const char *bytes) {
    for (int64_t left = post->size_bytes; left > 0; left -= post->size_bytes) {
        post->size_bytes = left < PIECE ? left : PIECE;
        SL_TRY(ask(pipe, rank, post, bytes));
        post->from += post->size_bytes;
        bytes += post->size_bytes;
    }
    return SL_OK;
}

static sl_err serve_one(struct sl_pipe *pipe, const struct sl_copy *copy, const struct post *post,
                        const char *bytes) {
    int rank = pipe->comm->rank;
    const struct sl_seat_state *seat = pipe->seat_at[post->seat];
    struct sl_tensor_id id = {(enum sl_tensor_part)post->part, (int)post->index, (int)post->slab};
    char *at;
    if (post->kind == POST_PUT)
        return seat_put(seat, &id, post->from, post->size_bytes, bytes);
    SL_TRY(sl_comm_channel_reserve(pipe->answer[rank], pipe->answered[rank], &at));
    if (copy)
        sl_ckpt_copy_get(copy, &id, post->from, post->size_bytes, at);
    else
        SL_TRY(seat_get(seat, &id, post->from, post->size_bytes, at));
    return sl_comm_channel_send(pipe->answer[rank], pipe->answered[rank]++, post->size_bytes);
}

/* Answers from a copy, or from the seats. */
static sl_err serve(struct sl_pipe *pipe, const struct sl_copy *copy) {
    int rank = pipe->comm->rank;
    for (;;) {
        struct sl_message message;
        struct post post;
        SL_TRY(sl_comm_channel_receive(pipe->ask[rank], pipe->asked[rank], &message));
        memcpy(&post, message.at, sizeof post);
        if (post.kind != POST_END)
            SL_TRY(serve_one(pipe, copy, &post, message.at + sizeof post));
        SL_TRY(sl_comm_channel_release(pipe->ask[rank], pipe->asked[rank]++));
        if (post.kind == POST_END)
            return SL_OK;
    }
}

static sl_err dismiss(struct sl_pipe *pipe) {
    struct post end = {.kind = POST_END};
    for (int r = 1; r < pipe->comm->ranks; r++)
        SL_TRY(ask(pipe, r, &end, NULL));
    return SL_OK;
}

/* ---- the store ---- */

/* What a store of a pipeline is about. */
struct view {
    struct sl_pipe *pipe;
    const struct sl_copy *copy; /* what this rank has is read from it; NULL: from the seats */
};

/* The first seat of the first stage that has it, -1: none; all copies are the same. */
static int holder_of(const struct sl_pipe *pipe, const struct sl_tensor_id *id) {
    for (int s = 0; s < pipe->config.plan->stage_count; s++)
        if (*holds_of(pipe, s, id))
            return pipe->config.plan->stages[s].seat;
    return -1;
}

static bool view_has(void *ctx, const struct sl_tensor_id *id) {
    const struct view *view = ctx;
    return holder_of(view->pipe, id) >= 0;
}

static bool view_here(void *ctx, const struct sl_tensor_id *id) {
    const struct view *view = ctx;
    int seat = holder_of(view->pipe, id);
    return seat >= 0 && view->pipe->seat_at[seat];
}

static struct post post_of(enum post_kind kind, int seat, const struct sl_tensor_id *id) {
    return (struct post){
        .kind = kind, .seat = seat, .part = id->part, .index = id->index, .slab = id->slab};
}

static sl_err view_get(void *ctx, const struct sl_tensor_id *id, int64_t from, int64_t size_bytes,
                       void *out) {
    const struct view *view = ctx;
    int seat = holder_of(view->pipe, id);
    const struct sl_seat_state *here = view->pipe->seat_at[seat];
    if (here && view->copy) {
        sl_ckpt_copy_get(view->copy, id, from, size_bytes, out);
        return SL_OK;
    }
    if (here)
        return seat_get(here, id, from, size_bytes, out);
    struct post post = post_of(POST_GET, seat, id);
    post.from = from;
    post.size_bytes = size_bytes;
    return get_nccl_link(view->pipe, rank_of_seat(view->pipe, seat), &post, out);
}

static sl_err view_put(void *ctx, const struct sl_tensor_id *id, int64_t from, int64_t size_bytes,
                       const void *bytes) {
    struct sl_pipe *pipe = ((const struct view *)ctx)->pipe;
    for (int seat = 0; seat < pipe->config.plan->seat_count; seat++) {
        if (!*holds_of(pipe, pipe->config.plan->seats[seat].stage, id))
            continue;
        struct post post = post_of(POST_PUT, seat, id);
        post.from = from;
        post.size_bytes = size_bytes;
        SL_TRY(pipe->seat_at[seat] ? seat_put(pipe->seat_at[seat], id, from, size_bytes, bytes)
                                   : put_nccl_link(pipe, rank_of_seat(pipe, seat), &post, bytes));
    }
    return SL_OK;
}

static const void *view_at_rest(void *ctx, const struct sl_tensor_id *id) {
    const struct view *view = ctx;
    const struct sl_seat_state *seat = view->pipe->seat_at[holder_of(view->pipe, id)];
    return seat ? sl_ckpt_train_at_rest(&seat->train, id) : NULL;
}

static struct sl_store store_of(struct view *view) {
    return (struct sl_store){&view->pipe->train, view,     view_has,    view_here,
                             view_get,           view_put, view_at_rest};
}

sl_err sl_pipe_open_copy(struct sl_pipe *pipe, struct sl_copy **out) {
    struct view *view = SL_NEW(&pipe->arena, struct view, 1); /* as long as the copy */
    *view = (struct view){.pipe = pipe};
    struct sl_store store = store_of(view);
    SL_TRY(sl_ckpt_copy_open(&store, out));
    for (int s = 0; s < pipe->config.plan->seat_count; s++)
        if (pipe->seat_at[s])
            pipe->seat_at[s]->train.copy = *out;
    return SL_OK;
}

struct sl_store_place sl_pipe_place(const struct sl_pipe *pipe) {
    return (struct sl_store_place){pipe->start_step, pipe->start_sample, pipe->scale};
}

static sl_err write_all(struct sl_pipe *pipe, const struct sl_copy *copy,
                        const struct sl_save *save) {
    struct view view = {pipe, copy};
    struct sl_store store = store_of(&view);
    if (pipe->comm->rank != 0)
        return serve(pipe, copy);
    SL_TRY(sl_ckpt_store_save(&store, save));
    return dismiss(pipe);
}

sl_err sl_pipe_write(void *ctx, const struct sl_copy *copy, const struct sl_save *save) {
    struct sl_pipe *pipe = ctx;
    sl_err err = write_all(pipe, copy, save);
    if (err != SL_OK) /* the workers may be at work, here and on other ranks */
        sl_comm_fail(pipe->comm, err);
    return err;
}

sl_err sl_pipe_load(struct sl_pipe *pipe, const char *run, bool weights_only) {
    struct view view = {.pipe = pipe};
    struct sl_store store = store_of(&view);
    struct sl_store_place place = {0};
    if (pipe->comm->rank != 0) {
        SL_TRY(serve(pipe, NULL));
    } else {
        SL_TRY(sl_ckpt_store_load(&store, run, weights_only, &place));
        SL_TRY(dismiss(pipe));
    }
    SL_TRY(sl_comm_merge(pipe->comm, &place, sizeof place)); /* zero but on rank 0 */
    pipe->start_step = place.step;
    pipe->start_sample = place.sample;
    if (place.scale.value > 0)
        pipe->scale = place.scale;
    for (int s = 0; s < pipe->config.plan->seat_count; s++)
        if (pipe->seat_at[s])
            pipe->seat_at[s]->newest = 0;
    return SL_OK;
}

/* ---- into one worker ---- */

static sl_err gather_tensor(struct sl_pipe *pipe, struct sl_train *train,
                            const struct sl_tensor_id *id, void *piece) {
    char *to = sl_ckpt_worker_memory(train->worker, id, 0);
    const struct sl_graph *graph = pipe->train.graph;
    struct view view = {.pipe = pipe};
    if (!to || !view_has(&view, id))
        return SL_OK;
    int value = id->part == SL_PART_STATE ? graph->states.at[id->index].value
                                          : graph->params.at[id->index].value;
    int64_t size = sl_graph_shape_numel(&sl_graph_value(graph, value)->shape, 1) * 4;
    for (int64_t from = 0; from < size; from += PIECE) {
        int64_t n = size - from < PIECE ? size - from : PIECE;
        SL_TRY(view_get(&view, id, from, n, piece));
        SL_TRY(train->device->row->upload(train->device, SL_STREAM_COMPUTE, to + from, piece, n));
        SL_TRY(train->device->row->sync(train->device, SL_STREAM_COMPUTE));
    }
    return SL_OK;
}

static sl_err gather_all(struct sl_pipe *pipe, struct sl_train *train, void *piece) {
    const struct sl_graph *graph = pipe->train.graph;
    struct sl_tensor_id id = {0};
    for (id.index = 0; id.index < graph->params.count; id.index++) {
        id.part = SL_PART_WEIGHT;
        SL_TRY(gather_tensor(pipe, train, &id, piece));
        id.part = SL_PART_OPTIM;
        for (id.slab = 0; id.slab < train->worker->state_count; id.slab++)
            SL_TRY(gather_tensor(pipe, train, &id, piece));
    }
    id = (struct sl_tensor_id){.part = SL_PART_STATE};
    for (; id.index < graph->states.count; id.index++)
        SL_TRY(gather_tensor(pipe, train, &id, piece));
    return dismiss(pipe);
}

sl_err sl_pipe_gather(struct sl_pipe *pipe, struct sl_train *train) {
    int64_t epoch = sl_data_count(pipe->train.data, SL_DATA_TRAIN);
    if (pipe->comm->rank != 0)
        return serve(pipe, NULL);
    void *piece = sl_realloc(NULL, PIECE);
    sl_err err = gather_all(pipe, train, piece);
    free(piece);
    train->step = pipe->start_step;
    train->scale = pipe->scale;
    train->cursor.epoch = pipe->start_sample / epoch;
    train->cursor.position = pipe->start_sample % epoch;
    return err;
}
