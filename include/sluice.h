/* libsluice: plan, schedule, verify, simulate and train pipeline-parallel neural networks.
 *
 * Functions return sl_err. After any code but SL_OK, sl_err_message() gives the message.
 * Objects are opaque. One thread at a time uses an object. The library never calls exit().
 */
#ifndef SLUICE_H
#define SLUICE_H

#include "sluice/err.h"
#include "sluice/net.h"
#include "sluice/pipeline.h"
#include "sluice/predictor.h"
#include "sluice/samples.h"
#include "sluice/schedule.h"
#include "sluice/train.h"
#include "sluice/trainer.h"
#include "sluice/version.h"

#endif
