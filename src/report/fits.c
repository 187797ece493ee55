/* Reports whether a model fits. */
#include "report/fits.h"

#include "base/json.h"

static void add_seat(const struct sl_sched *sched, int seat, struct sl_fits_bytes *out) {
    const struct sl_stage *stage = &sched->plan->stages[sched->plan->seats[seat].stage];
    const struct sl_slot_pool *pools = sched->pools[seat];
    out->state += stage->bytes.state;
    out->weights += pools[SL_POOL_WEIGHT].count * pools[SL_POOL_WEIGHT].bytes +
                    pools[SL_POOL_PREDICT].count * pools[SL_POOL_PREDICT].bytes;
    out->grads += pools[SL_POOL_GRAD].count * pools[SL_POOL_GRAD].bytes;
    for (int k = SL_POOL_STASH; k <= SL_POOL_KEPT; k++)
        out->activations += pools[k].count * pools[k].bytes;
}

void sl_report_fits_measure(const struct sl_report_model_sim *sim, struct sl_fits_bytes *out) {
    const struct sl_sched *sched = sim->sim.sched;
    const struct sl_plan *plan = sched->plan;
    int fullest = 0;
    for (int w = 0; w < plan->worker_count; w++)
        if (sl_sched_worker_bytes(sched, w) > sl_sched_worker_bytes(sched, fullest))
            fullest = w;
    *out = (struct sl_fits_bytes){.all = sl_sched_worker_bytes(sched, fullest)};
    for (int i = 0; i < plan->worker_seat_count[fullest]; i++)
        add_seat(sched, plan->worker_seats[fullest][i], out);
    if (plan->worker_seat_count[fullest])
        out->stage = plan->seats[plan->worker_seats[fullest][0]].stage;
    out->rest = out->all - out->weights - out->grads - out->state - out->activations;
}

static int recomputing(const struct sl_report_fits *f) {
    int count = 0;
    for (int s = 0; s < f->sim.detail->c.stage_count; s++)
        count += f->sim.detail->c.recompute[s];
    return count;
}

static void put_line(struct sl_text *out, const char *cause, int64_t bytes, int64_t all) {
    char text[SL_HUMAN_BYTES];
    sl_text_printf(out, "  %-12s %10s  %3.0f %%\n", cause, sl_human_bytes(bytes, text),
                   all ? 100.0 * (double)bytes / (double)all : 0);
}

static void put_layout(const struct sl_report_fits *f, struct sl_text *out) {
    const struct sl_problem *p = f->sim.detail->problem;
    sl_text_printf(out, "layout      --tp %d --dp %d --pp %d --micro-batch %lld --schedule %s%s",
                   sl_search_problem_shards(p), f->sim.detail->c.width[0], f->sim.pp,
                   (long long)p->sizes[f->sim.detail->c.size], f->sim.detail->c.schedule,
                   p->zero1 ? " --zero1" : "");
    sl_text_printf(out, ", %d of %d stages recompute\n", recomputing(f),
                   f->sim.detail->c.stage_count);
}

void sl_report_fits(const struct sl_report_fits *f, struct sl_text *out) {
    const struct sl_problem *p = f->sim.detail->problem;
    const struct sl_fits_bytes *b = &f->bytes;
    char all[SL_HUMAN_BYTES], limit[SL_HUMAN_BYTES], over[SL_HUMAN_BYTES], step[SL_HUMAN_BYTES];
    bool fits = f->sim.score.over_bytes <= 0;
    if (fits)
        sl_text_printf(out, "fits        yes: %s of %s on the fullest device\n",
                       sl_human_bytes(b->all, all), sl_human_bytes(p->memory[0], limit));
    else
        sl_text_printf(out, "fits        NO: %s of %s on the fullest device, %s too much\n",
                       sl_human_bytes(b->all, all), sl_human_bytes(p->memory[0], limit),
                       sl_human_bytes(f->sim.score.over_bytes, over));
    put_layout(f, out);
    sl_text_printf(out, "step        %s (%s%s)\n", sl_human_ns(f->sim.score.sim_ns, step),
                   p->estimated ? "ESTIMATED: roofline, " : "simulated from measured times, ",
                   p->precision);
    sl_text_printf(out, "bytes of the device (stage s%d)\n", b->stage);
    put_line(out, "weights", b->weights, b->all);
    put_line(out, "gradients", b->grads, b->all);
    put_line(out, "optimizer", b->state, b->all);
    put_line(out, "activations", b->activations, b->all);
    put_line(out, "other", b->rest, b->all);
    if (f->change_count)
        sl_text_put(out, fits ? "one change\n" : "what would make it fit\n");
    for (int i = 0; i < f->change_count; i++) {
        const struct sl_fits_change *c = &f->changes[i];
        sl_text_printf(out, "  %-18s %10s  %-4s a step takes %s\n", c->what,
                       sl_human_bytes(c->peak_bytes, all), c->fits ? "fits" : "no",
                       sl_human_ns(c->step_ns, step));
    }
}

static void bytes_json(const struct sl_fits_bytes *b, struct sl_json_out *json) {
    sl_json_key(json, "bytes");
    sl_json_open(json, '{');
    sl_json_put_int(json, "weights", b->weights);
    sl_json_put_int(json, "gradients", b->grads);
    sl_json_put_int(json, "optimizer", b->state);
    sl_json_put_int(json, "activations", b->activations);
    sl_json_put_int(json, "other", b->rest);
    sl_json_put_int(json, "all", b->all);
    sl_json_close(json, '}');
}

void sl_report_fits_json(const struct sl_report_fits *f, struct sl_text *out) {
    const struct sl_problem *p = f->sim.detail->problem;
    struct sl_json_out json = {.text = out, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "model", p->model);
    sl_json_put_string(&json, "machine", p->machine->name);
    sl_json_put_bool(&json, "fits", f->sim.score.over_bytes <= 0);
    sl_json_put_bool(&json, "searched", f->searched);
    sl_json_put_int(&json, "tp", sl_search_problem_shards(p));
    sl_json_put_int(&json, "dp", f->sim.detail->c.width[0]);
    sl_json_put_int(&json, "pp", f->sim.pp);
    sl_json_put_bool(&json, "zero1", p->zero1);
    sl_json_put_int(&json, "micro_size", p->sizes[f->sim.detail->c.size]);
    sl_json_put_int(&json, "recomputing_stages", recomputing(f));
    sl_json_put_int(&json, "memory_bytes", p->memory[0]);
    sl_json_put_int(&json, "over_bytes", f->sim.score.over_bytes);
    sl_json_put_double(&json, "step_s", 1e-9 * (double)f->sim.score.sim_ns);
    bytes_json(&f->bytes, &json);
    sl_json_key(&json, "changes");
    sl_json_open(&json, '[');
    for (int i = 0; i < f->change_count; i++) {
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "change", f->changes[i].what);
        sl_json_put_int(&json, "peak_bytes", f->changes[i].peak_bytes);
        sl_json_put_bool(&json, "fits", f->changes[i].fits);
        sl_json_put_double(&json, "step_s", 1e-9 * (double)f->changes[i].step_ns);
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(out, "\n");
}
