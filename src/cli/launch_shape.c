/* The command of a job whose ranks have become fewer. */
#include "cli/launch.h"

#include "base/log.h"
#include "sched/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "--name value" and "--name=value"; the place of the name, -1: not there. */
static int find(const struct sl_launch *l, const char *name) {
    size_t length = strlen(name);
    for (int i = 2; i < l->argc; i++)
        if (strncmp(l->argv[i], name, length) == 0 &&
            (l->argv[i][length] == 0 || l->argv[i][length] == '='))
            return i;
    return -1;
}

const char *sl_cli_launch_argument(const struct sl_launch *l, const char *name) {
    int at = find(l, name);
    if (at < 0)
        return NULL;
    const char *equals = strchr(l->argv[at], '=');
    return equals ? equals + 1 : at + 1 < l->argc ? l->argv[at + 1] : "";
}

void sl_cli_launch_drop(struct sl_launch *l, const char *name, bool has_value) {
    int at = find(l, name);
    if (at < 0)
        return;
    int count = has_value && !strchr(l->argv[at], '=') ? 2 : 1;
    count = at + count > l->argc ? l->argc - at : count;
    for (int i = at; i + count <= l->argc; i++) /* with the NULL behind the last */
        l->argv[i] = i + count < l->argc ? l->argv[i + count] : NULL;
    l->argc -= count;
}

/* May a checkpoint of this run go on with another number of stages? */
static bool may_reshard(const struct sl_launch *l) {
    const char *name = sl_cli_launch_argument(l, "--schedule");
    const struct sl_schedule *row = sl_sched_row_find(name ? name : "1f1b");
    return row && (row->rule == SL_RULE_SYNC || row->rule == SL_RULE_2BW) &&
           !sl_cli_launch_argument(l, "--policy");
}

sl_err sl_cli_launch_reshape(struct sl_launch *l, int64_t before, int64_t now) {
    static char text[24];
    const char *stages = sl_cli_launch_argument(l, "--stages"),
               *plan = sl_cli_launch_argument(l, "--plan");
    bool laid_out = sl_cli_launch_argument(l, "--workers") ||
                    sl_cli_launch_argument(l, "--replicas") || sl_cli_launch_argument(l, "--cut");
    int64_t count = plan ? before : stages ? strtoll(stages, NULL, 10) : 0;
    if (count < before || laid_out || !may_reshard(l)) {
        sl_log_note("%lld ranks instead of %lld; the layout stays, some ranks run several workers",
                    (long long)now, (long long)before);
        return SL_OK;
    }
    int64_t fewer = count * now / before;
    sl_cli_launch_drop(l, "--stages", true);
    sl_cli_launch_drop(l, "--plan", true);
    if (l->argc + 2 > SL_ARGS_MAX)
        return sl_fail(SL_ERR_USAGE, "launch: too many arguments to add --stages");
    snprintf(text, sizeof text, "%lld", (long long)fewer);
    l->argv[l->argc++] = "--stages";
    l->argv[l->argc++] = text;
    l->argv[l->argc] = NULL;
    sl_log_note("%lld ranks instead of %lld: planned again, --stages %s instead of %s; the "
                "checkpoint is resharded",
                (long long)now, (long long)before, text, plan ? plan : stages);
    return SL_OK;
}
