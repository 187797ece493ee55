/* sluice verify: prove a schedule from a file, or print the shortest counterexample. */
#include "base/clock.h"
#include "base/log.h"
#include "cli/command.h"
#include "interop/send_buffers.h"
#include "job/sim.h"
#include "sched/order.h"
#include "sched/watch.h"
#include "schedules/given.h"

#include <string.h>

/* Sets the memory of every worker in the plan. */
static sl_err limit_memory(struct sl_arena *arena, int64_t bytes, struct sl_sched *sched) {
    int64_t *memory = SL_NEW(arena, int64_t, sched->plan->worker_count);
    for (int i = 0; i < sched->plan->worker_count; i++)
        memory[i] = bytes;
    struct sl_plan draft = *sched->plan;
    draft.memory_bytes = memory;
    return sl_plan_build(arena, &draft, &sched->plan);
}

struct progress {
    int64_t start_ns, shown_ns;
};

/* Replaces the status line, at most ten times a second. */
static void show_progress(void *ctx, int64_t done, int64_t all) {
    struct progress *p = ctx;
    char left[SL_HUMAN_BYTES];
    int64_t now = sl_clock_ns();
    if (now - p->shown_ns < 100000000)
        return;
    p->shown_ns = now;
    double each = (double)(now - p->start_ns) / (double)done;
    sl_log_status(false, "verify: %lld of %lld actions, %.0f %%, left %s", (long long)done,
                  (long long)all, 100.0 * (double)done / (double)all,
                  sl_human_ns((int64_t)(each * (double)(all - done)), left));
}

/* Verifies. A program whose sends need buffers is refused with their number. */
static sl_err verify(const struct sl_sched *sched, const struct sl_sched_watch *watch) {
    sl_err err = sl_sched_verify_watched(sched, watch);
    int32_t buffers = err == SL_OK ? 0 : sl_interop_send_buffers(sched);
    if (buffers > 0)
        return sl_err_context(err,
                              "the sends of the file complete only if each channel between two "
                              "workers buffers %d message%s; a file of its passes alone is lowered "
                              "so that none is needed",
                              buffers, buffers == 1 ? "" : "s");
    return err;
}

static sl_err run_in(const struct sl_args *args, struct sl_arena *arena) {
    struct sl_sched *sched;
    struct sl_text text = {0};
    int64_t memory = 0;
    SL_TRY(sl_args_bytes(args, "--memory", &memory));
    sl_log_status(false, "verify: reading %s", args->positional[0]);
    SL_TRY(sl_job_sched_read(arena, args->positional[0], &sched));
    if (memory) /* lowering posts receives early if memory allows */
        SL_TRY(limit_memory(arena, memory, sched));
    if (!sched->lowered)
        SL_TRY(sl_schedules_given_lower(arena, sched, &sched));
    struct progress progress = {.start_ns = sl_clock_ns()};
    struct sl_sched_watch watch = {show_progress, &progress};
    SL_TRY(verify(sched, &watch));
    if (sl_args_has(args, "--canonical"))
        SL_TRY(sl_sched_order_require(sched));
    sl_log_status_end();
    if (sl_args_has(args, "--json"))
        sl_report_sched_json(sched, NULL, &text);
    else
        sl_report_sched(sched, &text);
    sl_err err = sl_cli_print(&text);
    sl_text_free(&text);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    sl_err err = run_in(args, &arena);
    sl_arena_free(&arena);
    return err;
}

const struct sl_command sl_cli_cmd_verify = {
    .name = "verify",
    .synopsis = "(X.plan | X.sched | X.csv) [--memory BYTES]",
    .brief = "verify a schedule, or print its first fault",
    .detail =
        "Executes the schedule symbolically and checks dependencies, deadlocks (a send waits for\n"
        "its receive), weight versions, buffer slots, memory, gradients and tied weights. Adds\n"
        "messages and slots first if the file has only passes; of a plan, builds the schedule "
        "that\n"
        "it names. Prints the first fault; the exit status is then 1. Sums of gradients may have "
        "any\n"
        "order; lowering restores the order of one worker if memory allows it.\n"
        "\n"
        "  sluice verify x.sched --memory 16GiB",
    .options =
        (const struct sl_option[]){{"--memory", "BYTES", "memory of every worker: 16GiB", false},
                                   {"--canonical", NULL, "refuse other orders of sums", false},
                                   {0}},
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
