/* Shared by all pages: escaping of text, and the head of a page. */
#ifndef SL_REPORT_MARKUP_H
#define SL_REPORT_MARKUP_H

#include "base/text.h"

/* Appends text escaped for element content and for attributes in double quotes. */
void sl_report_markup_escape(struct sl_text *out, const char *text);

/* Writes from <!doctype html> to the opening <title>. */
void sl_report_markup_head(struct sl_text *out);

#endif
