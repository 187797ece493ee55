/* The tensors of a pipeline as a store (ckpt/store.h). Rank 0 reads and writes checkpoints; it
 * requests pieces of tensors from the ranks whose seats hold them. No rank holds a whole model.
 *
 *   rank 0:   GET piece -->   <-- bytes      PUT piece + bytes -->      END -->
 *   others:   serve() until END
 *
 * A save from a copy does this in a thread, while the workers run. The files are the same, byte for
 * byte, as those of one process.
 */
#include "pipe/state.h"

#include <stdlib.h>
#include <string.h>

/* Of a message; both ends allocate it when they open. */
enum { PIECE = 1 << 17 };
enum request_kind { REQUEST_GET, REQUEST_PUT, REQUEST_END };

/* A message of rank 0; the bytes of a PUT follow. */
struct request {
    int64_t kind, seat, entry, from, size_bytes;
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

sl_err sl_pipe_open_requests(struct sl_pipe *pipe) {
    int ranks = pipe->comm->ranks;
    find_holders(pipe);
    pipe->requests = SL_NEW(&pipe->arena, struct sl_channel *, ranks);
    pipe->replies = SL_NEW(&pipe->arena, struct sl_channel *, ranks);
    pipe->requested = SL_NEW(&pipe->arena, int64_t, ranks);
    pipe->replied = SL_NEW(&pipe->arena, int64_t, ranks);
    for (int r = 1; r < ranks; r++) {
        struct sl_channel_spec request = {
            .from = 0, .to = r, .places = 1, .size_bytes = PIECE + (int64_t)sizeof(struct request)};
        struct sl_channel_spec reply = {.from = r, .to = 0, .places = 1, .size_bytes = PIECE};
        SL_TRY(sl_comm_channel_open(pipe->comm, &request, &pipe->requests[r]));
        SL_TRY(sl_comm_channel_open(pipe->comm, &reply, &pipe->replies[r]));
    }
    return SL_OK;
}

/* Places that this rank would write to: the receiver's end is cleared when it is opened, a sender's
 * is touched by the first tensor only. */
static int64_t request_bytes(const struct sl_pipe *pipe) {
    int64_t others = pipe->comm->rank == 0 ? pipe->comm->ranks - 1 : 0;
    return pipe->comm->rank == 0 ? others * (PIECE + (int64_t)sizeof(struct request)) : PIECE;
}

int64_t sl_pipe_rank_bytes(const struct sl_pipe *pipe, bool files) {
    int64_t bytes = files ? 0 : -request_bytes(pipe), messages = 0;
    for (int w = 0; w < pipe->config.plan->worker_count; w++) {
        if (!sl_pipe_is_local(pipe, w))
            continue;
        bytes += sl_sched_worker_bytes(pipe->sched, w);
        messages += sl_sched_message_bytes(pipe->sched, w);
    }
    return bytes + (pipe->comm->bytes > messages ? pipe->comm->bytes - messages : 0);
}

void sl_pipe_close_requests(struct sl_pipe *pipe) {
    for (int r = 1; pipe->replies && r < pipe->comm->ranks; r++) {
        sl_comm_channel_close(pipe->requests[r]);
        sl_comm_channel_close(pipe->replies[r]);
    }
}

/* ---- seats of this rank ---- */

static sl_err seat_get(const struct sl_pipe_seat *seat, const struct sl_tensor_id *id, int64_t from,
                       int64_t size_bytes, void *out) {
    struct sl_device *device = seat->train.device;
    const char *memory = sl_run_worker_memory(seat->train.worker, id, seat->newest);
    SL_ASSERT(memory);
    SL_TRY(device->row->download(device, SL_STREAM_COMPUTE, out, memory + from, size_bytes));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

/* Weights go into every version. */
static sl_err seat_put(const struct sl_pipe_seat *seat, const struct sl_tensor_id *id, int64_t from,
                       int64_t size_bytes, const void *bytes) {
    struct sl_device *device = seat->train.device;
    int versions = id->part == SL_PART_WEIGHT ? seat->train.worker->versions : 1;
    for (int v = 0; v < versions; v++) {
        char *memory = sl_run_worker_memory(seat->train.worker, id, v);
        SL_ASSERT(memory);
        SL_TRY(device->row->upload(device, SL_STREAM_COMPUTE, memory + from, bytes, size_bytes));
    }
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

/* ---- requests ---- */

static int rank_of_seat(const struct sl_pipe *pipe, int64_t seat) {
    const struct sl_plan *plan = pipe->config.plan;
    return sl_comm_rank_of(pipe->comm, plan->seats[seat].worker, plan->worker_count);
}

static sl_err send_request(struct sl_pipe *pipe, int rank, const struct request *request,
                           const void *bytes) {
    int64_t size = bytes ? request->size_bytes : 0, number = pipe->requested[rank];
    char *at;
    SL_TRY(sl_comm_channel_reserve(pipe->requests[rank], number, &at));
    memcpy(at, request, sizeof *request);
    if (bytes)
        memcpy(at + sizeof *request, bytes, (size_t)size);
    pipe->requested[rank]++;
    return sl_comm_channel_send(pipe->requests[rank], number, size + (int64_t)sizeof *request);
}

static sl_err get_remote(struct sl_pipe *pipe, struct request *request, char *out) {
    int rank = rank_of_seat(pipe, request->seat);
    for (int64_t left = request->size_bytes; left > 0; left -= request->size_bytes) {
        struct sl_message message;
        request->size_bytes = left < PIECE ? left : PIECE;
        SL_TRY(send_request(pipe, rank, request, NULL));
        SL_TRY(sl_comm_channel_receive(pipe->replies[rank], pipe->replied[rank], &message));
        memcpy(out, message.at, (size_t)request->size_bytes);
        SL_TRY(sl_comm_channel_release(pipe->replies[rank], pipe->replied[rank]++));
        request->from += request->size_bytes;
        out += request->size_bytes;
    }
    return SL_OK;
}

static sl_err put_remote(struct sl_pipe *pipe, struct request *request, const char *bytes) {
    for (int64_t left = request->size_bytes; left > 0; left -= request->size_bytes) {
        request->size_bytes = left < PIECE ? left : PIECE;
        SL_TRY(send_request(pipe, rank_of_seat(pipe, request->seat), request, bytes));
        request->from += request->size_bytes;
        bytes += request->size_bytes;
    }
    return SL_OK;
}

static sl_err serve_one(struct sl_pipe *pipe, const struct sl_ckpt_copy *copy,
                        const struct request *request, const char *bytes) {
    int rank = pipe->comm->rank;
    const struct sl_pipe_seat *seat = pipe->seat_at[request->seat];
    const struct sl_tensor_id *id = &pipe->tensors->ids[request->entry];
    char *at;
    if (request->kind == REQUEST_PUT)
        return seat_put(seat, id, request->from, request->size_bytes, bytes);
    SL_TRY(sl_comm_channel_reserve(pipe->replies[rank], pipe->replied[rank], &at));
    if (copy)
        sl_ckpt_copy_get(copy, request->entry, request->from, request->size_bytes, at);
    else
        SL_TRY(seat_get(seat, id, request->from, request->size_bytes, at));
    return sl_comm_channel_send(pipe->replies[rank], pipe->replied[rank]++, request->size_bytes);
}

static sl_err serve(void *ctx, const struct sl_ckpt_copy *copy) {
    struct sl_pipe *pipe = ctx;
    int rank = pipe->comm->rank;
    for (;;) {
        struct sl_message message;
        struct request request;
        SL_TRY(sl_comm_channel_receive(pipe->requests[rank], pipe->requested[rank], &message));
        memcpy(&request, message.at, sizeof request);
        if (request.kind != REQUEST_END)
            SL_TRY(serve_one(pipe, copy, &request, message.at + sizeof request));
        SL_TRY(sl_comm_channel_release(pipe->requests[rank], pipe->requested[rank]++));
        if (request.kind == REQUEST_END)
            return SL_OK;
    }
}

static sl_err end(void *ctx, sl_err err) {
    struct sl_pipe *pipe = ctx;
    struct request last = {.kind = REQUEST_END};
    for (int r = 1; err == SL_OK && pipe->comm->rank == 0 && r < pipe->comm->ranks; r++)
        err = send_request(pipe, r, &last, NULL);
    if (err != SL_OK) /* workers may be running, here and on other ranks */
        sl_comm_fail(pipe->comm, err);
    return err;
}

/* ---- the store ---- */

/* The first seat of the first stage that has it, -1: none. All replicas hold the same bytes. */
static int holder_of(const struct sl_pipe *pipe, const struct sl_tensor_id *id) {
    for (int s = 0; s < pipe->config.plan->stage_count; s++)
        if (*holds_of(pipe, s, id))
            return pipe->config.plan->stages[s].seat;
    return -1;
}

static bool has(const void *ctx, const struct sl_tensor_id *id) { return holder_of(ctx, id) >= 0; }

static bool is_local(void *ctx, int64_t entry) {
    const struct sl_pipe *pipe = ctx;
    return pipe->seat_at[holder_of(pipe, &pipe->tensors->ids[entry])] != NULL;
}

static sl_err get(void *ctx, int64_t entry, int64_t from, int64_t size_bytes, void *out) {
    struct sl_pipe *pipe = ctx;
    const struct sl_tensor_id *id = &pipe->tensors->ids[entry];
    int seat = holder_of(pipe, id);
    if (pipe->seat_at[seat])
        return seat_get(pipe->seat_at[seat], id, from, size_bytes, out);
    struct request request = {REQUEST_GET, seat, entry, from, size_bytes};
    return get_remote(pipe, &request, out);
}

static sl_err put(void *ctx, int64_t entry, int64_t from, int64_t size_bytes, const void *bytes) {
    struct sl_pipe *pipe = ctx;
    const struct sl_tensor_id *id = &pipe->tensors->ids[entry];
    for (int seat = 0; seat < pipe->config.plan->seat_count; seat++) {
        if (!*holds_of(pipe, pipe->config.plan->seats[seat].stage, id))
            continue;
        struct request request = {REQUEST_PUT, seat, entry, from, size_bytes};
        SL_TRY(pipe->seat_at[seat] ? seat_put(pipe->seat_at[seat], id, from, size_bytes, bytes)
                                   : put_remote(pipe, &request, bytes));
    }
    return SL_OK;
}

static const void *at_rest(void *ctx, int64_t entry) {
    const struct sl_pipe *pipe = ctx;
    const struct sl_tensor_id *id = &pipe->tensors->ids[entry];
    const struct sl_pipe_seat *seat = pipe->seat_at[holder_of(pipe, id)];
    return seat ? sl_run_train_at_rest(&seat->train, id) : NULL;
}

static void attach(void *ctx, struct sl_ckpt_copy *copy) {
    const struct sl_pipe *pipe = ctx;
    for (int s = 0; s < pipe->config.plan->seat_count; s++)
        if (pipe->seat_at[s])
            pipe->seat_at[s]->train.copy = copy;
}

struct sl_ckpt_store sl_pipe_store(struct sl_pipe *pipe) {
    if (!pipe->tensors) {
        pipe->tensors = SL_NEW(&pipe->arena, struct sl_run_tensors, 1);
        *pipe->tensors = sl_run_tensors_build(&pipe->arena, &pipe->train, has, pipe);
    }
    return (struct sl_ckpt_store){
        .entries = pipe->tensors->entries,
        .count = pipe->tensors->count,
        .is_root = pipe->comm->rank == 0,
        .ctx = pipe,
        .is_local = is_local,
        .get = get,
        .put = put,
        .at_rest = at_rest,
        .attach = attach,
        .serve = serve,
        .end = end,
    };
}

/* ---- into one worker ---- */

static sl_err gather_all(struct sl_pipe *pipe, struct sl_train *train, void *piece) {
    struct sl_device *device = train->device;
    for (int64_t i = 0; i < pipe->tensors->count; i++) {
        char *to = sl_run_worker_memory(train->worker, &pipe->tensors->ids[i], 0);
        int64_t size = sl_graph_shape_numel(pipe->tensors->entries[i].shape, 1) * 4;
        for (int64_t from = 0; to && from < size; from += PIECE) {
            int64_t n = size - from < PIECE ? size - from : PIECE;
            SL_TRY(get(pipe, i, from, n, piece));
            SL_TRY(device->row->upload(device, SL_STREAM_COMPUTE, to + from, piece, n));
            SL_TRY(device->row->sync(device, SL_STREAM_COMPUTE));
        }
    }
    return SL_OK;
}

sl_err sl_pipe_gather(struct sl_pipe *pipe, struct sl_train *train) {
    int64_t epoch = sl_data_count(pipe->train.data, SL_DATA_TRAIN);
    struct sl_ckpt_store store = sl_pipe_store(pipe);
    if (!store.is_root)
        return serve(pipe, NULL);
    void *piece = sl_realloc(NULL, PIECE);
    sl_err err = end(pipe, gather_all(pipe, train, piece));
    free(piece);
    train->step = pipe->start_step;
    train->scale = pipe->scale;
    train->cursor.epoch = pipe->start_sample / epoch;
    train->cursor.position = pipe->start_sample % epoch;
    return err;
}
