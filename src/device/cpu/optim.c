/* Optimizer steps, norms and predictions of many parameters at once, split over a pool.
 *
 * All parameters form one line of elements. Each thread gets a part of the line, so that small
 * parameters (biases, norms) do not each need a round of the pool. Elementwise rules give the same
 * bits for any split. A norm is split between subtrees of its canonical tree (optim/norm.h). Rules
 * for whole matrices (muon) run afterwards, one by one. */
#include "device/cpu/optim.h"

#include "optim/norm.h"

#include <stdlib.h>
#include <string.h>

extern const struct sl_device_cpu_optim sl_device_cpu_optim_any, sl_device_cpu_optim_avx2,
    sl_device_cpu_optim_avx512;

const struct sl_device_cpu_optim *const sl_device_cpu_optims[] = {
    &sl_device_cpu_optim_avx512,
    &sl_device_cpu_optim_avx2,
    &sl_device_cpu_optim_any,
    NULL,
};

const struct sl_device_cpu_optim *sl_device_cpu_optim_best(void) {
    int i = 0;
    while (!sl_device_cpu_optims[i]->supported())
        i++;
    return sl_device_cpu_optims[i];
}

void *sl_device_cpu_room_take(struct sl_device_cpu_room *room, int64_t size_bytes) {
    if (size_bytes <= room->size_bytes)
        return room->at;
    free(room->at);
    room->size_bytes = (size_bytes + 63) / 64 * 64;
    room->at = aligned_alloc(64, (size_t)room->size_bytes);
    if (!room->at)
        sl_out_of_memory((size_t)room->size_bytes);
    return room->at;
}

enum { GRAIN = 1024 };

/* All items as one line of elements; `visit` is called for elements [from, to) of an item. */
struct line {
    const struct sl_device_cpu_optim *optim;
    const struct sl_step_item *items;
    int count;
    int64_t total;
    double ahead;
    void (*visit)(const struct line *line, const struct sl_step_item *item, int64_t from,
                  int64_t to);
};

static bool is_elementwise(const struct sl_step_item *item) {
    return !item->param->optim.row->whole_matrix;
}

static void line_part(void *ctx, int thread, int threads) {
    const struct line *line = ctx;
    int64_t from, to, first = 0;
    sl_device_pool_range(line->total, GRAIN, thread, threads, &from, &to);
    for (int i = 0; i < line->count && first < to; i++) {
        const struct sl_step_item *item = &line->items[i];
        int64_t last = first + item->io.count;
        if (last > from)
            line->visit(line, item, from > first ? from - first : 0,
                        (to < last ? to : last) - first);
        first = last;
    }
}

static void line_run(struct line *line, struct sl_device_pool *pool) {
    for (int i = 0; i < line->count; i++)
        line->total += line->items[i].io.count;
    sl_device_pool_share(pool, line_part, line);
}

static struct sl_step_io range_of(const struct sl_step_io *io, int64_t from, int64_t to) {
    struct sl_step_io part = *io;
    part.count = to - from;
    part.w += from;
    part.g = io->g ? io->g + from : NULL;
    part.delta = io->delta ? io->delta + from : NULL;
    for (int i = 0; i < SL_OPTIM_STATE; i++)
        part.state[i] = io->state[i] ? io->state[i] + from : NULL;
    return part;
}

/* Returns the rule of an item. If the table has none, it returns the last row, without name and
 * step. */
static const struct sl_device_cpu_rule *rule_of(const struct line *line,
                                                const struct sl_step_item *item) {
    const struct sl_device_cpu_rule *rule = line->optim->rules;
    while (rule->name && strcmp(rule->name, item->param->optim.row->name) != 0)
        rule++;
    return rule;
}

static void step_range(const struct line *line, const struct sl_step_item *item, int64_t from,
                       int64_t to) {
    const struct sl_device_cpu_rule *rule = rule_of(line, item);
    struct sl_step_io io = range_of(&item->io, from, to);
    if (is_elementwise(item))
        (rule->step ? rule->step : item->param->optim.row->step)(&item->coef, &io);
}

/* Optimizers whose rule needs a whole matrix, with steps that use all threads. */
static const struct matrix_rule {
    const char *name;
    void (*step)(const struct sl_device_cpu_optim *optim, struct sl_device_pool *pool,
                 const struct sl_step_item *item, struct sl_device_cpu_room *room);
} matrix_rules[] = {
    {"muon", sl_device_cpu_muon},
};

