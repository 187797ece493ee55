/* Staleness policies: the registry, their text form, and the combinations that they accept. */
#include "optim/policy.h"

#include <stdio.h>
#include <string.h>

/* One line per policy, in alphabetical order. */
/* clang-format off */
#define ROWS(ROW) \
    ROW(sl_optim_policy_2bw_predict) \
    ROW(sl_optim_policy_error_feedback) \
    ROW(sl_optim_policy_lr_rescale) \
    ROW(sl_optim_policy_nesterov_async) \
    ROW(sl_optim_policy_none) \
    ROW(sl_optim_policy_pipemare) \
    ROW(sl_optim_policy_pipeoptim) \
    ROW(sl_optim_policy_spectrain) \
    ROW(sl_optim_policy_xpipe)
/* clang-format on */

#define DECLARE(row) extern const struct sl_policy row;
ROWS(DECLARE)
#define POINT(row) &(row),
const struct sl_policy *const sl_optim_policies[] = {ROWS(POINT)};
const int sl_optim_policy_count = SL_COUNT(sl_optim_policies);

const struct sl_policy sl_optim_policy_none = {
    .name = "none",
    .brief = "weights of the schedule, without prediction or correction",
    .note = "passes read true weights, steps are the optimizer's",
    .rules = "sync twobw stash vsync newest",
};

const struct sl_policy *sl_optim_policy_find(struct sl_str name) {
    for (int i = 0; i < sl_optim_policy_count; i++)
        if (sl_str_is(name, sl_optim_policies[i]->name))
            return sl_optim_policies[i];
    return NULL;
}

static const char *name_at(const void *ctx, int i) {
    (void)ctx;
    return sl_optim_policies[i]->name;
}

sl_err sl_optim_policy_parse(const char *text, struct sl_policy_use *out) {
    static const struct sl_hyper nothing[] = {{0}};
    struct sl_str name;
    const char *rest;
    char what[64];
    *out = (struct sl_policy_use){0};
    sl_optim_spec_split(text, &name, &rest);
    const struct sl_policy *row = sl_optim_policy_find(name);
    if (!row) {
        snprintf(what, sizeof what, "%.*s", (int)(name.length < 40 ? name.length : 40), name.at);
        const char *near = sl_nearest(what, sl_optim_policy_count, name_at, NULL);
        return sl_fail(SL_ERR_USAGE, "no policy '%s'%s%s%s; 'sluice list policies' names them",
                       what, near ? "; did you mean '" : "", near ? near : "", near ? "'?" : "");
    }
    snprintf(what, sizeof what, "policy '%s'", row->name);
    SL_TRY(sl_optim_spec_values(what, row->hyper ? row->hyper : nothing, rest, out->hyper, NULL));
    out->row = row == &sl_optim_policy_none ? NULL : row;
    return SL_OK;
}

bool sl_optim_policy_is_none(const char *text) {
    return strcmp(text, sl_optim_policy_none.name) == 0;
}

void sl_optim_policy_put(struct sl_text *text, const struct sl_policy_use *use) {
    static const struct sl_hyper nothing[] = {{0}};
    if (!use->row)
        sl_text_put(text, "none");
    else
        sl_optim_spec_put(text, use->row->name, use->row->hyper ? use->row->hyper : nothing,
                          use->hyper);
}

double sl_optim_policy_value(const struct sl_policy_use *use, const char *name) {
    int i = sl_optim_hyper_find(use->row->hyper, sl_str(name));
    SL_ASSERT(i >= 0);
    return use->hyper[i];
}

/* Is `word` one of the words in `list`? */
static bool has_word(const char *list, const char *word) {
    size_t length = strlen(word);
    for (const char *at = list; (at = strstr(at, word)); at += length)
        if ((at == list || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    return false;
}

sl_err sl_optim_policy_serves(const struct sl_policy_use *use, const char *rule,
                              const struct sl_optim *optim) {
    const struct sl_policy *row = use->row;
    if (!row)
        return SL_OK;
    if (strcmp(rule, "sync") == 0)
        return sl_fail(SL_ERR_REFUSED,
                       "policy '%s' corrects stale weights, and a synchronous schedule has none; "
                       "use an asynchronous schedule or `policy` none",
                       row->name);
    if (!has_word(row->rules, rule))
        return sl_fail(SL_ERR_REFUSED, "policy '%s' does not go with version rule '%s': %s",
                       row->name, rule, row->why);
    if (optim && optim->row && row->needs_nesterov && !optim->row->nesterov)
        return sl_fail(SL_ERR_REFUSED, "policy '%s' does not go with optimizer '%s': %s", row->name,
                       optim->row->name, row->why_optimizer);
    return SL_OK;
}

int64_t sl_optim_policy_ahead(const struct sl_policy_use *use, const struct sl_policy_pass *pass) {
    return use->row && use->row->ahead ? use->row->ahead(use, pass) : 0;
}

double sl_optim_policy_rate(const struct sl_policy_use *use, const struct sl_policy_at *at,
                            int64_t t) {
    return use->row && use->row->rate ? use->row->rate(use, at, t) : 1;
}

/* Does the optimizer or its fallback have to store Delta? */
static bool keeps_delta(const struct sl_optimizer *row) {
    return row && (row->delta_from == SL_DELTA_KEPT || keeps_delta(row->fallback));
}

const char *sl_optim_policy_kept_name(const struct sl_policy_use *use,
                                      const struct sl_optim *optim) {
    if (!use->row || use->row->kept == SL_KEPT_NOTHING)
        return NULL;
    if (use->row->kept == SL_KEPT_VELOCITY)
        return "velocity";
    return use->row->kept == SL_KEPT_ALWAYS || keeps_delta(optim->row) ? "delta" : NULL;
}
