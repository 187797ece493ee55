/* Writes the pipeline part of a run's page. */
#include "report/run_pipeline.h"

#include "report/markup.h"
#include "sched/slots.h"

#include <math.h>
#include <string.h>

enum { ROWS_MAX = 200 }; /* most rows of a table; a note states how many are left out */

void sl_report_picture_durations(const struct sl_picture *picture, int64_t (*dur)[SL_KIND_COUNT]) {
    struct sl_arena arena = {0};
    int64_t(*count)[SL_KIND_COUNT] =
        sl_arena_alloc(&arena, (int64_t)sizeof *count * picture->stage_count);
    int64_t(*sum)[SL_KIND_COUNT] =
        sl_arena_alloc(&arena, (int64_t)sizeof *sum * picture->stage_count);
    for (int64_t i = 0; i < picture->lane_at[picture->lane_count]; i++) {
        const struct sl_bar *bar = &picture->bars[i];
        sum[bar->stage][bar->kind] += bar->end_ns - bar->start_ns;
        count[bar->stage][bar->kind]++;
    }
    for (int s = 0; s < picture->stage_count; s++)
        for (int k = 0; k < SL_KIND_COUNT; k++)
            if (count[s][k])
                dur[s][k] = sum[s][k] / count[s][k];
    sl_arena_free(&arena);
}

static void put_time_cell(struct sl_text *out, int64_t ns) {
    char time[SL_HUMAN_BYTES];
    sl_text_printf(out, "<td>%s</td>", ns ? sl_human_ns(ns, time) : "");
}

static void put_rest(struct sl_text *out, int64_t all, const char *what) {
    if (all > ROWS_MAX)
        sl_text_printf(out, "<p class=\"soft\">The first %d of %lld %s.</p>\n", ROWS_MAX,
                       (long long)all, what);
}

/* ---- memory ---- */

struct part {
    const char *name;
    int64_t bytes;
};

/* Splits the bytes of a seat by plan and pools; sl_sched_worker_bytes is the sum over the seats. */
static int seat_parts(const struct sl_sched *sched, int seat, struct part parts[6]) {
    const struct sl_plan *plan = sched->plan;
    const struct sl_stage *stage = &plan->stages[plan->seats[seat].stage];
    const struct sl_slot_pool *pools = sched->pools[seat];
    int64_t messages = sl_sched_ring_bytes(sched, seat);
    int count = SL_POOL_EDGES + 2 * (stage->in_count + stage->out_count);
    for (int i = SL_POOL_EDGES; i < count; i++)
        messages += pools[i].count * pools[i].bytes;
    int64_t weights = stage->bytes.fixed +
                      pools[SL_POOL_WEIGHT].count * pools[SL_POOL_WEIGHT].bytes +
                      pools[SL_POOL_PREDICT].count * pools[SL_POOL_PREDICT].bytes;
    int64_t stash = 0;
    for (int i = SL_POOL_STASH; i <= SL_POOL_KEPT; i++)
        stash += sl_sched_pool_slots(sched, seat, i) * pools[i].bytes;
    parts[0] = (struct part){"weights", weights};
    parts[1] = (struct part){"gradients", pools[SL_POOL_GRAD].count * pools[SL_POOL_GRAD].bytes};
    parts[2] = (struct part){"optimizer", stage->bytes.state};
    parts[3] = (struct part){"stash", stash}; /* not an entry: a part of memory */
    parts[4] = (struct part){"messages", messages};
    parts[5] = (struct part){"workspace", stage->bytes.work};
    return 6;
}

