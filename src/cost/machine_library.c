/* Built-in machines: published test beds and common nodes, with numbers from data sheets.
 * `efficiency` is the share of the peak that large products reach on that kind of device; a
 * profile replaces it. */
#include "cost/machine.h"

#include "base/vec.h"

#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define V100_16 "kind v100-16 memory 17179869184 stream 900e9 fp32 15.7e12 fp16 125e12 efficiency 0.45 overhead 6000\n"
#define A100_80 "kind a100-80 memory 85899345920 stream 2039e9 fp32 19.5e12 fp16 312e12 bf16 312e12 efficiency 0.6 overhead 5000\n"
#define H100_80 "kind h100-80 memory 85899345920 stream 3350e9 fp32 67e12 fp16 989e12 bf16 989e12 efficiency 0.55 overhead 4000\n"
#define H200 "kind h200 memory 151397597184 stream 4800e9 fp32 67e12 fp16 989e12 bf16 989e12 efficiency 0.55 overhead 4000\n"
#define NVLINK2 "link nvlink bandwidth 25e9 latency 7000 sharing pair\n"
#define NVSWITCH3 "link nvswitch bandwidth 300e9 latency 5000 sharing port\n"
#define NVSWITCH4 "link nvswitch bandwidth 450e9 latency 5000 sharing port\n"
#define PCIE3 "link pcie bandwidth 12e9 latency 10000 sharing bus\n"

const struct sl_machine_row sl_cost_machine_rows[] = {
    {"a100-x128", "128 hosts with eight A100-80GB, NVSwitch, 200 Gb/s per device",
     A100_80 NVSWITCH3
     "link infiniband bandwidth 200e9 latency 12000 sharing port\n"
     "host dgx count 128 inside nvswitch devices a100-80 8\n"
     "level cluster hosts 128 over infiniband\n"},
    {"dgx-a100", "one host with eight A100-80GB, NVSwitch",
     A100_80 NVSWITCH3 "host dgx count 1 inside nvswitch devices a100-80 8\n"},
    {"dgx-h100", "one host with eight H100-80GB, NVSwitch",
     H100_80 NVSWITCH4 "host dgx count 1 inside nvswitch devices h100-80 8\n"},
    {"h100-x32", "32 hosts with eight H100-80GB, NVSwitch, 400 Gb/s per device",
     H100_80 NVSWITCH4
     "link infiniband bandwidth 400e9 latency 12000 sharing port\n"
     "host dgx count 32 inside nvswitch devices h100-80 8\n"
     "level cluster hosts 32 over infiniband\n"},
    {"hetpipe", /* not an entry: a machine */
     "HetPipe's test bed: four hosts with four TITAN V, TITAN RTX, RTX 2060, Quadro P4000",
     "kind titan-v memory 12884901888 stream 653e9 fp32 14.9e12 efficiency 0.6 overhead 6000\n"
     "kind titan-rtx memory 25769803776 stream 672e9 fp32 16.3e12 efficiency 0.6 overhead 6000\n"
     "kind rtx-2060 memory 6442450944 stream 336e9 fp32 6.5e12 efficiency 0.6 overhead 6000\n"
     "kind p4000 memory 8589934592 stream 243e9 fp32 5.3e12 efficiency 0.6 overhead 6000\n"
     "link pcie bandwidth 15.75e9 latency 10000 sharing bus\n"
     "link infiniband bandwidth 7e9 latency 12000 sharing port\n"
     "host v count 1 inside pcie devices titan-v 4\n"
     "host r count 1 inside pcie devices titan-rtx 4\n"
     "host g count 1 inside pcie devices rtx-2060 4\n"
     "host q count 1 inside pcie devices p4000 4\n"
     "level cluster hosts 4 over infiniband\n"},
    {"hgx-h200", "one host with eight H200, NVSwitch",
     H200 NVSWITCH4 "host hgx count 1 inside nvswitch devices h200 8\n"},
    {"laptop", "four cores of a laptop, as four workers",
     "kind core memory 4294967296 stream 8e9 fp32 100e9 efficiency 0.8 overhead 1000\n"
     "link memory bandwidth 8e9 latency 500 sharing pair\n"
     "host laptop count 1 inside memory devices core 4\n"},
    {"p3-x8", "eight p3.16xlarge: eight V100-16GB each, NVLink, 25 Gb/s between hosts",
     V100_16 NVLINK2
     "link ethernet bandwidth 3.125e9 latency 30000 sharing port\n"
     "host p3.16xlarge count 8 inside nvlink devices v100-16 8\n"
     "level cluster hosts 8 over ethernet\n"},
    {"p3.16xlarge", "one p3.16xlarge: eight V100-16GB, NVLink",
     V100_16 NVLINK2 "host p3.16xlarge count 1 inside nvlink devices v100-16 8\n"},
    {"pcie-4", "a box with four RTX 2080 Ti on one PCIe switch",
     "kind rtx-2080ti memory 11811160064 stream 616e9 fp32 13.4e12 fp16 53.8e12 efficiency 0.6 overhead 6000\n"
     PCIE3 "host box count 1 inside pcie devices rtx-2080ti 4\n"},
    {"summit", "eight Summit nodes with four V100-16GB, NVLink, EDR InfiniBand (GraphPipe's test bed)",
     V100_16
     "link nvlink bandwidth 50e9 latency 7000 sharing pair\n"
     "link infiniband bandwidth 12.5e9 latency 12000 sharing port\n"
     "host node count 8 inside nvlink devices v100-16 4\n"
     "level fabric hosts 8 over infiniband\n"},
};
/* clang-format on */
const int sl_cost_machine_row_count = SL_COUNT(sl_cost_machine_rows);

