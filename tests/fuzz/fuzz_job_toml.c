/* A job as TOML: read, write, read, write: the same text, never a crash; the same job as JSON. */
#include "fuzz/meter.h"
#include "job/job.h"

#include <stdlib.h>
#include <string.h>

static void write_again(const struct sl_job *job) {
    struct sl_text once = {0}, twice = {0}, json = {0}, same = {0};
    struct sl_job copy;
    sl_job_init(&copy);
    sl_job_write_toml(job, &once);
    if (sl_job_read_toml(&copy, "again", once.at, once.length) != SL_OK)
        abort();
    sl_job_write_toml(&copy, &twice);
    if (once.length != twice.length || memcmp(once.at, twice.at, once.length) != 0)
        abort();
    sl_job_write(job, &json);
    sl_job_write(&copy, &same);
    if (json.length != same.length || memcmp(json.at, same.at, json.length) != 0)
        abort();
    sl_text_free(&once);
    sl_text_free(&twice);
    sl_text_free(&json);
    sl_text_free(&same);
    sl_job_free(&copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    struct sl_job job;
    sl_meter_start();
    sl_job_init(&job);
    sl_err err = sl_job_read_toml(&job, "fuzz", (const char *)data, size);
    sl_meter_check((int64_t)size, SL_METER_CONSTANT_BYTES);
    if (err == SL_OK)
        write_again(&job);
    sl_job_free(&job);
    return 0;
}
