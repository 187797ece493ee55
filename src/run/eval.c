/* Evaluation: loss and accuracy over the validation split. */
#include "run/scores.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* SCORES_LIMIT: largest number of scores for which accuracy is computed. PIECE_SCORES: scores
 * fetched at a time. */
enum { SCORES_LIMIT = 1 << 26, PIECE_SCORES = 1 << 14 };

enum sl_worker_program sl_run_train_eval_program(const struct sl_train *train) {
    return train->worker->programs[SL_WORKER_EVAL] ? SL_WORKER_EVAL : SL_WORKER_FULL;
}

const struct sl_program_port *sl_run_train_find_output(const struct sl_train *train,
                                                       const char *name) {
    const struct sl_program *p = train->worker->programs[sl_run_train_eval_program(train)];
    for (int i = 0; i < p->outputs.count; i++)
        if (strcmp(p->graph->outputs.at[p->outputs.at[i].index].name, name) == 0)
            return &p->outputs.at[i];
    return NULL;
}

void sl_run_scores_open(const struct sl_train *train, struct sl_scores *s) {
    const struct sl_loss *loss = &train->config.graph->losses.at[0];
    const struct sl_program_port *port = sl_run_train_find_output(train, "logits");
    *s = (struct sl_scores){.input = loss->count_input, .ignore = loss->ignore};
    if (!port || s->input < 0 || port->operand.shape.rank == 0)
        return;
    const struct sl_operand *operand = &port->operand;
    s->classes = operand->shape.dim[operand->shape.rank - 1];
    s->rows = operand->numel / s->classes;
    const struct sl_shape *target =
        &sl_graph_value(train->config.graph, train->config.graph->inputs.at[s->input].value)->shape;
    const struct sl_program *p = train->worker->programs[sl_run_train_eval_program(train)];
    if (operand->numel > SCORES_LIMIT || sl_graph_shape_numel(target, p->samples) != s->rows)
        return;
    s->piece = PIECE_SCORES / s->classes > 1 ? PIECE_SCORES / s->classes : 1;
    s->at = sl_realloc(NULL, sizeof *s->at * (size_t)(s->piece * s->classes));
    s->targets = sl_realloc(NULL, sizeof *s->targets * (size_t)s->rows);
    s->port = port;
}

void sl_run_scores_close(struct sl_scores *s) {
    free(s->at);
    free(s->targets);
    *s = (struct sl_scores){0};
}

static void count_rows(struct sl_scores *s, int64_t first, int64_t count) {
    for (int64_t r = 0; r < count; r++) {
        int32_t target = s->targets[first + r];
        if (target == s->ignore)
            continue;
        const float *row = s->at + r * s->classes;
        int64_t best = 0;
        for (int64_t k = 1; k < s->classes; k++)
            if (row[k] > row[best])
                best = k;
        s->counted++;
        s->right += best == target;
    }
}

sl_err sl_run_scores_count(struct sl_train *train, const struct sl_feed *feed,
                           struct sl_scores *s) {
    if (!s->port)
        return SL_OK;
    SL_TRY(sl_data_fill(train->config.data, feed->split, feed->first, feed->count, s->input,
                        s->targets));
    for (int64_t first = 0; first < s->rows; first += s->piece) {
        int64_t count = s->rows - first < s->piece ? s->rows - first : s->piece;
        struct sl_part part = {first * s->classes, count * s->classes};
        SL_TRY(sl_run_worker_get_part(train->worker, feed->slot, s->port, part, s->at));
        count_rows(s, first, count);
    }
    return SL_OK;
}

static sl_err eval_rounds(struct sl_train *train, int64_t first, int64_t rounds,
                          struct sl_eval_report *report, int64_t *counted, int64_t *right) {
    enum sl_worker_program program = sl_run_train_eval_program(train);
    int64_t batch = train->worker->programs[program]->samples;
    int slot = program == SL_WORKER_EVAL ? train->worker->slots : 0;
    struct sl_scores scores;
    sl_err err = SL_OK;
    sl_run_scores_open(train, &scores);
    for (int64_t r = 0; r < rounds; r++) {
        struct sl_feed feed = {SL_DATA_VALID, program, first + r * batch, batch, slot};
        struct sl_worker_pass pass = {.program = program, .slot = slot, .first_sample = feed.first};
        SL_TRY_OUT(sl_run_train_feed(train, &feed));
        SL_TRY_OUT(sl_run_worker_pass(train->worker, &pass));
        SL_TRY_OUT(sl_run_train_add_losses(train, &feed, &report->loss));
        SL_TRY_OUT(sl_run_scores_count(train, &feed, &scores));
        report->samples += batch;
    }
    *counted += scores.counted;
    *right += scores.right;
out:
    sl_run_scores_close(&scores);
    return err;
}

sl_err sl_run_eval_samples(const struct sl_train_config *config, int64_t samples, int64_t unit,
                           int64_t *out) {
    int64_t have = sl_data_count(config->data, SL_DATA_VALID);
    int64_t rounds = (samples < have ? samples : have) / unit;
    if (rounds == 0 && have >= unit)
        rounds = 1;
    if (rounds == 0)
        return sl_fail(SL_ERR_REFUSED,
                       "the validation split has %lld samples, fewer than one micro-batch of "
                       "%lld; use a larger `validation`",
                       (long long)have, (long long)unit);
    *out = rounds * unit;
    return SL_OK;
}

sl_err sl_run_train_eval_range(struct sl_train *train, struct sl_eval_range *range,
                               struct sl_eval_report *report) {
    int64_t start = sl_clock_ns();
    int64_t batch = train->worker->programs[sl_run_train_eval_program(train)]->samples;
    SL_ASSERT(range->count % batch == 0 && range->first + range->count <= range->all);
    report->step = train->step;
    SL_TRY(sl_run_train_count(train, SL_DATA_VALID, 0, range->all, train->counts));
    SL_TRY(eval_rounds(train, range->first, range->count / batch, report, &range->counted,
                       &range->right));
    report->accuracy = range->counted ? (double)range->right / (double)range->counted : NAN;
    report->dur_ns += sl_clock_ns() - start;
    return SL_OK;
}

sl_err sl_run_train_eval(struct sl_train *train, int64_t samples, struct sl_eval_report *report) {
    struct sl_eval_range range = {0};
    int64_t all;
    int64_t batch = train->worker->programs[sl_run_train_eval_program(train)]->samples;
    SL_TRY(sl_run_eval_samples(&train->config, samples, batch, &all));
    *report = (struct sl_eval_report){0};
    range.all = range.count = all;
    return sl_run_train_eval_range(train, &range, report);
}
