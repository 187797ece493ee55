/* Heartbeats: by them ranks know the state of each other, and which ranks are lost. */
#ifndef SL_COMM_LIFE_H
#define SL_COMM_LIFE_H

#include <stdbool.h>
#include <stdint.h>

struct sl_comm;

/* Callbacks of a transport with heartbeats, called by its threads. */
struct sl_comm_hooks {
    void *ctx;
    /* Adds details to the thread's error, which says that a rank is lost. */
    void (*explain)(void *ctx, int rank);
    /* Writes the state of this rank, which every heartbeat carries. */
    void (*state)(void *ctx, void *out);
    int64_t state_bytes;
};

void sl_comm_hook(struct sl_comm *comm, const struct sl_comm_hooks *hooks); /* hooks may be NULL */
/* Sets `say`: the lowest remaining rank reports a lost rank with it at once, before a launcher
 * kills the job. */
void sl_comm_say(struct sl_comm *comm, void (*say)(const char *message));
bool sl_comm_has_said(struct sl_comm *comm);
/* Reads the last state of another rank and its age. False: none has come, or it has another
 * size. */
bool sl_comm_look(struct sl_comm *comm, int rank, void *out, int64_t size_bytes, int64_t *age_ns);
bool sl_comm_is_lost(struct sl_comm *comm, int rank);
enum { SL_WHO_TEXT = 128 };
/* Writes "rank 1, host a, process 4711". */
void sl_comm_who(struct sl_comm *comm, int rank, char out[SL_WHO_TEXT]);

#endif
