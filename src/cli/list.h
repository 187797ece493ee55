/* Kinds of `sluice list KIND`: a row per kind in cmd_list.c, with a function that lists it. */
#ifndef SL_CLI_LIST_H
#define SL_CLI_LIST_H

#include "base/opt.h"
#include "base/vec.h"

struct sl_list_row {
    const char *name, *detail, *brief; /* detail may be NULL */
};

struct sl_listing {
    struct sl_arena arena; /* of the texts of the rows */
    SL_VEC(struct sl_list_row) rows;
};

struct sl_list_kind {
    const char *name;   /* "ops" */
    const char *brief;  /* "ops that models are made of" */
    const char *detail; /* heading of the middle column, NULL: none */
    sl_err (*fill)(const struct sl_args *args, struct sl_listing *list);
};

extern const struct sl_list_kind sl_cli_list_kinds[]; /* alphabetical; ends with {0} */

#endif
