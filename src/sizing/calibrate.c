/* Fits the constants of a machine to measured steps (calibrate.h). */
#include "sizing/calibrate.h"

#include "base/par.h"
#include "cost/fit.h"
#include "cost/measured.h"
#include "job/defaults.h"
#include "job/model.h"
#include "profile/machine_file.h"
#include "sizing/calibrate_report.h"
#include "sizing/sim.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_ROWS = 20, ROUNDS = 12, VOCABULARY = 51200 };

/* Errors above 10 % count by their size, smaller ones by their square. */
static const double robust = 0.1;

struct row {
    struct sl_measured_step of;
    struct sl_graph *graph; /* differentiated; rows of one model share it */
    bool owns, far;         /* far: the step ran on several hosts */
};

struct calibration {
    const struct sl_sizing_calibrate_request *request;
    struct sl_arena *arena;
    struct row *rows;
    int row_count;
    const struct sl_machine *machine;
    bool far;              /* the group of rows that is being fitted */
    const char *recompute; /* choice of recomputation for this group */
};

/* --- a machine with other constants --- */

static double *constant_at(struct sl_cost_device_kind *kind, struct sl_link *link,
                           enum sl_calibrate_constant which) {
    switch (which) {
    case SL_CALIBRATE_EFFICIENCY: return &kind->efficiency;
    case SL_CALIBRATE_HALF: return &kind->half;
    case SL_CALIBRATE_SCORE: return &kind->score_bytes;
    case SL_CALIBRATE_STREAM: return &kind->stream;
    case SL_CALIBRATE_SUM: return &link->sum_bandwidth;
    default: return NULL;
    }
}

static int64_t *time_at(struct sl_cost_device_kind *kind, struct sl_link *link,
                        enum sl_calibrate_constant which) {
    switch (which) {
    case SL_CALIBRATE_LAUNCH: return &kind->launch_ns;
    case SL_CALIBRATE_MEET: return &kind->meet_ns;
    case SL_CALIBRATE_MESSAGE: return &kind->message_ns;
    default: return &link->sum_latency_ns;
    }
}

/* Returns the link between hosts: that of the first level. */
static struct sl_link *far_link(const struct sl_machine *m, struct sl_link *links) {
    return &links[m->level_count ? m->levels[0].link : m->hosts[0].link];
}

/* Rounds to six digits, so that the text of the machine shows exactly the constants that were
 * evaluated. */
static double six_digits(double x) {
    double unit = pow(10, floor(log10(x)) - 5);
    return unit >= 1 ? round(x / unit) * unit : round(x / unit) / round(1 / unit);
}

static sl_err with_constants(const struct calibration *c, struct sl_arena *arena, const double *x,
                             const struct sl_machine **out) {
    struct sl_machine m = *c->machine;
    struct sl_cost_device_kind *kinds = sl_vec_freeze(arena, m.kinds, m.kind_count, sizeof *kinds);
    struct sl_link *links = sl_vec_freeze(arena, m.links, m.link_count, sizeof *links);
    const struct sl_calibrate_group *group = &sl_sizing_calibrate_groups[c->far];
    for (int k = 0; k < group->count; k++) {
        enum sl_calibrate_constant which = group->constants[k].which;
        double *number = constant_at(kinds, far_link(&m, links), which);
        if (number)
            *number = six_digits(exp(x[k]));
        else
            *time_at(kinds, far_link(&m, links), which) = (int64_t)llround(exp(x[k]));
    }
    if (!c->far)
        kinds[0].overhead_ns = 0; /* launch times replace it */
    m.kinds = kinds;
    m.links = links;
    return sl_cost_machine_build(arena, &m, out);
}

static void start_of(const struct calibration *c, double *x, struct sl_fit *fit) {
    const struct sl_machine *m = c->machine;
    struct sl_cost_device_kind kind = m->kinds[0];
    struct sl_link link = *far_link(m, (struct sl_link *)(uintptr_t)m->links);
    const struct sl_calibrate_group *group = &sl_sizing_calibrate_groups[c->far];
    fit->count = group->count;
    for (int k = 0; k < group->count; k++) {
        const struct sl_calibrate_row *row = &group->constants[k];
        double *number = constant_at(&kind, &link, row->which), unit = 1;
        double now = number ? *number : (double)*time_at(&kind, &link, row->which);
        if (row->which == SL_CALIBRATE_STREAM)
            unit = kind.stream;
        if (row->which == SL_CALIBRATE_SUM)
            unit = link.bandwidth;
        fit->low[k] = log(row->low * unit);
        fit->high[k] = log(row->high * unit);
        x[k] = log(now > 0 ? now : row->start * unit);
    }
}

/* --- residuals --- */

