/* Computes data parallelism in closed form (data_parallel.h). */
#include "search/data_parallel.h"

#include <math.h>

static int64_t ring_ns(const struct sl_link *link, int members, double bytes) {
    return members < 2
               ? 0
               : (int64_t)ceil(1e9 * 2 * (members - 1) / members * bytes / link->bandwidth) +
                     2 * (members - 1) * link->latency_ns;
}

int64_t sl_search_hierarchical_ns(const struct sl_machine *m, int width, double bytes) {
    int hosts = 0, most = 0, last = -1;
    for (int d = 0, here = 0; d < width; d++) {
        here = m->host_of[d] == last ? here + 1 : 1;
        hosts += m->host_of[d] != last;
        last = m->host_of[d];
        most = here > most ? here : most;
    }
    int64_t inside = most > 1 ? ring_ns(sl_cost_machine_between(m, 0, 1), most, bytes) : 0;
    int64_t between =
        hosts > 1 ? ring_ns(sl_cost_machine_between(m, 0, width - 1), hosts, bytes) : 0;
    return inside + between;
}

/* Returns the part of the reduction that the backward pass of the last micro-batch does not
 * hide. */
static int64_t exposed_ns(const struct sl_candidate_detail *detail, int64_t reduce) {
    const struct sl_candidate_stage *stage = &detail->stages[0];
    int64_t hidden = stage->i + stage->w, least = reduce / detail->problem->unit_count;
    return reduce - hidden > least ? reduce - hidden : least;
}

int sl_search_all_reduces(const struct sl_candidate_detail *detail, int64_t step_ns,
                          struct sl_search_all_reduce out[SL_SEARCH_ALL_REDUCES]) {
    const struct sl_candidate_stage *stage = &detail->stages[0];
    int width = detail->c.width[0], count = 0;
    if (detail->c.stage_count != 1 || width < 2)
        return 0;
    for (int hierarchical = 0; hierarchical < 2; hierarchical++)
        for (int overlapped = 0; overlapped < 2; overlapped++) {
            int64_t reduce = hierarchical
                                 ? sl_search_hierarchical_ns(detail->problem->machine, width,
                                                             (double)stage->bytes.params)
                                 : stage->reduce;
            int64_t exposed = overlapped ? exposed_ns(detail, reduce) : reduce;
            out[count++] =
                (struct sl_search_all_reduce){.name = hierarchical ? "hierarchical" : "ring",
                                              .overlapped = overlapped,
                                              .reduce_ns = reduce,
                                              .step_ns = step_ns - stage->reduce + exposed};
        }
    return count;
}
