/* Speed of the product kernels (matmul, conv2d, lstm, attention), alone or against PyTorch.
 *
 *   gemm [--threads N,...] [--reps N] [--only TEXT] [--isa NAME] [--python PATH]
 *
 * With --python, a PyTorch process (bench/gemm_torch.py) alternates with ours on the same work; a
 * ratio above 1 means that ours is faster. Times are medians.
 *
 *   RESULT bench=gemm case=mm_NN_2048x384x1152 threads=1 gflops=150.1 torch=148.2 ratio=1.013
 */
#include "device/cpu/cpu.h"
#include "op/registry.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { MAX_REPS = 101 };

struct row {
    const char *name; /* as gemm_torch.py parses it: kind and numbers, joined by '_' */
    const char *kernel;
    const char *in[7], *out[3]; /* shapes; "-": absent */
    int64_t attr[5];            /* matmul: ta tb; attention: causal; conv: stride pad */
    double flops;
};

/* ---- rows ---- */

enum { MAX_ROWS = 160, TEXT = 48 };
struct made {
    struct row row;
    char name[TEXT], in[7][TEXT], out[3][TEXT];
};
static struct made rows[MAX_ROWS];
static int row_count;

static struct made *new_row(const char *kernel, double flops) {
    struct made *m = &rows[row_count++];
    m->row.kernel = kernel;
    m->row.name = m->name;
    m->row.flops = flops;
    return m;
}

static void add_matmul(const char *sides, int m, int k, int n) {
    bool ta = sides[0] == 'T', tb = sides[1] == 'T';
    struct made *r = new_row("matmul", 2.0 * m * k * n);
    snprintf(r->name, TEXT, "mm_%s_%d_%d_%d", sides, m, k, n);
    snprintf(r->in[0], TEXT, "%d,%d", ta ? k : m, ta ? m : k);
    snprintf(r->in[1], TEXT, "%d,%d", tb ? n : k, tb ? k : n);
    snprintf(r->out[0], TEXT, "%d,%d", m, n);
    r->row.attr[0] = ta;
    r->row.attr[1] = tb;
}

static void add_attention(bool back, int b, int t, int h, int d, bool causal) {
    double pairs = (double)b * h * t * (causal ? (t + 1) / 2.0 : t);
    struct made *r = new_row(back ? "attention_dqkv" : "attention", pairs * d * (back ? 10 : 4));
    snprintf(r->name, TEXT, "%s_%d_%d_%d_%d_%d", back ? "attnback" : "attn", b, t, h, d, causal);
    for (int i = 0; i < 3; i++)
        snprintf(r->in[i], TEXT, "%d,%d,%d,%d", b, t, h, d);
    snprintf(r->out[0], TEXT, "%d,%d,%d,%d", b, t, h, d);
    snprintf(r->out[1], TEXT, "%d,%d,%d", b, h, t);
    for (int i = 3; back && i < 5; i++)
        snprintf(r->in[i], TEXT, "%d,%d,%d,%d", b, t, h, d);
    if (back) {
        snprintf(r->in[5], TEXT, "%d,%d,%d", b, h, t);
        snprintf(r->out[1], TEXT, "%d,%d,%d,%d", b, t, h, d);
        snprintf(r->out[2], TEXT, "%d,%d,%d,%d", b, t, h, d);
    }
    r->row.attr[0] = causal;
}

