/* Options that fill a job (job/job.h): "--lr-schedule X" sets the field `lr_schedule`. The tables
 * below are the rows that train, check, eval, sample and profile share. */
#ifndef SL_CLI_JOB_OPTIONS_H
#define SL_CLI_JOB_OPTIONS_H

#include "cli/model_file.h"
#include "job/work.h"

/* Sets every field that has an option in `args`. */
SL_MUST_CHECK sl_err sl_cli_job_fill(const struct sl_args *args, struct sl_job *job);

/* Writes the message with options of a command instead of fields in backquotes. */
void sl_cli_name_options(const char *message, const char *command, struct sl_text *out);

#define SL_RUN_OPTIONS                                                                             \
    SL_MODEL_OPTIONS, {"--data", "SOURCE", "file, KIND:file or 'synthetic' (default)", false},     \
        {"--tokenizer", "PATH", "tokenizer.json, or a folder with vocab.json and merges.txt",      \
         false},                                                                                   \
        {"--chat-template", "NAME",                                                                \
         "chatml, gemma, llama2, llama3, mistral; default: the folder's", false},                  \
        {"--images", "O", "of pictures: resize=N,crop=centre|random|scaled,flip=1,mean=M,std=S",   \
         false},                                                                                   \
        {"--validation", "X", "fraction (below 1) or number of samples held out (default 0.1)",    \
         false},                                                                                   \
        {"--batch", "B", "samples per optimizer step (default: the plan's, else 8)", false},       \
        {"--micro", "M", "micro-batches per step: gradient accumulation (default 1)", false},      \
        {"--seed", "S", "seed of initial weights, data order and dropout (default 1)", false},     \
        {"--threads", "T", "threads of a worker (default 1)", false},                              \
        {"--device", "D", "see 'sluice list devices' (default cpu); D,D: workers in turn", false}, \
        {"--dtype", "T", "fp32 (default), bf16 activations; GPUs also: tf32, fp16", false}, {      \
        "--recompute", NULL, "keep only the inputs of a stage and recompute the rest", false       \
    }

/* --steps is not here, because every command has its own default. */
#define SL_OPTIMIZER_OPTIONS                                                                       \
    {"--optimizer", "O", "e.g. adamw:beta2=0.95,wd=0.1; see 'sluice list optimizers'", false},     \
        {"--lr", "X", "learning rate (default: the optimizer's)", false},                          \
        {"--lr-schedule", "S", "e.g. cosine:warmup=100,min=0.1 (default constant)", false},        \
        {"--clip", "X", "maximum norm of the gradient, 0 for none (default 1)", false}, {          \
        "--loss-scale", "S", "none, dynamic[:start=S,every=N] (default of fp16), a power of two",  \
            false                                                                                  \
    }

#define SL_CLIP_SCOPE_OPTION                                                                       \
    {                                                                                              \
        "--clip-scope", "global|stage",                                                            \
            "async: clip and skip by all stages or each [2bw: global, else stage]", false          \
    }

#define SL_PIPE_OPTIONS                                                                            \
    {"--stages", "N", "cut the model into N stages, a worker thread each", false},                 \
        {"--workers", "W", "workers that hold the stages (default: one each)", false},             \
        {"--slack", "K", "micro-batches that may wait between stages (2bw: 1, others: 0)", false}, \
        {"--group", "K", "k of kfkb and graph: K forwards, then K backwards (default 1)", false},  \
        {"--replicas", "W", "replicas of every stage; they share its micro-batches (default 1)",   \
         false},                                                                                   \
        {"--zero1", NULL, "replicas divide the optimizer state among them", false},                \
        {"--cut", "WAY", "even (default), or branches: along those of the model", false},          \
        {"--schedule", "S", "see 'sluice list schedules' (default: the plan's, else 1f1b)",        \
         false},                                                                                   \
        {"--schedule-module", "X.so", "schedule by the generator of a module", false}, {           \
        "--plan", "X.plan", "stages and workers from a file", false                                \
    }

#endif
