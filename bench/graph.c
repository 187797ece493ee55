/* How long models take to read, check and differentiate; prints RESULT lines.
 *
 *   ./dev bench graph [REPEATS]
 */
#include "base/clock.h"
#include "graph/branch.h"
#include "graph/model.h"
#include "graph/stats.h"
#include "op/registry.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { DEFAULT_REPEATS = 9, MAX_REPEATS = 101 };

static const char *models_dir;
static int repeats = DEFAULT_REPEATS;

static int compare_ns(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

static double median_ms(int64_t *ns, int count) {
    qsort(ns, (size_t)count, sizeof *ns, compare_ns);
    return (double)ns[count / 2] / 1e6;
}

/* CPU time: other load on the machine does not count. */
static int64_t cpu_ns(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void stop_on(sl_err err) {
    if (err == SL_OK)
        return;
    fprintf(stderr, "%s\n", sl_err_message());
    exit((int)err);
}

struct times {
    int64_t read[MAX_REPEATS], autodiff[MAX_REPEATS], all[MAX_REPEATS], cpu[MAX_REPEATS];
    int64_t nodes, forward;
    double megabytes; /* of the graph */
};

/* text NULL: the file itself is read. */
static void measure(const char *file, const struct sl_text *text, struct times *times) {
    const char *dirs[] = {models_dir, NULL};
    struct sl_model_options options = {.find_op = sl_op_find,
                                       .nearest_op = sl_op_nearest,
                                       .find_used = sl_graph_model_find_used,
                                       .find_ctx = dirs};
    for (int i = 0; i < repeats; i++) {
        struct sl_graph *graph = NULL;
        int64_t start = sl_clock_ns(), cpu = cpu_ns();
        if (text)
            stop_on(sl_graph_model_read(file, text->at, text->length, &options, &graph));
        else
            stop_on(sl_graph_model_read_file(file, &options, &graph));
        int64_t read = sl_clock_ns();
        stop_on(sl_graph_autodiff(graph));
        int64_t end = sl_clock_ns();
        times->read[i] = read - start;
        times->autodiff[i] = end - read;
        times->all[i] = end - start;
        times->cpu[i] = cpu_ns() - cpu;
        times->nodes = graph->nodes.count;
        times->forward = graph->forward_count;
        times->megabytes = (double)graph->arena.used_bytes / 1e6;
        sl_graph_close(graph);
    }
}

static void bench_model(const char *name) {
    struct times times;
    char file[4096];
    snprintf(file, sizeof file, "%s/%s.model", models_dir, name);
    measure(file, NULL, &times);
    printf("RESULT bench=graph what=model model=%s nodes=%lld read_ms=%.3f autodiff_ms=%.3f "
           "total_ms=%.3f cpu_ms=%.3f\n",
           name, (long long)times.nodes, median_ms(times.read, repeats),
           median_ms(times.autodiff, repeats), median_ms(times.all, repeats),
           median_ms(times.cpu, repeats));
}

/* A chain of matmul, add and relu with `n` forward nodes, built by calls. */
static void bench_chain(int64_t n) {
    struct sl_text text = {0}, flat = {0};
    struct times times;
    struct sl_model_options options = {.find_op = sl_op_find, .nearest_op = sl_op_nearest};
    struct sl_graph *graph = NULL;
    sl_text_printf(&text,
                   "input x : float[B, 8]\nrepeat i in 0..%lld as layer {\n    param w[8, 8] ~ "
                   "normal(0.02)\n    x = x + relu(matmul(x, w))\n}\nloss reduce_mean(x)\n",
                   (long long)(n - 1) / 3);
    measure("chain", &text, &times);
    double total = median_ms(times.all, repeats), cpu = median_ms(times.cpu, repeats);
    stop_on(sl_graph_model_read("chain", text.at, text.length, &options, &graph));
    sl_graph_model_write(graph, &flat);
    int64_t start = sl_clock_ns();
    struct sl_arena arena = {0};
    struct sl_graph_stats stats;
    sl_graph_stats(graph, &stats);
    (void)sl_graph_branches(graph, &arena);
    double report = (double)(sl_clock_ns() - start) / 1e6;
    sl_arena_free(&arena);
    sl_graph_close(graph);
    printf("RESULT bench=graph what=chain forward_nodes=%lld nodes=%lld read_ms=%.2f "
           "autodiff_ms=%.2f total_ms=%.2f cpu_ms=%.2f cpu_ns_per_node=%.0f arena_mb=%.0f "
           "stats_ms=%.1f\n",
           (long long)times.forward, (long long)times.nodes, median_ms(times.read, repeats),
           median_ms(times.autodiff, repeats), total, cpu, cpu * 1e6 / (double)times.forward,
           times.megabytes, report);
    measure("flat", &flat, &times);
    total = median_ms(times.all, repeats);
    cpu = median_ms(times.cpu, repeats);
    printf(
        "RESULT bench=graph what=flat forward_nodes=%lld text_mb=%.1f read_ms=%.2f total_ms=%.2f "
        "cpu_ms=%.2f cpu_ns_per_node=%.0f\n",
        (long long)times.forward, (double)flat.length / 1e6, median_ms(times.read, repeats), total,
        cpu, cpu * 1e6 / (double)times.forward);
    sl_text_free(&text);
    sl_text_free(&flat);
}

/* The whole command, one process per model. */
static void bench_command(const char *sluice) {
    char command[8192];
    int count = 0;
    DIR *dir = opendir(models_dir);
    const struct dirent *entry;
    int64_t start = sl_clock_ns();
    while (dir && (entry = readdir(dir)) != NULL) {
        size_t length = strlen(entry->d_name);
        if (length < 7 || strcmp(entry->d_name, "layers.model") == 0 ||
            strcmp(entry->d_name + length - 6, ".model") != 0)
            continue;
        snprintf(command, sizeof command, "'%s' model '%s/%s' >/dev/null", sluice, models_dir,
                 entry->d_name);
        if (system(command) != 0)
            exit(1);
        count++;
    }
    if (dir)
        closedir(dir);
    printf("RESULT bench=graph what=command models=%d total_ms=%.0f\n", count,
           (double)(sl_clock_ns() - start) / 1e6);
}

int main(int argc, char **argv) {
    const char *src = getenv("SRC_DIR"), *sluice = getenv("SLUICE");
    char dir[4096];
    snprintf(dir, sizeof dir, "%s/models", src ? src : ".");
    models_dir = dir;
    if (argc > 1)
        repeats = atoi(argv[1]);
    if (repeats < 1 || repeats > MAX_REPEATS) {
        fprintf(stderr, "REPEATS is between 1 and %d\n", MAX_REPEATS);
        return 2;
    }
    if (sluice)
        bench_command(sluice);
    bench_model("gpt-3.8b");
    bench_model("llama");
    bench_model("inception-v4");
    for (int64_t n = 12500; n <= 200000; n *= 2)
        bench_chain(n);
    return 0;
}
