/* Plans of the published planners' own inputs, compared with their published results; prints RESULT
 * lines.
 *
 *   ./dev bench plan_peers [REPEATS]
 *
 * Times are CPU seconds of the search without reading the file, median of the repeats, one thread.
 * The published objectives and CPU seconds were measured on the same kind of machine with the
 * published programs; of a range the low end counts. ratio = published CPU / ours. The published
 * seconds are of the whole process (PipeDream: about 0.13 s start Python).
 *
 * gave-up: the published program did not finish on this input. Its objective is that of a simpler
 * run: one topological order (dnn-partitioning -linearize) or a compressed graph (PipeDream). Rows
 * with non-contiguous are compared with the best result of dnn-partitioning's modes without
 * contiguity (Scotch, local search); of their seconds only those of bert24 were published.
 */
#include "interop/importer.h"
#include "peers/peers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GIB 1073741824.0
#define FPGA 17185374208.0

enum { DEFAULT_REPEATS = 5, MAX_REPEATS = 101 };

struct row {
    const char *model, *file;
    int64_t level[2]; /* second 0: one level */
    double bandwidth[2], memory_bytes;
    int64_t micro;
    double published, published_s; /* 0: the published program gave up */
};

static const struct row rows[] = {
    {"piper", "bert32a100.json", {8}, {25 * GIB}, 8 * GIB, 1920, .16585575, .06},
    {"piper", "bert32a100.json", {16}, {25 * GIB}, 8 * GIB, 1920, .082962217, .15},
    {"piper", "bert32a100.json", {32}, {25 * GIB}, 8 * GIB, 1920, .04151545, .16},
    {"piper", "bert32a100.json", {64}, {25 * GIB}, 8 * GIB, 1920, .02020055, .28},
    {"piper", "bert32a100.json", {128}, {25 * GIB}, 8 * GIB, 1920, .01012088, .6},
    {"piper", "bert32a100.json", {256}, {25 * GIB}, 8 * GIB, 1920, .0050810453, 1.5},
    {"piper", "bert32a100.json", {512}, {25 * GIB}, 8 * GIB, 1920, .0025611278, 4.3},
    {"piper", "bert32a100.json", {1024}, {25 * GIB}, 8 * GIB, 1920, .0013031795, 21.1},
    {"piper", "bert32a100.json", {2048}, {25 * GIB}, 8 * GIB, 1920, .00070359118, 80.3},
    {"piper", "gnmt.json", {2}, {25 * GIB}, 2.5 * GIB, 256, 263.35429, 276},
    {"piper", "gnmt.json", {2}, {25 * GIB}, 3.5 * GIB, 256, 260.22682, 282},
    {"piper", "gnmt.json", {4}, {25 * GIB}, 1.2 * GIB, 256, 137.13099, 376},
    {"piper", "gnmt.json", {4}, {25 * GIB}, 2.5 * GIB, 256, 131.67734, 444},
    {"piper", "gnmt.json", {8}, {25 * GIB}, 1.2 * GIB, 256, 68.565564, 607},
    {"dnn-partitioning", "LayerGraphs-bert24_training.json", {6}, {1}, FPGA, 1, 41.7458, .01},
    {"dnn-partitioning", "LayerGraphs-gnmt_training.json", {6}, {1}, FPGA, 1, 107.004, 34.6},
    {"dnn-partitioning", "OperatorGraphs-bert_l-3_training.json", {3}, {1}, FPGA, 1, 65.3031, 5.79},
    {"dnn-partitioning", "OperatorGraphs-bert_l-6_training.json", {3}, {1}, FPGA, 1, 72.865, 23.9},
    {"dnn-partitioning", "LayerGraphs-inceptionv3_training.json", {6}, {1}, FPGA, 1, 123.93, 0},
    {"pipedream", "alexnet.graph.txt", {4}, {1e9}, 0, 1, .034217, .16},
    {"pipedream", "alexnet.graph.txt", {16}, {1e9}, 0, 1, .018874, .17},
    {"pipedream", "alexnet.graph.txt", {4, 4}, {1e10, 1.25e9}, 0, 1, .015099, .16},
    {"pipedream", "alexnet.graph.txt", {8, 2}, {3e10, 3.125e9}, 0, 1, .009683, .19},
    {"pipedream", "vgg16.graph.txt", {4}, {1e9}, 0, 1, .205521, .14},
    {"pipedream", "vgg16.graph.txt", {16}, {1e9}, 0, 1, .056530, .23},
    {"pipedream", "vgg16.graph.txt", {4, 4}, {1e10, 1.25e9}, 0, 1, .067134, .21},
    {"pipedream", "vgg16.graph.txt", {8, 2}, {3e10, 3.125e9}, 0, 1, .065767, .46},
    {"pipedream", "squeezenet1_0.graph.txt", {4}, {1e9}, 0, 1, .074414, .2},
    {"pipedream", "squeezenet1_0.graph.txt", {16}, {1e9}, 0, 1, .018881, .8},
    {"pipedream", "squeezenet1_0.graph.txt", {4, 4}, {1e10, 1.25e9}, 0, 1, .018618, 1.5},
    {"pipedream", "squeezenet1_0.graph.txt", {8, 2}, {3e10, 3.125e9}, 0, 1, .018065, 5.2},
    {"pipedream", "gnmt.graph.txt", {4}, {1e9}, 0, 1, .025868, .18},
    {"pipedream", "gnmt.graph.txt", {16}, {1e9}, 0, 1, .019285, .62},
    {"pipedream", "gnmt.graph.txt", {4, 4}, {1e10, 1.25e9}, 0, 1, .011081, 1.3},
    {"pipedream", "gnmt.graph.txt", {8, 2}, {3e10, 3.125e9}, 0, 1, .008860, 4.4},
    {"pipedream", "resnet50.graph.txt", {4}, {1e9}, 0, 1, .162881, .58},
    {"pipedream", "resnet50.graph.txt", {16}, {1e9}, 0, 1, .047801, 4.6},
    {"pipedream", "resnet50.graph.txt", {4, 4}, {1e10, 1.25e9}, 0, 1, .043208, 26},
    {"pipedream", "resnet50.graph.txt", {8, 2}, {3e10, 3.125e9}, 0, 1, .031989, 93},
    {"pipedream", "resnet18.graph.txt", {4}, {1e9}, 0, 1, 0, 0},
    {"pipedream", "inception_v3.graph.txt", {4}, {1e9}, 0, 1, .227279, 0},
    {"pipedream", "inception_v3.graph.txt", {16}, {1e9}, 0, 1, .065089, 0},
    {"pipedream", "nasnetamobile.graph.txt", {4}, {1e9}, 0, 1, 0, 0},
    {"pipedream", "nasnetamobile.graph.txt", {16}, {1e9}, 0, 1, 0, 0},
};

