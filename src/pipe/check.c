/* Compares a pipeline with its reference. */
#include "pipe/check.h"

#include "pipe/state.h"
#include "run/serial.h"
#include "sched/order.h"
#include "schedules/schedule.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The two runs that are compared. */
struct pair {
    const struct sl_check_config *config;
    struct sl_check_report *report;
    struct sl_train_config train; /* configuration of the reference */
    struct sl_train *one;         /* the reference: one worker; NULL if `serial` is the reference */
    struct sl_serial *serial;
    struct sl_pipe *pipe;
    /* facts about the comparison (enum fields and flags); its numbers are unused */
    struct sl_check_report kind;
    struct sl_step_report *ones, *pipes; /* [steps] reports of the reference and of the pipeline */
    sl_err err;                          /* error of a download */
};

static void close_pair(struct pair *p) {
    sl_pipe_close(p->pipe);
    sl_run_train_close(p->one);
    sl_run_serial_close(p->serial);
    free(p->ones);
    free(p->pipes);
}

/* Do the plan and the schedule add in the same order as one worker? The order of gradients always
 * counts; the order of forwards counts only if there are running statistics. */
static bool is_plain(const struct sl_plan *plan, const struct sl_sched *sched, bool statistics) {
    struct sl_sched_order order = sl_sched_order_of(sched);
    if (sched->rule != SL_RULE_SYNC || !order.gradients || (statistics && !order.forwards))
        return false;
    for (int s = 0; s < plan->stage_count; s++)
        if (plan->stages[s].width > 1 || plan->stages[s].micro_size != plan->stages[0].micro_size)
            return false;
    return true;
}

/* The reference of shards is one worker with the graph of all of them. */
static sl_err set_graph(struct pair *p) {
    const struct sl_pipe_config *c = &p->config->pipe;
    if (c->plan->stages[0].parts < 2)
        return SL_OK;
    if (!p->config->together || !p->kind.ordered)
        return sl_fail(SL_ERR_REFUSED,
                       "the reference of tensor-parallel shards is one worker, which has no "
                       "replicas, no stale weights and one order of gradients; compare runs with "
                       "'sluice compare' instead");
    p->train.graph = p->config->together;
    p->train.eval_graph = NULL;
    return SL_OK;
}

/* The parameter or state of the reference. Copies W.echo-1, ... of other shards are its W. */
static int counterpart(const struct pair *p, const char *name, int number, bool state) {
    const struct sl_graph *graph = p->config->together;
    const char *echo = strstr(name, ".echo-");
    size_t length = echo ? (size_t)(echo - name) : strlen(name);
    for (int i = 0; graph && i < (state ? graph->states.count : graph->params.count); i++) {
        const char *other = (state ? &graph->states.at[i] : &graph->params.at[i])->name;
        if (strlen(other) == length && memcmp(other, name, length) == 0)
            return i;
    }
    return number;
}

static const struct sl_worker *reference(const struct pair *p, int stage) {
    return p->one ? p->one->worker : sl_run_serial_worker(p->serial, stage);
}

/* Stall limit of a check: long, because a check looks for different bits, not for stalls, and its
 * cores may be shared. */
static const int64_t stall_ns = 300000000000;

