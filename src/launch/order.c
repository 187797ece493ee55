/* Writes and reads the text of an order; see order.h. */
#include "launch/order.h"

#include <string.h>

static const char head[] = "sluice order 1 ";

static void put(struct sl_text *out, char letter, const char *text) {
    sl_text_put_bytes(out, &letter, 1);
    sl_text_put_bytes(out, text, strlen(text) + 1);
}

void sl_launch_order_write(const struct sl_launch_order *order, struct sl_text *out) {
    struct sl_text fields = {0}, silence = {0};
    sl_text_printf(&silence, "%lld", (long long)order->silence_s);
    put(&fields, 'd', order->directory);
    put(&fields, 'p', order->program);
    put(&fields, 's', silence.at);
    for (int i = 0; i < order->env_count; i++)
        put(&fields, 'e', order->env[i]);
    for (int i = 0; i < order->argc; i++)
        put(&fields, 'a', order->argv[i]);
    sl_text_printf(out, "%s%zu\n", head, fields.length);
    sl_text_put_bytes(out, fields.at, fields.length);
    sl_text_free(&fields);
    sl_text_free(&silence);
}

sl_err sl_launch_order_read_head(const char *line, int64_t *length) {
    size_t start = sizeof head - 1;
    if (strncmp(line, head, start) != 0)
        return sl_fail(SL_ERR_INPUT, "standard input holds no order of a launcher of this version");
    SL_TRY(sl_parse_int(line + start, "length of the order", length));
    if (*length < 1 || *length > SL_LAUNCH_ORDER_BYTES_MAX)
        return sl_fail(SL_ERR_INPUT, "an order of %lld bytes, expected 1 to %d", (long long)*length,
                       SL_LAUNCH_ORDER_BYTES_MAX);
    return SL_OK;
}

static sl_err read_field(char letter, const char *text, struct sl_launch_order *out) {
    switch (letter) {
    case 'd': out->directory = text; return SL_OK;
    case 'p': out->program = text; return SL_OK;
    case 's': return sl_parse_int(text, "silence of the order", &out->silence_s);
    case 'e':
        if (out->env_count == SL_LAUNCH_ENV_MAX || !strchr(text, '='))
            return sl_fail(SL_ERR_INPUT, "order: too many variables, or one without a value");
        out->env[out->env_count++] = text;
        return SL_OK;
    case 'a':
        if (out->argc == SL_COUNT(out->argv) - 1)
            return sl_fail(SL_ERR_INPUT, "order: too many arguments");
        out->argv[out->argc++] = text;
        return SL_OK;
    default:
        return sl_fail(SL_ERR_INPUT, "order: there is no field '%c'",
                       letter > ' ' && letter < 127 ? letter : '?');
    }
}

sl_err sl_launch_order_read(const char *fields, int64_t length, struct sl_launch_order *out) {
    *out = (struct sl_launch_order){0};
    if (length < 1 || fields[length - 1] != 0)
        return sl_fail(SL_ERR_INPUT, "order: the last field does not end");
    for (int64_t at = 0; at < length; at += (int64_t)strlen(fields + at) + 1) {
        if (fields[at] == 0)
            return sl_fail(SL_ERR_INPUT, "order: an empty field");
        SL_TRY(read_field(fields[at], fields + at + 1, out));
    }
    if (!out->directory || !out->program || !out->argc || out->silence_s < 1)
        return sl_fail(SL_ERR_INPUT, "order: directory, program, arguments or silence is missing");
    return SL_OK;
}
