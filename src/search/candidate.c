/* Expands a candidate: times and bytes of its stages, edges between them, the device of each
 * worker. */
#include "search/candidate.h"

#include "base/vec.h"

#include <math.h>
#include <string.h>

static int64_t micros_of(const struct sl_candidate_detail *detail, int size_index) {
    int64_t size = detail->problem->sizes[size_index];
    return (detail->problem->batch + size - 1) / size;
}

int64_t sl_search_candidate_micros(const struct sl_candidate_detail *detail) {
    return micros_of(detail, detail->c.size);
}

int64_t sl_search_candidate_stage_micros(const struct sl_candidate_detail *detail, int stage) {
    return micros_of(detail, sl_search_candidate_size(&detail->c, stage));
}

static int64_t size_of(const struct sl_candidate_detail *detail, int stage) {
    return detail->problem->sizes[sl_search_candidate_size(&detail->c, stage)];
}

bool sl_search_candidate_check(const struct sl_problem *p, const struct sl_candidate *c) {
    for (int s = 0; s < c->stage_count; s++) {
        int64_t size = p->sizes[sl_search_candidate_size(c, s)];
        if (c->width[s] > (p->batch + size - 1) / size)
            return false;
    }
    for (int t = 0; t < p->tensor_count && c->size_of; t++) {
        const struct sl_search_tensor *tensor = &p->tensors[t];
        for (int i = 0; i < tensor->to_count && tensor->whole; i++)
            if (c->size_of[c->stage_of[tensor->from]] != c->size_of[c->stage_of[tensor->to[i]]])
                return false;
    }
    return true;
}

/* ---- workers ---- */

static enum sl_layout layout_of(const struct sl_candidate *c) {
    const struct sl_schedule *row = sl_schedules_row_find(c->schedule);
    return row ? row->layout : SL_LAYOUT_LOOP;
}

bool sl_search_schedule_shares(const char *schedule) {
    const struct sl_schedule *row = sl_schedules_row_find(schedule);
    return row && (row->layout_chunks || row->layout != SL_LAYOUT_LOOP);
}

int sl_search_candidate_rank(const struct sl_candidate *c, int stage, int replica) {
    switch (layout_of(c)) {
    case SL_LAYOUT_V: return stage < c->ranks ? stage : 2 * c->ranks - 1 - stage;
    case SL_LAYOUT_CROSS: return replica % 2 ? c->ranks - 1 - stage : stage;
    default: return stage % c->ranks;
    }
}

/* Returns the number of equal pipelines. */
static int pipelines_of(const struct sl_candidate *c) {
    return layout_of(c) == SL_LAYOUT_CROSS ? c->width[0] / 2 : c->width[0];
}

int sl_search_candidate_devices(const struct sl_candidate *c) {
    int devices = 0;
    if (c->ranks)
        return c->ranks * pipelines_of(c);
    for (int s = 0; s < c->stage_count; s++)
        devices += c->width[s];
    return devices;
}

static void place_shared(struct sl_candidate_detail *detail) {
    const struct sl_candidate *c = &detail->c;
    int pipelines = pipelines_of(c), each = c->width[0] / pipelines;
    for (int s = 0; s < c->stage_count; s++)
        for (int r = 0; r < c->width[s]; r++) {
            int rank = sl_search_candidate_rank(c, s, r);
            detail->workers[s][r] =
                c->across ? r / each * c->ranks + rank : rank * pipelines + r / each;
        }
}

