/* sluice report: timelines as one self-contained page, or as a picture; the page of a run. */
#include "base/json.h"
#include "base/vec.h"
#include "cli/command.h"
#include "cli/sched_args.h"
#include "cli/sim_args.h"
#include "report/curves.h"

/* ---- a run directory ---- */

static sl_err take_facts(struct sl_json_in *json, struct sl_arena *arena,
                         struct sl_run_page *page) {
    enum { FACTS_MOST = 64 };
    const char *(*facts)[2] = sl_arena_alloc(arena, (int64_t)sizeof *facts * FACTS_MOST);
    page->facts = (const char *const(*)[2])facts;
    SL_TRY(sl_json_take(json, SL_JSON_OBJECT));
    for (;;) {
        SL_TRY(sl_json_next(json));
        if (json->event == SL_JSON_OBJECT_END)
            return SL_OK;
        const char *name = sl_json_unescape(json, arena);
        SL_TRY(sl_json_next(json));
        bool plain = json->event == SL_JSON_STRING || json->event == SL_JSON_NUMBER;
        if (plain && json->string.length && page->fact_count < FACTS_MOST) {
            facts[page->fact_count][0] = name;
            facts[page->fact_count++][1] = sl_json_unescape(json, arena);
        }
        SL_TRY(sl_json_skip(json));
    }
}

/* RUN/name as a whole; the text lives in the arena. */
static sl_err read_of_run(struct sl_arena *arena, const char *run, const char *name,
                          const char **path, struct sl_str *out) {
    char *text;
    size_t length;
    *path = sl_arena_printf(arena, "%s/%s", run, name);
    SL_TRY(sl_file_read(*path, (int64_t)1 << 32, &text, &length));
    *out = (struct sl_str){sl_arena_dup(arena, text, length), length};
    free(text);
    return SL_OK;
}

static sl_err draw_run(const struct sl_args *args, struct sl_arena *arena) {
    struct sl_run_page page = {.title = args->positional[0]};
    struct sl_json_in json;
    struct sl_str log, config;
    struct sl_text text = {0};
    const char *path, *to;
    for (int i = 0; (to = sl_args_nth(args, "-o", i)); i++)
        if (!sl_cli_ends(to, ".html"))
            return sl_fail(SL_ERR_USAGE, "%s: a run is drawn as a page, X.html", to);
    SL_TRY(read_of_run(arena, page.title, "config.json", &path, &config));
    sl_json_read(&json, path, config.at, config.length);
    SL_TRY(take_facts(&json, arena, &page));
    SL_TRY(read_of_run(arena, page.title, "log.jsonl", &path, &log));
    SL_TRY(sl_record_read(arena, path, log.at, log.length, &page.record));
    sl_run_page_put(&page, &text);
    sl_err err = SL_OK;
    for (int i = 0; err == SL_OK && (to = sl_args_nth(args, "-o", i)); i++)
        err = sl_file_write(to, text.at, text.length);
    sl_text_free(&text);
    return err;
}

static bool is_run(struct sl_arena *arena, const char *path) {
    return sl_file_exists(sl_arena_printf(arena, "%s/log.jsonl", path));
}

/* ---- timelines ---- */

static sl_err add(const struct sl_args *args, const char *path, const char *schedule,
                  struct sl_arena *arena, struct sl_picture *out) {
    struct sl_cli_sim s = {.has_picture = true};
    if (path && sl_cli_ends(path, ".json"))
        return sl_cli_trace(path, arena, out);
    SL_TRY(sl_cli_simulate(args, path, schedule, arena, &s));
    *out = s.picture;
    return SL_OK;
}

static sl_err run_in(const struct sl_args *args, struct sl_arena *arena) {
    struct sl_picture pictures[SL_REPORT_MOST];
    const char *against = sl_args_text(args, "--against", NULL), *to;
    int count = 0, files = args->positional_count;
    if (!sl_args_has(args, "-o"))
        return sl_fail(SL_ERR_USAGE, "report: where to? -o X.html (or .svg, .trace.json, .txt)");
    if (against && files > 1)
        return sl_fail(SL_ERR_USAGE, "report: --against or a second file, not both");
    if (files == 1 && !against && is_run(arena, args->positional[0]))
        return draw_run(args, arena);
    for (int i = 0; i < (files ? files : 1); i++)
        SL_TRY(add(args, files ? args->positional[i] : NULL, NULL, arena, &pictures[count++]));
    if (against)
        SL_TRY(add(args, files ? args->positional[0] : NULL, against, arena, &pictures[count++]));
    for (int i = 0; (to = sl_args_nth(args, "-o", i)); i++)
        SL_TRY(sl_cli_draw(to, pictures, count));
    return SL_OK;
}

static sl_err run(const struct sl_args *args) {
    struct sl_arena arena = {0};
    sl_err err = run_in(args, &arena);
    sl_arena_free(&arena);
    return err;
}

const struct sl_command sl_cmd_report = {
    .name = "report",
    .synopsis = "(RUN | X.plan | X.sched | X.csv | X.trace.json | --chain N) [Y] -o X.html",
    .brief = "draw a run's curves, or timelines: one page, SVG, Perfetto",
    .detail =
        "A plan or schedule is verified and simulated, a trace is drawn as it is. Two of them\n"
        "are compared on one page with one time scale. Of a run directory the losses are drawn\n"
        "and, after --log-staleness, how far predicted and stale weights are from the true ones.\n"
        "The page needs no network.\n\n"
        "  sluice report --chain 4 --schedule 1f1b --micro 8 --against zb-h1 -o x.html\n"
        "  sluice report predicted.trace.json measured.trace.json -o x.html",
    .options =
        (const struct sl_option[]){
            SL_SCHED_OPTIONS,
            SL_SIM_OPTIONS,
            {"--against", "S", "a second schedule on the same plan, to compare", false},
            {"-o", "FILE", "X.html, X.svg, X.trace.json or X.txt", true},
            {0}},
    .min_args = 0,
    .max_args = SL_REPORT_MOST,
    .run = run,
};
