/* Escaping of text, and the head of a page. */
#include "report/markup.h"

void sl_report_markup_escape(struct sl_text *out, const char *text) {
    for (; *text; text++)
        switch (*text) {
        case '<': sl_text_put(out, "&lt;"); break;
        case '>': sl_text_put(out, "&gt;"); break;
        case '&': sl_text_put(out, "&amp;"); break;
        case '"': sl_text_put(out, "&quot;"); break;
        default: sl_text_put_bytes(out, text, 1);
        }
}

void sl_report_markup_head(struct sl_text *out) {
    sl_text_put(out, "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
                     "<meta name=\"viewport\" content=\"width=device-width,initial-scale=1\">\n"
                     "<link rel=\"icon\" href=\"data:,\">\n<title>");
}
