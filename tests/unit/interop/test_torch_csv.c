/* PyTorch's schedule CSVs: torch's files import, verify and simulate; both dialects give the same
 * schedule; our output reads back; garbage is refused with its position. */
#include "interop/torch_csv.h"
#include "lower/lower.h"
#include "sched/order.h"
#include "schedules/schedule.h"
#include "sim/sim.h"

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char folder[] = SL_TEST_SRC_DIR "/tests/fixtures/torch_csv";

static struct sl_sched *import(struct sl_arena *arena, const char *name) {
    char path[512], *text;
    size_t length;
    struct sl_sched *sched;
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(sl_file_read(path, 1 << 20, &text, &length), SL_OK);
    if (sl_interop_torch_csv_read(arena, name, text, length, &sched) != SL_OK)
        fail_msg("%s", sl_err_message());
    free(text);
    return sched;
}

static bool same_passes(const struct sl_sched *a, const struct sl_sched *b) {
    if (a->plan->worker_count != b->plan->worker_count)
        return false;
    for (int w = 0; w < a->plan->worker_count; w++) {
        const struct sl_actions *x = &a->lists[SL_PERIOD][w], *y = &b->lists[SL_PERIOD][w];
        if (x->count != y->count)
            return false;
        for (int64_t i = 0; i < x->count; i++)
            if (x->at[i].kind != y->at[i].kind || x->at[i].stage != y->at[i].stage ||
                x->at[i].micro != y->at[i].micro)
                return false;
    }
    return true;
}

static const struct sl_sim *simulate(struct sl_arena *arena, const struct sl_sched *passes,
                                     struct sl_sched **lowered) {
    const struct sl_sim *sim = NULL;
    struct sl_sim_opts opts = {0};
    if (sl_lower_passes(arena, passes, lowered) != SL_OK || sl_sched_verify(*lowered) != SL_OK ||
        sl_sim_run(arena, *lowered, &opts, &sim) != SL_OK)
        fail_msg("%s", sl_err_message());
    return sim;
}

/* Our schedule of the same sizes; torch's order may differ, but not its length. */
static int64_t our_end(struct sl_arena *arena, const char *name, int p, int v, int m) {
    const struct sl_schedule *row = sl_schedules_row_find(name);
    const struct sl_plan *plan;
    const struct sl_sched *sched;
    const struct sl_sim *sim = NULL;
    struct sl_schedule_opts opts = {.schedule = name, .micros = m};
    struct sl_sim_opts how = {0};
    if (!row)
        return -1;
    assert_int_equal(sl_plan_chain(arena, p * v, p, row->layout, &plan), SL_OK);
    assert_int_equal(sl_schedules_build(arena, plan, &opts, &sched), SL_OK);
    assert_int_equal(sl_sim_run(arena, sched, &how, &sim), SL_OK);
    return sim->end_ns;
}

static void one_file(const char *name) {
    struct sl_arena arena = {0};
    struct sl_sched *sched = import(&arena, name), *lowered, *again;
    char stem[64], comms[512];
    int p, v, m;
    assert_int_equal(sscanf(name, "%63[^_]_p%d_v%d_m%d", stem, &p, &v, &m), 4);
    assert_int_equal(sched->plan->worker_count, p);
    assert_int_equal(sched->plan->stage_count, p * v);
    assert_int_equal(sched->micros[0], m);
    const struct sl_sim *sim = simulate(&arena, sched, &lowered);
    int64_t ours = our_end(&arena, stem, p, v, m);
    if (ours >= 0 && sim->end_ns != ours)
        fail_msg("%s: ends at %lld, ours at %lld", name, (long long)sim->end_ns, (long long)ours);
    snprintf(comms, sizeof comms, "%.*s_comms.csv", (int)strlen(name) - 4, name);
    assert_true(same_passes(sched, import(&arena, comms)));
    for (int i = 0; i < 2; i++) {
        struct sl_text text = {0};
        assert_int_equal(sl_interop_torch_csv_write(lowered, i, &text), SL_OK);
        if (sl_interop_torch_csv_read(&arena, "ours", text.at, text.length, &again) != SL_OK)
            fail_msg("%s: %s", name, sl_err_message());
        struct sl_sched *restored = sl_sched_order_restore(&arena, sched); /* looped-bfs */
        assert_true(same_passes(restored ? restored : sched, again));
        sl_text_free(&text);
    }
    sl_arena_free(&arena);
}

