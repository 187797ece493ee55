/* Defaults that several kinds of requests use. */
#ifndef SL_JOB_DEFAULTS_H
#define SL_JOB_DEFAULTS_H

#define SL_JOB_OR(given, fallback) ((given) ? (given) : (fallback))

#define SL_JOB_DEVICE "cpu"
#define SL_JOB_DTYPE "fp32"
#define SL_JOB_OPTIMIZER "adamw"

enum { SL_JOB_BATCH = 64 /* samples per optimizer step, of a plan */ };

#endif
