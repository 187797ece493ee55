/* Opening a body, filling its memory, running its passes. */
#include "profile/body.h"

#include "base/clock.h"
#include "base/half.h"
#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

static int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

sl_err sl_profile_body_alloc(struct sl_body *b, int64_t bytes, void **out) {
    return b->device->row->alloc(b->device, larger(bytes, 64), out);
}

static sl_err alloc(struct sl_body *b, enum sl_space space, int64_t bytes) {
    return sl_profile_body_alloc(b, bytes, &b->base[space]);
}

static sl_err upload(struct sl_body *b, enum sl_space space, int64_t offset, const void *from,
                     int64_t bytes) {
    return b->device->row->upload(b->device, SL_STREAM_COMPUTE, (char *)b->base[space] + offset,
                                  from, bytes);
}

/* Fill weights with repeated small numbers; the time of kernels does not depend on the values. */
static sl_err fill_params(struct sl_body *b, enum sl_space space, int64_t bytes) {
    enum { BLOCK = 1 << 16 };
    int64_t size = BLOCK * (int64_t)sizeof(float);
    float *x = malloc((size_t)size);
    sl_err err = x ? SL_OK : sl_fail(SL_ERR_SYSTEM, "no memory for parameters");
    for (int64_t i = 0; x && i < BLOCK; i++)
        x[i] = 0.04f * ((float)(sl_rng_u32(1, 0, (uint64_t)i) >> 8) / 16777216.0f - 0.5f);
    for (int64_t at = 0; at < bytes && err == SL_OK; at += size)
        err = upload(b, space, at, x, bytes - at < size ? bytes - at : size);
    if (err == SL_OK)
        err = b->device->row->sync(b->device, SL_STREAM_COMPUTE);
    free(x);
    return err;
}

/* Draw integers in their range and floats around 0; seeds are 1. */
static void draw_port(const struct sl_graph *graph, const struct sl_program_port *port,
                      enum sl_feed_kind kind, void *out) {
    int64_t below = kind == SL_FEED_INPUT ? graph->inputs.at[port->index].below : 0;
    uint32_t *words = out;
    uint16_t *halves = out;
    for (int64_t i = 0; i < port->operand.numel; i++) {
        uint32_t draw = sl_rng_u32(2, (uint64_t)port->value, (uint64_t)i), bits;
        float value = kind == SL_FEED_SEED ? 1.0f : (float)(draw >> 8) / 16777216.0f - 0.5f;
        memcpy(&bits, &value, 4);
        if (port->operand.dtype == SL_INT)
            words[i] = draw % (uint32_t)(below > 0 && below < INT32_MAX ? below : 2);
        else if (sl_dtype_is_half(port->operand.dtype))
            halves[i] = port->operand.dtype == SL_FP16 ? sl_fp16_of(value) : sl_bf16_of(value);
        else
            words[i] = bits;
    }
}

static bool is_here(const struct sl_body *b, int node) {
    return !b->part.stage_of || b->part.stage_of[node] == b->part.stage;
}

static int reader_of(const struct sl_body *b, int value) {
    const struct sl_graph *graph = b->program->graph;
    for (int n = 0; n < graph->forward_count; n++)
        for (int i = 0; i < graph->nodes.at[n].in_count; i++)
            if (graph->nodes.at[n].in[i] == value && is_here(b, n))
                return n;
    return -1;
}

static int reader_of_seed(const struct sl_graph *graph, int loss) {
    const struct sl_value *v = sl_graph_value(graph, graph->losses.at[loss].value);
    return v->kind == SL_VALUE_NODE && v->node < graph->forward_count ? v->node : 0;
}

/* Copy a received value from its message buffer in device memory into the slot. */
static sl_err post(struct sl_body *b, struct sl_profile_body_feed *feed) {
    const struct sl_device_row *row = b->device->row;
    int64_t bytes = sl_pass_operand_bytes(&feed->operand);
    SL_TRY(sl_profile_body_alloc(b, bytes, &feed->message));
    SL_TRY(row->upload(b->device, SL_STREAM_COMPUTE, feed->message, feed->host, bytes));
    return row->sync(b->device, SL_STREAM_COMPUTE);
}