static void torch_files(void **state) {
    int count = 0;
    DIR *dir = opendir(folder);
    struct dirent *entry;
    (void)state;
    assert_non_null(dir);
    while ((entry = readdir(dir))) {
        if (!strstr(entry->d_name, ".csv") || strstr(entry->d_name, "_comms") ||
            strncmp(entry->d_name, "own-", 4) == 0)
            continue;
        one_file(entry->d_name);
        count++;
    }
    closedir(dir);
    assert_true(count >= 15);
    printf("count: torch CSV files in both dialects %d\n", count);
}

/* Schedule1F1B of torch 2.15 numbers the forwards of its last rank 1..m: they are read as 0..m-1. */
static void counted_from_1(void **state) {
    static const char *const files[] = {"own-1f1b_p2_v1_m2.csv", "own-1f1b_p4_v1_m8.csv"};
    (void)state;
    for (int i = 0; i < SL_COUNT(files); i++) {
        struct sl_arena arena = {0};
        struct sl_sched *sched = import(&arena, files[i]), *lowered;
        const struct sl_actions *last = &sched->lists[SL_PERIOD][sched->plan->worker_count - 1];
        simulate(&arena, sched, &lowered);
        assert_int_equal(last->count, 2 * sched->micros[0]);
        for (int k = 0; k < last->count; k++) {
            assert_int_equal(last->at[k].kind, k % 2 ? SL_BACKWARD : SL_FORWARD);
            assert_int_equal(last->at[k].micro, k / 2);
        }
        sl_arena_free(&arena);
    }
}

/* Torch before 2.6: B for I, BW for B. */
static void old_names(void **state) {
    static const char *const files[] = {"interleaved-zb_p2_v2_m4.csv", "zb-v_p4_v2_m8_comms.csv"};
    (void)state;
    for (int i = 0; i < SL_COUNT(files); i++) {
        struct sl_arena arena = {0};
        struct sl_text old = {0};
        struct sl_sched *sched;
        char path[512], *text;
        size_t length;
        snprintf(path, sizeof path, "%s/%s", folder, files[i]);
        assert_int_equal(sl_file_read(path, 1 << 20, &text, &length), SL_OK);
        for (size_t k = 0; k < length; k++) {
            bool whole = text[k] == 'B' && k && text[k - 1] >= '0' && text[k - 1] <= '9';
            bool half = text[k] == 'I' && k && text[k - 1] >= '0' && text[k - 1] <= '9';
            sl_text_printf(&old, "%s", whole ? "BW" : half ? "B" : (char[]){text[k], 0});
        }
        if (sl_interop_torch_csv_read(&arena, "old", old.at, old.length, &sched) != SL_OK)
            fail_msg("%s: %s", files[i], sl_err_message());
        assert_true(same_passes(sched, import(&arena, files[i])));
        free(text);
        sl_text_free(&old);
        sl_arena_free(&arena);
    }
}

