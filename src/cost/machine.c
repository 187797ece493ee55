/* Freezes a machine: copies, checks, numbers the devices. Also finds the link between two
 * devices. */
#include "cost/machine.h"

#include "base/vec.h"

#include <ctype.h>
#include <math.h>
#include <string.h>

const char *const sl_cost_math_names[SL_MATH_COUNT] = {"fp32", "fp16", "bf16"};

static bool is_name(const char *name) {
    if (!name || !(isalpha((unsigned char)*name) || *name == '_'))
        return false;
    for (const char *at = name; *at; at++) {
        if (!isalnum((unsigned char)*at) && !strchr("_.-", *at))
            return false;
        if (at[0] == '.' && at[1] == '.')
            return false;
    }
    return true;
}

static bool is_speed(double x) { return isfinite(x) && x > 0 && x < 1e24; }

static bool is_host_time(int64_t ns) { return ns >= 0 && ns <= 1000000000; }

static sl_err check_kind(const struct sl_cost_device_kind *kind) {
    if (!is_name(kind->name))
        return sl_fail(SL_ERR_INPUT, "the name of a kind of device is invalid");
    if (kind->memory_bytes < 1 || kind->memory_bytes > INT64_MAX >> 8)
        return sl_fail(SL_ERR_INPUT, "kind %s: memory must be positive", kind->name);
    if (!is_speed(kind->stream) || !is_speed(kind->flops[SL_MATH_FP32]))
        return sl_fail(SL_ERR_INPUT, "kind %s: stream and fp32 must be positive", kind->name);
    for (int i = 0; i < SL_MATH_COUNT; i++)
        if (kind->flops[i] != 0 && !is_speed(kind->flops[i]))
            return sl_fail(SL_ERR_INPUT, "kind %s: %s must be positive", kind->name,
                           sl_cost_math_names[i]);
    if (!(kind->efficiency > 0 && kind->efficiency <= 1))
        return sl_fail(SL_ERR_INPUT, "kind %s: efficiency is not in (0, 1]", kind->name);
    if (kind->overhead_ns < 0 || kind->overhead_ns > 1000000000)
        return sl_fail(SL_ERR_INPUT, "kind %s: overhead is not in 0..1e9 ns", kind->name);
    if (!(kind->half >= 0 && kind->half < 1e24) ||
        !(kind->score_bytes >= 0 && kind->score_bytes < 1e9))
        return sl_fail(SL_ERR_INPUT, "kind %s: half or score is out of range", kind->name);
    if (!is_host_time(kind->launch_ns) || !is_host_time(kind->meet_ns) ||
        !is_host_time(kind->message_ns))
        return sl_fail(SL_ERR_INPUT, "kind %s: launch, meet or message is not in 0..1e9 ns",
                       kind->name);
    return SL_OK;
}

static sl_err check_link(const struct sl_link *link) {
    if (!is_name(link->name))
        return sl_fail(SL_ERR_INPUT, "the name of a link is invalid");
    if (!is_speed(link->bandwidth) || link->bandwidth > 1e18 || link->bandwidth < 1)
        return sl_fail(SL_ERR_INPUT, "link %s: bandwidth is not in 1..1e18", link->name);
    if (link->latency_ns < 0 || link->latency_ns > 1000000000000)
        return sl_fail(SL_ERR_INPUT, "link %s: latency is not in 0..1e12 ns", link->name);
    if (link->sum_bandwidth != 0 && !(link->sum_bandwidth >= 1 && link->sum_bandwidth <= 1e18))
        return sl_fail(SL_ERR_INPUT, "link %s: sum is not in 1..1e18 bytes/s", link->name);
    if (link->sum_latency_ns < 0 || link->sum_latency_ns > 1000000000000 ||
        (link->sum_latency_ns && link->sum_bandwidth == 0))
        return sl_fail(SL_ERR_INPUT, "link %s: the latency of sums is not in 0..1e12 ns",
                       link->name);
    return SL_OK;
}

