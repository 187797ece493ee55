/* The command of a launch: reads its options, and adapts it to fewer ranks. */
#include "base/log.h"
#include "launch/parts.h"
#include "schedules/schedule.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns the index of "--name value" or "--name=value"; -1: absent. */
static int find(const struct sl_launch *l, const char *name) {
    size_t length = strlen(name);
    for (int i = 2; i < l->argc; i++)
        if (strncmp(l->argv[i], name, length) == 0 &&
            (l->argv[i][length] == 0 || l->argv[i][length] == '='))
            return i;
    return -1;
}

const char *sl_launch_argument(const struct sl_launch *l, const char *name) {
    int at = find(l, name);
    if (at < 0)
        return NULL;
    const char *equals = strchr(l->argv[at], '=');
    return equals ? equals + 1 : at + 1 < l->argc ? l->argv[at + 1] : "";
}

void sl_launch_drop(struct sl_launch *l, const char *name, bool has_value) {
    int at = find(l, name);
    if (at < 0)
        return;
    int count = has_value && !strchr(l->argv[at], '=') ? 2 : 1;
    count = at + count > l->argc ? l->argc - at : count;
    for (int i = at; i + count <= l->argc; i++) /* moves the final NULL too */
        l->argv[i] = i + count < l->argc ? l->argv[i + count] : NULL;
    l->argc -= count;
}

/* Can a checkpoint of this run be read with another number of stages? */
static bool may_reshard(const struct sl_launch *l) {
    const char *name = sl_launch_argument(l, "--schedule");
    const struct sl_schedule *row = sl_schedules_row_find(name ? name : "1f1b");
    return row && (row->rule == SL_RULE_SYNC || row->rule == SL_RULE_2BW) &&
           !sl_launch_argument(l, "--policy");
}

sl_err sl_launch_reshape(struct sl_launch *l, int64_t before, int64_t now) {
    const char *stages = sl_launch_argument(l, "--stages"), *plan = sl_launch_argument(l, "--plan");
    bool laid_out = sl_launch_argument(l, "--workers") || sl_launch_argument(l, "--replicas") ||
                    sl_launch_argument(l, "--cut");
    int64_t count = plan ? before : stages ? strtoll(stages, NULL, 10) : 0;
    if (count < before || laid_out || !may_reshard(l)) {
        sl_log_note("%lld ranks instead of %lld; the layout stays, some ranks run several workers",
                    (long long)now, (long long)before);
        return SL_OK;
    }
    int64_t fewer = count * now / before;
    sl_launch_drop(l, "--stages", true);
    sl_launch_drop(l, "--plan", true);
    if (l->argc + 2 > SL_ARGS_MAX)
        return sl_fail(SL_ERR_USAGE, "launch: too many arguments to add --stages %lld",
                       (long long)fewer);
    snprintf(l->stages, sizeof l->stages, "%lld", (long long)fewer);
    l->argv[l->argc++] = "--stages";
    l->argv[l->argc++] = l->stages;
    l->argv[l->argc] = NULL;
    sl_log_note("%lld ranks instead of %lld: new plan with --stages %s instead of %s; the "
                "checkpoint is resharded",
                (long long)now, (long long)before, l->stages, plan ? plan : stages);
    return SL_OK;
}
