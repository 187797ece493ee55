/* Programs on the GPU: binding, running phases, CUDA graphs.
 *
 *   a phase with these slabs    1st time   launched kernel by kernel (plans and libraries warm up)
 *                               2nd time   recorded as a graph, then launched
 *                               later      the graph is launched
 *
 * Work whose result changes from run to run is done before the graph is launched: the 16-bit
 * copy of changed weights, and the state of dropout's generator. */
#include "device/cuda/cuda.h"
#include "pass/holes.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_GRAPHS = 64, ROOMY = 32 << 20 };

struct key {
    enum sl_phase phase;
    bool accumulate;
    void *base[SL_SPACE_COUNT];
};

struct graph {
    struct key key;
    cudaGraphExec_t exec; /* NULL: this phase ran only once with these arguments */
};

struct sl_exec {
    const struct sl_program *program;
    /* a copy of the program's; weights have 16 bits for the kernels that want that */
    struct sl_instr *instrs;
    struct sl_operand *operands;
    const struct sl_cuda_kernel **kernels; /* [instr_count] */
    struct sl_cuda_layout layout;
    void *scratch;
    int64_t scratch_bytes;
    int64_t copies_at; /* offset in scratch of the transposed images that phase W reads */
    /* [instr_count]: the free range of the slab that an instruction uses if it needs large
     * scratch */
    struct sl_hole *holes;
    bool halved[SL_SPACE_COUNT];  /* for PARAM and FIXED: products read 16-bit weights, */
    void *halves[SL_SPACE_COUNT]; /* which are here, in the version of the current run */
    struct sl_cuda_draw *draw;
    bool draws;
    struct graph graphs[MAX_GRAPHS];
    int graph_count;
    cudaEvent_t *events; /* [instr_count + 1] if instructions are timed, else NULL */
};

void sl_cuda_unbind(struct sl_device *device, struct sl_exec *exec) {
    if (!exec)
        return;
    cudaSetDevice(sl_cuda_of(device)->index);
    for (int i = 0; i < exec->graph_count; i++)
        if (exec->graphs[i].exec)
            cudaGraphExecDestroy(exec->graphs[i].exec);
    for (int i = 0; exec->events && i <= exec->program->instr_count; i++)
        cudaEventDestroy(exec->events[i]);
    cudaFree(exec->scratch);
    cudaFree(exec->draw);
    free(exec->events);
    free(exec->operands);
    free(exec->instrs);
    free(exec->kernels);
    free(exec->holes);
    sl_cuda_layout_free(&exec->layout);
    free(exec);
}

static void *zeroed(size_t count, size_t size) {
    void *memory = calloc(count + 1, size);
    if (!memory)
        sl_out_of_memory(count * size);
    return memory;
}

/* Returns true if this kernel reads the operand from the 16-bit copy of the weights. */
static bool is_halved(const struct sl_exec *exec, const struct sl_cuda_kernel *kernel,
                      const struct sl_operand *operand) {
    return sl_dtype_is_half(exec->program->dtype) && kernel->halves &&
           (operand->space == SL_SPACE_PARAM || operand->space == SL_SPACE_FIXED);
}

static void copy_instrs(struct sl_exec *exec) {
    const struct sl_program *p = exec->program;
    size_t count = 0, at = 0;
    for (int i = 0; i < p->instr_count; i++)
        count += (size_t)(p->instrs[i].in_count + p->instrs[i].out_count);
    exec->instrs = zeroed((size_t)p->instr_count, sizeof *exec->instrs);
    exec->operands = zeroed(count, sizeof *exec->operands);
    for (int i = 0; i < p->instr_count; i++) {
        const struct sl_instr *from = &p->instrs[i];
        struct sl_instr *to = &exec->instrs[i];
        *to = *from;
        to->in = &exec->operands[at];
        to->out = to->in + from->in_count;
        memcpy(to->in, from->in, sizeof *to->in * (size_t)from->in_count);
        memcpy(to->out, from->out, sizeof *to->out * (size_t)from->out_count);
        at += (size_t)(from->in_count + from->out_count);
    }
}

static sl_err find_kernels(struct sl_exec *exec) {
    exec->kernels = zeroed((size_t)exec->program->instr_count, sizeof(void *));
    for (int i = 0; i < exec->program->instr_count; i++) {
        struct sl_instr *instr = &exec->instrs[i];
        SL_TRY(sl_device_refuse_plan_only(instr->op));
        const struct sl_cuda_kernel *kernel = exec->kernels[i] = sl_cuda_find(instr->kernel);
        if (!kernel)
            return sl_fail(SL_ERR_REFUSED, "the GPU has no kernel for '%s'", instr->kernel);
        for (int k = 0; k < instr->in_count; k++)
            if (is_halved(exec, kernel, &instr->in[k])) {
                instr->in[k].dtype = exec->program->dtype;
                exec->halved[instr->in[k].space] = true;
            }
        exec->draws |= kernel->draws;
    }
    return SL_OK;
}

