/* Report of a machine: devices and links. */
#include "report/machine.h"

#include "base/json.h"

void sl_report_machine(const struct sl_machine *m, struct sl_text *text) {
    char bytes[SL_HUMAN_BYTES], speed[SL_HUMAN_BYTES];
    sl_text_printf(text, "%s: %s\n  %d devices on %d host%s\n", m->name, m->brief, m->device_count,
                   m->hosts_in_all, m->hosts_in_all == 1 ? "" : "s");
    for (int k = 0; k < m->kind_count; k++) {
        int count = 0;
        for (int d = 0; d < m->device_count; d++)
            count += m->kind_of[d] == k;
        const struct sl_cost_device_kind *kind = &m->kinds[k];
        sl_text_printf(text, "  %4d x %-12s %s, %sFLOP/s in fp32", count, kind->name,
                       sl_human_bytes(kind->memory_bytes, bytes),
                       sl_human_count(kind->flops[SL_MATH_FP32], speed));
        sl_text_printf(text, ", %sB/s to memory\n", sl_human_count(kind->stream, speed));
    }
    for (int l = -1; l < m->level_count; l++) {
        const struct sl_link *link = &m->links[l < 0 ? m->hosts[0].link : m->levels[l].link];
        char latency[SL_HUMAN_BYTES];
        sl_text_printf(text, "  %-8s %s, %sB/s", l < 0 ? "host" : m->levels[l].name, link->name,
                       sl_human_count(link->bandwidth, speed));
        sl_text_printf(text, ", %s\n", sl_human_ns(link->latency_ns, latency));
    }
}

static void kinds_json(struct sl_json_out *json, const struct sl_machine *m) {
    sl_json_key(json, "kinds");
    sl_json_open(json, '[');
    for (int k = 0; k < m->kind_count; k++) {
        const struct sl_cost_device_kind *kind = &m->kinds[k];
        int64_t count = 0;
        for (int d = 0; d < m->device_count; d++)
            count += m->kind_of[d] == k;
        sl_json_open(json, '{');
        sl_json_put_string(json, "name", kind->name);
        sl_json_put_int(json, "count", count);
        sl_json_put_int(json, "memory_bytes", kind->memory_bytes);
        sl_json_put_double(json, "memory_bytes_per_s", kind->stream);
        for (int i = 0; i < SL_MATH_COUNT; i++)
            sl_json_put_double(json, sl_cost_math_names[i],
                               kind->flops[i] > 0 ? kind->flops[i] : kind->flops[SL_MATH_FP32]);
        sl_json_put_double(json, "efficiency", kind->efficiency);
        sl_json_put_int(json, "overhead_ns", kind->overhead_ns);
        sl_json_close(json, '}');
    }
    sl_json_close(json, ']');
}

void sl_report_machine_json(const struct sl_machine *m, struct sl_text *text) {
    struct sl_json_out json = {.text = text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_string(&json, "name", m->name);
    sl_json_put_string(&json, "brief", m->brief);
    sl_json_put_int(&json, "devices", m->device_count);
    sl_json_put_int(&json, "hosts", m->hosts_in_all);
    kinds_json(&json, m);
    sl_json_key(&json, "levels"); /* innermost first */
    sl_json_open(&json, '[');
    for (int l = -1; l < m->level_count; l++) {
        const struct sl_link *link = &m->links[l < 0 ? m->hosts[0].link : m->levels[l].link];
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "name", l < 0 ? "host" : m->levels[l].name);
        sl_json_put_int(&json, "hosts", l < 0 ? 1 : m->levels[l].hosts);
        sl_json_put_string(&json, "link", link->name);
        sl_json_put_double(&json, "bytes_per_s", link->bandwidth);
        sl_json_put_int(&json, "latency_ns", link->latency_ns);
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}