static void put_memory(const struct sl_sched *sched, struct sl_text *out) {
    const struct sl_plan *plan = sched->plan;
    int rows = plan->seat_count < ROWS_MAX ? plan->seat_count : ROWS_MAX;
    int64_t max = 1;
    struct part parts[6];
    char bytes[SL_HUMAN_BYTES];
    for (int s = 0; s < rows; s++) {
        int64_t sum = 0;
        for (int i = 0; i < seat_parts(sched, s, parts); i++)
            sum += parts[i].bytes;
        max = sum > max ? sum : max;
    }
    sl_text_put(out, "<h2>Memory per stage</h2>\n<div class=\"keys\">");
    for (int i = 0; i < seat_parts(sched, 0, parts); i++)
        sl_text_printf(out, "<span><i class=\"m%d\"></i>%s</span>", i, parts[i].name);
    sl_text_put(out, "</div>\n<table class=\"bars\"><tbody>\n");
    for (int s = 0; s < rows; s++) {
        int64_t sum = 0;
        sl_text_put(out, "<tr><td>");
        sl_report_markup_escape(out, plan->stages[plan->seats[s].stage].name);
        if (plan->stages[plan->seats[s].stage].width > 1)
            sl_text_printf(out, "/%d", plan->seats[s].replica);
        sl_text_put(out, "</td><td class=\"bar\">");
        for (int i = 0; i < seat_parts(sched, s, parts); i++) {
            sum += parts[i].bytes;
            if (parts[i].bytes)
                sl_text_printf(out, "<i class=\"m%d\" style=\"width:%.2f%%\" title=\"%s %s\"></i>",
                               i, 100.0 * (double)parts[i].bytes / (double)max, parts[i].name,
                               sl_human_bytes(parts[i].bytes, bytes));
        }
        sl_text_printf(out, "</td><td>%s</td></tr>\n", sl_human_bytes(sum, bytes));
    }
    sl_text_put(out, "</tbody></table>\n");
    put_rest(out, plan->seat_count, "stages and replicas");
}

/* ---- time ---- */

static void put_times(const struct sl_report_pipeline *p, struct sl_text *out) {
    const struct sl_plan *plan = p->sched->plan;
    int rows = plan->stage_count < ROWS_MAX ? plan->stage_count : ROWS_MAX;
    struct sl_arena arena = {0};
    int64_t(*dur)[SL_KIND_COUNT] = sl_arena_alloc(&arena, (int64_t)sizeof *dur * plan->stage_count);
    bool used[SL_KIND_COUNT] = {false};
    sl_report_picture_durations(p->measured, dur);
    for (int s = 0; s < plan->stage_count; s++)
        for (int k = 0; k < SL_KIND_COUNT; k++)
            used[k] |= dur[s][k] > 0;
    sl_text_put(out, "<h2>Time per action</h2>\n<p class=\"soft\">Means over the measured steps. F "
                     "forward, B backward, I and W its halves (gradients of inputs and of "
                     "weights).</p>\n<div class=\"wide\"><table><thead><tr><th>stage</th>");
    for (int k = 0; k < SL_KIND_COUNT; k++)
        if (used[k])
            sl_text_printf(out, "<th>%s</th>", sl_sched_kind_name((enum sl_kind)k));
    sl_text_put(out, "</tr></thead><tbody>\n");
    for (int s = 0; s < rows; s++) {
        sl_text_put(out, "<tr><td>");
        sl_report_markup_escape(out, plan->stages[s].name);
        sl_text_put(out, "</td>");
        for (int k = 0; k < SL_KIND_COUNT; k++)
            if (used[k])
                put_time_cell(out, dur[s][k]);
        sl_text_put(out, "</tr>\n");
    }
    sl_text_put(out, "</tbody></table></div>\n");
    put_rest(out, plan->stage_count, "stages");
    sl_arena_free(&arena);
}

static double idle_of(const struct sl_picture *picture, int lane) {
    return 1 - (double)sl_report_picture_busy(picture, lane) /
                   (double)(picture->end_ns + !picture->end_ns);
}

static double mean_idle(const struct sl_picture *picture) {
    double sum = 0;
    for (int l = 0; l < picture->lane_count; l++)
        sum += idle_of(picture, l);
    return sum / (picture->lane_count + !picture->lane_count);
}

/* Explains the step time: the busiest worker, the parts of the critical path, the limit of the
 * schedule. */
