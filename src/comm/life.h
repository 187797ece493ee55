/* Signs of life: ranks that know of each other what they are at, and who is lost. */
#ifndef SL_COMM_LIFE_H
#define SL_COMM_LIFE_H

#include <stdbool.h>
#include <stdint.h>

struct sl_comm;

/* What a transport that watches over its ranks asks of whoever uses it. Its threads call. */
struct sl_comm_hooks {
    void *ctx;
    /* A rank is lost, and the error of the thread says so: add what is known. */
    void (*explain)(void *ctx, int rank);
    /* What the other ranks may see of this one: goes with every sign of life. */
    void (*state)(void *ctx, void *out);
    int64_t state_bytes;
};

void sl_comm_hook(struct sl_comm *comm, const struct sl_comm_hooks *hooks); /* NULL: none */
/* A rank that is lost is said at once by the lowest that is left: launchers may kill all soon. */
void sl_comm_say(struct sl_comm *comm, void (*say)(const char *message));
bool sl_comm_has_said(struct sl_comm *comm);
/* What another rank let us see last, and how long ago. False: nothing, or not of that size. */
bool sl_comm_look(struct sl_comm *comm, int rank, void *out, int64_t size_bytes, int64_t *age_ns);
bool sl_comm_is_lost(struct sl_comm *comm, int rank);
enum { SL_WHO_TEXT = 128 };
/* "rank 1, host a, process 4711" */
void sl_comm_who(struct sl_comm *comm, int rank, char out[SL_WHO_TEXT]);

#endif
