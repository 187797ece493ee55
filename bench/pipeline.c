/* The speed of chains of stages on threads; prints RESULT lines.
 *
 *   ./dev bench pipeline [--stages P] [--threads T] [--steps N] [--turn-ms N] [--bound-ms N]
 *                        [--slack K] [--bind 0|1] [--lend 0|1] [--set L=4]
 *                        [--schedules 2bw,1f1b,zb-h1,...] [--isa avx512]
 *                        [--python PATH] [--torch-ms N] [--torch-schedules a,b] [--seconds S]
 *
 * gpt: 16 layers x 512, vocabulary 512, 128 tokens, micro-batch 4, 16 micro-batches a step.
 *
 * Pipeline, bound and torch take turns of a second or less; each is stopped while the others run
 * (bench/pipe_turns.h). A rate is work over running time.
 *
 *   tokens_s    of one run of N steps, with fill, drain and optimizer steps. A race ends --seconds
 *               after the bench began; then it covers the `done` steps, without the drain
 *   bound       upper bound: the same stages, all at the same time, without a pipeline
 *               (bench/pipe_alone.h); the rate of the slowest stage of the whole run
 *   efficiency  tokens_s / bound (asynchronous), / (bound x m/(m+p-1)) (synchronous)
 *   windows     the median efficiency over tenths of the run, each with its own slowest stage; and
 *               the lowest and highest. Coarse: a tenth of the bound is a few micro-batches
 *   balance     mean time of a stage over that of the slowest stage, in the bound
 *   cpu_efficiency  CPU time of a step of all stages alone over that in the pipeline: the least
 *               sensitive to other load, but it does not include waiting
 *
 * A line case=parts per worker divides the time of the run; the parts add up to 1:
 *   alone       time of the same work in the bound
 *   forward, backward, step   additional time in the pipeline (less: negative), with the copies of
 *               messages
 *   fill, drain before its first pass, after its last action
 *   imbalance   additional time of the slowest stage over this one
 *   wait        the rest: for messages, for slots, for the machine
 * and the mean times of a pass and a step, in the pipeline and alone.
 *
 * --python: torch.distributed.pipelining (bench/pipeline_torch.py) on as many cores. Each of its
 * schedules runs once, and the fastest one takes its turns; ratio: tokens_s over its rate. (Its
 * zb-v loses its connections over gloo.)
 *
 * --slack K: micro-batches that may wait between two stages (default 1: a late pass delays no
 * stage). A waiting worker does pieces of others' work (device/lend.h) unless --lend 0; the bound
 * never waits. Threads are bound to cores unless --bind 0 or there are too few cores. --isa: by
 * default the best instruction set with a steady speed. torch also computes exact float32 products.
 */
#include "pipe_alone.h"
#include "pipe_torch.h"

#include "schedules/schedule.h"

enum { TOKENS = 128, MICROS = 16, MICRO_BATCH = 4, WINDOWS = 10, SAMPLES_MAX = TURNS_MAX };

struct options {
    int64_t stages, threads, steps, turn_ms, bound_ms, torch_ms, slack, bind, lend, seconds;
    double begin_s;
    const char *python, *schedules, *sets, *isa;
    struct torch torch;
};

/* ---- gpt ---- */

static void open_gpt(struct bench *b, const struct options *o) {
    open_bench(b, "bench/models/gpt-pipe.model", o->sets, (int)o->threads);
    b->train.batch = MICRO_BATCH * MICROS;
    b->train.micros = MICROS;
    b->train.steps = 0; /* each run is a schedule of its own, filled and drained */
}

/* One of the two processes: the pipeline, or its stages alone. */
struct contestant {
    const struct options *o;
    const char *schedule;
    struct racer racer;
    atomic_int_least64_t *actions; /* [workers] begun, then those of one step; shared */
    struct alone *alone;           /* [workers] shared */
};

