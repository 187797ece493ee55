/* Plan text: one line per thing, stages before edges and ties.
 *
 *     sluice-plan 1
 *     model gpt-tiny nodes 12 graph "576472d521d35183"
 *     sizes "T=8,L=2,C=16"
 *     schedule "1f1b"
 *     batch 64
 *     workers 3
 *     memory 0 17179869184
 *     stage a width 2 micro 4 [group 2] [shards 4] [part 1 of 4] [zero1] on 0 1 [recompute] [input]
 *     bytes a params 10 grads 10 state 20 stash 4 saved 1 kept 2 work 0
 *     takes a f 120 b 249 i 130 w 119 recompute 100 reduce 0 step 40
 *     collective a f sum 4096 [24]
 *     nodes a 0..4 7
 *     edge a b 4096
 *     tie embed 1024 a b
 */
#include "plan/text.h"

#include "base/hash.h"
#include "base/map.h"
#include "base/vec.h"

struct collective_line {
    int stage;
    struct sl_collective collective;
};

struct reader {
    struct sl_lex *lex;
    struct sl_arena *arena;
    struct sl_plan draft;
    SL_VEC(struct sl_stage) stages;
    SL_VEC(struct sl_edge) edges;
    SL_VEC(struct sl_tie) ties;
    SL_VEC(int) ints;
    SL_VEC(struct collective_line) collectives;
    struct sl_map names; /* of stages, by name */
    int64_t *memory;
};

static sl_err take_range(struct sl_lex *lex, const char *what, int64_t low, int64_t high,
                         int64_t *out) {
    struct sl_pos pos = lex->tok.pos;
    SL_TRY(sl_lex_take_int(lex, what, out));
    if (*out < low || *out > high)
        return sl_lex_fail_at(lex, pos, "%s %lld is not in %lld..%lld", what, (long long)*out,
                              (long long)low, (long long)high);
    return SL_OK;
}

static sl_err take_word(struct sl_lex *lex, const char *word) {
    char found[64];
    if (!sl_lex_is_name(lex, word))
        return sl_lex_fail(lex, "expected '%s', found %s", word, sl_lex_found(lex, found));
    return sl_lex_next(lex);
}

static sl_err take_stage(struct reader *r, int *out) {
    struct sl_pos pos = r->lex->tok.pos;
    struct sl_str name;
    SL_TRY(sl_lex_take_name(r->lex, "the name of a stage", &name));
    const int64_t *found = sl_map_find(&r->names, name);
    if (found) {
        *out = (int)*found;
        return SL_OK;
    }
    return sl_lex_fail_at(r->lex, pos, "no stage is called '%.*s'", (int)name.length, name.at);
}

/* Indexed by enum sl_stage_passes. */
static const char *const passes_names[] = {"", "frozen", "forward"};

static sl_err read_shards(struct sl_lex *lex, struct sl_stage *stage) {
    int64_t value = 1;
    if (sl_lex_is_name(lex, "shards")) {
        SL_TRY(sl_lex_next(lex));
        SL_TRY(take_range(lex, "shards", 1, SL_SHARD_MAX, &value));
    }
    stage->shards = (int)value;
    stage->parts = 1;
    if (sl_lex_is_name(lex, "part")) {
        SL_TRY(sl_lex_next(lex));
        SL_TRY(take_range(lex, "part", 0, SL_SHARD_MAX - 1, &value));
        stage->part = (int)value;
        SL_TRY(take_word(lex, "of"));
        SL_TRY(take_range(lex, "parts", 2, SL_SHARD_MAX, &value));
        stage->parts = (int)value;
    }
    stage->zero1 = sl_lex_is_name(lex, "zero1");
    return stage->zero1 ? sl_lex_next(lex) : SL_OK;
}

