/* Writes what a training run did as JSON, and compares it with its forecast. */
#include "device/bind.h"
#include "job/train.h"

#include <math.h>

double sl_job_forecast_error(const struct sl_job_work *work, const struct sl_job_outcome *o,
                             int *threads, int *cores) {
    const struct sl_pipe_config *pipe = &work->pipe;
    int workers = pipe->plan && !pipe->comm ? pipe->plan->worker_count : 1;
    *threads = workers * work->train.threads;
    *cores = sl_device_bind_count();
    if (!work->forecast.cost)
        return NAN;
    return 1e9 * sl_job_stats_summary(&o->stats).step_s / (double)work->forecast.step_ns - 1;
}

static void put_stats(struct sl_json_out *json, const struct sl_job_outcome *o) {
    struct sl_job_summary s = sl_job_stats_summary(&o->stats);
    sl_json_put_double(json, "step_s", s.step_s);
    sl_json_put_double(json, "step_spread", s.step_spread);
    sl_json_put_double(json, "step_cpu_s", s.step_cpu_s);
    sl_json_put_double(json, "peak_bytes", s.peak_bytes);
    sl_json_put_int(json, "saves", o->saves.count);
    sl_json_put_int(json, "save_stall_ns", o->saves.stall_ns);
    sl_json_put_int(json, "save_write_ns", o->saves.write_ns);
    sl_json_put_int(json, "save_cpu_ns", o->saves.cpu_ns);
    sl_json_put_int(json, "saves_beside", o->saves.concurrent);
    sl_json_put_int(json, "save_beside_stall_ns", o->saves.concurrent_stall_ns);
    sl_json_put_int(json, "save_every", o->saves.every);
}

static void put_ranks(struct sl_json_out *json, const struct sl_job_outcome *o,
                      const int64_t *peaks, int ranks) {
    sl_json_key(json, "ranks");
    sl_json_open(json, '[');
    for (int r = 0; r < ranks; r++) {
        sl_json_open(json, '{');
        sl_json_put_int(json, "rank", r);
        if (o->rank_bytes)
            sl_json_put_int(json, "bytes", o->rank_bytes[r]);
        sl_json_put_int(json, "peak_bytes", peaks[r]);
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
}

sl_err sl_job_outcome_json(struct sl_job_work *work, const struct sl_job_outcome *o,
                           struct sl_text *text) {
    const struct sl_session_result *r = &o->result;
    struct sl_comm *comm = work->pipe.comm;
    struct sl_json_out json = {.text = text, .indent = 2};
    int64_t *peaks = comm ? SL_NEW(&work->arena, int64_t, comm->ranks) : NULL;
    if (comm)
        SL_TRY(sl_job_stats_ranks(&o->stats, comm, peaks));
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "model", work->graph->name);
    sl_json_put_int(&json, "step", r->step);
    sl_json_put_int(&json, "steps", work->train.steps);
    sl_json_put_double(&json, "loss", r->last_loss);
    sl_json_put_double(&json, "eval_loss", r->last_eval);
    sl_json_put_int(&json, "skipped", r->skipped);
    sl_json_put_bool(&json, "diverged", r->diverged);
    sl_json_put_bool(&json, "stopped", r->stopped);
    sl_json_put_bool(&json, "resumed", r->resumed);
    sl_json_put_int(&json, "bytes", r->bytes);
    sl_json_put_int(&json, "step_items", work->train.batch * o->items.per_sample);
    if (work->forecast.cost) {
        sl_json_put_double(&json, "forecast_s", 1e-9 * (double)work->forecast.step_ns);
        sl_json_put_double(&json, "forecast_low_s", 1e-9 * (double)work->forecast.low_ns);
        sl_json_put_double(&json, "forecast_high_s", 1e-9 * (double)work->forecast.high_ns);
    }
    put_stats(&json, o);
    sl_json_put_string(&json, "run", work->job.out);
    if (comm)
        put_ranks(&json, o, peaks, comm->ranks);
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
    return SL_OK;
}
