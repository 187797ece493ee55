/* Runs all checks in order, and writes their findings as text and as JSON. */
#include "profile/checkup.h"

#include "base/json.h"

#include <string.h>

static const char *const health_names[] = {
    [SL_HEALTH_OK] = "ok", [SL_HEALTH_MISSING] = "missing", [SL_HEALTH_FAILS] = "fails"};

static const struct {
    const char *name, *brief;
    void (*check)(struct sl_checkup *c);
} groups[] = {
    {"machine", "this machine", sl_profile_checkup_machine},
    {"ranks", "several processes", sl_profile_checkup_ranks},
    {"gpus", "GPUs", sl_profile_checkup_gpus},
    {"tools", "to build and test", sl_profile_checkup_tools},
};

void sl_profile_checkup_run(struct sl_checkup *c) {
    for (int g = 0; g < SL_COUNT(groups); g++) {
        c->group = groups[g].name;
        groups[g].check(c);
        if (g == 0 && c->model_count)
            sl_profile_checkup_ok(c, "models", "%d by name", c->model_count);
        else if (g == 0)
            sl_profile_checkup_bad(c,
                                   (struct sl_finding){.name = "models",
                                                       .health = SL_HEALTH_MISSING,
                                                       .needed = true,
                                                       .what = "the library of models is not found",
                                                       .fix = "export SLUICE_MODELS=DIR"});
    }
}

int sl_profile_checkup_bad_count(const struct sl_checkup *c, bool needed) {
    int count = 0;
    for (int64_t i = 0; i < c->found.count; i++)
        count += c->found.at[i].health != SL_HEALTH_OK && c->found.at[i].needed == needed;
    return count;
}

void sl_profile_checkup_put(const struct sl_checkup *c, bool colour, struct sl_text *text) {
    static const char *const paint[] = {"\033[32m", "\033[33m", "\033[31m"};
    const char *group = "";
    for (int64_t i = 0; i < c->found.count; i++) {
        const struct sl_finding *f = &c->found.at[i];
        for (int g = 0; g < SL_COUNT(groups); g++)
            if (strcmp(group, f->group) != 0 && strcmp(groups[g].name, f->group) == 0)
                sl_text_printf(text, "%s%s\n", i ? "\n" : "", groups[g].brief);
        group = f->group;
        sl_text_printf(text, "  %s%-7s%s  %-14s %s\n", colour ? paint[f->health] : "",
                       health_names[f->health], colour ? "\033[0m" : "", f->name, f->what);
        if (f->fix)
            sl_text_printf(text, "  %-7s  %-14s try: %s\n", "", "", f->fix);
    }
    int needed = sl_profile_checkup_bad_count(c, true),
        wanted = sl_profile_checkup_bad_count(c, false);
    if (needed)
        sl_text_printf(text, "\ntraining is impossible: %d needed items are missing or fail\n",
                       needed);
    else
        sl_text_printf(text, "\nmodels can be trained here%s\n",
                       wanted ? "; the problems above affect only what they name" : "");
}

void sl_profile_checkup_json(const struct sl_checkup *c, struct sl_text *text) {
    struct sl_json_out json = {.text = text, .indent = 2};
    sl_json_open(&json, '{');
    sl_json_put_bool(&json, "ok", sl_profile_checkup_bad_count(c, true) == 0);
    sl_json_key(&json, "checks");
    sl_json_open(&json, '[');
    for (int64_t i = 0; i < c->found.count; i++) {
        const struct sl_finding *f = &c->found.at[i];
        sl_json_open(&json, '{');
        sl_json_put_string(&json, "group", f->group);
        sl_json_put_string(&json, "name", f->name);
        sl_json_put_string(&json, "state", health_names[f->health]);
        sl_json_put_bool(&json, "needed", f->needed);
        sl_json_put_string(&json, "what", f->what);
        if (f->fix)
            sl_json_put_string(&json, "fix", f->fix);
        sl_json_close(&json, '}');
    }
    sl_json_close(&json, ']');
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}
