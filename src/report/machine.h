/* Report of a machine: kinds of devices, levels of links. */
#ifndef SL_REPORT_MACHINE_H
#define SL_REPORT_MACHINE_H

#include "cost/machine.h"

/* Append the report as text, or as JSON (docs/formats.md). */
void sl_report_machine(const struct sl_machine *machine, struct sl_text *text);
void sl_report_machine_json(const struct sl_machine *machine, struct sl_text *text);

#endif
