/* Graphs of stages against chains of stages; prints RESULT lines.
 *
 *   ./dev bench pipeline_graphs [--threads T] [--steps N] [--rounds R] [--simulate 0|1]
 *                               [--cases mmt,candle-uno] [--isa avx512]
 *
 * mmt and candle-uno have 4 branches. A graph of stages has one stage per branch and one for their
 * join (and the costliest stage halved) on 4 workers. A chain has 4 stages in graph order, each of
 * which waits for the one before it, as in planners that know only sequences. Batches are fixed, of
 * 4 micro-batches, and large, as in GraphPipe's experiments, which fill the memory with
 * activations. The first 0 to 4 stages of a chain recompute (`again`; the first stages hold most
 * micro-batches). There is one line per memory size of a worker: the least that any graph needs,
 * the need of the fastest graph of the first round, and unlimited. Chains get 1.1 times that size,
 * because weights cannot be cut into equal parts. `ratio` is the best graph over the best chain,
 * `plain_ratio` over the best of gpipe and 1f1b, with which GraphPipe compares.
 *
 * --simulate 1, the default on machines with fewer than 4 T cores: the times of all stages are
 * measured one by one as CPU time, and the schedules are simulated with them; messages take no
 * time. Otherwise the pipelines run in turns, R times, and the best run of each counts.
 */
#include "pipe_bench.h"

#include "sim/sim.h"

enum { WORKERS = 4, MICROS = 4, CUTS = 3, CHAIN = CUTS, AGAIN, KINDS };

struct options {
    int64_t threads, steps, rounds, simulate;
    const char *cases, *isa;
};

struct entry { /* a pipeline in the race */
    const struct sl_plan *plan;
    const int *stage_of;
    const char *schedule;
    bool graph;
    int kind;      /* entries of one kind have the same stages */
    int again;     /* chains: how many of the first stages recompute */
    int64_t bytes; /* of the worker that needs most */
    double rate;   /* samples per second */
};

struct race {
    const char *name;
    const struct options *options;
    struct bench b;
    struct entry entries[40];
    int count;
    int64_t (*times[KINDS][2])[SL_KIND_COUNT]; /* simulated: whole, split backward passes */
    int64_t bytes;                             /* of the fastest graph's worker that needs most */
};

/* ---- the field ---- */

/* The same stages with an edge from each to the next where none exists. */
static const struct sl_plan *make_chain(struct bench *b, const struct sl_plan *plan) {
    struct sl_plan draft = *plan;
    struct sl_edge *edges = SL_NEW(&b->arena, struct sl_edge, plan->edge_count + plan->stage_count);
    memcpy(edges, plan->edges, sizeof *edges * (size_t)plan->edge_count);
    for (int s = 0; s + 1 < plan->stage_count; s++) {
        bool have = false;
        for (int e = 0; e < plan->edge_count; e++)
            have |= plan->edges[e].from == s && plan->edges[e].to == s + 1;
        if (!have)
            edges[draft.edge_count++] = (struct sl_edge){.from = s, .to = s + 1};
    }
    draft.edges = edges;
    must(sl_plan_build(&b->arena, &draft, &plan));
    return plan;
}

static struct entry *enter(struct race *race, const struct sl_plan *plan, const char *schedule,
                           int kind) {
    struct bench *b = &race->b;
    int64_t nodes = b->graph->forward_count;
    int *stage_of = SL_NEW(&b->arena, int, nodes);
    memcpy(stage_of, b->stage_of, sizeof *stage_of * (size_t)nodes);
    SL_ASSERT(race->count < SL_COUNT(race->entries));
    race->entries[race->count++] = (struct entry){.plan = plan,
                                                  .stage_of = stage_of,
                                                  .schedule = schedule,
                                                  .graph = kind < CUTS,
                                                  .kind = kind};
    return &race->entries[race->count - 1];
}

/* One stage per branch and one for the join; the costliest of them is halved, so that less loaded
 * workers can take a part. */
static void enter_graphs(struct race *race) {
    static const char *const schedules[] = {"graph", "zb-graph"};
    static const int cuts[CUTS] = {0, WORKERS + 2, 2 * WORKERS};
    struct bench *b = &race->b;
    for (int i = 0; i < SL_COUNT(schedules) * SL_COUNT(cuts); i++) {
        int stages, worker_of[64], cut = cuts[i / SL_COUNT(schedules)];
        must(
            sl_plan_cut_branches(b->graph, b->train.device->has_kernel, cut, b->stage_of, &stages));
        sl_plan_spread(b->graph, b->stage_of, stages, WORKERS, worker_of);
        enter(race, plan_of(b, stages, WORKERS, worker_of, false),
              schedules[i % SL_COUNT(schedules)], i / SL_COUNT(schedules));
    }
}

