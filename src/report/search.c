/* Reports on a search: stages, step time, memory, bound, runners-up, gains of a better machine. */
#include "report/search.h"

#include "base/json.h"
#include "plan/bytes.h"
#include "search/forecast.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int64_t worker_bytes(const struct sl_stage_bytes *b) {
    return b->params + b->fixed + b->grads + b->state;
}

static const struct sl_stage_bytes *bytes_of(const struct sl_search *s, int stage) {
    return s->bytes ? &s->bytes[stage] : &s->detail.stages[stage].bytes;
}

static void first_and_last(const struct sl_search *s, int stage, const char **first,
                           const char **last) {
    const struct sl_problem *p = s->detail.problem;
    *first = *last = "";
    for (int u = p->unit_count - 1; u >= 0; u--)
        if (s->detail.c.stage_of[u] == stage) {
            *first = p->units[u].name;
            if (!**last)
                *last = p->units[u].name;
        }
}

static void put_stages(const struct sl_search *s, struct sl_text *out) {
    const struct sl_candidate *c = &s->detail.c;
    char f[SL_HUMAN_BYTES], b[SL_HUMAN_BYTES], w[SL_HUMAN_BYTES], a[SL_HUMAN_BYTES];
    sl_text_put(out, "stage  devices     forward    backward     weights+  stash/micro  units\n");
    for (int i = 0; i < c->stage_count; i++) {
        const struct sl_candidate_stage *stage = &s->detail.stages[i];
        const char *first, *last;
        char devices[32];
        first_and_last(s, i, &first, &last);
        snprintf(devices, sizeof devices, c->width[i] > 1 ? "%d x%d" : "%d",
                 s->detail.device_of[s->detail.workers[i][0]], c->width[i]);
        sl_text_printf(out, "s%-4d  %-8s %10s  %10s  %11s  %11s  %s .. %s%s", i, devices,
                       sl_human_ns(stage->f, f), sl_human_ns(stage->i + stage->w, b),
                       sl_human_bytes(worker_bytes(bytes_of(s, i)), w),
                       sl_human_bytes(bytes_of(s, i)->stash, a), first, last,
                       c->recompute[i] ? "  (recomputes)" : "");
        if (c->group_of && c->group_of[i] > 1)
            sl_text_printf(out, "  (k = %d)", c->group_of[i]);
        sl_text_put(out, "\n");
        if (i == s->bottleneck_stage)
            sl_text_put(out, "       ^ the bottleneck\n");
    }
}

/* Returns the number of pipelines of a plan whose workers hold several stages. */
static int pipelines_of(const struct sl_search *s) {
    return s->detail.device_count / s->detail.c.ranks;
}

static int stages_per_rank(const struct sl_search *s) {
    return s->plan->seat_count / s->plan->worker_count;
}

/* Writes the stages whose micro-batches are larger than the smallest of the plan. */
static void put_sizes(const struct sl_search *s, struct sl_text *out) {
    const struct sl_candidate *c = &s->detail.c;
    for (int i = 0; i < c->stage_count; i++)
        if (sl_search_candidate_size(c, i) != c->size)
            sl_text_printf(out, "            s%d: %lld micro-batches of %lld\n", i,
                           (long long)sl_search_candidate_stage_micros(&s->detail, i),
                           (long long)s->detail.problem->sizes[sl_search_candidate_size(c, i)]);
}

/* Writes the runners-up. Different cuts may give the same line, which is then printed once. */
static void put_runners(const struct sl_search *s, struct sl_text *out) {
    enum { SHOWN = 3 };
    const struct sl_search_result *r = &s->result;
    const struct sl_problem *p = s->detail.problem;
    char step[SL_HUMAN_BYTES], line[256], last[256] = "";
    for (int i = 0, shown = 0; i < r->runner_count && shown < SHOWN; i++) {
        const struct sl_candidate_entry *found = &r->runner[i];
        snprintf(line, sizeof line,
                 "runner-up   %s (%+.1f %%): %d stage%s, %s, micro-batch %lld, by %s\n",
                 sl_human_ns(found->score.step_ns, step),
                 100.0 * (double)(found->score.step_ns - r->best.score.step_ns) /
                     (double)r->best.score.step_ns,
                 found->c.stage_count, found->c.stage_count == 1 ? "" : "s", found->c.schedule,
                 (long long)p->sizes[found->c.size], found->planner);
        if (strcmp(line, last) == 0)
            continue;
        sl_text_put(out, line);
        memcpy(last, line, sizeof last);
        shown++;
    }
}

