#include "support/ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* MPI starts once in a process: the first comm stays open for that, the second is renewed. */
static struct sl_comm *first, *second;
static const struct sl_transport *row;

static void must(sl_err err) {
    if (err == SL_OK)
        return;
    fprintf(stderr, "%s\n", sl_err_message());
    _exit(1);
}

static bool is_renewable(void) { return strncmp(row->name, "mpi", 3) == 0; }

static void open_comm(struct sl_comm **out) {
    struct sl_comm_job job;
    must(sl_comm_job_read(getenv, &job));
    must(sl_comm_open(row, &job, out));
}

static void close_comm(struct sl_comm **comm) {
    must(sl_comm_settle(*comm, SL_OK));
    sl_comm_close(*comm);
    *comm = NULL;
}

void ranks_open(void) {
    const char *name = getenv("SL_TEST_TRANSPORT");
    if (!name)
        return;
    must(sl_comm_transport_find(name, &row));
    open_comm(&first);
    if (is_renewable())
        open_comm(&second);
}

int ranks_close(int failed) {
    if (failed && first) {
        fflush(stdout);
        _exit(failed);
    }
    if (second)
        close_comm(&second);
    if (first)
        close_comm(&first);
    return failed;
}

struct sl_comm *ranks_comm(void) {
    return second ? second : first;
}

void ranks_renew(void) {
    if (!second)
        return;
    close_comm(&second);
    open_comm(&second);
}

bool ranks_fit(int workers) { return !first || workers >= first->ranks; }

bool ranks_short(void) {
    const char *full = getenv("SL_TEST_FULL");
    return first && !(full && strcmp(full, "1") == 0);
}

const char *ranks_text(void) {
    static char text[64];
    if (first)
        snprintf(text, sizeof text, " on %d ranks (%s)", first->ranks, row->name);
    return text;
}
