/* Reads a file: cells -> actions of each rank -> checks of messages -> passes. */
#include "interop/send_buffers.h"
#include "interop/torch_csv.h"
#include "interop/torch_csv_cells.h"

#include <stdlib.h>
#include <string.h>

/* A name must come before its prefixes. */
static const struct {
    const char *name;
    enum sl_cell_kind kind;
    bool has_micro;
} cell_names[] = {
    {"WAIT_REDUCE_GRAD", SL_CELL_OTHER, false},
    {"WAIT_SEND_F", SL_CELL_WAIT_SEND_F, true},
    {"WAIT_SEND_B", SL_CELL_WAIT_SEND_B, true},
    {"REDUCE_GRAD", SL_CELL_OTHER, false},
    {"UNSHARD", SL_CELL_OTHER, false},
    {"RESHARD", SL_CELL_OTHER, false},
    {"SEND_F", SL_CELL_SEND_F, true},
    {"SEND_B", SL_CELL_SEND_B, true},
    {"RECV_F", SL_CELL_RECV_F, true},
    {"RECV_B", SL_CELL_RECV_B, true},
    {"BW", SL_CELL_BW, true},
    {"F", SL_CELL_F, true},
    {"B", SL_CELL_B, true},
    {"I", SL_CELL_I, true},
    {"W", SL_CELL_W, true},
};

static sl_err fail_at(const struct sl_torch_file *r, const char *at, const char *what) {
    return sl_fail(SL_ERR_INPUT, "%s:%d:%d: %s", r->file, r->line, (int)(at - r->line_start) + 1,
                   what);
}

static sl_err fail_cell(const struct sl_torch_file *r, const struct sl_torch_cell *cell,
                        const char *what) {
    return sl_fail(SL_ERR_REFUSED, "%s:%d:%d: %s", r->file, cell->line, cell->column, what);
}

/* --- cells --- */

static sl_err take_number(struct sl_torch_file *r, struct sl_str *cell, int32_t max, int32_t *out) {
    int64_t value = 0;
    const char *start = cell->at;
    while (cell->length && *cell->at >= '0' && *cell->at <= '9') {
        value = value * 10 + (*cell->at - '0');
        if (value > max)
            return fail_at(r, start, "the number is too large");
        cell->at++;
        cell->length--;
    }
    if (cell->at == start)
        return fail_at(r, start, "a number is expected, as in 2F0");
    *out = (int32_t)value;
    return SL_OK;
}

static sl_err put_action(struct sl_torch_file *r, struct sl_str text) {
    struct sl_torch_cell cell = {
        .rank = r->rank, .line = r->line, .column = (int)(text.at - r->line_start) + 1};
    int known = 0;
    SL_TRY(take_number(r, &text, SL_STAGE_MAX - 1, &cell.stage));
    for (; known < SL_COUNT(cell_names); known++) {
        size_t length = strlen(cell_names[known].name);
        if (text.length >= length && memcmp(text.at, cell_names[known].name, length) == 0)
            break;
    }
    if (known == SL_COUNT(cell_names))
        return fail_at(r, text.at,
                       "not an action of torch.distributed.pipelining; 2F0, 1B3, 3SEND_F1 are");
    text.at += strlen(cell_names[known].name);
    text.length -= strlen(cell_names[known].name);
    cell.kind = cell_names[known].kind;
    if (cell_names[known].has_micro)
        SL_TRY(take_number(r, &text, INT32_MAX / 4 - 1, &cell.micro));
    if (text.length)
        return fail_at(r, text.at, "unexpected text behind the action");
    r->stages = cell.stage >= r->stages ? cell.stage + 1 : r->stages;
    r->micros = cell.micro >= r->micros ? cell.micro + 1 : r->micros;
    r->comms |= cell.kind > SL_CELL_BW && cell.kind < SL_CELL_OTHER;
    SL_PUSH(&r->cells, cell);
    return SL_OK;
}

static struct sl_str trim(struct sl_str text) {
    while (text.length && (*text.at == ' ' || *text.at == '\t')) {
        text.at++;
        text.length--;
    }
    while (text.length && (text.at[text.length - 1] == ' ' || text.at[text.length - 1] == '\t'))
        text.length--;
    return text;
}

