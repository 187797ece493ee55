/* State of groups over tagged messages. Private to post_group*.c. */
#ifndef SL_COMM_POST_GROUP_H
#define SL_COMM_POST_GROUP_H

#include "base/arena.h"
#include "comm/ipc.h"
#include "comm/post.h"

struct group {
    struct sl_group base;
    struct sl_arena arena;
    struct sl_crew crew;   /* the members in this rank */
    struct sl_ranks ranks; /* the ranks of the group, ascending */
    int leader;            /* member that leads the crew */
    uint64_t *tables; /* [2][member_count][table_max] tables of local members; rounds alternate */
    uint64_t *merged[2]; /* [table_max] merged tables; rounds alternate */
    uint64_t *scratch;   /* [table_max] */
    int64_t *rounds;     /* [member_count] merges so far */
    /* fields for sums: */
    const float **terms; /* [term_count] base of each term */
    float *arrived;      /* [terms of other ranks][slice_max] their slices that this rank adds */
    int64_t arrived_bytes;
    int64_t slice_max, sum_count;
    struct sl_adder adder;
    struct sl_transfer *ops; /* [term_count * rank_count + 2 * rank_count] */
    int op_count;
    atomic_int begun;            /* number of local members that have begun the current sum */
    atomic_int_least64_t posted; /* number of sums that all local members have begun */
    int64_t sums;                /* number of sums that the leader has begun */
    bool added;                  /* the leader has added the slice of its rank */
    float **outs;                /* [member_count] results of local members */
    struct mirror *mirrors;      /* [member_count] mirrors of local members */
    struct sl_device *host;      /* the host, which adds for a leader with a mirror; else NULL */
    struct sl_device **devices;  /* [member_count] devices of local members */
    struct sl_ipc *shared;       /* [ranks.count] memory of each rank, if `ipc` */
    bool ipc;                    /* the ranks share device memory */
};

/* Host copies of the terms and the sum of a member on a device, for messages. */
struct mirror {
    struct sl_device *device; /* NULL: the member needs no mirror */
    float *terms;             /* [own terms + 1][sum_max] its terms, then the sum */
    float *out;               /* where the member wants the sum */
};

static inline int group_rank_of_term(const struct group *group, int term) {
    return group->base.spec.ranks[group->base.spec.terms[term]];
}

/* post_group_ipc.c. Called when slice_max is known: shares memory among all ranks of the group, or
 * among none. */
SL_MUST_CHECK sl_err sl_comm_group_ipc_open(struct group *group, const struct sl_group_spec *spec);
void sl_comm_group_ipc_close(struct group *group);
/* `rank` is an index in group->ranks */
int64_t sl_comm_group_ipc_bytes(const struct group *group, int rank);
/* Writes a term of the member to all other ranks. */
SL_MUST_CHECK sl_err sl_comm_group_ipc_give(const struct group *group, int member, int term,
                                            int64_t count);
/* sum: the current sum in the memory of a rank. hand: writes the leader's slice of it to all
 * others. */
float *sl_comm_group_ipc_sum(const struct group *group, int rank);
SL_MUST_CHECK sl_err sl_comm_group_ipc_hand(const struct group *group, struct sl_crew_slice own);

#endif
