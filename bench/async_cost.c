/* What asynchronous training pays for not flushing, on threads; prints RESULT lines.
 *
 *   ./dev bench async_cost [--stages P] [--threads T] [--rounds R] [--steps N] [--set L=4,C=256]
 *                          [--cases verdict,predict]
 *
 * verdict: a step with global clipping, one verdict on what is not finite, and tied embeddings
 * (all), or with clipping and the verdict alone (clip), against one in which every stage steps for
 * itself and nothing is tied. The schedules take turns round by round; `ratio` is the throughput
 * with over that without, by the clock, `cpu_ratio` by processor time, each the median of the
 * rounds with quartiles of the cpu ratio. Fill and drain are in both. `step` is how much longer
 * REDUCE and STEP take, as a part of the workers' time, from the measured timelines.
 *
 * predict: what a policy adds to a step. `predict` is the part of the workers' time that is spent
 * in PREDICT, `step` as above, against no policy; `share` is their sum. The ratios as above.
 *
 * A step has as many tokens as in bench/pipeline.c (16 micro-batches of 4 x 128): the work on
 * weights is to that on activations what it is there.
 */
#include "pipe_bench.h"

struct options {
    int64_t stages, threads, rounds, steps;
    const char *sets, *cases;
};

enum { MICROS = 16, MICRO_BATCH = 4, VARIANTS = 3 };

static void open_gpt(struct bench *b, const struct options *o, bool tied, const char *optimizer) {
    char sets[256];
    snprintf(sets, sizeof sets, "%s,tied=%d", o->sets, tied);
    open_bench(b, "bench/models/gpt-pipe.model", sets, (int)o->threads);
    must(sl_optim_parse(optimizer, &b->train.optim));
    b->train.batch = MICRO_BATCH * MICROS;
    b->train.micros = MICROS;
    b->train.steps = o->steps;
    b->train.bind = o->stages * o->threads <= sl_bind_count();
}

static struct sl_pipe *open_pipe(const struct bench *b, const struct sl_plan *plan,
                                 const char *schedule, bool together) {
    struct sl_pipe_config config = {.train = &b->train,
                                    .plan = plan,
                                    .stage_of = b->stage_of,
                                    .schedule = schedule,
                                    .slack = 1,
                                    .together = together,
                                    .trace = true};
    struct sl_pipe *pipe;
    must(sl_pipe_open(&config, &pipe));
    return pipe;
}

/* Runs of several pipelines in turns. */
struct race {
    struct sl_pipe *pipes[VARIANTS];
    int count;
    double *wall[VARIANTS], *cpu[VARIANTS]; /* [rounds] seconds of a step of the first over that */
};

static void run_race(struct race *race, const struct options *o, struct sl_arena *arena) {
    struct cost *costs = SL_NEW(arena, struct cost, race->count);
    for (int v = 0; v < race->count; v++) {
        race->wall[v] = SL_NEW(arena, double, o->rounds);
        race->cpu[v] = SL_NEW(arena, double, o->rounds);
        run_steps(race->pipes[v], o->steps); /* memory is touched */
    }
    for (int64_t r = 0; r < o->rounds; r++) {
        for (int v = 0; v < race->count; v++) { /* nobody is always first */
            int at = (int)((v + r) % race->count);
            costs[at] = run_steps(race->pipes[at], o->steps);
        }
        for (int v = 0; v < race->count; v++) {
            race->wall[v][r] = costs[0].wall / costs[v].wall;
            race->cpu[v][r] = costs[0].cpu / costs[v].cpu;
        }
    }
}

static void put_ratios(struct race *race, int v, int64_t rounds) {
    double wall = median_of(race->wall[v], rounds), cpu = median_of(race->cpu[v], rounds);
    printf(" rounds=%lld ratio=%.4f cpu_ratio=%.4f quarter=%.4f three_quarters=%.4f",
           (long long)rounds, wall, cpu, race->cpu[v][rounds / 4],
           race->cpu[v][rounds - 1 - rounds / 4]);
}

/* Seconds of all workers: in PREDICT, in STEP and REDUCE, in all. */
struct shares {
    double predict, step, all;
};

static struct shares read_shares(const struct sl_pipe *pipe) {
    const struct sl_timeline *timeline = sl_pipe_timeline(pipe);
    struct shares s = {0};
    for (int w = 0; w < timeline->lane_count; w++)
        for (int64_t i = 0; i < timeline->lanes[w].count; i++) {
            const struct sl_span *span = &timeline->lanes[w].at[i];
            double took = (double)(span->end_ns - span->start_ns) / 1e9;
            enum sl_kind kind = (enum sl_kind)span->action.kind;
            s.predict += kind == SL_PREDICT ? took : 0;
            s.step += kind == SL_STEP || kind == SL_REDUCE ? took : 0;
            s.all += kind == SL_SEND || kind == SL_RECV ? 0 : took;
        }
    return s;
}