static const char *row_name(const void *ctx, int i) {
    (void)ctx;
    return sl_cost_machine_rows[i].name;
}

sl_err sl_cost_machine_open(struct sl_arena *arena, const char *name,
                            const struct sl_machine **out) {
    for (int i = 0; i < sl_cost_machine_row_count; i++) {
        const struct sl_machine_row *row = &sl_cost_machine_rows[i];
        if (strcmp(row->name, name) != 0)
            continue;
        struct sl_text text = {0};
        sl_text_printf(&text, "sluice-machine 1\nmachine %s \"%s\"\n%s", row->name, row->brief,
                       row->text);
        sl_err err = sl_cost_machine_read(arena, row->name, text.at, text.length, out);
        sl_text_free(&text);
        return err;
    }
    const char *near = sl_nearest(name, sl_cost_machine_row_count, row_name, NULL);
    return sl_fail(SL_ERR_USAGE, "there is no machine '%s'%s%s%s", name,
                   near ? "; did you mean '" : "; see 'sluice machine ls'", near ? near : "",
                   near ? "'?" : "");
}

/* ---- descriptions in one line ---- */

struct spec {
    int64_t hosts, devices, memory;
    double intra, inter, flops;
    int64_t latency_ns;
};

static sl_err set_item(struct spec *s, const char *key, const char *value) {
    if (strcmp(key, "mem") == 0)
        return sl_parse_bytes(value, "--machine: mem", &s->memory);
    if (strcmp(key, "intra") == 0)
        return sl_parse_bandwidth(value, "--machine: intra", &s->intra);
    if (strcmp(key, "inter") == 0)
        return sl_parse_bandwidth(value, "--machine: inter", &s->inter);
    if (strcmp(key, "flops") == 0)
        return sl_parse_double(value, "--machine: flops", &s->flops);
    if (strcmp(key, "latency") == 0) {
        double ns;
        SL_TRY(sl_parse_double(value, "--machine: latency in ns", &ns));
        s->latency_ns = ns > 0 && ns < 1e12 ? (int64_t)ns : 0;
        return SL_OK;
    }
    return sl_fail(SL_ERR_USAGE, "--machine: '%s' is none of mem, intra, inter, flops, latency",
                   key);
}

static sl_err parse_spec(const char *spec, struct spec *s) {
    char *end, item[128];
    s->hosts = strtoll(spec, &end, 10);
    if (*end != 'x')
        return sl_fail(SL_ERR_USAGE, "--machine: '%s' is no name, no file and no HOSTSxDEVICES",
                       spec);
    s->devices = strtoll(end + 1, &end, 10);
    if (s->hosts < 1 || s->devices < 1 || s->hosts > SL_DEVICE_MAX || s->devices > SL_DEVICE_MAX ||
        (*end && *end != ':'))
        return sl_fail(SL_ERR_USAGE, "--machine: '%s': expected HOSTSxDEVICES:mem=16G,...", spec);
    for (const char *at = end; *at;) {
        size_t length = strcspn(++at, ",");
        if (length >= sizeof item)
            return sl_fail(SL_ERR_USAGE, "--machine: an item of '%s' is too long", spec);
        memcpy(item, at, length);
        item[length] = 0;
        char *value = strchr(item, '=');
        if (!value)
            return sl_fail(SL_ERR_USAGE, "--machine: '%s' is not KEY=VALUE", item);
        *value = 0;
        SL_TRY(set_item(s, item, value + 1));
        at += length;
    }
    return SL_OK;
}

sl_err sl_cost_machine_spec(struct sl_arena *arena, const char *spec,
                            const struct sl_machine **out) {
    struct spec s = {.memory = (int64_t)16 << 30,
                     .intra = 100e9,
                     .inter = 10e9,
                     .flops = 100e12,
                     .latency_ns = 5000};
    SL_TRY(parse_spec(spec, &s));
    struct sl_cost_device_kind kind = {.name = "device",
                                       .memory_bytes = s.memory,
                                       .stream = 1e12,
                                       .flops = {s.flops},
                                       .efficiency = 0.5,
                                       .overhead_ns = 5000};
    struct sl_link links[] = {{.name = "intra", .bandwidth = s.intra, .latency_ns = s.latency_ns},
                              {.name = "inter",
                               .bandwidth = s.inter,
                               .latency_ns = 4 * s.latency_ns,
                               .sharing = SL_LINK_PORT}};
    struct sl_host_part part = {0, (int)s.devices};
    struct sl_host host = {"host", (int)s.hosts, 0, &part, 1};
    struct sl_level level = {"cluster", (int)s.hosts, 1};
    struct sl_machine draft = {.name = "given",
                               .brief = "from the command line",
                               .kinds = &kind,
                               .kind_count = 1,
                               .links = links,
                               .link_count = 2,
                               .hosts = &host,
                               .host_count = 1,
                               .levels = &level,
                               .level_count = s.hosts > 1};
    sl_err err = sl_cost_machine_build(arena, &draft, out);
    return err == SL_OK ? SL_OK
                        : sl_fail(SL_ERR_USAGE, "--machine '%s': %s", spec, sl_err_message());
}
