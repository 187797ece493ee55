/* The state of a seat of a full pipeline, as bytes:
 *
 *   host     numbers | messages under way to this seat
 *   device   weights, versions | gradients | slots | running statistics with the borders
 *
 * Numbers are doubles that hold integers exactly: gradient buffers in use, newest slab, numbers
 * of the messages, loss terms, decisions, loss scales. The first seat of a worker holds those of
 * the worker. */
#include "base/map.h"
#include "pipe/reporter.h"
#include "pipe/resume.h"
#include "pipe/scale.h"

#include <stdlib.h>
#include <string.h>

enum { FIXED = 2 }; /* numbers that the image of every seat has: `filled` and `newest` */

static struct sl_pipe_worker *worker_of(const struct sl_pipe *pipe,
                                        const struct sl_pipe_seat *seat) {
    return &pipe->workers[pipe->config.plan->seats[seat->number].worker];
}

static bool is_first(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat) {
    return seat == &worker_of(pipe, seat)->seats[0];
}

static int64_t term_count(const struct sl_pipe *pipe) {
    return sl_pipe_terms_ahead(pipe) * pipe->max_micros * pipe->train.graph->losses.count;
}

static int64_t number_count(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat) {
    int64_t count = FIXED + 2 * pipe->boxes.count + seat->border.count;
    if (is_first(pipe, seat))
        count += term_count(pipe) + sl_pipe_terms_ahead(pipe) +
                 sl_pipe_global_step_count(worker_of(pipe, seat)) + sl_pipe_scale_count(pipe) +
                 sl_sched_group_count(pipe->config.plan);
    return count;
}

static int64_t mail_bytes(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat) {
    int64_t bytes = 0;
    for (int64_t i = 0; i < pipe->boxes.count; i++) {
        const struct sl_pipe_box *box = pipe->boxes.at[i];
        if (box->reader == seat->number)
            bytes += box->channel->spec.places * box->channel->spec.size_bytes;
    }
    return (bytes + 7) & ~7LL;
}

/* ---- slabs ---- */

/* Returns slab i of the device, or NULL if there are fewer. */
static void *slab_at(const struct sl_pipe_seat *seat, int i, int64_t *size_bytes) {
    const struct sl_worker *w = seat->train.worker;
    const struct sl_program *p = w->programs[SL_WORKER_FULL];
    *size_bytes = p->param_bytes;
    if (i < w->versions)
        return w->param[i];
    i -= w->versions;
    *size_bytes = p->grad_bytes;
    if (i < w->grad_slots)
        return w->grad[i];
    i -= w->grad_slots;
    *size_bytes = w->slot_bytes;
    if (i < w->slots)
        return w->slot[i];
    i -= w->slots;
    *size_bytes = p->state_bytes;
    if (i == 0)
        return w->state;
    return i <= seat->border.count ? seat->border.slabs[i - 1] : NULL;
}

int64_t sl_pipe_image_bytes(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat) {
    int64_t all = number_count(pipe, seat) * 8 + mail_bytes(pipe, seat), size;
    for (int i = 0; slab_at(seat, i, &size); i++)
        all += size;
    return (all + 3) & ~3LL;
}

uint64_t sl_pipe_image_layout(const struct sl_pipe_seat *seat) {
    struct sl_text text = {0};
    for (int i = SL_WORKER_FULL; i <= SL_WORKER_LAST; i++)
        if (seat->train.worker->programs[i])
            sl_pass_program_write(seat->train.worker->programs[i], &text);
    uint64_t hash = sl_hash(text.at, (size_t)text.length);
    sl_text_free(&text);
    return hash;
}

void sl_pipe_image_open(const struct sl_pipe *pipe, struct sl_pipe_seat *seat) {
    struct sl_pipe_image *image = &seat->image;
    image->host_bytes = number_count(pipe, seat) * 8 + mail_bytes(pipe, seat);
    image->bytes = sl_pipe_image_bytes(pipe, seat);
    image->host = (char *)SL_NEW(&seat->train.arena, double, image->host_bytes / 8 + 1);
}

/* Copies a part of the image out of the device to `out`, or, if `out` is NULL, from `in` to the
 * device. */
