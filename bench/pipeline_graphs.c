/* Graphs of stages against chains of stages; prints RESULT lines.
 *
 *   ./dev bench pipeline_graphs [--threads T] [--steps N] [--rounds R] [--simulate 0|1]
 *                               [--cases mmt,candle-uno]
 *
 * mmt and candle-uno have 4 branches. A graph of stages has a stage for each branch and one for
 * what joins them (and the costliest halved) on 4 workers; a chain has 4 stages in graph order, in
 * which each waits for the one before it, as planners that know only sequences have it. Batches are
 * fixed, of 4 micro-batches. `ratio` is that of the best graph to the best chain that needs no
 * more memory per worker than 1.1 times the graph's (fits=1; weights do not cut into equal parts),
 * with recomputation if it must; `any_memory_ratio` to the best of all chains; `plain_ratio` to the
 * best that fits of gpipe and 1f1b, which GraphPipe compares with.
 *
 * --simulate 1, for machines with fewer than 4 T cores: the times of all stages are measured one by
 * one, by processor time, and the schedules are played with them; messages take no time. Else the
 * pipelines run, in turns, R times; the best run of each counts.
 */
#include "pipe_bench.h"

#include "sim/sim.h"

enum { WORKERS = 4, MICROS = 4, CUTS = 3, KINDS = CUTS + 2 };

struct options {
    int64_t threads, steps, rounds, simulate;
    const char *cases;
};

struct entry { /* a pipeline in the race */
    const struct sl_plan *plan;
    const int *stage_of;
    const char *schedule;
    bool graph;
    int kind;      /* entries of the same are the same stages */
    int64_t bytes; /* of the neediest worker */
    double rate;   /* samples per second */
};

struct race {
    const char *name;
    const struct options *options;
    struct bench b;
    struct entry entries[32];
    int count;
    int64_t (*times[KINDS][2])[SL_KIND_COUNT]; /* simulated: of whole, of split backwards */
    /* samples per second: best graph, chain that fits, such a chain with whole backwards, any */
    double graph, chain, plain, any;
    int64_t bytes; /* of the best graph's neediest worker: the limit */
};

/* ---- the field ---- */

/* The same stages with an edge from each to the next, where there is none. */
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

static void enter(struct race *race, const struct sl_plan *plan, const char *schedule, int kind) {
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
}

/* A stage for every branch and the join; and the costliest of them halved, so that workers with
 * little to do can take a part. */
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

/* interleaved and zb-v are no candidates: they take chains without edges over several stages, and
 * here every branch's end goes to the join. */
