/* sluice: finds the command, parses its options, runs it, prints the error, exits. */
#define _POSIX_C_SOURCE 200809L
#include "base/arena.h"
#include "base/json.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/job_options.h"
#include "device/cpu/cpu.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

sl_err sl_cli_print(const struct sl_text *text) {
    if (text->length && fwrite(text->at, 1, text->length, stdout) != text->length)
        return sl_fail(SL_ERR_SYSTEM, "cannot write to standard output");
    if (fflush(stdout) != 0)
        return sl_fail(SL_ERR_SYSTEM, "cannot write to standard output");
    return SL_OK;
}

sl_err sl_cli_print_written(const struct sl_args *args, const char *option) {
    struct sl_text text = {0};
    struct sl_json_out json = {.text = &text, .indent = 2};
    const char *path;
    sl_json_open(&json, '{');
    sl_json_key(&json, "written");
    sl_json_open(&json, '[');
    for (int i = 0; (path = sl_args_nth(args, option, i)); i++)
        sl_json_string(&json, path);
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(&text, "\n");
    sl_err err = sl_cli_print(&text);
    sl_text_free(&text);
    return err;
}

void sl_cli_unblock_signals(void) {
    static const int passed[] = {SIGINT, SIGTERM, SIGUSR1, SIGHUP};
    sigset_t set;
    sigemptyset(&set);
    for (int i = 0; i < SL_COUNT(passed); i++)
        sigaddset(&set, passed[i]);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
}

static sl_err check_positional(const struct sl_command *command, const struct sl_args *args) {
    if (args->positional_count < command->min_args)
        return sl_fail(SL_ERR_USAGE, "%s: missing argument; usage: sluice %s %s", command->name,
                       command->name, command->synopsis);
    if (command->max_args >= 0 && args->positional_count > command->max_args)
        return sl_fail(SL_ERR_USAGE, "%s: unexpected argument '%s'; usage: sluice %s %s",
                       command->name, args->positional[command->max_args], command->name,
                       command->synopsis);
    return SL_OK;
}

/* Replaces fields in the error message by options. Components write a field in backquotes,
 * "`batch`: ..."; users know it as an option, "--batch". */
static void name_options(const struct sl_command *command) {
    struct sl_text text = {0};
    sl_cli_name_options(sl_err_message(), command->name, &text);
    sl_err_set_message(text.at);
    sl_text_free(&text);
}

static sl_err run_command(const struct sl_command *command, int argc, char **argv) {
    struct sl_args args;
    SL_TRY(
        sl_args_parse(&args, command->name, command->options, sl_cli_commands.common, argc, argv));
    if (sl_args_has(&args, "--help")) {
        struct sl_text text = {0};
        sl_manual_help(&sl_cli_commands, command, &text);
        sl_err err = sl_cli_print(&text);
        sl_text_free(&text);
        return err;
    }
    if (!command->catches_signals)
        sl_cli_unblock_signals();
    SL_TRY(check_positional(command, &args));
    SL_TRY(sl_device_cpu_limit(getenv("SLUICE_ISA")));
    bool terminal = isatty(STDERR_FILENO) != 0;
    const char *term = getenv("TERM");
    bool dumb = !term || strcmp(term, "dumb") == 0;
    sl_log_open(sl_args_has(&args, "--quiet") ? SL_LOG_QUIET : SL_LOG_NORMAL, terminal && !dumb,
                terminal && !dumb && !getenv("NO_COLOR"));
    sl_err err = command->run(&args);
    if (err != SL_OK)
        name_options(command);
    return err;
}

static sl_err dispatch(int argc, char **argv) {
    const char *name = argc > 1 ? argv[1] : "--help";
    bool help = strcmp(name, "help") == 0;
    if (help && argc == 3) { /* help COMMAND: COMMAND --help */
        char option[] = "--help", *turned[] = {argv[0], argv[2], option, NULL};
        return dispatch(3, turned);
    }
    if (help || strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) {
        struct sl_text text = {0};
        sl_manual_overview(&sl_cli_commands, &text);
        sl_err err = sl_cli_print(&text);
        sl_text_free(&text);
        return err;
    }
    if (strcmp(name, "--version") == 0)
        name = "version";
    const char *nearest = NULL;
    const struct sl_command *command = sl_manual_find(&sl_cli_commands, name, &nearest);
    if (command)
        return run_command(command, argc - 2, argv + 2);
    if (nearest)
        return sl_fail(SL_ERR_USAGE, "unknown command '%s'; did you mean '%s'?", name, nearest);
    return sl_fail(SL_ERR_USAGE, "unknown command '%s'; 'sluice --help' lists them", name);
}

/* Calls exit(), whose atexit handlers tell the other ranks. */
static void on_out_of_memory(size_t size_bytes) {
    (void)size_bytes;
    fprintf(stderr, "sluice: %s\n", sl_err_message());
    exit(SL_ERR_SYSTEM);
}

int main(int argc, char **argv) {
    signal(SIGXFSZ, SIG_IGN); /* a file that grows beyond ulimit -f causes an error, not a signal */
    sl_set_out_of_memory(on_out_of_memory);
    sl_err err = dispatch(argc, argv);
    if (err != SL_OK && *sl_err_message()) /* an empty message has already been printed */
        fprintf(stderr, "sluice: %s\n", sl_err_message());
    return (int)err;
}