static sl_err predict(const struct calibration *c, const struct row *row,
                      const struct sl_machine *machine, double *seconds, int64_t *peak) {
    const struct sl_sizing_calibrate_request *r = c->request;
    const struct sl_sizing_request request = {.plan = {.graph = row->graph,
                                                       .given_machine = machine,
                                                       .dtype = SL_JOB_OR(r->dtype, "fp16"),
                                                       .schedule = SL_JOB_OR(r->schedule, "1f1b"),
                                                       .recompute = c->recompute,
                                                       .batch = row->of.batch,
                                                       .micro_size = row->of.micro,
                                                       .tp = row->of.tp,
                                                       .dp = row->of.dp,
                                                       .pp = row->of.pp}};
    struct sl_arena arena = {0};
    struct sl_report_model_sim s;
    sl_err err = sl_sizing_sim(&arena, &request, &s);
    if (err == SL_OK) {
        *seconds = 1e-9 * (double)s.score.sim_ns;
        *peak = s.score.peak_bytes;
    }
    sl_arena_free(&arena);
    return err;
}

struct batch {
    const struct calibration *c;
    const struct sl_machine *machine;
    const bool *use;
    double *out;
    sl_err *errors;
    char **messages;
};

static void run_row(void *ctx, int64_t i) {
    struct batch *b = ctx;
    const struct row *row = &b->c->rows[i];
    double seconds = 0;
    int64_t peak;
    b->out[i] = 0;
    if (row->far != b->c->far || (b->use && !b->use[i]))
        return;
    b->errors[i] = predict(b->c, row, b->machine, &seconds, &peak);
    if (b->errors[i] != SL_OK)
        b->messages[i] = strdup(sl_err_message());
    else
        b->out[i] = log(seconds / row->of.seconds);
}

static sl_err run_rows(const struct calibration *c, const struct sl_machine *machine,
                       const bool *use, double *out) {
    struct sl_arena arena = {0};
    struct batch b = {.c = c, .machine = machine, .use = use, .out = out};
    sl_err err = SL_OK;
    b.errors = SL_NEW(&arena, sl_err, c->row_count);
    b.messages = SL_NEW(&arena, char *, c->row_count);
    sl_par_for(c->row_count, c->request->threads, run_row, &b);
    for (int i = 0; i < c->row_count; i++) {
        if (err == SL_OK && b.errors[i] != SL_OK)
            err = sl_fail(b.errors[i], "row of line %d: %s", c->rows[i].of.line,
                          b.messages[i] ? b.messages[i] : "");
        free(b.messages[i]);
    }
    sl_arena_free(&arena);
    return err;
}

static sl_err residuals(const void *ctx, const double *x, const bool *use, double *out) {
    const struct calibration *c = ctx;
    struct sl_arena arena = {0};
    const struct sl_machine *machine;
    sl_err err = with_constants(c, &arena, x, &machine);
    if (err == SL_OK)
        err = run_rows(c, machine, use, out);
    sl_arena_free(&arena);
    return err;
}

/* --- folds --- */

/* Computes errors by cross-validation. Row i of the group is held out in fold i mod folds, so
 * neighbours in the table are in different folds. */
static sl_err cross_validate(const struct calibration *c, const struct sl_fit *fit,
                             const double *start, struct sl_calibrate_result *result) {
    bool *use = SL_NEW(c->arena, bool, c->row_count), *held = SL_NEW(c->arena, bool, c->row_count);
    double *errors = SL_NEW(c->arena, double, c->row_count);
    result->held = SL_NEW(c->arena, double, c->row_count);
    for (int fold = 0; fold < result->folds; fold++) {
        double x[SL_FIT_MAX];
        for (int i = 0, k = 0; i < c->row_count; i++) {
            held[i] = c->rows[i].far == c->far && k++ % result->folds == fold;
            use[i] = c->rows[i].far == c->far && !held[i];
        }
        memcpy(x, start, sizeof x);
        SL_TRY(sl_cost_fit(fit, use, x));
        SL_TRY(residuals(c, x, held, errors));
        for (int i = 0; i < c->row_count; i++)
            if (held[i])
                result->held[i] = exp(errors[i]) - 1;
    }
    return SL_OK;
}

static int rows_in(const struct calibration *c) {
    int count = 0;
    for (int i = 0; i < c->row_count; i++)
        count += c->rows[i].far == c->far;
    return count;
}

/* Chooses recomputation, because tables do not say which steps recomputed. Without --recompute,
 * rows on several hosts use `all` if that predicts them better than the choice that memory
 * demands. */
