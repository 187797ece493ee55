/* sluice plan: cut a model, or a graph of another planner, into stages for a machine. */
#include "base/clock.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/model_file.h"
#include "cli/plan_args.h"
#include "cli/terminal.h"
#include "hf/folder.h"
#include "job/plan_given.h"
#include "job/schedule.h"
#include "sizing/degree.h"
#include "sizing/fits.h"

/* Is the file an input of another planner? It is if it does not end in .model. */
static bool is_imported(const struct sl_args *args) {
    const char *name = args->positional[0];
    return sl_args_has(args, "--cost-model") ||
           (!sl_cli_ends(name, ".model") && sl_file_exists(name) && !sl_hf_is_folder(name));
}

/* ---- a graph of another planner ---- */

static sl_err parse_peer(const struct sl_args *args, struct sl_job_peer_request *out) {
    *out = (struct sl_job_peer_request){.file = args->positional[0],
                                        .cost_model = sl_args_text(args, "--cost-model", NULL),
                                        .planner = sl_args_text(args, "--planner", NULL),
                                        .levels = sl_args_text(args, "--levels", NULL),
                                        .bandwidths = sl_args_text(args, "--bandwidth", NULL),
                                        .cpus = -1,
                                        .memory_bytes = -1,
                                        .all_devices = sl_args_has(args, "--all-devices"),
                                        .straight = sl_args_has(args, "--straight"),
                                        .free_links = sl_args_has(args, "--free-links"),
                                        .scattered = sl_args_has(args, "--non-contiguous")};
    if (sl_args_has(args, "-o"))
        return sl_fail(SL_ERR_USAGE, "plan: -o writes plans of models; --json has everything of "
                                     "this plan");
    SL_TRY(sl_args_int(args, "--devices", 1, 1 << 20, &out->devices));
    SL_TRY(sl_args_int(args, "--micro", 1, 1 << 30, &out->micros));
    SL_TRY(sl_args_int(args, "--cpus", 0, 1 << 20, &out->cpus));
    SL_TRY(sl_args_bytes(args, "--memory", &out->memory_bytes));
    return sl_args_double(args, "--time-limit", 0, 1e7, &out->time_limit_s);
}

static sl_err plan_imported(const struct sl_args *args, struct sl_arena *arena,
                            struct sl_text *text) {
    struct sl_job_peer_request request;
    struct sl_report_peer_plan report;
    SL_TRY(parse_peer(args, &request));
    SL_TRY(sl_job_plan_peer(arena, &request, &report));
    if (sl_args_has(args, "--json"))
        sl_report_peer_plan_json(&report, text);
    else
        sl_report_peer_plan(&report, text);
    return SL_OK;
}

/* ---- a model ---- */

struct progress {
    int64_t start_ns, shown_ns;
};

/* Replaces the status line, at most ten times a second. */
static void show_progress(void *ctx, const char *phase, const struct sl_search_result *so_far,
                          int64_t until_ns) {
    struct progress *p = ctx;
    char best[SL_HUMAN_BYTES] = "none", took[SL_HUMAN_BYTES], left[SL_HUMAN_BYTES];
    int64_t now = sl_clock_ns();
    if (now - p->shown_ns < 100000000)
        return;
    p->shown_ns = now;
    if (so_far->found)
        sl_human_ns(so_far->best.score.step_ns, best);
    sl_log_status(false, "plan: %s, %lld played, best step %s, %s so far%s%s", phase,
                  (long long)so_far->simulated, best, sl_human_ns(now - p->start_ns, took),
                  until_ns > now ? ", left at most " : "",
                  until_ns > now ? sl_human_ns(until_ns - now, left) : "");
}

static sl_err parse_model(const struct sl_args *args, struct sl_job_plan_request *out) {
    int64_t threads = 0;
    SL_TRY(sl_cli_plan_request(args, out));
    out->planner = sl_args_text(args, "--planner", NULL);
    out->staleness_cost = sl_args_text(args, "--staleness-cost", NULL);
    SL_TRY(sl_cli_degrees(args, &out->dp, &out->pp));
    out->straight = sl_args_has(args, "--straight");
    out->uniform = sl_args_has(args, "--uniform");
    out->whole_layers = sl_args_has(args, "--whole-layers");
    out->what_if = !sl_args_has(args, "--json");
    out->progress = show_progress;
    SL_TRY(sl_args_int(args, "--devices", 1, SL_DEVICE_MAX, &out->devices));
    SL_TRY(sl_args_int(args, "--threads", 1, 1024, &threads));
    out->threads = (int)threads;
    return sl_args_double(args, "--time-limit", 0, 1e7, &out->time_limit_s);
}