/* An even cut whose first stages recompute. */
static const struct sl_plan *chain_plan(struct bench *b, int again) {
    const struct sl_plan *kept = even_plan(b, WORKERS, false), *spent = even_plan(b, WORKERS, true);
    struct sl_plan draft = *kept;
    struct sl_stage *stages = SL_NEW(&b->arena, struct sl_stage, WORKERS);
    for (int s = 0; s < WORKERS; s++)
        stages[s] = (s < again ? spent : kept)->stages[s];
    draft.stages = stages;
    return make_chain(b, &draft);
}

/* interleaved and zb-v are excluded: they need chains without edges over several stages, and here
 * every branch ends at the join. gpipe holds all micro-batches and zb-h2 more than zb-h1: with
 * recomputation neither saves more memory than the others. Chains in which no stage or every stage
 * recomputes come first: simulations derive the other times from them. */
static void enter_chains(struct race *race) {
    static const char *const schedules[] = {"1f1b", "zb-h1", "zb-graph", "gpipe", "zb-h2"};
    static const int again[] = {0, WORKERS, 1, 2, 3};
    for (int i = 0; i < SL_COUNT(again); i++)
        for (int k = 0; k < (again[i] ? 3 : SL_COUNT(schedules)); k++)
            enter(race, chain_plan(&race->b, again[i]), schedules[k], again[i] ? AGAIN : CHAIN)
                ->again = again[i];
}

/* ---- measuring ---- */

/* Allocated bytes of the worker that needs most. */
static int64_t max_bytes(const struct sl_pipe *pipe) {
    int64_t max = 0;
    for (int w = 0; w < WORKERS; w++)
        max = sl_pipe_bytes(pipe)[w] > max ? sl_pipe_bytes(pipe)[w] : max;
    return max;
}

static struct sl_pipe *open_entry(struct race *race, struct entry *e) {
    struct sl_pipe_config config = {.train = &race->b.train,
                                    .plan = e->plan,
                                    .stage_of = e->stage_of,
                                    .schedule = e->schedule,
                                    .bind = bind_all(WORKERS * race->options->threads)};
    struct sl_pipe *pipe;
    must(sl_pipe_open(&config, &pipe));
    e->bytes = max_bytes(pipe);
    return pipe;
}

/* Does the entry fit into the memory of the fastest graph so far? */
static bool fits(const struct race *race, const struct entry *e) {
    return e->bytes <= race->bytes + race->bytes / 10;
}

/* Chains that do not fit even with recomputation are skipped. */
static void run_entry(struct race *race, struct entry *e) {
    struct sl_pipe *pipe = open_entry(race, e);
    if (!e->again || fits(race, e)) {
        run_steps(pipe, 1); /* touch the memory */
        double rate = (double)race->b.train.batch / run_steps(pipe, race->options->steps).wall;
        e->rate = rate > e->rate ? rate : e->rate;
    }
    sl_pipe_close(pipe);
}

/* ---- simulating ---- */

static sl_err run_phase(struct sl_pipe_seat *seat, enum sl_phase phase) {
    int64_t size = seat->train.worker->programs[SL_WORKER_FULL]->samples;
    struct sl_feed feed = {SL_DATA_TRAIN, SL_WORKER_FULL, 0, size, 0};
    struct sl_worker_pass pass = {.phase = phase, .accumulate = true};
    if (phase == SL_PHASE_F)
        SL_TRY(sl_run_train_feed(&seat->train, &feed));
    return sl_run_worker_pass(seat->train.worker, &pass);
}

static sl_err run_update(struct sl_pipe_seat *seat) {
    struct sl_update_args update = {.t = 1, .lr = 1e-6, .scale = 1};
    SL_TRY(sl_run_train_norms(&seat->train, 0));
    return sl_run_train_update(&seat->train, &update);
}

/* CPU time of one pass, or (phase -1) of the step, after the passes it depends on. One thread. */
static sl_err time_once(struct sl_pipe_seat *seat, int phase, int64_t *ns) {
    struct sl_train *train = &seat->train;
    SL_TRY(sl_run_train_count(train, SL_DATA_TRAIN, 0, train->config.batch, train->counts));
    if (phase >= 0 && phase != SL_PHASE_F)
        SL_TRY(run_phase(seat, SL_PHASE_F));
    if (phase == SL_PHASE_W)
        SL_TRY(run_phase(seat, SL_PHASE_I));
    int64_t start = sl_clock_cpu_ns();
    SL_TRY(phase < 0 ? run_update(seat) : run_phase(seat, (enum sl_phase)phase));
    *ns = sl_clock_cpu_ns() - start;
    return SL_OK;
}