static void put_why(const struct sl_report_pipeline *p, struct sl_text *out) {
    const struct sl_picture *m = p->measured, *q = p->replayed;
    const struct sl_plan *plan = p->sched->plan;
    int64_t busiest = 0, sum = 0;
    int who = 0;
    for (int l = 0; l < m->lane_count; l++) {
        int64_t busy = sl_report_picture_busy(m, l);
        sum += busy;
        who = busy > busiest ? l : who;
        busiest = busy > busiest ? busy : busiest;
    }
    double mean = (double)sum / m->lane_count, end = (double)(m->end_ns + !m->end_ns);
    int64_t path = m->pass_ns + m->weight_ns + m->transfer_ns + m->gap_ns;
    sl_text_put(out, "<h2>Why it takes this long</h2>\n<ul class=\"why\">");
    sl_text_printf(out,
                   "<li>The plan has %d stages, %d deep, on %d workers. Worker %d has most to do: "
                   "%.2f times the mean; if all had the same, the busy time would be %.1f %% "
                   "shorter.</li>",
                   plan->stage_count, plan->depth, plan->worker_count, who,
                   (double)busiest / (mean + (mean == 0)),
                   100 * (1 - mean / ((double)busiest + (busiest == 0))));
    sl_text_printf(out, "<li>Workers wait %.1f %% of the time", 100 * mean_idle(m));
    if (q)
        sl_text_printf(out,
                       "; with the same pass times and nothing in their way they would wait "
                       "%.1f %%: that is the schedule's own bubble, the rest is messages, uneven "
                       "passes and cores that are shared",
                       100 * mean_idle(q));
    sl_text_put(out, ".</li>");
    if (path)
        sl_text_printf(out,
                       "<li>The longest chain of actions is %.0f %% passes, %.0f %% reductions and "
                       "steps, %.0f %% messages and %.0f %% waiting.</li>",
                       100 * (double)m->pass_ns / end, 100 * (double)m->weight_ns / end,
                       100 * (double)m->transfer_ns / end, 100 * (double)m->gap_ns / end);
    sl_text_put(out, "</ul>\n");
}

/* Writes the mean times of every stage and kind of action: predicted and measured. */
static void put_kinds(const struct sl_report_pipeline *p, struct sl_text *out) {
    const struct sl_plan *plan = p->sched->plan;
    int rows = plan->stage_count < ROWS_MAX ? plan->stage_count : ROWS_MAX;
    struct sl_arena arena = {0};
    int64_t size = (int64_t)sizeof(int64_t[SL_KIND_COUNT]) * plan->stage_count;
    int64_t(*told)[SL_KIND_COUNT] = sl_arena_alloc(&arena, size);
    int64_t(*was)[SL_KIND_COUNT] = sl_arena_alloc(&arena, size);
    sl_report_picture_durations(p->foretold, told);
    sl_report_picture_durations(p->measured, was);
    sl_text_put(out, "<details><summary>Actions</summary><table><thead><tr><th>stage</th><th>action"
                     "</th><th>forecast</th><th>measured</th><th></th></tr></thead><tbody>\n");
    for (int s = 0; s < rows; s++)
        for (int k = 0; k < SL_KIND_COUNT; k++) {
            if (!told[s][k] && !was[s][k])
                continue;
            sl_text_put(out, "<tr><td>");
            sl_report_markup_escape(out, plan->stages[s].name);
            sl_text_printf(out, "</td><td>%s</td>", sl_sched_kind_name((enum sl_kind)k));
            put_time_cell(out, told[s][k]);
            put_time_cell(out, was[s][k]);
            sl_text_put(out, "<td>");
            if (told[s][k])
                sl_text_printf(out, "%+.1f %%", 100 * ((double)was[s][k] / (double)told[s][k] - 1));
            sl_text_put(out, "</td></tr>\n");
        }
    sl_text_put(out, "</tbody></table></details>\n");
    put_rest(out, plan->stage_count, "stages");
    sl_arena_free(&arena);
}

static void put_workers(const struct sl_picture *told, const struct sl_picture *was,
                        struct sl_text *out) {
    int rows = was->lane_count < ROWS_MAX ? was->lane_count : ROWS_MAX;
    sl_text_put(out, "<details><summary>Workers</summary><table><thead><tr><th>worker</th>"
                     "<th>idle, predicted</th><th>idle, measured</th></tr></thead><tbody>\n");
    for (int l = 0; l < rows; l++)
        sl_text_printf(out, "<tr><td>%d</td><td>%.1f %%</td><td>%.1f %%</td></tr>\n", l,
                       100 * idle_of(told, l), 100 * idle_of(was, l));
    sl_text_put(out, "</tbody></table></details>\n");
    put_rest(out, was->lane_count, "workers");
}

