/* Recognizes names of events that are actions of a pipeline (kineto.h). */
#include "report/kineto.h"

#include <ctype.h>
#include <string.h>

bool sl_report_kineto_number(struct sl_str *text, int64_t max, int64_t *out) {
    size_t used = 0;
    *out = 0;
    while (used < text->length && isdigit((unsigned char)text->at[used]) && *out <= max)
        *out = 10 * *out + (text->at[used++] - '0');
    text->at += used;
    text->length -= used;
    return used > 0 && *out <= max;
}

bool sl_report_kineto_prefix(struct sl_str *text, const char *prefix) {
    size_t length = strlen(prefix);
    if (text->length < length || memcmp(text->at, prefix, length) != 0)
        return false;
    text->at += length;
    text->length -= length;
    return true;
}

static bool kind_of(char letter, uint8_t *out) {
    static const char letters[] = "FBIW";
    static const uint8_t kinds[] = {SL_FORWARD, SL_BACKWARD, SL_BACKWARD_INPUT, SL_BACKWARD_WEIGHT};
    const char *found = letter ? strchr(letters, letter) : NULL;
    if (found)
        *out = kinds[found - letters];
    return found != NULL;
}

/* Parses PP:0F1 and PP:(0F1;2B0)OVERLAP_F_B of PyTorch's runtime. */
static int parse_runtime(struct sl_str name, struct sl_kineto_action *out) {
    int count = sl_report_kineto_prefix(&name, "(") ? 2 : 1;
    for (int i = 0; i < count; i++, out++) {
        *out = (struct sl_kineto_action){.micro = -1};
        if (i && !sl_report_kineto_prefix(&name, ";"))
            return 0;
        if (!sl_report_kineto_number(&name, SL_STAGE_MAX - 1, &out->stage) || !name.length ||
            !kind_of(*name.at, &out->kind))
            return 0;
        name.at++;
        name.length--;
        if (!sl_report_kineto_number(&name, INT32_MAX - 1, &out->micro))
            return 0;
    }
    bool ends = count == 2 ? sl_report_kineto_prefix(&name, ")") : name.length == 0;
    return ends ? count : 0;
}

/* Also parses "Forward 1", and "attn(F)" of DeepSeek's traces. */
int sl_report_kineto_name(struct sl_str name, int64_t rank,
                          struct sl_kineto_action out[SL_KINETO_ACTIONS]) {
    *out = (struct sl_kineto_action){.stage = rank, .micro = -1};
    if (sl_report_kineto_prefix(&name, "PP:"))
        return parse_runtime(name, out);
    bool forward = sl_report_kineto_prefix(&name, "Forward ");
    if (forward || sl_report_kineto_prefix(&name, "Backward ")) {
        out->kind = forward ? SL_FORWARD : SL_BACKWARD;
        return sl_report_kineto_number(&name, INT32_MAX - 1, &out->micro) && name.length == 0;
    }
    if (sl_report_kineto_prefix(&name, "Optimizer.step")) {
        out->kind = SL_STEP;
        return true;
    }
    size_t n = name.length;
    out->part = (struct sl_str){name.at, n < 4 ? 0 : n - 3};
    return n >= 4 && n < 64 && name.at[n - 3] == '(' && name.at[n - 1] == ')' &&
           kind_of(name.at[n - 2], &out->kind);
}