/* Adds the two actions of (0F5;7B2)OVERLAP_F_B. */
static sl_err put_overlap(struct sl_torch_file *r, struct sl_str text) {
    static const char behind[] = "OVERLAP_F_B";
    const char *close = memchr(text.at, ')', text.length), *at = text.at + 1;
    if (!close)
        return fail_at(r, text.at, "the bracket is never closed");
    struct sl_str rest =
        trim((struct sl_str){close + 1, text.length - (size_t)(close + 1 - text.at)});
    if (!sl_str_is(rest, behind))
        return fail_at(r, close + 1, "OVERLAP_F_B is expected behind the bracket");
    while (at < close) {
        const char *end = memchr(at, ';', (size_t)(close - at));
        end = end ? end : close;
        struct sl_str part = trim((struct sl_str){at, (size_t)(end - at)});
        if (part.length)
            SL_TRY(put_action(r, part));
        at = end + 1;
    }
    return SL_OK;
}

static sl_err put_cell(struct sl_torch_file *r, struct sl_str text) {
    if (text.length >= 2 && text.at[0] == '"' && text.at[text.length - 1] == '"') {
        text.at++;
        text.length -= 2;
    }
    text = trim(text);
    if (!text.length)
        return SL_OK;
    return text.at[0] == '(' ? put_overlap(r, text) : put_action(r, text);
}

static sl_err read_line(struct sl_torch_file *r) {
    const char *end = memchr(r->at, '\n', (size_t)(r->end - r->at));
    const char *next = end ? end + 1 : r->end;
    int64_t before = r->cells.count;
    end = end ? end : r->end;
    if (end > r->at && end[-1] == '\r')
        end--;
    r->line_start = r->at;
    while (r->at <= end) {
        const char *comma = r->at < end ? memchr(r->at, ',', (size_t)(end - r->at)) : NULL;
        const char *stop = comma ? comma : end;
        SL_TRY(put_cell(r, trim((struct sl_str){r->at, (size_t)(stop - r->at)})));
        r->at = stop + 1;
    }
    if (r->cells.count > before)
        r->ranks = r->rank + 1;
    r->at = next;
    r->line++;
    r->rank++;
    return SL_OK;
}

static sl_err read_cells(struct sl_torch_file *r) {
    while (r->at < r->end) {
        if (r->rank == SL_WORKER_MAX)
            return fail_at(r, r->at, "more rows than there may be workers");
        SL_TRY(read_line(r));
    }
    /* every stage has one pass per micro-batch; checked before memory is allocated for announced
     * numbers */
    if (!r->cells.count)
        return sl_fail(SL_ERR_INPUT, "%s: no action in the whole file", r->file);
    if ((int64_t)r->stages * r->micros > r->cells.count)
        return sl_fail(SL_ERR_REFUSED,
                       "%s: %lld actions cannot be enough for %d stages with %d micro-batches",
                       r->file, (long long)r->cells.count, r->stages, r->micros);
    return SL_OK;
}

/* --- stages --- */

static sl_err place_stages(struct sl_torch_file *r) {
    r->rank_of = SL_NEW(r->arena, int, r->stages);
    for (int i = 0; i < r->stages; i++)
        r->rank_of[i] = -1;
    for (int64_t i = 0; i < r->cells.count; i++) {
        const struct sl_torch_cell *cell = &r->cells.at[i];
        int *rank = &r->rank_of[cell->stage];
        if (*rank >= 0 && *rank != cell->rank)
            return sl_fail(SL_ERR_REFUSED, "%s:%d:%d: stage %d is on rank %d already", r->file,
                           cell->line, cell->column, cell->stage, *rank);
        *rank = cell->rank;
    }
    for (int i = 0; i < r->stages; i++)
        if (r->rank_of[i] < 0)
            return sl_fail(SL_ERR_REFUSED, "%s: stage %d has no action", r->file, i);
    return SL_OK;
}

/* Checks that the micro-batches are 0 to m-1 on every stage. */
static sl_err check_micros(const struct sl_torch_file *r) {
    int32_t *max = SL_NEW(r->arena, int32_t, r->stages);
    for (int64_t i = 0; i < r->cells.count; i++) {
        const struct sl_torch_cell *cell = &r->cells.at[i];
        if (cell->kind <= SL_CELL_W && cell->micro > max[cell->stage])
            max[cell->stage] = cell->micro;
    }
    for (int i = 0; i < r->stages; i++)
        if (max[i] != r->micros - 1)
            for (int j = 0; j < r->stages; j++)
                if (max[j] == r->micros - 1)
                    return sl_fail(SL_ERR_REFUSED,
                                   "%s: stage %d has micro-batches up to %d, stage %d up to %d: "
                                   "every stage runs the same ones, counted from 0",
                                   r->file, i, max[i], j, max[j]);
    return SL_OK;
}

