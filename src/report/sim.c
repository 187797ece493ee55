/* Reports on a simulation, as text and as JSON. */
#include "base/json.h"
#include "report/sched.h"

/* Writes the seats. A seat's peak is the share of its stage; the peak of the worker must fit into
 * its memory. */
static void put_seats(const struct sl_report_sim *s, struct sl_json_out *json) {
    const struct sl_plan *plan = s->sched->plan;
    sl_json_key(json, "stages");
    sl_json_open(json, '[');
    for (int i = 0; i < plan->seat_count; i++) {
        const struct sl_seat *seat = &plan->seats[i];
        sl_json_open(json, '{');
        sl_json_put_string(json, "stage", plan->stages[seat->stage].name);
        sl_json_put_int(json, "replica", seat->replica);
        sl_json_put_int(json, "worker", seat->worker);
        sl_json_put_int(json, "live", s->sim->seats[i].live);
        sl_json_put_int(json, "versions", s->sched->pools[i][SL_POOL_WEIGHT].count);
        sl_json_put_int(json, "busy_ns", s->sim->seats[i].busy_ns);
        sl_json_put_int(json, "bubble_ns", sl_sim_bubble(s->sim, seat->worker));
        sl_json_put_int(json, "peak_bytes", s->sim->seats[i].peak_bytes);
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
}

static void put_workers(const struct sl_report_sim *s, struct sl_json_out *json) {
    sl_json_key(json, "workers");
    sl_json_open(json, '[');
    for (int w = 0; w < s->sched->plan->worker_count; w++) {
        sl_json_open(json, '{');
        sl_json_put_int(json, "worker", w);
        sl_json_put_int(json, "busy_ns", s->sim->workers[w].busy_ns);
        sl_json_put_int(json, "bubble_ns", sl_sim_bubble(s->sim, w));
        sl_json_put_int(json, "peak_bytes", s->sim->workers[w].peak_bytes);
        sl_json_put_int(json, "allocated_bytes", sl_sched_worker_bytes(s->sched, w));
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
}

static double idle_share(const struct sl_report_sim *s) {
    double busy = 0, all = (double)s->sim->end_ns * s->sched->plan->worker_count;
    for (int w = 0; w < s->sched->plan->worker_count; w++)
        busy += (double)s->sim->workers[w].busy_ns;
    return all > 0 ? 1 - busy / all : 0;
}

void sl_report_sim_json(const struct sl_report_sim *s, struct sl_text *out) {
    struct sl_json_out json = {.text = out, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "schedule", s->sched->name);
    sl_json_put_string(&json, "rule", sl_sched_rule_name(s->sched->rule));
    sl_json_put_int(&json, "iterations", s->sched->iters);
    sl_json_put_int(&json, "step_ns", s->sim->step_ns);
    sl_json_put_int(&json, "end_ns", s->sim->end_ns);
    sl_json_put_double(&json, "bubble", idle_share(s));
    sl_json_put_int(&json, "actions", s->sim->actions);
    sl_json_put_int(&json, "transfers", s->sim->transfers);
    sl_json_put_int(&json, "moved_bytes", s->sim->moved_bytes);
    if (s->has_picture) {
        sl_json_key(&json, "critical");
        sl_json_open(&json, '{');
        sl_json_put_int(&json, "pass_ns", s->picture.pass_ns);
        sl_json_put_int(&json, "weight_ns", s->picture.weight_ns);
        sl_json_put_int(&json, "transfer_ns", s->picture.transfer_ns);
        sl_json_close(&json, '}');
    }
    put_seats(s, &json);
    put_workers(s, &json);
    sl_json_close(&json, '}');
    sl_text_put(out, "\n");
}

static void put_table(const struct sl_report_sim *s, struct sl_text *out) {
    const struct sl_plan *plan = s->sched->plan;
    bool sketch = sl_plan_is_sketch(plan);
    sl_text_printf(out, "stage             worker  live  versions        busy      bubble%s\n",
                   sketch ? "" : "  peak");
    for (int i = 0; i < plan->seat_count; i++) {
        const struct sl_seat *seat = &plan->seats[i];
        char busy[SL_HUMAN_BYTES], bubble[SL_HUMAN_BYTES], peak[SL_HUMAN_BYTES];
        sl_text_printf(out, "%-16s  %6d  %4lld  %8d  %10s  %10s%s%s\n",
                       plan->stages[seat->stage].name, seat->worker,
                       (long long)s->sim->seats[i].live, s->sched->pools[i][SL_POOL_WEIGHT].count,
                       sl_human_ns(s->sim->seats[i].busy_ns, busy),
                       sl_human_ns(sl_sim_bubble(s->sim, seat->worker), bubble), sketch ? "" : "  ",
                       sketch ? "" : sl_human_bytes(s->sim->seats[i].peak_bytes, peak));
    }
}

void sl_report_sim(const struct sl_report_sim *s, const struct sl_grid_opts *grid,
                   struct sl_text *out) {
    char step[SL_HUMAN_BYTES], a[SL_HUMAN_BYTES], b[SL_HUMAN_BYTES], c[SL_HUMAN_BYTES];
    sl_text_printf(out, "%s: %d stages on %d workers, %d micro-batches: %s a step, %.1f %% idle\n",
                   s->sched->name, s->sched->plan->stage_count, s->sched->plan->worker_count,
                   s->sched->micros[0], sl_human_ns(s->sim->step_ns, step), 100 * idle_share(s));
    if (grid)
        sl_report_grid(&s->picture, grid, out);
    put_table(s, out);
    if (s->has_picture)
        sl_text_printf(out, "critical path: passes %s, reduce and step %s, messages %s\n",
                       sl_human_ns(s->picture.pass_ns, a), sl_human_ns(s->picture.weight_ns, b),
                       sl_human_ns(s->picture.transfer_ns, c));
}
