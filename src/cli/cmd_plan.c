/* sluice plan: cut a model, or a graph of another planner, into stages for a machine. */
#include "base/clock.h"
#include "cli/command.h"
#include "cli/model_file.h"
#include "cli/plan_kinds.h"

#include <string.h>

/* Models have a name or end in .model; everything else that is a file is somebody else's. */
static bool is_imported(const struct sl_args *args) {
    const char *name = args->positional[0];
    size_t length = strlen(name);
    if (sl_args_has(args, "--cost-model"))
        return true;
    return !(length > 6 && strcmp(name + length - 6, ".model") == 0) && sl_file_exists(name);
}

sl_err sl_cli_plan_until(const struct sl_args *args, int64_t *until_ns) {
    double seconds = 0;
    SL_TRY(sl_args_double(args, "--time-limit", 0, 1e7, &seconds));
    *until_ns = seconds > 0 ? sl_clock_ns() + (int64_t)(seconds * 1e9) : 0;
    return SL_OK;
}

static sl_err run(const struct sl_args *args) {
    return is_imported(args) ? sl_cli_plan_imported(args) : sl_cli_plan_model(args);
}

static const struct sl_option options[] = {
    SL_MODEL_OPTIONS,
    {"--machine", "X", "name, file, 'here' or 2x4:mem=16G,... (default here)", false},
    {"--cost", "X.cost", "measured times (sluice profile); else a roofline estimate", false},
    {"--planner", "P", "see 'sluice list planners' (default sluice)", false},
    {"--schedule", "S", "default auto: the best synchronous one", false},
    {"--staleness-cost", "S=X,...", "try schedule S, which needs X times the tokens: 2bw=1.2",
     false},
    {"--batch", "B", "samples per optimizer step (default 64)", false},
    {"--micro", "N", "micro-batches per batch; models: default the best number", false},
    {"--devices", "K", "use the first K devices of the machine", false},
    {"--memory", "M", "per device, instead of the machine's: 8GiB", false},
    {"--dtype", "D", "fp32, fp16 or bf16 products (default fp32)", false},
    {"--optimizer", "O", "for its state (default adamw)", false},
    {"--straight", NULL, "no replicas", false},
    {"--recompute", "R", "auto (default), none or all: which stages recompute", false},
    {"--whole-layers", NULL, "cut between repeated blocks only", false},
    {"--time-limit", "S", "seconds; then the best plan so far", false},
    {"--threads", "T", "of the search (default all cores)", false},
    {"-o", "X.plan", "write the plan", false},
    {"--cost-model", "M", "imported: piper, dnn-partitioning or pipedream", false},
    {"--levels", "A,B", "imported: devices per host, hosts, ... (pipedream)", false},
    {"--bandwidth", "BW", "imported: per level: 25GiB/s or 100GB/s,10Gb/s", false},
    {"--cpus", "C", "imported: CPU cores that may take a stage (dnn-partitioning)", false},
    {"--all-devices", NULL, "imported: no device may stay idle (pipedream)", false},
    {"--non-contiguous", NULL, "imported: a device may take any set (dnn-partitioning)", false},
    {"--free-links", NULL, "imported: activations travel for nothing (pipedream's default)", false},
    {0},
};

const struct sl_command sl_cli_cmd_plan = {
    .name = "plan",
    .synopsis = "MODEL --machine M [--batch B] [--schedule S] [--planner P] [-o X.plan]\n"
                "   or: sluice plan FILE [--cost-model M] [--devices K] [--memory M] "
                "[--bandwidth BW] [--micro N]",
    .brief = "cut a model into stages for a machine",
    .detail =
        "The result is played by the simulator and fits by the verifier's bytes. FILE is an input\n"
        "of Piper, dnn-partitioning or PipeDream and is planned under that program's own cost\n"
        "model; what the file says about the machine holds unless an option says otherwise.\n\n"
        "  sluice plan gpt-2.2b --machine p3.16xlarge --dtype fp16 --batch 64 --schedule 2bw\n"
        "  sluice plan gpt-nano --machine laptop --batch 16 --straight -o nano.plan\n"
        "  sluice plan bert32a100.json --devices 64 --memory 8GiB --bandwidth 25GiB/s "
        "--micro 1920\n"
        "  sluice plan resnet50.graph.txt --levels 8,2 --bandwidth 30GB/s,3.125GB/s --json",
    .options = options,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
