/* The tensors of a pipeline as a store (ckpt/store.h). Rank 0 reads and writes checkpoints; it
 * requests pieces of tensors from the ranks whose seats hold them. No rank holds a whole model.
 *
 *   rank 0:   GET piece -->   <-- bytes      PUT piece + bytes -->      END -->
 *   others:   serve() until END
 *
 * A save from a snapshot runs this protocol in a thread, while the workers run. The files are
 * the same, byte for byte, as those of one process. */
#include "pipe/own.h"
#include "pipe/resume.h"

#include "run/part.h"

#include <stdlib.h>
#include <string.h>

/* Bytes of tensor data per message; both ends allocate it when they open the channel. */
enum { PIECE = 1 << 17 };
enum request_kind { REQUEST_GET, REQUEST_PUT, REQUEST_END };

/* A message from rank 0; in a PUT the bytes follow. */
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

/* Bytes of messages that this rank touches. A receiver clears its end of a channel when it opens
 * it; a sender touches its end only when it sends the first tensor. */
static int64_t request_bytes(const struct sl_pipe *pipe) {
    int64_t others = pipe->comm->rank == 0 ? pipe->comm->ranks - 1 : 0;
    return pipe->comm->rank == 0 ? others * (PIECE + (int64_t)sizeof(struct request)) : PIECE;
}

/* Memory of a worker that only evaluations and checkpoints of a full pipeline need. */
static int64_t extra_bytes(const struct sl_pipe_worker *w) {
    int64_t train = 0, image = 0;
    for (int i = 0; i < w->seat_count; i++) {
        const struct sl_worker *worker = w->seats[i].train.worker;
        train = worker->train_work_bytes > train ? worker->train_work_bytes : train;
        image += w->seats[i].image.host_bytes;
    }
    bool separate = w->pipe->sched->rule != SL_RULE_SYNC;
    return image + (separate ? w->areas.bytes - train : 0);
}

