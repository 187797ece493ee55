/* Machine text: one line per thing, kinds and links before the hosts and levels that name them.
 *
 *     sluice-machine 1
 *     machine p3-x8 "eight hosts with eight V100 each"
 *     kind v100 memory 17179869184 stream 900e9 fp32 15.7e12 fp16 125e12 efficiency 0.4 overhead 5000
 *     link nvlink bandwidth 25e9 latency 5000 sharing pair sum 200e9 latency 50000
 *     link ethernet bandwidth 3.125e9 latency 20000 sharing port
 *     host p3 count 8 inside nvlink devices v100 8
 *     level cluster hosts 8 over ethernet
 */
#include "cost/machine.h"

#include "base/lex.h"
#include "base/vec.h"

#include <string.h>

static const char *const sharing_names[] = {"pair", "port", "bus"};

struct reader {
    struct sl_lex lex;
    struct sl_arena *arena;
    struct sl_machine draft;
    SL_VEC(struct sl_cost_device_kind) kinds;
    SL_VEC(struct sl_link) links;
    SL_VEC(struct sl_host) hosts;
    SL_VEC(struct sl_level) levels;
};

static sl_err take_word(struct reader *r, const char *word) {
    char found[64];
    if (!sl_lex_is_name(&r->lex, word))
        return sl_lex_fail(&r->lex, "expected '%s', found %s", word, sl_lex_found(&r->lex, found));
    return sl_lex_next(&r->lex);
}

static sl_err take_name(struct reader *r, const char *what, const char **out) {
    struct sl_str name;
    SL_TRY(sl_lex_take_name(&r->lex, what, &name));
    *out = sl_arena_dup(r->arena, name.at, name.length);
    return SL_OK;
}

static sl_err take_count(struct reader *r, const char *what, int64_t high, int64_t *out) {
    struct sl_pos pos = r->lex.tok.pos;
    SL_TRY(sl_lex_take_int(&r->lex, what, out));
    if (*out < 0 || *out > high)
        return sl_lex_fail_at(&r->lex, pos, "%s %lld is not in 0..%lld", what, (long long)*out,
                              (long long)high);
    return SL_OK;
}

static sl_err read_machine(void *reader) {
    struct reader *r = reader;
    struct sl_str brief;
    SL_TRY(take_name(r, "the name of the machine", &r->draft.name));
    SL_TRY(sl_lex_take_string(&r->lex, "a description in quotes", &brief));
    r->draft.brief = sl_arena_dup(r->arena, brief.at, brief.length);
    return SL_OK;
}

/* Reads an optional field of a kind other than its peaks; *known: the word was such a field. */
static sl_err take_kind_field(struct reader *r, struct sl_cost_device_kind *kind, bool *known) {
    const struct {
        const char *word;
        double *number;
        int64_t *ns;
    } fields[] = {{"efficiency", &kind->efficiency, NULL},
                  {"overhead", NULL, &kind->overhead_ns},
                  {"half", &kind->half, NULL},
                  {"score", &kind->score_bytes, NULL},
                  {"launch", NULL, &kind->launch_ns},
                  {"meet", NULL, &kind->meet_ns},
                  {"message", NULL, &kind->message_ns}};
    *known = false;
    for (int i = 0; i < SL_COUNT(fields) && !*known; i++) {
        if (!sl_lex_is_name(&r->lex, fields[i].word))
            continue;
        *known = true;
        SL_TRY(sl_lex_next(&r->lex));
        if (fields[i].number)
            SL_TRY(sl_lex_take_number(&r->lex, fields[i].word, fields[i].number));
        else
            SL_TRY(take_count(r, fields[i].word, 1000000000, fields[i].ns));
    }
    return SL_OK;
}

static sl_err read_kind(void *reader) {
    struct reader *r = reader;
    struct sl_cost_device_kind kind = {.efficiency = 1};
    SL_TRY(take_name(r, "the name of a kind of device", &kind.name));
    SL_TRY(take_word(r, "memory"));
    SL_TRY(take_count(r, "memory", INT64_MAX >> 8, &kind.memory_bytes));
    SL_TRY(take_word(r, "stream"));
    SL_TRY(sl_lex_take_number(&r->lex, "bytes per second", &kind.stream));
    while (r->lex.tok.kind == SL_TOK_NAME) {
        bool known;
        SL_TRY(take_kind_field(r, &kind, &known));
        if (known)
            continue;
        int i = 0;
        while (i < SL_MATH_COUNT && !sl_lex_is_name(&r->lex, sl_cost_math_names[i]))
            i++;
        if (i == SL_MATH_COUNT)
            return sl_lex_fail(&r->lex,
                               "a kind has fp32, fp16, bf16, efficiency, overhead, half, score, "
                               "launch, meet and message");
        SL_TRY(sl_lex_next(&r->lex));
        SL_TRY(sl_lex_take_number(&r->lex, "operations per second", &kind.flops[i]));
    }
    if (r->kinds.count >= SL_MACHINE_LINES)
        return sl_lex_fail(&r->lex, "more than %d kinds", SL_MACHINE_LINES);
    SL_PUSH(&r->kinds, kind);
    return SL_OK;
}

