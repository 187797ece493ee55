/* Evaluates all samples: in whole micro-batches, then with a second program for the samples left
 * over. */
#include "use/eval.h"

static sl_err eval_range(const struct sl_train *opened, struct sl_train *train, int64_t all,
                         struct sl_eval_range *range, struct sl_eval_report *report) {
    int64_t unit = opened->worker->programs[sl_run_train_eval_program(opened)]->samples;
    range->all = all;
    range->first += range->count;
    range->count = (all - range->first) / unit * unit;
    return range->count ? sl_run_train_eval_range(train, range, report) : SL_OK;
}

sl_err sl_use_eval(const struct sl_job *job, const char *run, const struct sl_job_host *host,
                   int64_t samples, struct sl_use_eval_report *out) {
    struct sl_eval_range range = {0};
    struct sl_job_eval eval = {0};
    int64_t left = 0;
    sl_err err = SL_OK;
    *out = (struct sl_use_eval_report){0};
    for (int part = 0; part < 2; part++) {
        SL_TRY_OUT(sl_job_eval_open_on(job, run, left, host, &eval));
        out->available = sl_data_count(eval.work.data, SL_DATA_VALID);
        int64_t all = samples < out->available ? samples : out->available;
        if (all < 1)
            SL_TRY_OUT(sl_fail(SL_ERR_REFUSED,
                               "the validation split is empty; set `validation` to hold samples "
                               "out"));
        SL_TRY_OUT(eval_range(eval.train, eval.train, all, &range, &out->report));
        left = all - range.first - range.count;
        if (left == 0)
            break;
        sl_job_eval_close(&eval);
        eval = (struct sl_job_eval){0};
    }
out:
    sl_job_eval_close(&eval);
    return err;
}
