/* The speed of pipelines; prints RESULT lines.
 *
 *   ./dev bench pipeline [--stages P] [--threads T] [--steps N] [--bound-steps N] [--python PATH]
 *                        [--torch-steps N] [--bind yes|no] [--slack K] [--schedules
 * 2bw,1f1b,zb-h1,gpipe,stash]
 *                        [--cases gpt,mmt,candle-uno,overhead,trace]
 *
 * --slack K: micro-batches that may wait between two stages (default 1: a late pass delays nobody).
 * Threads are bound to cores unless --bind no is given or there are more threads than cores.
 *
 * Cases:
 *
 * - gpt: 16 layers x 512, vocabulary 512, 128 tokens, micro-batch 4, 16 micro-batches. tokens_s is
 *   of all steps: fill, drain and optimizer steps counted. bound: the same stages at the same time
 *   without a pipeline: nobody waits for anybody, the slowest counts. efficiency is of that bound
 *   for asynchronous schedules, of bound x m/(m+p-1) for synchronous ones. balance: the mean
 *   stage's time over the slowest's. cpu_efficiency: CPU time of a step of all stages alone over
 * that in the pipeline, which a busy machine falsifies least. --python:
 * torch.distributed.pipelining (bench/pipeline_torch.py) on as many cores; ratio to its best
 * schedule.
 *
 * - mmt, candle-uno: 4 branches on 4 workers, 4 micro-batches: the stage graph against chains of 4
 *   stages, in which each stage waits for the one before it. ratio is to the best chain that needs
 *   no more memory per worker than 1.1 times the graph's (fits=1), with recomputation if it must;
 *   any_memory_ratio to the best of all chains.
 *
 * - overhead: what the runtime adds to an action when kernels do nothing.
 *
 * - trace: what measuring the timeline adds, in turns with and without.
 */
#include "base/clock.h"
#include "device/bind.h"
#include "graph/model.h"
#include "op/registry.h"
#include "plan/model.h"
#include "run/pipe_state.h"
#include "sched/deps.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MODELS "models"

struct options {
    int stages, threads;
    int64_t steps, bound_steps, slack;
    const char *python, *cases, *schedules, *sets;
    bool bind;
    int64_t torch_steps;
};

struct bench { /* a model with data */
    struct sl_graph *graph;
    struct sl_data *data;
    struct sl_data_input inputs[16];
    struct sl_train_config train;
    struct sl_arena arena;
    int *stage_of;
};

static void must(sl_err err) {
    if (err == SL_OK)
        return;
    fprintf(stderr, "bench pipeline: %s\n", sl_err_message());
    exit(1);
}

/* Is the name one of "a,b,c"? */
static bool is_listed(const char *list, const char *name) {
    size_t length = strlen(name);
    for (const char *at = strstr(list, name); at; at = strstr(at + 1, name))
        if ((at == list || at[-1] == ',') && (at[length] == ',' || at[length] == 0))
            return true;
    return false;
}

/* ---- models ---- */

static void open_data(struct bench *b) {
    for (int64_t i = 0; i < b->graph->inputs.count; i++) {
        const struct sl_value *v = sl_graph_value(b->graph, b->graph->inputs.at[i].value);
        b->inputs[i] = (struct sl_data_input){
            .name = b->graph->inputs.at[i].name,
            .dtype = v->dtype == SL_INT ? SL_DATA_INT : SL_DATA_FLOAT,
            .rank = v->shape.rank - 1,
            .below = b->graph->inputs.at[i].below,
        };
        for (int k = 1; k < v->shape.rank; k++)
            b->inputs[i].dim[k - 1] = v->shape.dim[k];
    }
    struct sl_data_spec spec = {.source = "synthetic",
                                .inputs = b->inputs,
                                .input_count = (int)b->graph->inputs.count,
                                .seed = 3,
                                .validation = 0.1,
                                .threads = 1};
    must(sl_data_open(&spec, &b->data));
}

