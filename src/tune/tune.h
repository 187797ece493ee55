/* Fine-tuning: which parameters of a model train, and low-rank adapters (LoRA).
 *
 *   texts of a job --sl_tune_open--> sl_tune --sl_tune_attach--> options of the model reader
 *        the reader builds the graph; behind a product with a target weight it adds the adapter
 *   graph --sl_tune_finish--> the same graph with frozen parameters, ready for autodiff
 *   trained graph --sl_tune_adapters--> where the adapters are --sl_tune_merge--> plain weights
 *
 * The flat text of the graph (graph/model.h) has all of it: adapters are ordinary parameters and
 * nodes, frozen parameters are marked. So a run directory needs no other record.
 *
 * Lists of parameters: items are separated by commas. An item is a name, the name of a module that
 * holds parameters (a prefix of their names, up to a dot), or a pattern of fnmatch(3). "!ITEM" takes
 * parameters out of the list; the last item that matches decides. A list that begins with "!" starts
 * with all parameters.
 *
 * LoRA (Hu et al. 2021), as PEFT computes it: y = x W' + bias + (alpha / rank) (x A') B'
 *   A [rank, in]   normal with deviation 1 / rank
 *   B [out, rank]  zeros
 */
#ifndef SL_TUNE_TUNE_H
#define SL_TUNE_TUNE_H

#include "graph/model.h"

struct sl_tune {
    const char *const *freeze; /* items of the list; ends with NULL; NULL: no list */
    int64_t rank;              /* 0: no adapters */
    double alpha;
    const char *const *targets; /* items that name weights; ends with NULL */
    /* items that name parameters which train in addition to the adapters, or NULL */
    const char *const *train;
    bool *matched; /* [targets] does the item match a weight with an adapter? */
};

enum { SL_TUNE_RANK_MAX = 65536 };

/* Parses the two texts. `freeze`: a list; "": nothing. `lora`:
 * "rank=8,alpha=16,targets=q_proj,v_proj"; "": no adapters; keys: rank, alpha (default: rank),
 * targets, train. SL_ERR_USAGE if a text is wrong. The result is in the arena. */
SL_MUST_CHECK sl_err sl_tune_open(struct sl_arena *arena, const char *freeze, const char *lora,
                                  struct sl_tune *out);
/* Lets the reader of a model add the adapters. `tune` must outlive the reading. */
void sl_tune_attach(struct sl_tune *tune, struct sl_model_options *options);
/* Marks frozen parameters. SL_ERR_INPUT, with the nearest name, if an item matches nothing. */
SL_MUST_CHECK sl_err sl_tune_finish(const struct sl_tune *tune, struct sl_graph *graph);

/* Does the item match the parameter? A target may also be the end of a module's name, such as
 * q_proj. */
bool sl_tune_matches(const char *item, const char *param);
bool sl_tune_is_target(const char *item, const char *param);

/* Does the name say that the parameter is A or B of an adapter? */
bool sl_tune_is_adapter(const char *param);

/* ---- adapters of a graph ---- */

struct sl_tune_adapter {
    int weight, a, b; /* indices in graph->params */
    double scale;     /* alpha / rank */
    bool transposed;  /* the weight is [in, out] */
    int64_t in, out, rank;
};

/* Finds the adapters by the nodes that sl_tune_attach adds; returns them in the order of their
 * weights. */
int sl_tune_adapters(struct sl_arena *arena, const struct sl_graph *graph,
                     struct sl_tune_adapter **out);
/* Returns the adapter of a weight, or the one that A or B belongs to; NULL: none. */
const struct sl_tune_adapter *sl_tune_adapter_of(const struct sl_tune_adapter *list, int count,
                                                 int param);

/* Adds scale B A to elements [from, from + count) of the weight, which `w` holds. Sums are in
 * double. */
void sl_tune_merge(const struct sl_tune_adapter *adapter, const float *a, const float *b,
                   int64_t from, int64_t count, float *w);

/* ---- graphs with stored values ---- */

/* Reads all values of a parameter; *out is from realloc, or NULL. */
SL_MUST_CHECK sl_err sl_tune_read_param(const struct sl_graph *graph, int param, float **out);

/* merged.c: the stored values of `plain`, a model without adapters, become those of `tuned` with its
 * adapters merged. `plain` then owns `tuned`; after an error it does not. */
SL_MUST_CHECK sl_err sl_tune_attach_merged(struct sl_graph *plain, struct sl_graph *tuned);

/* peft.c: writes the folder `to` with adapter_config.json and adapter_model.safetensors, as PEFT saves
 * adapters. `source`: the base model's name or path, or NULL. Appends a summary. */
SL_MUST_CHECK sl_err sl_tune_write_peft(const struct sl_graph *graph, const char *source,
                                        const char *to, struct sl_text *summary);

#endif
