/* The wires between the workers of a candidate. */
#include "search/candidate.h"

/* Identifies a wire by its type and both ends. */
static uint64_t wire(uint64_t what, uint64_t a, uint64_t b) { return what << 56 | a << 28 | b; }

/* The two ends of a message at one level of the network. */
struct ends {
    const struct sl_candidate_detail *detail;
    int from, to;     /* workers */
    int level, below; /* below: hosts in one group of this level */
};

enum { SAME_FROM = 1, SAME_TO = 2 };

/* Returns how many folded pipelines share the link; 1 if the candidate is not folded. `same`: the
 * ends (bits) at which the link belongs to one group of hosts. */
static int sharers(const struct ends *e, int same) {
    const struct sl_candidate_detail *folded_from = e->detail->folded_from;
    const int *host_of = e->detail->problem->machine->host_of, *device_of = e->detail->device_of;
    int a = host_of[device_of[e->from]] / e->below, b = host_of[device_of[e->to]] / e->below;
    int count = 0;
    for (int r = 0; folded_from && r < folded_from->c.width[0]; r++) {
        int x = host_of[folded_from->device_of[folded_from->workers[e->from][r]]];
        int y = host_of[folded_from->device_of[folded_from->workers[e->to][r]]];
        int level = sl_cost_machine_level(folded_from->problem->machine, x, y);
        bool shares =
            (!(same & SAME_FROM) || x / e->below == a) && (!(same & SAME_TO) || y / e->below == b);
        count += shares && (e->level ? level == e->level : level >= 0);
    }
    return count ? count : 1;
}

static void add_wire(struct sl_sim_route *out, uint64_t name, const struct sl_link *link,
                     int pipelines) {
    double speed = link->bandwidth / pipelines;
    speed = speed < 9e18 ? speed : 9e18;
    out->wires[out->wire_count++] = (struct sl_sim_wire){name, speed > 1 ? (int64_t)speed : 1};
}

/* Adds the wire between two devices of a host; folded pipelines do not share it. */
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
        add_wire(out, wire(what, a, b), link, sharers(e, SAME_FROM | SAME_TO));
        return;
    case SL_LINK_BUS: add_wire(out, wire(what, 0, 0), link, sharers(e, 0)); return;
    default:
        add_wire(out, wire(what, a, 0), link, sharers(e, SAME_FROM));
        add_wire(out, wire(what, 0, b), link, sharers(e, SAME_TO));
    }
}

void sl_search_candidate_route(const void *ctx, int from, int to, struct sl_sim_route *out) {
    const struct sl_candidate_detail *detail = ctx;
    const struct sl_machine *m = detail->problem->machine;
    int a = detail->device_of[from], b = detail->device_of[to];
    const struct sl_link *link = sl_cost_machine_between(m, a, b);
    if (!link) /* both stages are on one device */
        return;
    int host_a = m->host_of[a], host_b = m->host_of[b];
    int level = sl_cost_machine_level(m, host_a, host_b);
    out->latency_ns = link->latency_ns;
    /* no wire, because passes include the copy */
    if (level < 0 && detail->problem->copy_bytes_per_s > 0)
        return;
    if (level < 0) {
        add_inside(out, link, host_a, (uint64_t)a, (uint64_t)b);
        return;
    }
    struct ends e = {detail, from, to, 0, 1};
    if (level) /* adds the ports of the hosts too */
        add_between(out, &m->links[m->levels[0].link], &e, host_a, host_b);
    e.level = level;
    e.below = level ? m->levels[level - 1].hosts : 1;
    add_between(out, link, &e, host_a, host_b);
}
