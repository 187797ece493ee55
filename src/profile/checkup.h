/* A checkup finds out what this host has for training and building, and what is missing.
 *
 * Each check appends findings. Some checks start other programs. */
#ifndef SL_PROFILE_CHECKUP_H
#define SL_PROFILE_CHECKUP_H

#include "base/text.h"
#include "base/vec.h"

enum sl_health { SL_HEALTH_OK, SL_HEALTH_MISSING, SL_HEALTH_FAILS };

struct sl_finding {
    const char *group, *name; /* "ranks", "mpirun" */
    enum sl_health health;
    bool needed;      /* training is impossible without it */
    const char *what; /* the fact, or the problem */
    const char *fix;  /* a command to try; NULL if all is well */
};

struct sl_checkup {
    struct sl_arena *arena; /* arena for the texts of the findings */
    const char *path;       /* directories of programs, with the syntax of PATH */
    bool quick;             /* do not start other programs */
    int model_count;        /* number of models that the command finds by name */
    const char *group;      /* group of the current check */
    SL_VEC(struct sl_finding) found;
};

/* Append one finding of the current group. */
void sl_profile_checkup_ok(struct sl_checkup *c, const char *name, const char *fmt, ...)
    SL_PRINTF(3, 4);
void sl_profile_checkup_bad(struct sl_checkup *c, struct sl_finding finding);

/* checkup.c: runs all checks. The caller frees `found`. */
void sl_profile_checkup_run(struct sl_checkup *c);
/* Returns the number of findings that are not ok: of those that are needed, or of the others. */
int sl_profile_checkup_bad_count(const struct sl_checkup *c, bool needed);
/* Append the findings as text, or as JSON. */
void sl_profile_checkup_put(const struct sl_checkup *c, bool colour, struct sl_text *text);
void sl_profile_checkup_json(const struct sl_checkup *c, struct sl_text *text);

/* The checks, by group. */
void sl_profile_checkup_machine(struct sl_checkup *c); /* checks cores, memory, files, clock */
/* Checks transports: two ranks train one step. */
void sl_profile_checkup_ranks(struct sl_checkup *c);
void sl_profile_checkup_gpus(struct sl_checkup *c);
/* Checks compilers and libraries that build Sluice. */
void sl_profile_checkup_tools(struct sl_checkup *c);

#endif
