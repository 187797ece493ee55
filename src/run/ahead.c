/* Micro-batches that are made ahead of time: a list of tiles, the oldest first. Threads claim
 * samples of the first tile that has unclaimed ones. */
#include "run/ahead.h"

#include "base/arena.h"
#include "base/clock.h"
#include "base/par.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { THREADS_MAX = 8, EVAL_TILES = 2 };

struct tile { /* one input of one micro-batch */
    struct tile *next;
    enum sl_data_split split;
    struct sl_data_range range;
    int input;
    bool taken; /* a reader uses it, so the list does not drop it */
    int64_t claimed, done;
    sl_err err; /* error of the first sample that failed */
    char reason[512];
    char *at;
};

struct sl_ahead {
    struct sl_ahead_config config;
    int64_t *sample_bytes; /* [inputs] bytes of a sample; 0: the input does not take long */
    pthread_t thread[THREADS_MAX];
    int threads;
    pthread_mutex_t lock;
    pthread_cond_t change; /* a tile was added or finished, or the threads shall end */
    struct tile *first;
    int tiles, tiles_max;
    bool end;
    atomic_llong ns;
};

/* ---- tiles; the caller holds the lock ---- */

static struct tile *find(const struct sl_ahead *a, enum sl_data_split split,
                         const struct sl_data_range *range, int input) {
    for (struct tile *t = a->first; t; t = t->next)
        if (!t->taken && t->split == split && t->input == input && t->range.first == range->first &&
            t->range.count == range->count)
            return t;
    return NULL;
}

static void drop(struct sl_ahead *a, struct tile *tile) {
    struct tile **at = &a->first;
    while (*at != tile)
        at = &(*at)->next;
    *at = tile->next;
    a->tiles--;
    free(tile->at);
    free(tile);
}

/* Drops a tile that nobody asked for, because the run was set back. */
static bool drop_stale(struct sl_ahead *a) {
    for (struct tile *t = a->first; t; t = t->next)
        if (!t->taken && t->done == t->claimed) {
            drop(a, t);
            return true;
        }
    return false;
}

static struct tile *add(struct sl_ahead *a, enum sl_data_split split,
                        const struct sl_data_range *range, int input, bool urgent) {
    struct tile *tile = sl_realloc(NULL, sizeof *tile), **at = &a->first;
    *tile = (struct tile){.split = split, .range = *range, .input = input, .taken = urgent};
    tile->at = sl_realloc(NULL, (size_t)(range->count * a->sample_bytes[input]));
    while (*at && !urgent)
        at = &(*at)->next;
    tile->next = *at;
    *at = tile;
    a->tiles++;
    pthread_cond_broadcast(&a->change);
    return tile;
}

/* Adds the tile that this reader will need next: the same micro-batch of the next step, or the next
 * micro-batch of an evaluation. */
static void expect(struct sl_ahead *a, enum sl_data_split split, const struct sl_data_range *range,
                   int input) {
    const struct sl_ahead_config *c = &a->config;
    struct sl_data_range next = *range;
    next.first += split == SL_DATA_TRAIN ? c->batch : range->count;
    if (split == SL_DATA_TRAIN ? next.first + next.count > c->last
                               : next.first + next.count > sl_data_count(c->data, split))
        return;
    if (find(a, split, &next, input) || (a->tiles >= a->tiles_max && !drop_stale(a)))
        return;
    add(a, split, &next, input, false);
}

/* ---- making samples ---- */

static struct tile *unclaimed(const struct sl_ahead *a) {
    for (struct tile *t = a->first; t; t = t->next)
        if (t->claimed < t->range.count)
            return t;
    return NULL;
}

/* Makes one sample of a tile. It releases the lock meanwhile. */
static void make_one(struct sl_ahead *a, struct tile *t) {
    int64_t i = t->claimed++;
    pthread_mutex_unlock(&a->lock);
    sl_err err = sl_data_fill(a->config.data, t->split, t->range.first + i, 1, t->input,
                              t->at + i * a->sample_bytes[t->input]);
    pthread_mutex_lock(&a->lock);
    if (err != SL_OK && t->err == SL_OK) {
        t->err = err;
        snprintf(t->reason, sizeof t->reason, "%s", sl_err_message());
    }
    if (++t->done == t->range.count)
        pthread_cond_broadcast(&a->change);
}