static sl_err check_host(const struct sl_machine *m, const struct sl_host *host, int64_t *devices,
                         int64_t *hosts) {
    if (!is_name(host->name))
        return sl_fail(SL_ERR_INPUT, "the name of a host is invalid");
    if (host->count < 1 || host->count > SL_DEVICE_MAX || host->part_count < 1)
        return sl_fail(SL_ERR_INPUT, "host %s: needs a count and devices", host->name);
    if (host->link < 0 || host->link >= m->link_count)
        return sl_fail(SL_ERR_INPUT, "host %s: no such link", host->name);
    for (int i = 0; i < host->part_count; i++) {
        if (host->parts[i].kind < 0 || host->parts[i].kind >= m->kind_count)
            return sl_fail(SL_ERR_INPUT, "host %s: no such kind of device", host->name);
        if (host->parts[i].count < 1 || host->parts[i].count > SL_DEVICE_MAX)
            return sl_fail(SL_ERR_INPUT, "host %s: a number of devices is not in 1..%d", host->name,
                           SL_DEVICE_MAX);
        *devices += (int64_t)host->count * host->parts[i].count;
    }
    *hosts += host->count;
    if (*devices > SL_DEVICE_MAX)
        return sl_fail(SL_ERR_INPUT, "more than %d devices", SL_DEVICE_MAX);
    return SL_OK;
}

static sl_err check_levels(const struct sl_machine *m, int64_t hosts) {
    int64_t below = 1;
    for (int i = 0; i < m->level_count; i++) {
        const struct sl_level *level = &m->levels[i];
        if (!is_name(level->name))
            return sl_fail(SL_ERR_INPUT, "the name of a level is invalid");
        if (level->link < 0 || level->link >= m->link_count)
            return sl_fail(SL_ERR_INPUT, "level %s: no such link", level->name);
        if (level->hosts <= below || level->hosts % below)
            return sl_fail(SL_ERR_INPUT, "level %s: %d hosts are no multiple of the %lld below it",
                           level->name, level->hosts, (long long)below);
        below = level->hosts;
    }
    if (hosts > 1 && below < hosts)
        return sl_fail(SL_ERR_INPUT, "%lld hosts, but the levels join only %lld of them",
                       (long long)hosts, (long long)below);
    return SL_OK;
}

sl_err sl_cost_machine_check(const struct sl_machine *m) {
    int64_t devices = 0, hosts = 0;
    if (!is_name(m->name))
        return sl_fail(SL_ERR_INPUT, "the name of the machine is invalid");
    for (const char *at = m->brief; at && *at; at++)
        if (!isprint((unsigned char)*at) || *at == '"' || *at == '\\')
            return sl_fail(SL_ERR_INPUT, "the machine's description has an invalid character");
    if (!m->kind_count || !m->host_count)
        return sl_fail(SL_ERR_INPUT, "machine %s: needs a kind of device and a host", m->name);
    for (int i = 0; i < m->kind_count; i++) {
        SL_TRY(check_kind(&m->kinds[i]));
        for (int j = 0; j < i; j++)
            if (strcmp(m->kinds[i].name, m->kinds[j].name) == 0)
                return sl_fail(SL_ERR_INPUT, "two kinds are called %s", m->kinds[i].name);
    }
    for (int i = 0; i < m->link_count; i++) {
        SL_TRY(check_link(&m->links[i]));
        for (int j = 0; j < i; j++)
            if (strcmp(m->links[i].name, m->links[j].name) == 0)
                return sl_fail(SL_ERR_INPUT, "two links are called %s", m->links[i].name);
    }
    for (int i = 0; i < m->host_count; i++)
        SL_TRY(check_host(m, &m->hosts[i], &devices, &hosts));
    return check_levels(m, hosts);
}

static void number_devices(struct sl_arena *arena, struct sl_machine *m) {
    int devices = 0, hosts = 0;
    for (int h = 0; h < m->host_count; h++) {
        hosts += m->hosts[h].count;
        for (int p = 0; p < m->hosts[h].part_count; p++)
            devices += m->hosts[h].count * m->hosts[h].parts[p].count;
    }
    int *kind_of = SL_NEW(arena, int, devices), *host_of = SL_NEW(arena, int, devices);
    int *link_of = SL_NEW(arena, int, hosts), device = 0, host = 0;
    for (int h = 0; h < m->host_count; h++)
        for (int i = 0; i < m->hosts[h].count; i++, host++) {
            link_of[host] = m->hosts[h].link;
            for (int p = 0; p < m->hosts[h].part_count; p++)
                for (int d = 0; d < m->hosts[h].parts[p].count; d++, device++) {
                    kind_of[device] = m->hosts[h].parts[p].kind;
                    host_of[device] = host;
                }
        }
    m->device_count = devices;
    m->hosts_in_all = hosts;
    m->kind_of = kind_of;
    m->host_of = host_of;
    m->link_of_host = link_of;
}

static const char *copy(struct sl_arena *arena, const char *text) {
    return text ? sl_arena_dup(arena, text, strlen(text)) : "";
}