/* --- messages: each SEND after its pass, each RECV before it, the same order at both ends --- */

enum { DID_F = 1, DID_B = 2, DID_SEND_F = 4, DID_SEND_B = 8, DID_RECV_F = 16, DID_RECV_B = 32 };

struct message {
    int64_t key;          /* channel: rank of the sender, rank of the receiver */
    int32_t stage, micro; /* stage and micro-batch of the sender */
    bool grad;
    int64_t cell;
};

struct messages {
    SL_VEC(struct message) vec;
};

static sl_err check_message(const struct sl_torch_file *r, const struct sl_torch_cell *cell,
                            uint8_t *did, int *peer) {
    bool grad = cell->kind == SL_CELL_SEND_B || cell->kind == SL_CELL_RECV_B;
    bool send = cell->kind == SL_CELL_SEND_F || cell->kind == SL_CELL_SEND_B;
    int other = cell->stage + (grad == send ? -1 : 1); /* SEND_F and RECV_B: with the next stage */
    uint8_t self = send ? (grad ? DID_SEND_B : DID_SEND_F) : (grad ? DID_RECV_B : DID_RECV_F);
    uint8_t pass = grad ? DID_B : DID_F;
    if (other < 0 || other >= r->stages)
        return fail_cell(r, cell, "there is no stage at the other end");
    *peer = r->rank_of[other];
    if (*peer == cell->rank)
        return fail_cell(r, cell, "both stages are on this rank");
    if (*did & self)
        return fail_cell(r, cell, "the same message twice");
    if (send && !(*did & pass))
        return fail_cell(r, cell, "sent before the pass that makes it");
    if (!send && (*did & pass))
        return fail_cell(r, cell, "received after the pass that reads it");
    *did |= self;
    return SL_OK;
}

static sl_err check_cell(struct sl_torch_file *r, const struct sl_torch_cell *cell, uint8_t *did,
                         struct messages out[2]) {
    int peer;
    bool send = cell->kind == SL_CELL_SEND_F || cell->kind == SL_CELL_SEND_B;
    bool grad = cell->kind == SL_CELL_SEND_B || cell->kind == SL_CELL_RECV_B;
    switch (cell->kind) {
    case SL_CELL_F:
        if (cell->stage && r->rank_of[cell->stage - 1] != cell->rank && !(*did & DID_RECV_F))
            return fail_cell(r, cell, "its RECV_F is missing");
        *did |= DID_F;
        return SL_OK;
    case SL_CELL_B:
    case SL_CELL_I:
        if (cell->stage + 1 < r->stages && r->rank_of[cell->stage + 1] != cell->rank &&
            !(*did & DID_RECV_B))
            return fail_cell(r, cell, "its RECV_B is missing");
        *did |= DID_B;
        return SL_OK;
    case SL_CELL_WAIT_SEND_F:
    case SL_CELL_WAIT_SEND_B:
        if (!(*did & (cell->kind == SL_CELL_WAIT_SEND_F ? DID_SEND_F : DID_SEND_B)))
            return fail_cell(r, cell, "waits for a message that has not been sent");
        return SL_OK;
    case SL_CELL_W:
    case SL_CELL_OTHER: return SL_OK;
    default: break;
    }
    SL_TRY(check_message(r, cell, did, &peer));
    int64_t from = send ? cell->rank : peer, to = send ? peer : cell->rank;
    struct message message = {.key = from * SL_WORKER_MAX + to,
                              .stage = send ? cell->stage : cell->stage + (grad ? 1 : -1),
                              .micro = cell->micro,
                              .grad = grad,
                              .cell = cell - r->cells.at};
    SL_PUSH(&out[send].vec, message);
    return SL_OK;
}

static int by_channel(const void *a, const void *b) {
    const struct message *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return x->cell < y->cell ? -1 : x->cell > y->cell;
}