static void *thread_main(void *ctx) {
    struct sl_ahead *a = ctx;
    pthread_mutex_lock(&a->lock);
    while (!a->end) {
        struct tile *t = unclaimed(a);
        if (t)
            make_one(a, t);
        else
            pthread_cond_wait(&a->change, &a->lock);
    }
    pthread_mutex_unlock(&a->lock);
    return NULL;
}

static sl_err read_tile(struct sl_ahead *a, enum sl_data_split split,
                        const struct sl_data_range *range, int input, void *dst) {
    pthread_mutex_lock(&a->lock);
    struct tile *t = find(a, split, range, input);
    if (!t)
        t = add(a, split, range, input, true);
    t->taken = true;
    while (t->claimed < range->count)
        make_one(a, t);
    while (t->done < range->count)
        pthread_cond_wait(&a->change, &a->lock);
    pthread_mutex_unlock(&a->lock);
    sl_err err = t->err;
    if (err == SL_OK)
        memcpy(dst, t->at, (size_t)(range->count * a->sample_bytes[input]));
    else
        err = sl_fail(err, "%s", t->reason);
    pthread_mutex_lock(&a->lock);
    drop(a, t);
    if (err == SL_OK)
        expect(a, split, range, input);
    pthread_mutex_unlock(&a->lock);
    return err;
}

/* ---- the object ---- */

sl_err sl_run_ahead_fill(struct sl_ahead *a, enum sl_data_split split,
                         const struct sl_data_range *range, int input, void *dst) {
    int64_t start = sl_clock_ns();
    sl_err err = a->sample_bytes[input] && a->threads && range->count
                     ? read_tile(a, split, range, input, dst)
                     : sl_data_fill(a->config.data, split, range->first, range->count, input, dst);
    atomic_fetch_add(&a->ns, sl_clock_ns() - start);
    return err;
}

int64_t sl_run_ahead_take_ns(struct sl_ahead *a) { return a ? atomic_exchange(&a->ns, 0) : 0; }

static int64_t micro_samples(const struct sl_ahead_config *c) {
    return (c->batch + c->micros - 1) / c->micros;
}

int64_t sl_run_ahead_bytes(const struct sl_ahead *a) {
    int64_t bytes = 0;
    for (int i = 0; a && i < a->config.input_count; i++)
        bytes += a->sample_bytes[i] * (a->config.batch + EVAL_TILES * micro_samples(&a->config));
    return bytes;
}

sl_err sl_run_ahead_open(const struct sl_ahead_config *config, struct sl_ahead **out) {
    struct sl_ahead *a = sl_realloc(NULL, sizeof *a);
    int costly = 0, threads = config->threads ? config->threads : sl_par_cores();
    memset(a, 0, sizeof *a);
    a->config = *config;
    a->sample_bytes = sl_realloc(NULL, sizeof *a->sample_bytes * (size_t)(config->input_count + 1));
    for (int i = 0; i < config->input_count; i++) {
        int64_t bytes = 4;
        for (int k = 0; k < config->inputs[i].rank; k++)
            bytes *= config->inputs[i].dim[k];
        a->sample_bytes[i] = sl_data_is_costly(config->data, i) ? bytes : 0;
        costly += a->sample_bytes[i] > 0;
    }
    a->config.inputs = NULL;
    a->tiles_max = costly * (int)(config->micros + EVAL_TILES);
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->change, NULL);
    threads = threads < THREADS_MAX ? threads : THREADS_MAX;
    sl_err err = SL_OK;
    for (int i = 0; costly && i < threads && err == SL_OK; i++) {
        if (pthread_create(&a->thread[i], NULL, thread_main, a) != 0)
            err = sl_fail(SL_ERR_SYSTEM, "cannot start a thread that reads data");
        else
            a->threads++;
    }
    if (err != SL_OK)
        sl_run_ahead_close(a);
    else
        *out = a;
    return err;
}

void sl_run_ahead_close(struct sl_ahead *a) {
    if (!a)
        return;
    pthread_mutex_lock(&a->lock);
    a->end = true;
    pthread_cond_broadcast(&a->change);
    pthread_mutex_unlock(&a->lock);
    for (int i = 0; i < a->threads; i++)
        pthread_join(a->thread[i], NULL);
    while (a->first)
        drop(a, a->first);
    pthread_mutex_destroy(&a->lock);
    pthread_cond_destroy(&a->change);
    free(a->sample_bytes);
    free(a);
}