static sl_err draw_ports(struct sl_body *b, const struct sl_ports *ports, enum sl_feed_kind kind) {
    const struct sl_graph *graph = b->program->graph;
    for (int p = 0; p < ports->count; p++) {
        const struct sl_program_port *port = &ports->at[p];
        struct sl_profile_body_feed feed = {.kind = kind,
                                            .operand = port->operand,
                                            .host = malloc((size_t)port->operand.numel * 4 + 64),
                                            .input = kind == SL_FEED_INPUT ? port->index : -1,
                                            .reader = -1};
        if (kind == SL_FEED_INPUT)
            feed.reader = reader_of(b, port->value);
        if (kind == SL_FEED_SEED)
            feed.reader = reader_of_seed(graph, port->index);
        if (!feed.host)
            return sl_fail(SL_ERR_SYSTEM, "no memory for an input");
        draw_port(graph, port, kind, feed.host);
        SL_PUSH(&b->feeds, feed);
        if (kind == SL_FEED_ACT || kind == SL_FEED_GRAD)
            SL_TRY(post(b, &b->feeds.at[b->feeds.count - 1]));
    }
    return SL_OK;
}

static sl_err put_feed(struct sl_body *b, struct sl_profile_body_feed *feed, int slot,
                       int64_t round) {
    const struct sl_operand *o = &feed->operand;
    const struct sl_device_row *row = b->device->row;
    int64_t samples = b->program->samples, start = sl_clock_ns();
    b->base[SL_SPACE_SLOT] = b->slots[slot];
    if (b->spec->fill && feed->input >= 0)
        SL_TRY(b->spec->fill(b->spec->data, round * samples, samples, feed->input, feed->host));
    if (feed->message)
        SL_TRY(row->copy(b->device, SL_STREAM_COMPUTE, (char *)b->slots[slot] + o->offset,
                         feed->message, sl_pass_operand_bytes(o)));
    else
        SL_TRY(upload(b, o->space, o->offset, feed->host, sl_pass_operand_bytes(o)));
    SL_TRY(row->sync(b->device, SL_STREAM_COMPUTE));
    feed->dur_ns = sl_clock_ns() - start;
    if (feed->message) {
        b->copied_bytes += sl_pass_operand_bytes(o);
        b->copied_ns += feed->dur_ns;
    }
    return SL_OK;
}

sl_err sl_profile_body_feed(struct sl_body *b, int slot, int64_t round) {
    for (int64_t i = 0; i < b->feeds.count; i++)
        if (b->feeds.at[i].kind <= SL_FEED_SEED)
            SL_TRY(put_feed(b, &b->feeds.at[i], slot, round));
    return SL_OK;
}

static int64_t message_bytes(const struct sl_program *p) {
    int64_t max = 0;
    for (int i = 0; i < p->send_act.count; i++)
        max = larger(max, sl_pass_operand_bytes(&p->send_act.at[i].operand));
    for (int i = 0; i < p->send_grad.count; i++)
        max = larger(max, sl_pass_operand_bytes(&p->send_grad.at[i].operand));
    return max;
}

static sl_err open_body(struct sl_body *b, const struct sl_profile_spec *spec,
                        const struct sl_body_part *part, int64_t micro) {
    struct sl_device_config config = {.threads = spec->threads,
                                      .bind = part->place >= 0,
                                      .place = part->place,
                                      .tf32 = spec->tf32};
    struct sl_program_spec program = {.graph = spec->graph,
                                      .stage_of = part->stage_of,
                                      .stage = part->stage,
                                      .samples = micro,
                                      .has_kernel = spec->device->has_kernel,
                                      .dtype = spec->dtype};
    b->spec = spec;
    b->part = *part;
    SL_TRY(spec->device->open(&config, &b->device));
    SL_TRY(sl_pass_program_build(&program, &b->program));
    const struct sl_program *p = b->program;
    SL_TRY(alloc(b, SL_SPACE_PARAM, p->param_bytes));
    SL_TRY(alloc(b, SL_SPACE_FIXED, p->fixed_bytes));
    SL_TRY(alloc(b, SL_SPACE_GRAD, p->grad_bytes));
    SL_TRY(alloc(b, SL_SPACE_STATE, p->state_bytes));
    b->slots = calloc((size_t)part->slots, sizeof *b->slots);
    if (!b->slots)
        return sl_fail(SL_ERR_SYSTEM, "no memory");
    for (int i = 0; i < part->slots; i++) {
        SL_TRY(alloc(b, SL_SPACE_SLOT, p->slot_bytes));
        b->slots[i] = b->base[SL_SPACE_SLOT];
    }
    SL_TRY(alloc(b, SL_SPACE_WORK, p->work_bytes));
    SL_TRY(fill_params(b, SL_SPACE_PARAM, p->param_bytes));
    SL_TRY(fill_params(b, SL_SPACE_FIXED, p->fixed_bytes));
    SL_TRY(draw_ports(b, &p->inputs, SL_FEED_INPUT));
    SL_TRY(draw_ports(b, &p->seeds, SL_FEED_SEED));
    SL_TRY(draw_ports(b, &p->recv_act, SL_FEED_ACT));
    SL_TRY(draw_ports(b, &p->recv_grad, SL_FEED_GRAD));
    SL_TRY(sl_profile_body_alloc(b, message_bytes(p), &b->message));
    b->op_ns = calloc((size_t)p->instr_count + 1, sizeof *b->op_ns);
    return b->device->row->bind(b->device, b->program, &b->exec);
}

