/* The MODEL argument: a name in the library, or a path, with --set. */
#ifndef SL_CLI_MODEL_FILE_H
#define SL_CLI_MODEL_FILE_H

#include "base/opt.h"
#include "job/model.h"

/* Options of every command with a MODEL. */
#define SL_MODEL_OPTIONS                                                                           \
    {"--set", "K=V,...", "override sizes of the model", true},                                     \
        {"--loss", "OP:OUT,TARGETS",                                                               \
         "add a loss to an ONNX model, as cross_entropy:logits,labels", false},                    \
        {"--freeze", "P,...", "parameters that are not trained; '!head': all but head", true},     \
        {"--lora", "K=V,...", "train only adapters: rank=8,alpha=16,targets=q_proj,v_proj",        \
         false},                                                                                   \
    {                                                                                              \
        "--models", "DIR", "first directory to search for models by name", false                   \
    }

/* Returns the directories to search for models by name, in order; in the arena, ends with NULL. */
const char **sl_cli_model_dirs(const struct sl_args *args, struct sl_arena *arena);

/* Returns the values of a repeated option, such as --set A=1,B=2 --set C=3, as "A=1,B=2,C=3"; in
 * the arena. */
const char *sl_cli_joined(const struct sl_args *args, const char *option, struct sl_arena *arena);

/* Reads the model `name` (checked, not differentiated). */
SL_MUST_CHECK sl_err sl_cli_model_open(const struct sl_args *args, const char *name, bool eval,
                                       struct sl_graph **out);

#endif
