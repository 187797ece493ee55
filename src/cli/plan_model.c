/* Planning a model: from options to a problem, a search, a report, a file. */
#include "base/clock.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/model_file.h"
#include "cli/plan_kinds.h"
#include "cli/search_report.h"
#include "device/device.h"
#include "profile/machine_file.h"

#include <string.h>

struct question {
    struct sl_arena arena;
    struct sl_graph *graph;
    const struct sl_machine *machine;
    const struct sl_cost *cost;
    struct sl_optim optim;
    const struct sl_staleness_cost *staleness;
    int staleness_count;
    const struct sl_problem *problem;
    struct sl_search_spec spec;
    int64_t start_ns, shown_ns; /* of the search; when progress was last shown */
};

/* A profile of this computer's threads also knows what lies between them. */
static void use_measured_link(struct question *q) {
    struct sl_machine *m = SL_NEW(&q->arena, struct sl_machine, 1);
    if (!q->cost || !(q->cost->link_bytes_per_s > 0))
        return;
    *m = *q->machine;
    struct sl_link *links = sl_vec_freeze(&q->arena, m->links, m->link_count, sizeof *links);
    for (int h = 0; h < m->host_count; h++) {
        links[m->hosts[h].link].bandwidth = q->cost->link_bytes_per_s;
        if (q->cost->link_latency_ns)
            links[m->hosts[h].link].latency_ns = q->cost->link_latency_ns;
    }
    m->links = links;
    q->machine = m;
}

static sl_err open_machine(const struct sl_args *args, struct question *q) {
    int64_t devices;
    SL_TRY(sl_profile_machine_argument(&q->arena, sl_args_text(args, "--machine", "here"),
                                       &q->machine));
    devices = q->machine->device_count;
    SL_TRY(sl_args_int(args, "--devices", 1, SL_DEVICE_MAX, &devices));
    if (devices != q->machine->device_count)
        SL_TRY(sl_cost_machine_first(&q->arena, q->machine, (int)devices, &q->machine));
    const char *cost = sl_args_text(args, "--cost", NULL);
    if (cost)
        SL_TRY(sl_cost_file(&q->arena, cost, &q->cost));
    use_measured_link(q);
    return SL_OK;
}

static sl_err ask_recompute(const struct sl_args *args, enum sl_recompute *out) {
    static const char *const names[] = {
        [SL_RECOMPUTE_MAY] = "auto", [SL_RECOMPUTE_NEVER] = "none", [SL_RECOMPUTE_ALWAYS] = "all"};
    const char *text = sl_args_text(args, "--recompute", "auto");
    for (int i = 0; i < SL_COUNT(names); i++)
        if (strcmp(names[i], text) == 0) {
            *out = (enum sl_recompute)i;
            return SL_OK;
        }
    return sl_fail(SL_ERR_USAGE, "plan: --recompute is auto, none or all, not '%s'", text);
}

/* '2bw=1.2,stash=1.05' : schedules without a flush to try, and the tokens that each costs. */
static sl_err read_staleness(struct question *q, const char *text) {
    enum { MAX = 16 };
    struct sl_staleness_cost *at = SL_NEW(&q->arena, struct sl_staleness_cost, MAX);
    while (*text) {
        size_t length = strcspn(text, ","), name = strcspn(text, "=");
        struct sl_staleness_cost *cost = &at[q->staleness_count];
        if (q->staleness_count == MAX || name >= length)
            return sl_fail(SL_ERR_USAGE, "plan: --staleness-cost: '%s' is not 2bw=1.2,stash=1.05",
                           text);
        cost->schedule = sl_arena_dup(&q->arena, text, name);
        const char *number = sl_arena_dup(&q->arena, text + name + 1, length - name - 1);
        SL_TRY(sl_parse_double(number, "--staleness-cost", &cost->tokens));
        const struct sl_schedule *row = sl_sched_row_find(cost->schedule);
        if (!row || row->rule == SL_RULE_SYNC || row->rule == SL_RULE_FORWARD)
            return sl_fail(SL_ERR_USAGE,
                           "plan: --staleness-cost: '%s' is no schedule with stale "
                           "weights; see 'sluice list schedules'",
                           cost->schedule);
        if (!(cost->tokens >= 1 && cost->tokens <= 1000))
            return sl_fail(SL_ERR_USAGE,
                           "plan: --staleness-cost: %s=%s is not in 1..1000 times the tokens",
                           cost->schedule, number);
        q->staleness_count++;
        text += length + (text[length] == ',');
    }
    q->staleness = at;
    return SL_OK;
}

/* Without --schedule: the synchronous ones, and those whose staleness has a price. */
static const char *const *schedules_to_try(struct question *q) {
    const char *one[2];
    int count = 0;
    const char *const *sync = sl_search_query_schedules(&(struct sl_query){0}, one);
    if (!q->staleness_count)
        return NULL;
    while (sync[count])
        count++;
    const char **all = SL_NEW(&q->arena, const char *, count + q->staleness_count + 1);
    memcpy(all, sync, sizeof *all * (size_t)count);
    for (int i = 0; i < q->staleness_count; i++)
        all[count + i] = q->staleness[i].schedule;
    return all;
}

/* What was measured there is fused as there; else as on the CPU. */
static const struct sl_device_row *device_of(const struct question *q) {
    const struct sl_device_row *row = q->cost ? sl_device_find(q->cost->device) : NULL;
    return row ? row : sl_device_find("cpu");
}