/* Writes the gain in percent of the step; a gain below 0.05 % prints as "nothing". */
static void put_gain(struct sl_text *out, const char *label, const char *change, int64_t now,
                     int64_t then) {
    double gain = then > 0 && then < now ? 100.0 * (double)(now - then) / (double)now : 0;
    sl_text_printf(out, "%-12s%s: ", label, change);
    if (gain >= 0.05)
        sl_text_printf(out, "-%.1f %% of the step\n", gain);
    else
        sl_text_put(out, "nothing\n");
}

static void put_what_if(const struct sl_report_search *report, struct sl_text *out) {
    const struct sl_search *s = report->search;
    for (int i = 0; i < s->what_if_count; i++)
        put_gain(out, i ? "" : "what if",
                 s->what_if[i].memory > 1 ? "twice the memory" : "links twice as fast",
                 s->result.best.score.step_ns, s->what_if[i].step_ns);
}

static void put_all_reduces(const struct sl_report_search *report, struct sl_text *out) {
    const struct sl_search *s = report->search;
    char step[SL_HUMAN_BYTES];
    for (int i = 0; i < s->all_reduce_count; i++)
        sl_text_printf(out, "%-12s%s%s: %s, %.4g samples/s\n", i ? "" : "all-reduce",
                       s->all_reduce[i].name, s->all_reduce[i].overlapped ? ", overlapped" : "",
                       sl_human_ns(s->all_reduce[i].step_ns, step),
                       1e9 * (double)s->detail.problem->batch / (double)s->all_reduce[i].step_ns);
}

static double gap(const struct sl_search_result *r) {
    return r->lower_bound > 0
               ? 100.0 * (double)(r->best.score.step_ns - r->lower_bound) / (double)r->lower_bound
               : 0;
}

static void put_bound(const struct sl_search_result *r, struct sl_text *out) {
    char bound[SL_HUMAN_BYTES];
    if (r->proven)
        sl_text_put(out, "bound       proven: no cut, width or recomputation is faster\n");
    else if (r->lower_bound > 0)
        sl_text_printf(out, "bound       %s, gap %.1f %%%s\n", sl_human_ns(r->lower_bound, bound),
                       gap(r), r->complete ? "" : "; cuts of two orders, not of all downsets");
}

static const char *ending(const struct sl_search_result *r) {
    if (r->timed_out)
        return "stopped by the time limit: this is the best plan so far";
    return r->out_of_budget ? "stopped at its budget: this is the best plan so far" : "finished";
}

/* Returns the interval of the step in a run, according to the profile. */
static struct sl_forecast_interval interval_of(const struct sl_search *s) {
    int64_t step = s->forecast_ns ? s->forecast_ns : s->result.best.score.sim_ns;
    return sl_search_forecast_interval(s->detail.problem->cost, step, 0);
}