static sl_err choose_recompute(struct calibration *c, const bool *use, double *errors) {
    static const char *const choices[] = {"auto", "all"};
    double best = INFINITY;
    const char *chosen = c->request->recompute;
    for (int i = 0; i < SL_COUNT(choices) && c->far && !c->request->recompute; i++) {
        double sum = 0;
        c->recompute = choices[i];
        SL_TRY(run_rows(c, c->machine, use, errors));
        for (int k = 0; k < c->row_count; k++)
            sum += fabs(errors[k]);
        if (sum < best) {
            best = sum;
            chosen = choices[i];
        }
    }
    c->recompute = chosen;
    return SL_OK;
}

static sl_err fit_group(struct calibration *c, bool far, struct sl_calibrate_result *result) {
    struct sl_fit fit = {
        .rows = c->row_count, .scale = robust, .rounds = ROUNDS, .residuals = residuals, .ctx = c};
    double start[SL_FIT_MAX] = {0}, x[SL_FIT_MAX];
    bool *use = SL_NEW(c->arena, bool, c->row_count);
    double *errors = SL_NEW(c->arena, double, c->row_count);
    c->far = far;
    *result = (struct sl_calibrate_result){.rows = rows_in(c)};
    if (!result->rows)
        return SL_OK;
    for (int i = 0; i < c->row_count; i++)
        use[i] = c->rows[i].far == far;
    SL_TRY(choose_recompute(c, use, errors));
    result->recompute = c->recompute ? c->recompute : "auto";
    if (!c->request->check) {
        start_of(c, start, &fit);
        memcpy(x, start, sizeof x);
        result->folds = (int)c->request->folds;
        if (!result->folds)
            result->folds = result->rows < FEW_ROWS ? result->rows : 5;
        if (result->folds > result->rows)
            result->folds = result->rows;
        if (result->rows > fit.count)
            SL_TRY(cross_validate(c, &fit, start, result));
        SL_TRY(sl_cost_fit(&fit, use, x));
        SL_TRY(with_constants(c, c->arena, x, &c->machine));
    }
    SL_TRY(run_rows(c, c->machine, use, errors));
    result->fitted = errors;
    for (int i = 0; i < c->row_count; i++)
        errors[i] = use[i] ? exp(errors[i]) - 1 : NAN;
    for (int i = 0; i < c->row_count && result->held; i++)
        result->held[i] = use[i] ? result->held[i] : NAN;
    return SL_OK;
}

/* --- sums (all-reduces) --- */

static sl_err devices_of_name(const char *path, int *out) {
    const char *dot = strrchr(path, '.'), *at = dot ? dot : path + strlen(path);
    while (at > path && at[-1] >= '0' && at[-1] <= '9')
        at--;
    *out = atoi(at);
    return *out >= 2 && *out <= SL_DEVICE_MAX
               ? SL_OK
               : sl_fail(SL_ERR_USAGE,
                         "%s: the name must end with the number of devices, as in "
                         "all-reduce-8.txt",
                         path);
}

static sl_err read_file(const char *path, char **text, size_t *length) {
    return sl_file_read(path, SL_MEASURED_BYTES, text, length);
}

/* Fits by least squares (latency + bytes' share / rate) / measured = 1 over all tables. */
static sl_err fit_sums(struct calibration *c) {
    double a[2][3] = {{0}};
    for (int f = 0; f < c->request->sum_count; f++) {
        const struct sl_measured_sum *sums;
        char *text;
        size_t length;
        int count, n;
        SL_TRY(devices_of_name(c->request->sums[f], &n));
        SL_TRY(read_file(c->request->sums[f], &text, &length));
        sl_err err =
            sl_cost_measured_sums(c->arena, c->request->sums[f], text, length, &sums, &count);
        free(text);
        SL_TRY(err);
        for (int i = 0; i < count; i++) {
            double v[2] = {1 / sums[i].seconds,
                           2.0 * (n - 1) / n * sums[i].bytes / sums[i].seconds};
            for (int j = 0; j < 2; j++) {
                a[j][2] += v[j] / count;
                for (int k = 0; k < 2; k++)
                    a[j][k] += v[j] * v[k] / count;
            }
        }
    }
    double det = a[0][0] * a[1][1] - a[0][1] * a[1][0];
    double latency = (a[0][2] * a[1][1] - a[0][1] * a[1][2]) / det;
    double slope = (a[0][0] * a[1][2] - a[1][0] * a[0][2]) / det;
    if (!(slope > 0) || !isfinite(latency))
        return sl_fail(SL_ERR_INPUT, "the all-reduces do not grow with their size");
    struct sl_machine m = *c->machine;
    struct sl_link *links = sl_vec_freeze(c->arena, m.links, m.link_count, sizeof *links);
    struct sl_link *inside = &links[m.hosts[0].link];
    inside->sum_bandwidth = six_digits(1 / slope);
    inside->sum_latency_ns = latency > 0 ? (int64_t)llround(1e9 * latency) : 0;
    m.links = links;
    return sl_cost_machine_build(c->arena, &m, &c->machine);
}

