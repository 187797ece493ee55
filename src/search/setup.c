/* Summing a candidate up: times and bytes of its stages, edges between them, places. */
#include "search/cuts.h"

#include "base/vec.h"

#include <math.h>
#include <string.h>

static int64_t micros_of(const struct sl_setup *l, int size_index) {
    int64_t size = l->problem->sizes[size_index];
    return (l->problem->batch + size - 1) / size;
}

int64_t sl_search_setup_micros(const struct sl_setup *l) { return micros_of(l, l->c.size); }

int64_t sl_search_setup_stage_micros(const struct sl_setup *l, int stage) {
    return micros_of(l, sl_candidate_size(&l->c, stage));
}

static int64_t size_of(const struct sl_setup *l, int stage) {
    return l->problem->sizes[sl_candidate_size(&l->c, stage)];
}

bool sl_search_candidate_check(const struct sl_problem *p, const struct sl_candidate *c) {
    for (int s = 0; s < c->stage_count; s++) {
        int64_t size = p->sizes[sl_candidate_size(c, s)];
        if (c->width[s] > (p->batch + size - 1) / size)
            return false;
    }
    for (int t = 0; t < p->tensor_count && c->size_of; t++) {
        const struct sl_tensor *tensor = &p->tensors[t];
        for (int i = 0; i < tensor->to_count && tensor->whole; i++)
            if (c->size_of[c->stage_of[tensor->from]] != c->size_of[c->stage_of[tensor->to[i]]])
                return false;
    }
    return true;
}

/* ---- places ---- */

static void place(struct sl_arena *arena, struct sl_setup *l) {
    const struct sl_candidate *c = &l->c;
    int widest = 0, at = 0;
    for (int s = 0; s < c->stage_count; s++) {
        l->device_count += c->width[s];
        widest = c->width[s] > widest ? c->width[s] : widest;
    }
    l->device_of = SL_NEW(arena, int, l->device_count);
    l->workers = SL_NEW(arena, int *, c->stage_count);
    for (int i = 0; i < l->device_count; i++)
        l->device_of[i] = c->order ? c->order[i] : i;
    for (int s = 0; s < c->stage_count; s++)
        l->workers[s] = SL_NEW(arena, int, c->width[s]);
    for (int r = 0; r < widest && c->across; r++)
        for (int s = 0; s < c->stage_count; s++)
            if (r < c->width[s])
                l->workers[s][r] = at++;
    for (int s = 0; s < c->stage_count && !c->across; s++)
        for (int r = 0; r < c->width[s]; r++)
            l->workers[s][r] = at++;
    for (int s = 0; s < c->stage_count; s++)
        l->stages[s].first = l->workers[s][0];
}

/* ---- sums ---- */

static void add_edge(struct sl_setup *l, int *edge_of, int from, int to, int64_t bytes) {
    int *known = &edge_of[(int64_t)from * l->c.stage_count + to];
    if (!*known) {
        l->edges[l->edge_count++] = (struct sl_edge){.from = from, .to = to};
        *known = l->edge_count;
    }
    l->edges[*known - 1].sample_bytes += bytes;
}

/* A tensor is sent once to every stage that reads it. */
static void sum_tensors(struct sl_setup *l, int *edge_of, int *sent) {
    const struct sl_problem *p = l->problem;
    for (int t = 0; t < p->tensor_count; t++) {
        const struct sl_tensor *tensor = &p->tensors[t];
        int from = l->c.stage_of[tensor->from];
        for (int i = 0; i < tensor->to_count; i++) {
            int to = l->c.stage_of[tensor->to[i]];
            if (to == from || sent[to] == t + 1)
                continue;
            sent[to] = t + 1;
            l->stages[to].in_bytes += tensor->sample_bytes;
            l->stages[from].out_bytes += tensor->sample_bytes;
            add_edge(l, edge_of, from, to, tensor->sample_bytes);
        }
    }
    for (int s = 1; s < l->c.stage_count && l->c.sequential; s++)
        add_edge(l, edge_of, s - 1, s, 0);
}

/* Parameters that several units of one stage read are held once. */
static void merge_ties(struct sl_setup *l) {
    const struct sl_problem *p = l->problem;
    for (int t = 0; t < p->tie_count; t++)
        for (int i = 1; i < p->ties[t].count; i++) {
            int s = l->c.stage_of[p->ties[t].units[i]];
            for (int k = 0; k < i; k++)
                if (l->c.stage_of[p->ties[t].units[k]] == s) {
                    l->stages[s].bytes.params -= p->ties[t].bytes;
                    break;
                }
        }
}

