/* Finds completion candidates for a command line, from the tables of commands. */
#include "job/model.h"
#include "list/list.h"
#include "manual/manual.h"

#include <string.h>

struct completion {
    const struct sl_command_set *set;
    const char *const *model_dirs, *const *words;
    int count;
    const char *typed;  /* prefix of the candidates */
    const char *before; /* "--schedule=" if it is in the same word, else "" */
    struct sl_text *out;
};

/* Options whose values are the names in a list of `sluice list`. */
static const struct {
    const char *option, *kind;
} sources[] = {
    {"--against", "schedules"},    {"--cost-model", "cost-models"},   {"--data", "data"},
    {"--device", "devices"},       {"--lr-schedule", "lr-schedules"}, {"--machine", "machines"},
    {"--optimizer", "optimizers"}, {"--planner", "planners"},         {"--policy", "policies"},
    {"--schedule", "schedules"},   {"--transport", "transports"},
};

static void offer(const struct completion *c, const char *word, const char *brief) {
    if (strncmp(word, c->typed, strlen(c->typed)) != 0)
        return;
    sl_text_printf(c->out, "%s%s\t%s\n", c->before, word, brief);
}

static void offer_files(const struct completion *c) { sl_text_put(c->out, ":files\n"); }

static sl_err offer_kind(const struct completion *c, const char *name) {
    const struct sl_list_kind *kind;
    struct sl_list list = {0};
    sl_err err = SL_OK;
    SL_TRY_OUT(sl_list_kind_find(name, &kind));
    SL_TRY_OUT(kind->fill(c->model_dirs, &list));
    for (int64_t i = 0; i < list.rows.count; i++)
        offer(c, list.rows.at[i].name, list.rows.at[i].brief);
out:
    sl_list_free(&list);
    return err;
}

/* Offers the words of "global|stage". */
static void offer_choice(const struct completion *c, const char *choice, const char *brief) {
    while (*choice) {
        char word[64];
        size_t length = strcspn(choice, "|");
        if (length < sizeof word) {
            memcpy(word, choice, length);
            word[length] = 0;
            offer(c, word, brief);
        }
        choice += length + (choice[length] == '|');
    }
}

static bool names_file(const char *arg) {
    static const char *const words[] = {"FILE", "DIR", "PATH", "CKPT", "RUN", "SOURCE"};
    for (int i = 0; i < SL_COUNT(words); i++)
        if (strcmp(arg, words[i]) == 0)
            return true;
    return strncmp(arg, "X.", 2) == 0;
}

static sl_err offer_value(const struct completion *c, const struct sl_option *option) {
    if (strchr(option->arg, '|'))
        offer_choice(c, option->arg, option->help);
    if (names_file(option->arg) || strcmp(option->name, "--machine") == 0)
        offer_files(c);
    for (int i = 0; i < SL_COUNT(sources); i++)
        if (strcmp(sources[i].option, option->name) == 0)
            return offer_kind(c, sources[i].kind);
    return SL_OK;
}

static const struct sl_option *find_option(const struct completion *c,
                                           const struct sl_command *command, const char *name,
                                           size_t length) {
    const struct sl_option *tables[] = {command->options, c->set->common};
    for (int t = 0; t < SL_COUNT(tables); t++)
        for (const struct sl_option *o = tables[t]; o->name; o++)
            if (strlen(o->name) == length && strncmp(o->name, name, length) == 0)
                return o;
    return NULL;
}

static bool was_given(const struct completion *c, const char *name) {
    for (int i = 1; i + 1 < c->count; i++)
        if (strcmp(c->words[i], name) == 0)
            return true;
    return false;
}

static void offer_options(const struct completion *c, const struct sl_command *command) {
    const struct sl_option *tables[] = {command->options, c->set->common};
    for (int t = 0; t < SL_COUNT(tables); t++)
        for (const struct sl_option *o = tables[t]; o->name; o++)
            if (o->repeats || !was_given(c, o->name))
                offer(c, o->name, o->help);
}

/* Counts the positional arguments before the last word; *last is the last of them. */
static int count_arguments(const struct completion *c, const struct sl_command *command,
                           const char **last) {
    int count = 0;
    *last = "";
    for (int i = 1; i + 1 < c->count; i++) {
        const struct sl_option *option = find_option(c, command, c->words[i], strlen(c->words[i]));
        if (option && option->arg)
            i += strcmp(c->words[i + 1], "=") == 0 && i + 2 < c->count ? 2 : 1;
        else if (c->words[i][0] != '-') {
            *last = c->words[i];
            count++;
        }
    }
    return count;
}

