/* A schedule as a module: a shared library with a generator, loaded by `--schedule-module X.so`.
 *
 *     const struct sl_schedule_module sluice_schedule = {SL_SCHEDULE_MODULE, sizeof sluice_schedule,
 *                                                        "mine", "what it is", generate};
 *
 * The generator calls `put` for each pass of one iteration. A worker runs its passes in the order
 * of these calls. Sluice adds the messages and steps, and verifies the result before it runs. The
 * module needs this header only, not the library.
 */
#ifndef SLUICE_SCHEDULE_H
#define SLUICE_SCHEDULE_H

#ifdef __cplusplus
extern "C" {
#endif

enum { SL_SCHEDULE_MODULE = 1 }; /* version of these structs */

/* A chain of stages: stage 0 reads the data, stage s sends to stage s + 1. */
struct sl_schedule_task {
    int stages, workers, micro_batches;
    const int *worker_of; /* [stages]: worker of each stage; stage s is on worker s mod workers */
    /* Puts a pass at the end of the worker's list. The pass is 'F' forward, 'B' whole backward, or
     * one half of it: 'I' (gradient of the inputs) or 'W' (gradient of the weights). */
    void (*put)(const struct sl_schedule_task *task, char pass, int stage, int micro_batch);
    void *own; /* data of Sluice; the module does not use it */
};

struct sl_schedule_module {
    int version; /* SL_SCHEDULE_MODULE */
    int size;    /* sizeof(struct sl_schedule_module) */
    const char *name, *brief;
    /* Puts all passes. Returns NULL, or a text that says why this task is impossible. */
    const char *(*generate)(const struct sl_schedule_task *task);
};

#ifdef __cplusplus
}
#endif

#endif
