/* The wires between the workers of a setup. */
#include "search/candidate.h"

/* Names of wires: what it is, of whom, in which direction. */
static uint64_t wire(uint64_t what, uint64_t a, uint64_t b) { return what << 56 | a << 28 | b; }

/* Both ends of a message, and how to see who else is on its way at a level of the network. */
struct ends {
    const struct sl_setup *l;
    int from, to;     /* workers */
    int level, below; /* hosts of one group */
};

enum { SAME_FROM = 1, SAME_TO = 2 };

/* Of several pipelines only one is played: how many of them use this link, where it is that of a
 * group of hosts at one end, or at both. */
static int beside(const struct ends *e, int same) {
    const struct sl_setup *whole = e->l->whole;
    const int *host_of = e->l->problem->machine->host_of, *device_of = e->l->device_of;
    int a = host_of[device_of[e->from]] / e->below, b = host_of[device_of[e->to]] / e->below;
    int count = 0;
    for (int r = 0; whole && r < whole->c.width[0]; r++) {
        int x = host_of[whole->device_of[whole->workers[e->from][r]]];
        int y = host_of[whole->device_of[whole->workers[e->to][r]]];
        int level = sl_cost_machine_level(whole->problem->machine, x, y);
        bool here =
            (!(same & SAME_FROM) || x / e->below == a) && (!(same & SAME_TO) || y / e->below == b);
        count += here && (e->level ? level == e->level : level >= 0);
    }
    return count ? count : 1;
}

static void add_wire(struct sl_sim_route *out, uint64_t name, const struct sl_link *link,
                     int pipelines) {
    double speed = link->bandwidth / pipelines;
    speed = speed < 9e18 ? speed : 9e18;
    out->wires[out->wire_count++] = (struct sl_sim_wire){name, speed > 1 ? (int64_t)speed : 1};
}

/* Between devices of a host; pipelines have devices of their own. */
static void add_inside(struct sl_sim_route *out, const struct sl_link *link, int host, uint64_t a,
                       uint64_t b) {
    switch (link->sharing) {
    case SL_LINK_PAIR: add_wire(out, wire(1, a + 1, b + 1), link, 1); return;
    case SL_LINK_BUS: add_wire(out, wire(1 + (uint64_t)host, 0, 0), link, 1); return;
    default: add_wire(out, wire(1, a + 1, 0), link, 1); add_wire(out, wire(1, 0, b + 1), link, 1);
    }
}

static void add_between(struct sl_sim_route *out, const struct sl_link *link, const struct ends *e,
                        int host_a, int host_b) {
    uint64_t what = 128 + (uint64_t)e->level, a = 1 + (uint64_t)(host_a / e->below),
             b = 1 + (uint64_t)(host_b / e->below);
    switch (link->sharing) {
    case SL_LINK_PAIR:
        add_wire(out, wire(what, a, b), link, beside(e, SAME_FROM | SAME_TO));
        return;
    case SL_LINK_BUS: add_wire(out, wire(what, 0, 0), link, beside(e, 0)); return;
    default:
        add_wire(out, wire(what, a, 0), link, beside(e, SAME_FROM));
        add_wire(out, wire(what, 0, b), link, beside(e, SAME_TO));
    }
}

void sl_search_setup_route(const void *ctx, int from, int to, struct sl_sim_route *out) {
    const struct sl_setup *l = ctx;
    const struct sl_machine *m = l->problem->machine;
    int a = l->device_of[from], b = l->device_of[to];
    const struct sl_link *link = sl_cost_machine_between(m, a, b);
    if (!link) /* two stages of one device */
        return;
    int host_a = m->host_of[a], host_b = m->host_of[b];
    int level = sl_cost_machine_level(m, host_a, host_b);
    out->latency_ns = link->latency_ns;
    if (level < 0 && l->problem->copy_bytes_per_s > 0) /* the passes have paid for it */
        return;
    if (level < 0) {
        add_inside(out, link, host_a, (uint64_t)a, (uint64_t)b);
        return;
    }
    struct ends e = {l, from, to, 0, 1};
    if (level) /* the ports of the hosts at the bottom, too */
        add_between(out, &m->links[m->levels[0].link], &e, host_a, host_b);
    e.level = level;
    e.below = level ? m->levels[level - 1].hosts : 1;
    add_between(out, link, &e, host_a, host_b);
}
