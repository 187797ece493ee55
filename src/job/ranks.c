/* Compares ranks, and finds facts about the devices and items of a job. */
#include "base/map.h"
#include "base/par.h"
#include "graph/model.h"
#include "job/parts.h"
#include "profile/peak.h"
#include "schedules/given.h"

#include <stdlib.h>

static uint64_t hash_text(struct sl_text *text) {
    uint64_t hash = sl_hash(text->at, text->length);
    sl_text_free(text);
    return hash;
}

static sl_err agree_program(struct sl_comm *comm) {
    char *bytes;
    size_t length;
    SL_TRY(sl_file_read("/proc/self/exe", INT64_MAX / 2, &bytes, &length));
    uint64_t hash = sl_hash(bytes, length);
    free(bytes);
    return sl_comm_agree(comm, "program (the binary differs)", hash);
}

sl_err sl_job_agree(const struct sl_job_work *work) {
    struct sl_comm *comm = work->pipe.comm;
    const struct sl_plan *plan = work->pipe.plan;
    struct sl_text job = {0}, model = {0}, layout = {0};
    if (!comm)
        return SL_OK;
    SL_TRY(agree_program(comm));
    sl_job_write(&work->job, &job);
    sl_text_printf(&job, "%s\n%d\n", work->job.out, work->job.resume);
    SL_TRY(sl_comm_agree(comm, "options", hash_text(&job)));
    if (!plan)
        return sl_fail(SL_ERR_USAGE, "%d ranks need a pipeline: set `stages` or `plan`",
                       comm->ranks);
    sl_graph_model_write(work->graph, &model);
    SL_TRY(sl_comm_agree(comm, "model", hash_text(&model)));
    SL_TRY(sl_comm_agree(comm, "data", sl_data_fingerprint(work->data)));
    sl_plan_write(plan, &layout);
    sl_text_put(&layout, work->pipe.schedule);
    if (sl_schedules_given_passes(work->pipe.row)) {
        struct sl_sched sched = sl_schedules_given_on(work->pipe.row, plan);
        sl_sched_write(&sched, &layout);
    }
    SL_TRY(sl_comm_agree(comm, "plan", hash_text(&layout)));
    if (plan->worker_count < comm->ranks)
        return sl_fail(SL_ERR_USAGE,
                       "%d ranks, but the pipeline has %d workers; start %d ranks or fewer",
                       comm->ranks, plan->worker_count, plan->worker_count);
    return SL_OK;
}

struct sl_job_items sl_job_items(const struct sl_graph *graph) {
    struct sl_job_items items = {.name = "samples", .per_sample = 1};
    int input = graph->losses.at[0].count_input;
    if (input < 0)
        return items;
    const struct sl_shape *shape = &sl_graph_value(graph, graph->inputs.at[input].value)->shape;
    items.per_sample = sl_graph_shape_numel(shape, 1);
    if (items.per_sample > 1)
        items.name = "tokens";
    return items;
}

/* Returns the peak that the device states; false: it states none. */
static bool find_stated_peak(const struct sl_job_work *work, int workers, double *flops) {
    const struct sl_train_config *c = &work->train;
    struct sl_device_facts facts;
    int count = c->device->list ? c->device->list(&facts, 1) : 0;
    if (count < 1)
        return false;
    *flops = sl_dtype_is_half(c->dtype) ? facts.flops_bf16
             : c->tf32                  ? facts.flops_bf16 / 2
                                        : facts.flops_fp32;
    *flops *= workers < count ? workers : count;
    return true;
}

double sl_job_peak_flops(const struct sl_job_work *work) {
    enum { BUDGET_NS = 30000000 };
    const struct sl_device_row *device = work->train.device;
    int workers = work->pipe.plan ? work->pipe.plan->worker_count : 1, cores = sl_par_cores();
    int64_t threads = (int64_t)work->train.threads * workers;
    double flops = 0;
    if (!device->has_kernel || find_stated_peak(work, workers, &flops))
        return flops;
    if (!work->pipe.comm && threads > cores)
        threads = cores;
    if (sl_profile_peak(device, BUDGET_NS, &flops) != SL_OK)
        return 0;
    return flops * (double)threads;
}
