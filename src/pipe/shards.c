/* Collectives of the shards of a stage. A pass of a shard runs its program; after an instruction that
 * yields the shard's term of a sum (sl_op.collective), the shards add their terms in place, in the
 * order of shards. The schedule gives all shards the same passes in the same order
 * (sched/shards.c), and their programs have the same collectives: both are checked before the run. */
#include "pipe/shards.h"

#include <string.h>

static bool is_collective(const struct sl_instr *in) {
    return in->op && in->op->collective && in->in_count < in->attr[0].i;
}

/* ---- opening ---- */

/* Compares the collectives of one phase of a program with those of the plan. */
static sl_err check_phase(const struct sl_stage *stage, const struct sl_program *p,
                          enum sl_phase phase, unsigned passes, int64_t samples) {
    int at = 0, of = 0;
    for (int i = p->begin[phase]; i < p->end[phase]; i++) {
        if (!is_collective(&p->instrs[i]))
            continue;
        while (at < stage->collective_count && (!(passes >> stage->collectives[at].pass & 1) ||
                                                of == stage->collectives[at].count)) {
            of = 0;
            at++;
        }
        const struct sl_collective *c =
            at < stage->collective_count ? &stage->collectives[at] : NULL;
        int64_t bytes = sl_pass_operand_bytes(&p->instrs[i].out[0]);
        if (!c || c->kind != SL_COLLECTIVE_SUM || c->sample_bytes * samples != bytes)
            return sl_fail(SL_ERR_REFUSED,
                           "stage %s: instruction %d sums %lld bytes over the shards, which is not "
                           "the next collective of the plan",
                           stage->name, i, (long long)bytes);
        of++;
    }
    for (; at < stage->collective_count; at++, of = 0)
        if ((passes >> stage->collectives[at].pass & 1) && of < stage->collectives[at].count)
            return sl_fail(SL_ERR_REFUSED,
                           "stage %s: the plan has a collective of %lld bytes per sample that its "
                           "program does not meet",
                           stage->name, (long long)stage->collectives[at].sample_bytes);
    return SL_OK;
}

static sl_err check_programs(const struct sl_pipe *pipe, const struct sl_pipe_seat *seat) {
    const struct sl_stage *stage = &pipe->config.plan->stages[seat->stage];
    for (int i = 0; i < SL_WORKER_EVAL; i++) {
        const struct sl_program *p = seat->train.worker->programs[i];
        if (!p)
            continue;
        SL_TRY(check_phase(stage, p, SL_PHASE_F, 1 << SL_COLLECTIVE_F, p->samples));
        if (p->recompute)
            continue; /* skip: the backward phases of such a program begin with what R repeats of
                       * F */
        if (p->split) {
            SL_TRY(check_phase(stage, p, SL_PHASE_I, 1 << SL_COLLECTIVE_B, p->samples));
            SL_TRY(check_phase(stage, p, SL_PHASE_W, 1 << SL_COLLECTIVE_W, p->samples));
        } else {
            SL_TRY(check_phase(stage, p, SL_PHASE_B, 1 << SL_COLLECTIVE_B | 1 << SL_COLLECTIVE_W,
                               p->samples));
        }
    }
    return SL_OK;
}

static int64_t largest_sum(const struct sl_pipe_seat *seat) {
    int64_t max = 0;
    for (int k = 0; k < SL_WORKER_PROGRAMS; k++) {
        const struct sl_program *p = seat->train.worker->programs[k];
        for (int i = 0; p && i < p->instr_count; i++)
            if (is_collective(&p->instrs[i]) && p->instrs[i].out[0].numel > max)
                max = p->instrs[i].out[0].numel;
    }
    return max;
}

/* Opens the group of replica r of stages first .. first + parts - 1. Every rank calls it. */
static sl_err open_team(struct sl_pipe *pipe, int first, int r, struct sl_arena *scratch) {
    const struct sl_plan *plan = pipe->config.plan;
    int parts = plan->stages[first].parts;
    int *ranks = SL_NEW(scratch, int, parts), *terms = SL_NEW(scratch, int, parts);
    struct sl_device **devices = SL_NEW(scratch, struct sl_device *, parts);
    struct sl_group_spec spec = {.member_count = parts,
                                 .ranks = ranks,
                                 .term_count = parts,
                                 .terms = terms,
                                 .devices = devices,
                                 .table_max = pipe->train.graph->params.count,
                                 .ipc = true};
    for (int k = 0; k < parts; k++) {
        const struct sl_stage *stage = &plan->stages[first + k];
        const struct sl_pipe_seat *seat = pipe->seat_at[stage->seat + r];
        ranks[k] = sl_comm_rank_of(pipe->comm, stage->workers[r], plan->worker_count);
        terms[k] = k;
        devices[k] = pipe->workers[stage->workers[r]].device;
        spec.ipc &= sl_pipe_is_ipc(pipe, plan->stages[first].workers[r], stage->workers[r]);
        if (seat && largest_sum(seat) > spec.sum_max)
            spec.sum_max = largest_sum(seat);
    }
    struct sl_group **group = &pipe->teams[plan->stages[first].seat + r];
    SL_TRY(sl_comm_group_open(pipe->comm, &spec, group));
    for (int k = 0; k < parts; k++) {
        struct sl_pipe_seat *seat = pipe->seat_at[plan->stages[first + k].seat + r];
        if (!seat)
            continue;
        seat->team = *group;
        SL_TRY(check_programs(pipe, seat));
    }
    return SL_OK;
}

