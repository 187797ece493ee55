/* The weights that the passes of the current micro-batch read, and those that later ones still need. */
#include "emulate/state.h"

#include <stdlib.h>

static struct sl_read read_of(const struct sl_emulate *e, const struct sl_emulate_view *view,
                              int group, int64_t micro) {
    return sl_sched_read_of(&e->reads, e->groups[group].stage, view->backward, micro);
}

static bool same(struct sl_read a, struct sl_read b) {
    return a.version == b.version && a.ahead == b.ahead;
}

/* ---- queues ---- */

/* Lists what the queue must hold after a step. The next micro-batch has its content already.
 * Contents of the new version and of later ones come from slab 0 when they are needed. */
int sl_emulate_pending(const struct sl_emulate *e, const struct sl_emulate_view *view, int group,
                       int64_t version, struct sl_read *out) {
    int64_t micro = version * e->reads.micros, total = (int64_t)e->sched->iters * e->reads.micros;
    int count = 0;
    if (micro >= total)
        return 0;
    struct sl_read last = read_of(e, view, group, micro);
    while (++micro < total) {
        struct sl_read read = read_of(e, view, group, micro);
        if (read.version >= version)
            break;
        if (same(read, last))
            continue;
        if (out)
            out[count] = read;
        count++;
        last = read;
    }
    return count;
}

static int depth_of(const struct sl_emulate *e, const struct sl_emulate_view *view, int group) {
    int depth = 0;
    for (int64_t n = 0, t; (t = sl_sched_reads_sample(&e->reads, n)) >= 0; n++) {
        int count = sl_emulate_pending(e, view, group, t, NULL);
        depth = count > depth ? count : depth;
    }
    return depth;
}

sl_err sl_emulate_check_depth(const struct sl_emulate *e) {
    for (int v = 0; v < e->view_count; v++)
        for (int g = 0; g < e->group_count; g++)
            if (depth_of(e, &e->views[v], g) > e->views[v].queues[g].depth)
                return sl_fail(SL_ERR_REFUSED,
                               "a run of this length needs more weight versions of stage %d than "
                               "the emulation was opened with",
                               e->groups[g].stage);
    return SL_OK;
}

static sl_err open_queue(struct sl_emulate *e, const struct sl_emulate_view *view, int group) {
    struct sl_emulate_queue *q = &view->queues[group];
    const struct sl_device_row *row = e->train.device->row;
    int64_t bytes = e->groups[group].bytes;
    q->depth = depth_of(e, view, group);
    q->reads = SL_NEW(&e->arena, struct sl_read, q->depth + 1);
    q->memory = SL_NEW(&e->arena, char *, q->depth + 1);
    for (int i = 0; i < q->depth; i++) {
        void *memory = NULL;
        SL_TRY(row->alloc(e->train.device, bytes ? bytes : 64, &memory));
        q->memory[i] = memory;
        e->version_bytes += bytes;
    }
    return SL_OK;
}

sl_err sl_emulate_open_views(struct sl_emulate *e) {
    int64_t slab = e->train.worker->programs[SL_WORKER_FULL]->param_bytes;
    e->version_bytes = slab * (e->view_count + (e->scratch >= 0));
    for (int v = 0; v < e->view_count; v++) {
        e->views[v].queues = SL_NEW(&e->arena, struct sl_emulate_queue, e->group_count);
        for (int g = 0; g < e->group_count; g++)
            SL_TRY(open_queue(e, &e->views[v], g));
    }
    return SL_OK;
}

void sl_emulate_close_views(struct sl_emulate *e) {
    for (int v = 0; v < e->view_count; v++)
        for (int g = 0; e->views[v].queues && g < e->group_count; g++)
            for (int i = 0; i < e->views[v].queues[g].depth; i++)
                e->train.device->row->free(e->train.device, e->views[v].queues[g].memory[i]);
}

void sl_emulate_forget_views(struct sl_emulate *e) {
    for (int v = 0; v < e->view_count; v++)
        for (int g = 0; g < e->group_count; g++) {
            e->views[v].queues[g].valid = false;
            e->views[v].queues[g].count = e->views[v].queues[g].first = 0;
        }
}

/* ---- contents ---- */

