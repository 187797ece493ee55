/* Implements lists of labels (graphpipe_parts.h). */
#include "planners/graphpipe_parts.h"

#include <string.h>

static bool dominates(const struct sl_planners_graphpipe_label *a,
                      const struct sl_planners_graphpipe_label *b, int needs) {
    if (a->devices > b->devices)
        return false;
    for (int i = 0; i < needs; i++)
        if (a->need[i] > b->need[i])
            return false;
    return true;
}

static void append(struct sl_arena *arena, struct sl_planners_graphpipe_list *list,
                   struct sl_planners_graphpipe_label *label) {
    if (list->count == list->room) {
        int room = list->room ? 2 * list->room : 8;
        struct sl_planners_graphpipe_label **at =
            SL_NEW(arena, struct sl_planners_graphpipe_label *, room);
        if (list->count)
            memcpy(at, list->at, sizeof(*at) * (size_t)list->count);
        list->at = at;
        list->room = room;
    }
    list->at[list->count++] = label;
}

bool sl_planners_graphpipe_insert(struct sl_arena *arena, struct sl_planners_graphpipe_list *list,
                                  const struct sl_planners_graphpipe_label *label, int needs,
                                  int max) {
    int kept = 0;
    for (int i = 0; i < list->count; i++)
        if (dominates(list->at[i], label, needs))
            return true;
    for (int i = 0; i < list->count; i++)
        if (!dominates(label, list->at[i], needs))
            list->at[kept++] = list->at[i];
    list->count = kept;
    if (max && kept >= max)
        return false;
    int64_t bytes = (int64_t)(sizeof *label + sizeof label->need[0] * (size_t)needs);
    struct sl_planners_graphpipe_label *copy = sl_arena_alloc(arena, bytes);
    memcpy(copy, label, (size_t)bytes);
    append(arena, list, copy);
    return true;
}
