/* Turns texts of a job into the choice of what trains; freezes parameters. */
#include "tune/list.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- texts ---- */

struct lora_text {
    const char *rank, *alpha, *targets, *train;
};

static const char *const keys[] = {"rank", "alpha", "targets", "train", NULL};

static const char *key_at(const void *ctx, int i) { return ((const char *const *)ctx)[i]; }

/* Splits "rank=8,targets=a,b" into its values: an item without "=" continues the list before it. */
static sl_err split(struct sl_arena *arena, const char *text, struct lora_text *out) {
    const char **const values[] = {&out->rank, &out->alpha, &out->targets, &out->train};
    const char **last = NULL;
    for (const char *const *item = sl_tune_list_parse(arena, text); *item; item++) {
        const char *equals = strchr(*item, '=');
        if (!equals) {
            if (last != &out->targets && last != &out->train)
                return sl_fail(SL_ERR_USAGE,
                               "`lora`: '%.64s' is no KEY=VALUE; as in "
                               "rank=8,alpha=16,targets=q_proj,v_proj",
                               *item);
            *last = sl_arena_printf(arena, "%s,%s", *last, *item);
            continue;
        }
        int k = 0;
        const char *key = sl_arena_dup(arena, *item, (size_t)(equals - *item));
        while (keys[k] && strcmp(keys[k], key) != 0)
            k++;
        if (!keys[k]) {
            const char *near = sl_nearest(key, SL_COUNT(keys) - 1, key_at, keys);
            return sl_fail(SL_ERR_USAGE,
                           "`lora`: no key '%.64s'%s%s%s; rank, alpha, targets and "
                           "train are",
                           key, near ? ", did you mean '" : "", near ? near : "", near ? "'" : "");
        }
        last = values[k];
        if (*last)
            return sl_fail(SL_ERR_USAGE, "`lora`: %s is given twice", key);
        *last = equals + 1;
    }
    return SL_OK;
}

static sl_err parse_number(const char *key, const char *text, double low, double high,
                           double *out) {
    char *end;
    errno = 0;
    *out = strtod(text, &end);
    if (end == text || *end || errno || !isfinite(*out) || *out < low || *out > high)
        return sl_fail(SL_ERR_USAGE, "`lora`: %s: expected a number from %g to %g, found '%.64s'",
                       key, low, high, text);
    return SL_OK;
}

static sl_err parse_lora(struct sl_arena *arena, const char *text, struct sl_tune *out) {
    struct lora_text given = {0};
    double rank = 8;
    int count = 0;
    SL_TRY(split(arena, text, &given));
    if (given.rank)
        SL_TRY(parse_number("rank", given.rank, 1, SL_TUNE_RANK_MAX, &rank));
    if (rank != floor(rank))
        return sl_fail(SL_ERR_USAGE, "`lora`: rank: expected a whole number, found '%.64s'",
                       given.rank);
    out->rank = (int64_t)rank;
    out->alpha = rank;
    if (given.alpha)
        SL_TRY(parse_number("alpha", given.alpha, 1e-12, 1e12, &out->alpha));
    out->targets = sl_tune_list_parse(arena, given.targets ? given.targets : "");
    while (out->targets[count])
        count++;
    if (!count)
        return sl_fail(SL_ERR_USAGE,
                       "`lora`: targets= is missing: modules that get adapters, as in "
                       "targets=q_proj,v_proj");
    out->matched = SL_NEW(arena, bool, count);
    out->train = given.train ? sl_tune_list_parse(arena, given.train) : NULL;
    return SL_OK;
}

sl_err sl_tune_open(struct sl_arena *arena, const char *freeze, const char *lora,
                    struct sl_tune *out) {
    *out = (struct sl_tune){0};
    if (freeze && *freeze)
        out->freeze = sl_tune_list_parse(arena, freeze);
    return lora && *lora ? parse_lora(arena, lora, out) : SL_OK;
}

/* ---- frozen parameters ---- */

bool sl_tune_is_adapter(const char *param) {
    return strstr(param, ".lora_A.") || strstr(param, ".lora_B.");
}

sl_err sl_tune_finish(const struct sl_tune *tune, struct sl_graph *graph) {
    SL_TRY(sl_tune_list_check(graph, "freeze", tune->freeze));
    SL_TRY(sl_tune_list_check(graph, "lora", tune->train));
    for (int i = 0; tune->rank && tune->targets[i]; i++)
        if (!tune->matched[i]) {
            const char *near = sl_tune_list_nearest(graph, tune->targets[i]);
            return sl_fail(SL_ERR_INPUT,
                           "`lora`: target '%s' is no weight of a matrix product in %s%s%s%s; "
                           "adapters stand beside such weights only",
                           tune->targets[i], graph->name, near ? "; did you mean '" : "",
                           near ? near : "", near ? "'?" : "");
        }
    for (int64_t i = 0; i < graph->params.count; i++) {
        struct sl_param *param = &graph->params.at[i];
        if (tune->rank && !sl_tune_is_adapter(param->name))
            param->frozen = !sl_tune_list_has(tune->train, param->name);
        if (tune->freeze && sl_tune_list_has(tune->freeze, param->name))
            param->frozen = true;
    }
    return SL_OK;
}
