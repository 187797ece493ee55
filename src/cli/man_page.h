/* Manual pages (man macros) from the tables that also make the help. */
#ifndef SL_CLI_MAN_PAGE_H
#define SL_CLI_MAN_PAGE_H

#include "cli/command.h"

void sl_cli_man_overview(struct sl_text *out); /* sluice(1) */
void sl_cli_man_command(struct sl_text *out, const struct sl_command *command);

#endif
