/* Reads costs, links and cold passes from the texts of --costs, --links and --cold. */
#include "sim/sim.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const int64_t cost_max_ns = 1000000000000000; /* 11 days */

/* Reads a number with unit ns, us, ms or s; no unit means ns. Integers are exact. */
static sl_err parse_ns(struct sl_str text, const char *where, int64_t *out) {
    static const struct {
        const char *unit;
        int64_t ns;
    } units[] = {{"ns", 1}, {"us", 1000}, {"ms", 1000000}, {"s", 1000000000}};
    char number[64];
    int64_t factor = 1, whole;
    double value;
    for (int i = 0; i < SL_COUNT(units); i++) {
        size_t length = strlen(units[i].unit);
        if (text.length > length &&
            memcmp(text.at + text.length - length, units[i].unit, length) == 0) {
            factor = units[i].ns;
            text.length -= length;
            break;
        }
    }
    if (!text.length || text.length >= sizeof number)
        return sl_fail(SL_ERR_USAGE, "%s: a time is expected, such as 3 or 2.5us", where);
    memcpy(number, text.at, text.length);
    number[text.length] = '\0';
    bool digits = strspn(number, "0123456789") == text.length;
    if (digits && sl_parse_int(number, where, &whole) == SL_OK && whole <= cost_max_ns / factor) {
        *out = whole * factor;
        return SL_OK;
    }
    SL_TRY(sl_parse_double(number, where, &value));
    value *= (double)factor;
    if (!(value >= 0 && value <= (double)cost_max_ns))
        return sl_fail(SL_ERR_USAGE, "%s: a time from 0 to 1000000s is expected, found '%s'", where,
                       number);
    *out = (int64_t)(value + 0.5);
    return SL_OK;
}

static struct sl_str trim(struct sl_str s) {
    while (s.length && isspace((unsigned char)s.at[0])) {
        s.at++;
        s.length--;
    }
    while (s.length && isspace((unsigned char)s.at[s.length - 1]))
        s.length--;
    return s;
}

/* Cuts the text at the first `mark`; *rest becomes the remainder. */
static struct sl_str cut(struct sl_str *rest, char mark) {
    const char *end = rest->length ? memchr(rest->at, mark, rest->length) : NULL;
    size_t length = end ? (size_t)(end - rest->at) : rest->length;
    struct sl_str part = {rest->at, length};
    rest->at += end ? length + 1 : length;
    rest->length -= end ? length + 1 : length;
    return trim(part);
}

/* --- costs --- */

static int find_kind(struct sl_str name) {
    for (int k = 0; k < SL_KIND_COUNT; k++)
        if (k != SL_SEND && k != SL_RECV && sl_str_is(name, sl_sched_kind_name((enum sl_kind)k)))
            return k;
    return -1;
}

static sl_err find_stage(const struct sl_plan *plan, struct sl_str name, int *out) {
    int64_t number = 0;
    *out = sl_plan_find_stage(plan, name);
    if (*out >= 0)
        return SL_OK;
    for (size_t i = 0; i < name.length && i < 8; i++)
        number = isdigit((unsigned char)name.at[i]) ? number * 10 + (name.at[i] - '0')
                                                    : SL_STAGE_MAX * (int64_t)10;
    if (!name.length || name.length > 7 || number >= plan->stage_count)
        return sl_fail(SL_ERR_USAGE, "--costs: no stage '%.*s'; stages are %s to %s (or 0 to %d)",
                       (int)(name.length < 40 ? name.length : 40), name.at, plan->stages[0].name,
                       plan->stages[plan->stage_count - 1].name, plan->stage_count - 1);
    *out = (int)number;
    return SL_OK;
}

struct given {
    int64_t dur[SL_KIND_COUNT];
    bool has[SL_KIND_COUNT];
};

static sl_err parse_part(struct sl_str text, struct given *given) {
    while (text.length) {
        struct sl_str item = cut(&text, ',');
        struct sl_str value = item, name = cut(&value, '=');
        int kind = find_kind(name);
        value = trim(value);
        if (kind < 0)
            return sl_fail(SL_ERR_USAGE,
                           "--costs: '%.*s' is no pass; F, B, I, W, RECOMPUTE, REDUCE, STEP and "
                           "PREDICT are, as in F=3,I=2,W=2",
                           (int)(item.length < 40 ? item.length : 40), item.at);
        SL_TRY(parse_ns(value, "--costs", &given->dur[kind]));
        given->has[kind] = true;
    }
    return SL_OK;
}

/* Fills in the kinds that were not given. */
static void complete(const struct given *given, int64_t dur[SL_KIND_COUNT]) {
    const bool *has = given->has;
    const int64_t *d = given->dur;
    for (int k = 0; k < SL_KIND_COUNT; k++)
        if (has[k])
            dur[k] = d[k];
    if (!has[SL_BACKWARD] && (has[SL_BACKWARD_INPUT] || has[SL_BACKWARD_WEIGHT]))
        dur[SL_BACKWARD] = dur[SL_BACKWARD_INPUT] + dur[SL_BACKWARD_WEIGHT];
    if (has[SL_BACKWARD] && !has[SL_BACKWARD_INPUT] && !has[SL_BACKWARD_WEIGHT]) {
        dur[SL_BACKWARD_INPUT] = (d[SL_BACKWARD] + 1) / 2;
        dur[SL_BACKWARD_WEIGHT] = d[SL_BACKWARD] / 2;
    }
    if (has[SL_FORWARD] && !has[SL_RECOMPUTE])
        dur[SL_RECOMPUTE] = d[SL_FORWARD];
}