static void place(struct sl_arena *arena, struct sl_candidate_detail *detail) {
    const struct sl_candidate *c = &detail->c;
    int widest = 0, at = 0;
    detail->device_count = sl_search_candidate_devices(c);
    for (int s = 0; s < c->stage_count; s++)
        widest = c->width[s] > widest ? c->width[s] : widest;
    detail->device_of = SL_NEW(arena, int, detail->device_count);
    detail->workers = SL_NEW(arena, int *, c->stage_count);
    for (int i = 0; i < detail->device_count; i++)
        detail->device_of[i] = c->order ? c->order[i] : i;
    for (int s = 0; s < c->stage_count; s++)
        detail->workers[s] = SL_NEW(arena, int, c->width[s]);
    if (c->ranks)
        place_shared(detail);
    for (int r = 0; r < widest && c->across && !c->ranks; r++)
        for (int s = 0; s < c->stage_count; s++)
            if (r < c->width[s])
                detail->workers[s][r] = at++;
    for (int s = 0; s < c->stage_count && !c->across && !c->ranks; s++)
        for (int r = 0; r < c->width[s]; r++)
            detail->workers[s][r] = at++;
    for (int s = 0; s < c->stage_count; s++)
        detail->stages[s].first = detail->workers[s][0];
}

/* ---- sums ---- */

static void add_edge(struct sl_candidate_detail *detail, int *edge_of, int from, int to,
                     int64_t bytes) {
    int *known = &edge_of[(int64_t)from * detail->c.stage_count + to];
    if (!*known) {
        detail->edges[detail->edge_count++] = (struct sl_edge){.from = from, .to = to};
        *known = detail->edge_count;
    }
    detail->edges[*known - 1].sample_bytes += bytes;
}

/* Adds up the tensors that stages send. A tensor is sent once to every stage that reads it. */
static void sum_tensors(struct sl_candidate_detail *detail, int *edge_of, int *sent) {
    const struct sl_problem *p = detail->problem;
    for (int t = 0; t < p->tensor_count; t++) {
        const struct sl_search_tensor *tensor = &p->tensors[t];
        int from = detail->c.stage_of[tensor->from];
        for (int i = 0; i < tensor->to_count; i++) {
            int to = detail->c.stage_of[tensor->to[i]];
            if (to == from || sent[to] == t + 1)
                continue;
            sent[to] = t + 1;
            detail->stages[to].in_bytes += tensor->sample_bytes;
            detail->stages[from].out_bytes += tensor->sample_bytes;
            add_edge(detail, edge_of, from, to, tensor->sample_bytes);
        }
    }
    for (int s = 1; s < detail->c.stage_count && detail->c.sequential; s++)
        add_edge(detail, edge_of, s - 1, s, 0);
}

/* Counts a parameter once per stage, even if several units of the stage read it. */
static void merge_ties(struct sl_candidate_detail *detail) {
    const struct sl_problem *p = detail->problem;
    for (int t = 0; t < p->tie_count; t++)
        for (int i = 1; i < p->ties[t].count; i++) {
            int s = detail->c.stage_of[p->ties[t].units[i]];
            for (int k = 0; k < i; k++)
                if (detail->c.stage_of[p->ties[t].units[k]] == s) {
                    detail->stages[s].bytes.params -= p->ties[t].bytes;
                    break;
                }
        }
}

double sl_search_version_rate(const struct sl_problem *p, const char *schedule) {
    const struct sl_schedule *row = sl_schedules_row_find(schedule);
    bool copies = row && (row->rule == SL_RULE_2BW || row->rule == SL_RULE_STASH ||
                          row->rule == SL_RULE_VSYNC);
    return copies ? p->version_bytes_per_s : 0;
}

static void set_steps(struct sl_candidate_detail *detail) {
    double rate = sl_search_version_rate(detail->problem, detail->c.schedule);
    for (int s = 0; s < detail->c.stage_count && rate > 0; s++)
        detail->stages[s].step = (int64_t)ceil(1e9 * (double)detail->stages[s].bytes.params / rate);
}

static int slowest_kind(const struct sl_candidate_detail *detail, int stage) {
    const struct sl_machine *m = detail->problem->machine;
    int slowest = -1;
    for (int r = 0; r < detail->c.width[stage]; r++) {
        int kind = m->kind_of[detail->device_of[detail->workers[stage][r]]];
        if (slowest < 0 || m->kinds[kind].flops[0] < m->kinds[slowest].flops[0])
            slowest = kind;
    }
    return slowest;
}

