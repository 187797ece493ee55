/* The speed of an emulation relative to synchronous training on the same worker; prints RESULT lines.
 *
 *   ./dev bench emulate [--model gpt-tiny] [--sizes L=4] [--device cpu] [--dtype fp32] [--threads T]
 *                       [--stages P] [--batch B] [--micro M] [--optimizer adamw] [--steps N]
 *                       [--rounds R]
 *
 * All contenders are open at the same time and take turns in rotating order, N steps each. `ratio` is
 * the time of the synchronous worker over that of the emulation, in the same round; median of the
 * rounds with its 95 % interval. `cpu_ratio` is the same by CPU time, for a CPU with other load.
 * case=sync is the synchronous worker a second time: if its interval does not contain 1, the machine
 * was too noisy. `versions_mb`: memory of further weight versions. */
#include "emulate/emulate.h"
#include "job/work.h"
#include "pipe_bench.h"

enum { ROUNDS_MAX = 999 };

static const struct contender {
    const char *name, *schedule, *policy;
    double goal; /* least ratio; 0: none */
} contenders[] = {
    {"one", NULL, NULL, 0},
    {"sync", NULL, NULL, 0},
    {"2bw", "2bw", "none", 0.95},
    {"2bw-predict", "2bw", "2bw-predict", 0},
    {"spectrain", "async", "spectrain", 0.8},
    {"stash", "stash", "none", 0},
};

enum { CONTENDERS = SL_COUNT(contenders) };

struct options {
    const char *model, *sizes, *device, *dtype, *optimizer;
    int64_t threads, stages, batch, micro, steps, rounds;
};

struct run {
    struct sl_job_work work;
    struct sl_emulate *emulate;
    struct sl_pipe_run one;
};

static void set_number(struct sl_job *job, const char *key, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%lld", (long long)value);
    must(sl_job_set(job, key, text));
}

static void open_run(const struct options *o, const struct contender *c, struct run *run) {
    static const char *const dirs[] = {"models", NULL};
    struct sl_job_host host = {.model_dirs = dirs};
    struct sl_job job;
    sl_job_init(&job);
    must(sl_job_set(&job, "model", o->model));
    if (*o->sizes)
        must(sl_job_set(&job, "sizes", o->sizes));
    must(sl_job_set(&job, "device", o->device));
    must(sl_job_set(&job, "dtype", o->dtype));
    must(sl_job_set(&job, "optimizer", o->optimizer));
    set_number(&job, "threads", o->threads);
    set_number(&job, "batch", o->batch);
    set_number(&job, "micro", o->micro);
    set_number(&job, "steps", 1 << 24);
    if (c->schedule) {
        set_number(&job, "stages", o->stages);
        must(sl_job_set(&job, "schedule", c->schedule));
        must(sl_job_set(&job, "policy", c->policy));
        must(sl_job_set(&job, "emulate", "true"));
    }
    must(sl_job_open(&job, &host, &run->work));
    if (c->schedule)
        must(sl_emulate_open(&run->work.pipe, &run->emulate));
    else
        must(sl_pipe_run_open(&run->work.pipe, &run->one));
    sl_job_free(&job);
}

static struct cost cost_of(struct run *run, int64_t steps) {
    struct sl_runner runner = run->emulate ? sl_emulate_runner(run->emulate) : run->one.runner;
    struct sl_step_report report;
    int64_t start = sl_clock_ns(), cpu = sl_clock_process_ns(), ran;
    for (int64_t i = 0; i < steps; i++)
        must(runner.row->run(runner.ctx, 1, &report, &ran));
    return (struct cost){(double)(sl_clock_ns() - start) / 1e9,
                         (double)(sl_clock_process_ns() - cpu) / 1e9};
}

struct result { /* of a contender, per round */
    double wall[ROUNDS_MAX], ratio[ROUNDS_MAX], cpu_ratio[ROUNDS_MAX];
};

static void put_result(const struct options *o, int c, const struct run *run, struct result *r) {
    struct interval ratio = interval_of(r->ratio, o->rounds);
    struct interval cpu = interval_of(r->cpu_ratio, o->rounds);
    int64_t versions = run->emulate ? sl_emulate_version_bytes(run->emulate) : 0;
    double goal = contenders[c].goal;
    printf("RESULT bench=emulate case=%s device=%s dtype=%s model=%s stages=%lld batch=%lld "
           "micro=%lld optimizer=%s rounds=%lld step_ms=%.3f versions_mb=%.1f ratio=%.4f low=%.4f "
           "high=%.4f cpu_ratio=%.4f cpu_low=%.4f cpu_high=%.4f",
           contenders[c].name, o->device, o->dtype, run->work.graph->name, (long long)o->stages,
           (long long)o->batch, (long long)o->micro, o->optimizer, (long long)o->rounds,
           1e3 * median_of(r->wall, o->rounds) / (double)o->steps, (double)versions / 1e6,
           ratio.middle, ratio.low, ratio.high, cpu.middle, cpu.low, cpu.high);
    if (goal > 0)
        printf(" goal=%.2f verdict=%s", goal,
               ratio.low >= goal   ? "reached"
               : ratio.high < goal ? "missed"
                                   : "open");
    printf("\n");
}

static void race(const struct options *o, struct run *runs, struct result *results) {
    struct cost costs[CONTENDERS];
    for (int64_t r = 0; r < o->rounds; r++) {
        for (int i = 0; i < CONTENDERS; i++) {
            int c = (int)((i + r) % CONTENDERS);
            costs[c] = cost_of(&runs[c], o->steps);
        }
        for (int c = 0; c < CONTENDERS; c++) {
            results[c].wall[r] = costs[c].wall;
            results[c].ratio[r] = costs[0].wall / costs[c].wall;
            results[c].cpu_ratio[r] = costs[0].cpu / costs[c].cpu;
        }
    }
}

int main(int argc, char **argv) {
    struct options o = {.model = "gpt-tiny",
                        .sizes = "",
                        .device = "cpu",
                        .dtype = "fp32",
                        .optimizer = "adamw",
                        .threads = 1,
                        .stages = 8,
                        .batch = 64,
                        .micro = 8,
                        .steps = 1,
                        .rounds = 15};
    const struct bench_option options[] = {
        {"--threads", &o.threads, NULL},     {"--stages", &o.stages, NULL},
        {"--batch", &o.batch, NULL},         {"--micro", &o.micro, NULL},
        {"--steps", &o.steps, NULL},         {"--rounds", &o.rounds, NULL},
        {"--model", NULL, &o.model},         {"--sizes", NULL, &o.sizes},
        {"--device", NULL, &o.device},       {"--dtype", NULL, &o.dtype},
        {"--optimizer", NULL, &o.optimizer}, {0},
    };
    static struct run runs[CONTENDERS];
    static struct result results[CONTENDERS];
    if (!read_options(argc, argv, options))
        return 2;
    o.rounds = o.rounds < 1 ? 1 : o.rounds > ROUNDS_MAX ? ROUNDS_MAX : o.rounds;
    for (int c = 0; c < CONTENDERS; c++) {
        open_run(&o, &contenders[c], &runs[c]);
        cost_of(&runs[c], 2 * o.stages / o.micro + 2); /* until its versions are in use */
    }
    race(&o, runs, results);
    for (int c = 1; c < CONTENDERS; c++)
        put_result(&o, c, &runs[c], &results[c]);
    for (int c = 0; c < CONTENDERS; c++) {
        sl_emulate_close(runs[c].emulate);
        sl_pipe_run_close(&runs[c].one);
        sl_job_close(&runs[c].work);
    }
    return 0;
}
