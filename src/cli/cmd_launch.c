/* sluice launch: start a command as several processes, watch them, restart them. */
#include "base/json.h"
#include "cli/command.h"
#include "launch/launch.h"

#include <signal.h>

static struct sl_launch_signals signals;

static void on_signal(int signal) { signals.count[signal]++; }

/* Prints the result as JSON, after the output of the command itself. */
static sl_err print_json(const struct sl_launch *l, sl_err status) {
    struct sl_text text = {0};
    struct sl_json_out json = {.text = &text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_int(&json, "ranks", l->ranks);
    sl_json_put_int(&json, "restarts", l->restarted);
    sl_json_put_int(&json, "status", (int64_t)status);
    sl_json_close(&json, '}');
    sl_text_put(&text, "\n");
    sl_err err = sl_cli_print(&text);
    sl_text_free(&text);
    return status != SL_OK ? status : err;
}

static sl_err run(const struct sl_args *args) {
    static struct sl_launch l; /* static, because it is large */
    struct sigaction action = {.sa_handler = on_signal};
    int forwarded[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
    if (sl_args_has(args, "--probe"))
        return sl_launch_probe(sl_args_text(args, "--probe", ""));
    if (sl_args_has(args, "--serve")) {
        int status = 0;
        SL_TRY(sl_launch_serve(&status));
        sl_err_set_message(""); /* the rank has printed it */
        return (sl_err)status;
    }
    l.ranks = 0;
    SL_TRY(sl_args_int(args, "-n", 1, SL_LAUNCH_RANKS_MAX, &l.ranks));
    SL_TRY(sl_args_int(args, "--restarts", 0, INT64_MAX / 2, &l.restarts));
    if (l.ranks == 0)
        return sl_fail(SL_ERR_USAGE, "launch: -n is missing, e.g. sluice launch -n 4 -- train ...");
    if (args->positional_count == 0)
        return sl_fail(SL_ERR_USAGE,
                       "launch: the command is missing, e.g. sluice launch -n 4 -- train ...");
    l.program = sl_args_text(args, "--program", NULL);
    l.signals = &signals;
    l.argv[l.argc++] = l.program ? l.program : "sluice";
    for (int i = 0; i < args->positional_count; i++)
        l.argv[l.argc++] = args->positional[i];
    if (sl_args_has(args, "--hosts"))
        SL_TRY(sl_launch_read_hosts(&l, sl_args_text(args, "--hosts", ""),
                                    sl_args_text(args, "--agent", "ssh")));
    if (l.restarts && !sl_launch_argument(&l, "--out"))
        return sl_fail(SL_ERR_USAGE,
                       "launch: --restarts needs a run with --out DIR to continue, and "
                       "--checkpoint-every N to have something to continue from");
    for (int i = 0; i < SL_COUNT(forwarded); i++)
        sigaction(forwarded[i], &action, NULL);
    sl_err err = sl_launch_run(&l);
    return sl_args_has(args, "--json") ? print_json(&l, err) : err;
}

static const struct sl_option options[] = {
    {"-n", "N", "number of ranks (processes)", false},
    {"--restarts", "R", "max restarts after a lost rank (default 0)", false},
    {"--hosts", "A,B=ADDR", "distribute the ranks over these hosts (default: this host)", false},
    {"--agent", "COMMAND", "command that starts a command on a host (default ssh)", false},
    {"--probe", "HOST:PORT", "only test by the exit status whether HOST answers", false},
    {"--serve", NULL, "run one rank as standard input says; '--hosts' uses it", false},
    {"--program", "PATH", "program to start (default sluice)", false},
    {0},
};

const struct sl_command sl_cli_cmd_launch = {
    .name = "launch",
    .synopsis = "-n N [--restarts R] -- COMMAND ...",
    .brief = "start a command as several processes, on one host or several",
    .detail =
        "Starts N ranks of a sluice command. Needs no MPI, and on one host no SSH. If a rank "
        "dies,\n"
        "stops or becomes unreachable, the other ranks print which one and end. The launcher then\n"
        "exits with status 5, or restarts the command, with fewer ranks if a host is lost. Ctrl-C\n"
        "saves and ends the job, a second one ends it at once. All ranks end with the launcher.\n"
        "\n"
        "  sluice launch -n 4 --restarts 3 -- train gpt-nano --stages 4 --out run "
        "--checkpoint-every 50",
    .options = options,
    .min_args = 0,
    .max_args = -1,
    .run = run,
};