/* The minimum of several tries: disturbances only add time. */
static int64_t time_part(struct sl_pipe_seat *seat, int phase) {
    enum { TRIES = 5 };
    int64_t least = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        int64_t ns;
        must(time_once(seat, phase, &ns));
        least = ns < least ? ns : least;
    }
    return least;
}

static int64_t without(int64_t ns, int64_t part_ns) { return ns > part_ns ? ns - part_ns : 0; }

/* Times of all stages of an open pipeline: dur[stage][kind]. Phases B and I recompute; in a run
 * RECOMPUTE does that while the gradient is in transit. */
static void time_stages(const struct sl_pipe *pipe, bool split, int64_t (*dur)[SL_KIND_COUNT]) {
    for (int i = 0; i < pipe->config.plan->seat_count; i++) {
        struct sl_pipe_seat *seat = pipe->seat_at[i];
        int64_t *of = dur[seat->stage];
        bool again = seat->train.worker->programs[SL_WORKER_FULL]->recompute;
        of[SL_FORWARD] = time_part(seat, SL_PHASE_F);
        of[SL_RECOMPUTE] = again ? time_part(seat, SL_PHASE_R) : 0;
        of[SL_BACKWARD] = split ? 0 : without(time_part(seat, SL_PHASE_B), of[SL_RECOMPUTE]);
        of[SL_BACKWARD_INPUT] = split ? without(time_part(seat, SL_PHASE_I), of[SL_RECOMPUTE]) : 0;
        of[SL_BACKWARD_WEIGHT] = split ? time_part(seat, SL_PHASE_W) : 0;
        of[SL_STEP] = time_part(seat, -1);
    }
}

/* Entries of a kind differ only in their schedule and share one measurement; chains in which some
 * stages recompute combine two kinds. */
static void simulate_entry(struct race *race, struct entry *e) {
    struct sl_pipe *pipe = open_entry(race, e);
    struct sl_arena *arena = &race->b.arena;
    const struct sl_program *p = pipe->seat_at[0]->train.worker->programs[SL_WORKER_FULL];
    bool split = p->end[SL_PHASE_W] > p->begin[SL_PHASE_W];
    int64_t cells = (int64_t)e->plan->stage_count * SL_KIND_COUNT;
    int64_t(**dur)[SL_KIND_COUNT] = &race->times[e->kind][split];
    if (!*dur) {
        *dur = (int64_t(*)[SL_KIND_COUNT])SL_NEW(arena, int64_t, cells);
        time_stages(pipe, split, *dur);
    }
    int64_t(*own)[SL_KIND_COUNT] = (int64_t(*)[SL_KIND_COUNT])SL_NEW(arena, int64_t, cells);
    memcpy(own, *dur, sizeof(int64_t) * (size_t)cells);
    for (int s = e->again; e->kind == AGAIN && s < WORKERS; s++)
        memcpy(own[s], race->times[CHAIN][split][s], sizeof own[s]);
    struct sl_sim_opts opts = {.dur_ns = (const int64_t(*)[SL_KIND_COUNT])own};
    const struct sl_sim *sim;
    must(sl_sim_run(arena, pipe->sched, &opts, &sim));
    e->rate = (double)race->b.train.batch / ((double)sim->step_ns / 1e9);
    sl_pipe_close(pipe);
}

/* ---- the race ---- */

static void put_entry(const struct race *race, const struct entry *e) {
    printf("RESULT bench=pipeline_graphs case=%s simulated=%lld layout=%s schedule=%s stages=%d "
           "workers=%d depth=%d again=%d samples_s=%.2f worker_bytes=%lld\n",
           race->name, (long long)race->options->simulate, e->graph ? "graph" : "chain",
           e->schedule, e->plan->stage_count, WORKERS, e->plan->depth, e->again, e->rate,
           (long long)e->bytes);
    fflush(stdout);
}

enum field { GRAPHS, CHAINS, WHOLE_CHAINS }; /* whole backward passes: gpipe, 1f1b */

/* The fastest of a field that fits into so much memory per worker; NULL: none. */
static const struct entry *best_of(const struct race *race, enum field field, int64_t bytes) {
    const struct entry *best = NULL;
    for (int i = 0; i < race->count; i++) {
        const struct entry *e = &race->entries[i];
        bool whole = strcmp(e->schedule, "gpipe") == 0 || strcmp(e->schedule, "1f1b") == 0;
        if (e->graph == (field == GRAPHS) && (field != WHOLE_CHAINS || whole) && e->rate > 0 &&
            e->bytes <= bytes && (!best || e->rate > best->rate))
            best = e;
    }
    return best;
}