double sl_search_version_rate(const struct sl_problem *p, const char *schedule) {
    const struct sl_schedule *row = sl_sched_row_find(schedule);
    bool copies = row && (row->rule == SL_RULE_2BW || row->rule == SL_RULE_STASH ||
                          row->rule == SL_RULE_VSYNC);
    return copies ? p->version_bytes_per_s : 0;
}

static void set_steps(struct sl_setup *l) {
    double rate = sl_search_version_rate(l->problem, l->c.schedule);
    for (int s = 0; s < l->c.stage_count && rate > 0; s++)
        l->stages[s].step = (int64_t)ceil(1e9 * (double)l->stages[s].bytes.params / rate);
}

static int slowest_kind(const struct sl_setup *l, int stage) {
    const struct sl_machine *m = l->problem->machine;
    int slowest = -1;
    for (int r = 0; r < l->c.width[stage]; r++) {
        int kind = m->kind_of[l->device_of[l->workers[stage][r]]];
        if (slowest < 0 || m->kinds[kind].flops[0] < m->kinds[slowest].flops[0])
            slowest = kind;
    }
    return slowest;
}

static void sum_units(struct sl_setup *l, const int *kind) {
    const struct sl_problem *p = l->problem;
    double *work = calloc((size_t)l->c.stage_count, sizeof *work);
    double *stash = calloc((size_t)l->c.stage_count, sizeof *stash);
    for (int u = 0; u < p->unit_count; u++) {
        int s = l->c.stage_of[u];
        const struct sl_unit_time *t =
            &sl_problem_times(p, sl_candidate_size(&l->c, s), kind[s])[u];
        struct sl_setup_stage *stage = &l->stages[s];
        stage->f += t->f;
        stage->i += t->i;
        stage->w += t->w;
        stage->step += t->step;
        stage->bytes.params += p->units[u].params;
        stage->bytes.grads += p->units[u].grads;
        stage->bytes.state += p->units[u].state;
        stash[s] += p->units[u].stash;
        work[s] = p->units[u].work > work[s] ? p->units[u].work : work[s];
        stage->reads_data |= p->units[u].reads_data;
    }
    for (int s = 0; s < l->c.stage_count; s++) {
        double size = (double)size_of(l, s);
        l->stages[s].bytes.stash = (int64_t)ceil(stash[s] * size);
        l->stages[s].bytes.work = (int64_t)ceil(work[s] * size);
    }
    free(work);
    free(stash);
}

int64_t sl_search_reduce_ns(const struct sl_machine *machine, const int *devices, int width,
                            double bytes) {
    if (width < 2)
        return 0;
    double slowest = INFINITY;
    int64_t latency = 0;
    for (int r = 0; r < width; r++) {
        const struct sl_link *link =
            sl_cost_machine_between(machine, devices[r], devices[(r + 1) % width]);
        slowest = link->bandwidth < slowest ? link->bandwidth : slowest;
        latency = link->latency_ns > latency ? link->latency_ns : latency;
    }
    return (int64_t)ceil(1e9 * 2 * (width - 1) / width * bytes / slowest) +
           2 * (width - 1) * latency;
}