static sl_err read_link(void *reader) {
    struct reader *r = reader;
    struct sl_link link = {0};
    SL_TRY(take_name(r, "the name of a link", &link.name));
    SL_TRY(take_word(r, "bandwidth"));
    SL_TRY(sl_lex_take_number(&r->lex, "bytes per second", &link.bandwidth));
    SL_TRY(take_word(r, "latency"));
    SL_TRY(take_count(r, "latency", 1000000000000, &link.latency_ns));
    SL_TRY(take_word(r, "sharing"));
    int i = 0;
    while (i < SL_COUNT(sharing_names) && !sl_lex_is_name(&r->lex, sharing_names[i]))
        i++;
    if (i == SL_COUNT(sharing_names))
        return sl_lex_fail(&r->lex, "a link is shared by a pair, at a port, or as a bus");
    link.sharing = (enum sl_link_sharing)i;
    SL_TRY(sl_lex_next(&r->lex));
    if (sl_lex_is_name(&r->lex, "sum")) {
        SL_TRY(sl_lex_next(&r->lex));
        SL_TRY(sl_lex_take_number(&r->lex, "bytes per second", &link.sum_bandwidth));
        SL_TRY(take_word(r, "latency"));
        SL_TRY(take_count(r, "latency", 1000000000000, &link.sum_latency_ns));
    }
    if (r->links.count >= SL_MACHINE_LINES)
        return sl_lex_fail(&r->lex, "more than %d links", SL_MACHINE_LINES);
    SL_PUSH(&r->links, link);
    return SL_OK;
}

static sl_err find_link(struct reader *r, int *out) {
    struct sl_pos pos = r->lex.tok.pos;
    const char *name;
    SL_TRY(take_name(r, "the name of a link", &name));
    for (*out = 0; *out < r->links.count; ++*out)
        if (strcmp(r->links.at[*out].name, name) == 0)
            return SL_OK;
    return sl_lex_fail_at(&r->lex, pos, "no link is called '%s'", name);
}

static sl_err take_part(struct reader *r, struct sl_host_part *out) {
    struct sl_pos pos = r->lex.tok.pos;
    const char *name;
    int64_t count;
    SL_TRY(take_name(r, "a kind of device", &name));
    for (out->kind = 0; out->kind < r->kinds.count; out->kind++)
        if (strcmp(r->kinds.at[out->kind].name, name) == 0)
            break;
    if (out->kind == r->kinds.count)
        return sl_lex_fail_at(&r->lex, pos, "no kind of device is called '%s'", name);
    SL_TRY(take_count(r, "number of devices", SL_DEVICE_MAX, &count));
    out->count = (int)count;
    return SL_OK;
}

static sl_err read_host(void *reader) {
    struct reader *r = reader;
    struct sl_host host = {0};
    struct sl_host_part parts[16];
    int64_t count;
    SL_TRY(take_name(r, "the name of a host", &host.name));
    SL_TRY(take_word(r, "count"));
    SL_TRY(take_count(r, "count", SL_DEVICE_MAX, &count));
    host.count = (int)count;
    SL_TRY(take_word(r, "inside"));
    SL_TRY(find_link(r, &host.link));
    SL_TRY(take_word(r, "devices"));
    while (r->lex.tok.kind == SL_TOK_NAME) {
        if (host.part_count == SL_COUNT(parts))
            return sl_lex_fail(&r->lex, "more than %d kinds in a host", SL_COUNT(parts));
        SL_TRY(take_part(r, &parts[host.part_count++]));
    }
    host.parts = sl_vec_freeze(r->arena, parts, host.part_count, sizeof *parts);
    if (r->hosts.count >= SL_MACHINE_LINES)
        return sl_lex_fail(&r->lex, "more than %d lines of hosts", SL_MACHINE_LINES);
    SL_PUSH(&r->hosts, host);
    return SL_OK;
}

static sl_err read_level(void *reader) {
    struct reader *r = reader;
    struct sl_level level = {0};
    int64_t hosts;
    SL_TRY(take_name(r, "the name of a level", &level.name));
    SL_TRY(take_word(r, "hosts"));
    SL_TRY(take_count(r, "hosts", SL_DEVICE_MAX, &hosts));
    level.hosts = (int)hosts;
    SL_TRY(take_word(r, "over"));
    SL_TRY(find_link(r, &level.link));
    if (r->levels.count >= SL_MACHINE_LINES)
        return sl_lex_fail(&r->lex, "more than %d levels", SL_MACHINE_LINES);
    SL_PUSH(&r->levels, level);
    return SL_OK;
}

