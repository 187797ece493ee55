/* A machine: devices, their memory, and the links between them.
 *
 *     level cluster  =========== over ethernet ============        levels, innermost first; the
 *                    |                 |                           last one joins all hosts
 *     host p3        [v v v v]  inside nvlink  [v v v v]           devices are numbered host by
 *                     0 1 2 3                   4 5 6 7            host, in the order of the text
 *
 * Kinds may be mixed, within a host and between hosts. Text: docs/formats-machine.md.
 */
#ifndef SL_COST_MACHINE_H
#define SL_COST_MACHINE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/text.h"

#include <stdbool.h>
#include <stdint.h>

enum { SL_DEVICE_MAX = 65535, SL_MACHINE_LINES = 256 };

/* Number formats of matrix products. */
enum sl_math { SL_MATH_FP32, SL_MATH_FP16, SL_MATH_BF16, SL_MATH_COUNT };
extern const char *const sl_cost_math_names[SL_MATH_COUNT];

struct sl_cost_device_kind {
    const char *name;
    int64_t memory_bytes;
    double stream;               /* bytes per second from and to its memory */
    double flops[SL_MATH_COUNT]; /* peak flops per second; 0: the same as fp32 */
    double efficiency;           /* share of the peak that large products reach */
    int64_t overhead_ns;         /* overhead of every op */
    /* Constants that `sluice calibrate` finds (docs/formats-machine.md); 0: no such effect. */
    double half; /* number of operations at which a product reaches half of the efficiency */
    /* bytes moved per attention score; 0: a fused kernel keeps scores on chip */
    double score_bytes;
    int64_t launch_ns;  /* host time per op: a pass of a layer takes at least that of its ops */
    int64_t meet_ns;    /* host time per collective inside a pass and further member */
    int64_t message_ns; /* host time per pass of a stage that sends or receives */
};

enum sl_link_sharing {
    SL_LINK_PAIR, /* a wire for every pair of ends and every direction */
    SL_LINK_PORT, /* every end has one port out and one port in */
    SL_LINK_BUS,  /* one wire for all ends */
};

struct sl_link {
    const char *name;
    double bandwidth; /* in bytes per second */
    int64_t latency_ns;
    enum sl_link_sharing sharing;
    /* An all-reduce among n devices takes sum_latency_ns + 2 (n - 1) / n bytes / sum_bandwidth.
     * sum_bandwidth 0: it is a ring of messages. */
    double sum_bandwidth;
    int64_t sum_latency_ns;
};

struct sl_host_part {
    int kind, count;
};

struct sl_host { /* `count` equal hosts */
    const char *name;
    int count, link; /* link: between the devices of the host */
    const struct sl_host_part *parts;
    int part_count;
};

struct sl_level {
    const char *name;
    int hosts; /* number of hosts in one unit of this level */
    int link;
};

struct sl_machine {
    const char *name, *brief;
    const struct sl_cost_device_kind *kinds;
    int kind_count;
    const struct sl_link *links;
    int link_count;
    const struct sl_host *hosts;
    int host_count; /* lines of the text; each may stand for several hosts */
    const struct sl_level *levels;
    int level_count;
    /* derived fields: */
    int device_count, hosts_in_all;
    const int *kind_of, *host_of; /* [device] its kind, its host */
    const int *link_of_host;      /* [host] link between its devices */
};

/* Freezes a copy of the draft: derives fields and checks it. SL_ERR_INPUT: the draft is wrong. */
SL_MUST_CHECK sl_err sl_cost_machine_build(struct sl_arena *arena, const struct sl_machine *draft,
                                           const struct sl_machine **out);
SL_MUST_CHECK sl_err sl_cost_machine_check(const struct sl_machine *machine);

SL_MUST_CHECK sl_err sl_cost_machine_read(struct sl_arena *arena, const char *file,
                                          const char *text, size_t length,
                                          const struct sl_machine **out);
void sl_cost_machine_write(const struct sl_machine *machine, struct sl_text *out);

/* Parses '2x4:mem=16G,intra=100GB/s,inter=10Gb/s,flops=125e12,latency=5us': two hosts with four
 * devices each. SL_ERR_USAGE if the text is wrong. */
SL_MUST_CHECK sl_err sl_cost_machine_spec(struct sl_arena *arena, const char *spec,
                                          const struct sl_machine **out);

/* Makes the machine of the first `devices` devices (whole hosts, then a part of one). */
SL_MUST_CHECK sl_err sl_cost_machine_first(struct sl_arena *arena, const struct sl_machine *machine,
                                           int devices, const struct sl_machine **out);

/* Rates of a ring over the members of a team. */
struct sl_team_link {
    double bandwidth; /* bytes per second of each member */
    int64_t latency_ns;
    double sum_bandwidth; /* rate of all-reduces (struct sl_link); 0: a ring of messages */
    int64_t sum_latency_ns;
};

/* Makes the machine whose devices are teams of `t` equal neighbours in a host, or teams of whole
 * hosts if `t` is larger than a host (machine_teams.c). Devices that fill no team are left out.
 * SL_ERR_REFUSED: the machine has no such team. */
SL_MUST_CHECK sl_err sl_cost_machine_teams(struct sl_arena *arena, const struct sl_machine *machine,
                                           int t, const struct sl_machine **out,
                                           struct sl_team_link *inside);

/* A built-in machine; rows are in alphabetical order. */
struct sl_machine_row {
    const char *name, *brief, *text; /* text: without the first two lines */
};
extern const struct sl_machine_row sl_cost_machine_rows[];
extern const int sl_cost_machine_row_count;
/* Opens the built-in machine with this name; SL_ERR_USAGE with the nearest name if there is
 * none. */
SL_MUST_CHECK sl_err sl_cost_machine_open(struct sl_arena *arena, const char *name,
                                          const struct sl_machine **out);

/* Returns the network level that joins two hosts; -1: they are the same host. */
int sl_cost_machine_level(const struct sl_machine *machine, int host_a, int host_b);
/* Returns the link between two devices; NULL: they are the same device. */
const struct sl_link *sl_cost_machine_between(const struct sl_machine *machine, int a, int b);

/* Returns the time in ns of an all-reduce of `bytes` among n devices joined by the link. */
double sl_cost_link_sum_ns(const struct sl_link *link, int n, double bytes);

/* Returns the flops per second that large products reach on a kind of device in a format. */
double sl_cost_kind_flops(const struct sl_cost_device_kind *kind, enum sl_math math);

#endif