int64_t sl_pipe_rank_bytes(const struct sl_pipe *pipe, bool files) {
    int64_t bytes = files ? 0 : -request_bytes(pipe), messages = 0;
    for (int w = 0; w < pipe->config.plan->worker_count; w++) {
        if (!sl_pipe_is_local(pipe, w))
            continue;
        bytes += sl_sched_worker_bytes(pipe->sched, w);
        messages += sl_sched_message_bytes(pipe->sched, w);
        bytes += extra_bytes(&pipe->workers[w]);
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

/* Returns the memory of a weight in the version before the newest one. */
static char *older_weight(const struct sl_pipe_seat *seat, const struct sl_tensor_id *id,
                          int version) {
    struct sl_tensor_id weight = {.part = SL_PART_WEIGHT, .index = id->index};
    return sl_run_worker_memory(seat->train.worker, &weight, version);
}

/* Returns the memory of a tensor. For running statistics that is the copy from right after the last
 * step, even if passes have run since. */
static const char *memory_to_save(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat,
                                  const struct sl_tensor_id *id) {
    const struct sl_worker *worker = seat->train.worker;
    if (id->part == SL_PART_OLDER)
        return older_weight(seat, id, 1 - seat->newest);
    const char *memory = sl_run_worker_memory(worker, id, seat->newest);
    if (id->part == SL_PART_OPTIM)
        return memory - sl_pipe_own_of(pipe, seat->number, id->index).first * 4;
    if (id->part != SL_PART_STATE)
        return memory;
    return (const char *)sl_pipe_border_state(pipe, seat) + (memory - (const char *)worker->state);
}

static sl_err seat_get(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat,
                       const struct request *r, void *out) {
    const struct sl_tensor_id *id = &pipe->tensors->ids[r->entry];
    struct sl_device *device = seat->train.device;
    int64_t from = r->from, size_bytes = r->size_bytes;
    if (id->part == SL_PART_SEAT)
        return sl_pipe_image_get(seat, from, size_bytes, out);
    const char *memory = memory_to_save(pipe, seat, id);
    SL_ASSERT(memory);
    SL_TRY(device->row->download(device, SL_STREAM_COMPUTE, out, memory + from, size_bytes));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

/* Writes bytes into a seat. Newest weights go into the slabs of all versions; older weights come
 * later and go into the first slab only. */
static sl_err seat_put(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat,
                       const struct request *r, const void *bytes) {
    const struct sl_tensor_id *id = &pipe->tensors->ids[r->entry];
    struct sl_device *device = seat->train.device;
    int versions = id->part == SL_PART_WEIGHT ? seat->train.worker->versions : 1;
    if (id->part == SL_PART_SEAT)
        return sl_pipe_image_put(seat, r->from, r->size_bytes, bytes);
    for (int v = 0; v < versions; v++) {
        char *memory = id->part == SL_PART_OLDER ? older_weight(seat, id, 0)
                                                 : sl_run_worker_memory(seat->train.worker, id, v);
        SL_ASSERT(memory);
        if (id->part == SL_PART_OPTIM)
            memory -= sl_pipe_own_of(pipe, seat->number, id->index).first * 4;
        SL_TRY(
            device->row->upload(device, SL_STREAM_COMPUTE, memory + r->from, bytes, r->size_bytes));
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
    char *at;
    if (request->kind == REQUEST_PUT)
        return seat_put(pipe, seat, request, bytes);
    SL_TRY(sl_comm_channel_reserve(pipe->replies[rank], pipe->replied[rank], &at));
    if (copy)
        sl_ckpt_copy_get(copy, request->entry, request->from, request->size_bytes, at);
    else
        SL_TRY(seat_get(pipe, seat, request, at));
    return sl_comm_channel_send(pipe->replies[rank], pipe->replied[rank]++, request->size_bytes);
}

static sl_err serve(void *ctx, const struct sl_ckpt_copy *copy) {
    struct sl_pipe *pipe = ctx;
    int rank = pipe->comm->rank;
    if (copy && sl_pipe_own_spans(pipe))
        return sl_fail(SL_ERR_REFUSED,
                       "optimizer state that ranks divide (zero1) needs `save` sync");
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
    if (err != SL_OK) /* workers may be running on this and on other ranks */
        sl_comm_fail(pipe->comm, err);
    return err;
}

/* ---- the store ---- */

/* Returns the first seat of the first stage that has the tensor; -1: no seat. All replicas hold the
 * same bytes. */
static int holder_of(const struct sl_pipe *pipe, const struct sl_tensor_id *id) {
    if (id->part == SL_PART_SEAT)
        return id->index;
    for (int s = 0; s < pipe->config.plan->stage_count; s++)
        if (*holds_of(pipe, s, id))
            return pipe->config.plan->stages[s].seat;
    return -1;
}

/* Replicas divide the tensor among them. */
static bool is_divided(const struct sl_pipe *pipe, const struct sl_tensor_id *id) {
    int stage = pipe->config.plan->seats[holder_of(pipe, id)].stage;
    return id->part == SL_PART_OPTIM && sl_pipe_own_divides(pipe, stage);
}

/* The part of a request that the seat has; of weights and whole states all. */
static struct request request_of(const struct sl_pipe *pipe, int seat, const struct request *all) {
    const struct sl_tensor_id *id = &pipe->tensors->ids[all->entry];
    struct request r = *all;
    r.seat = seat;
    if (!is_divided(pipe, id))
        return r;
    struct sl_part own = sl_pipe_own_of(pipe, seat, id->index);
    int64_t end = (own.first + own.count) * 4, last = all->from + all->size_bytes;
    r.from = own.first * 4 > r.from ? own.first * 4 : r.from;
    end = end < last ? end : last;
    r.size_bytes = end > r.from ? end - r.from : 0;
    return r;
}

static bool has(const void *ctx, const struct sl_tensor_id *id) { return holder_of(ctx, id) >= 0; }

static bool is_local(void *ctx, int64_t entry) {
    const struct sl_pipe *pipe = ctx;
    const struct sl_tensor_id *id = &pipe->tensors->ids[entry];
    int seat = holder_of(pipe, id);
    bool local = pipe->seat_at[seat] != NULL;
    const struct sl_stage *stage = &pipe->config.plan->stages[pipe->config.plan->seats[seat].stage];
    for (int r = 1; r < stage->width && is_divided(pipe, id); r++)
        local &= pipe->seat_at[seat + r] != NULL;
    return local;
}

static sl_err get(void *ctx, int64_t entry, int64_t from, int64_t size_bytes, void *out) {
    struct sl_pipe *pipe = ctx;
    const struct sl_tensor_id *id = &pipe->tensors->ids[entry];
    int seat = holder_of(pipe, id), count = 1;
    struct request all = {REQUEST_GET, seat, entry, from, size_bytes};
    if (is_divided(pipe, id))
        count = pipe->config.plan->stages[pipe->config.plan->seats[seat].stage].width;
    for (int i = seat; i < seat + count; i++) {
        struct request request = request_of(pipe, i, &all);
        char *at = (char *)out + (request.from - from);
        if (request.size_bytes)
            SL_TRY(pipe->seat_at[i] ? seat_get(pipe, pipe->seat_at[i], &request, at)
                                    : get_remote(pipe, &request, at));
    }
    return SL_OK;
}

static sl_err put(void *ctx, int64_t entry, int64_t from, int64_t size_bytes, const void *bytes) {
    struct sl_pipe *pipe = ctx;
    const struct sl_tensor_id *id = &pipe->tensors->ids[entry];
    for (int seat = 0; seat < pipe->config.plan->seat_count; seat++) {
        if (id->part == SL_PART_SEAT ? id->index != seat
                                     : !*holds_of(pipe, pipe->config.plan->seats[seat].stage, id))
            continue;
        struct request all = {REQUEST_PUT, seat, entry, from, size_bytes},
                       request = request_of(pipe, seat, &all);
        const char *at = (const char *)bytes + (request.from - from);
        if (request.size_bytes)
            SL_TRY(pipe->seat_at[seat] ? seat_put(pipe, pipe->seat_at[seat], &request, at)
                                       : put_remote(pipe, &request, at));
    }
    return SL_OK;
}

static const void *at_rest(void *ctx, int64_t entry) {
    const struct sl_pipe *pipe = ctx;
    const struct sl_tensor_id *id = &pipe->tensors->ids[entry];
    const struct sl_pipe_seat *seat = pipe->seat_at[holder_of(pipe, id)];
    bool plain = (id->part == SL_PART_WEIGHT || id->part == SL_PART_OPTIM) && !is_divided(pipe, id);
    return seat && plain ? sl_run_train_at_rest(&seat->train, id) : NULL;
}

static void attach(void *ctx, struct sl_ckpt_copy *copy) {
    const struct sl_pipe *pipe = ctx;
    for (int s = 0; s < pipe->config.plan->seat_count; s++)
        if (pipe->seat_at[s])
            pipe->seat_at[s]->train.copy = copy;
}

static sl_err fits(void *ctx, const struct sl_ckpt_place *place, bool may_drop, bool *out) {
    return sl_pipe_fits(ctx, place, may_drop, out);
}

/* Lists the weights one version older; frozen weights have no versions. */
static void list_older(struct sl_pipe *pipe, struct sl_run_tensors *all) {
    for (int64_t i = 0, count = all->count; i < count; i++) {
        if (all->ids[i].part != SL_PART_WEIGHT ||
            pipe->train.graph->params.at[all->ids[i].index].frozen)
            continue;
        all->ids[all->count] =
            (struct sl_tensor_id){.part = SL_PART_OLDER, .index = all->ids[i].index};
        all->entries[all->count] = all->entries[i];
        all->entries[all->count].name = sl_ckpt_version_name(&pipe->arena, all->entries[i].name, 1);
        all->entries[all->count].group = SL_CKPT_STATE;
        all->entries[all->count++].when = SL_CKPT_PREVIOUS;
    }
}

static void list_seats(struct sl_pipe *pipe, struct sl_run_tensors *all) {
    for (int i = 0; i < pipe->config.plan->seat_count; i++) {
        struct sl_shape *shape = SL_NEW(&pipe->arena, struct sl_shape, 1);
        *shape = (struct sl_shape){.rank = 1, .dim = {pipe->seat_bytes[i] / 4}};
        if (pipe->seat_at[i])
            sl_pipe_image_open(pipe, pipe->seat_at[i]);
        all->ids[all->count] = (struct sl_tensor_id){.part = SL_PART_SEAT, .index = i};
        all->entries[all->count++] =
            (struct sl_ckpt_entry){.name = sl_arena_printf(&pipe->arena, "@seat-%d", i),
                                   .shape = shape,
                                   .group = SL_CKPT_STATE,
                                   .when = SL_CKPT_IN_FLIGHT};
    }
}

/* Fills seat_bytes for the seats of all ranks: bytes, then layouts. */
sl_err sl_pipe_count_seats(struct sl_pipe *pipe) {
    int count = pipe->config.plan->seat_count;
    int64_t size_bytes = 2 * count * (int64_t)sizeof *pipe->seat_bytes;
    pipe->seat_bytes = SL_NEW(&pipe->arena, int64_t, 2 * count);
    for (int i = 0; i < count; i++)
        if (pipe->seat_at[i]) {
            pipe->seat_bytes[i] = sl_pipe_image_bytes(pipe, pipe->seat_at[i]);
            pipe->seat_bytes[count + i] = (int64_t)sl_pipe_image_layout(pipe->seat_at[i]);
        }
    return sl_comm_merge(pipe->comm, pipe->seat_bytes, size_bytes);
}

uint64_t sl_pipe_layouts(const struct sl_pipe *pipe) {
    int count = pipe->config.plan->seat_count;
    return sl_hash(pipe->seat_bytes + count, sizeof *pipe->seat_bytes * (size_t)count);
}

static void list_tensors(struct sl_pipe *pipe) {
    struct sl_run_tensors some = sl_run_tensors_build(&pipe->arena, &pipe->train, has, pipe), all;
    int64_t max = 2 * some.count + pipe->config.plan->seat_count + 1;
    all.entries = SL_NEW(&pipe->arena, struct sl_ckpt_entry, max);
    all.ids = SL_NEW(&pipe->arena, struct sl_tensor_id, max);
    all.count = some.count;
    memcpy(all.entries, some.entries, sizeof *all.entries * (size_t)some.count);
    memcpy(all.ids, some.ids, sizeof *all.ids * (size_t)some.count);
    if (pipe->portable)
        list_older(pipe, &all);
    else if (!sl_pipe_is_synchronous(pipe))
        list_seats(pipe, &all);
    pipe->tensors = SL_NEW(&pipe->arena, struct sl_run_tensors, 1);
    *pipe->tensors = all;
}

struct sl_ckpt_store sl_pipe_store(struct sl_pipe *pipe) {
    if (!pipe->tensors)
        list_tensors(pipe);
    struct sl_ckpt_store store = {
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
        .fits = fits,
    };
    return sl_run_store_join(&pipe->arena, pipe->train.graph, pipe->tensors->ids, &store,
                             &pipe->joined);
}

/* ---- gathering into one worker ---- */

static sl_err gather_all(struct sl_pipe *pipe, struct sl_train *train, void *piece) {
    struct sl_device *device = train->device;
    for (int64_t i = 0; i < pipe->tensors->count; i++) {
        bool plain = pipe->tensors->entries[i].when == SL_CKPT_ALWAYS;
        char *to = plain ? sl_run_worker_memory(train->worker, &pipe->tensors->ids[i], 0) : NULL;
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
    int64_t sample = sl_pipe_place(pipe).sample;
    train->step = sl_pipe_step_count(pipe);
    train->scale = pipe->scale;
    train->cursor.epoch = sample / epoch;
    train->cursor.position = sample % epoch;
    return err;
}
