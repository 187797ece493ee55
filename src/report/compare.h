/* Two timelines on one page: gives them names that tell them apart, and an equal number of
 * steps. */
#ifndef SL_REPORT_COMPARE_H
#define SL_REPORT_COMPARE_H

#include "report/picture.h"

/* Returns the number of optimizer steps of the first stage, on the first of its workers that
 * steps. */
int64_t sl_report_picture_steps(const struct sl_picture *picture);

/* Replaces titles by the names of the files, without folders if that suffices. The old title goes
 * into the detail. */
void sl_report_name_files(struct sl_arena *arena, struct sl_picture *pictures,
                          const char *const *paths, int count);

/* Cuts the picture with more steps to the number of steps of the other one, from the middle of
 * its run: fill and drain of an asynchronous run are at its ends. Changes nothing if one has no
 * step. */
void sl_report_align_steps(struct sl_arena *arena, struct sl_picture pictures[2]);

#endif
