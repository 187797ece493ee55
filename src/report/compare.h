/* Two timelines on one page: names that tell them apart, and as many steps of each. */
#ifndef SL_REPORT_COMPARE_H
#define SL_REPORT_COMPARE_H

#include "report/picture.h"

/* Optimizer steps of the first stage, on the first of its workers that steps. */
int64_t sl_report_picture_steps(const struct sl_picture *picture);

/* Titles become the names of the files, without folders where that suffices. The old title goes
 * into the detail. */
void sl_report_name_files(struct sl_arena *arena, struct sl_picture *pictures,
                          const char *const *paths, int count);

/* Cuts the picture with more steps to as many as the other one has, from the middle of its run:
 * fill and drain of an asynchronous run are at its ends. Unchanged if one has no step. */
void sl_report_align_steps(struct sl_arena *arena, struct sl_picture pictures[2]);

#endif