static int64_t more(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t scratch_of(struct sl_cuda_device *cuda, const struct sl_exec *exec, int i) {
    const struct sl_cuda_kernel *kernel = exec->kernels[i];
    struct sl_cuda_call call = {
        .instr = &exec->instrs[i], .device = cuda, .last = exec->layout.last[i]};
    int64_t own = kernel->scratch_bytes ? kernel->scratch_bytes(call.instr) : 0;
    return more(own, kernel->library_bytes ? kernel->library_bytes(&call) : 0);
}

static int64_t image_bytes(const struct sl_cuda_turn *turn) {
    return (2 * turn->image.numel + 255) / 256 * 256;
}

/* All instructions share scratch. An instruction that needs much scratch uses a free range of the
 * slab instead, if there is one. */
static void plan_scratch(struct sl_cuda_device *cuda, struct sl_exec *exec) {
    struct sl_lives *lives = sl_pass_lives_open(exec->program);
    exec->holes = zeroed((size_t)exec->program->instr_count, sizeof *exec->holes);
    for (int i = 0; i < exec->program->instr_count; i++) {
        int64_t need = scratch_of(cuda, exec, i);
        if (need >= ROOMY)
            exec->holes[i] = sl_pass_lives_hole(lives, i, need);
        if (exec->holes[i].space == SL_SPACE_NONE)
            exec->scratch_bytes = more(exec->scratch_bytes, need);
    }
    for (int i = 0; i < exec->layout.turn_count; i++)
        exec->scratch_bytes = more(exec->scratch_bytes, image_bytes(&exec->layout.turns[i]));
    exec->copies_at = (exec->scratch_bytes + 255) / 256 * 256;
    exec->scratch_bytes = exec->copies_at;
    for (int i = 0; i < exec->layout.turn_count; i++)
        if (exec->layout.turns[i].phase == SL_PHASE_W)
            exec->scratch_bytes += image_bytes(&exec->layout.turns[i]);
    sl_pass_lives_close(lives);
}

static sl_err alloc_exec(struct sl_exec *exec) {
    void *draw;
    if (exec->scratch_bytes)
        SL_TRY(SL_CUDA(cudaMalloc(&exec->scratch, (size_t)exec->scratch_bytes)));
    SL_TRY(SL_CUDA(cudaMalloc(&draw, sizeof(struct sl_cuda_draw))));
    exec->draw = draw;
    return SL_OK;
}

sl_err sl_cuda_bind(struct sl_device *device, const struct sl_program *program,
                    struct sl_exec **out) {
    struct sl_exec *exec = zeroed(1, sizeof *exec);
    sl_err err = SL_OK;
    exec->program = program;
    SL_TRY_OUT(SL_CUDA(cudaSetDevice(sl_cuda_of(device)->index)));
    copy_instrs(exec);
    SL_TRY_OUT(find_kernels(exec));
    sl_cuda_layout_make(sl_cuda_of(device), program, exec->instrs, &exec->layout);
    plan_scratch(sl_cuda_of(device), exec);
    SL_TRY_OUT(alloc_exec(exec));
    *out = exec;
out:
    if (err != SL_OK)
        sl_cuda_unbind(device, exec);
    return err;
}

static int64_t weight_bytes(const struct sl_exec *exec, enum sl_space space) {
    return space == SL_SPACE_PARAM ? exec->program->param_bytes : exec->program->fixed_bytes;
}

int64_t sl_cuda_scratch_bytes(const struct sl_device *device, const struct sl_exec *exec) {
    int64_t bytes = exec->scratch_bytes;
    (void)device;
    for (int s = 0; s < SL_SPACE_COUNT; s++)
        bytes += exec->halved[s] ? weight_bytes(exec, (enum sl_space)s) / 2 : 0;
    return bytes;
}

/* ---- running ---- */

static void *address(const struct sl_exec *exec, const struct sl_operand *operand,
                     const struct sl_device_args *args) {
    if (operand->space == SL_SPACE_NONE)
        return NULL;
    bool weight = operand->space == SL_SPACE_PARAM || operand->space == SL_SPACE_FIXED;
    if (weight && sl_dtype_is_half(operand->dtype))
        return (char *)exec->halves[operand->space] + operand->offset / 2;
    return (char *)args->base[operand->space] + operand->offset;
}

/* Returns the transposed copy of the image that phase W reads; NULL if there is none. */
static void *copy_of(const struct sl_exec *exec, int value) {
    int64_t at = exec->copies_at;
    for (int i = 0; i < exec->layout.turn_count; i++) {
        const struct sl_cuda_turn *turn = &exec->layout.turns[i];
        if (turn->phase != SL_PHASE_W)
            continue;
        if (turn->image.value == value)
            return (char *)exec->scratch + at;
        at += image_bytes(turn);
    }
    return NULL;
}

static sl_err launch_one(struct sl_cuda_device *cuda, const struct sl_exec *exec, int index,
                         const struct sl_device_args *args) {
    const struct sl_instr *instr = &exec->instrs[index];
    struct sl_cuda_call call = {
        .instr = instr,
        .last = exec->layout.last[index],
        .device = cuda,
        .stream = cuda->streams[SL_STREAM_COMPUTE],
        .scratch = exec->scratch,
        .add = instr->accumulate && args->accumulate,
        .draw = exec->draw,
        .samples = exec->program->samples,
    };
    struct sl_hole hole = exec->holes[index];
    if (hole.space != SL_SPACE_NONE)
        call.scratch = (char *)args->base[hole.space] + hole.offset;
    for (int i = 0; i < instr->in_count; i++) {
        void *copy = args->phase == SL_PHASE_W ? copy_of(exec, instr->in[i].value) : NULL;
        call.in[i] = copy ? copy : address(exec, &instr->in[i], args);
    }
    for (int i = 0; i < instr->out_count; i++)
        call.out[i] = address(exec, &instr->out[i], args);
    return exec->kernels[index]->run(&call);
}

/* Transposes the images that come from or go to other stages. Phase W reads a copy, because the
 * image itself is being sent by then. */
static sl_err turn_images(struct sl_cuda_device *cuda, const struct sl_exec *exec,
                          const struct sl_device_args *args, bool at_end) {
    cudaStream_t stream = cuda->streams[SL_STREAM_COMPUTE];
    for (int i = 0; i < exec->layout.turn_count; i++) {
        const struct sl_cuda_turn *turn = &exec->layout.turns[i];
        void *image = address(exec, &turn->image, args);
        if (turn->phase != args->phase || turn->at_end != at_end)
            continue;
        if (turn->phase == SL_PHASE_W) {
            void *copy = copy_of(exec, turn->image.value);
            SL_TRY(SL_CUDA(cudaMemcpyAsync(copy, image, (size_t)(2 * turn->image.numel),
                                           cudaMemcpyDeviceToDevice, stream)));
            image = copy;
        }
        SL_TRY(sl_cuda_turn(turn, image, exec->scratch, stream));
    }
    return SL_OK;
}

static sl_err launch_all(struct sl_cuda_device *cuda, const struct sl_exec *exec,
                         const struct sl_device_args *args) {
    const struct sl_program *p = exec->program;
    SL_TRY(turn_images(cuda, exec, args, false));
    for (int i = p->begin[args->phase]; i < p->end[args->phase]; i++)
        SL_TRY(launch_one(cuda, exec, i, args));
    return turn_images(cuda, exec, args, true);
}

/* Runs with a callback after every instruction. */
static sl_err launch_watched(struct sl_cuda_device *cuda, const struct sl_exec *exec,
                             const struct sl_device_args *args) {
    const struct sl_program *p = exec->program;
    SL_TRY(turn_images(cuda, exec, args, false));
    for (int i = p->begin[args->phase]; i < p->end[args->phase]; i++) {
        SL_TRY(launch_one(cuda, exec, i, args));
        SL_TRY(SL_CUDA(cudaStreamSynchronize(cuda->streams[SL_STREAM_COMPUTE])));
        SL_TRY(args->after(args->ctx, i));
    }
    return turn_images(cuda, exec, args, true);
}

/* Runs and measures the time of every instruction. */
static sl_err launch_timed(struct sl_cuda_device *cuda, struct sl_exec *exec,
                           const struct sl_device_args *args) {
    const struct sl_program *p = exec->program;
    cudaStream_t stream = cuda->streams[SL_STREAM_COMPUTE];
    int begin = p->begin[args->phase], end = p->end[args->phase];
    if (!exec->events) {
        exec->events = zeroed((size_t)p->instr_count + 1, sizeof *exec->events);
        for (int i = 0; i <= p->instr_count; i++)
            SL_TRY(SL_CUDA(cudaEventCreate(&exec->events[i])));
    }
    SL_TRY(turn_images(cuda, exec, args, false));
    SL_TRY(SL_CUDA(cudaEventRecord(exec->events[begin], stream)));
    for (int i = begin; i < end; i++) {
        SL_TRY(launch_one(cuda, exec, i, args));
        SL_TRY(SL_CUDA(cudaEventRecord(exec->events[i + 1], stream)));
    }
    SL_TRY(turn_images(cuda, exec, args, true));
    SL_TRY(SL_CUDA(cudaStreamSynchronize(stream)));
    for (int i = begin; i < end; i++) {
        float ms;
        SL_TRY(SL_CUDA(cudaEventElapsedTime(&ms, exec->events[i], exec->events[i + 1])));
        args->op_ns[i] += (int64_t)((double)ms * 1e6);
    }
    return SL_OK;
}

static sl_err send_draw(struct sl_cuda_device *cuda, struct sl_exec *exec,
                        const struct sl_device_args *args) {
    struct sl_cuda_draw *pinned;
    void *at;
    cudaStream_t stream = cuda->streams[SL_STREAM_COMPUTE];
    if (!exec->draws)
        return SL_OK;
    SL_TRY(sl_cuda_pin(cuda, sizeof *pinned, stream, &at));
    pinned = at;
    *pinned = (struct sl_cuda_draw){args->seed, args->first_sample};
    return SL_CUDA(
        cudaMemcpyAsync(exec->draw, pinned, sizeof *pinned, cudaMemcpyHostToDevice, stream));
}

/* ---- graphs ---- */

/* Returns the entry for these arguments; a new one is empty. Returns NULL if the table is full. */
static struct graph *find_graph(struct sl_exec *exec, const struct sl_device_args *args,
                                bool *fresh) {
    struct key key;
    memset(&key, 0, sizeof key);
    key.phase = args->phase;
    key.accumulate = args->accumulate && args->phase != SL_PHASE_F;
    memcpy(key.base, args->base, sizeof key.base);
    for (int i = 0; i < exec->graph_count; i++)
        if (memcmp(&exec->graphs[i].key, &key, sizeof key) == 0)
            return &exec->graphs[i];
    *fresh = true;
    if (exec->graph_count == MAX_GRAPHS)
        return NULL;
    exec->graphs[exec->graph_count] = (struct graph){.exec = NULL};
    exec->graphs[exec->graph_count].key = key;
    return &exec->graphs[exec->graph_count++];
}

static sl_err record(struct sl_cuda_device *cuda, const struct sl_exec *exec,
                     const struct sl_device_args *args, struct graph *graph) {
    cudaStream_t stream = cuda->streams[SL_STREAM_COMPUTE];
    cudaGraph_t made = NULL;
    SL_TRY(SL_CUDA(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal)));
    sl_err err = launch_all(cuda, exec, args);
    /* this call also fails if the recording has failed */
    cudaError_t ended = cudaStreamEndCapture(stream, &made);
    if (err == SL_OK)
        err = sl_cuda_check(ended, "cudaStreamEndCapture");
    if (err == SL_OK)
        err = SL_CUDA(cudaGraphInstantiate(&graph->exec, made, 0));
    if (made)
        cudaGraphDestroy(made);
    return err;
}

sl_err sl_cuda_run(struct sl_device *device, struct sl_exec *exec,
                   const struct sl_device_args *args) {
    struct sl_cuda_device *cuda = sl_cuda_of(device);
    bool fresh = false;
    SL_TRY(SL_CUDA(cudaSetDevice(cuda->index)));
    for (int s = 0; s < SL_SPACE_COUNT; s++)
        if (exec->halved[s])
            SL_TRY(sl_cuda_halves(
                cuda, (struct sl_weights){args->base[s], weight_bytes(exec, (enum sl_space)s)},
                sl_half_of(exec->program->dtype), &exec->halves[s]));
    SL_TRY(send_draw(cuda, exec, args));
    if (args->after)
        return launch_watched(cuda, exec, args);
    if (args->op_ns)
        return launch_timed(cuda, exec, args);
    struct graph *graph = find_graph(exec, args, &fresh);
    if (fresh || exec->program->begin[args->phase] == exec->program->end[args->phase])
        return launch_all(cuda, exec, args);
    if (!graph->exec)
        SL_TRY(record(cuda, exec, args, graph));
    return SL_CUDA(cudaGraphLaunch(graph->exec, cuda->streams[SL_STREAM_COMPUTE]));
}
