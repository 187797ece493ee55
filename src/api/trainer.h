/* The struct behind a trainer. Private to api/trainer*.c and predictor.c. */
#ifndef SL_API_TRAINER_H
#define SL_API_TRAINER_H

#include "api/handles.h"
#include "api/samples.h"
#include "job/train.h"
#include "sluice/trainer.h"

#include <pthread.h>

enum sl_trainer_state { SL_TRAINER_NEW, SL_TRAINER_OPEN, SL_TRAINER_FAILED };

struct sl_trainer {
    enum sl_trainer_state state;
    struct sl_job job; /* the job as the caller has set it */
    struct sl_arena arena;
    const char *model_dirs[2];
    const char *model_text;     /* text of a net; NULL: none */
    const struct sl_plan *plan; /* plan of a pipeline; NULL: none */
    bool has_samples;
    struct sl_api_samples samples;
    bool uses_mpi;
    const void *communicator;
    struct sl_comm *comm;

    sl_on_event on_event;
    void *event_ctx;
    sl_on_gradient on_gradient;
    void *gradient_ctx;
    struct sl_grad_watch grads;
    bool keeps_gradients;
    pthread_mutex_t mutex; /* protects the kept gradients */
    const char **grad_names;
    float **gradients; /* [graph params] copies of the last step's gradients; NULL: not kept */
    bool has_step;     /* a step has run, so the copies have values */

    struct sl_job_work work;
    struct sl_job_outcome outcome;
    struct sl_job_watch watch;
    struct sl_job_training *training;
    atomic_int stop;
    struct sl_text text; /* result of the last get or report */
};

SL_MUST_CHECK sl_err sl_api_trainer_check(const struct sl_trainer *trainer,
                                          enum sl_trainer_state state, const char *function);
#define SL_API_TRAINER(trainer, state) SL_TRY(sl_api_trainer_check((trainer), (state), __func__))

/* trainer_tensors.c */
SL_MUST_CHECK sl_err sl_api_gradients_open(struct sl_trainer *trainer);
void sl_api_gradients_close(struct sl_trainer *trainer);
SL_MUST_CHECK sl_err sl_api_gradient_see(void *trainer, const struct sl_param *param,
                                         float *gradient, int64_t count);
/* trainer_ranks.c */
SL_MUST_CHECK sl_err sl_api_ranks_open(struct sl_trainer *trainer);
SL_MUST_CHECK sl_err sl_api_ranks_close(struct sl_trainer *trainer);

#endif
