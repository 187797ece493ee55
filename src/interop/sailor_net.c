/* Computes bandwidth between GPUs from the polynomials in the files of Sailor. */
#include "interop/sailor.h"

#include <math.h>
#include <string.h>

static bool is_or_any(const char *name, const char *wanted) {
    return !name || (wanted && strcmp(name, wanted) == 0);
}

static double bandwidth_of(const struct sl_sailor_link *link, double bytes) {
    double x = log2(bytes / 1e6), value = 0;
    for (int i = 0; i < link->terms; i++)
        value = value * x + link->c[i];
    value *= 1e9;
    double low = link->limit * 1e-3;
    return value > link->limit ? link->limit : value > low ? value : low;
}

/* Returns the rate out of `from`; 0: the files do not have it. Uses the row with the most senders,
 * up to `senders`. */
static double rate_of(const struct sl_sailor *s, const struct sl_sailor_replica *from,
                      const struct sl_sailor_replica *to, int senders, double bytes) {
    const struct sl_sailor_link *best = NULL;
    for (int g = 0; g < to->gpu_count; g++)
        for (int64_t i = 0; i < s->links.count; i++) {
            const struct sl_sailor_link *l = &s->links.at[i];
            if (strcmp(l->from, from->gpus[0]) != 0 || !is_or_any(l->to, to->gpus[g]) ||
                !is_or_any(l->from_zone, from->zone) || !is_or_any(l->to_zone, to->zone))
                continue;
            if (!best || (l->senders <= senders && l->senders > best->senders) ||
                (best->senders > senders && l->senders < best->senders))
                best = l;
        }
    return best ? bandwidth_of(best, bytes) : 0;
}

double sl_interop_sailor_bandwidth(const struct sl_sailor *s, const struct sl_sailor_replica *from,
                                   const struct sl_sailor_replica *to, int senders, double bytes) {
    double out = rate_of(s, from, to, senders, bytes), in = rate_of(s, to, from, senders, bytes);
    return out < in ? out : in;
}
