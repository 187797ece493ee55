/* What train, eval, sample and check share: from options to graphs, data and a device. */
#ifndef SL_CLI_RUN_OPTIONS_H
#define SL_CLI_RUN_OPTIONS_H

#include "cli/model_file.h"
#include "data/data.h"
#include "pipe/pipe.h"
#include "run/session.h"

/* Open everything a training configuration points to. */
struct sl_run_inputs {
    struct sl_graph *graph, *eval_graph;
    struct sl_data *data;
    struct sl_data_input *inputs; /* [graph inputs] */
    struct sl_arena arena;
};

SL_MUST_CHECK sl_err sl_cli_run_open(const struct sl_args *args, const char *model,
                                     struct sl_run_inputs *out);
/* Only the data, for the inputs of in->graph. */
SL_MUST_CHECK sl_err sl_cli_run_open_data(const struct sl_args *args, struct sl_run_inputs *in);
void sl_cli_run_close(struct sl_run_inputs *inputs);

/* A device of that name, or SL_ERR_USAGE with the nearest one. */
SL_MUST_CHECK sl_err sl_cli_run_device(const char *name, const struct sl_device_row **out);
/* Of what has no pipeline: SL_ERR_USAGE when --device names several. */
SL_MUST_CHECK sl_err sl_cli_run_one_device(const struct sl_train_config *config);

/* The options into a configuration; opens the inputs. */
SL_MUST_CHECK sl_err sl_cli_run_config(const struct sl_args *args, struct sl_run_inputs *inputs,
                                       struct sl_train_config *out);

/* Rows of the options used by the two functions above. */
#define SL_RUN_OPTIONS                                                                             \
    SL_MODEL_OPTIONS, {"--data", "SOURCE", "file, KIND:file or 'synthetic' (default)", false},     \
        {"--tokenizer", "PATH", "tokenizer.json, or a folder with vocab.json and merges.txt",      \
         false},                                                                                   \
        {"--validation", "X", "fraction (below 1) or number of samples held out", false},          \
        {"--batch", "B", "samples per optimizer step", false},                                     \
        {"--micro", "M", "micro-batches they are cut into", false},                                \
        {"--seed", "S", "of initial weights, data order and dropout", false},                      \
        {"--threads", "T", "threads of a worker (default 1)", false},                              \
        {"--device", "D", "see 'sluice list devices' (default cpu); D,D: workers in turn", false}, \
        {"--dtype", "T", "fp32 (default), bf16 activations; GPUs also: tf32, fp16", false}, {      \
        "--recompute", NULL, "keep only inputs; run the forward pass again", false                 \
    }

/* Steps (default `steps`), optimizer, learning rate and clipping into a configuration. */
SL_MUST_CHECK sl_err sl_cli_run_optimizer(const struct sl_args *args, int64_t steps,
                                          struct sl_train_config *out);

/* The rows of that; --steps has its own default in every command. */
#define SL_OPTIMIZER_OPTIONS                                                                       \
    {"--optimizer", "O", "e.g. adamw:beta2=0.95,wd=0.1; see 'sluice list optimizers'", false},     \
        {"--lr", "X", "learning rate (default: the optimizer's usual one)", false},                \
        {"--lr-schedule", "S", "e.g. cosine:warmup=100,min=0.1", false},                           \
        {"--clip", "X", "largest norm of the gradient, 0 for none (default 1)", false}, {          \
        "--loss-scale", "S", "none, dynamic[:start=S,every=N] (default of fp16), a power of two",  \
            false                                                                                  \
    }

#endif