/* Without contiguity. */
static const struct row scattered[] = {
    {"dnn-partitioning", "LayerGraphs-bert24_training.json", {6}, {1}, FPGA, 1, 39.9432, .25},
    {"dnn-partitioning", "LayerGraphs-gnmt_training.json", {6}, {1}, FPGA, 1, 93.8855, 0},
    {"dnn-partitioning", "LayerGraphs-inceptionv3_training.json", {6}, {1}, FPGA, 1, 119.181, 0},
};

static bool is_scattered(const struct row *row) {
    return row >= scattered && row < scattered + SL_COUNT(scattered);
}

static double cpu_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int compare_doubles(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void stop_on(sl_err err) {
    if (err == SL_OK)
        return;
    fprintf(stderr, "%s\n", sl_err_message());
    exit((int)err);
}

static void print_row(const struct row *row, int64_t devices, const struct sl_peers_plan *plan,
                      double seconds) {
    char ratio[32] = "-", published[64] = "- published_s -", levels[32] = "";
    if (row->level[1])
        snprintf(levels, sizeof levels, " levels %lldx%lld", (long long)row->level[0],
                 (long long)row->level[1]);
    if (row->published > 0)
        snprintf(published, sizeof published, "%.9g published_s %s", row->published,
                 is_scattered(row) ? "-" : "gave-up");
    if (row->published_s > 0) {
        snprintf(published, sizeof published, "%.9g published_s %g", row->published,
                 row->published_s);
        snprintf(ratio, sizeof ratio, "%.0f", row->published_s / seconds);
    }
    printf("RESULT plan %s %s k %lld%s%s objective %.9g published %s cpu_s %.5f ratio %s proven %d "
           "gap %.4f cuts %lld\n",
           row->model, row->file, (long long)devices, levels,
           is_scattered(row) ? " non-contiguous" : "", plan->objective, published, seconds, ratio,
           plan->proven, plan->objective / plan->lower_bound - 1, (long long)plan->ideals);
    fflush(stdout);
}

static void measure(const struct row *row, const char *path, int repeats) {
    struct sl_arena arena = {0};
    const struct sl_layers *layers;
    struct sl_peers_plan plan;
    double times[MAX_REPEATS];
    char *text;
    size_t length;
    stop_on(sl_file_read(path, SL_IMPORT_LIMIT_BYTES, &text, &length));
    stop_on(sl_interop_importer_find(row->model)->read(&arena, path, text, length, &layers));
    struct sl_peers_query query = {.devices = row->level[0] * (row->level[1] ? row->level[1] : 1),
                                   .level_count = row->level[1] ? 2 : 1,
                                   .level = {row->level[0], row->level[1]},
                                   .bandwidth = {row->bandwidth[0], row->bandwidth[1]},
                                   .memory_bytes = row->memory_bytes,
                                   .micro = row->micro,
                                   .cpus = layers->machine.cpus,
                                   .scattered = is_scattered(row)};
    for (int i = 0; i < repeats; i++) {
        struct sl_arena own = {0};
        double start = cpu_s();
        stop_on(sl_peers_cost_model_of(row->model)->plan(&own, layers, &query, &plan));
        times[i] = cpu_s() - start;
        sl_arena_free(&own);
    }
    qsort(times, (size_t)repeats, sizeof *times, compare_doubles);
    print_row(row, query.devices, &plan, times[repeats / 2]);
    free(text);
    sl_arena_free(&arena);
}

/* False: the file does not exist. */
static bool measure_file(const struct row *row, int repeats) {
    const char *source = getenv("SRC_DIR");
    static const char *const folders[] = {"/../shared/data", "/../../shared/data"};
    for (int f = 0; f < SL_COUNT(folders); f++) {
        char path[1024];
        snprintf(path, sizeof path, "%s%s/planner-inputs/%s/%s", source ? source : ".", folders[f],
                 row->model, row->file);
        if (!sl_file_exists(path))
            continue;
        measure(row, path, repeats);
        return true;
    }
    return false;
}

int main(int argc, char **argv) {
    int repeats = argc > 1 ? atoi(argv[1]) : DEFAULT_REPEATS, done = 0;
    if (repeats < 1 || repeats > MAX_REPEATS)
        repeats = DEFAULT_REPEATS;
    for (int i = 0; i < SL_COUNT(rows); i++)
        done += measure_file(&rows[i], repeats);
    for (int i = 0; i < SL_COUNT(scattered); i++)
        done += measure_file(&scattered[i], repeats);
    if (!done)
        fprintf(stderr, "no planner inputs beside this tree (../shared/data/planner-inputs)\n");
    return 0;
}