static void refused(void **state) {
    static const struct {
        const char *text;
        sl_err err;
        const char *message;
    } cases[] = {
        {"", SL_ERR_INPUT, "no action in the whole file"},
        {"\n\n,,\n", SL_ERR_INPUT, "no action in the whole file"},
        {"0F0,0X0", SL_ERR_INPUT, "t.csv:1:6: not an action"},
        {"0F0,\n 0Fx", SL_ERR_INPUT, "t.csv:2:4: a number is expected"},
        {"F0", SL_ERR_INPUT, "t.csv:1:1: a number is expected"},
        {"0F0 0B0", SL_ERR_INPUT, "t.csv:1:4: unexpected text"},
        {"99999999999999F0", SL_ERR_INPUT, "too large"},
        {"0F99999999999", SL_ERR_INPUT, "too large"},
        {"65000F0", SL_ERR_REFUSED, "cannot be enough"},
        {"0F500000000", SL_ERR_REFUSED, "cannot be enough"},
        {"(0F0;0B0", SL_ERR_INPUT, "never closed"},
        {"(0F0;0B0)OVER", SL_ERR_INPUT, "OVERLAP_F_B is expected"},
        {"0F0,0B0\n0F0", SL_ERR_REFUSED, "stage 0 is on rank 0 already"},
        {"0F0,0B0,1F0,1B0,3F0,3B0", SL_ERR_REFUSED, "stage 2 has no action"},
        {"0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0", SL_ERR_REFUSED,
         "t.csv:2:1: its RECV_F is missing"},
        {"0SEND_F0,0F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0,1SEND_B0", SL_ERR_REFUSED,
         "sent before the pass"},
        {"0F0,0SEND_F0,0B0,0RECV_B0\n1RECV_F0,1F0,1B0,1SEND_B0", SL_ERR_REFUSED,
         "RECV_B is missing"},
        {"0F0,0SEND_F0,0RECV_B0,0B0\n1RECV_F0,1F0,1B0", SL_ERR_REFUSED, "received and never sent"},
        {"0F0,0F1,0SEND_F0,0SEND_F1,0RECV_B0,0B0,0RECV_B1,0B1\n"
         "1RECV_F1,1RECV_F0,1F0,1F1,1B0,1SEND_B0,1B1,1SEND_B1",
         SL_ERR_REFUSED, "t.csv:2:1: out of order"},
        {"0F0,0WAIT_SEND_F0,0B0\n1F0,1B0", SL_ERR_REFUSED, "has not been sent"},
    };
    (void)state;
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct sl_arena arena = {0};
        struct sl_sched *sched;
        sl_err err = sl_interop_torch_csv_read(&arena, "t.csv", cases[i].text,
                                               strlen(cases[i].text), &sched);
        if (err != cases[i].err || !strstr(sl_err_message(), cases[i].message))
            fail_msg("case %d: %d: %s", i, (int)err, sl_err_message());
        sl_arena_free(&arena);
    }
}

static void cannot_be_written(void **state) {
    static const char *const names[] = {"2bw", "chimera", "graph"};
    (void)state;
    for (int i = 0; i < SL_COUNT(names); i++) {
        struct sl_arena arena = {0};
        struct sl_text text = {0};
        const struct sl_plan *plan;
        const struct sl_sched *sched;
        struct sl_schedule_opts opts = {.schedule = names[i], .micros = 4, .iters = 5};
        sl_err err =
            i == 2 ? sl_plan_dag(&arena, "a>b,a>c,b>d,c>d", 0, &plan)
                   : sl_plan_chain(&arena, 4, 4, sl_schedules_row_find(names[i])->layout, &plan);
        assert_int_equal(err, SL_OK);
        assert_int_equal(sl_schedules_build(&arena, plan, &opts, &sched), SL_OK);
        assert_int_equal(sl_interop_torch_csv_write(sched, false, &text), SL_ERR_REFUSED);
        sl_text_free(&text);
        sl_arena_free(&arena);
    }
}

/* torch takes its losses in the order of the last stage's forwards. */
static void losses_in_order(void **state) {
    static const struct {
        const char *text;
        int micro, after; /* -1: in order */
    } cases[] = {{"0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0", -1, -1},
                 {"0F2,0F0,0F1,0B0,0B1,0B2\n1F0,1F1,1F2,1B0,1B1,1B2", -1, -1},
                 {"0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F2,1B2,1F1,1B1,1B0", 1, 2}};
    (void)state;
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct sl_arena arena = {0};
        struct sl_sched *sched;
        int32_t micro = -1, after = -1;
        assert_int_equal(sl_interop_torch_csv_read(&arena, "t.csv", cases[i].text,
                                                   strlen(cases[i].text), &sched),
                         SL_OK);
        assert_int_equal(sl_interop_torch_csv_pairs_losses(sched, &micro, &after),
                         cases[i].micro < 0);
        assert_int_equal(micro, cases[i].micro);
        assert_int_equal(after, cases[i].after);
        sl_arena_free(&arena);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(torch_files),       cmocka_unit_test(counted_from_1),
        cmocka_unit_test(old_names),         cmocka_unit_test(refused),
        cmocka_unit_test(cannot_be_written), cmocka_unit_test(losses_in_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
