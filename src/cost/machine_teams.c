/* A machine whose devices are teams: t neighbouring devices that compute the shards of a stage together.
 *
 *     host  [v v v v v v v v]   t = 4:   [team team]       t = 16: two hosts are one team
 *
 * All t members send at once. On links with a wire per pair or per port, each member has its own
 * wires; the members of a host share a bus and the ports of the host. */
#include "cost/machine.h"

#include "base/vec.h"

#include <math.h>

static int devices_of(const struct sl_host *host) {
    int count = 0;
    for (int p = 0; p < host->part_count; p++)
        count += host->parts[p].count;
    return count;
}

/* Makes the link between teams: inside a host, or on a level between hosts. */
static int team_link(struct sl_arena *arena, struct sl_machine *m, struct sl_link *links, int link,
                     bool inside, int members) {
    if (inside && m->links[link].sharing != SL_LINK_BUS)
        return link;
    struct sl_link *added = &links[m->link_count];
    *added = links[link];
    added->name = sl_arena_printf(arena, "%s.team%d", links[link].name, m->link_count);
    added->bandwidth /= members;
    added->sum_bandwidth /= members;
    return m->link_count++;
}

/* Makes teams if t divides the number of devices of every kind in each host. */
static sl_err split_hosts(struct sl_arena *arena, const struct sl_machine *machine, int t,
                          struct sl_machine *m, struct sl_link *links) {
    struct sl_host *hosts =
        sl_vec_freeze(arena, machine->hosts, machine->host_count, sizeof *hosts);
    int count = 0;
    for (int h = 0; h < machine->host_count; h++) {
        struct sl_host host = hosts[h];
        struct sl_host_part *parts =
            sl_vec_freeze(arena, host.parts, host.part_count, sizeof *parts);
        int kept = 0;
        for (int p = 0; p < host.part_count; p++)
            if (parts[p].count / t)
                parts[kept++] = (struct sl_host_part){parts[p].kind, parts[p].count / t};
        host.parts = parts;
        host.part_count = kept;
        host.link = team_link(arena, m, links, host.link, true, t);
        if (kept)
            hosts[count++] = host;
    }
    if (!count)
        return sl_fail(SL_ERR_REFUSED, "no host of %s has %d equal devices for a team",
                       machine->name, t);
    m->hosts = hosts;
    m->host_count = count;
    return SL_OK;
}

/* Makes teams that fill several equal hosts. */
static sl_err join_hosts(struct sl_arena *arena, const struct sl_machine *machine, int t,
                         struct sl_machine *m) {
    int each = devices_of(&machine->hosts[0]), kept = 0;
    SL_ASSERT(each > 0);
    int joined = t / each;
    if (machine->host_count != 1 || machine->hosts[0].part_count != 1 || t % each)
        return sl_fail(
            SL_ERR_REFUSED,
            "a team of %d devices of %s needs whole, equal hosts; this machine has %d in "
            "its first one",
            t, machine->name, each);
    if (machine->hosts[0].count < joined)
        return sl_fail(SL_ERR_REFUSED, "%s has %d devices, a team needs %d", machine->name,
                       machine->device_count, t);
    struct sl_host *host = sl_vec_freeze(arena, machine->hosts, 1, sizeof *host);
    struct sl_host_part *part = SL_NEW(arena, struct sl_host_part, 1);
    struct sl_level *levels =
        sl_vec_freeze(arena, machine->levels, machine->level_count, sizeof *levels);
    *part = (struct sl_host_part){host->parts[0].kind, 1};
    host->count /= joined;
    host->parts = part;
    for (int l = 0; l < machine->level_count; l++) {
        struct sl_level level = levels[l];
        level.hosts = (level.hosts + joined - 1) / joined;
        if (level.hosts > 1 && (!kept || level.hosts > levels[kept - 1].hosts))
            levels[kept++] = level;
    }
    m->hosts = host;
    m->host_count = 1;
    m->levels = levels;
    m->level_count = kept;
    return SL_OK;
}

/* Takes the slower of the two constants of sums, if the link has them. */
static void add_sums(struct sl_team_link *team, const struct sl_link *link, int sharers) {
    double rate = link->sum_bandwidth / sharers;
    if (rate > 0 && (team->sum_bandwidth == 0 || rate < team->sum_bandwidth))
        team->sum_bandwidth = rate;
    if (link->sum_latency_ns > team->sum_latency_ns)
        team->sum_latency_ns = link->sum_latency_ns;
}

sl_err sl_cost_machine_teams(struct sl_arena *arena, const struct sl_machine *machine, int t,
                             const struct sl_machine **out, struct sl_team_link *inside) {
    struct sl_machine m = *machine;
    int each = devices_of(&machine->hosts[0]), members = t < each ? t : each;
    struct sl_link *links = SL_NEW(arena, struct sl_link,
                                   m.link_count + machine->host_count + machine->level_count + 1);
    for (int i = 0; i < m.link_count; i++)
        links[i] = machine->links[i];
    m.links = links;
    *inside = (struct sl_team_link){.bandwidth = INFINITY};
    if (t == 1) {
        *out = machine;
        return SL_OK;
    }
    SL_TRY(t <= each ? split_hosts(arena, machine, t, &m, links)
                     : join_hosts(arena, machine, t, &m));
    /* A ring inside the team; the slowest host counts. All members share the wire of a bus. */
    for (int h = 0; h < machine->host_count; h++) {
        const struct sl_link *link = &machine->links[machine->hosts[h].link];
        double rate = link->bandwidth / (link->sharing == SL_LINK_BUS ? members : 1);
        inside->bandwidth = rate < inside->bandwidth ? rate : inside->bandwidth;
        inside->latency_ns =
            link->latency_ns > inside->latency_ns ? link->latency_ns : inside->latency_ns;
        add_sums(inside, link, link->sharing == SL_LINK_BUS ? members : 1);
    }
    if (t > each) {
        const struct sl_link *link = sl_cost_machine_between(machine, 0, t - 1);
        inside->bandwidth =
            link->bandwidth < inside->bandwidth ? link->bandwidth : inside->bandwidth;
        inside->latency_ns = link->latency_ns;
        add_sums(inside, link, 1);
    }
    struct sl_level *levels = sl_vec_freeze(arena, m.levels, m.level_count, sizeof *levels);
    for (int l = 0; l < m.level_count; l++)
        levels[l].link = team_link(arena, &m, links, levels[l].link, false, members);
    m.levels = levels;
    return sl_cost_machine_build(arena, &m, out);
}
