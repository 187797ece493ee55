/* What `sluice doctor` looks at: each check adds findings; the command prints them. */
#ifndef SL_CLI_DOCTOR_H
#define SL_CLI_DOCTOR_H

#include "base/opt.h"
#include "base/vec.h"

enum sl_health { SL_HEALTH_OK, SL_HEALTH_MISSING, SL_HEALTH_FAILS };

struct sl_finding {
    const char *group, *name; /* "ranks", "mpirun" */
    enum sl_health health;
    bool needed;      /* nothing can be trained without it */
    const char *what; /* what is there, or why it is not good */
    const char *fix;  /* a command, or NULL when all is well */
};

struct sl_doctor {
    const struct sl_args *args;
    struct sl_arena *arena;
    const char *group; /* of the check that runs */
    SL_VEC(struct sl_finding) found;
};

/* Each adds one finding of the current group. */
void sl_cli_doctor_ok(struct sl_doctor *d, const char *name, const char *fmt, ...) SL_PRINTF(3, 4);
void sl_cli_doctor_bad(struct sl_doctor *d, struct sl_finding finding);

/* The checks, by group; in doctor_*.c. */
void sl_cli_doctor_machine(struct sl_doctor *d);
void sl_cli_doctor_ranks(struct sl_doctor *d);
void sl_cli_doctor_gpus(struct sl_doctor *d);
void sl_cli_doctor_tools(struct sl_doctor *d);

#endif