sl_err sl_cost_machine_build(struct sl_arena *arena, const struct sl_machine *draft,
                             const struct sl_machine **out) {
    SL_TRY(sl_cost_machine_check(draft));
    struct sl_machine *m = SL_NEW(arena, struct sl_machine, 1);
    *m = *draft;
    struct sl_cost_device_kind *kinds =
        sl_vec_freeze(arena, draft->kinds, draft->kind_count, sizeof *kinds);
    struct sl_link *links = sl_vec_freeze(arena, draft->links, draft->link_count, sizeof *links);
    struct sl_host *hosts = sl_vec_freeze(arena, draft->hosts, draft->host_count, sizeof *hosts);
    struct sl_level *levels =
        sl_vec_freeze(arena, draft->levels, draft->level_count, sizeof *levels);
    for (int i = 0; i < m->kind_count; i++)
        kinds[i].name = copy(arena, kinds[i].name);
    for (int i = 0; i < m->link_count; i++)
        links[i].name = copy(arena, links[i].name);
    for (int i = 0; i < m->host_count; i++) {
        hosts[i].name = copy(arena, hosts[i].name);
        hosts[i].parts =
            sl_vec_freeze(arena, hosts[i].parts, hosts[i].part_count, sizeof *hosts[i].parts);
    }
    for (int i = 0; i < m->level_count; i++)
        levels[i].name = copy(arena, levels[i].name);
    m->name = copy(arena, m->name);
    m->brief = copy(arena, m->brief);
    m->kinds = kinds;
    m->links = links;
    m->hosts = hosts;
    m->levels = levels;
    number_devices(arena, m);
    *out = m;
    return SL_OK;
}

int sl_cost_machine_level(const struct sl_machine *m, int a, int b) {
    if (a == b)
        return -1;
    int level = 0;
    while (level < m->level_count - 1 && a / m->levels[level].hosts != b / m->levels[level].hosts)
        level++;
    return level;
}

const struct sl_link *sl_cost_machine_between(const struct sl_machine *m, int a, int b) {
    if (a == b)
        return NULL;
    int level = sl_cost_machine_level(m, m->host_of[a], m->host_of[b]);
    return &m->links[level < 0 ? m->link_of_host[m->host_of[a]] : m->levels[level].link];
}

double sl_cost_kind_flops(const struct sl_cost_device_kind *kind, enum sl_math math) {
    double peak = kind->flops[math] > 0 ? kind->flops[math] : kind->flops[SL_MATH_FP32];
    return peak * kind->efficiency;
}

double sl_cost_link_sum_ns(const struct sl_link *link, int n, double bytes) {
    double rate = link->sum_bandwidth > 0 ? link->sum_bandwidth : link->bandwidth;
    double latency = link->sum_bandwidth > 0 ? (double)link->sum_latency_ns
                                             : 2.0 * (n - 1) * (double)link->latency_ns;
    return n < 2 ? 0 : latency + 1e9 * 2 * (n - 1) / n * bytes / rate;
}

/* Takes hosts in order until there are enough devices. */
sl_err sl_cost_machine_first(struct sl_arena *arena, const struct sl_machine *machine, int devices,
                             const struct sl_machine **out) {
    if (devices < 1 || devices > machine->device_count)
        return sl_fail(SL_ERR_REFUSED, "%s has %d devices, %d are wanted", machine->name,
                       machine->device_count, devices);
    struct sl_machine m = *machine;
    SL_VEC(struct sl_host) hosts = {0};
    for (int h = 0; h < machine->host_count && devices; h++) {
        struct sl_host host = machine->hosts[h];
        int each = 0;
        for (int p = 0; p < host.part_count; p++)
            each += host.parts[p].count;
        if (each > 0 && devices / each < host.count)
            host.count = devices / each;
        devices -= host.count * each;
        if (host.count)
            SL_PUSH(&hosts, host);
        if (host.count == machine->hosts[h].count || !devices)
            continue;
        struct sl_host_part *parts = SL_NEW(arena, struct sl_host_part, host.part_count);
        struct sl_host rest = {.name = host.name, .count = 1, .link = host.link, .parts = parts};
        for (int p = 0; p < host.part_count && devices; p++) {
            int take = host.parts[p].count < devices ? host.parts[p].count : devices;
            parts[rest.part_count++] = (struct sl_host_part){host.parts[p].kind, take};
            devices -= take;
        }
        SL_PUSH(&hosts, rest);
    }
    m.hosts = hosts.at;
    m.host_count = (int)hosts.count;
    sl_err err = sl_cost_machine_build(arena, &m, out);
    SL_VEC_FREE(&hosts);
    return err;
}