static sl_err open_problem(const struct sl_args *args, struct question *q) {
    struct sl_problem_spec spec = {.graph = q->graph,
                                   .has_kernel = device_of(q)->has_kernel,
                                   .machine = q->machine,
                                   .cost = q->cost,
                                   .optim = &q->optim,
                                   .batch = 64,
                                   .straight = sl_args_has(args, "--straight"),
                                   .whole_layers = sl_args_has(args, "--whole-layers")};
    const char *dtype = sl_args_text(args, "--dtype", "fp32");
    int64_t micros = 0;
    spec.precision = sl_search_precision_find(dtype);
    if (!spec.precision)
        return sl_fail(SL_ERR_USAGE, "plan: --dtype is fp32, fp16 or bf16, not '%s'", dtype);
    SL_TRY(sl_args_int(args, "--batch", 1, 1 << 30, &spec.batch));
    SL_TRY(sl_args_int(args, "--micro", 1, spec.batch, &micros));
    SL_TRY(sl_args_bytes(args, "--memory", &spec.memory));
    SL_TRY(ask_recompute(args, &spec.recompute));
    SL_TRY(read_staleness(q, sl_args_text(args, "--staleness-cost", "")));
    spec.staleness = q->staleness;
    spec.staleness_count = q->staleness_count;
    if (micros)
        spec.micro_size = (spec.batch + micros - 1) / micros;
    SL_TRY(sl_search_problem_build(&q->arena, &spec, &q->problem));
    q->spec.graph = q->graph;
    q->spec.has_kernel = spec.has_kernel;
    q->spec.extra_bytes = device_of(q)->extra_bytes;
    q->spec.optim = &q->optim;
    q->spec.threads = q->cost ? q->cost->threads : 1;
    return SL_OK;
}

/* At most ten lines a second; each replaces the last. */
static void show_progress(void *ctx, const char *phase, const struct sl_result *so_far) {
    struct question *q = ctx;
    char best[SL_HUMAN_BYTES] = "none", took[SL_HUMAN_BYTES], left[SL_HUMAN_BYTES];
    int64_t now = sl_clock_ns();
    if (now - q->shown_ns < 100000000)
        return;
    q->shown_ns = now;
    if (so_far->found)
        sl_human_ns(so_far->best.score.step_ns, best);
    int64_t until = q->spec.query.until_ns;
    sl_log_status(false, "plan: %s, %lld played, best step %s, %s so far%s%s", phase,
                  (long long)so_far->played, best, sl_human_ns(now - q->start_ns, took),
                  until > now ? ", left at most " : "",
                  until > now ? sl_human_ns(until - now, left) : "");
}

static sl_err open_query(const struct sl_args *args, struct question *q) {
    const char *schedule = sl_args_text(args, "--schedule", "auto");
    int64_t threads = 0, until_ns = 0;
    SL_TRY(sl_search_planner_find(sl_args_text(args, "--planner", "sluice"), &q->spec.planner));
    SL_TRY(sl_cli_plan_until(args, &until_ns));
    SL_TRY(sl_args_int(args, "--threads", 1, 1024, &threads));
    const struct sl_schedule *row;
    if (strcmp(schedule, "auto") != 0)
        SL_TRY(sl_sched_row_require(schedule, &row));
    q->spec.query = (struct sl_query){
        .problem = q->problem,
        .schedule = strcmp(schedule, "auto") == 0 ? NULL : schedule,
        .schedules = schedules_to_try(q),
        .threads = (int)threads,
        .until_ns = until_ns,
        .progress = show_progress,
        .progress_ctx = q,
    };
    return SL_OK;
}

static sl_err open_question(const struct sl_args *args, struct question *q) {
    SL_TRY(sl_cli_model_open(args, args->positional[0], false, &q->graph));
    SL_TRY(sl_graph_autodiff(q->graph));
    SL_TRY(sl_optim_parse(sl_args_text(args, "--optimizer", "adamw"), &q->optim));
    SL_TRY(open_machine(args, q));
    SL_TRY(open_problem(args, q));
    return open_query(args, q);
}

sl_err sl_cli_plan_model(const struct sl_args *args) {
    struct question q = {0};
    struct sl_text text = {0}, file = {0};
    struct sl_search search;
    sl_err err = SL_OK;
    const char *path = sl_args_text(args, "-o", NULL);
    SL_TRY_OUT(open_question(args, &q));
    int64_t start = q.start_ns = sl_clock_ns();
    SL_TRY_OUT(sl_search_run(&q.arena, &q.spec, &search));
    struct sl_cli_search_report report = {
        .spec = &q.spec, .search = &search, .cost = q.cost, .search_ns = sl_clock_ns() - start};
    if (path) {
        sl_plan_write(search.plan, &file);
        SL_TRY_OUT(sl_file_write(path, file.at, file.length));
    }
    if (sl_args_has(args, "--json"))
        sl_cli_search_report_json(&report, &text);
    else
        sl_cli_search_report(&report, &text);
    sl_log_status_end();
    SL_TRY_OUT(sl_cli_print(&text));
out:
    sl_text_free(&text);
    sl_text_free(&file);
    sl_graph_close(q.graph);
    sl_arena_free(&q.arena);
    return err;
}