static void sum_units(struct sl_candidate_detail *detail, const int *kind) {
    const struct sl_problem *p = detail->problem;
    bool *trains = calloc((size_t)detail->c.stage_count, sizeof *trains);
    bool *back = calloc((size_t)detail->c.stage_count, sizeof *back);
    double *work = calloc((size_t)detail->c.stage_count, sizeof *work);
    double *stash = calloc((size_t)detail->c.stage_count, sizeof *stash);
    for (int u = 0; u < p->unit_count; u++) {
        int s = detail->c.stage_of[u];
        const struct sl_unit_time *t =
            &sl_search_problem_times(p, sl_search_candidate_size(&detail->c, s), kind[s])[u];
        struct sl_candidate_stage *stage = &detail->stages[s];
        stage->f += t->f;
        stage->i += t->i;
        stage->w += t->w;
        stage->step += t->step;
        stage->bytes.params += p->units[u].params;
        stage->bytes.fixed += p->units[u].fixed;
        trains[s] |= p->units[u].trains;
        back[s] |= p->units[u].back;
        stage->bytes.grads += p->units[u].grads;
        stage->bytes.state += p->units[u].state;
        stash[s] += p->units[u].stash;
        work[s] = p->units[u].work > work[s] ? p->units[u].work : work[s];
        stage->reads_data |= p->units[u].reads_data;
    }
    for (int s = 0; s < detail->c.stage_count; s++) {
        double size = (double)size_of(detail, s);
        detail->stages[s].bytes.stash = (int64_t)ceil(stash[s] * size);
        detail->stages[s].bytes.work = (int64_t)ceil(work[s] * size);
        detail->stages[s].passes = trains[s] || !p->freezes ? SL_STAGE_TRAINS
                                   : back[s]                ? SL_STAGE_FROZEN
                                                            : SL_STAGE_FORWARD;
    }
    free(trains);
    free(back);
    free(work);
    free(stash);
}

int64_t sl_search_reduce_ns(const struct sl_machine *machine, const int *devices, int width,
                            double bytes) {
    if (width < 2)
        return 0;
    double slowest = INFINITY, sums = 0;
    int64_t latency = 0;
    for (int r = 0; r < width; r++) {
        const struct sl_link *link =
            sl_cost_machine_between(machine, devices[r], devices[(r + 1) % width]);
        double ns = sl_cost_link_sum_ns(link, width, bytes);
        if (link->sum_bandwidth > 0) {
            sums = ns > sums ? ns : sums;
            continue;
        }
        slowest = link->bandwidth < slowest ? link->bandwidth : slowest;
        latency = link->latency_ns > latency ? link->latency_ns : latency;
    }
    int64_t ring =
        (int64_t)ceil(1e9 * 2 * (width - 1) / width * bytes / slowest) + 2 * (width - 1) * latency;
    return ring > (int64_t)ceil(sums) ? ring : (int64_t)ceil(sums);
}

/* Time of the all-reduce of the parameters that the stage shares with others; they travel both
 * ways. */
static int64_t tie_ns(const struct sl_candidate_detail *detail, int stage, int *meetings) {
    const struct sl_problem *p = detail->problem;
    double bytes = 0;
    for (int t = 0; t < p->tie_count; t++) {
        bool here = false, elsewhere = false;
        for (int i = 0; i < p->ties[t].count; i++) {
            int s = detail->c.stage_of[p->ties[t].units[i]];
            here |= s == stage;
            elsewhere |= s != stage;
        }
        if (here && elsewhere) {
            bytes += 2.0 * (double)p->ties[t].bytes;
            ++*meetings;
        }
    }
    return sl_search_tie_ns(p->machine, bytes);
}

int64_t sl_search_tie_ns(const struct sl_machine *m, double bytes) {
    double slowest = INFINITY;
    for (int i = 0; i < m->link_count; i++)
        slowest = m->links[i].bandwidth < slowest ? m->links[i].bandwidth : slowest;
    return (int64_t)ceil(1e9 * bytes / slowest);
}