/* ---- clipping, NaN, ties ---- */

static void bench_verdict(const struct options *o, const char *schedule) {
    static const char *const names[VARIANTS] = {"none", "clip", "all"};
    struct sl_arena arena = {0};
    struct bench b[VARIANTS];
    struct race race = {.count = VARIANTS};
    for (int v = 0; v < VARIANTS; v++) {
        open_gpt(&b[v], o, v == 2, "adamw");
        b[v].train.clip = v ? 1 : 0;
        race.pipes[v] = open_pipe(&b[v], even_plan(&b[v], (int)o->stages, false), schedule, v > 0);
    }
    run_race(&race, o, &arena);
    struct shares none = read_shares(race.pipes[0]);
    for (int v = 1; v < VARIANTS; v++) {
        struct shares with = read_shares(race.pipes[v]);
        printf("RESULT bench=async_cost case=verdict with=%s schedule=%s stages=%lld threads=%lld "
               "step=%.4f",
               names[v], schedule, (long long)o->stages, (long long)o->threads,
               (with.step - none.step) / with.all);
        put_ratios(&race, v, o->rounds);
        printf("\n");
    }
    fflush(stdout);
    for (int v = 0; v < VARIANTS; v++) {
        sl_pipe_close(race.pipes[v]);
        close_bench(&b[v]);
    }
    sl_arena_free(&arena);
}

/* ---- prediction ---- */

static const struct policy {
    const char *name, *schedule, *optimizer;
} policies[] = {
    {"2bw-predict", "2bw", "adamw"},      {"error-feedback", "2bw", "adamw"},
    {"spectrain", "async", "momentum"},   {"spectrain", "async", "adamw"},
    {"xpipe", "async", "adamw"},          {"pipeoptim", "async", "adamw"},
    {"pipemare", "async", "adamw"},       {"lr-rescale", "async", "adamw"},
    {"nesterov-async", "async", "nadam"},
};

static void bench_predict(const struct options *o, const struct policy *policy) {
    struct sl_arena arena = {0};
    struct bench b[2];
    struct race race = {.count = 2};
    for (int v = 0; v < 2; v++) {
        open_gpt(&b[v], o, false, policy->optimizer);
        must(sl_policy_parse(v ? policy->name : "none", &b[v].train.policy));
        race.pipes[v] =
            open_pipe(&b[v], even_plan(&b[v], (int)o->stages, false), policy->schedule, false);
    }
    run_race(&race, o, &arena);
    struct shares none = read_shares(race.pipes[0]), with = read_shares(race.pipes[1]);
    printf("RESULT bench=async_cost case=predict policy=%s schedule=%s optimizer=%s stages=%lld "
           "threads=%lld predict=%.4f step=%.4f share=%.4f",
           policy->name, policy->schedule, policy->optimizer, (long long)o->stages,
           (long long)o->threads, with.predict / with.all, (with.step - none.step) / with.all,
           (with.predict + with.step - none.step) / with.all);
    put_ratios(&race, 1, o->rounds);
    printf("\n");
    fflush(stdout);
    for (int v = 0; v < 2; v++) {
        sl_pipe_close(race.pipes[v]);
        close_bench(&b[v]);
    }
    sl_arena_free(&arena);
}

int main(int argc, char **argv) {
    static const char *const schedules[] = {"2bw", "stash", "vsync", "paci"};
    struct options o = {.stages = 2,
                        .threads = 1,
                        .rounds = 5,
                        .steps = 4,
                        .sets = "L=4,C=256",
                        .cases = "verdict,predict"};
    const struct bench_option options[] = {
        {"--stages", &o.stages, NULL},
        {"--threads", &o.threads, NULL},
        {"--rounds", &o.rounds, NULL},
        {"--steps", &o.steps, NULL},
        {"--set", NULL, &o.sets},
        {"--cases", NULL, &o.cases},
        {NULL, NULL, NULL},
    };
    if (!read_options(argc, argv, options) || o.stages < 1 || o.threads < 1 || o.steps < 3 ||
        o.rounds < 1)
        return 2;
    for (int i = 0; i < SL_COUNT(schedules); i++)
        if (is_listed(o.cases, "verdict"))
            bench_verdict(&o, schedules[i]);
    for (int i = 0; i < SL_COUNT(policies); i++)
        if (is_listed(o.cases, "predict"))
            bench_predict(&o, &policies[i]);
    return 0;
}
