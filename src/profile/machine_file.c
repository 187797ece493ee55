/* Machine descriptions: a built-in name, a file, an inline text, or this computer. */
#include "profile/machine_file.h"

#include "profile/host_info.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

sl_err sl_profile_machine_file(struct sl_arena *arena, const char *path,
                               const struct sl_machine **out) {
    char *text;
    size_t length;
    SL_TRY(sl_file_read(path, 1 << 24, &text, &length));
    sl_err err = sl_cost_machine_read(arena, path, text, length, out);
    free(text);
    return err;
}

sl_err sl_profile_machine_argument(struct sl_arena *arena, const char *text,
                                   const struct sl_machine **out) {
    size_t length = strlen(text);
    if (strcmp(text, "here") == 0)
        return sl_profile_machine_here(arena, out);
    if (length > 8 && strcmp(text + length - 8, ".machine") == 0)
        return sl_profile_machine_file(arena, text, out);
    if (isdigit((unsigned char)*text)) /* before the test for '/', because "10GB/s" contains one */
        return sl_cost_machine_spec(arena, text, out);
    if (strchr(text, '/'))
        return sl_profile_machine_file(arena, text, out);
    return sl_cost_machine_open(arena, text, out);
}
