/* Text: slices, growing buffer, numbers with units, the nearest name. */
#include "base/text.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct sl_str sl_str(const char *text) {
    return (struct sl_str){text, strlen(text)};
}

bool sl_str_equal(struct sl_str a, struct sl_str b) {
    return a.length == b.length && (a.length == 0 || memcmp(a.at, b.at, a.length) == 0);
}

bool sl_str_is(struct sl_str str, const char *text) { return sl_str_equal(str, sl_str(text)); }

static void text_reserve(struct sl_text *text, size_t extra) {
    size_t need = text->length + extra + 1;
    if (need <= text->room)
        return;
    size_t room = text->room * 2 > 256 ? text->room * 2 : 256;
    text->room = room > need ? room : need;
    text->at = sl_realloc(text->at, text->room);
}

void sl_text_put_bytes(struct sl_text *text, const void *bytes, size_t length) {
    text_reserve(text, length);
    if (length)
        memcpy(text->at + text->length, bytes, length);
    text->length += length;
    text->at[text->length] = 0;
}

void sl_text_put(struct sl_text *text, const char *string) {
    sl_text_put_bytes(text, string, strlen(string));
}

void sl_text_printf(struct sl_text *text, const char *fmt, ...) {
    va_list args;
    va_start(args, fmt);
    int length = vsnprintf(NULL, 0, fmt, args);
    va_end(args);
    SL_ASSERT(length >= 0);
    text_reserve(text, (size_t)length);
    va_start(args, fmt);
    vsnprintf(text->at + text->length, (size_t)length + 1, fmt, args);
    va_end(args);
    text->length += (size_t)length;
}

void sl_text_free(struct sl_text *text) {
    free(text->at);
    *text = (struct sl_text){0};
}

void sl_text_put_double(struct sl_text *text, double value) {
    char out[40];
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(out, sizeof out, "%.*g", digits, value);
        if (!isfinite(value) || strtod(out, NULL) == value)
            break;
    }
    sl_text_put(text, out);
}

sl_err sl_parse_int(const char *text, const char *where, int64_t *out) {
    char *end;
    errno = 0;
    long long value = strtoll(text, &end, 10);
    if (end == text || *end || isspace((unsigned char)*text))
        return sl_fail(SL_ERR_USAGE, "%s: '%s' is not a whole number", where, text);
    if (errno == ERANGE)
        return sl_fail(SL_ERR_USAGE, "%s: '%s' is out of range", where, text);
    *out = value;
    return SL_OK;
}

sl_err sl_parse_double(const char *text, const char *where, double *out) {
    char *end;
    double value = strtod(text, &end);
    if (end == text || *end || isspace((unsigned char)*text) || !isfinite(value))
        return sl_fail(SL_ERR_USAGE, "%s: '%s' is not a finite number", where, text);
    *out = value;
    return SL_OK;
}

struct unit {
    const char *name;
    double factor;
};

/* G and GiB are 2^30 bytes, GB is 10^9 bytes, Gb is 10^9 bits. */
static const struct unit units[] = {
    {"", 1},         {"B", 1},        {"K", 0x1p10},   {"KiB", 0x1p10}, {"KB", 1e3},
    {"kB", 1e3},     {"M", 0x1p20},   {"MiB", 0x1p20}, {"MB", 1e6},     {"G", 0x1p30},
    {"GiB", 0x1p30}, {"GB", 1e9},     {"T", 0x1p40},   {"TiB", 0x1p40}, {"TB", 1e12},
    {"b", 1.0 / 8},  {"Kb", 1e3 / 8}, {"Mb", 1e6 / 8}, {"Gb", 1e9 / 8}, {"Tb", 1e12 / 8},
};

