/* Schedules from modules as rows: the module puts the passes of one iteration. */
#include "schedules/module.h"

#include "schedules/gen.h"
#include "sluice/schedule.h"

#include <stdio.h>
#include <string.h>

struct own {
    const struct sl_schedule_module *module;
    const char *file;
};

struct taking {
    struct sl_gen *gen;
    char wrong[64]; /* what is wrong with the first bad pass */
    int64_t left;   /* passes that may still come */
};

static void put(const struct sl_schedule_task *task, char pass, int stage, int micro) {
    static const struct {
        char letter;
        enum sl_kind kind;
    } passes[] = {
        {'F', SL_FORWARD}, {'B', SL_BACKWARD}, {'I', SL_BACKWARD_INPUT}, {'W', SL_BACKWARD_WEIGHT}};
    struct taking *t = task->own;
    int at = 0;
    while (at < SL_COUNT(passes) && passes[at].letter != pass)
        at++;
    bool bad_stage = stage < 0 || stage >= task->stages;
    bool bad_micro = micro < 0 || micro >= task->micro_batches;
    if (*t->wrong)
        return;
    if (t->left-- == 0) {
        snprintf(t->wrong, sizeof t->wrong, "no place left (3 per micro-batch)");
        return;
    }
    if (at == SL_COUNT(passes))
        snprintf(t->wrong, sizeof t->wrong, pass > ' ' && pass <= '~' ? "kind '%c'" : "kind %d",
                 pass);
    else if (bad_stage || bad_micro)
        snprintf(t->wrong, sizeof t->wrong, bad_stage ? "stage %d" : "micro-batch %d",
                 bad_stage ? stage : micro);
    else
        sl_schedules_gen_put(&t->gen->workers[task->worker_of[stage]], passes[at].kind, stage,
                             micro);
}

static sl_err iteration(struct sl_gen *gen) {
    const struct own *own = gen->row->own;
    const struct sl_plan *plan = gen->plan;
    struct taking taking = {.gen = gen, .left = 3 * (int64_t)plan->stage_count * gen->micros[0]};
    int *worker_of = SL_NEW(gen->arena, int, plan->stage_count);
    for (int s = 0; s < plan->stage_count; s++)
        worker_of[s] = plan->stages[s].workers[0];
    struct sl_schedule_task task = {.stages = plan->stage_count,
                                    .workers = plan->worker_count,
                                    .micro_batches = gen->micros[0],
                                    .worker_of = worker_of,
                                    .put = put,
                                    .own = &taking};
    const char *why = own->module->generate(&task);
    if (why)
        return sl_fail(SL_ERR_REFUSED, "schedule '%s' of %s: %s", gen->row->name, own->file, why);
    if (*taking.wrong)
        return sl_fail(SL_ERR_REFUSED,
                       "schedule '%s' of %s puts a pass with %s; there are %d stages and %d "
                       "micro-batches, and passes F, B, I, W",
                       gen->row->name, own->file, taking.wrong, task.stages, task.micro_batches);
    return SL_OK;
}

static sl_err check(const struct sl_gen *gen) {
    for (int s = 0; s < gen->plan->stage_count; s++)
        if (gen->plan->stages[s].width > 1)
            return sl_fail(SL_ERR_REFUSED,
                           "schedule '%s' is from a module, which has no replicas: stage %s has %d",
                           gen->row->name, gen->plan->stages[s].name, gen->plan->stages[s].width);
    return sl_schedules_gen_check_chain(gen, SL_LAYOUT_LOOP);
}

/* Names appear in texts, files and folders, so their characters are limited. */
enum { NAME_MAX_LENGTH = 64 };

static bool is_name(const char *text) {
    size_t length =
        strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-");
    return length && length <= NAME_MAX_LENGTH && !text[length];
}

sl_err sl_schedules_module_row(struct sl_arena *arena, const char *file,
                               const struct sl_schedule_module *module,
                               const struct sl_schedule **out) {
    if (module->version != SL_SCHEDULE_MODULE || module->size < (int)sizeof *module)
        return sl_fail(SL_ERR_INPUT,
                       "%s: version %d and %d bytes of sluice_schedule; this program expects "
                       "version %d and %d bytes. Build it with this program's sluice/schedule.h",
                       file, module->version, module->size, SL_SCHEDULE_MODULE,
                       (int)sizeof *module);
    if (!module->name || !module->generate)
        return sl_fail(SL_ERR_INPUT, "%s: sluice_schedule needs a name and a generator", file);
    if (!is_name(module->name))
        return sl_fail(SL_ERR_INPUT,
                       "%s: the name of a schedule has 1 to %d letters, digits and _ . -", file,
                       NAME_MAX_LENGTH);
    struct own *own = SL_NEW(arena, struct own, 1);
    struct sl_schedule *row = SL_NEW(arena, struct sl_schedule, 1);
    *own = (struct own){module, sl_arena_dup(arena, file, strlen(file))};
    *row = (struct sl_schedule){.name = module->name,
                                .brief = module->brief ? module->brief : "",
                                .domain = "a chain of stages, one micro-batch size",
                                .rule = SL_RULE_SYNC,
                                .layout = SL_LAYOUT_LOOP,
                                .splits_backward = true, /* the module may split backward passes */
                                .memory = SL_MEMORY_ALL,
                                .check = check,
                                .iteration = iteration,
                                .own = own};
    *out = row;
    return SL_OK;
}