static void open_bench(struct bench *b, const char *file, const char *sets,
                       const struct options *o) {
    static const char *const dirs[] = {MODELS, NULL};
    struct sl_model_options options = {.find_op = sl_op_find,
                                       .nearest_op = sl_op_nearest,
                                       .find_used = sl_model_find_used,
                                       .find_ctx = dirs};
    *b = (struct bench){0};
    must(sl_model_parse_sets(sets, &b->arena, &options));
    must(sl_model_read_file(file, &options, &b->graph));
    must(sl_graph_autodiff(b->graph));
    open_data(b);
    bool fits = o->stages * o->threads <= sl_bind_count() && 4 * o->threads <= sl_bind_count();
    b->train = (struct sl_train_config){
        .graph = b->graph,
        .data = b->data,
        .device = sl_device_find("cpu"),
        .threads = o->threads,
        .bind = o->bind && fits,
        .base_lr = 3e-4,
        .seed = 1,
    };
    must(sl_optim_parse("adamw", &b->train.optim));
    must(sl_lr_parse("constant", 1, &b->train.lr));
    b->stage_of = SL_NEW(&b->arena, int, b->graph->forward_count);
}

static void close_bench(struct bench *b) {
    sl_data_close(b->data);
    sl_graph_close(b->graph);
    sl_arena_free(&b->arena);
}

static const struct sl_plan *plan_of(struct bench *b, int stages, int workers, const int *worker_of,
                                     bool recompute) {
    struct sl_model_plan_spec spec = {
        .graph = b->graph,
        .stage_of = b->stage_of,
        .stage_count = stages,
        .micro_size = sl_train_full_samples(b->train.batch, b->train.micros),
        .recompute = recompute,
        .optim = &b->train.optim,
        .worker_count = workers,
        .worker_of = worker_of,
        .has_kernel = b->train.device->has_kernel,
    };
    const struct sl_plan *plan;
    must(sl_plan_from_model(&b->arena, &spec, &plan));
    return plan;
}

/* ---- the bound ---- */

struct runner {
    struct sl_pipe_worker *worker;
    pthread_barrier_t *start;
    atomic_int *left; /* runners that have not done their steps */
    int64_t steps, took_ns;
    int64_t done; /* steps of its own, also those after the others' last */
};

/* A step of a stage alone: all micro-batches forward and backward, then the optimizer. */
static sl_err step_alone(struct sl_pipe_worker *w, struct sl_seat_state *seat, int64_t step) {
    struct sl_pipe *pipe = w->pipe;
    struct sl_worker *worker = seat->train.worker;
    int64_t size = pipe->config.plan->stages[seat->stage].micro_size;
    bool sync = pipe->sched->rule == SL_RULE_SYNC;
    struct sl_update_args update = {.t = step + 1, .lr = 1e-6, .scale = 1};
    update.version = (int)((step + 1) % worker->versions);
    SL_TRY(sl_train_count(&seat->train, SL_DATA_TRAIN, 0, pipe->train.batch, seat->train.counts));
    for (int64_t j = 0; j < pipe->sched->micros[seat->stage]; j++) {
        struct sl_feed feed = {SL_DATA_TRAIN, SL_WORKER_FULL, j * size, size,
                               (int)(j % seat->slots)};
        struct sl_pass pass = {.slot = feed.slot, .accumulate = j > 0, .first_sample = j * size};
        pass.version = (int)(step % worker->versions);
        SL_TRY(sl_train_feed(&seat->train, &feed));
        SL_TRY(sl_worker_pass(worker, &pass));
        pass.phase = SL_PHASE_B;
        SL_TRY(sl_worker_pass(worker, &pass));
    }
    SL_TRY(sl_worker_sum_uses(worker, 0));
    if (sync)
        SL_TRY(sl_train_norms(&seat->train, 0));
    if (worker->versions > 1)
        SL_TRY(sl_worker_copy_weights(worker, update.version, (int)(step % worker->versions)));
    return sl_train_update(&seat->train, &update);
}