static sl_err parse_unit(const char *text, const char *where, const char *tail, double *out) {
    char *end;
    double value = strtod(text, &end);
    size_t length = strlen(end), tail_length = strlen(tail);
    if (end == text || isspace((unsigned char)*text) || !isfinite(value) || value < 0)
        return sl_fail(SL_ERR_USAGE, "%s: '%s' does not start with a number", where, text);
    if (length >= tail_length && strcmp(end + length - tail_length, tail) == 0)
        length -= tail_length;
    for (int i = 0; i < SL_COUNT(units); i++) {
        if (strlen(units[i].name) == length && strncmp(units[i].name, end, length) == 0) {
            *out = value * units[i].factor;
            return SL_OK;
        }
    }
    return sl_fail(SL_ERR_USAGE, "%s: unknown unit '%s' in '%s'; try GiB, GB or Gb (bits)%s%s",
                   where, end, text, *tail ? " with " : "", tail);
}

sl_err sl_parse_bytes(const char *text, const char *where, int64_t *out) {
    double value;
    SL_TRY(parse_unit(text, where, "", &value));
    if (value >= 9.0e18)
        return sl_fail(SL_ERR_USAGE, "%s: '%s' is out of range", where, text);
    *out = (int64_t)value;
    return SL_OK;
}

sl_err sl_parse_bandwidth(const char *text, const char *where, double *out) {
    return parse_unit(text, where, "/s", out);
}

static const char *human(double value, double base, const char *const *suffixes, int count,
                         char *out) {
    int i = 0;
    while (fabs(value) >= base && i + 1 < count) {
        value /= base;
        i++;
    }
    int digits = i == 0 && value == floor(value) ? 0 : fabs(value) < 10 ? 2 : 1;
    snprintf(out, SL_HUMAN_BYTES, "%.*f%s", digits, value, suffixes[i]);
    return out;
}

const char *sl_human_bytes(int64_t bytes, char out[SL_HUMAN_BYTES]) {
    static const char *const suffixes[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB"};
    return human((double)bytes, 1024, suffixes, SL_COUNT(suffixes), out);
}

const char *sl_human_count(double count, char out[SL_HUMAN_BYTES]) {
    static const char *const suffixes[] = {"", "k", "M", "G", "T", "P", "E"};
    return human(count, 1000, suffixes, SL_COUNT(suffixes), out);
}

const char *sl_human_ns(int64_t dur_ns, char out[SL_HUMAN_BYTES]) {
    static const char *const suffixes[] = {" ns", " us", " ms", " s"};
    return human((double)dur_ns, 1000, suffixes, SL_COUNT(suffixes), out);
}

/* Edit distance in which a swap of two neighbours counts once. Returns at most `limit`. */
static int edit_distance(const char *a, const char *b, int limit) {
    enum { LONGEST = 64 };
    int row[3][LONGEST + 1];
    int la = (int)strlen(a), lb = (int)strlen(b);
    if (la > LONGEST || lb > LONGEST || abs(la - lb) > limit)
        return limit + 1;
    for (int j = 0; j <= lb; j++)
        row[0][j] = j;
    for (int i = 1; i <= la; i++) {
        int *now = row[i % 3], *last = row[(i - 1) % 3], *older = row[(i + 1) % 3];
        now[0] = i;
        for (int j = 1; j <= lb; j++) {
            int best = last[j - 1] + (a[i - 1] != b[j - 1]);
            best = last[j] + 1 < best ? last[j] + 1 : best;
            best = now[j - 1] + 1 < best ? now[j - 1] + 1 : best;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                best = older[j - 2] + 1 < best ? older[j - 2] + 1 : best;
            now[j] = best;
        }
    }
    return row[la % 3][lb];
}

const char *sl_nearest(const char *wanted, int count, const char *(*name)(const void *ctx, int i),
                       const void *ctx) {
    const char *best = NULL;
    int length = (int)strlen(wanted);
    int limit = length < 2 ? 0 : length / 3 + 1, best_distance = limit + 1;
    for (int i = 0; i < count; i++) {
        if (strcasecmp(wanted, name(ctx, i)) == 0)
            return name(ctx, i);
        int distance = edit_distance(wanted, name(ctx, i), limit);
        /* Among equally near names, prefer one that `wanted` begins with: "--cost" for "--costx",
         * not "--costs". */
        bool begins = strncmp(wanted, name(ctx, i), strlen(name(ctx, i))) == 0;
        if (distance < best_distance ||
            (distance == best_distance && distance <= limit && begins)) {
            best_distance = distance;
            best = name(ctx, i);
        }
    }
    return best;
}