static sl_err open_pair(struct pair *p) {
    const struct sl_pipe_config *c = &p->config->pipe;
    struct sl_pipe_config pipe = *c;
    size_t count = (size_t)c->train->steps + 1;
    pipe.stall_ns = stall_ns;
    p->ones = calloc(count, sizeof *p->ones);
    p->pipes = calloc(count, sizeof *p->pipes);
    if (!p->ones || !p->pipes)
        sl_out_of_memory(count * sizeof *p->ones);
    p->train = *c->train;
    p->train.micros =
        (p->train.batch + c->plan->stages[0].micro_size - 1) / c->plan->stages[0].micro_size;
    SL_TRY(sl_pipe_open(&pipe, &p->pipe));
    SL_TRY(sl_pipe_build_sched(p->pipe, c->train->steps)); /* builds the schedule that will run */
    p->kind.ordered = is_plain(c->plan, p->pipe->sched, c->train->graph->states.count > 0);
    p->kind.stale = p->pipe->sched->rule != SL_RULE_SYNC;
    p->kind.other_order = !sl_sched_order_of(p->pipe->sched).gradients;
    SL_TRY(set_graph(p));
    if (p->kind.ordered)
        SL_TRY(sl_run_train_open(&p->train, &p->one));
    else
        SL_TRY(sl_run_serial_open(c->train, c->plan, c->stage_of, p->pipe->sched, &p->serial));
    if (p->config->opened)
        p->config->opened(p->config->ctx, p->pipe);
    return SL_OK;
}

/* ---- comparing ---- */

struct tensor {
    enum sl_check_kind kind;
    int stage;
    const char *name;
    const float *pipe, *one; /* each in memory of its device below */
    struct sl_device *pipe_device, *one_device;
    int64_t first, count; /* elements */
};

enum { PIECE = 16384 };

