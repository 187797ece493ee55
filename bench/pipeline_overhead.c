/* The runtime's overhead per action with empty kernels, on threads and over MPI.
 *
 *   bench/pipeline_overhead [threads|mpi|mpi-p2p [ROUNDS]]
 *
 * With mpi: mpirun -n 2 bench/pipeline_overhead mpi; each rank needs a core of its own.
 *
 * Two stages, a batch of 64 micro-batches, messages of 64 bytes. `us_per_action` is the time of a
 * run divided by the actions of a worker (F, B or I and W, SEND, RECV, STEP), the best of several
 * runs. It includes waiting for the other worker. `trace_us` is the additional time per action with
 * a measured timeline: the difference of the best runs with and without, which alternate. A pass
 * that takes a hundred times as long pays less than 1 %.
 */
#include "base/clock.h"
#include "graph/model.h"
#include "op/registry.h"
#include "pipe/pipe.h"
#include "plan/cut.h"
#include "plan/model.h"
#include "schedules/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STAGES = 2, MICROS = 64, STEPS = 40 };

static int rounds = 15;

static const char model[] = "model chain\ninput x : float[B, 16]\ninput label : int[B] < 16\n"
                            "param w0[16, 16] ~ normal(0.2)\nparam w1[16, 16] ~ normal(0.2)\n"
                            "a = matmul(x, w0, tb = 1)\n"
                            "loss cross_entropy(matmul(a, w1, tb = 1), label)\n";

static void must(sl_err err) {
    if (err == SL_OK)
        return;
    fprintf(stderr, "pipeline_overhead: %s\n", sl_err_message());
    exit((int)err);
}

/* ---- a device that only moves messages ---- */

static struct sl_device_row empty;

static sl_err open_empty(const struct sl_device_config *config, struct sl_device **out) {
    SL_TRY(sl_device_find("cpu")->open(config, out));
    (*out)->row = &empty; /* what its owner calls */
    return SL_OK;
}

static sl_err run_nothing(struct sl_device *device, struct sl_exec *exec,
                          const struct sl_device_args *args) {
    (void)device;
    (void)exec;
    (void)args;
    return SL_OK;
}

static sl_err step_nothing(struct sl_device *device, const struct sl_step_item *items, int count) {
    (void)device;
    (void)items;
    (void)count;
    return SL_OK;
}

static sl_err norm_of_nothing(struct sl_device *device, const struct sl_norm_item *items,
                              int count) {
    (void)device;
    for (int i = 0; i < count; i++)
        *items[i].sum = 0;
    return SL_OK;
}

struct bench {
    struct sl_arena arena;
    struct sl_graph *graph;
    struct sl_data *data;
    struct sl_data_input inputs[2];
    struct sl_train_config train;
    const struct sl_plan *plan;
    int *stage_of;
};

static void open_bench(struct bench *b, const struct sl_device_row *device) {
    struct sl_model_options options = {.find_op = sl_op_find, .nearest_op = sl_op_nearest};
    must(sl_graph_model_read("chain", model, strlen(model), &options, &b->graph));
    must(sl_graph_autodiff(b->graph));
    b->inputs[0] =
        (struct sl_data_input){.name = "x", .dtype = SL_DATA_FLOAT, .rank = 1, .dim = {16}};
    b->inputs[1] = (struct sl_data_input){.name = "label", .dtype = SL_DATA_INT, .below = 16};
    struct sl_data_spec data = {.source = "synthetic",
                                .inputs = b->inputs,
                                .input_count = 2,
                                .seed = 3,
                                .validation = 0.1,
                                .threads = 1};
    must(sl_data_open(&data, &b->data));
    b->train = (struct sl_train_config){.graph = b->graph,
                                        .data = b->data,
                                        .device = device,
                                        .threads = 1,
                                        .base_lr = 0.1,
                                        .batch = MICROS,
                                        .micros = MICROS,
                                        .steps = STEPS,
                                        .seed = 1};
    must(sl_optim_parse("sgd", &b->train.optim));
    must(sl_optim_lr_parse("constant", STEPS, &b->train.lr));
    b->stage_of = SL_NEW(&b->arena, int, b->graph->forward_count);
    must(sl_plan_cut_even(b->graph, device->has_kernel, STAGES, b->stage_of));
    struct sl_model_plan_spec spec = {.graph = b->graph,
                                      .stage_of = b->stage_of,
                                      .stage_count = STAGES,
                                      .micro_size = 1,
                                      .optim = &b->train.optim,
                                      .policy = &b->train.policy,
                                      .worker_count = STAGES,
                                      .worker_of = (int[]){0, 1},
                                      .has_kernel = device->has_kernel,
                                      .extra_bytes = device->extra_bytes,
                                      .threads = 1};
    must(sl_plan_from_model(&b->arena, &spec, &b->plan));
}