/* Goes on until all have done their steps, so that nobody runs on an idle machine. */
static void *run_alone(void *arg) {
    struct runner *r = arg;
    if (r->worker->pipe->train.bind)
        must(sl_bind_thread(r->worker->place));
    pthread_barrier_wait(r->start);
    int64_t start = sl_clock_ns();
    for (int64_t i = 0; i < r->steps || atomic_load(r->left) > 0; i++) {
        for (int k = 0; k < r->worker->seat_count; k++)
            must(step_alone(r->worker, &r->worker->seats[k], i));
        r->done++;
        if (i + 1 == r->steps) {
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

static double cpu_seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static struct bound measure_bound(struct sl_pipe *pipe, int64_t steps) {
    int count = pipe->config.plan->worker_count;
    struct runner *runners = calloc((size_t)count, sizeof *runners);
    pthread_t *threads = calloc((size_t)count, sizeof *threads);
    pthread_barrier_t start;
    atomic_int left = count;
    int64_t slowest = 0, sum = 0, done = 0;
    double cpu = cpu_seconds();
    pthread_barrier_init(&start, NULL, (unsigned)count);
    for (int w = 0; w < count; w++) {
        runners[w] = (struct runner){&pipe->workers[w], &start, &left, steps, 0, 0};
        pthread_create(&threads[w], NULL, run_alone, &runners[w]);
    }
    for (int w = 0; w < count; w++) {
        pthread_join(threads[w], NULL);
        slowest = runners[w].took_ns > slowest ? runners[w].took_ns : slowest;
        sum += runners[w].took_ns;
        done += runners[w].done;
    }
    pthread_barrier_destroy(&start);
    free(runners);
    free(threads);
    return (struct bound){(double)slowest / 1e9 / (double)steps,
                          (double)sum / (double)count / (double)slowest,
                          (cpu_seconds() - cpu) * count / (double)done};
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

/* Seconds of a step, over all steps of one run. */
static double time_steps(struct sl_pipe *pipe, int64_t steps) {
    struct sl_step_report *reports = calloc((size_t)steps, sizeof *reports);
    int64_t start = sl_clock_ns();
    must(sl_pipe_run(pipe, steps, reports));
    double seconds = (double)(sl_clock_ns() - start) / 1e9 / (double)steps;
    free(reports);
    return seconds;
}

/* The best schedule of torch, in tokens per second; 0: not asked. */
static double time_torch(const struct options *o, int64_t steps) {
    char command[1024], line[256], schedule[64];
    double best = 0, rate;
    if (!o->python)
        return 0;
    snprintf(command, sizeof command,
             "%s bench/pipeline_torch.py --stages %d --threads %d --steps %lld 2>/dev/null",
             o->python, o->stages, o->threads, (long long)steps);
    FILE *out = popen(command, "r"); /* NOLINT: a bench runs what its user names */
    while (out && fgets(line, sizeof line, out)) {
        printf("# %s", line);
        if (sscanf(line, "torch schedule=%63s tokens_s=%lf", schedule, &rate) == 2 &&
            strcmp(schedule, "alone") != 0 && rate > best)
            best = rate;
    }
    if (out)
        pclose(out);
    return best;
}

static void put_gpt(const struct options *o, const char *schedule, double tokens, double bound,
                    double efficiency, double balance) {
    printf("RESULT bench=pipeline case=gpt schedule=%s slack=%lld stages=%d threads=%d steps=%lld "
           "tokens_s=%.1f bound=%.1f efficiency=%.4f balance=%.4f",
           schedule, (long long)o->slack, o->stages, o->threads, (long long)o->steps, tokens, bound,
           efficiency, balance);
}

static void bench_gpt(const struct options *o) {
    static const char *const schedules[] = {"2bw", "1f1b", "zb-h1", "gpipe", "stash"};
    struct bench b;
    enum { TOKENS = 128, MICROS = 16 };
    open_bench(&b, "bench/models/gpt-pipe.model", o->sets, o);
    b.train.batch = 4 * MICROS;
    b.train.micros = MICROS;
    b.train.steps = o->steps;
    must(sl_plan_cut_even(b.graph, b.train.device->has_kernel, o->stages, b.stage_of));
    int *worker_of = SL_NEW(&b.arena, int, o->stages);
    for (int s = 0; s < o->stages; s++)
        worker_of[s] = s;
    const struct sl_plan *plan = plan_of(&b, o->stages, o->stages, worker_of, false);
    double items = (double)b.train.batch * TOKENS, torch = time_torch(o, o->torch_steps);
    for (int i = 0; i < SL_COUNT(schedules); i++) {
        if (!is_listed(o->schedules, schedules[i]))
            continue;
        struct sl_pipe *pipe = open_pipe(&b, plan, schedules[i], o->slack, false);
        double share = pipe->sched->rule != SL_RULE_SYNC
                           ? 1
                           : (double)MICROS / (double)(MICROS + o->stages - 1);
        time_steps(pipe, 1); /* memory is touched, threads are awake */
        struct bound bound = measure_bound(pipe, o->bound_steps);
        printf("# %s: alone %.1f tokens/s, balance %.4f\n", schedules[i], items / bound.seconds,
               bound.balance);
        fflush(stdout);
        double cpu = cpu_seconds(), tokens = items / time_steps(pipe, o->steps);
        cpu = (cpu_seconds() - cpu) / (double)o->steps;
        printf("# %s: %.1f tokens/s\n", schedules[i], tokens);
        fflush(stdout);
        struct bound after = measure_bound(pipe, o->bound_steps);
        double best = items / (bound.seconds < after.seconds ? bound.seconds : after.seconds);
        put_gpt(o, schedules[i], tokens, best, tokens / best / share, bound.balance);
        printf(" cpu_s=%.3f bound_cpu_s=%.3f cpu_efficiency=%.4f", cpu, (bound.cpu + after.cpu) / 2,
               (bound.cpu + after.cpu) / 2 / cpu);
        if (torch > 0)
            printf(" torch=%.1f ratio=%.3f", torch, tokens / torch);
        printf("\n");
        fflush(stdout);
        sl_pipe_close(pipe);
    }
    close_bench(&b);
}

/* ---- graphs of stages ---- */

/* The same stages with an edge from each to the next, where there is none: a chain, as planners
 * that know only sequences make it. */
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

static int64_t most_bytes(const struct sl_pipe *pipe) {
    int64_t most = 0;
    for (int w = 0; w < pipe->config.plan->worker_count; w++) {
        int64_t bytes = sl_sched_worker_bytes(pipe->sched, w);
        most = bytes > most ? bytes : most;
    }
    return most;
}

struct race {
    const char *name;
    double graph, chain, any; /* samples per second: best graph, chain that fits, any chain */
    int64_t bytes;            /* of the graph's neediest worker: the limit */
};

static void time_graph(struct race *race, const struct bench *b, const struct sl_plan *plan,
                       const char *schedule, bool graph) {
    struct sl_pipe *pipe = open_pipe(b, plan, schedule, 0, false);
    int64_t bytes = most_bytes(pipe);
    double seconds = 1e30;
    time_steps(pipe, 1);
    for (int round = 0; round < 3; round++) {
        double took = time_steps(pipe, b->train.steps / 3);
        seconds = took < seconds ? took : seconds;
    }
    double rate = (double)b->train.batch / seconds;
    if (graph)
        race->bytes = bytes > race->bytes ? bytes : race->bytes;
    /* equal memory: within a tenth, for weights are not cut into equal parts */
    bool fits = bytes <= race->bytes + race->bytes / 10, recompute = plan->stages[0].recompute;
    double *best = graph ? &race->graph : &race->chain;
    if (fits && rate > *best)
        *best = rate;
    if (!graph && rate > race->any)
        race->any = rate;
    printf("RESULT bench=pipeline case=%s layout=%s schedule=%s stages=%d workers=%d depth=%d "
           "recompute=%d samples_s=%.2f worker_bytes=%lld fits=%d\n",
           race->name, graph ? "graph" : "chain", schedule, plan->stage_count, plan->worker_count,
           plan->depth, recompute, rate, (long long)bytes, fits);
    fflush(stdout);
    sl_pipe_close(pipe);
}

static void bench_graph(const struct options *o, const char *name, const char *sets,
                        int64_t batch) {
    static const char *const graphs[] = {"graph", "zb-graph"};
    static const char *const chains[] = {"gpipe", "1f1b", "zb-h1", "zb-h2", "zb-graph"};
    enum { WORKERS = 4 };
    struct race race = {.name = name};
    struct bench b;
    char file[128];
    int stages, worker_of[64];
    snprintf(file, sizeof file, MODELS "/%s.model", name);
    open_bench(&b, file, sets, o);
    b.train.batch = batch;
    b.train.micros = 4;
    b.train.steps = o->steps;
    must(sl_plan_cut_branches(b.graph, b.train.device->has_kernel, 0, b.stage_of, &stages));
    sl_plan_spread(b.graph, b.stage_of, stages, WORKERS, worker_of);
    const struct sl_plan *plan = plan_of(&b, stages, WORKERS, worker_of, false);
    for (int i = 0; i < SL_COUNT(graphs); i++)
        time_graph(&race, &b, plan, graphs[i], true);
    must(sl_plan_cut_even(b.graph, b.train.device->has_kernel, WORKERS, b.stage_of));
    for (int s = 0; s < WORKERS; s++)
        worker_of[s] = s;
    for (int i = 0; i < 2 * SL_COUNT(chains); i++) {
        plan = make_chain(&b, plan_of(&b, WORKERS, WORKERS, worker_of, i % 2));
        time_graph(&race, &b, plan, chains[i / 2], false);
    }
    printf("RESULT bench=pipeline case=%s threads=%d micros=4 graph_samples_s=%.2f "
           "chain_samples_s=%.2f ratio=%.3f any_memory_samples_s=%.2f any_memory_ratio=%.3f\n",
           name, o->threads, race.graph, race.chain, race.graph / race.chain, race.any,
           race.graph / race.any);
    close_bench(&b);
}

/* ---- overhead of the runtime, cost of the trace ---- */

static sl_err run_nothing(struct sl_device *device, struct sl_exec *exec,
                          const struct sl_run_args *args) {
    (void)device;
    (void)exec;
    (void)args;
    return SL_OK;
}

static void open_small(struct bench *b, const struct options *o, int64_t steps) {
    open_bench(b, "bench/models/gpt-pipe.model", "V=16,T=4,L=4,C=16,H=2", o);
    b->train.batch = b->train.micros = 64;
    b->train.steps = steps;
}

/* Per action of a worker's list, with messages but without any kernel. */
static void bench_overhead(const struct options *o) {
    static const char *const schedules[] = {"1f1b", "2bw", "zb-h1"};
    struct sl_device_row empty = *sl_device_find("cpu");
    struct bench b;
    enum { STEPS = 40, STAGES = 2, ROUNDS = 9 };
    empty.run = run_nothing;
    open_small(&b, o, STEPS);
    b.train.device = &empty;
    must(sl_plan_cut_even(b.graph, empty.has_kernel, STAGES, b.stage_of));
    const struct sl_plan *plan = plan_of(&b, STAGES, STAGES, (int[]){0, 1}, false);
    for (int i = 0; i < SL_COUNT(schedules); i++) {
        struct sl_pipe *pipe = open_pipe(&b, plan, schedules[i], 0, false);
        double best = 1e30;
        time_steps(pipe, STEPS);
        int64_t actions = sl_sched_action_count(pipe->sched) / STAGES;
        for (int s = 0; s < SL_SEGMENT_COUNT; s++)
            actions +=
                s == SL_PERIOD ? pipe->sched->lists[s][0].count * (pipe->sched->reps - 1) : 0;
        for (int round = 0; round < ROUNDS; round++) {
            double took = time_steps(pipe, STEPS) * STEPS;
            best = took < best ? took : best;
        }
        printf("RESULT bench=pipeline case=overhead schedule=%s stages=%d transport=threads "
               "actions=%lld us_per_action=%.3f\n",
               schedules[i], STAGES, (long long)actions, best * 1e6 / (double)actions);
        sl_pipe_close(pipe);
    }
    close_bench(&b);
}

static void bench_trace(const struct options *o) {
    struct bench b;
    enum { STEPS = 6, ROUNDS = 15 };
    double best[2] = {1e30, 1e30};
    struct sl_pipe *pipes[2];
    open_bench(&b, "bench/models/gpt-pipe.model", "V=256,T=64,L=4,C=128,H=4", o);
    b.train.batch = b.train.micros = 16;
    b.train.steps = STEPS;
    must(sl_plan_cut_even(b.graph, b.train.device->has_kernel, 2, b.stage_of));
    const struct sl_plan *plan = plan_of(&b, 2, 2, (int[]){0, 1}, false);
    for (int i = 0; i < 2; i++)
        pipes[i] = open_pipe(&b, plan, "1f1b", 0, i);
    for (int round = 0; round < 2 * ROUNDS; round++) { /* CPU time: the machine may be busy */
        double start = cpu_seconds();
        time_steps(pipes[round % 2], STEPS);
        double took = (cpu_seconds() - start) / STEPS;
        best[round % 2] = took < best[round % 2] ? took : best[round % 2];
    }
    printf("RESULT bench=pipeline case=trace step_cpu_us=%.1f traced_cpu_us=%.1f cost=%.4f\n",
           best[0] * 1e6, best[1] * 1e6, best[1] / best[0] - 1);
    for (int i = 0; i < 2; i++)
        sl_pipe_close(pipes[i]);
    close_bench(&b);
}

/* ---- options ---- */

static int usage(void) {
    fprintf(stderr, "usage: ./dev bench pipeline [--stages P] [--threads T] [--steps N] "
                    "[--bound-steps N] [--python PATH] [--torch-steps N] [--bind yes|no] [--slack "
                    "K] [--set L=4] "
                    "[--schedules 2bw,1f1b,zb-h1,gpipe,stash] [--cases "
                    "gpt,mmt,candle-uno,overhead,trace]\n");
    return 2;
}

int main(int argc, char **argv) {
    struct options o = {.stages = 2,
                        .threads = 1,
                        .steps = 50,
                        .bound_steps = 4,
                        .cases = "gpt,mmt,candle-uno,overhead,trace",
                        .sets = "",
                        .slack = 1,
                        .schedules = "2bw,1f1b",
                        .torch_steps = 10,
                        .bind = true};
    for (int i = 1; i + 1 < argc; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--stages") == 0)
            o.stages = atoi(value);
        else if (strcmp(argv[i], "--threads") == 0)
            o.threads = atoi(value);
        else if (strcmp(argv[i], "--steps") == 0)
            o.steps = atoll(value);
        else if (strcmp(argv[i], "--bound-steps") == 0)
            o.bound_steps = atoll(value);
        else if (strcmp(argv[i], "--python") == 0)
            o.python = value;
        else if (strcmp(argv[i], "--cases") == 0)
            o.cases = value;
        else if (strcmp(argv[i], "--set") == 0)
            o.sets = value;
        else if (strcmp(argv[i], "--slack") == 0)
            o.slack = atoll(value);
        else if (strcmp(argv[i], "--schedules") == 0)
            o.schedules = value;
        else if (strcmp(argv[i], "--torch-steps") == 0)
            o.torch_steps = atoll(value);
        else if (strcmp(argv[i], "--bind") == 0)
            o.bind = strcmp(value, "no") != 0;
        else
            return usage();
    }
    if (argc % 2 == 0 || o.stages < 1 || o.threads < 1 || o.steps < 3 || o.bound_steps < 1)
        return usage();
    if (is_listed(o.cases, "gpt"))
        bench_gpt(&o);
    if (is_listed(o.cases, "mmt"))
        bench_graph(&o, "mmt", "branches=4,T=64,L=2,C=256,H=4,F=1024,classes=10", 16);
    if (is_listed(o.cases, "candle-uno"))
        bench_graph(&o, "candle-uno", "branches=4,L=4,W=1024,shrink=4", 256);
    if (is_listed(o.cases, "overhead"))
        bench_overhead(&o);
    if (is_listed(o.cases, "trace"))
        bench_trace(&o);
    return 0;
}
