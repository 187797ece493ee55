/* .study files: read, write, read again: the same text; the arguments of a cell; never a crash. */
#include "fuzz/meter.h"
#include "fuzz/round_trip.h"
#include "study/study.h"

SL_FUZZ_ROUND_TRIP(sl_study, sl_study)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_arena arena = {0};
    const struct sl_study *study;
    sl_meter_start();
    sl_err err = sl_study_read(&arena, "fuzz", (const char *)data, size, &study);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err == SL_OK) {
        const char *words[SL_STUDY_WORDS];
        struct sl_study_how how = {.part = 1};
        struct sl_study_cell cell = {.mode = study->tasks[0].modes[0], .rate = 1};
        int count;
        if (sl_study_words(&arena, study, &how, &cell, words, &count) == SL_OK)
            sl_study_cell_name(&arena, study, &cell, words, count);
        same_again(&arena, study);
    }
    sl_arena_free(&arena);
    return 0;
}
