/* The speed of chains of stages on threads; prints RESULT lines.
 *
 *   ./dev bench pipeline [--stages P] [--threads T] [--steps N] [--rounds R] [--bound-steps N]
 *                        [--slack K] [--bind 0|1] [--set L=4] [--schedules 2bw,1f1b,zb-h1,...]
 *                        [--isa avx512] [--python PATH] [--torch-steps N] [--torch-schedules a,b]
 *
 * gpt: 16 layers x 512, vocabulary 512, 128 tokens, micro-batch 4, 16 micro-batches a step.
 *
 *   tokens_s    of a run of N steps: fill, drain and optimizer steps counted; the median of R runs.
 *   bound       the same stages, all at the same time, without a pipeline: nobody waits for
 *               anybody. The same work: data, passes, losses, gradient norms, steps into the other
 *               weight version; but no messages. The slowest stage counts. Bounds are measured
 *               before and after every run; a run is compared with the mean of its two.
 *   efficiency  tokens_s / bound (asynchronous), / (bound x m/(m+p-1)) (synchronous); the median of
 *               the rounds, spread: (largest - smallest) / median; low, high: its 95 % interval,
 *               of 5 rounds or more.
 *   balance     the mean stage's time over the slowest's, in the bound.
 *   cpu_efficiency  processor time of a step of all stages alone over that in the pipeline: what a
 *               busy machine falsifies least. It knows nothing of waiting.
 *
 * A line case=parts per worker says where the time of the last run went; its parts add up to 1:
 *   alone       what the same work took in the bound
 *   forward, backward, step   how much longer (shorter: negative) it took in the pipeline, messages
 *               copied in and out included
 *   fill, drain before its first pass, after its last action
 *   imbalance   what the slowest stage needs longer than this one
 *   wait        the rest: for messages, for places, for the machine
 *
 * --python: torch.distributed.pipelining (bench/pipeline_torch.py) on as many cores. Each of its
 * schedules once; the best then runs N steps before and after every run of ours, as the bound does;
 * ratio: to the mean of the two, the median of the rounds. --slack K: micro-batches that may wait
 * between two stages (default 1: a late pass delays nobody). Threads are bound to cores unless
 * --bind 0, or when there are not enough.
 */
#include "pipe_bench.h"
#include "pipe_torch.h"

#include "device/cpu/cpu.h"

#include <pthread.h>

enum { TOKENS = 128, MICROS = 16, MICRO_BATCH = 4 };

struct options {
    int64_t stages, threads, steps, rounds, bound_steps, slack, bind;
    const char *python, *schedules, *sets, *isa;
    struct torch torch;
};

/* ---- times of the parts of a stage's work ---- */

enum part { FORWARD, BACKWARD, STEP, PARTS };

struct times { /* of one worker, seconds */
    double *at[PARTS];
    int64_t count[PARTS];
    double sum[PARTS];
};

static void open_times(struct times *t, struct sl_arena *arena, int64_t steps) {
    *t = (struct times){0};
    for (int k = 0; k < PARTS; k++)
        t->at[k] = SL_NEW(arena, double, steps *MICROS + 1);
}

static void put_time(struct times *t, enum part part, int64_t ns) {
    t->at[part][t->count[part]++] = (double)ns / 1e9;
    t->sum[part] += (double)ns / 1e9;
}

static double all_times(const struct times *t) {
    return t->sum[FORWARD] + t->sum[BACKWARD] + t->sum[STEP];
}

/* ---- the bound ---- */

struct runner {
    struct sl_pipe_worker *worker;
    pthread_barrier_t *start;
    atomic_int *left; /* runners that have not done their steps */
    int64_t steps, took_ns;
    int64_t done; /* steps of its own, also those after the others' last */
    struct times *times;
    int64_t *clock; /* end of the part before */
};

static void end_part(struct runner *r, enum part part) {
    int64_t now = sl_clock_ns();
    if (r->done < r->steps)
        put_time(r->times, part, now - *r->clock);
    *r->clock = now;
}

static sl_err pass_alone(struct runner *r, struct sl_seat_state *seat, int64_t step, int64_t j) {
    struct sl_train *train = &seat->train;
    const struct sl_program *program = train->worker->programs[SL_WORKER_FULL];
    int64_t size = r->worker->pipe->config.plan->stages[seat->stage].micro_size;
    double terms[SL_LOSS_MOST] = {0};
    struct sl_feed feed = {SL_DATA_TRAIN, SL_WORKER_FULL, j * size, size, (int)(j % seat->slots)};
    struct sl_pass pass = {.slot = feed.slot, .accumulate = j > 0, .first_sample = j * size};
    pass.version = (int)(step % train->worker->versions);
    SL_TRY(sl_train_feed(train, &feed));
    SL_TRY(sl_worker_pass(train->worker, &pass));
    if (program->losses.count)
        SL_TRY(sl_train_loss_terms(train, &feed, terms));
    end_part(r, FORWARD);
    pass.phase = SL_PHASE_B;
    SL_TRY(sl_worker_pass(train->worker, &pass));
    end_part(r, BACKWARD);
    return SL_OK;
}

