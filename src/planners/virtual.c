/* Several stages per worker (virtual stages): interleaved, zb-v, dualpipe-v, chimera.
 *
 * Cuts one topological order into stages of nearly equal time and places them by the layout of
 * the schedule's row, for every depth, number of stages per worker, number of equal pipelines
 * and micro-batch size; all stages recompute or none. The simulation chooses among them.
 *
 * A worker holds many micro-batches of many stages, so the tensors at the borders need much memory.
 * Every cut is also tried with borders only where few bytes cross, between the parts of a transformer
 * layer, and with borders only between repeated blocks.
 *
 * A cut that minimizes the longest stage may put the longest stages on one worker: if stages
 * alternate between attention and MLP, a worker may get only MLPs. So every cut is also tried
 * with borders moved until the workers have nearly equal times. */
#include "planners/parts.h"

#include <string.h>

enum borders { ALL_BORDERS, NARROW_BORDERS, BLOCK_BORDERS, BORDER_KINDS };

struct virtual_stages {
    struct sl_search_pool *pool;
    const struct sl_schedule *row;
    int *order, *stage_of, *width; /* [units] */
    bool *recompute;               /* [units] */
    enum borders borders;
    bool *narrow;                /* [position] do few bytes cross the border before it? */
    int *piece_of;               /* [position] its piece: the units between two borders */
    int64_t *piece_ns;           /* [pieces] */
    int *run_of;                 /* [pieces] its run, that is, its stage */
    int64_t *stage_ns, *rank_ns; /* [units] times per stage and per worker */
    int *begin;                  /* [units + 1] first piece of each stage */
    int piece_count;
};

/* ---- cuts ---- */

/* Marks narrow borders; sums the bytes per sample that cross each border, by differences. */
static void find_narrow(struct sl_arena *arena, struct virtual_stages *v) {
    enum { REACH = 8 }; /* number of units before and after; about a layer */
    const struct sl_problem *p = v->pool->query->problem;
    int n = p->unit_count, *place = SL_NEW(arena, int, n + 1);
    int64_t *bytes = SL_NEW(arena, int64_t, n + 2), sum = 0;
    for (int i = 0; i < n; i++)
        place[v->order[i]] = i;
    for (int t = 0; t < p->tensor_count; t++) {
        int last = place[p->tensors[t].from];
        for (int i = 0; i < p->tensors[t].to_count; i++)
            last = place[p->tensors[t].to[i]] > last ? place[p->tensors[t].to[i]] : last;
        bytes[place[p->tensors[t].from] + 1] += p->tensors[t].sample_bytes;
        bytes[last + 1] -= p->tensors[t].sample_bytes;
    }
    for (int i = 0; i < n; i++)
        bytes[i] = sum += bytes[i];
    for (int i = 1; i < n; i++) {
        int low = i > REACH ? i - REACH : 1, high = i + REACH < n ? i + REACH : n - 1;
        v->narrow[i] = true;
        for (int k = low; k <= high; k++)
            v->narrow[i] &= bytes[i] <= bytes[k];
    }
}

/* May a stage begin at this position of the order? */
static bool is_border(const struct virtual_stages *v, int i) {
    const struct sl_unit *units = v->pool->query->problem->units;
    if (v->borders == BLOCK_BORDERS && i) {
        int before = units[v->order[i - 1]].block, here = units[v->order[i]].block;
        return before != here || here < 0;
    }
    return !i || v->borders == ALL_BORDERS || v->narrow[i];
}

static void find_pieces(struct virtual_stages *v, int size) {
    const struct sl_problem *p = v->pool->query->problem;
    const struct sl_unit_time *t = sl_search_problem_times(p, size, 0);
    v->piece_count = 0;
    for (int i = 0; i < p->unit_count; i++) {
        if (is_border(v, i))
            v->piece_ns[v->piece_count++] = 0;
        const struct sl_unit_time *own = &t[v->order[i]];
        v->piece_of[i] = v->piece_count - 1;
        v->piece_ns[v->piece_count - 1] += own->f + own->i + own->w;
    }
}

/* Makes runs of at most `limit` ns, or of one piece, greedily; returns their number. */
static int runs(struct virtual_stages *v, int64_t limit) {
    int64_t sum = 0;
    int run = 0;
    for (int i = 0; i < v->piece_count; i++) {
        if (i && sum + v->piece_ns[i] > limit) {
            run++;
            sum = 0;
        }
        sum += v->piece_ns[i];
        v->run_of[i] = run;
    }
    return run + 1;
}

/* Halves the run with the most pieces. */
static void halve(struct virtual_stages *v) {
    int best = 0, most = 0, length = 0;
    for (int i = 0; i < v->piece_count; i++) {
        length = i && v->run_of[i] == v->run_of[i - 1] ? length + 1 : 1;
        best = length > most ? i : best;
        most = length > most ? length : most;
    }
    for (int i = best - most / 2 + 1; i < v->piece_count; i++)
        v->run_of[i]++;
}

