/* The table of commands, in alphabetical order. */
#include "cli/command.h"

extern const struct sl_command sl_cli_cmd_calibrate;
extern const struct sl_command sl_cli_cmd_check;
extern const struct sl_command sl_cli_cmd_ckpt;
extern const struct sl_command sl_cli_cmd_compare;
extern const struct sl_command sl_cli_cmd_completion;
extern const struct sl_command sl_cli_cmd_doctor;
extern const struct sl_command sl_cli_cmd_eval;
extern const struct sl_command sl_cli_cmd_export;
extern const struct sl_command sl_cli_cmd_import;
extern const struct sl_command sl_cli_cmd_launch;
extern const struct sl_command sl_cli_cmd_list;
extern const struct sl_command sl_cli_cmd_machine;
extern const struct sl_command sl_cli_cmd_man;
extern const struct sl_command sl_cli_cmd_model;
extern const struct sl_command sl_cli_cmd_plan;
extern const struct sl_command sl_cli_cmd_predict;
extern const struct sl_command sl_cli_cmd_profile;
extern const struct sl_command sl_cli_cmd_report;
extern const struct sl_command sl_cli_cmd_sample;
extern const struct sl_command sl_cli_cmd_sched;
extern const struct sl_command sl_cli_cmd_sim;
extern const struct sl_command sl_cli_cmd_study;
extern const struct sl_command sl_cli_cmd_tokenizer;
extern const struct sl_command sl_cli_cmd_train;
extern const struct sl_command sl_cli_cmd_verify;
extern const struct sl_command sl_cli_cmd_version;

/* clang-format off */
static const struct sl_command *const commands[] = {
    &sl_cli_cmd_calibrate,
    &sl_cli_cmd_check,
    &sl_cli_cmd_ckpt,
    &sl_cli_cmd_compare,
    &sl_cli_cmd_completion,
    &sl_cli_cmd_doctor,
    &sl_cli_cmd_eval,
    &sl_cli_cmd_export,
    &sl_cli_cmd_import,
    &sl_cli_cmd_launch,
    &sl_cli_cmd_list,
    &sl_cli_cmd_machine,
    &sl_cli_cmd_man,
    &sl_cli_cmd_model,
    &sl_cli_cmd_plan,
    &sl_cli_cmd_predict,
    &sl_cli_cmd_profile,
    &sl_cli_cmd_report,
    &sl_cli_cmd_sample,
    &sl_cli_cmd_sched,
    &sl_cli_cmd_sim,
    &sl_cli_cmd_study,
    &sl_cli_cmd_tokenizer,
    &sl_cli_cmd_train,
    &sl_cli_cmd_verify,
    &sl_cli_cmd_version,
    NULL,
};
/* clang-format on */

static const struct sl_option common[] = {
    {"--help", NULL, "show this help", false},
    {"--json", NULL, "machine-readable output on standard output", false},
    {"--quiet", NULL, "no notes and no progress on standard error", false},
    {0},
};

const struct sl_command_set sl_cli_commands = {commands, common};
