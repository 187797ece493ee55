/* The structs behind the handles of the public interface, and the set of open handles. A handle
 * that is NULL, closed or of another kind gives an error, never a crash. */
#ifndef SL_API_HANDLES_H
#define SL_API_HANDLES_H

#include "graph/model.h"
#include "report/picture.h"
#include "sim/sim.h"

enum sl_api_kind { SL_API_IS_NET, SL_API_IS_PIPELINE, SL_API_IS_TRAINER, SL_API_IS_PREDICTOR };

/* Makes a zeroed handle and adds it to the set. Any thread may call it. */
void *sl_api_handle_new(enum sl_api_kind kind, size_t size_bytes);
/* SL_ERR_USAGE: the handle is NULL, or not in the set with this kind. */
SL_MUST_CHECK sl_err sl_api_check(const void *handle, enum sl_api_kind kind, const char *function);
/* Removes the handle from the set. False: it is not in it; an error is recorded unless it is
 * NULL. */
bool sl_api_handle_end(const void *handle, enum sl_api_kind kind, const char *function);
SL_MUST_CHECK sl_err sl_api_given(const void *argument, const char *name, const char *function);

/* The first lines of public functions. */
#define SL_API_OPEN(handle, kind) SL_TRY(sl_api_check((handle), (kind), __func__))
#define SL_API_GIVEN(argument) SL_TRY(sl_api_given((argument), #argument, __func__))

struct sl_net {
    struct sl_graph *graph;
    const char *scope;
    struct sl_text text; /* result of the last sl_net_print */
    char shape[SL_SHAPE_TEXT];
};

struct sl_pipeline {
    struct sl_arena arena;
    const struct sl_plan *plan;
    struct sl_sched *read;                  /* schedule of a file; NULL: none */
    const struct sl_sched *sched;           /* verified schedule; NULL: not made yet */
    const int64_t (*dur_ns)[SL_KIND_COUNT]; /* [stage]; NULL: those of the schedule */
    const struct sl_sim *sim;
    struct sl_text text; /* result of the last sl_pipeline_text */
};

#endif