/* A step of a stage alone: all micro-batches forward and backward, then the optimizer. */
static sl_err step_alone(struct runner *r, struct sl_seat_state *seat, int64_t step) {
    struct sl_train *train = &seat->train;
    int versions = train->worker->versions;
    int from = (int)(step % versions), to = (int)((step + 1) % versions);
    struct sl_update_args update = {.t = step + 1, .lr = 1e-6, .scale = 1, .version = to};
    SL_TRY(sl_train_count(train, SL_DATA_TRAIN, 0, train->config.batch, train->counts));
    for (int64_t j = 0; j < r->worker->pipe->sched->micros[seat->stage]; j++)
        SL_TRY(pass_alone(r, seat, step, j));
    SL_TRY(sl_worker_sum_uses(train->worker, 0));
    SL_TRY(sl_train_norms(train, 0));
    if (from != to)
        SL_TRY(sl_worker_copy_weights(train->worker, to, from));
    SL_TRY(sl_train_update(train, &update));
    end_part(r, STEP);
    return SL_OK;
}

/* Goes on until all have done their steps, so that nobody runs on an idle machine. */
static void *run_alone(void *arg) {
    struct runner *r = arg;
    int64_t clock;
    if (r->worker->pipe->first_place >= 0)
        must(sl_bind_thread(r->worker->place));
    r->clock = &clock;
    pthread_barrier_wait(r->start);
    int64_t start = clock = sl_clock_ns();
    while (r->done < r->steps || atomic_load(r->left) > 0) {
        must(step_alone(r, &r->worker->seats[0], r->done));
        if (++r->done == r->steps) {
            r->took_ns = sl_clock_ns() - start;
            atomic_fetch_sub(r->left, 1);
        }
    }
    return NULL;
}

struct bound {
    double seconds; /* of a step of the slowest */
    double balance;
    double cpu; /* seconds of all threads for a step of all stages */
};

static struct bound measure_bound(struct sl_pipe *pipe, int64_t steps, struct times *times) {
    int count = pipe->config.plan->worker_count;
    struct runner *runners = calloc((size_t)count, sizeof *runners);
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    pthread_barrier_t start;
    atomic_int left = count;
    int64_t slowest = 0, sum = 0, done = 0, cpu = sl_clock_process_ns();
    pthread_barrier_init(&start, NULL, (unsigned)count);
    for (int w = 0; w < count; w++) {
        runners[w] = (struct runner){.worker = &pipe->workers[w],
                                     .start = &start,
                                     .left = &left,
                                     .steps = steps,
                                     .times = &times[w]};
        pthread_create(&threads[w], NULL, run_alone, &runners[w]);
    }
    for (int w = 0; w < count; w++) {
        pthread_join(threads[w], NULL);
        slowest = runners[w].took_ns > slowest ? runners[w].took_ns : slowest;
        sum += runners[w].took_ns;
        done += runners[w].done;
    }
    cpu = sl_clock_process_ns() - cpu;
    pthread_barrier_destroy(&start);
    free(runners);
    free(threads);
    return (struct bound){(double)slowest / 1e9 / (double)steps,
                          (double)sum / (double)count / (double)slowest,
                          (double)cpu / 1e9 * count / (double)done};
}

/* ---- where the time of a run went ---- */

static const enum part part_of[SL_KIND_COUNT] = {
    [SL_F] = FORWARD,    [SL_B] = BACKWARD, [SL_I] = BACKWARD,      [SL_W] = BACKWARD,
    [SL_SEND] = PARTS,   [SL_RECV] = PARTS, [SL_RECOMPUTE] = PARTS, [SL_REDUCE] = STEP,
    [SL_PREDICT] = STEP, [SL_STEP] = STEP,
};

struct lane_ends {
    double first, last; /* seconds: start of the first pass, end of the last action */
};

static struct lane_ends read_lane(const struct sl_lane *lane, struct times *t) {
    struct lane_ends ends = {-1, 0};
    for (int64_t i = 0; i < lane->count; i++) {
        const struct sl_span *span = &lane->at[i];
        enum part part = part_of[span->action.kind];
        if (part == PARTS)
            continue;
        put_time(t, part, span->end_ns - span->start_ns);
        ends.first = ends.first < 0 ? (double)span->start_ns / 1e9 : ends.first;
        ends.last = (double)span->end_ns / 1e9;
    }
    return ends;
}