static sl_err count_action(void *ctx, int worker, int64_t action) {
    atomic_int_least64_t *actions = ctx;
    (void)action;
    atomic_fetch_add_explicit(&actions[worker], 1, memory_order_relaxed);
    return SL_OK;
}

static struct sl_pipe *open_pipe(struct contestant *c, struct bench *b) {
    open_gpt(b, c->o);
    struct sl_pipe_config config = {.train = &b->train,
                                    .plan = even_plan(b, (int)c->o->stages, false),
                                    .stage_of = b->stage_of,
                                    .schedule = c->schedule,
                                    .slack = c->o->slack,
                                    .bind = c->o->bind ? bind_all(c->o->stages * c->o->threads)
                                                       : SL_BIND_NONE,
                                    .lend = c->o->lend != 0,
                                    .trace = true,
                                    .on_action = count_action,
                                    .on_action_ctx = c->actions};
    struct sl_pipe *pipe;
    must(sl_pipe_open(&config, &pipe));
    run_steps(pipe, 1); /* touch the memory, wake the threads */
    for (int w = 0; w < c->o->stages; w++) {
        c->actions[c->o->stages] += c->actions[w];
        c->actions[w] = 0;
    }
    return pipe;
}

static void run_bound(void *ctx) {
    struct contestant *c = ctx;
    struct bench b;
    struct sl_pipe *pipe = open_pipe(c, &b);
    run_alone(pipe, c->racer.state, c->alone);
}

/* ---- where the time of a run went ---- */

static const enum part part_of[SL_KIND_COUNT] = {
    [SL_FORWARD] = FORWARD,
    [SL_BACKWARD] = BACKWARD,
    [SL_BACKWARD_INPUT] = BACKWARD,
    [SL_BACKWARD_WEIGHT] = BACKWARD,
    [SL_SEND] = PARTS,
    [SL_RECV] = PARTS,
    [SL_RECOMPUTE] = PARTS,
    [SL_REDUCE] = STEP,
    [SL_PREDICT] = STEP,
    [SL_STEP] = STEP,
};

struct lane_ends {
    double first, last; /* seconds: start of the first pass, end of the last action */
};

/* Spans in running time: a turn may end within a span. */
static struct lane_ends read_lane(const struct sl_pipe *pipe, const struct racer_state *turns,
                                  int worker, struct times *t) {
    const struct sl_lane *lane = &sl_pipe_timeline(pipe)->lanes[worker];
    int64_t begin = ran_at(turns, pipe->start_ns);
    struct lane_ends ends = {-1, 0};
    for (int64_t i = 0; i < lane->count; i++) {
        const struct sl_span *span = &lane->at[i];
        enum part part = part_of[span->action.kind];
        if (part == PARTS)
            continue;
        int64_t from = ran_at(turns, pipe->start_ns + span->start_ns) - begin;
        int64_t to = ran_at(turns, pipe->start_ns + span->end_ns) - begin;
        put_time(t, part, to - from);
        ends.first = ends.first < 0 ? (double)from / 1e9 : ends.first;
        ends.last = (double)to / 1e9;
    }
    return ends;
}

static double step_alone_s(const struct times *alone) {
    return all_times(alone) * MICROS / (double)alone->count[FORWARD];
}