static sl_err read_stage(void *reader) {
    struct reader *r = reader;
    struct sl_lex *lex = r->lex;
    struct sl_stage stage = {0};
    struct sl_str name;
    int64_t value;
    SL_TRY(sl_lex_take_name(lex, "the name of a stage", &name));
    stage.name = sl_arena_dup(r->arena, name.at, name.length);
    SL_TRY(take_word(lex, "width"));
    SL_TRY(take_range(lex, "width", 1, SL_WIDTH_MAX, &value));
    stage.width = (int)value;
    SL_TRY(take_word(lex, "micro"));
    SL_TRY(take_range(lex, "micro", 1, INT32_MAX, &stage.micro_size));
    if (sl_lex_is_name(lex, "group")) {
        SL_TRY(sl_lex_next(lex));
        SL_TRY(take_range(lex, "group", 1, SL_GROUP_MAX, &value));
        stage.group = (int)value;
    }
    SL_TRY(read_shards(lex, &stage));
    SL_TRY(take_word(lex, "on"));
    r->ints.count = 0;
    while (lex->tok.kind == SL_TOK_INT) {
        SL_TRY(take_range(lex, "worker", 0, SL_WORKER_MAX - 1, &value));
        SL_PUSH(&r->ints, (int)value);
    }
    if (r->ints.count != stage.width)
        return sl_lex_fail(lex, "stage %s has width %d but %lld workers", stage.name, stage.width,
                           (long long)r->ints.count);
    stage.workers = SL_VEC_FREEZE(&r->ints, r->arena);
    if (sl_lex_is_name(lex, "recompute")) {
        stage.recompute = true;
        SL_TRY(sl_lex_next(lex));
    }
    if (sl_lex_is_name(lex, "input")) {
        stage.has_input = true;
        SL_TRY(sl_lex_next(lex));
    }
    for (int i = 1; i < SL_COUNT(passes_names); i++)
        if (sl_lex_is_name(lex, passes_names[i])) {
            stage.passes = (enum sl_stage_passes)i;
            SL_TRY(sl_lex_next(lex));
            break;
        }
    if (r->stages.count >= SL_STAGE_MAX)
        return sl_lex_fail(lex, "more than %d stages", SL_STAGE_MAX);
    sl_map_put(&r->names, sl_str(stage.name), r->stages.count);
    SL_PUSH(&r->stages, stage);
    return SL_OK;
}

static sl_err read_bytes(void *reader) {
    struct reader *r = reader;
    static const char *const words[] = {"params", "grads", "state", "stash",
                                        "saved",  "kept",  "work"};
    int stage;
    SL_TRY(take_stage(r, &stage));
    struct sl_stage_bytes *b = &r->stages.at[stage].bytes;
    int64_t *const fields[] = {&b->params, &b->grads, &b->state, &b->stash,
                               &b->saved,  &b->kept,  &b->work};
    for (int i = 0; i < SL_COUNT(words); i++) {
        SL_TRY(take_word(r->lex, words[i]));
        SL_TRY(take_range(r->lex, words[i], 0, INT64_MAX >> 16, fields[i]));
    }
    if (!sl_lex_is_name(r->lex, "fixed"))
        return SL_OK;
    SL_TRY(sl_lex_next(r->lex));
    return take_range(r->lex, "fixed", 0, INT64_MAX >> 16, &b->fixed);
}

static sl_err read_times(void *reader) {
    struct reader *r = reader;
    static const char *const words[] = {"f", "b", "i", "w", "recompute", "reduce", "step"};
    int stage;
    SL_TRY(take_stage(r, &stage));
    struct sl_stage_times *t = &r->stages.at[stage].times;
    int64_t *const fields[] = {&t->f, &t->b, &t->i, &t->w, &t->recompute, &t->reduce, &t->step};
    for (int i = 0; i < SL_COUNT(words); i++) {
        SL_TRY(take_word(r->lex, words[i]));
        SL_TRY(take_range(r->lex, "nanoseconds", 0, SL_STAGE_NS_MAX, fields[i]));
    }
    return SL_OK;
}

static sl_err take_choice(struct sl_lex *lex, const char *what, const char *const *names,
                          int *out) {
    char found[64];
    for (*out = 0; names[*out]; ++*out)
        if (sl_lex_is_name(lex, names[*out]))
            return sl_lex_next(lex);
    return sl_lex_fail(lex, "expected %s, found %s", what, sl_lex_found(lex, found));
}

static sl_err read_collective(void *reader) {
    struct reader *r = reader;
    struct sl_collective c = {0};
    int stage, pass, kind;
    int64_t count = 1;
    SL_TRY(take_stage(r, &stage));
    SL_TRY(take_choice(r->lex, "f, b or w", sl_plan_collective_passes, &pass));
    SL_TRY(take_choice(r->lex, "sum, gather or scatter", sl_plan_collective_kinds, &kind));
    SL_TRY(take_range(r->lex, "bytes", 0, INT64_MAX >> 32, &c.sample_bytes));
    if (r->lex->tok.kind == SL_TOK_INT)
        SL_TRY(take_range(r->lex, "count", 1, SL_COLLECTIVE_MAX, &count));
    c.pass = (enum sl_collective_pass)pass;
    c.kind = (enum sl_collective_kind)kind;
    c.count = (int)count;
    SL_PUSH(&r->collectives, ((struct collective_line){stage, c}));
    return SL_OK;
}