static sl_err move(const struct sl_pipe_seat *seat, int64_t from, int64_t size_bytes, char *out,
                   const char *in) {
    struct sl_device *device = seat->train.device;
    int64_t start = 0, size = seat->image.host_bytes, done = 0;
    char *slab = seat->image.host;
    for (int i = -1; slab && done < size_bytes; start += size, slab = slab_at(seat, ++i, &size)) {
        int64_t at = from + done - start, n = size - at;
        n = n < size_bytes - done ? n : size_bytes - done;
        if (at >= size || n <= 0)
            continue;
        if (i < 0)
            memcpy(out ? out + done : slab + at, out ? slab + at : in + done, (size_t)n);
        else if (out)
            SL_TRY(device->row->download(device, SL_STREAM_COMPUTE, out + done, slab + at, n));
        else
            SL_TRY(device->row->upload(device, SL_STREAM_COMPUTE, slab + at, in + done, n));
        done += n;
    }
    if (out && done < size_bytes) /* the rest is padding */
        memset(out + done, 0, (size_t)(size_bytes - done));
    return device->row->sync(device, SL_STREAM_COMPUTE);
}

sl_err sl_pipe_image_get(const struct sl_pipe_seat *seat, int64_t from, int64_t size_bytes,
                         void *out) {
    return move(seat, from, size_bytes, out, NULL);
}

sl_err sl_pipe_image_put(const struct sl_pipe_seat *seat, int64_t from, int64_t size_bytes,
                         const void *in) {
    return move(seat, from, size_bytes, NULL, in);
}

/* ---- numbers ---- */

static void put_numbers(const struct sl_pipe *pipe, struct sl_pipe_seat *seat) {
    double *out = (double *)(void *)seat->image.host;
    *out++ = (double)seat->filled;
    *out++ = seat->newest;
    for (int64_t i = 0; i < pipe->boxes.count; i++) {
        const struct sl_pipe_box *box = pipe->boxes.at[i];
        *out++ = box->sender == seat->number ? (double)box->sent : 0;
        *out++ = box->reader == seat->number ? (double)box->taken : 0;
    }
    for (int i = 0; i < seat->border.count; i++)
        *out++ = (double)seat->border.iteration[i];
    if (!is_first(pipe, seat))
        return;
    sl_pipe_global_step_put(worker_of(pipe, seat), out);
    out += sl_pipe_global_step_count(worker_of(pipe, seat));
    sl_pipe_scale_put(worker_of(pipe, seat), out);
    out += sl_pipe_scale_count(pipe);
    sl_pipe_terms_put(pipe, out, term_count(pipe));
    out += term_count(pipe);
    sl_pipe_reporter_put(pipe, out, sl_pipe_terms_ahead(pipe));
    out += sl_pipe_terms_ahead(pipe);
    for (int g = 0; g < sl_sched_group_count(pipe->config.plan); g++)
        *out++ = worker_of(pipe, seat)->reduce_seen[g];
}

static void get_numbers(struct sl_pipe *pipe, struct sl_pipe_seat *seat) {
    const double *in = (const double *)(const void *)seat->image.host;
    seat->filled = (uint64_t)*in++;
    seat->newest = (int)*in++;
    for (int64_t i = 0; i < pipe->boxes.count; i++, in += 2) {
        struct sl_pipe_box *box = pipe->boxes.at[i];
        if (box->sender == seat->number)
            box->sent = (int64_t)in[0];
        if (box->reader == seat->number)
            box->taken = (int64_t)in[1];
    }
    for (int i = 0; i < seat->border.count; i++)
        seat->border.iteration[i] = (int64_t)*in++;
    if (!is_first(pipe, seat))
        return;
    sl_pipe_global_step_get(worker_of(pipe, seat), in);
    in += sl_pipe_global_step_count(worker_of(pipe, seat));
    sl_pipe_scale_get(worker_of(pipe, seat), in);
    in += sl_pipe_scale_count(pipe);
    sl_pipe_terms_get(pipe, in, term_count(pipe));
    in += term_count(pipe);
    sl_pipe_reporter_get(pipe, in, sl_pipe_terms_ahead(pipe));
    in += sl_pipe_terms_ahead(pipe);
    for (int g = 0; g < sl_sched_group_count(pipe->config.plan); g++)
        worker_of(pipe, seat)->reduce_seen[g] = (int)*in++;
}

/* ---- messages under way ---- */

/* Shares how many messages each sender has sent; only the sender's rank knows. */
static sl_err share_sent(struct sl_pipe *pipe, int64_t *sent) {
    for (int64_t i = 0; i < pipe->boxes.count; i++)
        sent[i] = pipe->seat_at[pipe->boxes.at[i]->sender] ? pipe->boxes.at[i]->sent : 0;
    return sl_comm_merge(pipe->comm, sent, pipe->boxes.count * (int64_t)sizeof *sent);
}

