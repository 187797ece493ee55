/* Lists the placements (placements.h). */
#include "search/placements.h"

#include "base/vec.h"

struct listing {
    const struct sl_problem *p;
    struct sl_arena *arena;
    struct sl_search_placements *out;
    int used, max;
    int *order;
    bool *taken;  /* [device] it is used by the current placement */
    int *line_of; /* [host] the line of the machine text that describes it */
    int *held;    /* [host] how many of its devices are used */
};

bool sl_search_devices_differ(const struct sl_problem *p, int a, int b) {
    const struct sl_machine *m = p->machine;
    return m->host_of[a] != m->host_of[b] || m->kind_of[a] != m->kind_of[b] ||
           p->memory[a] != p->memory[b];
}

/* Is an interchangeable device with a smaller number still free? */
static bool is_duplicate(const struct listing *l, int device) {
    const struct sl_machine *m = l->p->machine;
    int host = m->host_of[device];
    for (int d = 0; d < device; d++) {
        if (l->taken[d])
            continue;
        if (!sl_search_devices_differ(l->p, d, device))
            return true;
        int other = m->host_of[d];
        if (m->level_count <= 1 && !l->held[host] && !l->held[other] && other != host &&
            l->line_of[host] == l->line_of[other] && l->p->memory[d] == l->p->memory[device])
            return true; /* the device has the same place in an equal host of which no device is
                          * used */
    }
    return false;
}

/* Lists all placements that begin with order[0, at). Returns false, and stops, if there are more
 * than `max`. */
static bool list(struct listing *l, int at) {
    const struct sl_machine *m = l->p->machine;
    if (at == l->used) {
        if (l->out->count == l->max)
            return false;
        l->out->at[l->out->count++] = sl_vec_freeze(l->arena, l->order, l->used, sizeof *l->order);
        return true;
    }
    for (int d = 0; d < m->device_count; d++) {
        if (l->taken[d] || is_duplicate(l, d))
            continue;
        l->order[at] = d;
        l->taken[d] = true;
        l->held[m->host_of[d]]++;
        bool all = list(l, at + 1);
        l->taken[d] = false;
        l->held[m->host_of[d]]--;
        if (!all)
            return false;
    }
    return true;
}

void sl_search_placements_list(struct sl_arena *arena, const struct sl_problem *p, int used,
                               int max, struct sl_search_placements *out) {
    const struct sl_machine *m = p->machine;
    struct listing l = {.p = p,
                        .arena = arena,
                        .out = out,
                        .used = used,
                        .max = max,
                        .order = SL_NEW(arena, int, used + 1),
                        .taken = SL_NEW(arena, bool, m->device_count),
                        .line_of = SL_NEW(arena, int, m->hosts_in_all),
                        .held = SL_NEW(arena, int, m->hosts_in_all)};
    for (int line = 0, host = 0; line < m->host_count; line++)
        for (int i = 0; i < m->hosts[line].count && host < m->hosts_in_all; i++)
            l.line_of[host++] = line;
    *out = (struct sl_search_placements){.at = SL_NEW(arena, int *, max)};
    out->complete = list(&l, 0);
    if (!out->complete)
        out->count = 1;
}