/* Copies a group between a slab and a content. `slab` is the start of a slab. */
static sl_err copy_content(struct sl_emulate *e, int group, char *slab, char *content,
                           bool to_slab) {
    const struct sl_emulate_group *g = &e->groups[group];
    struct sl_device *device = e->train.device;
    for (int i = 0; i < g->range_count; i++) {
        char *in_slab = slab + g->ranges[i].first;
        SL_TRY(device->row->copy(device, SL_STREAM_COMPUTE, to_slab ? in_slab : content,
                                 to_slab ? content : in_slab, g->ranges[i].count));
        content += g->ranges[i].count;
    }
    return SL_OK;
}

static sl_err copy_between_slabs(struct sl_emulate *e, int group, int to, int from) {
    const struct sl_emulate_group *g = &e->groups[group];
    struct sl_worker *worker = e->train.worker;
    for (int i = 0; i < g->range_count; i++)
        SL_TRY(worker->device->row->copy(
            worker->device, SL_STREAM_COMPUTE, (char *)worker->param[to] + g->ranges[i].first,
            (char *)worker->param[from] + g->ranges[i].first, g->ranges[i].count));
    return SL_OK;
}

/* Copies slab 0, which holds the version, into another slab or into a content of a queue. */
static sl_err make_content(struct sl_emulate *e, int group, struct sl_read read, int slab,
                           char *content) {
    const struct sl_emulate_group *g = &e->groups[group];
    struct sl_run_predict predict = {
        .from = 0,
        .to = slab,
        .out = content,
        .out_at = e->row_at,
        .ahead = read.ahead,
        .micros = e->reads.micros,
        .step = e->origin + read.version,
        .params = g->params,
        .param_count = g->count,
    };
    SL_ASSERT(read.version == e->done);
    if (read.ahead)
        return sl_run_policy_predict(&e->policy, &predict);
    return content ? copy_content(e, group, e->train.worker->param[0], content, false)
                   : copy_between_slabs(e, group, slab, 0);
}

static sl_err take_content(struct sl_emulate *e, const struct sl_emulate_view *view, int group,
                           struct sl_read read) {
    struct sl_emulate_queue *q = &view->queues[group];
    SL_ASSERT(q->count && same(q->reads[q->first], read));
    SL_TRY(copy_content(e, group, e->train.worker->param[view->slab], q->memory[q->first], true));
    q->first = (q->first + 1) % q->depth;
    q->count--;
    return SL_OK;
}

static sl_err advance_group(struct sl_emulate *e, const struct sl_emulate_view *view, int group,
                            int64_t micro) {
    struct sl_emulate_queue *q = &view->queues[group];
    struct sl_read read = read_of(e, view, group, micro);
    if (read.version > e->done || (q->valid && same(q->now, read)))
        return SL_OK;
    if (read.version == e->done)
        SL_TRY(make_content(e, group, read, view->slab, NULL));
    else
        SL_TRY(take_content(e, view, group, read));
    q->now = read;
    q->valid = true;
    return SL_OK;
}

sl_err sl_emulate_advance(struct sl_emulate *e, int64_t micro) {
    if (micro >= (int64_t)e->sched->iters * e->reads.micros)
        return SL_OK;
    for (int v = 0; v < e->view_count; v++)
        for (int g = 0; g < e->group_count; g++)
            SL_TRY(advance_group(e, &e->views[v], g, micro));
    return SL_OK;
}

static sl_err save_group(struct sl_emulate *e, const struct sl_emulate_view *view, int group,
                         struct sl_read *pending) {
    struct sl_emulate_queue *q = &view->queues[group];
    int count = sl_emulate_pending(e, view, group, e->done + 1, pending);
    SL_ASSERT(count >= q->count && count <= q->depth);
    while (q->count < count) {
        int at = (q->first + q->count) % q->depth;
        q->reads[at] = pending[q->count];
        SL_TRY(make_content(e, group, q->reads[at], 0, q->memory[at]));
        q->count++;
    }
    return SL_OK;
}

sl_err sl_emulate_save(struct sl_emulate *e) {
    for (int v = 0; v < e->view_count; v++)
        for (int g = 0; g < e->group_count; g++) {
            struct sl_read *pending =
                sl_realloc(NULL, sizeof *pending * (size_t)(e->views[v].queues[g].depth + 1));
            sl_err err = save_group(e, &e->views[v], g, pending);
            free(pending);
            SL_TRY(err);
        }
    return SL_OK;
}
