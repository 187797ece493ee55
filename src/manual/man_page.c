/* Writes manual pages with the man macros. */
#include "base/version.h"
#include "manual/manual.h"

#include <ctype.h>
#include <string.h>

/* Escapes backslashes, hyphens, and dots and quotes at the start of a line. */
static void put_roff(struct sl_text *out, const char *text, size_t length) {
    bool start = true;
    for (size_t i = 0; i < length; i++) {
        if (start && (text[i] == '.' || text[i] == '\''))
            sl_text_put(out, "\\&");
        if (text[i] == '\\')
            sl_text_put(out, "\\e");
        else if (text[i] == '-')
            sl_text_put(out, "\\-");
        else
            sl_text_put_bytes(out, text + i, 1);
        start = text[i] == '\n';
    }
}

static void put_text(struct sl_text *out, const char *text) { put_roff(out, text, strlen(text)); }

/* Writes paragraphs; lines that begin with a blank are examples. */
static void put_paragraphs(struct sl_text *out, const char *text) {
    bool example = false;
    while (*text) {
        size_t length = strcspn(text, "\n");
        bool indented = *text == ' ';
        if (indented != example)
            sl_text_put(out, indented ? ".PP\n.EX\n" : ".EE\n");
        if (length == 0 && !example)
            sl_text_put(out, ".PP\n");
        else if (length) {
            put_roff(out, text, length);
            sl_text_put(out, "\n");
        }
        example = indented;
        text += length + (text[length] == '\n');
    }
    if (example)
        sl_text_put(out, ".EE\n");
}

static void put_options(struct sl_text *out, const struct sl_option *options) {
    for (; options->name; options++) {
        sl_text_put(out, ".TP\n\\fB");
        put_text(out, options->name);
        sl_text_put(out, "\\fR");
        if (options->arg) {
            sl_text_put(out, " \\fI");
            put_text(out, options->arg);
            sl_text_put(out, "\\fR");
        }
        sl_text_put(out, "\n");
        put_text(out, options->help);
        sl_text_put(out, options->repeats ? " (may be repeated)\n" : "\n");
    }
}

static void put_title(struct sl_text *out, const char *command, const char *brief) {
    char name[64];
    size_t at = 0;
    for (const char *from = command; *from && at + 1 < sizeof name; from++)
        name[at++] = (char)toupper((unsigned char)*from);
    name[at] = 0;
    sl_text_printf(out,
                   ".TH \"SLUICE%s%s\" 1 \"\" \"sluice %s\" \"Sluice\"\n.SH NAME\nsluice%s%s \\- ",
                   at ? "\\-" : "", name, sl_version(), at ? "\\-" : "", command);
    put_text(out, brief);
    sl_text_put(out, "\n");
}

static void put_status(struct sl_text *out) {
    static const char *const meaning[] = {"done",
                                          "refused: does not verify, does not fit, differs",
                                          "usage",
                                          "input that cannot be read",
                                          "the system: memory, files, devices",
                                          "another rank failed or was lost"};
    sl_text_put(out, ".SH EXIT STATUS\n");
    for (int i = 0; i < SL_COUNT(meaning); i++)
        sl_text_printf(out, ".TP\n%d\n%s\n", i, meaning[i]);
}

/* Writes one line per form of the synopsis. */
static void put_synopsis(struct sl_text *out, const struct sl_command *command) {
    const char *at = command->synopsis;
    do {
        size_t length = strcspn(at, "\n");
        const char *again = strstr(at, "sluice ");
        if (at != command->synopsis && again && again < at + length) {
            length -= (size_t)(again - at) + strlen("sluice ") + strlen(command->name);
            at = again + strlen("sluice ") + strlen(command->name);
        }
        sl_text_printf(out, "%s.B sluice %s\n", at == command->synopsis ? "" : ".br\n",
                       command->name);
        if (length) {
            put_roff(out, at + strspn(at, " "), length - strspn(at, " "));
            sl_text_put(out, "\n");
        }
        at += length + (at[length] == '\n');
    } while (*at);
}

static void put_command(const struct sl_command_set *set, const struct sl_command *command,
                        struct sl_text *out) {
    put_title(out, command->name, command->brief);
    sl_text_put(out, ".SH SYNOPSIS\n");
    put_synopsis(out, command);
    if (command->detail) {
        sl_text_put(out, ".SH DESCRIPTION\n");
        put_paragraphs(out, command->detail);
    }
    sl_text_put(out, ".SH OPTIONS\n");
    put_options(out, command->options);
    put_options(out, set->common);
    put_status(out);
    sl_text_put(out, ".SH SEE ALSO\n.BR sluice (1)\n");
}

static const struct {
    const char *name, *what;
} variables[] = {
    {"NO_COLOR", "disables colours"},
    {"SLUICE_ISA", "use no better instruction set than this one (amx, avx512, avx2, any), so that "
                   "machines of different kinds give the same bits"},
    {"SLUICE_MODELS", "first directory to search for models by name"},
};

static void put_overview(const struct sl_command_set *set, struct sl_text *out) {
    put_title(out, "", "pipeline-parallel training of neural networks");
    sl_text_put(out,
                ".SH SYNOPSIS\n.B sluice\n.I COMMAND\n[arguments] [options]\n"
                ".SH DESCRIPTION\n"
                "Sluice cuts a model into a graph of stages, proves that the micro\\-batch "
                "schedule cannot deadlock, overflow memory or mix weight versions, and runs it: "
                "as threads of one process, as ranks of an MPI job, or on GPUs. Data goes to "
                "standard output, messages to standard error.\n.SH COMMANDS\n");
    for (int i = 0; set->commands[i]; i++) {
        sl_text_printf(out, ".TP\n.BR sluice\\-%s (1)\n", set->commands[i]->name);
        put_text(out, set->commands[i]->brief);
        sl_text_put(out, "\n");
    }
    sl_text_put(out, ".SH OPTIONS\nEvery command has these.\n");
    put_options(out, set->common);
    put_status(out);
    sl_text_put(out, ".SH ENVIRONMENT\n");
    for (int i = 0; i < SL_COUNT(variables); i++)
        sl_text_printf(out, ".TP\n.B %s\n%s\n", variables[i].name, variables[i].what);
}

void sl_manual_page(const struct sl_command_set *set, const struct sl_command *command,
                    struct sl_text *out) {
    if (command)
        put_command(set, command, out);
    else
        put_overview(set, out);
}
