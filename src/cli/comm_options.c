/* Ranks of a command. */
#include "cli/comm_options.h"

#include "base/log.h"
#include "base/map.h"
#include "base/version.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Set for every process by Open MPI, by MPICH and its kin (srun --mpi=pmi2 too), by srun
 * --mpi=pmix, by MVAPICH, and by Cray's launcher. */
static const struct {
    const char *rank, *size; /* size NULL: not told */
} launchers[] = {
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, {"PMI_RANK", "PMI_SIZE"}, {"PMIX_RANK", NULL},
    {"MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},   {"PALS_RANKID", NULL},
};

static const char *launched_as(void) {
    if (getenv("SLUICE_RANK")) /* 'sluice launch', also within somebody else's job */
        return "tcp";
    for (int i = 0; i < SL_COUNT(launchers); i++)
        if (getenv(launchers[i].rank))
            return "mpi";
    return sl_comm_job_is_step(getenv) ? "tcp" : "threads"; /* srun --mpi=none */
}

/* Under the mpirun of another MPI every process believes to be alone, and all would do the same
 * work into the same files. */
static sl_err check_launcher(const struct sl_comm *comm) {
    for (int i = 0; comm->ranks == 1 && i < SL_COUNT(launchers); i++) {
        const char *size = launchers[i].size ? getenv(launchers[i].size) : NULL;
        if (size && atoi(size) > 1)
            return sl_fail(
                SL_ERR_SYSTEM,
                "started as one of %s ranks, but the MPI module, built for %s, sees one: "
                "the launcher belongs to another MPI; use the mpirun of %s, or 'sluice "
                "launch'",
                size, comm->row->made_for, comm->row->made_for);
    }
    return SL_OK;
}

/* Also from a thread that finds a rank lost. */
static void say(const char *message) { fprintf(stderr, "sluice: %s\n", message); }

/* ---- a process that cannot go on ---- */

static struct sl_comm *still_open;

/* Small allocations that fail end the process where it stands (base/arena.h). The other ranks hear
 * why before it goes: the thread that ends it has the error in its record. */
static void last_words(void) {
    enum { PATIENCE_S = 5 };
    struct sl_comm *comm = still_open;
    still_open = NULL;
    if (!comm)
        return;
    alarm(PATIENCE_S); /* it may have ended within the transport's own lock */
    if (sl_comm_settle(comm, SL_ERR_SYSTEM) != SL_OK && comm->rank == comm->speaker &&
        !sl_comm_has_said(comm))
        say(sl_err_message());
}

sl_err sl_cli_comm_start(const struct sl_args *args, struct sl_comm **out) {
    const char *name = sl_args_text(args, "--transport", launched_as());
    const struct sl_transport *row;
    *out = NULL;
    sl_err err = sl_comm_transport_find(name, &row);
    if (err != SL_OK && !sl_args_has(args, "--transport"))
        return sl_err_context(err, "this process was started as one of several ranks; under srun, "
                                   "'--transport tcp' needs no MPI");
    SL_TRY(err);
    if (strcmp(row->name, "threads") == 0)
        return SL_OK;
    struct sl_comm_job job;
    bool mpi = strstr(row->name, "mpi") != NULL; /* which knows by itself who is who */
    if (!mpi)
        SL_TRY(sl_comm_job_read(getenv, &job));
    SL_TRY(sl_comm_open(row, mpi ? NULL : &job, out));
    err = mpi ? check_launcher(*out) : SL_OK;
    if (err != SL_OK) {
        sl_comm_close(*out);
        *out = NULL;
        return err;
    }
    sl_comm_say(*out, say);
    still_open = *out;
    atexit(last_words);
    if (!sl_cli_comm_is_root(*out))
        sl_log_open(SL_LOG_QUIET, false, false);
    return SL_OK;
}

bool sl_cli_comm_is_root(const struct sl_comm *comm) { return !comm || comm->rank == 0; }

static uint64_t hash_text(struct sl_text *text) {
    uint64_t hash = sl_hash(text->at, text->length);
    sl_text_free(text);
    return hash;
}

static sl_err compare_program(struct sl_comm *comm) {
    char *bytes;
    size_t length;
    SL_TRY(sl_file_read("/proc/self/exe", INT64_MAX / 2, &bytes, &length));
    uint64_t hash = sl_hash(bytes, length);
    free(bytes);
    return sl_comm_agree(comm, "program (the binary differs)", hash);
}

/* --transport says how, not what. */
static sl_err compare_options(struct sl_comm *comm, const struct sl_args *args) {
    struct sl_text text = {0};
    for (int i = 0; i < args->positional_count; i++)
        sl_text_printf(&text, "%s\n", args->positional[i]);
    for (int i = 0; i < args->option_count; i++)
        if (strcmp(args->option[i]->name, "--transport") != 0)
            sl_text_printf(&text, "%s %s\n", args->option[i]->name,
                           args->value[i] ? args->value[i] : "");
    sl_text_put(&text, sl_version());
    return sl_comm_agree(comm, "options", hash_text(&text));
}

static sl_err compare_work(struct sl_comm *comm, const struct sl_train_config *train,
                           const struct sl_pipe_choice *choice) {
    struct sl_text text = {0};
    sl_graph_model_write(train->graph, &text);
    SL_TRY(sl_comm_agree(comm, "model", hash_text(&text)));
    SL_TRY(sl_comm_agree(comm, "data", sl_data_fingerprint(train->data)));
    text = (struct sl_text){0};
    sl_plan_write(choice->plan, &text);
    sl_text_put(&text, choice->schedule);
    return sl_comm_agree(comm, "plan", hash_text(&text));
}

sl_err sl_cli_comm_compare(struct sl_comm *comm, const struct sl_args *args,
                           const struct sl_train_config *train,
                           const struct sl_pipe_choice *choice) {
    if (!comm)
        return SL_OK;
    SL_TRY(compare_program(comm));
    SL_TRY(compare_options(comm, args));
    if (!choice->plan)
        return sl_fail(SL_ERR_USAGE, "%d ranks need a pipeline: --stages N or --plan X.plan",
                       comm->ranks);
    SL_TRY(compare_work(comm, train, choice));
    if (choice->plan->worker_count < comm->ranks)
        return sl_fail(SL_ERR_USAGE,
                       "%d ranks, but the pipeline has %d workers; start %d ranks or fewer",
                       comm->ranks, choice->plan->worker_count, choice->plan->worker_count);
    return SL_OK;
}

sl_err sl_cli_comm_bind(const struct sl_args *args, enum sl_bind_mode *out) {
    const char *text = sl_args_text(args, "--bind", NULL);
    *out = SL_BIND_AUTO;
    if (text && strcmp(text, "none") == 0)
        *out = SL_BIND_NONE;
    else if (text && strcmp(text, "cores") == 0)
        *out = SL_BIND_CORES;
    else if (text)
        return sl_fail(SL_ERR_USAGE, "--bind: '%s' is neither cores nor none", text);
    return SL_OK;
}

sl_err sl_cli_comm_conclude(struct sl_comm *comm, sl_err err) {
    still_open = NULL;
    if (comm)
        err = sl_comm_settle(comm, err);
    /* Without signs of life nobody knows who is left to speak. */
    bool is_root = !comm || ((comm->rank == comm->speaker || (comm->broken && !comm->life)) &&
                             !sl_comm_has_said(comm));
    if (err != SL_OK && is_root && *sl_err_message())
        say(sl_err_message());
    sl_err_set_message(""); /* it is said */
    return err;
}

sl_err sl_cli_comm_finish(struct sl_comm *comm, sl_err err) {
    if (!comm)
        return err;
    err = sl_cli_comm_conclude(comm, err);
    sl_comm_close(comm);
    return err;
}
