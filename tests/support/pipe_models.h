/* Small models that the pipeline tests cut up: two chains, three graphs of stages. */
#ifndef SL_TEST_PIPE_MODELS_H
#define SL_TEST_PIPE_MODELS_H

extern const char pipe_model_gpt[], pipe_model_image[], pipe_model_branches[], pipe_model_diamond[],
    pipe_model_bare[];

#endif