/* Returns NULL if the step of the optimizer's own row is used. */
static const struct matrix_rule *matrix_rule_of(const struct sl_optimizer *row) {
    for (int i = 0; i < SL_COUNT(matrix_rules); i++)
        if (strcmp(matrix_rules[i].name, row->name) == 0)
            return &matrix_rules[i];
    return NULL;
}

void sl_device_cpu_step(const struct sl_device_cpu_optim *optim, struct sl_device_pool *pool,
                        const struct sl_step_item *items, int count,
                        struct sl_device_cpu_room *room) {
    struct line line = {.optim = optim, .items = items, .count = count, .visit = step_range};
    line_run(&line, pool);
    for (int i = 0; i < count; i++) {
        const struct sl_optimizer *row = items[i].param->optim.row;
        if (!row->whole_matrix)
            continue;
        const struct matrix_rule *rule = matrix_rule_of(row);
        if (rule)
            rule->step(optim, pool, &items[i], room);
        else
            row->step(&items[i].coef, &items[i].io);
    }
}

/* ---- prediction ---- */

static void predict_range(const struct line *line, const struct sl_step_item *item, int64_t from,
                          int64_t to) {
    const struct sl_device_cpu_rule *rule = rule_of(line, item);
    struct sl_step_io io = range_of(&item->io, from, to);
    SL_ASSERT(rule->name || item->param->optim.row->delta_from == SL_DELTA_KEPT);
    rule->predict(&item->coef, &io, (float)(item->lr * line->ahead), item->out + from);
}

void sl_device_cpu_predict(const struct sl_device_cpu_optim *optim, struct sl_device_pool *pool,
                           const struct sl_step_item *items, int count, double ahead) {
    struct line line = {
        .optim = optim, .items = items, .count = count, .ahead = ahead, .visit = predict_range};
    line_run(&line, pool);
}

/* ---- norm ---- */

/* Number of blocks of a subtree that one thread sums. It is a power of two, so that the subtree is
 * a node of the canonical tree. */
enum { SUBTREE = 64 };

struct norm_line {
    const struct sl_device_cpu_optim *optim;
    const struct sl_norm_item *items;
    int count;
    double *sums; /* sums of all subtrees, item after item */
};

static int64_t subtrees_of(int64_t count) {
    return (sl_optim_norm_block_count(count) + SUBTREE - 1) / SUBTREE;
}

static int64_t all_subtrees(const struct sl_norm_item *items, int count) {
    int64_t sums = 0;
    for (int i = 0; i < count; i++)
        sums += subtrees_of(items[i].count);
    return sums;
}

static double subtree_sum(const struct sl_device_cpu_optim *optim, const struct sl_norm_item *item,
                          int64_t subtree) {
    double block[SUBTREE];
    int64_t first = subtree * SUBTREE, left = sl_optim_norm_block_count(item->count) - first;
    int64_t blocks = left < SUBTREE ? left : SUBTREE;
    optim->norm_blocks(item->x, item->count, first, blocks, block);
    return sl_optim_norm_sq_tree(block, blocks);
}

static void norm_part(void *ctx, int thread, int threads) {
    const struct norm_line *line = ctx;
    int64_t from, to, first = 0;
    sl_device_pool_range(all_subtrees(line->items, line->count), 1, thread, threads, &from, &to);
    for (int i = 0; i < line->count && first < to; i++) {
        int64_t last = first + subtrees_of(line->items[i].count);
        for (int64_t s = from > first ? from : first; s < to && s < last; s++)
            line->sums[s] = subtree_sum(line->optim, &line->items[i], s - first);
        first = last;
    }
}

void sl_device_cpu_norm_sq(const struct sl_device_cpu_optim *optim, struct sl_device_pool *pool,
                           const struct sl_norm_item *items, int count,
                           struct sl_device_cpu_room *room) {
    int64_t size_bytes = all_subtrees(items, count) * (int64_t)sizeof(double);
    double *sums = sl_device_cpu_room_take(room, size_bytes);
    struct norm_line line = {optim, items, count, sums};
    sl_device_pool_share(pool, norm_part, &line);
    for (int i = 0; i < count; i++) {
        int64_t subtrees = subtrees_of(items[i].count);
        *items[i].sum = sl_optim_norm_sq_tree(sums, subtrees);
        sums += subtrees;
    }
}