/* Cuts into exactly `stages` stages, so that the longest is as short as possible. */
static bool cut_exactly(struct virtual_stages *v, int size, int stages) {
    int64_t low = 0, high = 0;
    find_pieces(v, size);
    if (stages > v->piece_count)
        return false;
    for (int i = 0; i < v->piece_count; i++)
        high += v->piece_ns[i];
    while (high - low > 1) {
        int64_t middle = low + (high - low) / 2;
        *(runs(v, middle) <= stages ? &high : &low) = middle;
    }
    for (int count = runs(v, high); count < stages; count++)
        halve(v);
    return true;
}

static void take_cut(struct virtual_stages *v) {
    for (int i = 0; i < v->pool->query->problem->unit_count; i++)
        v->stage_of[v->order[i]] = v->run_of[v->piece_of[i]];
}

/* Returns the rank of a stage in its pipeline; in crossing pipelines, that of its first replica. */
static int rank_of(const struct virtual_stages *v, const struct sl_candidate *c, int stage) {
    int last = c->stage_count - 1;
    switch (v->row->layout) {
    case SL_LAYOUT_V: return stage < c->ranks ? stage : last - stage;
    case SL_LAYOUT_CROSS:
        return stage <= last / 2 ? stage : last - stage; /* the two stages of a pair of
                                                                            * workers */
    default: return stage % c->ranks;
    }
}

/* Moves a piece between two neighbouring stages if the sum of squared times gets smaller. */
static bool move_border(struct virtual_stages *v, const struct sl_candidate *c, int border,
                        bool back) {
    int at = v->begin[border] - back, from = border - back, to = border - 1 + back;
    int x = rank_of(v, c, from), y = rank_of(v, c, to);
    double moved = (double)v->piece_ns[at], gain;
    bool alone = v->begin[from + 1] - v->begin[from] < 2;
    if (alone || x == y)
        return false;
    gain = (double)(v->rank_ns[x] - v->rank_ns[y]) + (double)(v->stage_ns[from] - v->stage_ns[to]);
    if (gain <= 2 * moved) /* compares the two sums of squares */
        return false;
    v->rank_ns[x] -= v->piece_ns[at];
    v->rank_ns[y] += v->piece_ns[at];
    v->stage_ns[from] -= v->piece_ns[at];
    v->stage_ns[to] += v->piece_ns[at];
    v->begin[border] += back ? -1 : 1;
    return true;
}

/* Moves borders of the cut. Returns false if none moved. */
static bool level(struct virtual_stages *v, const struct sl_candidate *c) {
    bool moved = true, any = false;
    memset(v->stage_ns, 0, sizeof *v->stage_ns * (size_t)c->stage_count);
    memset(v->rank_ns, 0, sizeof *v->rank_ns * (size_t)c->stage_count);
    for (int i = v->piece_count - 1; i >= 0; i--) {
        v->stage_ns[v->run_of[i]] += v->piece_ns[i];
        v->begin[v->run_of[i]] = i;
    }
    v->begin[c->stage_count] = v->piece_count;
    for (int s = 0; s < c->stage_count; s++)
        v->rank_ns[rank_of(v, c, s)] += v->stage_ns[s];
    for (; moved; any |= moved) { /* ends, because the sum of squares falls */
        moved = false;
        for (int s = 1; s < c->stage_count; s++)
            moved |= move_border(v, c, s, false) || move_border(v, c, s, true);
    }
    for (int s = 0; s < c->stage_count; s++)
        for (int i = v->begin[s]; i < v->begin[s + 1]; i++)
            v->run_of[i] = s;
    return any;
}

/* ---- candidates ---- */

/* Can `pipelines` pipelines of `ranks` workers each share the micro-batches? */
static bool takes(const struct virtual_stages *v, int64_t micros, int ranks, int pipelines) {
    int workers = ranks * pipelines;
    int64_t replicas = v->row->layout == SL_LAYOUT_CROSS ? 2 * pipelines : pipelines;
    if (workers > v->pool->query->problem->machine->device_count || micros < replicas)
        return false;
    if (v->row->micros_divide && micros % workers)
        return false;
    return micros >= (int64_t)v->row->micros_per_worker * workers;
}

static void add(struct virtual_stages *v, struct sl_candidate *c, int pipelines) {
    int width = v->row->layout == SL_LAYOUT_CROSS ? 2 * pipelines : pipelines;
    for (int s = 0; s < c->stage_count; s++)
        v->width[s] = width;
    for (int with = 0; with < 2; with++) {
        memset(v->recompute, with, sizeof *v->recompute * (size_t)c->stage_count);
        for (int across = 0; across < (pipelines > 1 ? 2 : 1); across++) {
            c->across = across;
            sl_search_pool_add(v->pool, c, "sluice");
        }
    }
}

