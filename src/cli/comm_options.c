/* Ranks of a command: transport, agreement on options, errors of all ranks. */
#include "cli/comm_options.h"

#include "base/log.h"
#include "base/map.h"
#include "base/version.h"
#include "cli/job_options.h"
#include "comm/key.h"
#include "run/dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct sl_comm *still_open;
static const char *command = ""; /* name of the command, for its options in messages */

/* Prints an error. Called by any thread that finds a rank lost. */
static void print_error(const char *message) {
    struct sl_text text = {0};
    sl_cli_name_options(message, command, &text);
    fprintf(stderr, "sluice: %s\n", text.at);
    sl_text_free(&text);
}

/* Tells the other ranks before the process ends. A failed small allocation ends it at once
 * (base/arena.h); the message is in the error record of this thread. */
static void report_exit(void) {
    enum { TIMEOUT_S = 5 };
    struct sl_comm *comm = still_open;
    still_open = NULL;
    if (!comm)
        return;
    alarm(TIMEOUT_S); /* this thread may hold the transport's lock, so it must not wait for ever */
    if (sl_comm_settle(comm, SL_ERR_SYSTEM) != SL_OK && comm->rank == comm->speaker &&
        !sl_comm_has_said(comm))
        print_error(sl_err_message());
}

/* Reads the job of this process. Tasks of srun find the secret of their step in the run
 * directory. */
static sl_err read_job(const struct sl_args *args, struct sl_comm_job *job) {
    const char *out = sl_args_text(args, "--out", "");
    SL_TRY(sl_comm_job_read(getenv, job));
    job->insecure = sl_args_has(args, "--insecure");
    job->encrypt = sl_args_has(args, "--encrypt");
    if (job->has_key || job->insecure || !*job->step || !*out)
        return SL_OK;
    if (job->rank == 0)
        SL_TRY(sl_run_dir_make(out));
    return sl_comm_key_share(job, out);
}

sl_err sl_cli_comm_start(const struct sl_args *args, struct sl_comm **out) {
    const char *name = sl_args_text(args, "--transport", sl_comm_launched_as(getenv));
    const struct sl_transport *row;
    *out = NULL;
    command = args->command;
    sl_err err = sl_comm_transport_find(name, &row);
    if (err != SL_OK && !sl_args_has(args, "--transport"))
        return sl_err_context(err, "this process was started as one of several ranks; under srun, "
                                   "'--transport tcp' needs no MPI");
    SL_TRY(err);
    if (row->one_process)
        return SL_OK;
    struct sl_comm_job job;
    bool mpi = row->has_launcher;
    if (!mpi)
        SL_TRY(read_job(args, &job));
    SL_TRY(sl_comm_open(row, mpi ? NULL : &job, out));
    err = mpi ? sl_comm_check_launcher(*out, getenv) : SL_OK;
    if (err != SL_OK) {
        sl_comm_close(*out);
        *out = NULL;
        return err;
    }
    sl_comm_say(*out, print_error);
    still_open = *out;
    atexit(report_exit);
    if (!sl_cli_comm_is_root(*out))
        sl_log_open(SL_LOG_QUIET, false, false);
    return SL_OK;
}

bool sl_cli_comm_is_root(const struct sl_comm *comm) { return !comm || comm->rank == 0; }

/* May the option differ between ranks? These options do not change the work. */
static bool is_free(const char *option) {
    return strcmp(option, "--transport") == 0 || strcmp(option, "--insecure") == 0;
}

sl_err sl_cli_comm_agree(struct sl_comm *comm, const struct sl_args *args) {
    struct sl_text text = {0};
    if (!comm)
        return SL_OK;
    for (int i = 0; i < args->positional_count; i++)
        sl_text_printf(&text, "%s\n", args->positional[i]);
    for (int i = 0; i < args->option_count; i++)
        if (!is_free(args->option[i]->name))
            sl_text_printf(&text, "%s %s\n", args->option[i]->name,
                           args->value[i] ? args->value[i] : "");
    sl_text_put(&text, sl_version());
    sl_err err = sl_comm_agree(comm, "options", sl_hash(text.at, text.length));
    sl_text_free(&text);
    return err;
}

sl_err sl_cli_comm_conclude(struct sl_comm *comm, sl_err err) {
    still_open = NULL;
    if (comm)
        err = sl_comm_settle(comm, err);
    /* without heartbeats no rank knows which ranks are left, so every rank prints */
    bool is_root = !comm || ((comm->rank == comm->speaker || (comm->broken && !comm->life)) &&
                             !sl_comm_has_said(comm));
    if (err != SL_OK && is_root && *sl_err_message())
        print_error(sl_err_message());
    sl_err_set_message(""); /* it has been printed */
    return err;
}

sl_err sl_cli_comm_finish(struct sl_comm *comm, sl_err err) {
    if (!comm)
        return err;
    err = sl_cli_comm_conclude(comm, err);
    sl_comm_close(comm);
    return err;
}
