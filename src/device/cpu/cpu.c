/* The CPU device: binds instructions to kernels and runs them one after another. */
#define _GNU_SOURCE
#include "device/cpu/cpu.h"

#include "base/clock.h"
#include "device/cpu/halves.h"
#include "device/cpu/optim.h"
#include "optim/norm.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGN = 64 };

struct cpu_device {
    /* the first member, because a handle to the device is a pointer to this struct */
    struct sl_device device;
    struct sl_device_pool *pool;
    struct sl_device_cpu_room room; /* memory for optimizer steps and norms */
    /* for kernels; the programs of a device share it, because they run one after another */
    void *scratch;
    int64_t scratch_bytes;
};

/* A program bound to this device. */
struct cpu_exec {
    const struct sl_program *program;
    const struct sl_device_cpu_kernel **kernels; /* [instr_count]: kernel of each instruction */
    int64_t scratch_added; /* bytes that this program added to the device's scratch */
};

static struct cpu_device *cpu_of(struct sl_device *device) { return (struct cpu_device *)device; }
static const struct cpu_exec *exec_of(const struct sl_exec *exec) {
    return (const struct cpu_exec *)exec;
}

extern const struct sl_device_row sl_device_cpu;

struct sl_device_pool *sl_device_cpu_pool(struct sl_device *device) {
    return device->row == &sl_device_cpu ? cpu_of(device)->pool : NULL;
}

static const char *cpu_missing(void) { return NULL; }

static int first_table; /* index of the best table that sl_device_cpu_limit allows */

sl_err sl_device_cpu_limit(const char *isa) {
    int t = 0;
    while (isa && sl_device_cpu_tables[t] && strcmp(isa, sl_device_cpu_tables[t]->isa) != 0)
        t++;
    if (!sl_device_cpu_tables[t] || (isa && !sl_device_cpu_tables[t]->supported()))
        return sl_fail(SL_ERR_REFUSED,
                       "this CPU has no instruction set '%s'; try one of amx, avx512, avx2, any",
                       isa);
    first_table = t;
    return SL_OK;
}

const struct sl_device_cpu_kernel *sl_device_cpu_find_for(const char *name, enum sl_dtype dtype) {
    const struct sl_device_cpu_kernel *found = NULL;
    if (dtype == SL_BF16 && first_table == 0)
        found = sl_device_cpu_table_find(&sl_device_cpu_table_bf16, name);
    for (int t = first_table; sl_device_cpu_tables[t] && !found; t++)
        found = sl_device_cpu_table_find(sl_device_cpu_tables[t], name);
    return found;
}

const struct sl_device_cpu_kernel *sl_device_cpu_find(const char *name) {
    return sl_device_cpu_find_for(name, SL_FLOAT);
}

static sl_err cpu_open(const struct sl_device_config *config, struct sl_device **out) {
    struct cpu_device *cpu = calloc(1, sizeof *cpu);
    if (!cpu)
        sl_out_of_memory(sizeof *cpu);
    cpu->device = (struct sl_device){&sl_device_cpu, config->threads > 0 ? config->threads : 1};
    sl_err err =
        sl_device_pool_open_at(cpu->device.threads, config->bind ? config->place : -1, &cpu->pool);
    if (err != SL_OK) {
        free(cpu);
        return err;
    }
    *out = &cpu->device;
    return SL_OK;
}

/* Allocates an anonymous map: it is zeroed, goes back to the system immediately when freed, and is
 * visible in the system's statistics. The bytes in front of the block store its size. */
static sl_err cpu_alloc(struct sl_device *device, int64_t size_bytes, void **out) {
    (void)device;
    size_t size = (size_t)size_bytes + ALIGN;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char human[SL_HUMAN_BYTES];
    if (memory == MAP_FAILED)
        return sl_fail(SL_ERR_SYSTEM, "cannot allocate %s of memory",
                       sl_human_bytes(size_bytes, human));
    madvise(memory, size, MADV_HUGEPAGE);
    memcpy(memory, &size, sizeof size);
    *out = memory + ALIGN;
    return SL_OK;
}

static void cpu_free(struct sl_device *device, void *memory) {
    (void)device;
    size_t size;
    if (!memory)
        return;
    char *start = (char *)memory - ALIGN;
    memcpy(&size, start, sizeof size);
    munmap(start, size);
}

static void cpu_close(struct sl_device *device) {
    if (!device)
        return;
    sl_device_pool_close(cpu_of(device)->pool);
    free(cpu_of(device)->room.at);
    cpu_free(device, cpu_of(device)->scratch);
    free(device);
}