static sl_err read_lines(struct reader *r) {
    static const struct sl_lex_line lines[] = {{"machine", read_machine},
                                               {"kind", read_kind},
                                               {"link", read_link},
                                               {"host", read_host},
                                               {"level", read_level}};
    int64_t format;
    SL_TRY(sl_lex_skip_newlines(&r->lex));
    SL_TRY(take_word(r, "sluice-machine"));
    SL_TRY(take_count(r, "format", INT32_MAX, &format));
    if (format != 1)
        return sl_lex_fail(&r->lex, "format %lld is not known; this program reads 1",
                           (long long)format);
    SL_TRY(sl_lex_take_newline(&r->lex));
    SL_TRY(sl_lex_take_lines(&r->lex, lines, SL_COUNT(lines), r));
    char found[64];
    if (r->lex.tok.kind != SL_TOK_END)
        return sl_lex_fail(&r->lex, "expected machine, kind, link, host or level, found %s",
                           sl_lex_found(&r->lex, found));
    return SL_OK;
}

sl_err sl_cost_machine_read(struct sl_arena *arena, const char *file, const char *text,
                            size_t length, const struct sl_machine **out) {
    struct reader r = {.arena = arena};
    sl_err err;
    SL_TRY_OUT(sl_lex_open(&r.lex, file, text, length, true));
    SL_TRY_OUT(read_lines(&r));
    r.draft.kinds = r.kinds.at;
    r.draft.kind_count = (int)r.kinds.count;
    r.draft.links = r.links.at;
    r.draft.link_count = (int)r.links.count;
    r.draft.hosts = r.hosts.at;
    r.draft.host_count = (int)r.hosts.count;
    r.draft.levels = r.levels.at;
    r.draft.level_count = (int)r.levels.count;
    err = sl_cost_machine_build(arena, &r.draft, out);
    if (err != SL_OK)
        err = sl_err_context(err, "%s", file);
out:
    SL_VEC_FREE(&r.kinds);
    SL_VEC_FREE(&r.links);
    SL_VEC_FREE(&r.hosts);
    SL_VEC_FREE(&r.levels);
    return err;
}

/* ---- writing ---- */

static void put_number(struct sl_text *out, const char *word, double value) {
    sl_text_printf(out, " %s ", word);
    sl_text_put_double(out, value);
}

static void write_kind(const struct sl_cost_device_kind *kind, struct sl_text *out) {
    sl_text_printf(out, "kind %s memory %lld", kind->name, (long long)kind->memory_bytes);
    put_number(out, "stream", kind->stream);
    for (int i = 0; i < SL_MATH_COUNT; i++)
        if (kind->flops[i] > 0)
            put_number(out, sl_cost_math_names[i], kind->flops[i]);
    put_number(out, "efficiency", kind->efficiency);
    sl_text_printf(out, " overhead %lld", (long long)kind->overhead_ns);
    if (kind->half > 0)
        put_number(out, "half", kind->half);
    if (kind->score_bytes > 0)
        put_number(out, "score", kind->score_bytes);
    const struct {
        const char *word;
        int64_t ns;
    } host[] = {
        {"launch", kind->launch_ns}, {"meet", kind->meet_ns}, {"message", kind->message_ns}};
    for (int i = 0; i < SL_COUNT(host); i++)
        if (host[i].ns)
            sl_text_printf(out, " %s %lld", host[i].word, (long long)host[i].ns);
    sl_text_put(out, "\n");
}

void sl_cost_machine_write(const struct sl_machine *m, struct sl_text *out) {
    sl_text_printf(out, "sluice-machine 1\nmachine %s \"%s\"\n", m->name, m->brief);
    for (int i = 0; i < m->kind_count; i++)
        write_kind(&m->kinds[i], out);
    for (int i = 0; i < m->link_count; i++) {
        sl_text_printf(out, "link %s", m->links[i].name);
        put_number(out, "bandwidth", m->links[i].bandwidth);
        sl_text_printf(out, " latency %lld sharing %s", (long long)m->links[i].latency_ns,
                       sharing_names[m->links[i].sharing]);
        if (m->links[i].sum_bandwidth > 0) {
            put_number(out, "sum", m->links[i].sum_bandwidth);
            sl_text_printf(out, " latency %lld", (long long)m->links[i].sum_latency_ns);
        }
        sl_text_put(out, "\n");
    }
    for (int i = 0; i < m->host_count; i++) {
        const struct sl_host *host = &m->hosts[i];
        sl_text_printf(out, "host %s count %d inside %s devices", host->name, host->count,
                       m->links[host->link].name);
        for (int p = 0; p < host->part_count; p++)
            sl_text_printf(out, " %s %d", m->kinds[host->parts[p].kind].name, host->parts[p].count);
        sl_text_put(out, "\n");
    }
    for (int i = 0; i < m->level_count; i++)
        sl_text_printf(out, "level %s hosts %d over %s\n", m->levels[i].name, m->levels[i].hosts,
                       m->links[m->levels[i].link].name);
}
