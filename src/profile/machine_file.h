/* Reads a MACHINE argument: a built-in name, a file, `here`, or HOSTSxDEVICES:mem=16G,... */
#ifndef SL_PROFILE_MACHINE_FILE_H
#define SL_PROFILE_MACHINE_FILE_H

#include "cost/machine.h"

SL_MUST_CHECK sl_err sl_profile_machine_argument(struct sl_arena *arena, const char *text,
                                                 const struct sl_machine **out);
SL_MUST_CHECK sl_err sl_profile_machine_file(struct sl_arena *arena, const char *path,
                                             const struct sl_machine **out);

#endif