sl_err sl_sim_costs(const struct sl_plan *plan, const char *text, int64_t (*dur)[SL_KIND_COUNT]) {
    static const int64_t units[SL_KIND_COUNT] = {[SL_FORWARD] = 1,
                                                 [SL_BACKWARD] = 2,
                                                 [SL_BACKWARD_INPUT] = 1,
                                                 [SL_BACKWARD_WEIGHT] = 1,
                                                 [SL_RECOMPUTE] = 1};
    for (int i = 0; i < plan->stage_count; i++)
        memcpy(dur[i], units, sizeof dur[i]);
    struct sl_str rest = sl_str(text);
    if (!trim(rest).length)
        return sl_fail(SL_ERR_USAGE, "--costs: empty; such as F=3,I=2,W=2");
    while (rest.length) {
        struct sl_str part = cut(&rest, ';');
        struct given given = {0};
        int stage = -1;
        if (part.length && memchr(part.at, ':', part.length)) {
            struct sl_str name = cut(&part, ':');
            SL_TRY(find_stage(plan, name, &stage));
        }
        SL_TRY(parse_part(trim(part), &given));
        for (int i = 0; i < plan->stage_count; i++)
            if (stage < 0 || stage == i)
                complete(&given, dur[i]);
    }
    return SL_OK;
}

/* --- links --- */

static sl_err parse_sharing(struct sl_str value, struct sl_sim_links *out) {
    static const char *const names[] = {
        [SL_SHARE_NONE] = "none", [SL_SHARE_WORKER] = "worker", [SL_SHARE_ALL] = "all"};
    for (int i = 0; i < SL_COUNT(names); i++)
        if (sl_str_is(value, names[i])) {
            out->sharing = (enum sl_sim_sharing)i;
            return SL_OK;
        }
    return sl_fail(SL_ERR_USAGE, "--links: sharing is none, worker or all");
}

static sl_err parse_link(struct sl_str name, struct sl_str value, struct sl_sim_links *out) {
    char text[64];
    double speed;
    if (sl_str_is(name, "latency"))
        return parse_ns(value, "--links: latency", &out->latency_ns);
    if (sl_str_is(name, "sharing"))
        return parse_sharing(value, out);
    if (sl_str_is(name, "duplex")) {
        out->half_duplex = sl_str_is(value, "half");
        if (out->half_duplex || sl_str_is(value, "full"))
            return SL_OK;
        return sl_fail(SL_ERR_USAGE, "--links: duplex is full or half");
    }
    if (sl_str_is(name, "receive")) {
        out->early = sl_str_is(value, "early");
        if (out->early || sl_str_is(value, "posted"))
            return SL_OK;
        return sl_fail(SL_ERR_USAGE, "--links: receive is early or posted");
    }
    if (!sl_str_is(name, "bandwidth"))
        return sl_fail(
            SL_ERR_USAGE,
            "--links: '%.*s' is unknown; latency, bandwidth, duplex, sharing and receive "
            "are, as in latency=5us,bandwidth=10Gb/s",
            (int)(name.length < 40 ? name.length : 40), name.at);
    if (value.length >= sizeof text)
        return sl_fail(SL_ERR_USAGE, "--links: bandwidth, such as 10Gb/s or 25GB/s");
    memcpy(text, value.at, value.length);
    text[value.length] = '\0';
    SL_TRY(sl_parse_bandwidth(text, "--links: bandwidth", &speed));
    if (!(speed >= 1 && speed <= 1e18))
        return sl_fail(SL_ERR_USAGE, "--links: bandwidth must be at least one byte per second");
    out->bytes_per_s = (int64_t)speed;
    return SL_OK;
}

sl_err sl_sim_links_parse(const char *text, struct sl_sim_links *out) {
    struct sl_str rest = sl_str(text);
    *out = (struct sl_sim_links){0};
    while (rest.length) {
        struct sl_str value = cut(&rest, ','), name = cut(&value, '=');
        SL_TRY(parse_link(name, trim(value), out));
    }
    return SL_OK;
}

/* --- cold passes --- */

sl_err sl_sim_cold_parse(const char *text, struct sl_cold *out) {
    const struct {
        const char *name;
        int64_t *to;
    } fields[] = {{"F", &out->f_ns}, {"B", &out->b_ns}, {"after", &out->after_ns}};
    struct sl_str rest = sl_str(text);
    *out = (struct sl_cold){0};
    while (rest.length) {
        struct sl_str value = cut(&rest, ','), name = cut(&value, '=');
        int at = 0;
        while (at < SL_COUNT(fields) && !sl_str_is(name, fields[at].name))
            at++;
        if (at == SL_COUNT(fields))
            return sl_fail(SL_ERR_USAGE,
                           "--cold: '%.*s' is unknown; F, B and after are, as in "
                           "F=40us,B=90us,after=5ms",
                           (int)(name.length < 40 ? name.length : 40), name.at);
        SL_TRY(parse_ns(trim(value), "--cold", fields[at].to));
        if (*fields[at].to > SL_COLD_MAX_NS)
            return sl_fail(SL_ERR_USAGE, "--cold: %s is more than a second", fields[at].name);
    }
    return SL_OK;
}
