/* Initial values are a pure function of (seed, name, index), so any cut and any number of
 * threads give the same bits. Stored values come from the file that the model names; without it
 * they are NaN, and a checkpoint must replace them. The worker's threads compute them on the
 * host, one buffer at a time. */
#include "base/par.h"
#include "base/rng.h"
#include "op/registry.h"
#include "run/part.h"
#include "run/worker.h"

#include <stdlib.h>

enum { PIECE = 4096, BUFFER = 64 * PIECE }; /* sizes in values */

struct fill {
    const struct sl_stored_values *stored;
    const struct sl_param *param;
    const struct sl_init *init;
    uint64_t seed, stream;
    int64_t first, count; /* the elements of the tensor that the buffer holds */
    float *buffer;
};

static void fill_piece(void *ctx, int64_t piece) {
    const struct fill *f = ctx;
    int64_t from = piece * PIECE, to = from + PIECE < f->count ? from + PIECE : f->count;
    for (int64_t i = from; i < to; i++)
        f->buffer[i] = (float)sl_op_init_value(f->init, f->seed, f->stream,
                                               sl_run_part_whole(f->param->part_of, f->first + i));
}

/* Reads stored values. Runs of a part that are consecutive in the whole tensor are read
 * together. */
static sl_err read_stored(const struct fill *f) {
    const struct sl_part_of *part = f->param->part_of;
    const char *name = part ? part->name : f->param->name;
    for (int64_t i = 0, n; i < f->count; i += n) {
        int64_t at = sl_run_part_whole(part, f->first + i);
        for (n = 1; i + n < f->count && sl_run_part_whole(part, f->first + i + n) == at + n;)
            n++;
        SL_TRY(f->stored->read(f->stored->ctx, name, at, n, f->buffer + i));
    }
    return SL_OK;
}

/* The name in files: that of the whole tensor. */
static const char *name_of(const struct sl_param *param) {
    return param->part_of ? param->part_of->name : param->name;
}

static bool is_stored(const struct fill *f) {
    const struct sl_stored_values *stored = f->stored;
    return stored->read && (f->init->kind == SL_INIT_STORED ||
                            (stored->has && stored->has(stored->ctx, name_of(f->param))));
}

/* Computes one tensor and copies it into each of `slabs`, at its offset. */
static sl_err init_tensor(struct sl_worker *w, const struct sl_program_param *place, struct fill *f,
                          void *const *slabs, int slab_count) {
    const struct sl_device_row *row = w->device->row;
    bool stored = is_stored(f);
    for (f->first = 0; f->first < place->numel; f->first += BUFFER) {
        int64_t left = place->numel - f->first;
        f->count = left < BUFFER ? left : BUFFER;
        if (stored)
            SL_TRY(read_stored(f));
        else
            sl_par_for((f->count + PIECE - 1) / PIECE, w->device->threads, fill_piece, f);
        for (int s = 0; s < slab_count; s++)
            SL_TRY(row->upload(w->device, SL_STREAM_COMPUTE,
                               (char *)slabs[s] + place->offset + f->first * 4, f->buffer,
                               f->count * 4));
        /* wait for the copies, because the buffer is reused */
        SL_TRY(row->sync(w->device, SL_STREAM_COMPUTE));
    }
    return SL_OK;
}

struct tensors {
    const struct sl_program_param *list;
    int count;
    const struct sl_param *table;
};

static sl_err init_tensors(struct sl_worker *w, struct tensors tensors, uint64_t seed,
                           void *const *slabs, int slab_count) {
    struct fill fill = {.seed = seed,
                        .stored = &w->graph->stored,
                        .buffer = sl_realloc(NULL, sizeof(float) * BUFFER)};
    sl_err err = SL_OK;
    for (int i = 0; err == SL_OK && i < tensors.count; i++) {
        const struct sl_param *param = &tensors.table[tensors.list[i].param];
        fill.param = param;
        fill.init = &param->init;
        fill.stream = sl_rng_stream(param->part_of ? param->part_of->name : param->name);
        err = init_tensor(w, &tensors.list[i], &fill, slabs, slab_count);
    }
    free(fill.buffer);
    return err;
}

sl_err sl_run_worker_init(struct sl_worker *w, uint64_t seed) {
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    struct tensors params = {p->params, p->param_count, w->graph->params.at};
    struct tensors fixed = {p->fixed, p->fixed_count, w->graph->params.at};
    struct tensors states = {p->states, p->state_count, w->graph->states.at};
    SL_TRY(init_tensors(w, params, seed, w->param, w->versions));
    SL_TRY(init_tensors(w, fixed, seed, &w->fixed, 1)); /* w->fixed is NULL if this list is empty */
    return init_tensors(w, states, seed, &w->state, 1);
}
