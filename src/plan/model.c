/* A plan for a model: stages, edges, ties and bytes from the programs that will run. */
#include "plan/model.h"

#include "graph/model.h"
#include "plan/bytes.h"

#include <string.h>

struct draft {
    const struct sl_model_plan_spec *spec;
    struct sl_arena *arena;
    struct sl_stage *stages;
    struct sl_pass_backward *backward; /* [stages] */
    SL_VEC(struct sl_edge) edges;
    SL_VEC(struct sl_tie) ties;
    SL_VEC(struct sl_collective) collectives; /* the collectives of one stage */
};

static int64_t port_bytes(const struct sl_program_port *port, int64_t samples) {
    return sl_pass_operand_bytes(&port->operand) / samples;
}

static void add_edge(struct draft *d, int from, int to, int64_t sample_bytes) {
    for (int64_t i = 0; i < d->edges.count; i++)
        if (d->edges.at[i].from == from && d->edges.at[i].to == to) {
            d->edges.at[i].sample_bytes += sample_bytes;
            return;
        }
    SL_PUSH(&d->edges, ((struct sl_edge){.from = from, .to = to, .sample_bytes = sample_bytes}));
}

static void fill_nodes(struct draft *d, int s) {
    const struct sl_graph *graph = d->spec->graph;
    int count = 0;
    for (int n = 0; n < graph->forward_count; n++)
        count += d->spec->stage_of[n] == s;
    int *nodes = SL_NEW(d->arena, int, count);
    int at = 0;
    for (int n = 0; n < graph->forward_count; n++)
        if (d->spec->stage_of[n] == s)
            nodes[at++] = n;
    d->stages[s].nodes = nodes;
    d->stages[s].node_count = count;
}

static void add_collective(struct draft *d, enum sl_collective_pass pass, int64_t sample_bytes) {
    struct sl_collective *last =
        d->collectives.count ? &d->collectives.at[d->collectives.count - 1] : NULL;
    struct sl_collective c = {pass, SL_COLLECTIVE_SUM, sample_bytes, 1};
    if (last && last->pass == pass && last->sample_bytes == sample_bytes)
        last->count++;
    else
        SL_PUSH(&d->collectives, c);
}

static void list_collectives(struct draft *d, const struct sl_program *p, struct sl_stage *out) {
    static const struct {
        enum sl_phase phase;
        enum sl_collective_pass pass;
        /* does the phase exist in programs that split the backward pass, and in programs that do
         * not? */
        bool split, whole;
    } phases[] = {{SL_PHASE_F, SL_COLLECTIVE_F, true, true},
                  {SL_PHASE_I, SL_COLLECTIVE_B, true, false},
                  {SL_PHASE_B, SL_COLLECTIVE_B, false, true},
                  {SL_PHASE_W, SL_COLLECTIVE_W, true, false}};
    d->collectives.count = 0;
    for (int k = 0; k < SL_COUNT(phases); k++)
        for (int i = p->begin[phases[k].phase];
             (p->split ? phases[k].split : phases[k].whole) && i < p->end[phases[k].phase]; i++) {
            const struct sl_instr *in = &p->instrs[i];
            if (in->op && in->op->collective && in->in_count < in->attr[0].i)
                add_collective(d, phases[k].pass, sl_pass_operand_bytes(&in->out[0]) / p->samples);
        }
    out->collective_count = (int)d->collectives.count;
    out->collectives =
        sl_vec_freeze(d->arena, d->collectives.at, d->collectives.count, sizeof *out->collectives);
}