static sl_err write_plan(const struct sl_plan *plan, const char *path) {
    struct sl_text text = {0};
    sl_plan_write(plan, &text);
    sl_err err = sl_file_write(path, text.at, text.length);
    sl_text_free(&text);
    return err;
}

/* Plans for a schedule from a file: searches only the cut. */
static sl_err plan_given(const struct sl_args *args, struct sl_arena *arena,
                         const struct sl_job_plan_request *request, struct sl_text *text) {
    struct sl_job_planned_given planned;
    SL_TRY(sl_job_plan_given(arena, request, &planned));
    if (sl_args_has(args, "-o"))
        SL_TRY(write_plan(planned.plan, sl_args_text(args, "-o", NULL)));
    if (sl_args_has(args, "--json")) {
        sl_report_sched_json(planned.sim.sched, planned.sim.sim, text);
        return SL_OK;
    }
    sl_report_sched(planned.sim.sched, text);
    sl_report_sim(&planned.sim, NULL, text);
    sl_text_printf(text, "the best of %d cuts\n", planned.tried);
    return SL_OK;
}

/* Answers --fits; the exit status is 1 if the model does not fit. */
static sl_err answer_fits(const struct sl_args *args, struct sl_arena *arena,
                          const struct sl_graph *graph, struct sl_text *text) {
    struct sl_sizing_request request = {.plan = {.graph = graph}};
    struct sl_report_fits report;
    SL_TRY(parse_model(args, &request.plan));
    request.plan.graph = graph;
    SL_TRY(sl_sizing_fits(arena, &request, &report));
    if (sl_args_has(args, "--json"))
        sl_report_fits_json(&report, text);
    else
        sl_report_fits(&report, text);
    if (report.sim.score.over_bytes <= 0)
        return SL_OK;
    SL_TRY(sl_cli_print(text));
    text->length = 0;
    return sl_fail(SL_ERR_REFUSED, "the model does not fit");
}

/* In 16 bits, plans with shards are for other systems (design note 0030). */
static void note_if_untrainable(const struct sl_args *args, const struct sl_job_planned *planned) {
    const struct sl_plan *plan = planned->search.plan;
    bool half = strcmp(sl_args_text(args, "--dtype", "fp32"), "fp32") != 0, shards = false;
    for (int s = 0; s < plan->stage_count; s++)
        shards |= plan->stages[s].shards > 1;
    if (half && shards)
        sl_log_note(
            "'sluice train' cannot run this plan, 'sluice export' can write it: shards exchange "
            "fp32 tensors only");
}

static sl_err plan_graph(const struct sl_args *args, struct sl_arena *arena,
                         const struct sl_graph *graph, struct sl_text *text) {
    struct sl_job_plan_request request;
    struct sl_job_planned planned;
    struct progress progress = {.start_ns = sl_clock_ns()};
    SL_TRY(parse_model(args, &request));
    if (sl_args_has(args, "--fits"))
        return answer_fits(args, arena, graph, text);
    request.graph = graph;
    request.progress_ctx = &progress;
    if (sl_job_schedule_is_file(request.schedule))
        return plan_given(args, arena, &request, text);
    SL_TRY(sl_sizing_plan(arena, &request, &planned));
    struct sl_report_search report = {.spec = &planned.spec, .search = &planned.search};
    sl_err err = SL_OK;
    note_if_untrainable(args, &planned);
    if (sl_args_has(args, "-o"))
        err = write_plan(planned.search.plan, sl_args_text(args, "-o", NULL));
    if (err == SL_OK && sl_args_has(args, "--json"))
        sl_report_search_json(&report, text);
    else if (err == SL_OK)
        sl_report_search(&report, text);
    sl_job_planned_close(&planned);
    return err;
}

static sl_err plan_model(const struct sl_args *args, struct sl_arena *arena, struct sl_text *text) {
    struct sl_graph *graph = NULL;
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_cli_model_open(args, args->positional[0], false, &graph));
    SL_TRY_OUT(sl_graph_autodiff(graph));
    SL_TRY_OUT(plan_graph(args, arena, graph, text));
    sl_log_status_end();
