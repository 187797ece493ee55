/* Computes time, memory and sums of one stage (graphpipe_stage.h). */
#include "planners/graphpipe_stage.h"

#include "search/bound.h"

#include <math.h>
#include <string.h>

int64_t sl_planners_graphpipe_stage_ns(const struct sl_planners_graphpipe_stages *s,
                                       const struct sl_cut_stage *sum, int config, int width) {
    int64_t rounds = (s->micros[config] + width - 1) / width;
    int64_t reduce = 0, wire = 0;
    if (width > 1) {
        const struct sl_link *link = s->ring[__builtin_ctz((unsigned)(width / s->grain))];
        reduce = (int64_t)ceil(1e9 * 2 * (width - 1) / width * sum->params / link->bandwidth) +
                 2 * (width - 1) * link->latency_ns;
    }
    if (sum->in > 0 && s->p->machine->device_count > 1)
        wire = (int64_t)floor(1e9 * (double)rounds * sum->in * (double)s->samples[config] /
                              s->wire->bandwidth);
    int64_t busy = rounds * (sum->f + sum->b) + sum->step + reduce;
    return wire > busy ? wire : busy;
}

/* Returns the samples in flight on `width` replicas if one replica needs `need`. */
int64_t sl_planners_graphpipe_stage_in_flight(const struct sl_planners_graphpipe_stages *s,
                                              int config, int width, int64_t need) {
    return need + (width - 1) * s->rules->configs[config].group * s->samples[config];
}

bool sl_planners_graphpipe_stage_fits(const struct sl_planners_graphpipe_stages *s,
                                      const struct sl_cut_stage *sum, int config, int width,
                                      int64_t need) {
    struct sl_cut_stage stage = *sum;
    stage.width = width;
    if (width > s->micros[config] ||
        sl_planners_graphpipe_stage_ns(s, sum, config, width) > s->limit)
        return false;
    return sl_search_cut_bytes(&s->rule, s->micros[config], s->samples[config], &stage,
                               sl_planners_graphpipe_stage_in_flight(s, config, width, need) /
                                   s->samples[config]) <= s->memory;
}

/* rounds = ceil(micros / width); returns the width with the most rounds such that rounds * pass <=
 * limit. */
int64_t sl_planners_graphpipe_stage_width(const struct sl_planners_graphpipe_stages *s,
                                          const struct sl_cut_stage *sum, int config) {
    int64_t pass = sum->f + sum->b, rounds = pass ? s->limit / pass : INT64_MAX / 2;
    if (rounds < 1)
        return INT64_MAX;
    int64_t width = s->micros[config] / rounds + (s->micros[config] % rounds > 0);
    return (width + s->grain - 1) / s->grain;
}

static int collect(struct sl_planners_graphpipe_stages *s,
                   const struct sl_planners_graphpipe_part *part, int child, int count) {
    const struct sl_planners_graphpipe_part *c = part->children[child];
    memcpy(s->set + count, c->units, sizeof *s->set * (size_t)c->unit_count);
    return count + c->unit_count;
}

int sl_planners_graphpipe_stage_units(struct sl_planners_graphpipe_stages *s,
                                      const struct sl_planners_graphpipe_piece *piece) {
    const struct sl_planners_graphpipe_part *part = piece->part, *branch;
    int count = 0;
    if (part->kind == SL_SP_PARALLEL) {
        for (int c = 0; c < part->child_count; c++)
            if (sl_planners_graphpipe_holds(part, piece->from, piece->to, c))
                count = collect(s, part, c, count);
        return count;
    }
    for (int c = piece->from; c < piece->to; c++)
        count = collect(s, part, c, count);
    if (piece->branch < 0)
        return count;
    if (!piece->tail)
        return collect(s, part->children[piece->from - 1], piece->branch, count);
    branch = part->children[piece->from - 1]->children[piece->branch];
    for (int c = piece->tail; c < branch->child_count; c++)
        count = collect(s, branch, c, count);
    return count;
}

