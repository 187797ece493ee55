/* A checkup: what this host has for training and building, and what is missing.
 *
 * Each check appends findings; the caller prints them. Some checks start other programs.
 */
#ifndef SL_PROFILE_CHECKUP_H
#define SL_PROFILE_CHECKUP_H

#include "base/text.h"
#include "base/vec.h"

enum sl_health { SL_HEALTH_OK, SL_HEALTH_MISSING, SL_HEALTH_FAILS };

struct sl_finding {
    const char *group, *name; /* "ranks", "mpirun" */
    enum sl_health health;
    bool needed;      /* no training without it */
    const char *what; /* the fact, or the problem */
    const char *fix;  /* a command to try; NULL if all is well */
};

struct sl_checkup {
    struct sl_arena *arena; /* of the findings' texts */
    const char *path;       /* directories of programs, as in PATH */
    bool quick;             /* start no other program */
    const char *group;      /* of the current check */
    SL_VEC(struct sl_finding) found;
};

/* Append one finding of the current group. */
void sl_profile_checkup_ok(struct sl_checkup *c, const char *name, const char *fmt, ...)
    SL_PRINTF(3, 4);
void sl_profile_checkup_bad(struct sl_checkup *c, struct sl_finding finding);

/* The checks, by group. */
void sl_profile_checkup_machine(struct sl_checkup *c); /* cores, memory, files, clock */
void sl_profile_checkup_ranks(struct sl_checkup *c);   /* transports; two ranks train one step */
void sl_profile_checkup_gpus(struct sl_checkup *c);
void sl_profile_checkup_tools(struct sl_checkup *c); /* compilers and libraries to build Sluice */

#endif