/* Gives each stage its collectives, in the order of the lines. */
static void place_collectives(struct reader *r) {
    for (int64_t s = 0; s < r->stages.count; s++) {
        struct sl_collective *list = NULL;
        int count = 0;
        for (int64_t i = 0; i < r->collectives.count; i++)
            count += r->collectives.at[i].stage == s;
        if (!count)
            continue;
        list = SL_NEW(r->arena, struct sl_collective, count);
        count = 0;
        for (int64_t i = 0; i < r->collectives.count; i++)
            if (r->collectives.at[i].stage == s)
                list[count++] = r->collectives.at[i].collective;
        r->stages.at[s].collectives = list;
        r->stages.at[s].collective_count = count;
    }
}

static sl_err read_nodes(void *reader) {
    struct reader *r = reader;
    int stage;
    SL_TRY(take_stage(r, &stage));
    r->ints.count = 0;
    while (r->lex->tok.kind == SL_TOK_INT) {
        int64_t low, high;
        SL_TRY(take_range(r->lex, "node", 0, r->draft.node_count - 1, &low));
        high = low;
        if (sl_lex_is(r->lex, "..")) {
            SL_TRY(sl_lex_next(r->lex));
            SL_TRY(take_range(r->lex, "node", low, r->draft.node_count - 1, &high));
        }
        if (r->ints.count + high - low >= r->draft.node_count)
            return sl_lex_fail(r->lex, "more nodes than the model has");
        for (int64_t i = low; i <= high; i++)
            SL_PUSH(&r->ints, (int)i);
    }
    r->stages.at[stage].nodes = SL_VEC_FREEZE(&r->ints, r->arena);
    r->stages.at[stage].node_count = (int)r->ints.count;
    return SL_OK;
}

static sl_err read_edge(void *reader) {
    struct reader *r = reader;
    struct sl_edge edge = {0};
    SL_TRY(take_stage(r, &edge.from));
    SL_TRY(take_stage(r, &edge.to));
    SL_TRY(take_range(r->lex, "bytes", 0, INT64_MAX >> 32, &edge.sample_bytes));
    if (r->edges.count >= SL_EDGE_MAX)
        return sl_lex_fail(r->lex, "more than %d edges", SL_EDGE_MAX);
    SL_PUSH(&r->edges, edge);
    return SL_OK;
}

static sl_err read_tie(void *reader) {
    struct reader *r = reader;
    struct sl_tie tie = {0};
    struct sl_str name;
    SL_TRY(sl_lex_take_name(r->lex, "the name of a tie", &name));
    tie.name = sl_arena_dup(r->arena, name.at, name.length);
    SL_TRY(take_range(r->lex, "bytes", 0, INT64_MAX >> 16, &tie.bytes));
    r->ints.count = 0;
    while (r->lex->tok.kind == SL_TOK_NAME) {
        int stage;
        SL_TRY(take_stage(r, &stage));
        SL_PUSH(&r->ints, stage);
    }
    tie.stages = SL_VEC_FREEZE(&r->ints, r->arena);
    tie.count = (int)r->ints.count;
    SL_PUSH(&r->ties, tie);
    return SL_OK;
}

static sl_err read_model(void *reader) {
    struct reader *r = reader;
    struct sl_str name;
    int64_t value;
    SL_TRY(sl_lex_take_name(r->lex, "the name of a model", &name));
    r->draft.model = sl_arena_dup(r->arena, name.at, name.length);
    SL_TRY(take_word(r->lex, "nodes"));
    SL_TRY(take_range(r->lex, "nodes", 0, INT32_MAX, &value));
    r->draft.node_count = (int)value;
    if (!sl_lex_is_name(r->lex, "graph"))
        return SL_OK;
    SL_TRY(sl_lex_next(r->lex));
    SL_TRY(sl_lex_take_string(r->lex, "the hash of the graph in quotes", &name));
    if (!sl_hash_parse(name, &r->draft.graph) || !r->draft.graph)
        return sl_lex_fail(r->lex, "the hash of the graph must have 16 hexadecimal digits");
    return SL_OK;
}

static sl_err read_sizes(void *reader) {
    struct reader *r = reader;
    struct sl_str sizes;
    SL_TRY(sl_lex_take_string(r->lex, "the sizes of the model in quotes", &sizes));
    r->draft.sizes = sl_arena_dup(r->arena, sizes.at, sizes.length);
    return SL_OK;
}

