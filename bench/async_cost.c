/* The cost of asynchronous features on threads, as a throughput ratio; prints RESULT lines.
 *
 *   ./dev bench async_cost [--seconds S] [--limit S] [--stages P] [--threads T] [--steps N]
 *                          [--rounds R, more on a machine whose speed changes within seconds]
 *                          [--isa avx512] [--set L=2,C=64,H=4] [--cases verdict,predict]
 *                          [--schedules 2bw,stash,vsync,paci] [--policies 2bw-predict,spectrain]
 *
 * Each case races for S seconds, and up to the limit while undecided (bench/pipe_race.h). `ratio`
 * is throughput by wall time over that of a pipeline without the feature, `low` and `high` its 95 %
 * interval, `cpu_` the same by CPU time (which includes the spinning of waiting workers). with=none
 * is the same pipeline twice: if its interval does not contain 1, the machine was too noisy. Fill
 * and drain are included everywhere.
 *
 * verdict: global clipping, one skip decision of all stages, and tied embeddings, against a
 * pipeline in which every stage steps on its own and nothing is tied. `share` is the additional
 * time of REDUCE and STEP as a fraction of the workers' time, from the measured timelines.
 *
 * predict: the cost of a policy. `predict` is the fraction of the workers' time spent in PREDICT;
 * `share` adds the additional time of REDUCE and STEP.
 *
 * A step has as many tokens as in bench/pipeline.c (16 micro-batches of 4 x 128), so the work on
 * weights relative to that on activations is the same. Matrix products use at most AVX-512 unless
 * --isa says otherwise ("amx"): AMX units of a shared machine switch between two speeds, three
 * times apart.
 */
#include "pipe_race.h"

enum { MICROS = 16, MICRO_BATCH = 4, VARIANTS = 3 }; /* without, without again, with */

static const double goal = 0.98; /* least throughput ratio */

struct options {
    int64_t stages, threads, seconds, limit, steps, rounds;
    const char *sets, *cases, *schedules, *policies, *isa;
};

/* Seconds of all workers: in PREDICT, in STEP and REDUCE, in total. */
struct shares {
    double predict, step, all;
};

struct matter { /* what one race compares */
    const struct options *options;
    const char *schedule, *optimizer, *policy; /* policy NULL: the global step */
    struct shares shares[VARIANTS];
};

static void open_variant(void *ctx, int variant, struct bench *b, struct sl_pipe **pipe) {
    const struct matter *m = ctx;
    const struct options *o = m->options;
    bool with = variant == VARIANTS - 1, verdict = with && !m->policy;
    char sets[256];
    snprintf(sets, sizeof sets, "%s,tied=%d", o->sets, verdict);
    open_bench(b, "bench/models/gpt-pipe.model", sets, (int)o->threads);
    must(sl_optim_parse(m->optimizer, &b->train.optim));
    must(sl_optim_policy_parse(with && m->policy ? m->policy : "none", &b->train.policy));
    b->train.batch = MICRO_BATCH * MICROS;
    b->train.micros = MICROS;
    b->train.steps = o->steps * (o->rounds + 1); /* one round before the race */
    b->train.clip = verdict ? 1 : 0;
    struct sl_pipe_config config = {.train = &b->train,
                                    .plan = even_plan(b, (int)o->stages, false),
                                    .stage_of = b->stage_of,
                                    .schedule = m->schedule,
                                    .slack = 1,
                                    .bind = bind_all(o->stages * o->threads),
                                    .global_step = verdict,
                                    .trace = true};
    must(sl_pipe_open(&config, pipe));
}

static void add_shares(void *ctx, int variant, const struct sl_pipe *pipe) {
    struct shares *s = &((struct matter *)ctx)->shares[variant];
    const struct sl_timeline *timeline = sl_pipe_timeline(pipe);
    for (int w = 0; w < timeline->lane_count; w++)
        for (int64_t i = 0; i < timeline->lanes[w].count; i++) {
            const struct sl_span *span = &timeline->lanes[w].at[i];
            double took = (double)(span->end_ns - span->start_ns) / 1e9;
            enum sl_kind kind = (enum sl_kind)span->action.kind;
            s->predict += kind == SL_PREDICT ? took : 0;
            s->step += kind == SL_STEP || kind == SL_REDUCE ? took : 0;
            s->all += kind == SL_SEND || kind == SL_RECV ? 0 : took;
        }
}