static void add_conv(const char *kernel, int b, int c, int size, int o, const int shape[3]) {
    int k = shape[0], s = shape[1], p = shape[2], out = (size + 2 * p - k) / s + 1;
    struct made *r = new_row(kernel, 2.0 * b * o * out * out * c * k * k);
    char x[TEXT], w[TEXT], y[TEXT];
    snprintf(r->name, TEXT, "%s_%d_%d_%d_%d_%d_%d_%d", kernel, b, c, size, o, k, s, p);
    snprintf(x, TEXT, "%d,%d,%d,%d", b, c, size, size);
    snprintf(w, TEXT, "%d,%d,%d,%d", o, c, k, k);
    snprintf(y, TEXT, "%d,%d,%d,%d", b, o, out, out);
    bool dx = strcmp(kernel, "conv2d_dx") == 0, dw = strcmp(kernel, "conv2d_dw") == 0;
    memcpy(r->in[0], dx || dw ? y : x, TEXT);
    memcpy(r->in[1], dw ? x : w, TEXT);
    memcpy(r->out[0], dx ? x : dw ? w : y, TEXT);
    r->row.attr[0] = s;
    r->row.attr[1] = p;
}

static void add_lstm(int b, int t, int i, int h) {
    struct made *r = new_row("lstm", 8.0 * b * t * h * (i + h));
    snprintf(r->name, TEXT, "lstm_%d_%d_%d_%d", b, t, i, h);
    snprintf(r->in[0], TEXT, "%d,%d,%d", b, t, i);
    snprintf(r->in[1], TEXT, "%d,%d", 4 * h, i);
    snprintf(r->in[2], TEXT, "%d,%d", 4 * h, h);
    snprintf(r->in[3], TEXT, "%d", 4 * h);
    snprintf(r->in[4], TEXT, "%d", 4 * h);
    snprintf(r->out[0], TEXT, "%d,%d,%d", b, t, h);
    snprintf(r->out[1], TEXT, "%d,%d,%d", b, t, h);
    snprintf(r->out[2], TEXT, "%d,%d,%d", b, t, 4 * h);
}

/* GPT 6 x 384 with B = 8, T = 256; GPT-2 widths; a stage of bench/pipeline.c; ResNet-18 for CIFAR
 * with B = 64. */
static void add_rows(void) {
    static const int mm[][3] = {{2048, 384, 1152}, {2048, 384, 384},  {2048, 384, 1536},
                                {2048, 1536, 384}, {2048, 512, 512},  {2048, 768, 3072},
                                {2048, 3072, 768}, {2048, 384, 256},  {2048, 384, 50257},
                                {384, 2048, 1152}, {1536, 2048, 384}, {384, 2048, 384},
                                {512, 512, 512},   {512, 512, 1536},  {512, 512, 2048},
                                {512, 1536, 512},  {512, 2048, 512}};
    static const char *const sides[] = {"NN", "NT", "TN"};
    for (int i = 0; i < SL_COUNT(mm); i++)
        for (int s = 0; s < 3; s++)
            add_matmul(sides[s], mm[i][0], mm[i][1], mm[i][2]);
    add_matmul("NN", 2048, 50257, 384);
    add_matmul("TN", 384, 2048, 50257);
    for (int back = 0; back < 2; back++) {
        add_attention(back, 8, 256, 6, 64, true);
        add_attention(back, 8, 128, 8, 64, false);
        add_attention(back, 4, 128, 8, 64, true);
        add_attention(back, 2, 1024, 12, 64, true);
    }
    static const char *const convs[] = {"conv2d", "conv2d_dx", "conv2d_dw"};
    static const int layers[][5] = {{3, 32, 64, 3, 1},    {64, 32, 64, 3, 1},  {64, 32, 128, 3, 2},
                                    {128, 16, 128, 3, 1}, {64, 32, 128, 1, 2}, {256, 8, 256, 3, 1},
                                    {512, 4, 512, 3, 1}};
    for (int i = 0; i < SL_COUNT(layers); i++)
        for (int k = 0; k < 3; k++)
            add_conv(convs[k], 64, layers[i][0], layers[i][1], layers[i][2],
                     (int[]){layers[i][3], layers[i][4], layers[i][3] / 2});
    add_lstm(32, 64, 256, 256);
    add_lstm(64, 32, 512, 512);
}

/* ---- running ---- */

