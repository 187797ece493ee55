/* Faults that a drill injects. */
#include "pipe/drill.h"

#include "base/arena.h"
#include "base/text.h"

#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static void nap(int seconds) {
    struct timespec left = {.tv_sec = seconds};
    while (nanosleep(&left, &left) != 0)
        continue;
}

static sl_err act_die(void) {
    kill(getpid(), SIGKILL);
    return SL_OK;
}

static sl_err act_fail(void) { return sl_fail(SL_ERR_SYSTEM, "this is a drill: the worker fails"); }

/* Forbids further allocations, then allocates. Memory that is already allocated stays. */
static sl_err act_memory(void) {
    const struct rlimit none = {0, 0};
    if (setrlimit(RLIMIT_AS, &none) != 0)
        return sl_fail(SL_ERR_SYSTEM, "this is a drill, but memory cannot be limited");
    free(sl_realloc(NULL, (size_t)1 << 28));
    return SL_OK;
}

static sl_err act_slow(void) {
    nap(3);
    return SL_OK;
}

static sl_err act_stall(void) {
    nap(INT_MAX);
    return SL_OK;
}

static sl_err act_stop(void) {
    kill(getpid(), SIGSTOP);
    return SL_OK;
}

static const struct {
    const char *name;
    sl_err (*act)(void);
} drills[] = {
    {"die", act_die},   {"fail", act_fail},   {"memory", act_memory},
    {"slow", act_slow}, {"stall", act_stall}, {"stop", act_stop},
};

sl_err sl_pipe_drill_parse(const char *text, int workers, struct sl_pipe_drill *out) {
    const char *colon = strchr(text, ':'), *second = colon ? strchr(colon + 1, ':') : NULL;
    char number[24];
    int64_t worker = 0, action = 0;
    *out = (struct sl_pipe_drill){0};
    for (int i = 0; colon && i < SL_COUNT(drills); i++)
        if (strlen(drills[i].name) == (size_t)(colon - text) &&
            strncmp(drills[i].name, text, (size_t)(colon - text)) == 0)
            out->act = drills[i].act;
    if (!out->act || !second || second - colon - 1 >= (ptrdiff_t)sizeof number)
        return sl_fail(SL_ERR_USAGE,
                       "`drill`: expected WHAT:WORKER:ACTION with WHAT one of die, fail, memory, "
                       "slow, stall, stop, found '%s'",
                       text);
    snprintf(number, sizeof number, "%.*s", (int)(second - colon - 1), colon + 1);
    SL_TRY(sl_parse_int(number, "`drill`: worker", &worker));
    SL_TRY(sl_parse_int(second + 1, "`drill`: action", &action));
    if (worker < 0 || worker >= workers || action < 0)
        return sl_fail(SL_ERR_USAGE, "`drill`: '%s': workers are 0 to %d, actions from 0", text,
                       workers - 1);
    out->worker = (int)worker;
    out->action = action;
    return SL_OK;
}

sl_err sl_pipe_drill_on_action(void *ctx, int worker, int64_t action) {
    struct sl_pipe_drill *drill = ctx;
    /* `action` counts from 0 in every run of the pipeline; `seen` counts over the whole process */
    (void)action;
    return worker == drill->worker && drill->seen++ == drill->action ? drill->act() : SL_OK;
}