static void enter_chains(struct race *race) {
    static const char *const schedules[] = {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-graph"};
    struct bench *b = &race->b;
    for (int i = 0; i < 2 * SL_COUNT(schedules); i++)
        enter(race, make_chain(b, even_plan(b, WORKERS, i % 2)), schedules[i / 2], CUTS + i % 2);
}

/* ---- measuring ---- */

static int64_t most_bytes(const struct sl_sched *sched) {
    int64_t most = 0;
    for (int w = 0; w < sched->plan->worker_count; w++) {
        int64_t bytes = sl_sched_worker_bytes(sched, w);
        most = bytes > most ? bytes : most;
    }
    return most;
}

static struct sl_pipe *open_entry(struct race *race, struct entry *e) {
    struct sl_pipe_config config = {
        .train = &race->b.train, .plan = e->plan, .stage_of = e->stage_of, .schedule = e->schedule};
    struct sl_pipe *pipe;
    must(sl_pipe_open(&config, &pipe));
    e->bytes = most_bytes(pipe->sched);
    return pipe;
}

static void run_entry(struct race *race, struct entry *e) {
    struct sl_pipe *pipe = open_entry(race, e);
    run_steps(pipe, 1); /* memory is touched */
    double rate = (double)race->b.train.batch / run_steps(pipe, race->options->steps).wall;
    e->rate = rate > e->rate ? rate : e->rate;
    sl_pipe_close(pipe);
}

/* ---- simulating ---- */

static sl_err run_phase(struct sl_seat_state *seat, enum sl_phase phase) {
    int64_t size = seat->train.worker->programs[SL_WORKER_FULL]->samples;
    struct sl_feed feed = {SL_DATA_TRAIN, SL_WORKER_FULL, 0, size, 0};
    struct sl_pass pass = {.phase = phase, .accumulate = true};
    if (phase == SL_PHASE_F)
        SL_TRY(sl_train_feed(&seat->train, &feed));
    return sl_worker_pass(seat->train.worker, &pass);
}

static sl_err run_update(struct sl_seat_state *seat) {
    struct sl_update_args update = {.t = 1, .lr = 1e-6, .scale = 1};
    SL_TRY(sl_train_norms(&seat->train, 0));
    return sl_train_update(&seat->train, &update);
}

/* Processor time of one pass, or (phase -1) of the step, behind the passes that come before it,
 * whose memory it uses up. There is one thread. */
static sl_err time_once(struct sl_seat_state *seat, int phase, int64_t *ns) {
    struct sl_train *train = &seat->train;
    SL_TRY(sl_train_count(train, SL_DATA_TRAIN, 0, train->config.batch, train->counts));
    if (phase == SL_PHASE_B || phase == SL_PHASE_I || phase == SL_PHASE_W)
        SL_TRY(run_phase(seat, SL_PHASE_F));
    if (phase == SL_PHASE_W)
        SL_TRY(run_phase(seat, SL_PHASE_I));
    int64_t start = sl_clock_cpu_ns();
    SL_TRY(phase < 0 ? run_update(seat) : run_phase(seat, (enum sl_phase)phase));
    *ns = sl_clock_cpu_ns() - start;
    return SL_OK;
}

/* The least of several tries: what others take away only adds. */
static int64_t time_part(struct sl_seat_state *seat, int phase) {
    enum { TRIES = 5 };
    int64_t least = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        int64_t ns;
        must(time_once(seat, phase, &ns));
        least = ns < least ? ns : least;
    }
    return least;
}

/* Times of all stages of a pipeline that is open: dur[stage][kind]. */
static void time_stages(const struct sl_pipe *pipe, bool split, int64_t (*dur)[SL_KIND_COUNT]) {
    for (int i = 0; i < pipe->config.plan->seat_count; i++) {
        struct sl_seat_state *seat = pipe->seat_at[i];
        int64_t *of = dur[seat->stage];
        of[SL_F] = time_part(seat, SL_PHASE_F);
        of[SL_B] = split ? 0 : time_part(seat, SL_PHASE_B);
        of[SL_I] = split ? time_part(seat, SL_PHASE_I) : 0;
        of[SL_W] = split ? time_part(seat, SL_PHASE_W) : 0;
        of[SL_STEP] = time_part(seat, -1);
    }
}

/* Entries of a kind differ in their schedule only and share one measurement. */
static void simulate_entry(struct race *race, struct entry *e) {
    struct sl_pipe *pipe = open_entry(race, e);
    struct sl_arena *arena = &race->b.arena;
    const struct sl_program *p = pipe->seat_at[0]->train.worker->programs[SL_WORKER_FULL];
    bool split = p->end[SL_PHASE_W] > p->begin[SL_PHASE_W];
    int64_t(**dur)[SL_KIND_COUNT] = &race->times[e->kind][split];
    if (!*dur) {
        *dur =
            (int64_t(*)[SL_KIND_COUNT])SL_NEW(arena, int64_t, e->plan->stage_count * SL_KIND_COUNT);
        time_stages(pipe, split, *dur);
    }
    struct sl_sim_opts opts = {.dur_ns = (const int64_t(*)[SL_KIND_COUNT]) * dur};
    const struct sl_sim *sim;
    must(sl_sim_run(arena, pipe->sched, &opts, &sim));
    e->rate = (double)race->b.train.batch / ((double)sim->step_ns / 1e9);
    sl_pipe_close(pipe);
}