static void add_times(const struct sl_problem *p, int size, const int *units, int count,
                      struct sl_cut_stage *out) {
    for (int k = 0; k < p->machine->kind_count; k++) {
        const struct sl_unit_time *t = sl_search_problem_times(p, size, k);
        struct sl_cut_stage sum = {0};
        for (int i = 0; i < count; i++) {
            sum.f += t[units[i]].f;
            sum.b += t[units[i]].i + t[units[i]].w;
            sum.step += t[units[i]].step;
        }
        if (sum.f + sum.b >= out->f + out->b) {
            out->f = sum.f;
            out->b = sum.b;
            out->step = sum.step;
        }
    }
}

/* Sums over s->set: times on the slowest kind of device, bytes, traffic. */
static void sum_set(const struct sl_planners_graphpipe_stages *s, int size, int count,
                    struct sl_cut_stage *out) {
    const struct sl_problem *p = s->p;
    const bool *inside = s->inside;
    const int *units = s->set;
    const double rate = sl_search_version_rate(p, s->rules->schedule);
    *out = (struct sl_cut_stage){.width = 1, .recompute = p->recompute == SL_RECOMPUTE_ALWAYS};
    add_times(p, size, units, count, out);
    if (out->recompute)
        out->b += sl_search_recompute_ns(p, out->f);
    for (int i = 0; i < count; i++) {
        const struct sl_unit *u = &p->units[units[i]];
        out->params += (double)u->params;
        out->fixed += (double)(u->fixed + u->grads + u->state);
        out->stash += u->stash;
        out->work = u->work > out->work ? u->work : out->work;
    }
    if (rate > 0)
        out->step = (int64_t)(1e9 * out->params / rate);
    for (int t = 0; t < p->tensor_count; t++) {
        const struct sl_search_tensor *tensor = &p->tensors[t];
        bool reads = false, leaves = false;
        for (int i = 0; i < tensor->to_count; i++) {
            reads |= inside[tensor->to[i]];
            leaves |= !inside[tensor->to[i]];
        }
        out->in += reads && !inside[tensor->from] ? (double)tensor->sample_bytes : 0;
        out->out += leaves && inside[tensor->from] ? (double)tensor->sample_bytes : 0;
    }
}

/* Returns where the sums of a stage are in the table of its part. */
static struct sl_cut_stage *place_of(const struct sl_planners_graphpipe_stages *s,
                                     const struct sl_planners_graphpipe_piece *piece, int size,
                                     bool **known) {
    const struct sl_planners_graphpipe_part *part = piece->part;
    bool set = part->kind == SL_SP_PARALLEL && sl_planners_graphpipe_has_subsets(part);
    int64_t at = set ? piece->to : (int64_t)piece->from * (part->child_count + 1) + piece->to;
    struct sl_cut_stage *stages = part->stages;
    *known = part->known;
    if (piece->branch >= 0) {
        const struct sl_planners_graphpipe_part *before = part->children[piece->from - 1];
        at = (int64_t)(piece->to - piece->from) * before->tail_count +
             before->tail_at[piece->branch] + piece->tail;
        stages = before->tails;
        *known = before->tails_known;
    }
    at = at * s->p->size_count + size;
    *known += at;
    return stages + at;
}

const struct sl_cut_stage *
sl_planners_graphpipe_stage_sums(struct sl_planners_graphpipe_stages *s,
                                 const struct sl_planners_graphpipe_piece *piece, int config) {
    int size = s->rules->configs[config].size;
    bool *known;
    struct sl_cut_stage *out = place_of(s, piece, size, &known);
    if (*known)
        return out;
    int count = sl_planners_graphpipe_stage_units(s, piece);
    for (int i = 0; i < count; i++)
        s->inside[s->set[i]] = true;
    sum_set(s, size, count, out);
    for (int i = 0; i < count; i++)
        s->inside[s->set[i]] = false;
    *known = true;
    return out;
}

double sl_planners_graphpipe_stage_work(const struct sl_planners_graphpipe_stages *s,
                                        const int *units, int count) {
    const struct sl_problem *p = s->p;
    double sum = 0;
    for (int i = 0; i < count; i++) {
        double least = INFINITY;
        for (int c = 0; c < s->rules->config_count; c++) {
            struct sl_unit_time t = sl_search_least_time(p, s->rules->configs[c].size, units[i]);
            double micros = (double)s->micros[c];
            least = fmin(least, micros * (double)(t.f + t.i + t.w));
        }
        sum += least;
    }
    return sum;
}