/* --- rows --- */

static bool same_model(const struct sl_measured_step *a, const struct sl_measured_step *b) {
    return a->hidden == b->hidden && a->heads == b->heads && a->layers == b->layers &&
           a->sequence == b->sequence;
}

static sl_err open_graph(const struct calibration *c, struct row *row) {
    const struct sl_sizing_calibrate_request *r = c->request;
    const struct sl_measured_step *s = &row->of;
    const struct sl_job_model_request request = {
        .name = SL_JOB_OR(r->model, "gpt2"),
        .dirs = r->model_dirs,
        .sizes = sl_arena_printf(c->arena, "C=%lld,H=%lld,L=%lld,T=%lld,P=%lld,V=%lld",
                                 (long long)s->hidden, (long long)s->heads, (long long)s->layers,
                                 (long long)s->sequence, (long long)s->sequence,
                                 (long long)(r->vocabulary ? r->vocabulary : VOCABULARY))};
    SL_TRY(sl_job_model_open(&request, &row->graph, NULL));
    row->owns = true;
    return sl_graph_autodiff(row->graph);
}

static int host_devices(const struct sl_machine *m) {
    int count = 0;
    for (int p = 0; p < m->hosts[0].part_count; p++)
        count += m->hosts[0].parts[p].count;
    return count;
}

static sl_err add_rows(struct calibration *c, const struct sl_measured_step *steps, int count,
                       const char *file) {
    c->rows = sl_realloc(c->rows, sizeof *c->rows * (size_t)(c->row_count + count));
    for (int i = 0; i < count; i++) {
        struct row *row = &c->rows[c->row_count++];
        *row = (struct row){.of = steps[i], .far = steps[i].devices > host_devices(c->machine)};
        for (int k = 0; k < c->row_count - 1 && !row->graph; k++)
            if (same_model(&c->rows[k].of, &row->of))
                row->graph = c->rows[k].graph;
        if (!row->graph) {
            sl_err err = open_graph(c, row);
            if (err != SL_OK)
                return sl_err_context(err, "%s:%d", file, row->of.line);
        }
    }
    return SL_OK;
}

static sl_err read_rows(struct calibration *c) {
    for (int f = 0; f < c->request->step_count; f++) {
        const struct sl_measured_step *steps;
        char *text;
        size_t length;
        int count;
        SL_TRY(read_file(c->request->steps[f], &text, &length));
        sl_err err =
            sl_cost_measured_steps(c->arena, c->request->steps[f], text, length, &steps, &count);
        free(text);
        SL_TRY(err);
        SL_TRY(add_rows(c, steps, count, c->request->steps[f]));
    }
    return SL_OK;
}

/* --- the whole calibration --- */

static sl_err write_machine(const struct calibration *c) {
    struct sl_text text = {0};
    sl_cost_machine_write(c->machine, &text);
    sl_err err = sl_file_write(c->request->to, text.at, text.length);
    sl_text_free(&text);
    return err;
}

static sl_err calibrate(struct calibration *c, struct sl_text *out) {
    const struct sl_sizing_calibrate_request *r = c->request;
    struct sl_calibrate_result results[SL_CALIBRATE_GROUPS];
    SL_TRY(sl_profile_machine_argument(c->arena, r->machine, &c->machine));
    if (c->machine->kind_count != 1)
        return sl_fail(SL_ERR_REFUSED, "`machine`: %s has %d kinds of devices; one is supported",
                       c->machine->name, c->machine->kind_count);
    SL_TRY(read_rows(c));
    if (r->sum_count && !r->check)
        SL_TRY(fit_sums(c));
    for (int g = 0; g < SL_CALIBRATE_GROUPS; g++)
        SL_TRY(fit_group(c, g == SL_CALIBRATE_NETWORK, &results[g]));
    if (r->to)
        SL_TRY(write_machine(c));
    if (r->json)
        sl_sizing_calibrate_report_json(c->machine, results, c->row_count, out);
    else
        sl_sizing_calibrate_report(c->machine, results, c->row_count, out);
    return SL_OK;
}

sl_err sl_sizing_calibrate(const struct sl_sizing_calibrate_request *request, struct sl_text *out) {
    struct sl_arena arena = {0};
    struct calibration c = {.request = request, .arena = &arena};
    sl_err err = calibrate(&c, out);
    for (int i = 0; i < c.row_count; i++)
        if (c.rows[i].owns)
            sl_graph_close(c.rows[i].graph);
    free(c.rows);
    sl_arena_free(&arena);
    return err;
}
