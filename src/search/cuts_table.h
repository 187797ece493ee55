/* What a bottleneck search knows of its downsets: sums, borders, and whether a stage between two of
 * them fits within a limit of time and memory. Inside of cuts.c. */
#ifndef SL_SEARCH_CUTS_TABLE_H
#define SL_SEARCH_CUTS_TABLE_H

#include "search/cuts.h"

struct sl_cut_sums { /* of all units of a downset */
    int64_t f, b, step;
    double params, fixed, stash;
};

struct sl_cut_table {
    const struct sl_problem *p;
    const struct sl_family *family;
    const struct sl_cut_rules *rules;
    struct sl_cut_sums **sums; /* [kind][ideal] */
    int64_t micros, size;
    int64_t limit; /* of this sweep, ns */
    double memory_least;
    struct sl_search_memory_rule rule;
};

void sl_search_cut_table_build(struct sl_arena *arena, const struct sl_problem *problem,
                               const struct sl_family *family, const struct sl_cut_rules *rules,
                               struct sl_cut_table *out);

/* The device at a position; the last stage is at position 0. */
int sl_search_cut_device(const struct sl_cut_table *table, int position);
/* Scratch of the widest unit of the stage larger \ smaller, per sample. */
double sl_search_cut_work(const struct sl_cut_table *table, int larger, int smaller);
/* Does the stage read the tensor? */
bool sl_search_cut_reads(const struct sl_cut_table *table, const struct sl_tensor *tensor,
                         int larger, int smaller);
/* Bytes that enter and leave it. */
void sl_search_cut_border(const struct sl_cut_table *table, int larger, int smaller,
                          struct sl_cut_stage *out);
/* The smallest width within time and memory, or 0; its devices begin at position `first`, and the
 * stages behind it have window `behind`. */
int sl_search_cut_width(const struct sl_cut_table *table, int larger, int smaller, int first,
                        int behind, struct sl_cut_stage *stage);
/* Devices that larger \ smaller takes at least within the limit, in however many stages. */
int sl_search_cut_needs(const struct sl_cut_table *table, int larger, int smaller);
/* Is it too slow on any number of devices? */
bool sl_search_cut_hopeless(const struct sl_cut_table *table, int larger, int smaller);

#endif