static void sum_reduce(struct sl_arena *arena, struct sl_candidate_detail *detail) {
    for (int s = 0; s < detail->c.stage_count; s++) {
        int *devices = SL_NEW(arena, int, detail->c.width[s]);
        for (int r = 0; r < detail->c.width[s]; r++)
            devices[r] = detail->device_of[detail->workers[s][r]];
        struct sl_candidate_stage *stage = &detail->stages[s];
        /* a stage that does not train has no gradients to reduce and no ties */
        if (stage->passes != SL_STAGE_TRAINS)
            continue;
        stage->meetings = detail->c.width[s] > 1;
        int64_t all_reduce = sl_search_reduce_ns(detail->problem->machine, devices,
                                                 detail->c.width[s], (double)stage->bytes.params);
        /* runs here (exact_bytes) gather the weights after the all-reduce */
        bool gathers = detail->problem->zero1 && detail->problem->exact_bytes;
        stage->reduce =
            all_reduce + (gathers ? all_reduce / 2 : 0) + tie_ns(detail, s, &stage->meetings);
    }
}

/* Adds the inputs of each stage to its stash. */
static void sum_stash(struct sl_candidate_detail *detail) {
    for (int s = 0; s < detail->c.stage_count; s++) {
        struct sl_candidate_stage *stage = &detail->stages[s];
        int64_t size = size_of(detail, s);
        stage->bytes.stash += stage->in_bytes * size;
        stage->bytes.saved = sl_search_candidate_recomputes(detail, s) ? stage->in_bytes * size : 0;
    }
}

static int compare_edges(const void *a, const void *b) {
    const struct sl_edge *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from)
                              : (x->to > y->to) - (x->to < y->to);
}

static void sort_edges(struct sl_arena *arena, struct sl_candidate_detail *detail) {
    detail->edge_at = SL_NEW(arena, int, detail->c.stage_count + 1);
    if (detail->edge_count)
        qsort(detail->edges, (size_t)detail->edge_count, sizeof *detail->edges, compare_edges);
    for (int e = 0; e < detail->edge_count; e++)
        detail->edge_at[detail->edges[e].from + 1]++;
    for (int s = 0; s < detail->c.stage_count; s++)
        detail->edge_at[s + 1] += detail->edge_at[s];
}

/* With zero1, divides the optimizer state among replicas; each updates the parameters of its part.
 * Gradients are then scattered and parameters gathered, which takes as long as an all-reduce. */
static void divide_state(struct sl_candidate_detail *detail) {
    for (int s = 0; s < detail->c.stage_count && detail->problem->zero1; s++) {
        struct sl_candidate_stage *stage = &detail->stages[s];
        int64_t width = detail->c.width[s];
        stage->bytes.state = (stage->bytes.state + width - 1) / width;
        stage->step = (stage->step + width - 1) / width;
    }
}

void sl_search_candidate_expand(struct sl_arena *arena, const struct sl_problem *problem,
                                const struct sl_candidate *candidate,
                                struct sl_candidate_detail *out) {
    int stages = candidate->stage_count, readers = 0;
    *out = (struct sl_candidate_detail){.problem = problem, .c = *candidate};
    out->stages = SL_NEW(arena, struct sl_candidate_stage, stages);
    for (int t = 0; t < problem->tensor_count; t++)
        readers += problem->tensors[t].to_count;
    out->edges = SL_NEW(arena, struct sl_edge, readers + stages);
    place(arena, out);
    int *kind = SL_NEW(arena, int, stages);
    for (int s = 0; s < stages; s++)
        kind[s] = slowest_kind(out, s);
    sum_units(out, kind);
    merge_ties(out);
    set_steps(out);
    divide_state(out);
    struct sl_arena scratch = {0};
    sum_tensors(out, SL_NEW(&scratch, int, (int64_t)stages *stages), SL_NEW(&scratch, int, stages));
    sl_arena_free(&scratch);
    sort_edges(arena, out);
    sum_reduce(arena, out);
    sum_stash(out);
}