static sl_err fetch(struct sl_device *device, const float *from, int64_t count, float *out) {
    SL_TRY(device->row->download(device, SL_STREAM_COMPUTE, out, from, count * 4));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

/* Compares two tensors piece by piece. Also returns false after an error, which p->err then
 * holds. */
static bool same_tensor(struct pair *p, const struct tensor *t) {
    struct sl_check_report *r = p->report;
    float pipe[PIECE], one[PIECE];
    r->tensors++;
    r->elements += t->count;
    for (int64_t at = 0; at < t->count; at += PIECE) {
        int64_t n = t->count - at < PIECE ? t->count - at : PIECE, i = 0;
        p->err = fetch(t->pipe_device, t->pipe + at, n, pipe);
        if (p->err == SL_OK)
            p->err = fetch(t->one_device, t->one + at, n, one);
        if (p->err != SL_OK)
            return false;
        if (memcmp(pipe, one, (size_t)n * sizeof(float)) == 0)
            continue;
        while (memcmp(&pipe[i], &one[i], sizeof(float)) == 0)
            i++;
        r->kind = t->kind;
        r->stage = t->stage;
        r->tensor = t->name;
        r->element = t->first + at + i;
        r->pipe = (double)pipe[i];
        r->one = (double)one[i];
        return false;
    }
    return true;
}

static const float *floats(const void *slab, int64_t offset) {
    return (const float *)(const void *)((const char *)slab + offset);
}

static bool same_params(struct pair *p, int stage, int replica) {
    const struct sl_worker *w = sl_pipe_replica(p->pipe, stage, replica),
                           *one = reference(p, stage);
    const struct sl_program *part = w->programs[SL_WORKER_FULL];
    const struct sl_program *whole = one->programs[SL_WORKER_FULL];
    for (int i = 0; i < part->param_count; i++) {
        const struct sl_program_param *a = &part->params[i];
        const char *name = part->graph->params.at[a->param].name;
        const struct sl_program_param *b = sl_run_worker_find(
            whole->params, whole->param_count, counterpart(p, name, a->param, false));
        SL_ASSERT(b); /* the whole model has every tensor of a stage */
        struct tensor t = {
            .kind = SL_CHECK_WEIGHT,
            .stage = stage,
            .name = name,
            .pipe = floats(w->param[sl_pipe_newest(p->pipe, stage)], a->offset),
            .one = floats(one->param[p->one ? 0 : sl_run_serial_newest(p->serial)], b->offset),
            .pipe_device = w->device,
            .one_device = one->device,
            .count = a->numel,
        };
        if (!same_tensor(p, &t))
            return false;
        struct sl_part own = sl_run_worker_own(w, i);
        t.kind = SL_CHECK_OPTIM;
        t.first = own.first;
        t.count = own.count;
        for (int s = 0; s < w->state_count; s++) {
            t.pipe = sl_run_worker_opt(w, s, i);
            t.one = floats(one->opt[s], b->offset + own.first * 4);
            if (!same_tensor(p, &t))
                return false;
        }
    }
    return true;
}

/* Each replica of an asynchronous stage has its own statistics, so there is nothing to compare. */
static bool skips_states(const struct pair *p, int stage) {
    return p->kind.stale && p->config->pipe.plan->stages[stage].width > 1;
}

static bool same_states(struct pair *p, int stage, int replica) {
    const struct sl_worker *w = sl_pipe_replica(p->pipe, stage, replica),
                           *one = reference(p, stage);
    const struct sl_program *part = w->programs[SL_WORKER_FULL];
    const struct sl_program *whole = one->programs[SL_WORKER_FULL];
    for (int i = 0; i < part->state_count; i++) {
        const struct sl_program_param *a = &part->states[i];
        const char *name = part->graph->states.at[a->param].name;
        const struct sl_program_param *b = sl_run_worker_find(whole->states, whole->state_count,
                                                              counterpart(p, name, a->param, true));
        SL_ASSERT(b); /* the whole model has every tensor of a stage */
        struct tensor t = {SL_CHECK_STATE,
                           stage,
                           name,
                           floats(w->state, a->offset),
                           floats(one->state, b->offset),
                           w->device,
                           one->device,
                           0,
                           a->numel};
        if (!same_tensor(p, &t))
            return false;
    }
    return true;
}

/* What a step reports. */
enum { LOG_LOSS, LOG_RATE, LOG_SCALE, LOG_SKIPPED, LOG_NORM, LOG_NUMBERS };

static const char *const log_names[LOG_NUMBERS] = {"loss", "learning rate", "loss scale",
                                                   "skipped (1) or not (0)", "gradient norm"};

static void log_numbers(const struct sl_step_report *r, double *out) {
    out[LOG_LOSS] = r->loss;
    out[LOG_RATE] = r->lr;
    out[LOG_SCALE] = r->loss_scale;
    out[LOG_SKIPPED] = r->skipped;
    out[LOG_NORM] = r->norm;
}

static bool same_number(double a, double b) {
    return memcmp(&a, &b, sizeof a) == 0 || (isnan(a) && isnan(b));
}

/* Stages that step at different times decide by their own norms: there is no common one. */
static bool same_log(struct pair *p, int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; i++) {
        double pipe[LOG_NUMBERS], one[LOG_NUMBERS];
        int numbers = isnan(p->pipes[i].norm) && p->kind.stale ? LOG_SKIPPED : LOG_NUMBERS, k = 0;
        log_numbers(&p->pipes[i], pipe);
        log_numbers(&p->ones[i], one);
        while (k < numbers && same_number(pipe[k], one[k]))
            k++;
        if (k == numbers)
            continue;
        p->report->kind = k == LOG_LOSS ? SL_CHECK_LOSS : SL_CHECK_LOG;
        p->report->stage = -1;
        p->report->tensor = log_names[k];
        p->report->element = 0;
        p->report->pipe = pipe[k];
        p->report->one = one[k];
        return false;
    }
    return true;
}

/* The result of one rank, which compares its own stages. The result of all ranks is the first
 * difference of any rank. */
struct finding {
    int64_t differs, tensors, elements, kind, stage, element;
    double pipe, one;
    char tensor[256];
};

static const char *find_name(const struct sl_graph *graph, const char *name) {
    for (int64_t i = 0; i < graph->params.count; i++)
        if (strcmp(graph->params.at[i].name, name) == 0)
            return graph->params.at[i].name;
    for (int64_t i = 0; i < graph->states.count; i++)
        if (strcmp(graph->states.at[i].name, name) == 0)
            return graph->states.at[i].name;
    for (int k = 0; k < LOG_NUMBERS; k++)
        if (strcmp(log_names[k], name) == 0)
            return log_names[k];
    return log_names[LOG_LOSS];
}