/* Offers the first word of each alternative of "ls | show MACHINE | check FILE". */
static void offer_verbs(const struct completion *c, const char *synopsis) {
    while (*synopsis >= 'a' && *synopsis <= 'z') {
        char verb[32];
        size_t length = strcspn(synopsis, " |[");
        if (length < sizeof verb) {
            memcpy(verb, synopsis, length);
            verb[length] = 0;
            offer(c, verb, "");
        }
        synopsis += strcspn(synopsis, "|[");
        synopsis += *synopsis == '|';
        synopsis += strspn(synopsis, " ");
    }
}

static sl_err offer_commands(const struct completion *c) {
    for (int i = 0; c->set->commands[i]; i++)
        offer(c, c->set->commands[i]->name, c->set->commands[i]->brief);
    return SL_OK;
}

static sl_err offer_formats(const struct completion *c) { return offer_kind(c, "formats"); }

static sl_err offer_kinds(const struct completion *c) {
    for (int k = 0; sl_list_kinds[k].name; k++)
        offer(c, sl_list_kinds[k].name, sl_list_kinds[k].brief);
    return SL_OK;
}

/* Offers only the names of models, because reading all models would delay the prompt. */
static sl_err offer_models(const struct completion *c) {
    struct sl_arena arena = {0};
    struct sl_job_model_names names = sl_job_model_names(c->model_dirs, &arena);
    for (int i = 0; i < names.count; i++)
        offer(c, names.at[i], "model");
    offer_files(c);
    sl_arena_free(&arena);
    return SL_OK;
}

static sl_err offer_shells(const struct completion *c) {
    offer_choice(c, "bash|fish|zsh", "completion script");
    return SL_OK;
}

/* The candidates for the first argument, by its name in the synopsis; for other names, files. */
static const struct {
    const char *word;
    sl_err (*offer)(const struct completion *c);
} firsts[] = {
    {"COMMAND", offer_commands}, {"FORMAT", offer_formats}, {"KIND", offer_kinds},
    {"MODEL", offer_models},     {"SHELL", offer_shells},
};

static sl_err offer_argument(const struct completion *c, const struct sl_command *command) {
    const char *last, *word = command->synopsis + strspn(command->synopsis, "[(");
    size_t length = strcspn(word, " ])|");
    int before = count_arguments(c, command, &last);
    if (command->max_args >= 0 && before >= command->max_args)
        return SL_OK;
    if (before == 0 && *word >= 'a' && *word <= 'z') {
        offer_verbs(c, word);
        return SL_OK;
    }
    for (int i = 0; before == 0 && i < SL_COUNT(firsts); i++)
        if (strlen(firsts[i].word) == length && strncmp(word, firsts[i].word, length) == 0)
            return firsts[i].offer(c);
    offer_files(c);
    return strcmp(last, "show") == 0 ? offer_kind(c, "machines") : SL_OK;
}

/* Returns the option whose value is being typed: "--x VALUE", "--x=VALUE", or "--x = VALUE" because
 * bash splits words so. NULL: none. */
static const struct sl_option *typed_option(struct completion *c,
                                            const struct sl_command *command) {
    const char *word = c->words[c->count - 1], *equals = strchr(word, '=');
    int at = c->count - 2;
    if (strcmp(word, "=") == 0) {
        c->typed = "";
    } else if (at > 1 && strcmp(c->words[at], "=") == 0) {
        at--;
    } else if (word[0] == '-' && equals) {
        c->typed = equals + 1;
        return find_option(c, command, word, (size_t)(equals - word));
    }
    const struct sl_option *option =
        at > 0 ? find_option(c, command, c->words[at], strlen(c->words[at])) : NULL;
    return option && option->arg ? option : NULL;
}

sl_err sl_manual_complete(const struct sl_manual_completion *request, struct sl_text *out) {
    const char *const *words = request->words;
    int count = request->count;
    struct completion c = {request->set, request->model_dirs, words, count, words[count - 1], "",
                           out};
    char before[64] = "";
    if (count == 1) {
        offer(&c, "--help", "the commands");
        offer(&c, "--version", "print the version");
        return offer_commands(&c);
    }
    const struct sl_command *command = sl_manual_find(request->set, words[0], NULL);
    if (!command)
        return SL_OK;
    for (int i = 1; i + 1 < count; i++)
        if (strcmp(words[i], "--") == 0) { /* launch -n 2 -- train ... */
            struct sl_manual_completion inner = *request;
            inner.words += i + 1;
            inner.count -= i + 1;
            return sl_manual_complete(&inner, out);
        }
    const struct sl_option *option = typed_option(&c, command);
    const char *equals = strchr(words[count - 1], '=');
    if (option && equals && words[count - 1][0] == '-') {
        size_t length = (size_t)(equals + 1 - words[count - 1]);
        memcpy(before, words[count - 1], length < sizeof before ? length : 0);
        c.before = before;
    }
    if (option)
        return offer_value(&c, option);
    if (c.typed[0] == '-')
        offer_options(&c, command);
    else
        return offer_argument(&c, command);
    return SL_OK;
}