out:
    sl_graph_close(graph);
    return err;
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    struct sl_text text = {0};
    sl_err err =
        is_imported(args) ? plan_imported(args, &arena, &text) : plan_model(args, &arena, &text);
    if (err == SL_OK)
        err = sl_cli_print(&text);
    sl_text_free(&text);
    sl_arena_free(&arena);
    return err;
}

static const struct sl_option options[] = {
    SL_MODEL_OPTIONS,
    {"--machine", "X", "name, file, 'here' or 2x4:mem=16G,... (default here)", false},
    {"--cost", "X.cost", "measured times of 'sluice profile' (default: roofline estimate)", false},
    {"--planner", "P", "see 'sluice list planners' (default sluice)", false},
    {"--schedule", "S", "schedule (default auto: the best synchronous one); or X.sched, X.csv",
     false},
    {"--staleness-cost", "S=X,...", "try schedule S, which needs X times the tokens: 2bw=1.2",
     false},
    {"--batch", "B", "samples per optimizer step (default 64)", false},
    {"--micro", "N", "micro-batches per batch (default: the best number; imported: the file's)",
     false},
    SL_DEGREE_OPTIONS,
    {"--fits", NULL, "say whether the model fits: bytes of a device by cause", false},
    {"--devices", "K", "use the first K devices (default: all)", false},
    {"--memory", "M", "memory per device, e.g. 8GiB (default: the machine's)", false},
    {"--dtype", "D", "type of products: fp32, fp16 or bf16 (default fp32)", false},
    {"--optimizer", "O", "optimizer whose state must fit (default adamw)", false},
    {"--straight", NULL, "no replicas", false},
    {"--uniform", NULL, "equal replicas and recomputation of all stages, as Megatron needs", false},
    {"--recompute", "R", "stages that recompute: auto, none or all (default auto)", false},
    {"--whole-layers", NULL, "cut between repeated blocks only", false},
    {"--time-limit", "S", "stop after S seconds with the best plan so far", false},
    {"--threads", "T", "threads of the search (default: all cores)", false},
    {"-o", "X.plan", "write the plan", false},
    {"--cost-model", "M", "imported: see 'sluice list cost-models' (default by the file)", false},
    {"--levels", "A,B", "imported: devices per host, hosts, ... (pipedream)", false},
    {"--bandwidth", "BW", "imported: bandwidth of each level: 25GiB/s or 100GB/s,10Gb/s", false},
    {"--cpus", "C", "imported: CPU cores that may hold a stage (dnn-partitioning)", false},
    {"--all-devices", NULL, "imported: no device may stay idle (pipedream)", false},
    {"--non-contiguous", NULL, "imported: a device may hold any set of layers (dnn-partitioning)",
     false},
    {"--free-links", NULL, "imported: sending activations is free (PipeDream's default)", false},
    {0},
};

const struct sl_command sl_cli_cmd_plan = {
    .name = "plan",
    .synopsis = "MODEL --machine M [--batch B] [--schedule S] [--planner P] [-o X.plan]\n"
                "   or: sluice plan FILE [--cost-model M] [--devices K] [--memory M] "
                "[--bandwidth BW] [--micro N]",
    .brief = "cut a model into stages for a machine",
    .detail =
        "Cuts MODEL into stages, assigns them to devices and chooses the micro-batches. The plan "
        "is\n"
        "simulated and fits into the memory of the devices. FILE is an input of Piper,\n"
        "dnn-partitioning or PipeDream, planned under the cost model of that program; options\n"
        "override the machine that the file describes.\n"
        "\n"
        "  sluice plan gpt-2.2b --machine p3.16xlarge --dtype fp16 --batch 64 --schedule 2bw\n"
        "  sluice plan gpt-nano --machine laptop --batch 16 --straight -o nano.plan\n"
        "  sluice plan gpt-1.3b --machine dgx-a100 --dtype bf16 --fits\n"
        "  sluice plan bert32a100.json --devices 64 --memory 8GiB --bandwidth 25GiB/s --micro "
        "1920\n"
        "  sluice plan resnet50.graph.txt --levels 8,2 --bandwidth 30GB/s,3.125GB/s --json",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