/* Tries two numbers of pipelines: the most that are possible, and the largest power of two. */
static void add_depth(struct virtual_stages *v, struct sl_candidate *c, int chunks) {
    const struct sl_problem *p = v->pool->query->problem;
    int64_t micros = (p->batch + p->sizes[c->size] - 1) / p->sizes[c->size];
    int most = 0, power = 0, max = p->straight ? 1 : p->machine->device_count / c->ranks;
    int width = v->pool->query->width;
    width = v->row->layout == SL_LAYOUT_CROSS ? width / 2 : width;
    for (int n = 1; n <= max; n++)
        if ((!width || n == width) && takes(v, micros, c->ranks, n)) {
            most = n;
            power = n & (n - 1) ? power : n;
        }
    c->stage_count = c->ranks * chunks;
    for (v->borders = 0; v->borders < BORDER_KINDS && most; v->borders++) {
        if (!cut_exactly(v, c->size, c->stage_count))
            return;
        for (bool more = true, levelled = false; more; levelled = true) {
            take_cut(v);
            add(v, c, most);
            if (power && power != most)
                add(v, c, power);
            more = !levelled && level(v, c);
        }
    }
}

/* Should this depth be tried? All depths of a small machine; 2^k and 3 * 2^k of a large one. */
static bool tries_depth(const struct virtual_stages *v, int depth) {
    enum { SMALL = 16 };
    int devices = v->pool->query->problem->machine->device_count, odd = depth / (depth & -depth);
    if (v->row->layout == SL_LAYOUT_CROSS && depth % 2)
        return false;
    if (v->pool->query->workers)
        return depth == v->pool->query->workers;
    if (depth == 1 && devices > 1) /* a pipeline of one worker is none */
        return false;
    return devices <= SMALL || odd == 1 || odd == 3 || depth == devices;
}

/* Should this number of stages per worker be tried? A V has two, crossing pipelines have one and
 * its opposite. */
static bool tries_chunks(const struct virtual_stages *v, int chunks) {
    enum { SMALL = 8 };
    int odd = chunks / (chunks & -chunks);
    switch (v->row->layout) {
    case SL_LAYOUT_V: return chunks == 2;
    case SL_LAYOUT_CROSS: return chunks == 1;
    default: return chunks > 1 && (chunks <= SMALL || odd == 1 || odd == 3 || odd == 5);
    }
}

static void add_row(struct virtual_stages *v, const char *schedule,
                    void (*each)(struct sl_search_pool *pool)) {
    const struct sl_problem *p = v->pool->query->problem;
    struct sl_candidate c = {.stage_of = v->stage_of,
                             .width = v->width,
                             .recompute = v->recompute,
                             .schedule = schedule};
    for (int chunks = 1; chunks <= p->unit_count; chunks++) {
        if (!tries_chunks(v, chunks) || sl_search_query_timed_out(v->pool->query))
            continue;
        for (c.size = 0; c.size < p->size_count; c.size++)
            for (c.ranks = 1; c.ranks <= p->machine->device_count && c.ranks <= p->unit_count;
                 c.ranks++)
                if (tries_depth(v, c.ranks) &&
                    !sl_search_pool_cannot_win(v->pool, schedule, c.size))
                    add_depth(v, &c, chunks);
        each(v->pool);
    }
}

void sl_planners_add_virtual(struct sl_search_pool *pool,
                             void (*each)(struct sl_search_pool *pool)) {
    const struct sl_problem *p = pool->query->problem;
    struct sl_arena arena = {0};
    const char *one[SL_QUERY_SCHEDULES];
    struct virtual_stages v = {.pool = pool,
                               .order = SL_NEW(&arena, int, p->unit_count + 1),
                               .stage_of = SL_NEW(&arena, int, p->unit_count + 1),
                               .width = SL_NEW(&arena, int, p->unit_count + 1),
                               .narrow = SL_NEW(&arena, bool, p->unit_count + 1),
                               .piece_of = SL_NEW(&arena, int, p->unit_count + 1),
                               .piece_ns = SL_NEW(&arena, int64_t, p->unit_count + 1),
                               .run_of = SL_NEW(&arena, int, p->unit_count + 1),
                               .stage_ns = SL_NEW(&arena, int64_t, p->unit_count + 1),
                               .rank_ns = SL_NEW(&arena, int64_t, p->unit_count + 1),
                               .begin = SL_NEW(&arena, int, p->unit_count + 2),
                               .recompute = SL_NEW(&arena, bool, p->unit_count + 1)};
    SL_ASSERT(sl_graph_dag_order(&arena, &p->dag, v.order));
    find_narrow(&arena, &v);
    for (const char *const *name = sl_search_query_schedules(pool->query, one); *name; name++) {
        v.row = sl_schedules_row_find(*name);
        if (sl_search_schedule_shares(*name))
            add_row(&v, *name, each);
    }
    sl_arena_free(&arena);
}