sl_err sl_pipe_shards_open(struct sl_pipe *pipe) {
    const struct sl_plan *plan = pipe->config.plan;
    struct sl_arena scratch = {0};
    sl_err err = SL_OK;
    for (int s = 0; s < plan->stage_count && err == SL_OK; s++)
        for (int r = 0; r < plan->stages[s].width && err == SL_OK; r++) {
            if (plan->stages[s].parts < 2 || plan->stages[s].part > 0)
                continue;
            if (!pipe->teams)
                pipe->teams = SL_NEW(&pipe->arena, struct sl_group *, plan->seat_count);
            err = open_team(pipe, s, r, &scratch);
        }
    sl_arena_free(&scratch);
    return sl_comm_consent(pipe->comm, err);
}

void sl_pipe_shards_close(struct sl_pipe *pipe) {
    for (int i = 0; pipe->teams && i < pipe->config.plan->seat_count; i++)
        sl_comm_group_close(pipe->teams[i]);
}

/* ---- passes ---- */

static void publish_wait(struct sl_pipe_worker *w, const struct sl_pipe_seat *seat) {
    const struct sl_plan *plan = w->pipe->config.plan;
    const struct sl_stage *stage = &plan->stages[seat->stage];
    int next = seat->stage - stage->part + (stage->part + 1) % stage->parts;
    sl_pipe_status_wait(w,
                        (struct sl_pipe_wait){.wait = SL_WAIT_SHARDS,
                                              .of = seat->stage,
                                              .peer = plan->stages[next].workers[seat->replica]});
}

static sl_err add_terms(struct sl_pipe_worker *w, const struct sl_instr *in) {
    struct sl_pipe_seat *seat = w->sharing.seat;
    int member = w->pipe->config.plan->stages[seat->stage].part;
    float *y = sl_run_worker_operand(seat->train.worker, &w->sharing.pass, &in->out[0]);
    const float *term = y;
    int64_t before = sl_pipe_clock(w);
    SL_TRY(w->device->row->sync(w->device, SL_STREAM_COMPUTE)); /* other workers read the terms */
    publish_wait(w, seat);
    SL_TRY(sl_comm_group_sum_begin(seat->team, member, &term, in->out[0].numel, y));
    SL_TRY(sl_comm_group_sum_end(seat->team, member));
    sl_pipe_status_resume(w);
    w->waited_ns += sl_pipe_clock(w) - before;
    return SL_OK;
}

static sl_err after_instr(void *worker, int instr) {
    struct sl_pipe_worker *w = worker;
    const struct sl_program *p = w->sharing.seat->train.worker->programs[w->sharing.pass.program];
    if (is_collective(&p->instrs[instr]))
        SL_TRY(add_terms(w, &p->instrs[instr]));
    return w->sharing.pass.after ? w->sharing.pass.after(w->sharing.pass.ctx, instr) : SL_OK;
}

sl_err sl_pipe_shards_pass(struct sl_pipe_worker *w, struct sl_pipe_seat *seat,
                           const struct sl_worker_pass *pass) {
    struct sl_worker_pass hooked = *pass;
    if (!seat->team)
        return sl_run_worker_pass(seat->train.worker, pass);
    w->sharing = (struct sl_pipe_sharing){seat, *pass};
    hooked.after = after_instr;
    hooked.ctx = w;
    sl_err err = sl_run_worker_pass(seat->train.worker, &hooked);
    w->sharing.seat = NULL;
    return err;
}

/* ---- norms ---- */

sl_err sl_pipe_shards_norms(struct sl_pipe_worker *w, struct sl_pipe_seat *seat) {
    const struct sl_program *p = seat->train.worker->programs[SL_WORKER_FULL];
    int64_t params = p->graph->params.count;
    if (!seat->team)
        return SL_OK;
    memset(w->norms, 0, sizeof *w->norms * (size_t)params);
    for (int i = 0; i < p->param_count; i++)
        if (!p->graph->params.at[p->params[i].param].echo)
            w->norms[p->params[i].param] = seat->train.norm_sums[i];
    publish_wait(w, seat);
    SL_TRY(sl_comm_group_merge(seat->team, w->pipe->config.plan->stages[seat->stage].part, w->norms,
                               params));
    sl_pipe_status_resume(w);
    return SL_OK;
}
