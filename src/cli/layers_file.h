/* Files of other planners, as the commands import and plan open them. */
#ifndef SL_CLI_LAYERS_FILE_H
#define SL_CLI_LAYERS_FILE_H

#include "interop/importer.h"

/* `format` NULL: whatever the file looks like. */
SL_MUST_CHECK sl_err sl_cli_layers_open(struct sl_arena *arena, const char *path,
                                        const char *format, const struct sl_layers **out);

#endif
