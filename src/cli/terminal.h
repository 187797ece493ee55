/* Standard output: whether it is a terminal, its width and colours. Also the endings of file
 * names. */
#ifndef SL_CLI_TERMINAL_H
#define SL_CLI_TERMINAL_H

#include <stdbool.h>

bool sl_cli_ends(const char *path, const char *ending);

/* Is standard output a terminal that shows colours (TERM, NO_COLOR)? */
bool sl_cli_colour(void);
int sl_cli_columns(void); /* width of the terminal; 120 if it is none */

#endif
