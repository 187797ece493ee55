/* Reports on a model simulated with given degrees of parallelism. */
#include "report/model_sim.h"

#include "base/json.h"

/* Collectives of one micro-batch on the shards of a stage, by pass. */
struct meeting {
    int64_t ns, bytes; /* bytes: sent by each device */
    int count;
};

static struct meeting meeting_of(const struct sl_report_model_sim *s, int stage, bool forward) {
    const struct sl_problem *p = s->detail->problem;
    struct meeting sum = {0};
    for (int u = 0; u < p->unit_count; u++)
        for (int i = 0; i < p->units[u].collective_count; i++) {
            const struct sl_collective *c = &p->units[u].collectives[i];
            int64_t bytes = c->sample_bytes * p->sizes[s->detail->c.size];
            if (s->detail->c.stage_of[u] != stage || (c->pass == SL_COLLECTIVE_F) != forward)
                continue;
            sum.ns += (int64_t)sl_search_collective_ns(p, (double)bytes) * c->count;
            sum.bytes += sl_plan_collective_traffic(c->kind, p->shards, bytes) * c->count;
            sum.count += c->count;
        }
    return sum;
}

static void meeting_json(struct sl_json_out *json, const char *key, struct meeting m) {
    sl_json_key(json, key);
    sl_json_open(json, '{');
    sl_json_put_int(json, "count", m.count);
    sl_json_put_int(json, "ns", m.ns);
    sl_json_put_int(json, "sent_bytes", m.bytes);
    sl_json_close(json, '}');
}

/* Returns the peak bytes of the stage's worker in the simulated pipeline. */
static int64_t peak_of(const struct sl_report_model_sim *s, int stage) {
    const struct sl_plan *plan = s->sim.sched->plan;
    return s->sim.sim->seats[plan->stages[stage].seat].peak_bytes;
}

static void stage_json(const struct sl_report_model_sim *s, int i, struct sl_json_out *json) {
    const struct sl_candidate_stage *stage = &s->detail->stages[i];
    sl_json_open(json, '{');
    sl_json_put_int(json, "worker", s->sim.sched->plan->stages[i].workers[0]);
    sl_json_put_bool(json, "recompute", s->detail->c.recompute[i]);
    sl_json_put_int(json, "f_ns", stage->f);
    sl_json_put_int(json, "b_ns", stage->i + stage->w);
    sl_json_put_int(json, "reduce_ns", stage->reduce);
    sl_json_put_int(json, "optimizer_ns", stage->step);
    sl_json_put_int(json, "params_bytes", stage->bytes.params);
    sl_json_put_int(json, "grads_bytes", stage->bytes.grads);
    sl_json_put_int(json, "state_bytes", stage->bytes.state);
    sl_json_put_int(json, "stash_bytes", stage->bytes.stash);
    sl_json_put_int(json, "peak_bytes", peak_of(s, i));
    meeting_json(json, "f_collectives", meeting_of(s, i, true));
    meeting_json(json, "b_collectives", meeting_of(s, i, false));
    sl_json_close(json, '}');
}

static int devices_of(const struct sl_report_model_sim *s) {
    return s->detail->device_count * sl_search_problem_shards(s->detail->problem);
}

void sl_report_model_sim_json(const struct sl_report_model_sim *s, struct sl_text *out) {
    const struct sl_problem *p = s->detail->problem;
    struct sl_json_out json = {.text = out, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "model", p->model);
    sl_json_put_string(&json, "machine", p->machine->name);
    sl_json_put_string(&json, "schedule", s->detail->c.schedule);
    sl_json_put_string(&json, "precision", p->precision);
    sl_json_put_bool(&json, "estimated", p->estimated);
    sl_json_put_int(&json, "tp", sl_search_problem_shards(p));
    sl_json_put_int(&json, "dp", s->detail->c.width[0]);
    sl_json_put_int(&json, "pp", s->pp);
    sl_json_put_int(&json, "chunks", s->chunks);
    sl_json_put_bool(&json, "zero1", p->zero1);
    sl_json_put_int(&json, "devices", devices_of(s));
    sl_json_put_int(&json, "batch", p->batch);
    sl_json_put_int(&json, "micro_size", p->sizes[s->detail->c.size]);
    sl_json_put_int(&json, "micros", sl_search_candidate_micros(s->detail));
    sl_json_put_double(&json, "step_s", 1e-9 * (double)s->score.sim_ns);
    sl_json_put_int(&json, "step_ns", s->score.sim_ns);
    sl_json_put_double(&json, "samples_per_s", 1e9 * (double)p->batch / (double)s->score.sim_ns);
    sl_json_put_double(&json, "bubble", s->score.bubble);
    sl_json_put_int(&json, "peak_bytes", s->score.peak_bytes);
    sl_json_put_int(&json, "memory_bytes", p->memory[0]);
    sl_json_put_bool(&json, "fits", s->score.over_bytes <= 0);
    sl_json_key(&json, "stages");
    sl_json_open(&json, '[');
    for (int i = 0; i < s->detail->c.stage_count; i++)
        stage_json(s, i, &json);
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(out, "\n");
}

void sl_report_model_sim(const struct sl_report_model_sim *s, const struct sl_grid_opts *grid,
                         struct sl_text *out) {
    const struct sl_problem *p = s->detail->problem;
    char step[SL_HUMAN_BYTES], bytes[SL_HUMAN_BYTES], limit[SL_HUMAN_BYTES];
    struct meeting all = {0};
    sl_report_sim(&s->sim, grid, out);
    sl_text_printf(out, "devices     %d: %d shards, %d replicas%s, %d workers in a pipeline\n",
                   devices_of(s), sl_search_problem_shards(p), s->detail->c.width[0],
                   p->zero1 ? " with divided optimizer state" : "", s->pp);
    sl_text_printf(out, "step        %s (%s%s), %.4g samples/s, bubble %.1f %%\n",
                   sl_human_ns(s->score.sim_ns, step),
                   p->estimated ? "ESTIMATED: roofline, " : "simulated from measured times, ",
                   p->precision, 1e9 * (double)p->batch / (double)s->score.sim_ns,
                   100 * s->score.bubble);
    for (int i = 0; i < s->detail->c.stage_count; i++)
        for (int forward = 0; forward < 2; forward++) {
            struct meeting m = meeting_of(s, i, forward);
            all.ns = all.ns > m.ns ? all.ns : m.ns;
            all.count += m.count;
            all.bytes += m.bytes;
        }
    if (all.count)
        sl_text_printf(out,
                       "collectives %d for a micro-batch, a device sends %s; at most %s of a "
                       "pass\n",
                       all.count, sl_human_bytes(all.bytes, bytes), sl_human_ns(all.ns, step));
    sl_text_printf(out, "memory      %s of %s on the fullest worker%s\n",
                   sl_human_bytes(s->score.peak_bytes, bytes), sl_human_bytes(p->memory[0], limit),
                   s->score.over_bytes > 0 ? ": does NOT fit" : "");
}