static sl_err cpu_copy(struct sl_device *device, enum sl_stream stream, void *to, const void *from,
                       int64_t size_bytes) {
    (void)device;
    (void)stream;
    memcpy(to, from, (size_t)size_bytes);
    return SL_OK;
}

static sl_err cpu_sync(struct sl_device *device, enum sl_stream stream) {
    (void)device;
    (void)stream;
    return SL_OK;
}

static void cpu_unbind(struct sl_device *device, struct sl_exec *exec) {
    (void)device;
    if (!exec)
        return;
    free((void *)exec_of(exec)->kernels);
    free(exec);
}

static sl_err find_kernels(struct cpu_exec *exec) {
    const struct sl_program *program = exec->program;
    for (int i = 0; i < program->instr_count; i++) {
        const struct sl_instr *instr = &program->instrs[i];
        SL_TRY(sl_device_refuse_plan_only(instr->op));
        exec->kernels[i] = sl_device_cpu_find_for(instr->kernel, program->dtype);
        if (!exec->kernels[i])
            return sl_fail(SL_ERR_REFUSED, "the cpu has no kernel for '%s'", instr->kernel);
    }
    return SL_OK;
}

static bool cpu_has_kernel(const char *name) { return sl_device_cpu_find(name) != NULL; }

/* Returns the largest scratch that a kernel of the program needs. */
static int64_t program_scratch(const struct sl_program *program, int threads) {
    int64_t max = 0;
    for (int i = 0; i < program->instr_count; i++) {
        const struct sl_instr *instr = &program->instrs[i];
        const struct sl_device_cpu_kernel *kernel =
            sl_device_cpu_find_for(instr->kernel, program->dtype);
        if (!kernel)
            continue;
        int64_t need = sl_device_cpu_halves_bytes(kernel, instr, threads);
        max = need > max ? need : max;
    }
    return max;
}

/* Touches all pages before the first kernel, so that the memory in use does not depend on
 * timing. */
static void touch_scratch(void *ctx, int thread, int threads) {
    const struct cpu_device *cpu = ctx;
    int64_t begin, end;
    sl_device_pool_range(cpu->scratch_bytes, 4096, thread, threads, &begin, &end);
    memset((char *)cpu->scratch + begin, 0, (size_t)(end - begin));
}

/* Grows the device's scratch to at least this size. Scratch keeps no content from kernel to
 * kernel. */
static sl_err grow_scratch(struct cpu_device *cpu, int64_t size_bytes, int64_t *added) {
    *added = 0;
    if (size_bytes <= cpu->scratch_bytes)
        return SL_OK;
    cpu_free(&cpu->device, cpu->scratch);
    cpu->scratch = NULL;
    SL_TRY(cpu_alloc(&cpu->device, size_bytes, &cpu->scratch));
    *added = size_bytes - cpu->scratch_bytes;
    cpu->scratch_bytes = size_bytes;
    sl_device_pool_set_scratch(cpu->pool, cpu->scratch, size_bytes);
    sl_device_pool_run(cpu->pool, touch_scratch, cpu);
    return SL_OK;
}

static sl_err cpu_bind(struct sl_device *device, const struct sl_program *program,
                       struct sl_exec **out) {
    struct cpu_exec *exec = calloc(1, sizeof *exec);
    if (!exec)
        sl_out_of_memory(sizeof *exec);
    exec->program = program;
    exec->kernels = sl_realloc(NULL, sizeof *exec->kernels * (size_t)(program->instr_count + 1));
    sl_err err = find_kernels(exec);
    if (err == SL_OK)
        err = grow_scratch(cpu_of(device), program_scratch(program, device->threads),
                           &exec->scratch_added);
    if (err != SL_OK)
        cpu_unbind(device, (struct sl_exec *)exec);
    else
        *out = (struct sl_exec *)exec;
    return err;
}

static int64_t cpu_scratch_bytes(const struct sl_device *device, const struct sl_exec *exec) {
    (void)device;
    return exec_of(exec)->scratch_added;
}

/* Returns scratch, a partial sum per block of a norm, the used part of each thread's stack, and the
 * pages of code and tables of a training process. The constants are measured; e2e.memory checks
 * them. */