static void put_parts(const struct contestant *c, const struct sl_pipe *pipe, int worker,
                      double slowest) {
    static const char *const names[] = {"forward", "backward", "step"};
    const struct times *alone = &c->alone[worker].times;
    const struct racer_state *turns = c->racer.state;
    struct times run = {0};
    double steps = (double)c->o->steps, scale = steps * MICROS / (double)alone->count[FORWARD];
    double own = step_alone_s(alone) * steps, imbalance = (slowest - step_alone_s(alone)) * steps;
    double all = (double)(ran_at(turns, pipe->start_ns + sl_pipe_timeline(pipe)->end_ns) -
                          ran_at(turns, pipe->start_ns)) /
                 1e9;
    struct lane_ends ends = read_lane(pipe, turns, worker, &run);
    double wait = ends.last - ends.first - all_times(&run) - imbalance;
    printf("RESULT bench=pipeline case=parts schedule=%s slack=%d worker=%d alone=%.4f",
           pipe->sched->name, pipe->sched->slack, worker, own / all);
    for (int k = 0; k < PARTS; k++)
        printf(" %s=%.4f", names[k], (run.sum[k] - alone->sum[k] * scale) / all);
    printf(" fill=%.4f drain=%.4f imbalance=%.4f wait=%.4f", ends.first / all,
           (all - ends.last) / all, imbalance / all, wait / all);
    for (enum part k = 0; k < PARTS; k++)
        printf(" %s_ms=%.3f %s_alone_ms=%.3f", names[k], mean_ms(&run, k), names[k],
               mean_ms(alone, k));
    printf("\n");
}

static void run_pipeline(void *ctx) {
    struct contestant *c = ctx;
    struct bench b;
    struct sl_pipe *pipe = open_pipe(c, &b);
    double slowest = 0;
    racer_ready();
    run_steps(pipe, c->o->steps);
    racer_done(c->racer.state);
    for (int w = 0; w < c->o->stages; w++) {
        double own = step_alone_s(&c->alone[w].times);
        slowest = own > slowest ? own : slowest;
    }
    for (int w = 0; w < c->o->stages; w++)
        put_parts(c, pipe, w, slowest);
    if (c->o->lend)
        printf("RESULT bench=pipeline case=lent schedule=%s pieces=%lld pieces_step=%.1f\n",
               pipe->sched->name, (long long)sl_pipe_lent(pipe),
               (double)sl_pipe_lent(pipe) / (double)(c->o->steps + 1));
    sl_pipe_close(pipe);
    close_bench(&b);
}

/* ---- the race ---- */

struct sample { /* after a round of turns */
    int64_t pipe_ns, actions;
    int64_t *micros, *bound_ns; /* [workers] finished alone, and when in running time */
};

struct race {
    struct options *o;
    struct contestant pipe, bound;
    struct sl_arena arena;
    struct sample *samples;
    int64_t count;
};

static void take_sample(struct race *race) {
    struct sample *s = &race->samples[race->count++];
    int64_t workers = race->o->stages, end = race->pipe.racer.state->end_ns;
    const struct racer_state *bound = race->bound.racer.state;
    SL_ASSERT(race->count < SAMPLES_MAX);
    s->micros = SL_NEW(&race->arena, int64_t, workers);
    s->bound_ns = SL_NEW(&race->arena, int64_t, workers);
    s->pipe_ns = ran_at(race->pipe.racer.state, end ? end : sl_clock_ns());
    for (int64_t w = 0; w < workers; w++) {
        s->actions += race->pipe.actions[w];
        s->micros[w] = race->bound.alone[w].micros;
        s->bound_ns[w] = ran_at(bound, race->bound.alone[w].ended_ns);
    }
}

/* Steps a second of the pipeline and of the slowest worker alone between two samples. */
static double pipe_rate(const struct race *race, const struct sample *a, const struct sample *b) {
    double a_step = (double)race->pipe.actions[race->o->stages];
    return (double)(b->actions - a->actions) / a_step * 1e9 / (double)(b->pipe_ns - a->pipe_ns);
}

static double worker_rate(const struct sample *a, const struct sample *b, int64_t w) {
    return (double)(b->micros[w] - a->micros[w]) / MICROS * 1e9 /
           (double)(b->bound_ns[w] - a->bound_ns[w]);
}

static double bound_rate(const struct race *race, const struct sample *a, const struct sample *b) {
    double slowest = worker_rate(a, b, 0);
    for (int64_t w = 1; w < race->o->stages; w++)
        slowest = worker_rate(a, b, w) < slowest ? worker_rate(a, b, w) : slowest;
    return slowest;
}