static sl_err read_workers(void *reader) {
    struct reader *r = reader;
    int64_t value;
    if (r->memory)
        return sl_lex_fail(r->lex, "the number of workers is said twice");
    SL_TRY(take_range(r->lex, "workers", 1, SL_WORKER_MAX, &value));
    r->draft.worker_count = (int)value;
    r->memory = SL_NEW(r->arena, int64_t, value);
    return SL_OK;
}

static sl_err read_memory(void *reader) {
    struct reader *r = reader;
    int64_t worker, bytes;
    SL_TRY(take_range(r->lex, "worker", 0, r->draft.worker_count - 1, &worker));
    SL_TRY(take_range(r->lex, "memory", 0, INT64_MAX >> 1, &bytes));
    r->memory[worker] = bytes;
    return SL_OK;
}

static sl_err read_schedule(void *reader) {
    struct reader *r = reader;
    struct sl_str name;
    SL_TRY(sl_lex_take_string(r->lex, "the name of a schedule in quotes", &name));
    r->draft.schedule = sl_arena_dup(r->arena, name.at, name.length);
    return SL_OK;
}

static sl_err read_batch(void *reader) {
    struct reader *r = reader;
    return take_range(r->lex, "batch", 1, INT64_MAX >> 32, &r->draft.batch);
}

static sl_err read_lines(struct reader *r) {
    static const struct sl_lex_line lines[] = {
        {"model", read_model},          {"sizes", read_sizes},     {"schedule", read_schedule},
        {"batch", read_batch},          {"workers", read_workers}, {"memory", read_memory},
        {"stage", read_stage},          {"bytes", read_bytes},     {"takes", read_times},
        {"nodes", read_nodes},          {"edge", read_edge},       {"tie", read_tie},
        {"collective", read_collective}};
    return sl_lex_take_lines(r->lex, lines, SL_COUNT(lines), r);
}

sl_err sl_plan_read_lines(struct sl_arena *arena, struct sl_lex *lex, const struct sl_plan **out) {
    struct reader r = {.lex = lex, .arena = arena};
    sl_err err;
    SL_TRY_OUT(read_lines(&r));
    place_collectives(&r);
    r.draft.stages = r.stages.at;
    r.draft.stage_count = (int)r.stages.count;
    r.draft.edges = r.edges.at;
    r.draft.edge_count = (int)r.edges.count;
    r.draft.ties = r.ties.at;
    r.draft.tie_count = (int)r.ties.count;
    r.draft.memory_bytes = r.memory;
    err = sl_plan_build(arena, &r.draft, out);
    if (err != SL_OK)
        err = sl_err_context(err, "%s", lex->file);
out:
    SL_VEC_FREE(&r.stages);
    SL_VEC_FREE(&r.edges);
    SL_VEC_FREE(&r.ties);
    SL_VEC_FREE(&r.ints);
    SL_VEC_FREE(&r.collectives);
    sl_map_free(&r.names);
    return err;
}

sl_err sl_plan_read(struct sl_arena *arena, const char *file, const char *text, size_t length,
                    const struct sl_plan **out) {
    struct sl_lex lex;
    int64_t format;
    SL_TRY(sl_lex_open(&lex, file, text, length, true));
    SL_TRY(sl_lex_skip_newlines(&lex));
    SL_TRY(take_word(&lex, "sluice-plan"));
    SL_TRY(take_range(&lex, "format", 1, 1, &format));
    SL_TRY(sl_lex_take_newline(&lex));
    SL_TRY(sl_plan_read_lines(arena, &lex, out));
    if (lex.tok.kind != SL_TOK_END) {
        char found[64];
        return sl_lex_fail(&lex, "unexpected %s", sl_lex_found(&lex, found));
    }
    return SL_OK;
}

static void write_nodes(const struct sl_stage *stage, struct sl_text *out) {
    if (!stage->node_count)
        return;
    sl_text_printf(out, "nodes %s", stage->name);
    for (int i = 0, j; i < stage->node_count; i = j) {
        for (j = i + 1; j < stage->node_count && stage->nodes[j] == stage->nodes[j - 1] + 1;)
            j++;
        sl_text_printf(out, " %d", stage->nodes[i]);
        if (j > i + 1)
            sl_text_printf(out, "..%d", stage->nodes[j - 1]);
    }
    sl_text_put(out, "\n");
}

