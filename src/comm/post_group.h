/* What groups over tagged messages are made of. Private to post_group*.c. */
#ifndef SL_COMM_POST_GROUP_H
#define SL_COMM_POST_GROUP_H

#include "base/arena.h"
#include "comm/ipc.h"
#include "comm/post.h"

struct group {
    struct sl_group base;
    struct sl_arena arena;
    struct sl_crew crew;   /* members here */
    struct sl_ranks ranks; /* of the group, ascending */
    int leader;            /* member */
    uint64_t *tables;      /* [2][member_count][table_most] rounds take turns; of members here */
    uint64_t *merged[2];   /* [table_most] */
    uint64_t *scratch;     /* [table_most] */
    int64_t *rounds;       /* [member_count] */
    /* sums */
    const float **terms; /* [term_count] */
    float *arrived;      /* [terms of other ranks][slice_most] */
    int64_t arrived_bytes;
    int64_t slice_max, sum_count;
    struct sl_adder adder;
    struct sl_transfer *ops; /* [term_count * rank_count + 2 * rank_count] */
    int op_count;
    atomic_int begun;            /* members here that have begun the sum at hand */
    atomic_int_least64_t posted; /* sums that all members here have begun */
    int64_t sums;                /* that the leader has begun */
    bool added;                  /* by the leader: its rank's slice */
    float **outs;                /* [member_count] of members here */
    struct mirror *mirrors;      /* [member_count] of members here */
    struct sl_device *host;      /* adds for a leader that has a mirror; else NULL */
    struct sl_device **devices;  /* [member_count] of members here */
    struct sl_ipc *nears;        /* [ranks.count] each one's memory, where ranks share it */
    bool ipc;                    /* they do */
};

/* The memory of a member whose device is apart, on the host: messages are made of that. */
struct mirror {
    struct sl_device *device; /* NULL: it needs none */
    float *terms;             /* [own terms][sum_most], and behind them what its sum becomes */
    float *out;               /* where the sum goes; with near, too */
};

static inline int group_rank_of_term(const struct group *group, int term) {
    return group->base.spec.ranks[group->base.spec.terms[term]];
}

/* post_group_near.c. After slice_most is known: ask all ranks of the group to share; all or none.
 */
SL_MUST_CHECK sl_err sl_comm_group_ipc_open(struct group *group, const struct sl_group_spec *spec);
void sl_comm_group_ipc_close(struct group *group);
int64_t sl_comm_group_ipc_bytes(const struct group *group, int rank); /* index */
/* One of its own terms to all other ranks; on the member's device. */
SL_MUST_CHECK sl_err sl_comm_group_ipc_give(const struct group *group, int member, int term,
                                            int64_t count);
/* Where the sum at hand comes together in a rank; the leader's part of it to all others. */
float *sl_comm_group_ipc_sum(const struct group *group, int rank);
SL_MUST_CHECK sl_err sl_comm_group_ipc_hand(const struct group *group, struct sl_crew_slice own);

#endif