static sl_err compare_ends(const struct sl_torch_file *r, struct messages ends[2]) {
    for (int i = 0; i < 2; i++)
        if (ends[i].vec.count)
            qsort(ends[i].vec.at, (size_t)ends[i].vec.count, sizeof *ends[i].vec.at, by_channel);
    for (int64_t i = 0; i < ends[0].vec.count || i < ends[1].vec.count; i++) {
        const struct message *recv = i < ends[0].vec.count ? &ends[0].vec.at[i] : NULL;
        const struct message *send = i < ends[1].vec.count ? &ends[1].vec.at[i] : NULL;
        bool same = recv && send && recv->key == send->key;
        if (!same) { /* finds the message without a partner */
            bool lone_send = !recv || (send && send->key < recv->key);
            return fail_cell(r, &r->cells.at[lone_send ? send->cell : recv->cell],
                             lone_send ? "sent and never received" : "received and never sent");
        }
        if (recv->stage != send->stage || recv->micro != send->micro || recv->grad != send->grad)
            return sl_fail(SL_ERR_REFUSED,
                           "%s:%d:%d: out of order: the sender's next message to this rank is "
                           "%dSEND_%c%d, at %d:%d",
                           r->file, r->cells.at[recv->cell].line, r->cells.at[recv->cell].column,
                           send->stage, send->grad ? 'B' : 'F', send->micro,
                           r->cells.at[send->cell].line, r->cells.at[send->cell].column);
    }
    return SL_OK;
}

static sl_err check_messages(struct sl_torch_file *r) {
    struct messages ends[2] = {{{0}}, {{0}}}; /* receives [0] and sends [1] */
    uint8_t *did = sl_realloc(NULL, (size_t)r->stages * (size_t)r->micros);
    memset(did, 0, (size_t)r->stages * (size_t)r->micros);
    sl_err err = SL_OK;
    for (int64_t i = 0; i < r->cells.count && err == SL_OK; i++) {
        const struct sl_torch_cell *cell = &r->cells.at[i];
        err = check_cell(r, cell, &did[(int64_t)cell->stage * r->micros + cell->micro], ends);
    }
    if (err == SL_OK)
        err = compare_ends(r, ends);
    free(did);
    SL_VEC_FREE(&ends[0].vec);
    SL_VEC_FREE(&ends[1].vec);
    return err;
}

/* --- the schedule --- */

static sl_err build_plan(const struct sl_torch_file *r, const struct sl_plan **out) {
    struct sl_stage *stages = SL_NEW(r->arena, struct sl_stage, r->stages);
    struct sl_edge *edges = SL_NEW(r->arena, struct sl_edge, r->stages);
    for (int i = 0; i < r->stages; i++) {
        stages[i] = (struct sl_stage){
            .name = sl_arena_printf(r->arena, "s%d", i),
            .width = 1,
            .micro_size = 1,
            .workers = &r->rank_of[i],
            .bytes = {.params = 1, .grads = 1, .stash = 1, .saved = 1, .kept = 1}};
        edges[i] = (struct sl_edge){.from = i, .to = i + 1, .sample_bytes = 1};
    }
    struct sl_plan draft = {.stages = stages,
                            .stage_count = r->stages,
                            .edges = edges,
                            .edge_count = r->stages - 1,
                            .worker_count = r->ranks};
    return sl_plan_build(r->arena, &draft, out);
}

static struct sl_sched *build_sched(const struct sl_torch_file *r, const struct sl_plan *plan) {
    static const int64_t units[SL_KIND_COUNT] = {[SL_FORWARD] = 1,
                                                 [SL_BACKWARD] = 2,
                                                 [SL_BACKWARD_INPUT] = 1,
                                                 [SL_BACKWARD_WEIGHT] = 1,
                                                 [SL_RECOMPUTE] = 1};
    struct sl_sched *sched = SL_NEW(r->arena, struct sl_sched, 1);
    int32_t *micros = SL_NEW(r->arena, int32_t, r->stages);
    int64_t(*dur)[SL_KIND_COUNT] = sl_arena_alloc(r->arena, (int64_t)sizeof *dur * r->stages);
    for (int i = 0; i < r->stages; i++) {
        micros[i] = r->micros;
        memcpy(dur[i], units, sizeof dur[i]);
    }
    *sched = (struct sl_sched){.plan = plan,
                               .name = "torch",
                               .rule = SL_RULE_SYNC,
                               .batch = r->micros,
                               .last_batch = r->micros,
                               .iters = 1,
                               .reps = 1,
                               .micros = micros,
                               .dur_ns = (const int64_t(*)[SL_KIND_COUNT])dur};
    for (int s = 0; s < SL_SEGMENT_COUNT; s++)
        sched->lists[s] = SL_NEW(r->arena, struct sl_actions, r->ranks);
    return sched;
}

