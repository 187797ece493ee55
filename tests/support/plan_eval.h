/* What a plan costs under a published cost model, from its stages alone. Written apart from the
 * search and without its code: downsets, tables and groups of `search` are not used here. */
#ifndef SL_TEST_PLAN_EVAL_H
#define SL_TEST_PLAN_EVAL_H

#include "peers/peers.h"

/* The stages of a plan as `sluice plan --json` prints it; false: malformed or an unknown id. */
bool sl_eval_read(struct sl_arena *arena, const struct sl_layers *layers, const char *text,
                  size_t length, struct sl_peers_plan *out);

/* The objective, or a negative number and a reason when the plan breaks a rule of the model. */
double sl_eval_plan(const char *model, const struct sl_layers *layers,
                    const struct sl_peers_query *query, const struct sl_peers_plan *plan,
                    const char **reason);

/* Bytes that leave a set of layers, as PipeDream counts them; `in` has one flag per layer. */
double sl_eval_pipedream_out(const struct sl_layers *layers, const bool *in);
/* Layers that PipeDream drops before it plans. */
bool sl_eval_pipedream_drops(const struct sl_layers *layers, int layer);

#endif