sl_err sl_profile_body_open(const struct sl_profile_spec *spec, const struct sl_body_part *part,
                            int64_t micro, struct sl_body **out) {
    *out = calloc(1, sizeof **out);
    if (!*out)
        return sl_fail(SL_ERR_SYSTEM, "no memory");
    return open_body(*out, spec, part, micro);
}

void sl_profile_body_close(struct sl_body *b) {
    if (!b)
        return;
    if (b->exec)
        b->device->row->unbind(b->device, b->exec);
    for (int s = 0; s < SL_SPACE_COUNT && b->device; s++)
        if (b->base[s] && s != SL_SPACE_SLOT)
            b->device->row->free(b->device, b->base[s]);
    for (int s = 0; b->slots && s < b->part.slots; s++)
        if (b->slots[s])
            b->device->row->free(b->device, b->slots[s]);
    free(b->slots);
    for (int64_t i = 0; i < b->feeds.count; i++) {
        free(b->feeds.at[i].host);
        if (b->feeds.at[i].message)
            b->device->row->free(b->device, b->feeds.at[i].message);
    }
    if (b->message)
        b->device->row->free(b->device, b->message);
    sl_pass_program_close(b->program);
    if (b->device)
        b->device->row->close(b->device);
    SL_VEC_FREE(&b->feeds);
    free(b->op_ns);
    free(b);
}

/* Copy sent values from the slot into the message buffer, as a run does. */
static sl_err send(struct sl_body *b, const struct sl_ports *ports, int slot) {
    int64_t start = sl_clock_ns();
    for (int i = 0; i < ports->count; i++) {
        const struct sl_operand *o = &ports->at[i].operand;
        SL_TRY(b->device->row->copy(b->device, SL_STREAM_COMPUTE, b->message,
                                    (char *)b->slots[slot] + o->offset, sl_pass_operand_bytes(o)));
        b->copied_bytes += sl_pass_operand_bytes(o);
    }
    SL_TRY(b->device->row->sync(b->device, SL_STREAM_COMPUTE));
    b->copied_ns += ports->count ? sl_clock_ns() - start : 0;
    return SL_OK;
}

sl_err sl_profile_body_pass(struct sl_body *b, enum sl_phase phase, int slot) {
    bool forward = phase == SL_PHASE_F;
    struct sl_device_args args = {.phase = phase, .accumulate = true, .seed = 1, .op_ns = b->op_ns};
    for (int64_t i = 0; i < b->feeds.count; i++)
        if (b->feeds.at[i].kind == (forward ? SL_FEED_ACT : SL_FEED_GRAD))
            SL_TRY(put_feed(b, &b->feeds.at[i], slot, 0));
    memcpy(args.base, b->base, sizeof args.base);
    args.base[SL_SPACE_SLOT] = b->slots[slot];
    SL_TRY(b->device->row->run(b->device, b->exec, &args));
    SL_TRY(b->device->row->sync(b->device, SL_STREAM_COMPUTE));
    return send(b, forward ? &b->program->send_act : &b->program->send_grad, slot);
}

sl_err sl_profile_body_copy_rate(struct sl_body *b, double *out) {
    enum { BYTES = 4 << 20 };
    const struct sl_device_row *row = b->device->row;
    void *from = NULL, *to = NULL;
    sl_err err = SL_OK;
    *out = 0;
    SL_TRY_OUT(row->alloc(b->device, BYTES, &from));
    SL_TRY_OUT(row->alloc(b->device, BYTES, &to));
    for (int round = 0; round < 5; round++) {
        int64_t start = sl_clock_ns();
        SL_TRY_OUT(row->copy(b->device, SL_STREAM_SEND, to, from, BYTES));
        SL_TRY_OUT(row->sync(b->device, SL_STREAM_SEND));
        double ns = (double)(sl_clock_ns() - start), rate = 1e9 * BYTES / (ns > 1 ? ns : 1);
        *out = rate > *out ? rate : *out;
    }
out:
    if (from)
        row->free(b->device, from);
    if (to)
        row->free(b->device, to);
    return err;
}