static struct sl_shape shape_of(const char *text) {
    struct sl_shape shape = {0};
    for (const char *at = text; *at; at += *at == ',') {
        char *end;
        shape.dim[shape.rank++] = strtoll(at, &end, 10);
        at = end;
    }
    return shape;
}

static float *floats(int64_t count) {
    size_t size = ((size_t)count * 4 + ((size_t)2 << 20)) & ~(((size_t)2 << 20) - 1);
    float *x = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (x == MAP_FAILED)
        exit(1);
    madvise(x, size, MADV_HUGEPAGE);
    for (int64_t i = 0; i < count; i++)
        x[i] = (float)((uint64_t)i * 2654435761u >> 20 & 255) / 256.0f - 0.5f;
    return x;
}

static void give_back(void *memory, int64_t count) {
    if (memory)
        munmap(memory, ((size_t)count * 4 + ((size_t)2 << 20)) & ~(((size_t)2 << 20) - 1));
}

struct bound {
    struct sl_operand in[7], out[3];
    union sl_attr attr[5];
    struct sl_instr instr;
    struct sl_device_cpu_call call;
    int64_t scratch_floats;
};

static void bind_attrs(struct bound *b, const struct made *m) {
    if (strncmp(m->row.kernel, "conv2d", 6) == 0) {
        for (int i = 0; i < 2; i++) {
            b->attr[0].ints.at[i] = m->row.attr[0];
            b->attr[1].ints.at[i] = m->row.attr[1];
        }
        b->attr[2].ints = (struct sl_ints){2, {1, 1}};
        b->attr[3].i = 1;
        return;
    }
    b->attr[0].i = m->row.attr[0];
    if (strncmp(m->row.kernel, "attention", 9) == 0)
        b->attr[1].f = 0.125;
    else
        b->attr[1].i = m->row.attr[1];
}

static void bind(struct bound *b, const struct made *m, const struct sl_device_cpu_kernel *kernel,
                 struct sl_device_pool *pool) {
    *b = (struct bound){0};
    bind_attrs(b, m);
    b->instr =
        (struct sl_instr){.kernel = m->row.kernel, .attr = b->attr, .in = b->in, .out = b->out};
    b->call.instr = &b->instr;
    b->call.pool = pool;
    for (int i = 0; i < 7 && m->in[i][0]; i++) {
        b->in[b->instr.in_count++].shape = shape_of(m->in[i]);
        b->call.in[i] = floats(sl_graph_shape_numel(&b->in[i].shape, 1));
    }
    for (int i = 0; i < 3 && m->out[i][0]; i++) {
        b->out[b->instr.out_count++].shape = shape_of(m->out[i]);
        b->call.out[i] = floats(sl_graph_shape_numel(&b->out[i].shape, 1));
    }
    if (kernel->scratch_bytes)
        b->scratch_floats = kernel->scratch_bytes(&b->instr, sl_device_pool_threads(pool)) / 4 + 64;
    b->call.scratch = floats(b->scratch_floats);
}

static void unbind(struct bound *b) {
    for (int i = 0; i < b->instr.in_count; i++)
        give_back((void *)b->call.in[i], sl_graph_shape_numel(&b->in[i].shape, 1));
    for (int i = 0; i < b->instr.out_count; i++)
        give_back(b->call.out[i], sl_graph_shape_numel(&b->out[i].shape, 1));
    give_back(b->call.scratch, b->scratch_floats);
}

static int by_size(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, int count) {
    qsort(x, (size_t)count, sizeof *x, by_size);
    return x[count / 2];
}

/* The PyTorch process: reads lines with a case and threads, writes seconds. */
struct torch {
    FILE *in, *out;
};