static struct finding finding_of(const struct sl_check_report *r) {
    struct finding f = {.differs = r->kind != SL_CHECK_SAME,
                        .tensors = r->tensors,
                        .elements = r->elements,
                        .kind = r->kind,
                        .stage = r->stage,
                        .element = r->element,
                        .pipe = r->pipe,
                        .one = r->one};
    if (r->tensor)
        snprintf(f.tensor, sizeof f.tensor, "%s", r->tensor);
    return f;
}

static sl_err share_report(struct pair *p, bool *same) {
    struct sl_comm *comm = p->config->pipe.comm;
    struct sl_check_report *r = p->report;
    if (!comm)
        return SL_OK;
    struct sl_arena arena = {0};
    struct finding *all = SL_NEW(&arena, struct finding, comm->ranks), *first = NULL;
    all[comm->rank] = finding_of(r);
    sl_err err = sl_comm_merge(comm, all, comm->ranks * (int64_t)sizeof *all);
    r->tensors = r->elements = 0;
    for (int i = 0; i < comm->ranks; i++) {
        r->tensors += all[i].tensors;
        r->elements += all[i].elements;
        if (all[i].differs && (!first || (uint64_t)all[i].stage < (uint64_t)first->stage))
            first = &all[i]; /* the log, stage -1, comes last */
    }
    *same = !first;
    if (first) {
        r->kind = (enum sl_check_kind)first->kind;
        r->stage = (int)first->stage;
        r->tensor = find_name(p->config->pipe.train->graph, first->tensor);
        r->element = first->element;
        r->pipe = first->pipe;
        r->one = first->one;
    }
    sl_arena_free(&arena);
    return err;
}

/* Runs `count` steps of the pipeline and of the reference, from step `first` (0-based), and
 * compares. */
static sl_err run_steps(struct pair *p, int64_t first, int64_t count, bool *same) {
    for (int64_t i = first; i < first + count; i++)
        SL_TRY(p->one ? sl_run_train_step(p->one, &p->ones[i])
                      : sl_run_serial_step(p->serial, &p->ones[i]));
    SL_TRY(sl_pipe_run(p->pipe, count, p->pipes + first));
    *p->report = p->kind;
    *same = true;
    for (int s = 0; s < p->config->pipe.plan->stage_count; s++)
        for (int r = 0; *same && r < p->config->pipe.plan->stages[s].width; r++)
            if (sl_pipe_replica(p->pipe, s, r))
                *same = same_params(p, s, r) && (skips_states(p, s) || same_states(p, s, r));
    SL_TRY(p->err);
    *same = *same && same_log(p, first, count);
    return share_report(p, same);
}

/* ---- the check ---- */

static sl_err check_whole(struct pair *p, bool *same) {
    SL_TRY(open_pair(p));
    return run_steps(p, 0, p->config->pipe.train->steps, same);
}

/* Finds the first step that differs. Leaves report->step 0 if single steps show no difference. */
static sl_err find_step(struct pair *p) {
    struct sl_check_report whole = *p->report;
    bool same = true;
    SL_TRY(open_pair(p));
    for (int64_t i = 0; i < p->config->pipe.train->steps; i++) {
        SL_TRY(run_steps(p, i, 1, &same));
        p->report->step = i + 1;
        if (!same)
            return SL_OK;
    }
    *p->report = whole;
    return SL_OK;
}

sl_err sl_pipe_check(const struct sl_check_config *config, struct sl_check_report *report) {
    struct pair whole = {.config = config, .report = report}, single = whole;
    bool same = true;
    *report = (struct sl_check_report){.kind = SL_CHECK_SAME};
    sl_err err = check_whole(&whole, &same);
    close_pair(&whole);
    if (err != SL_OK || same || report->stale)
        return err;
    err = find_step(&single);
    close_pair(&single);
    return err;
}