static void put_shares(const struct matter *m, int variant) {
    const struct shares *none = &m->shares[0], *with = &m->shares[variant];
    double predict = with->predict / with->all;
    double step = with->step / with->all - none->step / none->all;
    if (m->policy)
        printf(" predict=%.4f", predict);
    printf(" share=%.4f", predict + step);
}

static void run_matter(struct matter *m) {
    const struct options *o = m->options;
    struct sl_arena arena = {0};
    struct race race = {.count = VARIANTS,
                        .steps = o->steps,
                        .rounds = (int)o->rounds,
                        .seconds = (double)o->seconds,
                        .limit = (double)o->limit,
                        .goal = goal,
                        .open = open_variant,
                        .ran = add_shares,
                        .ctx = m};
    run_race(&race, &arena);
    for (int v = 1; v < VARIANTS; v++) {
        bool with = v == VARIANTS - 1;
        printf("RESULT bench=async_cost case=%s with=%s schedule=%s optimizer=%s stages=%lld "
               "threads=%lld isa=%s",
               m->policy ? "predict" : "verdict",
               !with       ? "none"
               : m->policy ? m->policy
                           : "clip,finite,ties",
               m->schedule, m->optimizer, (long long)o->stages, (long long)o->threads, o->isa);
        put_shares(m, v);
        put_ratio(&race, v, with ? goal : 0);
    }
    sl_arena_free(&arena);
}

static const struct policy {
    const char *name, *schedule, *optimizer;
} policies[] = {
    {"2bw-predict", "2bw", "adamw"},      {"error-feedback", "2bw", "adamw"},
    {"spectrain", "async", "momentum"},   {"spectrain", "async", "adamw"},
    {"xpipe", "async", "adamw"},          {"pipeoptim", "async", "adamw"},
    {"pipemare", "async", "adamw"},       {"lr-rescale", "async", "adamw"},
    {"nesterov-async", "async", "nadam"},
};

int main(int argc, char **argv) {
    static const char *const schedules[] = {"2bw", "stash", "vsync", "paci"};
    struct options o = {.stages = 2,
                        .threads = 1,
                        .seconds = 60,
                        .limit = 480,
                        .steps = 3,
                        .sets = "L=2,C=64,H=4",
                        .cases = "verdict,predict",
                        .schedules = "2bw,stash,vsync,paci",
                        .policies = "2bw-predict,spectrain",
                        .isa = steady_isa()};
    const struct bench_option options[] = {
        {"--stages", &o.stages, NULL},
        {"--threads", &o.threads, NULL},
        {"--seconds", &o.seconds, NULL},
        {"--limit", &o.limit, NULL},
        {"--steps", &o.steps, NULL},
        {"--rounds", &o.rounds, NULL},
        {"--set", NULL, &o.sets},
        {"--cases", NULL, &o.cases},
        {"--schedules", NULL, &o.schedules},
        {"--policies", NULL, &o.policies},
        {"--isa", NULL, &o.isa},
        {NULL, NULL, NULL},
    };
    if (!read_options(argc, argv, options) || o.stages < 1 || o.threads < 1 || o.steps < 3 ||
        o.rounds < 0 || o.rounds > RACE_ROUNDS_MAX)
        return 2;
    must(sl_device_cpu_limit(o.isa));
    for (int i = 0; i < SL_COUNT(schedules) && is_listed(o.cases, "verdict"); i++)
        if (is_listed(o.schedules, schedules[i]))
            run_matter(
                &(struct matter){.options = &o, .schedule = schedules[i], .optimizer = "adamw"});
    for (int i = 0; i < SL_COUNT(policies) && is_listed(o.cases, "predict"); i++)
        if (is_listed(o.policies, policies[i].name))
            run_matter(&(struct matter){.options = &o,
                                        .schedule = policies[i].schedule,
                                        .optimizer = policies[i].optimizer,
                                        .policy = policies[i].name});
    return 0;
}