static void put_parts(const struct sl_pipe *pipe, int worker, struct times *alone, double slowest,
                      int64_t steps) {
    static const char *const names[] = {"forward", "backward", "step"};
    struct sl_arena arena = {0};
    struct times run;
    const struct sl_timeline *timeline = sl_pipe_timeline(pipe);
    double all = (double)timeline->end_ns / 1e9;
    double steps_alone = (double)alone->count[FORWARD] / MICROS;
    double own = all_times(alone) / steps_alone * (double)steps;
    open_times(&run, &arena, 4 * steps);
    struct lane_ends ends = read_lane(&timeline->lanes[worker], &run);
    double imbalance = slowest * (double)steps - own;
    double wait = all - ends.first - (all - ends.last) - all_times(&run) - imbalance;
    printf("RESULT bench=pipeline case=parts schedule=%s slack=%d worker=%d alone=%.4f",
           pipe->sched->name, pipe->sched->slack, worker, own / all);
    for (int k = 0; k < PARTS; k++)
        printf(" %s=%.4f", names[k],
               (run.sum[k] - alone->sum[k] / steps_alone * (double)steps) / all);
    printf(" fill=%.4f drain=%.4f imbalance=%.4f wait=%.4f", ends.first / all,
           (all - ends.last) / all, imbalance / all, wait / all);
    for (int k = 0; k < PARTS; k++)
        printf(" %s_ms=%.3f %s_alone_ms=%.3f", names[k], 1e3 * median_of(run.at[k], run.count[k]),
               names[k], 1e3 * median_of(alone->at[k], alone->count[k]));
    printf("\n");
    sl_arena_free(&arena);
}

/* ---- gpt ---- */

static struct sl_pipe *open_pipe(const struct bench *b, const struct sl_plan *plan,
                                 const char *schedule, int64_t slack, bool trace) {
    struct sl_pipe_config config = {.train = &b->train,
                                    .plan = plan,
                                    .stage_of = b->stage_of,
                                    .schedule = schedule,
                                    .slack = slack,
                                    .trace = trace};
    struct sl_pipe *pipe;
    must(sl_pipe_open(&config, &pipe));
    return pipe;
}

struct rounds {
    double *tokens, *bound, *efficiency, *balance, *cpu_efficiency, *torch, *ratio; /* [rounds] */
};

/* Torch, bound, run, bound, torch, run, bound, torch... The times of the bound are those of the
 * last run's two. */
static void measure_rounds(struct options *o, struct sl_pipe *pipe, struct times *alone,
                           struct rounds *out) {
    int count = pipe->config.plan->worker_count;
    double items = (double)pipe->train.batch * TOKENS, m = MICROS;
    double share = pipe->sched->rule != SL_RULE_SYNC ? 1 : m / (m + count - 1);
    struct times *unused = SL_NEW(&pipe->arena, struct times, count);
    for (int w = 0; w < count; w++) {
        open_times(&alone[w], &pipe->arena, 2 * o->bound_steps);
        open_times(&unused[w], &pipe->arena, o->bound_steps * o->rounds);
    }
    double torch_before = torch_rate(&o->torch);
    struct bound before = measure_bound(pipe, o->bound_steps, o->rounds > 1 ? unused : alone);
    printf("# bound %.1f\n", items / before.seconds);
    fflush(stdout);
    for (int64_t r = 0; r < o->rounds; r++) {
        double stolen = stolen_seconds();
        struct cost cost = run_steps(pipe, o->steps);
        stolen = (stolen_seconds() - stolen) / (cost.wall * (double)o->steps);
        printf("# round %lld: %.1f tokens/s; %.2f processors taken away\n", (long long)r + 1,
               items / cost.wall, stolen);
        fflush(stdout);
        struct bound after =
            measure_bound(pipe, o->bound_steps, r + 2 < o->rounds ? unused : alone);
        double torch_after = torch_rate(&o->torch);
        double bound = (before.seconds + after.seconds) / 2;
        out->tokens[r] = items / cost.wall;
        out->bound[r] = items / bound;
        out->efficiency[r] = bound / cost.wall / share;
        out->balance[r] = (before.balance + after.balance) / 2;
        out->cpu_efficiency[r] = (before.cpu + after.cpu) / 2 / cost.cpu;
        out->torch[r] = (torch_before + torch_after) / 2;
        out->ratio[r] = out->torch[r] > 0 ? out->tokens[r] / out->torch[r] : 0;
        printf("# bound %.1f before, %.1f after; cpu %.3f s, alone %.3f s\n",
               items / before.seconds, items / after.seconds, cost.cpu,
               (before.cpu + after.cpu) / 2);
        fflush(stdout);
        before = after;
        torch_before = torch_after;
    }
}