/* Copies the unread messages of a box to `out`; waits until they have arrived. They stay in the
 * channel. */
static sl_err copy_mail(const struct sl_pipe_seat *seat, struct sl_pipe_box *box, int64_t sent,
                        char *out) {
    struct sl_device *device = seat->train.device;
    int64_t size = box->channel->spec.size_bytes;
    for (int64_t n = box->taken; n < sent; n++, out += size) {
        struct sl_message message;
        SL_TRY(sl_pipe_mail_receive(box, n, &message));
        SL_TRY(device->row->copy(device, SL_STREAM_COMPUTE, out, message.at, message.size_bytes));
        SL_TRY(device->row->sync(device, SL_STREAM_COMPUTE));
    }
    return SL_OK;
}

static sl_err take_seat(struct sl_pipe *pipe, struct sl_pipe_seat *seat, const int64_t *sent) {
    int64_t numbers = number_count(pipe, seat) * 8;
    char *mail = seat->image.host + numbers;
    memset(seat->image.host, 0, (size_t)seat->image.host_bytes);
    put_numbers(pipe, seat);
    for (int64_t i = 0; i < pipe->boxes.count; i++) {
        struct sl_pipe_box *box = pipe->boxes.at[i];
        if (box->reader != seat->number)
            continue;
        SL_ASSERT(sent[i] - box->taken <= box->channel->spec.places);
        SL_TRY(copy_mail(seat, box, sent[i], mail));
        mail += box->channel->spec.places * box->channel->spec.size_bytes;
    }
    return SL_OK;
}

sl_err sl_pipe_image_take(struct sl_pipe *pipe) {
    int64_t *sent = sl_realloc(NULL, sizeof *sent * (size_t)(pipe->boxes.count + 1));
    sl_err err = share_sent(pipe, sent);
    for (int i = 0; i < pipe->config.plan->seat_count && err == SL_OK; i++)
        if (pipe->seat_at[i] && pipe->seat_at[i]->image.host)
            err = take_seat(pipe, pipe->seat_at[i], sent);
    free(sent);
    return err;
}

/* Sets worker->tied, which otherwise the first REDUCE of a run sets: the REDUCE of a tie adds the
 * uses of its parameter, so the worker must not add them. */
static void mark_tied(const struct sl_pipe *pipe, struct sl_pipe_seat *seat) {
    const struct sl_plan *plan = pipe->config.plan;
    struct sl_worker *worker = seat->train.worker;
    const struct sl_program *p = worker->programs[SL_WORKER_FULL];
    for (int t = 0; t < plan->tie_count; t++)
        for (int i = 0; i < p->param_count; i++)
            if (sl_sched_in_group(plan, plan->stage_count + t, seat->stage) &&
                strcmp(p->graph->params.at[p->params[i].param].name, plan->ties[t].name) == 0)
                worker->tied[i] = true;
}

/* Moves the loaded messages to memory that later images do not overwrite. */
static void keep_mail(struct sl_pipe *pipe, const struct sl_pipe_seat *seat, const int64_t *sent) {
    int64_t numbers = number_count(pipe, seat) * 8;
    const char *mail = seat->image.host + numbers;
    for (int64_t i = 0; i < pipe->boxes.count; i++) {
        struct sl_pipe_box *box = pipe->boxes.at[i];
        if (box->reader != seat->number)
            continue;
        int64_t size = box->channel->spec.size_bytes, count = sent[i] - box->taken;
        box->first = box->taken;
        box->last = sent[i];
        box->kept = sl_arena_dup(&pipe->arena, mail, (size_t)(count * size));
        mail += box->channel->spec.places * size;
    }
}

sl_err sl_pipe_image_apply(struct sl_pipe *pipe) {
    int64_t *sent = sl_realloc(NULL, sizeof *sent * (size_t)(pipe->boxes.count + 1));
    for (int i = 0; i < pipe->config.plan->seat_count; i++)
        if (pipe->seat_at[i]) {
            get_numbers(pipe, pipe->seat_at[i]);
            mark_tied(pipe, pipe->seat_at[i]);
        }
    sl_err err = share_sent(pipe, sent);
    for (int i = 0; i < pipe->config.plan->seat_count && err == SL_OK; i++)
        if (pipe->seat_at[i])
            keep_mail(pipe, pipe->seat_at[i], sent);
    free(sent);
    return err;
}
