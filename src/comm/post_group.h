/* State of groups over tagged messages. Private to post_group*.c. */
#ifndef SL_COMM_POST_GROUP_H
#define SL_COMM_POST_GROUP_H

#include "base/arena.h"
#include "comm/ipc.h"
#include "comm/post.h"

struct group {
    struct sl_group base;
    struct sl_arena arena;
    struct sl_crew crew;   /* members of this rank */
    struct sl_ranks ranks; /* of the group, ascending */
    int leader;            /* member */
    uint64_t *tables;      /* [2][member_count][table_max] rounds alternate; local members */
    uint64_t *merged[2];   /* [table_max] */
    uint64_t *scratch;     /* [table_max] */
    int64_t *rounds;       /* [member_count] */
    /* sums */
    const float **terms; /* [term_count] */
    float *arrived;      /* [terms of other ranks][slice_max] */
    int64_t arrived_bytes;
    int64_t slice_max, sum_count;
    struct sl_adder adder;
    struct sl_transfer *ops; /* [term_count * rank_count + 2 * rank_count] */
    int op_count;
    atomic_int begun;            /* local members that have begun the current sum */
    atomic_int_least64_t posted; /* sums that all local members have begun */
    int64_t sums;                /* sums that the leader has begun */
    bool added;                  /* the leader has added the slice of its rank */
    float **outs;                /* [member_count] local members */
    struct mirror *mirrors;      /* [member_count] local members */
    struct sl_device *host;      /* adds for a leader with a mirror; else NULL */
    struct sl_device **devices;  /* [member_count] local members */
    struct sl_ipc *shared;       /* [ranks.count] memory of each rank, if `ipc` */
    bool ipc;                    /* the ranks share device memory */
};

/* Host copy of the terms and the sum of a member on a device, for messages. */
struct mirror {
    struct sl_device *device; /* NULL: it needs none */
    float *terms;             /* [own terms + 1][sum_max] terms, then the sum */
    float *out;               /* destination of the sum */
};

static inline int group_rank_of_term(const struct group *group, int term) {
    return group->base.spec.ranks[group->base.spec.terms[term]];
}

/* post_group_ipc.c. After slice_max is known: share memory among all ranks of the group, or none. */
SL_MUST_CHECK sl_err sl_comm_group_ipc_open(struct group *group, const struct sl_group_spec *spec);
void sl_comm_group_ipc_close(struct group *group);
int64_t sl_comm_group_ipc_bytes(const struct group *group, int rank); /* index */
/* Write a term of the member to all other ranks. */
SL_MUST_CHECK sl_err sl_comm_group_ipc_give(const struct group *group, int member, int term,
                                            int64_t count);
/* The current sum in the memory of a rank; write the leader's slice of it to all others. */
float *sl_comm_group_ipc_sum(const struct group *group, int rank);
SL_MUST_CHECK sl_err sl_comm_group_ipc_hand(const struct group *group, struct sl_crew_slice own);

#endif