static void bench_schedule(struct options *o, struct sl_pipe *pipe) {
    int count = pipe->config.plan->worker_count;
    struct times *alone = SL_NEW(&pipe->arena, struct times, count);
    struct rounds rounds;
    double **lists[] = {&rounds.tokens,         &rounds.bound, &rounds.efficiency, &rounds.balance,
                        &rounds.cpu_efficiency, &rounds.torch, &rounds.ratio};
    double slowest = 0;
    for (int i = 0; i < SL_COUNT(lists); i++)
        *lists[i] = SL_NEW(&pipe->arena, double, o->rounds);
    run_steps(pipe, 1); /* memory is touched, threads are awake */
    measure_rounds(o, pipe, alone, &rounds);
    double tokens = median_of(rounds.tokens, o->rounds);
    double efficiency = median_of(rounds.efficiency, o->rounds);
    printf("RESULT bench=pipeline case=gpt schedule=%s slack=%d stages=%d threads=%lld steps=%lld "
           "rounds=%lld bound=%.1f tokens_s=%.1f efficiency=%.4f spread=%.4f balance=%.4f "
           "cpu_efficiency=%.4f bound_to_cores=%d",
           pipe->sched->name, pipe->sched->slack, count, (long long)o->threads, (long long)o->steps,
           (long long)o->rounds, median_of(rounds.bound, o->rounds), tokens, efficiency,
           spread_of(rounds.efficiency, o->rounds), median_of(rounds.balance, o->rounds),
           median_of(rounds.cpu_efficiency, o->rounds), pipe->first_place >= 0);
    if (o->rounds >= 5)
        put_interval(interval_of(rounds.efficiency, o->rounds), 0.95);
    if (o->torch.to)
        printf(" torch=%.1f torch_schedule=%s ratio=%.3f", median_of(rounds.torch, o->rounds),
               o->torch.best, median_of(rounds.ratio, o->rounds));
    printf("\n");
    for (int w = 0; w < count; w++) {
        double own = all_times(&alone[w]) * MICROS / (double)alone[w].count[FORWARD];
        slowest = own > slowest ? own : slowest;
    }
    for (int w = 0; w < count; w++)
        put_parts(pipe, w, &alone[w], slowest, o->steps);
    fflush(stdout);
}

static void bench_gpt(struct options *o) {
    static const char *const schedules[] = {"2bw", "1f1b", "zb-h1", "gpipe", "stash"};
    struct bench b;
    open_bench(&b, "bench/models/gpt-pipe.model", o->sets, (int)o->threads);
    b.train.batch = MICRO_BATCH * MICROS;
    b.train.micros = MICROS;
    b.train.steps = o->steps;
    b.train.bind = o->bind && o->stages * o->threads <= sl_bind_count();
    const struct sl_plan *plan = even_plan(&b, (int)o->stages, false);
    if (o->python) {
        torch_open(&o->torch, o->python, o->stages, o->threads);
        torch_choose(&o->torch);
    }
    for (int i = 0; i < SL_COUNT(schedules); i++) {
        if (!is_listed(o->schedules, schedules[i]))
            continue;
        struct sl_pipe *pipe = open_pipe(&b, plan, schedules[i], o->slack, true);
        bench_schedule(o, pipe);
        sl_pipe_close(pipe);
    }
    torch_close(&o->torch);
    close_bench(&b);
}

int main(int argc, char **argv) {
    struct options o = {
        .stages = 2,
        .threads = 1,
        .steps = 50,
        .rounds = 1,
        .bound_steps = 4,
        .slack = 1,
        .bind = 1,
        .torch = {.schedules = "interleaved,interleaved-bound,1f1b,zb-v", .steps = 3},
        .schedules = "2bw,1f1b",
        .sets = ""};
    const struct bench_option options[] = {
        {"--stages", &o.stages, NULL},
        {"--threads", &o.threads, NULL},
        {"--steps", &o.steps, NULL},
        {"--rounds", &o.rounds, NULL},
        {"--bound-steps", &o.bound_steps, NULL},
        {"--slack", &o.slack, NULL},
        {"--bind", &o.bind, NULL},
        {"--torch-steps", &o.torch.steps, NULL},
        {"--torch-schedules", NULL, &o.torch.schedules},
        {"--python", NULL, &o.python},
        {"--isa", NULL, &o.isa},
        {"--schedules", NULL, &o.schedules},
        {"--set", NULL, &o.sets},
        {NULL, NULL, NULL},
    };
    if (!read_options(argc, argv, options) || o.stages < 1 || o.threads < 1 || o.steps < 3 ||
        o.bound_steps < 1 || o.rounds < 1)
        return 2;
    must(sl_cpu_limit(o.isa));
    bench_gpt(&o);
    return 0;
}