/* ---- the race ---- */

/* Graphs come first, so that the memory of the best of them is known when chains are judged. */
static void put_entry(struct race *race, const struct entry *e) {
    bool best = e->graph && e->rate > race->graph;
    race->bytes = best ? e->bytes : race->bytes;
    race->graph = best ? e->rate : race->graph;
    bool fits = e->bytes <= race->bytes + race->bytes / 10;
    bool whole = strcmp(e->schedule, "gpipe") == 0 || strcmp(e->schedule, "1f1b") == 0;
    if (!e->graph && fits && e->rate > race->chain)
        race->chain = e->rate;
    if (!e->graph && fits && whole && e->rate > race->plain)
        race->plain = e->rate;
    if (!e->graph && e->rate > race->any)
        race->any = e->rate;
    printf("RESULT bench=pipeline_graphs case=%s simulated=%lld layout=%s schedule=%s stages=%d "
           "workers=%d depth=%d recompute=%d samples_s=%.2f worker_bytes=%lld fits=%d\n",
           race->name, (long long)race->options->simulate, e->graph ? "graph" : "chain",
           e->schedule, e->plan->stage_count, WORKERS, e->plan->depth, e->plan->stages[0].recompute,
           e->rate, (long long)e->bytes, fits);
    fflush(stdout);
}

static void bench_graph(const struct options *o, const char *name, const char *sets,
                        int64_t batch) {
    struct race race = {.name = name, .options = o};
    char file[128];
    snprintf(file, sizeof file, "models/%s.model", name);
    open_bench(&race.b, file, sets, (int)o->threads);
    race.b.train.batch = batch;
    race.b.train.micros = MICROS;
    race.b.train.steps = o->steps;
    race.b.train.bind = WORKERS * o->threads <= sl_bind_count();
    enter_graphs(&race);
    enter_chains(&race);
    int64_t rounds = o->simulate ? 1 : o->rounds;
    for (int64_t r = 0; r < rounds; r++)
        for (int i = 0; i < race.count; i++) {
            (o->simulate ? simulate_entry : run_entry)(&race, &race.entries[i]);
            if (r + 1 == rounds)
                put_entry(&race, &race.entries[i]);
        }
    printf("RESULT bench=pipeline_graphs case=%s simulated=%lld threads=%lld micros=%d "
           "graph_samples_s=%.2f chain_samples_s=%.2f ratio=%.3f any_memory_samples_s=%.2f "
           "any_memory_ratio=%.3f plain_ratio=%.3f\n",
           name, (long long)o->simulate, (long long)o->threads, MICROS, race.graph, race.chain,
           race.chain > 0 ? race.graph / race.chain : 0, race.any, race.graph / race.any,
           race.plain > 0 ? race.graph / race.plain : 0);
    fflush(stdout);
    close_bench(&race.b);
}

int main(int argc, char **argv) {
    struct options o = {.threads = 1, .steps = 8, .rounds = 3, .cases = "mmt,candle-uno"};
    const struct bench_option options[] = {
        {"--threads", &o.threads, NULL}, {"--steps", &o.steps, NULL},
        {"--rounds", &o.rounds, NULL},   {"--simulate", &o.simulate, NULL},
        {"--cases", NULL, &o.cases},     {NULL, NULL, NULL},
    };
    if (!read_options(argc, argv, options) || o.threads < 1 || o.steps < 3 || o.rounds < 1)
        return 2;
    if (is_listed(o.cases, "mmt"))
        bench_graph(&o, "mmt", "branches=4,T=64,L=2,C=256,H=4,F=1024,classes=10", 16);
    if (is_listed(o.cases, "candle-uno"))
        bench_graph(&o, "candle-uno", "branches=4,L=4,W=1024,shrink=4", 256);
    return 0;
}
