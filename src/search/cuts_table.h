/* Sums of downsets for the bottleneck search: time, memory and traffic of the stage between two
 * downsets. Private to cuts*.c. */
#ifndef SL_SEARCH_CUTS_TABLE_H
#define SL_SEARCH_CUTS_TABLE_H

#include "search/cuts.h"

struct sl_cut_sums { /* sums over all units of a downset */
    int64_t f, b, step;
    double params, fixed, stash;
};

struct sl_cut_table {
    const struct sl_problem *p;
    const struct sl_search_downsets *downsets;
    const struct sl_cut_rules *rules;
    struct sl_cut_sums **sums; /* [kind][downset] */
    int64_t micros, size;
    int64_t limit;       /* limit of this sweep, in ns */
    double memory_least; /* bytes of the largest device */
    struct sl_search_memory_rule rule;
};

void sl_search_cut_table_build(struct sl_arena *arena, const struct sl_problem *problem,
                               const struct sl_search_downsets *downsets,
                               const struct sl_cut_rules *rules, struct sl_cut_table *out);

/* Returns the device at a position; the last stage begins at position 0. */
int sl_search_cut_device(const struct sl_cut_table *table, int position);
/* Returns the largest workspace of a unit in the stage larger \ smaller, in bytes per sample. */
double sl_search_cut_work(const struct sl_cut_table *table, int larger, int smaller);
/* Does the stage larger \ smaller read the tensor? */
bool sl_search_cut_reads(const struct sl_cut_table *table, const struct sl_search_tensor *tensor,
                         int larger, int smaller);
/* Sets out->in and out->out: bytes per sample that enter and leave the stage. */
void sl_search_cut_border(const struct sl_cut_table *table, int larger, int smaller,
                          struct sl_cut_stage *out);
/* Returns the smallest width within time and memory, or 0. The devices of the stage begin at
 * position `first`; `behind` is the largest window of its readers. */
int sl_search_cut_width(const struct sl_cut_table *table, int larger, int smaller, int first,
                        int behind, struct sl_cut_stage *stage);
/* Returns a lower bound on the devices for larger \ smaller within the limit, in any number of
 * stages. */
int sl_search_cut_min_devices(const struct sl_cut_table *table, int larger, int smaller);
/* Does a single stage larger \ smaller exceed the limit on any number of devices? */
bool sl_search_cut_is_too_slow(const struct sl_cut_table *table, int larger, int smaller);

#endif
