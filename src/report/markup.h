/* What all pages share: text that cannot become markup, and a page's first and last lines. */
#ifndef SL_REPORT_MARKUP_H
#define SL_REPORT_MARKUP_H

#include "base/text.h"

/* For text between tags and for attributes in double quotes. */
void sl_report_markup_escape(struct sl_text *out, const char *text);

/* From <!doctype html> to the open <title>. */
void sl_report_markup_head(struct sl_text *out);

#endif