static double balance_of(const struct race *race, const struct sample *a, const struct sample *b) {
    double sum = 0;
    for (int64_t w = 0; w < race->o->stages; w++)
        sum += 1 / worker_rate(a, b, w);
    return sum * bound_rate(race, a, b) / (double)race->o->stages;
}

static void open_contestant(struct race *race, struct contestant *c, const char *schedule,
                            void (*body)(void *ctx)) {
    size_t workers = (size_t)race->o->stages;
    c->o = race->o;
    c->schedule = schedule;
    c->actions = shared_bytes(sizeof *c->actions * (workers + 1));
    c->alone = race->bound.alone;
    racer_open(&c->racer, body, c);
}

static void put_windows(const struct race *race, double share) {
    double at[WINDOWS];
    if (race->count <= 2 * WINDOWS)
        return;
    for (int64_t i = 0; i < WINDOWS; i++) {
        const struct sample *a = &race->samples[(race->count - 1) * i / WINDOWS];
        const struct sample *b = &race->samples[(race->count - 1) * (i + 1) / WINDOWS];
        at[i] = pipe_rate(race, a, b) / bound_rate(race, a, b) / share;
    }
    double middle = median_of(at, WINDOWS);
    printf(" windows=%.4f lowest=%.4f highest=%.4f", middle, at[0], at[WINDOWS - 1]);
}

/* cpu: CPU seconds of pipeline and bound. */
static void put_race(struct race *race, const double cpu[2]) {
    struct options *o = race->o;
    const struct sample *a = &race->samples[0], *b = &race->samples[race->count - 1];
    bool synchronous = sl_schedules_row_find(race->pipe.schedule)->rule == SL_RULE_SYNC;
    double m = MICROS, items = MICRO_BATCH * MICROS * TOKENS, alone = 0;
    double share = synchronous ? m / (m + (double)o->stages - 1) : 1;
    double rate = pipe_rate(race, a, b), bound = bound_rate(race, a, b);
    double done = (double)b->actions / (double)race->pipe.actions[o->stages];
    for (int64_t w = 0; w < o->stages; w++)
        alone += (double)b->micros[w] / m / (double)o->stages;
    printf(
        "RESULT bench=pipeline case=gpt schedule=%s slack=%lld lend=%lld stages=%lld threads=%lld "
        "isa=%s "
        "steps=%lld done=%.1f turns=%lld bound=%.1f tokens_s=%.1f efficiency=%.4f",
        race->pipe.schedule, (long long)o->slack, (long long)o->lend, (long long)o->stages,
        (long long)o->threads, o->isa, (long long)o->steps, done, (long long)race->count - 1,
        items * bound, items * rate, rate / bound / share);
    put_windows(race, share);
    printf(" bound_steps=%.1f balance=%.4f cpu_efficiency=%.4f goal=0.95 verdict=%s", alone,
           balance_of(race, a, b), cpu[1] / alone * done / cpu[0],
           done < (double)o->steps        ? "cut"
           : rate / bound / share >= 0.95 ? "reached"
                                          : "missed");
    if (o->torch.to)
        printf(" torch=%.1f torch_schedule=%s torch_steps=%lld ratio=%.3f", torch_rate(&o->torch),
               o->torch.best, (long long)o->torch.done, items * rate / torch_rate(&o->torch));
    printf("\n");
}

static void put_progress(const struct race *race) {
    const struct sample *b = &race->samples[race->count - 1];
    if (race->count % 10 == 0)
        printf("# %lld turns: pipeline %.1f s, bound %.1f s, torch %lld steps\n",
               (long long)race->count, (double)b->pipe_ns / 1e9, (double)b->bound_ns[0] / 1e9,
               (long long)race->o->torch.done);
    fflush(stdout);
}

static double seconds_now(void) { return (double)sl_clock_ns() / 1e9; }

