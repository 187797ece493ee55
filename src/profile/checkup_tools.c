/* Checks the compilers, libraries and tools that build, test and lint Sluice. They are the rows
 * of requirements.txt, which ./dev reads too. */
#include "base/spawn.h"
#include "profile/checkup.h"

#include <string.h>

extern const unsigned char sl_asset_requirements_txt[];
extern const size_t sl_asset_requirements_txt_size;

enum { GROUP, KIND, NAME, PACKAGES, WHY, CELLS, TIMEOUT_S = 20 };

/* Does the compiler find the header of a library such as "lib:xxhash.h:xxhash"? */
static bool has_header(struct sl_arena *arena, const char *name) {
    const char *header = sl_arena_dup(arena, name + 4, strcspn(name + 4, ":"));
    const char *argv[] = {"cc",       "-fsyntax-only", "-xc",      "-include",  "stdarg.h",
                          "-include", "stddef.h",      "-include", "stdint.h",  "-include",
                          "setjmp.h", "-include",      header,     "/dev/null", NULL};
    struct sl_text output = {0};
    int status = sl_capture(argv, TIMEOUT_S, &output);
    sl_text_free(&output);
    return status == 0;
}

/* Does clang have libFuzzer? It has no header to look for. */
static bool has_libfuzzer(void) {
    const char *argv[] = {"clang", "-fsanitize=fuzzer", "-xc", "/dev/null", "-shared",
                          "-o",    "/dev/null",         NULL};
    struct sl_text output = {0};
    int status = sl_capture(argv, TIMEOUT_S, &output);
    sl_text_free(&output);
    return status == 0;
}

static bool has(const struct sl_checkup *c, const char *name) {
    if (strncmp(name, "lib:", 4) == 0)
        return has_header(c->arena, name);
    return strcmp(name, "libfuzzer") == 0 ? has_libfuzzer() : sl_capture_finds(name, c->path);
}

static const char *shown(struct sl_arena *arena, const char *name) {
    if (strncmp(name, "lib:", 4) != 0)
        return name;
    return sl_arena_dup(arena, name + 4, strcspn(name + 4, ":"));
}

static bool seen(const struct sl_checkup *c, const char *name) {
    for (int64_t i = 0; i < c->found.count; i++)
        if (strcmp(c->found.at[i].group, c->group) == 0 && strcmp(c->found.at[i].name, name) == 0)
            return true;
    return false;
}

static void check(struct sl_checkup *c, char *const cell[CELLS]) {
    const char *name = shown(c->arena, cell[NAME]);
    if (seen(c, name))
        return;
    if (has(c, cell[NAME]))
        sl_profile_checkup_ok(c, name, "%s: %s", cell[GROUP], cell[WHY]);
    else
        sl_profile_checkup_bad(
            c, (struct sl_finding){
                   .name = name,
                   .health = SL_HEALTH_MISSING,
                   .what = sl_arena_printf(c->arena, "%s: %s", cell[GROUP], cell[WHY]),
                   .fix = sl_arena_printf(c->arena, "apt-get install %s", cell[PACKAGES])});
}

void sl_profile_checkup_tools(struct sl_checkup *c) {
    char *text = sl_arena_dup(c->arena, (const char *)sl_asset_requirements_txt,
                              sl_asset_requirements_txt_size);
    if (c->quick)
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
            check(c, cell);
    }
}
