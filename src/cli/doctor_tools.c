/* doctor: compilers, libraries and tools that build, test and lint Sluice: the rows of
 * requirements.txt, which ./dev reads too. */
#include "cli/capture.h"
#include "cli/doctor.h"

#include <string.h>

extern const unsigned char sl_asset_requirements_txt[];
extern const size_t sl_asset_requirements_txt_size;

enum { GROUP, KIND, NAME, PACKAGES, WHY, CELLS, PATIENCE_S = 20 };

/* lib:xxhash.h:xxhash: does the compiler find the header? */
static bool has_header(struct sl_arena *arena, const char *name) {
    const char *header = sl_arena_dup(arena, name + 4, strcspn(name + 4, ":"));
    const char *argv[] = {"cc",       "-fsyntax-only", "-xc",      "-include",  "stdarg.h",
                          "-include", "stddef.h",      "-include", "stdint.h",  "-include",
                          "setjmp.h", "-include",      header,     "/dev/null", NULL};
    struct sl_text said = {0};
    int status = sl_cli_capture(argv, PATIENCE_S, &said);
    sl_text_free(&said);
    return status == 0;
}

/* A library of clang's own, which has no header. */
static bool has_libfuzzer(void) {
    const char *argv[] = {"clang", "-fsanitize=fuzzer", "-xc", "/dev/null", "-shared",
                          "-o",    "/dev/null",         NULL};
    struct sl_text said = {0};
    int status = sl_cli_capture(argv, PATIENCE_S, &said);
    sl_text_free(&said);
    return status == 0;
}

static bool has(struct sl_arena *arena, const char *name) {
    if (strncmp(name, "lib:", 4) == 0)
        return has_header(arena, name);
    return strcmp(name, "libfuzzer") == 0 ? has_libfuzzer() : sl_cli_capture_finds(name);
}

static const char *shown(struct sl_arena *arena, const char *name) {
    if (strncmp(name, "lib:", 4) != 0)
        return name;
    return sl_arena_dup(arena, name + 4, strcspn(name + 4, ":"));
}

static bool seen(const struct sl_doctor *d, const char *name) {
    for (int64_t i = 0; i < d->found.count; i++)
        if (strcmp(d->found.at[i].group, d->group) == 0 && strcmp(d->found.at[i].name, name) == 0)
            return true;
    return false;
}

static void look(struct sl_doctor *d, char *const cell[CELLS]) {
    const char *name = shown(d->arena, cell[NAME]);
    if (seen(d, name))
        return;
    if (has(d->arena, cell[NAME]))
        sl_cli_doctor_ok(d, name, "%s: %s", cell[GROUP], cell[WHY]);
    else
        sl_cli_doctor_bad(
            d, (struct sl_finding){
                   .name = name,
                   .health = SL_HEALTH_MISSING,
                   .what = sl_arena_printf(d->arena, "%s: %s", cell[GROUP], cell[WHY]),
                   .fix = sl_arena_printf(d->arena, "apt-get install %s", cell[PACKAGES])});
}

void sl_cli_doctor_tools(struct sl_doctor *d) {
    char *text = sl_arena_dup(d->arena, (const char *)sl_asset_requirements_txt,
                              sl_asset_requirements_txt_size);
    if (sl_args_has(d->args, "--quick"))
        return;
    for (char *line = text, *next; *line; line = next) {
        char *cell[CELLS] = {0};
        size_t length = strcspn(line, "\n");
        next = line + length + (line[length] == '\n');
        line[length] = 0;
        int count = 0;
        for (char *at = line; at && *line != '#' && count < CELLS; count++) {
            cell[count] = at;
            at = strchr(at, '|');
            if (at)
                *at++ = 0;
        }
        if (count == CELLS)
            look(d, cell);
    }
}