/* Returns the prediction to compare with: the forecast, or else the replayed schedule. */
static const struct sl_picture *expected(const struct sl_report_pipeline *p) {
    return p->foretold ? p->foretold : p->replayed;
}

static void put_compared(const struct sl_report_pipeline *p, struct sl_text *out) {
    const struct sl_picture *m = p->measured, *q = expected(p);
    char a[SL_HUMAN_BYTES], b[SL_HUMAN_BYTES];
    if (!q || q->lane_count != m->lane_count)
        return;
    int64_t told = p->foretold ? p->foretold_ns : q->end_ns;
    sl_text_printf(out,
                   "<h2>Predicted against measured</h2>\n<p>%s predicted, <b>%s</b> measured: "
                   "%+.1f %%. ",
                   sl_human_ns(told, a), sl_human_ns(m->end_ns, b),
                   100 * ((double)m->end_ns / (double)(told + !told) - 1));
    if (p->foretold) {
        sl_text_put(out, "The prediction was made before the run began, from ");
        sl_report_markup_escape(out, p->cost);
        sl_text_put(out, " alone.");
        if (told > q->end_ns)
            sl_text_printf(out,
                           " It has %s of waiting for the norm of all gradients before the "
                           "updates, which the timeline does not draw.",
                           sl_human_ns(told - q->end_ns, a));
        sl_text_put(out, "</p>\n");
        put_kinds(p, out);
    } else {
        sl_text_put(out, "The prediction plays the schedule with the mean pass times of this run; "
                         "<code>train --cost X.cost</code> makes one before it begins.</p>\n");
    }
    put_workers(q, m, out);
}

/* Writes the timeline page in a frame, so that its script and names stay separate from this
 * page. */
static void put_timelines(const struct sl_report_pipeline *p, struct sl_text *out) {
    struct sl_picture pictures[SL_REPORT_MAX];
    struct sl_text page = {0};
    int count = 0;
    if (expected(p))
        pictures[count++] = *expected(p);
    pictures[count++] = *p->measured;
    sl_report_html(pictures, count, &page);
    sl_text_put(out, "<h2>Timeline</h2>\n<iframe id=\"timeline\" title=\"timeline\" srcdoc=\"");
    sl_report_markup_escape(out, page.at);
    sl_text_put(out, "\"></iframe>\n");
    sl_text_free(&page);
}

void sl_report_run_pipeline_put(const struct sl_report_pipeline *p, struct sl_text *out) {
    if (p->measured) {
        put_why(p, out);
        put_compared(p, out);
        put_timelines(p, out);
    }
    sl_text_put(out, "<h2>Stages</h2>\n");
    sl_report_stage_graph_put(p->sched->plan, p->graph, out);
    put_memory(p->sched, out);
    if (p->measured)
        put_times(p, out);
}

void sl_report_run_ops_put(const struct sl_report_op_time *ops, int count, struct sl_text *out) {
    int64_t total = 0;
    char time[SL_HUMAN_BYTES];
    for (int i = 0; i < count; i++)
        total += ops[i].dur_ns;
    sl_text_printf(
        out,
        "<h2>Time per op</h2>\n<p class=\"soft\">Forward and backward of one micro-batch "
        "on one worker, %s in all.</p>\n<table class=\"bars\"><thead><tr><th>kernel</th>"
        "<th>share</th><th>calls</th><th>time</th><th>GFLOP/s</th></tr></thead><tbody>\n",
        sl_human_ns(total, time));
    for (int i = 0; i < count && i < ROWS_MAX; i++) {
        sl_text_put(out, "<tr><td>");
        sl_report_markup_escape(out, ops[i].kernel);
        sl_text_printf(out,
                       "</td><td class=\"bar\"><i class=\"m0\" style=\"width:%.2f%%\"></i></td>"
                       "<td>%d</td><td>%s</td><td>%.1f</td></tr>\n",
                       100.0 * (double)ops[i].dur_ns / (double)(total + !total), ops[i].calls,
                       sl_human_ns(ops[i].dur_ns, time),
                       ops[i].dur_ns ? ops[i].flops / (double)ops[i].dur_ns : 0.0);
    }
    sl_text_put(out, "</tbody></table>\n");
}