void sl_report_search(const struct sl_report_search *report, struct sl_text *out) {
    const struct sl_search *s = report->search;
    const struct sl_problem *p = s->detail.problem;
    const struct sl_search_result *r = &s->result;
    char step[SL_HUMAN_BYTES], bytes[SL_HUMAN_BYTES], took[SL_HUMAN_BYTES], limit[SL_HUMAN_BYTES];
    int64_t worst = s->detail.device_of[r->best.score.over_worker];
    put_stages(s, out);
    sl_text_printf(out, "step        %s (%s%s), %.4g samples/s, bubble %.1f %%\n",
                   sl_human_ns(r->best.score.sim_ns, step),
                   p->estimated ? "ESTIMATED: roofline, " : "simulated from measured times, ",
                   p->precision, 1e9 * (double)p->batch / (double)r->best.score.sim_ns,
                   100 * r->best.score.bubble);
    if (s->forecast_ns)
        sl_text_printf(out, "in a run    %s, with workers as fast as each was while measured\n",
                       sl_human_ns(s->forecast_ns, step));
    if (p->cost) {
        const struct sl_forecast_interval in = interval_of(s);
        sl_text_printf(out, "interval    %s to %s in 90 %% of runs\n", sl_human_ns(in.low_ns, step),
                       sl_human_ns(in.high_ns, took));
    }
    double tokens = sl_search_problem_tokens(p, s->detail.c.schedule);
    if (tokens > 1)
        sl_text_printf(out, "staleness   %.4g times the tokens: worth a step of %s\n", tokens,
                       sl_human_ns(r->best.score.step_ns, step));
    sl_text_printf(out, "schedule    %s, %lld micro-batches of %lld, batch %lld\n",
                   s->detail.c.schedule, (long long)sl_search_candidate_micros(&s->detail),
                   (long long)p->sizes[s->detail.c.size], (long long)p->batch);
    if (p->shards > 1 || p->zero1)
        sl_text_printf(out, "shards      teams of %d devices, numbered as one%s\n",
                       sl_search_problem_shards(p),
                       p->zero1 ? "; replicas divide the optimizer state" : "");
    if (s->detail.c.ranks)
        sl_text_printf(out, "layout      %d ranks with %d stages each, %d pipeline%s\n",
                       s->detail.c.ranks, stages_per_rank(s), pipelines_of(s),
                       pipelines_of(s) == 1 ? "" : "s");
    put_sizes(s, out);
    sl_text_printf(out, "memory      %s of %s on the fullest worker (%s)\n",
                   sl_human_bytes(r->best.score.over_bytes + p->memory[worst], bytes),
                   sl_human_bytes(p->memory[worst], limit), s->bytes ? "exact" : "sums over units");
    put_bound(r, out);
    put_runners(s, out);
    put_what_if(report, out);
    put_all_reduces(report, out);
    sl_text_printf(out, "search      %s: %s, %lld candidates, %lld played; %s\n",
                   report->spec->planner->name, sl_human_ns(report->search->search_ns, took),
                   (long long)r->offered, (long long)r->simulated, ending(r));
}

/* ---- JSON ---- */

/* Writes the durations of the actions in the simulation. */
static void times_json(const int64_t *dur_ns, struct sl_json_out *json) {
    sl_json_key(json, "action_ns");
    sl_json_open(json, '{');
    for (int k = 0; k < SL_KIND_COUNT; k++)
        if (dur_ns[k])
            sl_json_put_int(json, sl_sched_kind_name((enum sl_kind)k), dur_ns[k]);
    sl_json_close(json, '}');
}

static void stage_json(const struct sl_search *s, int i, const int64_t *dur_ns,
                       struct sl_json_out *json) {
    const struct sl_problem *p = s->detail.problem;
    const struct sl_candidate_stage *stage = &s->detail.stages[i];
    sl_json_open(json, '{');
    sl_json_put_int(json, "width", s->detail.c.width[i]);
    sl_json_put_int(json, "micro_size", p->sizes[sl_search_candidate_size(&s->detail.c, i)]);
    sl_json_put_int(json, "group", sl_search_candidate_group(&s->detail.c, i));
    sl_json_put_bool(json, "recompute", s->detail.c.recompute[i]);
    sl_json_put_int(json, "f_ns", stage->f);
    sl_json_put_int(json, "b_ns", stage->i + stage->w);
    times_json(dur_ns, json);
    sl_json_put_int(json, "weight_bytes", worker_bytes(bytes_of(s, i)));
    sl_json_put_int(json, "stash_bytes", bytes_of(s, i)->stash);
    sl_json_key(json, "devices");
    sl_json_open(json, '[');
    for (int r = 0; r < s->detail.c.width[i]; r++)
        sl_json_int(json, s->detail.device_of[s->detail.workers[i][r]]);
    sl_json_close(json, ']');
    sl_json_key(json, "units");
    sl_json_open(json, '[');
    for (int u = 0; u < p->unit_count; u++)
        if (s->detail.c.stage_of[u] == i)
            sl_json_string(json, p->units[u].name);
    sl_json_close(json, ']');
    sl_json_close(json, '}');
}

/* Returns the bytes of one process that runs all workers as threads. PIPE_BYTES is the measured
 * overhead of a pipeline: mappings and small allocations. The test e2e.plan_memory checks it. */