static void write_times(const struct sl_stage *stage, struct sl_text *out) {
    const struct sl_stage_times *t = &stage->times;
    if (t->f || t->b || t->i || t->w || t->recompute || t->reduce || t->step)
        sl_text_printf(out,
                       "takes %s f %lld b %lld i %lld w %lld recompute %lld reduce %lld step "
                       "%lld\n",
                       stage->name, (long long)t->f, (long long)t->b, (long long)t->i,
                       (long long)t->w, (long long)t->recompute, (long long)t->reduce,
                       (long long)t->step);
}

static void write_collectives(const struct sl_stage *stage, struct sl_text *out) {
    for (int i = 0; i < stage->collective_count; i++) {
        const struct sl_collective *c = &stage->collectives[i];
        sl_text_printf(out, "collective %s %s %s %lld", stage->name,
                       sl_plan_collective_passes[c->pass], sl_plan_collective_kinds[c->kind],
                       (long long)c->sample_bytes);
        if (c->count > 1)
            sl_text_printf(out, " %d", c->count);
        sl_text_put(out, "\n");
    }
}

static void write_stage(const struct sl_stage *stage, struct sl_text *out) {
    const struct sl_stage_bytes *b = &stage->bytes;
    sl_text_printf(out, "stage %s width %d micro %lld", stage->name, stage->width,
                   (long long)stage->micro_size);
    if (stage->group)
        sl_text_printf(out, " group %d", stage->group);
    if (stage->shards > 1)
        sl_text_printf(out, " shards %d", stage->shards);
    if (stage->parts > 1)
        sl_text_printf(out, " part %d of %d", stage->part, stage->parts);
    sl_text_put(out, stage->zero1 ? " zero1 on" : " on");
    for (int i = 0; i < stage->width; i++)
        sl_text_printf(out, " %d", stage->workers[i]);
    sl_text_printf(out, "%s%s%s%s\n", stage->recompute ? " recompute" : "",
                   stage->has_input ? " input" : "", stage->passes ? " " : "",
                   passes_names[stage->passes]);
    sl_text_printf(out,
                   "bytes %s params %lld grads %lld state %lld stash %lld saved %lld kept %lld "
                   "work %lld",
                   stage->name, (long long)b->params, (long long)b->grads, (long long)b->state,
                   (long long)b->stash, (long long)b->saved, (long long)b->kept,
                   (long long)b->work);
    if (b->fixed)
        sl_text_printf(out, " fixed %lld", (long long)b->fixed);
    sl_text_put(out, "\n");
    write_times(stage, out);
    write_collectives(stage, out);
    write_nodes(stage, out);
}

void sl_plan_write_lines(const struct sl_plan *plan, struct sl_text *out) {
    if (plan->model)
        sl_text_printf(out, "model %s nodes %d", plan->model, plan->node_count);
    if (plan->model && plan->graph)
        sl_text_printf(out, " graph \"%016llx\"", (unsigned long long)plan->graph);
    if (plan->model)
        sl_text_put(out, "\n");
    if (plan->sizes)
        sl_text_printf(out, "sizes \"%s\"\n", plan->sizes);
    if (plan->schedule)
        sl_text_printf(out, "schedule \"%s\"\n", plan->schedule);
    if (plan->batch)
        sl_text_printf(out, "batch %lld\n", (long long)plan->batch);
    sl_text_printf(out, "workers %d\n", plan->worker_count);
    for (int i = 0; i < plan->worker_count; i++)
        if (plan->memory_bytes[i])
            sl_text_printf(out, "memory %d %lld\n", i, (long long)plan->memory_bytes[i]);
    for (int i = 0; i < plan->stage_count; i++)
        write_stage(&plan->stages[i], out);
    for (int i = 0; i < plan->edge_count; i++)
        sl_text_printf(out, "edge %s %s %lld\n", plan->stages[plan->edges[i].from].name,
                       plan->stages[plan->edges[i].to].name,
                       (long long)plan->edges[i].sample_bytes);
    for (int i = 0; i < plan->tie_count; i++) {
        sl_text_printf(out, "tie %s %lld", plan->ties[i].name, (long long)plan->ties[i].bytes);
        for (int j = 0; j < plan->ties[i].count; j++)
            sl_text_printf(out, " %s", plan->stages[plan->ties[i].stages[j]].name);
        sl_text_put(out, "\n");
    }
}

void sl_plan_write(const struct sl_plan *plan, struct sl_text *out) {
    sl_text_put(out, "sluice-plan 1\n");
    sl_plan_write_lines(plan, out);
}
