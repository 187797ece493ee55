/* The modules of every stage, for systems that cut a model by the names of its modules. A module is a
 * prefix of a parameter's name: its numbered block, or all but the last component.
 *
 *     model.layers.0.mlp.up_proj.weight  ->  model.layers.0        lm_head.weight  ->  lm_head
 */
#ifndef SL_INTEROP_EXPORT_MODULES_H
#define SL_INTEROP_EXPORT_MODULES_H

#include "interop/exporter.h"

struct sl_export_module {
    const char *name;
    int stage, node; /* its stage; first node that reads one of its parameters */
};

struct sl_export_modules {
    struct sl_export_module *at; /* sorted by stage, then in the order of the model */
    int64_t count;
};

/* Returns the target's name of a module. */
typedef const char *(*sl_rename_module)(struct sl_arena *arena, const char *name);

/* Lists the modules; every stage has at least one. SL_ERR_REFUSED, naming the target: a module is
 * in two stages, or a stage has none. `rename` NULL: the target uses our names. */
SL_MUST_CHECK sl_err sl_interop_export_modules(struct sl_arena *arena, const struct sl_export *x,
                                               const char *target, sl_rename_module rename,
                                               struct sl_export_modules *out);

#endif