static double rate_of(const struct entry *e) { return e ? e->rate : 0; }

static void put_ratios(const struct race *race, const char *memory, int64_t bytes) {
    int64_t more = bytes < INT64_MAX ? bytes + bytes / 10 : bytes;
    const struct entry *graph = best_of(race, GRAPHS, bytes), *chain = best_of(race, CHAINS, more);
    const struct entry *whole = best_of(race, WHOLE_CHAINS, more);
    printf("RESULT bench=pipeline_graphs case=%s simulated=%lld memory=%s threads=%lld isa=%s "
           "micros=%d "
           "graph=%s graph_samples_s=%.2f chain=%s again=%d chain_samples_s=%.2f ratio=%.3f "
           "plain_ratio=%.3f\n",
           race->name, (long long)race->options->simulate, memory,
           (long long)race->options->threads, race->options->isa, MICROS,
           graph ? graph->schedule : "none", rate_of(graph), chain ? chain->schedule : "none",
           chain ? chain->again : 0, rate_of(chain), chain ? rate_of(graph) / chain->rate : 0,
           whole ? rate_of(graph) / whole->rate : 0);
    fflush(stdout);
}

static int64_t least_bytes(const struct race *race) {
    int64_t least = INT64_MAX;
    for (int i = 0; i < race->count; i++)
        if (race->entries[i].graph && race->entries[i].bytes < least)
            least = race->entries[i].bytes;
    return least;
}

static void run_field(struct race *race, int first, int last) {
    for (int i = first; i < last; i++)
        (race->options->simulate ? simulate_entry : run_entry)(race, &race->entries[i]);
}

/* Graphs and chains take turns: a slow minute affects both. */
static void run_rounds(struct race *race, int graphs) {
    int64_t rounds = race->options->simulate ? 1 : race->options->rounds;
    for (int64_t r = 0; r < rounds; r++) {
        run_field(race, 0, graphs);
        if (r == 0) /* the same chains fit in every round */
            race->bytes = best_of(race, GRAPHS, INT64_MAX)->bytes;
        run_field(race, graphs, race->count);
    }
    for (int i = 0; i < race->count; i++)
        put_entry(race, &race->entries[i]);
}

static void bench_graph(const struct options *o, const char *name, const char *sets,
                        int64_t batch) {
    struct race race = {.name = name, .options = o};
    char file[128];
    snprintf(file, sizeof file, "models/%s.model", name);
    open_bench(&race.b, file, sets, (int)o->threads);
    race.b.train.batch = batch;
    race.b.train.micros = MICROS;
    race.b.train.steps = 0; /* each run is a schedule of its own, filled and drained */
    enter_graphs(&race);
    int graphs = race.count;
    enter_chains(&race);
    run_rounds(&race, graphs);
    put_ratios(&race, "least", least_bytes(&race));
    put_ratios(&race, "fastest", race.bytes);
    put_ratios(&race, "any", INT64_MAX);
    close_bench(&race.b);
}

/* Workers that share a core wait for the core, not for each other: then a race means nothing. */
static void choose_simulation(struct options *o) {
    int64_t need = WORKERS * o->threads, have = sl_device_bind_count();
    if (o->simulate < 0)
        o->simulate = have < need;
    if (have < need)
        printf("# %lld cores for %d workers of %lld threads: %s\n", (long long)have, WORKERS,
               (long long)o->threads,
               o->simulate ? "simulated from passes measured one by one"
                           : "workers take turns, so ratios show work, not what graphs save");
}

int main(int argc, char **argv) {
    struct options o = {.threads = 1,
                        .steps = 8,
                        .rounds = 3,
                        .simulate = -1,
                        .cases = "mmt,candle-uno",
                        .isa = steady_isa()};
    const struct bench_option options[] = {
        {"--threads", &o.threads, NULL},
        {"--steps", &o.steps, NULL},
        {"--rounds", &o.rounds, NULL},
        {"--simulate", &o.simulate, NULL},
        {"--cases", NULL, &o.cases},
        {"--isa", NULL, &o.isa},
        {NULL, NULL, NULL},
    };
    if (!read_options(argc, argv, options) || o.threads < 1 || o.steps < 3 || o.rounds < 1)
        return 2;
    must(sl_device_cpu_limit(o.isa));
    choose_simulation(&o);
    if (is_listed(o.cases, "mmt"))
        bench_graph(&o, "mmt", "branches=4,T=64,L=2,C=256,H=4,F=1024,classes=10", 64);
    if (is_listed(o.cases, "candle-uno"))
        bench_graph(&o, "candle-uno", "branches=4,L=4,W=1024,shrink=4", 2048);
    return 0;
}