/* Ties of the stage with others: the tied parameters travel there and back. */
static int64_t tie_ns(const struct sl_setup *l, int stage, int *meetings) {
    const struct sl_problem *p = l->problem;
    double bytes = 0;
    for (int t = 0; t < p->tie_count; t++) {
        bool here = false, elsewhere = false;
        for (int i = 0; i < p->ties[t].count; i++) {
            int s = l->c.stage_of[p->ties[t].units[i]];
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

static void sum_reduce(struct sl_arena *arena, struct sl_setup *l) {
    for (int s = 0; s < l->c.stage_count; s++) {
        int *devices = SL_NEW(arena, int, l->c.width[s]);
        for (int r = 0; r < l->c.width[s]; r++)
            devices[r] = l->device_of[l->workers[s][r]];
        struct sl_setup_stage *stage = &l->stages[s];
        stage->meetings = l->c.width[s] > 1;
        stage->reduce = sl_search_reduce_ns(l->problem->machine, devices, l->c.width[s],
                                            (double)stage->bytes.params) +
                        tie_ns(l, s, &stage->meetings);
    }
}

/* What is stashed: what units leave behind and what came in. */
static void sum_stash(struct sl_setup *l) {
    for (int s = 0; s < l->c.stage_count; s++) {
        struct sl_setup_stage *stage = &l->stages[s];
        int64_t size = size_of(l, s);
        stage->bytes.stash += stage->in_bytes * size;
        stage->bytes.saved = l->c.recompute[s] ? stage->in_bytes * size : 0;
    }
}

static int compare_edges(const void *a, const void *b) {
    const struct sl_edge *x = a, *y = b;
    return x->from != y->from ? (x->from > y->from) - (x->from < y->from)
                              : (x->to > y->to) - (x->to < y->to);
}

static void sort_edges(struct sl_arena *arena, struct sl_setup *l) {
    l->edge_at = SL_NEW(arena, int, l->c.stage_count + 1);
    if (l->edge_count)
        qsort(l->edges, (size_t)l->edge_count, sizeof *l->edges, compare_edges);
    for (int e = 0; e < l->edge_count; e++)
        l->edge_at[l->edges[e].from + 1]++;
    for (int s = 0; s < l->c.stage_count; s++)
        l->edge_at[s + 1] += l->edge_at[s];
}

void sl_search_setup_build(struct sl_arena *arena, const struct sl_problem *problem,
                           const struct sl_candidate *candidate, struct sl_setup *out) {
    int stages = candidate->stage_count, readers = 0;
    *out = (struct sl_setup){.problem = problem, .c = *candidate};
    out->stages = SL_NEW(arena, struct sl_setup_stage, stages);
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
    struct sl_arena scratch = {0};
    sum_tensors(out, SL_NEW(&scratch, int, (int64_t)stages *stages), SL_NEW(&scratch, int, stages));
    sl_arena_free(&scratch);
    sort_edges(arena, out);
    sum_reduce(arena, out);
    sum_stash(out);
}

/* ---- bounds ---- */

static int64_t rounds(const struct sl_setup *l, int s) {
    return (sl_search_setup_stage_micros(l, s) + l->c.width[s] - 1) / l->c.width[s];
}

static int64_t pass_ns(const struct sl_setup *l, int s) {
    const struct sl_setup_stage *stage = &l->stages[s];
    return stage->f + stage->i + stage->w +
           (l->c.recompute[s] ? sl_recompute_ns(l->problem, stage->f) : 0);
}

/* The best that any link into the stage could do. Within a host passes may have paid for it. */
static int64_t wire_ns(const struct sl_setup *l, int s) {
    const struct sl_machine *m = l->problem->machine;
    double best = 0, link = 0; /* the link to the neighbour upstream */
    bool within = true;
    for (int i = 0; i < m->link_count; i++)
        best = m->links[i].bandwidth > best ? m->links[i].bandwidth : best;
    double bytes = (double)l->stages[s].in_bytes * (double)size_of(l, s);
    if (l->stages[s].first > 0) {
        int from = l->device_of[l->stages[s].first - 1], to = l->device_of[l->stages[s].first];
        link = sl_cost_machine_between(m, from, to)->bandwidth;
        within = m->host_of[from] == m->host_of[to];
    }
    if (!l->stages[s].in_bytes || (within && l->problem->copy_bytes_per_s > 0))
        return 0;
    return (int64_t)floor(1e9 * (double)rounds(l, s) * bytes / (link > 0 ? link : best));
}

int64_t sl_search_setup_bottleneck(const struct sl_setup *l, int *stage) {
    int64_t max = -1;
    for (int s = 0; s < l->c.stage_count; s++) {
        int64_t busy = rounds(l, s) * pass_ns(l, s) + l->stages[s].step + l->stages[s].reduce;
        int64_t wire = wire_ns(l, s);
        busy = wire > busy ? wire : busy;
        if (busy > max) {
            max = busy;
            if (stage)
                *stage = s;
        }
    }
    return max;
}

int64_t sl_search_async_before(int64_t micros, int devices) {
    /* an edge counts twice where a run takes slack, and twice again there and back; where stages
     * step together the first steps come up to an iteration later */
    return 4 * (int64_t)devices + micros + 1;
}

int64_t sl_search_async_bound(int64_t busy_ns, int64_t micros, int devices) {
    int64_t all = (SL_ASYNC_ITERS - 1) * micros, before = sl_search_async_before(micros, devices);
    return before >= all ? 0 : (int64_t)((double)busy_ns * (double)(all - before) / (double)all);
}

bool sl_search_schedule_splits(const char *schedule) {
    const struct sl_schedule *row = sl_sched_row_find(schedule);
    return row && row->splits_backward;
}

bool sl_search_schedule_windowed(const char *schedule) {
    const struct sl_schedule *row = sl_sched_row_find(schedule);
    return row && row->windowed;
}

const char *sl_search_mixed_schedule(void) {
    int rows, at = 0;
    const struct sl_schedule *const *registry = sl_sched_row_registry(&rows);
    while (at < rows && registry[at]->searched != SL_SEARCHED_MIXED)
        at++;
    SL_ASSERT(at < rows);
    return registry[at]->name;
}

/* What a stage waits for. Stages are in pipeline order. */
struct wait {
    int64_t there;  /* forward passes that must end before its first begins */
    int64_t back;   /* gradients of inputs that follow its last */
    int64_t behind; /* way of a micro-batch from its forward to its backward pass */
    int64_t window; /* replicas from here to the end */
};

static void find_waits(const struct sl_setup *l, bool split, struct wait *out) {
    for (int s = l->c.stage_count - 1; s >= 0; s--) {
        for (int e = l->edge_at[s]; e < l->edge_at[s + 1]; e++) {
            const struct sl_setup_stage *to = &l->stages[l->edges[e].to];
            const struct wait *next = &out[l->edges[e].to];
            int64_t way = to->f + to->i + (split ? 0 : to->w) + next->behind;
            out[s].behind = way > out[s].behind ? way : out[s].behind;
            out[s].window = next->window > out[s].window ? next->window : out[s].window;
        }
        out[s].window += l->c.width[s];
    }
    for (int s = 0; s < l->c.stage_count; s++)
        for (int e = l->edge_at[s]; e < l->edge_at[s + 1]; e++) {
            const struct sl_setup_stage *stage = &l->stages[s];
            struct wait *next = &out[l->edges[e].to];
            int64_t f = out[s].there + stage->f;
            int64_t b = out[s].back + stage->i + (split ? 0 : stage->w);
            next->there = f > next->there ? f : next->there;
            next->back = b > next->back ? b : next->back;
        }
}

/* Passes of a synchronous iteration on a stage, and what comes before and after them. */
static int64_t stage_bound(const struct sl_setup *l, int s, const struct wait *wait,
                           const struct sl_schedule *row) {
    bool split = row && row->splits_backward;
    const struct sl_setup_stage *stage = &l->stages[s];
    int64_t width = l->c.width[s], n = rounds(l, s), busy = n * pass_ns(l, s);
    int64_t late = split ? n * stage->w : 0; /* may run beside the way back */
    int64_t end = stage->step + stage->reduce, live = (wait->window + width - 1) / width;
    int64_t own = busy + end, way = busy - late + wait->back;
    /* no backward pass before the first micro-batch came back, and until then only those forward
     * passes that the window allows, and one that is computed again */
    int64_t after = stage->f + wait->behind + n * (stage->i + stage->w);
    if (row && row->windowed && !l->c.size_of && n > live)
        after += (n - live) * stage->f;
    after += l->c.recompute[s] ? (n - 1) * sl_recompute_ns(l->problem, stage->f) : 0;
    after += wait->back > end && !split ? wait->back : end;
    own = own > way ? own : way;
    return wait->there + (own > after ? own : after);
}

/* Asynchronous schedules hide all waiting, and reductions where stages step together over ties. */
int64_t sl_search_setup_bound(const struct sl_setup *l) {
    const struct sl_schedule *row = sl_sched_row_find(l->c.schedule);
    bool sync = !row || row->rule == SL_RULE_SYNC;
    struct wait *wait = calloc((size_t)l->c.stage_count, sizeof *wait);
    int64_t max = 0;
    find_waits(l, row && row->splits_backward, wait);
    for (int s = 0; s < l->c.stage_count; s++) {
        int64_t own = rounds(l, s) * pass_ns(l, s) + l->stages[s].step;
        own += l->problem->tie_count ? 0 : l->stages[s].reduce;
        int64_t all = sync ? stage_bound(l, s, &wait[s], row)
                           : sl_search_async_bound(own, sl_search_setup_micros(l), l->device_count);
        max = all > max ? all : max;
    }
    free(wait);
    return max;
}