static void race_schedule(struct options *o, const char *schedule) {
    struct race race = {.o = o};
    race.samples = SL_NEW(&race.arena, struct sample, SAMPLES_MAX);
    race.bound.alone = shared_bytes(sizeof *race.bound.alone * (size_t)o->stages);
    open_contestant(&race, &race.bound, schedule, run_bound);
    open_contestant(&race, &race.pipe, schedule, run_pipeline);
    double cpu[] = {racer_cpu(&race.pipe.racer), racer_cpu(&race.bound.racer)};
    double stolen = stolen_seconds(), start = seconds_now();
    torch_restart(&o->torch);
    take_sample(&race);
    bool cut = false;
    while (!race.pipe.racer.state->end_ns && !cut) {
        racer_turn(&race.pipe.racer, (double)o->turn_ms / 1e3);
        racer_turn(&race.bound.racer, (double)o->bound_ms / 1e3);
        if (o->torch.to)
            racer_turn(&o->torch.racer, (double)o->torch_ms / 1e3);
        take_sample(&race);
        put_progress(&race);
        cut = o->seconds > 0 && seconds_now() - o->begin_s > (double)o->seconds;
    }
    printf("# %.2f processors taken away\n", (stolen_seconds() - stolen) / (seconds_now() - start));
    cpu[0] = racer_cpu(&race.pipe.racer) - cpu[0];
    cpu[1] = racer_cpu(&race.bound.racer) - cpu[1];
    put_race(&race, cpu);
    fflush(stdout);
    racer_close(&race.bound.racer, false);
    racer_close(&race.pipe.racer, !cut); /* it prints its parts */
    sl_arena_free(&race.arena);
}

static void bench_gpt(struct options *o) {
    static const char *const schedules[] = {"2bw", "1f1b", "zb-h1", "gpipe", "stash"};
    if (o->python) {
        torch_open(&o->torch, o->python, o->stages, o->threads);
        torch_choose(&o->torch);
    }
    for (int i = 0; i < SL_COUNT(schedules); i++)
        if (is_listed(o->schedules, schedules[i]))
            race_schedule(o, schedules[i]);
    torch_close(&o->torch);
}

int main(int argc, char **argv) {
    struct options o = {.stages = 2,
                        .threads = 1,
                        .steps = 50,
                        .turn_ms = 1000,
                        .bound_ms = 400,
                        .torch_ms = 500,
                        .slack = 1,
                        .bind = 1,
                        .lend = 1,
                        .torch = {.schedules = "interleaved,interleaved-bound,1f1b",
                                  .steps = 2,
                                  .tokens = MICRO_BATCH * MICROS * TOKENS},
                        .schedules = "2bw,1f1b",
                        .sets = "",
                        .isa = steady_isa()};
    const struct bench_option options[] = {
        {"--stages", &o.stages, NULL},     {"--threads", &o.threads, NULL},
        {"--steps", &o.steps, NULL},       {"--turn-ms", &o.turn_ms, NULL},
        {"--bound-ms", &o.bound_ms, NULL}, {"--torch-ms", &o.torch_ms, NULL},
        {"--slack", &o.slack, NULL},       {"--bind", &o.bind, NULL},
        {"--lend", &o.lend, NULL},         {"--torch-schedules", NULL, &o.torch.schedules},
        {"--seconds", &o.seconds, NULL},   {"--python", NULL, &o.python},
        {"--isa", NULL, &o.isa},           {"--schedules", NULL, &o.schedules},
        {"--set", NULL, &o.sets},          {NULL, NULL, NULL},
    };
    if (!read_options(argc, argv, options) || o.stages < 1 || o.threads < 1 || o.steps < 3 ||
        o.turn_ms < 1 || o.bound_ms < 1 || o.torch_ms < 1)
        return 2;
    must(sl_device_cpu_limit(o.isa));
    o.begin_s = seconds_now();
    bench_gpt(&o);
    return 0;
}