static int64_t process_bytes(const struct sl_report_search *report) {
    enum { PIPE_BYTES = 5 << 19 };
    const struct sl_search *s = report->search;
    int64_t all = s->result.best.score.all_bytes;
    if (!s->bytes)
        return all;
    return all + PIPE_BYTES -
           (s->detail.device_count - 1) *
               sl_plan_shared_bytes(report->spec->graph, report->spec->extra_bytes);
}

static void all_reduces_json(const struct sl_search *s, struct sl_json_out *json) {
    sl_json_key(json, "all_reduce");
    sl_json_open(json, '[');
    for (int i = 0; i < s->all_reduce_count; i++) {
        sl_json_open(json, '{');
        sl_json_put_string(json, "name", s->all_reduce[i].name);
        sl_json_put_bool(json, "overlapped", s->all_reduce[i].overlapped);
        sl_json_put_int(json, "reduce_ns", s->all_reduce[i].reduce_ns);
        sl_json_put_int(json, "step_ns", s->all_reduce[i].step_ns);
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
}

void sl_report_search_json(const struct sl_report_search *report, struct sl_text *out) {
    const struct sl_search *s = report->search;
    const struct sl_problem *p = s->detail.problem;
    const struct sl_search_result *r = &s->result;
    struct sl_json_out json = {.text = out, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "model", p->model);
    sl_json_put_string(&json, "machine", p->machine->name);
    sl_json_put_string(&json, "planner", report->spec->planner->name);
    sl_json_put_bool(&json, "estimated", p->estimated);
    sl_json_put_string(&json, "schedule", s->detail.c.schedule);
    sl_json_put_int(&json, "batch", p->batch);
    sl_json_put_int(&json, "micro_size", p->sizes[s->detail.c.size]);
    sl_json_put_int(&json, "devices", s->detail.device_count * sl_search_problem_shards(p));
    sl_json_put_int(&json, "tp", sl_search_problem_shards(p));
    sl_json_put_bool(&json, "zero1", p->zero1);
    sl_json_put_int(&json, "depth", s->plan->depth);
    sl_json_put_int(&json, "step_ns", r->best.score.sim_ns);
    if (s->forecast_ns)
        sl_json_put_int(&json, "forecast_ns", s->forecast_ns);
    if (p->cost) {
        sl_json_put_int(&json, "forecast_low_ns", interval_of(s).low_ns);
        sl_json_put_int(&json, "forecast_high_ns", interval_of(s).high_ns);
    }
    sl_json_put_int(&json, "objective_ns", r->best.score.step_ns);
    sl_json_put_double(&json, "staleness_tokens",
                       sl_search_problem_tokens(p, s->detail.c.schedule));
    sl_json_put_double(&json, "samples_per_s",
                       1e9 * (double)p->batch / (double)r->best.score.sim_ns);
    sl_json_put_double(&json, "bubble", r->best.score.bubble);
    sl_json_put_int(&json, "peak_bytes", r->best.score.peak_bytes);
    sl_json_put_int(&json, "all_bytes", r->best.score.all_bytes);
    sl_json_put_int(&json, "process_bytes", process_bytes(report));
    sl_json_put_bool(&json, "exact_bytes", s->bytes != NULL);
    sl_json_put_int(&json, "bottleneck_ns", r->best.bottleneck);
    sl_json_put_int(&json, "bottleneck_stage", s->bottleneck_stage);
    sl_json_put_int(&json, "lower_bound_ns", r->lower_bound);
    sl_json_put_bool(&json, "proven", r->proven);
    sl_json_put_bool(&json, "all_cuts", r->complete);
    sl_json_put_bool(&json, "timed_out", r->timed_out);
    sl_json_put_bool(&json, "out_of_budget", r->out_of_budget);
    sl_json_put_double(&json, "search_ms", (double)report->search->search_ns / 1e6);
    sl_json_put_int(&json, "played", r->simulated);
    all_reduces_json(s, &json);
    sl_json_key(&json, "stages");
    sl_json_open(&json, '[');
    int64_t(*dur)[SL_KIND_COUNT] = calloc((size_t)s->detail.c.stage_count, sizeof *dur);
    if (!dur)
        sl_out_of_memory((size_t)s->detail.c.stage_count * sizeof *dur);
    sl_search_candidate_times(&s->detail, dur);
    for (int i = 0; i < s->detail.c.stage_count; i++)
        stage_json(s, i, dur[i], &json);
    free(dur);
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(out, "\n");
}
