/* Saving beside the run. */
#include "ckpt/saver.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WRITER_NICE = 10 }; /* the run comes first where cores are short */

struct sl_saver {
    struct sl_saver_config config;
    struct sl_save save;
    pthread_t thread;
    bool writing;     /* there is a thread to join */
    atomic_bool done; /* it has ended */
    sl_err err;
    char message[2048];
    struct sl_save_report report;
    bool told;         /* the report has been handed out */
    int64_t waited_ns; /* for a writer, since the last save began */
};

struct sl_saver *sl_ckpt_saver_open(const struct sl_saver_config *config) {
    struct sl_saver *saver = sl_realloc(NULL, sizeof *saver);
    *saver = (struct sl_saver){
        .config = *config,
        .save = {.run = config->run, .config = config->config, .keep = config->keep},
        .told = true,
    };
    return saver;
}

static void *write_beside(void *arg) {
    struct sl_saver *saver = arg;
    int64_t begin = sl_clock_ns(), cpu = sl_clock_cpu_ns();
    sl_ckpt_copy_finish(saver->config.copy);                /* somebody may be waiting for that */
    setpriority(PRIO_PROCESS, (id_t)gettid(), WRITER_NICE); /* of this thread; no is no harm */
    saver->err = saver->config.write(saver->config.ctx, saver->config.copy, &saver->save);
    if (saver->err != SL_OK)
        snprintf(saver->message, sizeof saver->message, "%s", sl_err_message());
    saver->report.write_ns = sl_clock_ns() - begin;
    saver->report.cpu_ns = sl_clock_cpu_ns() - cpu;
    atomic_store(&saver->done, true);
    return NULL;
}

/* The end of the writer, and how it went. */
static sl_err finish(struct sl_saver *saver) {
    int64_t begin = sl_clock_ns();
    if (!saver->writing)
        return SL_OK;
    pthread_join(saver->thread, NULL);
    saver->waited_ns += sl_clock_ns() - begin;
    saver->report.stall_ns += sl_ckpt_copy_waited_ns(saver->config.copy);
    saver->writing = false;
    saver->told = false;
    if (saver->err != SL_OK)
        sl_err_set_message(saver->message);
    return saver->err;
}

void sl_ckpt_saver_close(struct sl_saver *saver) {
    if (!saver)
        return;
    if (saver->writing)
        pthread_join(saver->thread, NULL);
    sl_ckpt_copy_close(saver->config.copy);
    free(saver);
}

static sl_err save_here(struct sl_saver *saver, int64_t begin) {
    int64_t cpu = sl_clock_cpu_ns();
    SL_TRY(saver->config.write(saver->config.ctx, NULL, &saver->save));
    saver->report.write_ns = sl_clock_ns() - begin;
    saver->report.stall_ns += saver->report.write_ns;
    saver->report.cpu_ns = sl_clock_cpu_ns() - cpu;
    saver->told = false;
    return SL_OK;
}

sl_err sl_ckpt_saver_save(struct sl_saver *saver, struct sl_store_place place, bool wait) {
    SL_TRY(finish(saver));
    int64_t begin = sl_clock_ns();
    saver->save.place = place;
    saver->report = (struct sl_save_report){.step = place.step, .stall_ns = saver->waited_ns};
    saver->waited_ns = 0;
    if (!saver->config.copy || wait)
        return save_here(saver, begin);
    SL_TRY(sl_ckpt_copy_begin(saver->config.copy));
    saver->report.beside = true;
    atomic_store(&saver->done, false);
    if (pthread_create(&saver->thread, NULL, write_beside, saver) != 0) {
        sl_ckpt_copy_finish(saver->config.copy);
        saver->report.beside = false;
        return save_here(saver, begin);
    }
    saver->writing = true;
    saver->report.stall_ns += sl_clock_ns() - begin;
    return SL_OK;
}

sl_err sl_ckpt_saver_poll(struct sl_saver *saver, bool wait, struct sl_save_report *report) {
    report->step = -1;
    if (saver->writing && (wait || atomic_load(&saver->done)))
        SL_TRY(finish(saver));
    if (saver->writing || saver->told)
        return SL_OK;
    saver->told = true;
    *report = saver->report;
    return SL_OK;
}
