/* Saves checkpoints while the run continues. */
#include "ckpt/saver.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

enum { WRITER_NICE = 10 }; /* low priority, so that the run keeps its cores */

struct sl_ckpt_saver {
    struct sl_ckpt_saver_config config;
    struct sl_ckpt_copy *copy; /* the snapshot; NULL: a save stops the run */
    struct sl_ckpt_place place;
    pthread_t thread;
    bool writing;     /* there is a writer thread to join */
    atomic_bool done; /* the writer thread has ended */
    sl_err err;
    char message[2048];
    struct sl_save_report report;
    bool reported;     /* the caller has received the report */
    int64_t waited_ns; /* time spent waiting for a writer, since the last save began */
};

sl_err sl_ckpt_saver_open(const struct sl_ckpt_saver_config *config, struct sl_ckpt_saver **out) {
    struct sl_ckpt_saver *saver = sl_realloc(NULL, sizeof *saver);
    *saver = (struct sl_ckpt_saver){.config = *config, .reported = true};
    sl_err err = config->stops ? SL_OK : sl_ckpt_copy_open(&config->store, &saver->copy);
    if (err == SL_OK)
        *out = saver;
    else
        free(saver);
    return err;
}

int64_t sl_ckpt_saver_bytes(const struct sl_ckpt_saver *saver) {
    return saver && saver->copy ? sl_ckpt_copy_bytes(saver->copy) : 0;
}

struct sl_ckpt_copy *sl_ckpt_saver_copy(const struct sl_ckpt_saver *saver) {
    return saver->copy;
}

static sl_err write_from(struct sl_ckpt_saver *saver, const struct sl_ckpt_copy *copy) {
    return sl_ckpt_store_save(&saver->config.store, copy, &saver->config.target, &saver->place);
}

static void *write_concurrently(void *arg) {
    struct sl_ckpt_saver *saver = arg;
    int64_t begin = sl_clock_ns(), cpu = sl_clock_cpu_ns();
    sl_ckpt_copy_finish(saver->copy); /* first, because optimizer steps may wait for it */
    /* of this thread only; failure is ignored */
    setpriority(PRIO_PROCESS, (id_t)gettid(), WRITER_NICE);
    saver->err = write_from(saver, saver->copy);
    if (saver->err != SL_OK)
        snprintf(saver->message, sizeof saver->message, "%s", sl_err_message());
    saver->report.write_ns = sl_clock_ns() - begin;
    saver->report.cpu_ns = sl_clock_cpu_ns() - cpu;
    atomic_store(&saver->done, true);
    return NULL;
}

/* Joins the writer thread and returns its error. */
static sl_err finish(struct sl_ckpt_saver *saver) {
    int64_t begin = sl_clock_ns();
    if (!saver->writing)
        return SL_OK;
    pthread_join(saver->thread, NULL);
    saver->waited_ns += sl_clock_ns() - begin;
    saver->report.stall_ns += sl_ckpt_copy_waited_ns(saver->copy);
    saver->writing = false;
    saver->reported = false;
    if (saver->err != SL_OK)
        sl_err_set_message(saver->message);
    return saver->err;
}

void sl_ckpt_saver_close(struct sl_ckpt_saver *saver) {
    if (!saver)
        return;
    if (saver->writing)
        pthread_join(saver->thread, NULL);
    sl_ckpt_copy_close(saver->copy);
    free(saver);
}

static sl_err save_here(struct sl_ckpt_saver *saver, int64_t begin) {
    int64_t cpu = sl_clock_cpu_ns();
    SL_TRY(write_from(saver, NULL));
    saver->report.write_ns = sl_clock_ns() - begin;
    saver->report.stall_ns += saver->report.write_ns;
    saver->report.cpu_ns = sl_clock_cpu_ns() - cpu;
    saver->reported = false;
    return SL_OK;
}

sl_err sl_ckpt_saver_save(struct sl_ckpt_saver *saver, const struct sl_ckpt_place *place,
                          bool wait) {
    SL_TRY(finish(saver));
    int64_t begin = sl_clock_ns();
    saver->place = *place;
    saver->report = (struct sl_save_report){.step = place->step, .stall_ns = saver->waited_ns};
    saver->waited_ns = 0;
    if (!saver->copy || wait)
        return save_here(saver, begin);
    SL_TRY(sl_ckpt_copy_begin(saver->copy, place));
    saver->report.concurrent = true;
    atomic_store(&saver->done, false);
    if (pthread_create(&saver->thread, NULL, write_concurrently, saver) != 0) {
        sl_ckpt_copy_finish(saver->copy);
        saver->report.concurrent = false;
        return save_here(saver, begin);
    }
    saver->writing = true;
    saver->report.stall_ns += sl_clock_ns() - begin;
    return SL_OK;
}

sl_err sl_ckpt_saver_poll(struct sl_ckpt_saver *saver, bool wait, struct sl_save_report *report) {
    report->step = -1;
    if (saver->writing && (wait || atomic_load(&saver->done)))
        SL_TRY(finish(saver));
    if (saver->writing || saver->reported)
        return SL_OK;
    saver->reported = true;
    *report = saver->report;
    return SL_OK;
}