static void fill_lists(const struct sl_torch_file *r, struct sl_sched *sched) {
    static const uint8_t kinds[] = {[SL_CELL_F] = SL_FORWARD,
                                    [SL_CELL_B] = SL_BACKWARD,
                                    [SL_CELL_I] = SL_BACKWARD_INPUT,
                                    [SL_CELL_W] = SL_BACKWARD_WEIGHT};
    struct sl_actions *lists = sched->lists[SL_PERIOD];
    for (int64_t i = 0; i < r->cells.count; i++)
        lists[r->cells.at[i].rank].count += r->cells.at[i].kind <= SL_CELL_W;
    for (int w = 0; w < r->ranks; w++) {
        lists[w].at = SL_NEW(r->arena, struct sl_action, lists[w].count);
        lists[w].count = 0;
    }
    for (int64_t i = 0; i < r->cells.count; i++) {
        const struct sl_torch_cell *cell = &r->cells.at[i];
        struct sl_actions *list = &lists[cell->rank];
        if (cell->kind <= SL_CELL_W)
            list->at[list->count++] = (struct sl_action){
                .kind = kinds[cell->kind], .stage = (uint16_t)cell->stage, .micro = cell->micro};
    }
}

static struct sl_action message_of(const struct sl_torch_file *r, const struct sl_torch_cell *c) {
    bool grad = c->kind == SL_CELL_SEND_B || c->kind == SL_CELL_RECV_B;
    bool send = c->kind == SL_CELL_SEND_F || c->kind == SL_CELL_SEND_B;
    int other = c->stage + (grad == send ? -1 : 1);
    return (struct sl_action){.kind = send ? SL_SEND : SL_RECV,
                              .flags = grad ? SL_GRAD : 0,
                              .stage = (uint16_t)c->stage,
                              .micro = c->micro,
                              .other = c->micro,
                              .peer = (uint16_t)r->rank_of[other],
                              .edge = (uint16_t)(other < c->stage ? other : c->stage)};
}

/* Returns how many buffers the file's own order of messages assumes. */
static int32_t count_buffers(const struct sl_torch_file *r, const struct sl_sched *passes) {
    struct sl_sched whole = *passes;
    struct sl_actions *lists = SL_NEW(r->arena, struct sl_actions, r->ranks);
    int64_t *taken = SL_NEW(r->arena, int64_t, r->ranks);
    whole.lists[SL_PERIOD] = lists;
    for (int64_t i = 0; i < r->cells.count; i++)
        lists[r->cells.at[i].rank].count++;
    for (int w = 0; w < r->ranks; w++) {
        lists[w].at = SL_NEW(r->arena, struct sl_action, lists[w].count);
        lists[w].count = 0;
    }
    for (int64_t i = 0; i < r->cells.count; i++) {
        const struct sl_torch_cell *cell = &r->cells.at[i];
        struct sl_actions *list = &lists[cell->rank];
        if (cell->kind <= SL_CELL_W)
            list->at[list->count++] = passes->lists[SL_PERIOD][cell->rank].at[taken[cell->rank]++];
        else if (cell->kind <= SL_CELL_RECV_B)
            list->at[list->count++] = message_of(r, cell);
    }
    return sl_interop_send_buffers(&whole);
}

static sl_err read_all(struct sl_torch_file *r, struct sl_sched **out) {
    const struct sl_plan *plan;
    SL_TRY(read_cells(r));
    sl_interop_torch_csv_rename(r);
    SL_TRY(place_stages(r));
    SL_TRY(check_micros(r));
    if (r->comms)
        SL_TRY(check_messages(r));
    SL_TRY(build_plan(r, &plan));
    *out = build_sched(r, plan);
    fill_lists(r, *out);
    if (r->comms)
        (*out)->buffers = count_buffers(r, *out);
    if ((*out)->buffers < 0)
        return sl_fail(SL_ERR_REFUSED,
                       "%s: the passes wait for each other, whatever the sends can buffer; leave "
                       "out the messages, and 'sluice verify' names the passes",
                       r->file);
    return SL_OK;
}

sl_err sl_interop_torch_csv_read(struct sl_arena *arena, const char *file, const char *text,
                                 size_t length, struct sl_sched **out) {
    static const char mark[] = "\xef\xbb\xbf"; /* that spreadsheets write before UTF-8 */
    if (length >= 3 && memcmp(text, mark, 3) == 0) {
        text += 3;
        length -= 3;
    }
    struct sl_torch_file r = {.arena = arena,
                              .file = file,
                              .at = text,
                              .end = text + length,
                              .line_start = text,
                              .line = 1};
    sl_err err = read_all(&r, out);
    SL_VEC_FREE(&r.cells);
    return err;
}