static sl_err fill_stage(struct draft *d, int s) {
    const struct sl_model_plan_spec *spec = d->spec;
    struct sl_program *p;
    int64_t micro_size = spec->micro_of ? spec->micro_of[s] : spec->micro_size;
    int width = spec->width_of ? spec->width_of[s] : 1, parts = spec->parts ? spec->parts : 1;
    bool zero1 = spec->zero1_of && spec->zero1_of[s] && width > 1;
    struct sl_program_spec program = {
        .graph = spec->graph,
        .stage_of = spec->stage_of,
        .stage = s,
        .samples = micro_size,
        .has_kernel = spec->has_kernel,
        .dtype = spec->dtype,
        .split = spec->split,
        .recompute = spec->recompute_of ? spec->recompute_of[s] : spec->recompute,
    };
    SL_TRY(sl_pass_program_build(&program, &p));
    int *workers = SL_NEW(d->arena, int, width);
    for (int r = 0; r < width; r++)
        workers[r] = spec->workers_of ? spec->workers_of[s][r] : spec->worker_of[s];
    d->stages[s] = (struct sl_stage){
        .name = sl_arena_printf(d->arena, parts > 1 ? "s%d.%d" : "s%d", s / parts, s % parts),
        .part = s % parts,
        .parts = parts,
        .width = width,
        .zero1 = zero1,
        .micro_size = micro_size,
        .workers = workers,
        .passes = d->backward[s].trains ? SL_STAGE_TRAINS
                  : d->backward[s].any  ? SL_STAGE_FROZEN
                                        : SL_STAGE_FORWARD,
        .recompute = p->recompute,
        .has_input = p->inputs.count > 0,
    };
    sl_plan_bytes(&(struct sl_bytes_spec){.full = p,
                                          .optim = spec->optim,
                                          .policy = spec->policy,
                                          .divided = zero1 ? width : 1,
                                          .threads = spec->threads,
                                          .extra_bytes = spec->extra_bytes},
                  &d->stages[s].bytes);
    list_collectives(d, p, &d->stages[s]);
    fill_nodes(d, s);
    for (int i = 0; i < p->send_act.count; i++)
        add_edge(d, s, p->send_act.at[i].peer, port_bytes(&p->send_act.at[i], micro_size));
    sl_pass_program_close(p);
    return SL_OK;
}

/* Finds the passes of each stage. A model without frozen parameters keeps all passes, even in a
 * stage without parameters. */
static void backward_of(const struct sl_model_plan_spec *spec, struct sl_pass_backward *out) {
    bool frozen = false;
    for (int64_t i = 0; i < spec->graph->params.count; i++)
        frozen |= spec->graph->params.at[i].frozen;
    if (frozen)
        sl_pass_backward_of(spec->graph, spec->stage_of, spec->stage_count, out);
    for (int s = 0; !frozen && s < spec->stage_count; s++)
        out[s] = (struct sl_pass_backward){true, true};
}

/* Finds parameters that nodes of several stages read. */
static void find_ties(struct draft *d) {
    const struct sl_graph *graph = d->spec->graph;
    for (int64_t g = 0; g < graph->grads.count;) {
        int param = graph->grads.at[g].param, count = 0;
        int *stages = SL_NEW(d->arena, int, graph->grads.count - g);
        for (; g < graph->grads.count && graph->grads.at[g].param == param; g++) {
            int stage = d->spec->stage_of[graph->grads.at[g].node];
            bool known = false;
            for (int i = 0; i < count; i++)
                known |= stages[i] == stage;
            if (!known)
                stages[count++] = stage;
        }
        for (int i = 1; i < count; i++) /* insertion sort, ascending */
            for (int k = i; k > 0 && stages[k] < stages[k - 1]; k--) {
                int swap = stages[k];
                stages[k] = stages[k - 1];
                stages[k - 1] = swap;
            }
        const struct sl_param *p = &graph->params.at[param];
        struct sl_tie tie = {p->name, stages, count,
                             4 * sl_graph_shape_numel(&graph->values.at[p->value].shape, 1)};
        if (count > 1)
            SL_PUSH(&d->ties, tie);
    }
}

sl_err sl_plan_from_model(struct sl_arena *arena, const struct sl_model_plan_spec *spec,
                          const struct sl_plan **out) {
    struct draft d = {.spec = spec, .arena = arena};
    sl_err err = SL_OK;
    d.stages = SL_NEW(arena, struct sl_stage, spec->stage_count);
    d.backward = SL_NEW(arena, struct sl_pass_backward, spec->stage_count);
    backward_of(spec, d.backward);
    int64_t *limits = SL_NEW(arena, int64_t, spec->worker_count);
    for (int s = 0; s < spec->stage_count; s++)
        SL_TRY_OUT(fill_stage(&d, s));
    find_ties(&d);
    struct sl_plan draft = {
        .model = spec->graph->name,
        .node_count = spec->graph->forward_count,
        .graph = sl_graph_model_hash(spec->graph),
        .sizes = sl_graph_sizes_text(arena, spec->graph),
        .stages = d.stages,
        .stage_count = spec->stage_count,
        .edges = d.edges.at,
        .edge_count = (int)d.edges.count,
        .ties = d.ties.at,
        .tie_count = (int)d.ties.count,
        .worker_count = spec->worker_count,
        .memory_bytes = limits,
    };
    err = sl_plan_build(arena, &draft, out);
out:
    SL_VEC_FREE(&d.edges);
    SL_VEC_FREE(&d.ties);
    SL_VEC_FREE(&d.collectives);
    return err;
}