static void torch_open(struct torch *torch, const char *python) {
    int to[2], from[2];
    const char *root = getenv("SRC_DIR");
    char script[1024];
    snprintf(script, sizeof script, "%s/bench/gemm_torch.py", root ? root : ".");
    if (pipe(to) != 0 || pipe(from) != 0)
        exit(1);
    if (fork() == 0) {
        dup2(to[0], 0);
        dup2(from[1], 1);
        close(to[1]);
        close(from[0]);
        execl(python, python, script, (char *)NULL);
        _exit(127);
    }
    close(to[0]);
    close(from[1]);
    torch->in = fdopen(to[1], "w");
    torch->out = fdopen(from[0], "r");
}

static double torch_seconds(const struct torch *torch, const char *name, int threads) {
    char line[64];
    fprintf(torch->in, "%s %d\n", name, threads);
    fflush(torch->in);
    if (!fgets(line, sizeof line, torch->out)) {
        fprintf(stderr, "gemm: the PyTorch process ended\n");
        exit(1);
    }
    return strtod(line, NULL);
}

/* One thread is measured by its CPU time, which excludes time without a core. */
static double seconds(int threads) {
    struct timespec now;
    clock_gettime(threads == 1 ? CLOCK_PROCESS_CPUTIME_ID : CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static const struct sl_device_cpu_kernel *find(const char *isa, const char *name) {
    for (int t = 0; isa && sl_device_cpu_tables[t]; t++)
        if (strcmp(sl_device_cpu_tables[t]->isa, isa) == 0)
            return sl_device_cpu_table_find(sl_device_cpu_tables[t], name);
    return isa ? NULL : sl_device_cpu_find(name);
}

static void run_row(const struct made *m, struct sl_device_pool *pool, const char *isa, int reps,
                    const struct torch *torch) {
    const struct sl_device_cpu_kernel *kernel = find(isa, m->row.kernel);
    double ours[MAX_REPS], theirs[MAX_REPS];
    struct bound b;
    int threads = sl_device_pool_threads(pool);
    if (!kernel)
        return;
    bind(&b, m, kernel, pool);
    kernel->run(&b.call);
    if (torch->in)
        torch_seconds(torch, m->name, threads);
    for (int i = 0; i < reps; i++) {
        double start = seconds(threads);
        kernel->run(&b.call);
        ours[i] = seconds(threads) - start;
        theirs[i] = torch->in ? torch_seconds(torch, m->name, threads) : 0;
    }
    double mine = median(ours, reps), other = median(theirs, reps), work = 1e-9 * m->row.flops;
    printf("RESULT bench=gemm case=%s threads=%d gflops=%.1f best=%.1f", m->name, threads,
           work / mine, work / ours[0]);
    if (torch->in)
        printf(" torch=%.1f ratio=%.3f torch_best=%.1f", work / other, other / mine,
               work / theirs[0]);
    printf("\n");
    fflush(stdout);
    unbind(&b);
}

int main(int argc, char **argv) {
    const char *threads = "1,2", *only = "", *isa = NULL;
    struct torch torch = {0};
    int reps = 9;
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--threads") == 0)
            threads = argv[i + 1];
        else if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
        else if (strcmp(argv[i], "--isa") == 0)
            isa = argv[i + 1];
        else if (strcmp(argv[i], "--reps") == 0)
            reps = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--python") == 0)
            torch_open(&torch, argv[i + 1]);
        else
            return fprintf(stderr, "gemm: unknown option %s\n", argv[i]), 2;
    }
    reps = reps < 1 ? 1 : reps > MAX_REPS ? MAX_REPS : reps;
    add_rows();
    for (const char *at = threads; *at; at += *at == ',') {
        char *end;
        struct sl_device_pool *pool;
        long count = strtol(at, &end, 10);
        at = end;
        if (count < 1 || sl_device_pool_open((int)count, &pool) != SL_OK)
            return fprintf(stderr, "gemm: no pool of %ld threads\n", count), 1;
        for (int i = 0; i < row_count; i++)
            if (strstr(rows[i].name, only))
                run_row(&rows[i], pool, isa, reps, &torch);
        sl_device_pool_close(pool);
    }
    return 0;
}
