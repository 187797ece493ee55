/* GPUs as a machine. Peak rates come from the hardware. The efficiency of large products and the
 * overhead per op are defaults of the built-in machines; a profile replaces them. */
#include "profile/devices.h"

#include "base/text.h"

#include <ctype.h>
#include <string.h>

enum { MAX_DEVICES = 64 };

static bool alike(const struct sl_device_facts *a, const struct sl_device_facts *b) {
    return strcmp(a->name, b->name) == 0 && a->memory_bytes == b->memory_bytes &&
           a->processors == b->processors && a->peer_links == b->peer_links;
}

/* Returns the number of equal devices at the start of the list. */
static int run_length(const struct sl_device_facts *facts, int count) {
    int length = 1;
    while (length < count && alike(&facts[0], &facts[length]))
        length++;
    return length;
}

static void put_some(struct sl_text *text, const struct sl_device_facts *facts, int count) {
    char bytes[SL_HUMAN_BYTES], rate[SL_HUMAN_BYTES];
    sl_text_printf(text, "%d x %s (%s, %d multiprocessors", count, facts->name,
                   sl_human_bytes(facts->memory_bytes, bytes), facts->processors);
    if (facts->peer_links)
        sl_text_printf(text, ", %d NVLinks, %sB/s", facts->peer_links,
                       sl_human_count(facts->peer_rate, rate));
    if (facts->host_rate > 0)
        sl_text_printf(text, ", PCIe %sB/s", sl_human_count(facts->host_rate, rate));
    sl_text_put(text, ")");
}

const char *sl_profile_devices_text(struct sl_arena *arena, const struct sl_device_row *row) {
    struct sl_device_facts facts[MAX_DEVICES];
    struct sl_text text = {0};
    int count = row->list ? row->list(facts, MAX_DEVICES) : 0;
    count = count < MAX_DEVICES ? count : MAX_DEVICES;
    if (count < 1)
        return NULL;
    for (int i = 0, n; i < count; i += n) {
        n = run_length(facts + i, count - i);
        sl_text_put(&text, i ? ", " : "");
        put_some(&text, &facts[i], n);
    }
    const char *out = sl_arena_dup(arena, text.at, text.length);
    sl_text_free(&text);
    return out;
}

/* Names a kind: "NVIDIA H200" -> "nvidia-h200", because names in files have no spaces. Kinds with
 * the same name are numbered. */
static const char *kind_name(struct sl_arena *arena, const char *name, int number) {
    char *out = sl_arena_printf(arena, "%s%s%.0d", *name ? name : "gpu", number ? "-" : "", number);
    for (char *at = out; *at; at++)
        *at = (char)(isalnum((unsigned char)*at) ? tolower((unsigned char)*at) : '-');
    return out;
}

static struct sl_cost_device_kind kind_of(struct sl_arena *arena,
                                          const struct sl_device_facts *facts, int number) {
    double fp32 = facts->flops_fp32 > 0 ? facts->flops_fp32 : 1e12;
    return (struct sl_cost_device_kind){
        .name = kind_name(arena, facts->name, number),
        .memory_bytes = facts->memory_bytes,
        .stream = facts->stream > 0 ? facts->stream : 1e11,
        .flops = {[SL_MATH_FP32] = fp32,
                  [SL_MATH_FP16] = facts->flops_bf16,
                  [SL_MATH_BF16] = facts->flops_bf16},
        .efficiency = 0.55,
        .overhead_ns = 4000,
    };
}

/* Returns the slowest link between two devices; for one device, the link between its own
 * workers. */
static struct sl_link link_of(const struct sl_device_facts *facts, int count) {
    struct sl_link link = {.name = "memory",
                           .bandwidth = facts->stream > 0 ? facts->stream / 2 : 1e10,
                           .latency_ns = 5000};
    for (int i = 0; count > 1 && i < count; i++) {
        double rate = facts[i].peer_rate > 0 ? facts[i].peer_rate : 1e10;
        bool direct = facts[i].peer_links > 0;
        if (i == 0 || rate < link.bandwidth)
            link = (struct sl_link){.name = direct ? "nvlink" : "pcie",
                                    .bandwidth = rate,
                                    .latency_ns = direct ? 5000 : 10000,
                                    .sharing = direct ? SL_LINK_PORT : SL_LINK_BUS};
    }
    return link;
}

sl_err sl_profile_machine_of(struct sl_arena *arena, const struct sl_device_facts *facts, int count,
                             const struct sl_machine **out) {
    struct sl_cost_device_kind *kinds = SL_NEW(arena, struct sl_cost_device_kind, count);
    struct sl_host_part *parts = SL_NEW(arena, struct sl_host_part, count);
    int kind_count = 0;
    for (int i = 0, n; i < count; i += n, kind_count++) {
        int same = 0; /* number of earlier kinds with this name */
        n = run_length(facts + i, count - i);
        for (int k = 0, at = 0; k < kind_count; at += parts[k++].count)
            same += strcmp(facts[at].name, facts[i].name) == 0;
        kinds[kind_count] = kind_of(arena, &facts[i], same);
        parts[kind_count] = (struct sl_host_part){kind_count, n};
    }
    struct sl_link link = link_of(facts, count);
    struct sl_host host = {"here", 1, 0, parts, kind_count};
    struct sl_machine draft = {
        .name = "here",
        .brief = sl_arena_printf(arena, "%d GPU%s of this computer", count, count == 1 ? "" : "s"),
        .kinds = kinds,
        .kind_count = kind_count,
        .links = &link,
        .link_count = 1,
        .hosts = &host,
        .host_count = 1};
    return sl_cost_machine_build(arena, &draft, out);
}

sl_err sl_profile_machine_devices(struct sl_arena *arena, const struct sl_device_row *row,
                                  const struct sl_machine **out) {
    struct sl_device_facts facts[MAX_DEVICES];
    int count = row->list ? row->list(facts, MAX_DEVICES) : 0;
    if (count < 1)
        return sl_fail(SL_ERR_SYSTEM, "there is no device '%s' here%s%s", row->name,
                       row->missing() ? ": " : "", row->missing() ? row->missing() : "");
    return sl_profile_machine_of(arena, facts, count < MAX_DEVICES ? count : MAX_DEVICES, out);
}
