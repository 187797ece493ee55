/* Lists the modules of every stage, for systems that cut a model by the names of its modules. */
#include "interop/export_modules.h"

#include "base/sort.h"
#include "base/vec.h"
#include "graph/blocks.h"

#include <string.h>

typedef SL_VEC(struct sl_export_module) module_vec;

static const char *module_of(struct sl_arena *arena, const char *param) {
    const char *dot = strrchr(param, '.');
    size_t length = sl_graph_block_length(param);
    if (!length)
        length = dot ? (size_t)(dot - param) : strlen(param);
    return sl_arena_dup(arena, param, length);
}

/* Is the parameter used in several stages? */
static bool is_tied(const struct sl_export *x, int param) {
    int stage = -1;
    for (int64_t g = 0; g < x->graph->grads.count; g++) {
        const struct sl_param_grad *use = &x->graph->grads.at[g];
        if (use->param != param)
            continue;
        if (stage >= 0 && x->stage_of[use->node] != stage)
            return true;
        stage = x->stage_of[use->node];
    }
    return false;
}

static sl_err add_use(const struct sl_export *x, const struct sl_param_grad *use, const char *name,
                      module_vec *modules, const char *target) {
    int stage = x->stage_of[use->node];
    for (int64_t i = 0; i < modules->count; i++) {
        struct sl_export_module *m = &modules->at[i];
        if (strcmp(m->name, name) != 0)
            continue;
        if (m->stage != stage)
            return sl_fail(
                SL_ERR_REFUSED,
                "%s has a module in one stage, and %s is read in %s and in %s; "
                "%s",
                target, name, x->plan->stages[m->stage].name, x->plan->stages[stage].name,
                is_tied(x, use->param) ? "untie the weights" : "plan with --whole-layers");
        m->node = use->node < m->node ? use->node : m->node;
        return SL_OK;
    }
    SL_PUSH(modules, ((struct sl_export_module){name, stage, use->node}));
    return SL_OK;
}

static int compare_modules(const void *a, const void *b) {
    const struct sl_export_module *x = a, *y = b;
    return x->stage != y->stage ? (x->stage > y->stage) - (x->stage < y->stage)
                                : (x->node > y->node) - (x->node < y->node);
}

/* Refuses a stage without a module, because it cannot be written. */
static sl_err check_filled(const struct sl_plan *plan, const module_vec *modules,
                           const char *target) {
    int64_t at = 0;
    for (int s = 0; s < plan->stage_count; s++) {
        if (at == modules->count || modules->at[at].stage != s)
            return sl_fail(SL_ERR_REFUSED,
                           "stages of %s have modules, and no parameter is in %s; plan with "
                           "--whole-layers",
                           target, plan->stages[s].name);
        while (at < modules->count && modules->at[at].stage == s)
            at++;
    }
    return SL_OK;
}

static sl_err collect(struct sl_arena *arena, const struct sl_export *x, const char *target,
                      sl_rename_module rename, module_vec *modules) {
    for (int64_t g = 0; g < x->graph->grads.count; g++) {
        const struct sl_param_grad *use = &x->graph->grads.at[g];
        const char *name = module_of(arena, x->graph->params.at[use->param].name);
        SL_TRY(add_use(x, use, rename ? rename(arena, name) : name, modules, target));
    }
    sl_sort(modules->at, modules->count, sizeof *modules->at, compare_modules);
    return check_filled(x->plan, modules, target);
}

sl_err sl_interop_export_modules(struct sl_arena *arena, const struct sl_export *x,
                                 const char *target, sl_rename_module rename,
                                 struct sl_export_modules *out) {
    module_vec modules = {0};
    sl_err err = collect(arena, x, target, rename, &modules);
    out->count = modules.count;
    out->at = err == SL_OK ? SL_VEC_FREEZE(&modules, arena) : NULL;
    SL_VEC_FREE(&modules);
    return err;
}