static int64_t cpu_extra_bytes(const struct sl_program *program, int threads) {
    enum { THREAD_BYTES = 64 << 10, PROCESS_BYTES = 13 << 18 };
    int64_t bytes = program_scratch(program, threads) + threads * THREAD_BYTES + PROCESS_BYTES;
    for (int i = 0; i < program->param_count; i++)
        bytes += (program->params[i].numel / SL_NORM_BLOCK + 1) * (int64_t)sizeof(double);
    return bytes;
}

static void *address(const struct sl_operand *operand, const struct sl_device_args *args) {
    if (operand->space == SL_SPACE_NONE)
        return NULL;
    return (char *)args->base[operand->space] + operand->offset;
}

static void run_instr(struct cpu_device *cpu, const struct cpu_exec *exec, int index,
                      const struct sl_device_args *args) {
    const struct sl_instr *instr = &exec->program->instrs[index];
    struct sl_device_cpu_call call = {
        .instr = instr,
        .pool = cpu->pool,
        .scratch = cpu->scratch,
        .add = instr->accumulate && args->accumulate,
        .seed = args->seed,
        .first_sample = args->first_sample,
        .samples = exec->program->samples,
    };
    for (int i = 0; i < instr->in_count; i++)
        call.in[i] = address(&instr->in[i], args);
    for (int i = 0; i < instr->out_count; i++)
        call.out[i] = address(&instr->out[i], args);
    if (exec->program->dtype == SL_BF16)
        sl_device_cpu_halves_run(exec->kernels[index], &call);
    else
        exec->kernels[index]->run(&call);
}

static sl_err cpu_run(struct sl_device *device, struct sl_exec *exec,
                      const struct sl_device_args *args) {
    struct cpu_device *cpu = cpu_of(device);
    const struct sl_program *program = exec_of(exec)->program;
    int begin = args->recompute_done ? program->end[SL_PHASE_R] : program->begin[args->phase];
    for (int i = begin; i < program->end[args->phase]; i++) {
        int64_t start = args->op_ns ? sl_clock_ns() : 0;
        run_instr(cpu, exec_of(exec), i, args);
        if (args->op_ns)
            args->op_ns[i] += sl_clock_ns() - start;
        if (args->after)
            SL_TRY(args->after(args->ctx, i));
    }
    return SL_OK;
}

struct add_job {
    float *y;
    const float *x;
    int64_t numel;
};

static void add_part(void *ctx, int thread, int threads) {
    const struct add_job *job = ctx;
    int64_t from, to;
    sl_device_pool_range(job->numel, 1024, thread, threads, &from, &to);
    for (int64_t i = from; i < to; i++)
        job->y[i] += job->x[i];
}

static sl_err cpu_add(struct sl_device *device, void *y, const void *x, int64_t numel) {
    struct add_job job = {y, x, numel};
    sl_device_pool_share(cpu_of(device)->pool, add_part, &job);
    return SL_OK;
}

static sl_err cpu_step(struct sl_device *device, const struct sl_step_item *items, int count) {
    struct cpu_device *cpu = cpu_of(device);
    sl_device_cpu_step(sl_device_cpu_optim_best(), cpu->pool, items, count, &cpu->room);
    return SL_OK;
}

static sl_err cpu_predict(struct sl_device *device, const struct sl_step_item *items, int count,
                          double ahead) {
    sl_device_cpu_predict(sl_device_cpu_optim_best(), cpu_of(device)->pool, items, count, ahead);
    return SL_OK;
}

static sl_err cpu_norm_sq(struct sl_device *device, const struct sl_norm_item *items, int count) {
    struct cpu_device *cpu = cpu_of(device);
    sl_device_cpu_norm_sq(sl_device_cpu_optim_best(), cpu->pool, items, count, &cpu->room);
    return SL_OK;
}

const struct sl_device_row sl_device_cpu = {
    .name = "cpu",
    .brief = "cores of this machine",
    .is_host = true,
    .halves = true,
    .missing = cpu_missing,
    .open = cpu_open,
    .close = cpu_close,
    .alloc = cpu_alloc,
    .free = cpu_free,
    .upload = cpu_copy,
    .download = cpu_copy,
    .copy = cpu_copy,
    .sync = cpu_sync,
    .has_kernel = cpu_has_kernel,
    .bind = cpu_bind,
    .unbind = cpu_unbind,
    .run = cpu_run,
    .scratch_bytes = cpu_scratch_bytes,
    .extra_bytes = cpu_extra_bytes,
    .add = cpu_add,
    .step = cpu_step,
    .predict = cpu_predict,
    .norm_sq = cpu_norm_sq,
};
