/* What a run directory says of its run: options, model, plan, forecast. */
#ifndef SL_CLI_RUN_TEXTS_H
#define SL_CLI_RUN_TEXTS_H

#include "cli/command.h"
#include "cli/forecast.h"
#include "run/session.h"

enum { SL_RUN_TEXTS = 4 };

/* The texts of a session, and the session's pointers to them; the caller frees them when it is
 * over. */
void sl_cli_run_texts_put(struct sl_text texts[SL_RUN_TEXTS], const struct sl_args *args,
                          const struct sl_forecast *forecast, const struct sl_pipe_config *pipe,
                          struct sl_session_config *session);

#endif