static int64_t count_actions(const struct bench *b, const char *schedule) {
    struct sl_arena arena = {0};
    struct sl_schedule_opts opts = {.schedule = schedule, .batch = MICROS, .iters = STEPS};
    const struct sl_sched *sched;
    must(sl_schedules_build(&arena, b->plan, &opts, &sched));
    int64_t count = sched->lists[SL_PROLOGUE][0].count + sched->lists[SL_EPILOGUE][0].count +
                    sched->lists[SL_PERIOD][0].count * sched->reps;
    sl_arena_free(&arena);
    return count;
}

/* Microseconds of the best runs, with a trace [1] and without [0]. */
static void time_runs(const struct bench *b, struct sl_comm *comm, const char *schedule,
                      double best[2]) {
    struct sl_step_report reports[STEPS];
    struct sl_pipe *pipes[2];
    for (int i = 0; i < 2; i++) {
        struct sl_pipe_config config = {.train = &b->train,
                                        .plan = b->plan,
                                        .stage_of = b->stage_of,
                                        .schedule = schedule,
                                        .comm = comm,
                                        .bind = SL_BIND_AUTO,
                                        .trace = i};
        must(sl_pipe_open(&config, &pipes[i]));
        best[i] = 1e30;
    }
    for (int i = 0; i < 2 * rounds; i++) {
        int64_t start = sl_clock_ns();
        must(sl_pipe_run(pipes[i % 2], STEPS, reports));
        double took = (double)(sl_clock_ns() - start) / 1e3;
        best[i % 2] = took < best[i % 2] ? took : best[i % 2];
    }
    for (int i = 0; i < 2; i++)
        sl_pipe_close(pipes[i]);
}

static void measure(const struct bench *b, const struct sl_transport *row, struct sl_comm *comm,
                    const char *schedule) {
    int64_t actions = count_actions(b, schedule);
    double best[2];
    time_runs(b, comm, schedule, best);
    if (comm->rank == 0)
        printf("RESULT bench=pipeline_overhead transport=%s ranks=%d schedule=%s stages=%d "
               "actions=%lld us_per_action=%.3f limit=%d trace_us=%.3f\n",
               row->name, comm->ranks, schedule, STAGES, (long long)actions,
               best[0] / (double)actions, strncmp(row->name, "mpi", 3) == 0 ? 60 : 20,
               (best[1] - best[0]) / (double)actions);
    fflush(stdout);
}

int main(int argc, char **argv) {
    static const char *const schedules[] = {"1f1b", "2bw", "zb-h1"};
    const struct sl_transport *row;
    struct sl_comm *comm;
    struct bench b = {0};
    empty = *sl_device_find("cpu");
    empty.open = open_empty;
    empty.run = run_nothing;
    empty.step = step_nothing;
    empty.norm_sq = norm_of_nothing;
    must(sl_comm_transport_find(argc > 1 ? argv[1] : "threads", &row));
    rounds = argc > 2 ? atoi(argv[2]) : rounds;
    must(sl_comm_open(row, NULL, &comm));
    open_bench(&b, &empty);
    for (int i = 0; i < SL_COUNT(schedules); i++)
        measure(&b, row, comm, schedules[i]);
    sl_data_close(b.data);
    sl_graph_close(b.graph);
    sl_arena_free(&b.arena);
    must(sl_comm_settle(comm, SL_OK));
    sl_comm_close(comm);
    return 0;
}
