/* Products by cuBLASLt. The library is column-major: y' = b' a', so its A is our b.
 *
 * The heuristic's first algorithm defines the bits of a shape. Often a faster algorithm adds in
 * the same order. When a large product runs for the first time, the algorithms that split sums
 * like the first one are tried on its operands; the fastest that gives the same bits is kept. So
 * measured time affects speed only, not results.
 */
#include "device/cuda/gemm.h"
#include "device/cuda/fingerprint.h"

#include <stdlib.h>
#include <string.h>

enum {
    OFFERS = 12, /* algorithms to ask the heuristic for */
    TURNS = 4,   /* timed runs of each algorithm */
    /* Number of nonzero results that tuning needs. Among so many, another order of sums changes
     * some bits. */
    ENOUGH = 1 << 20,
    GAIN_PERCENT = 1, /* a smaller gain counts as noise */
};

struct plan {
    struct sl_gemm key;
    bool supported, tuned;
    cublasLtMatmulDesc_t desc;
    cublasLtMatrixLayout_t a, b, y;
    cublasLtMatmulAlgo_t algo; /* the chosen one of `offers` */
    cublasLtMatmulAlgo_t offers[OFFERS];
    int offer_count;
};

struct sl_cuda_gemms {
    struct plan **at;
    int count, room;
};

void sl_cuda_gemm_pack(struct sl_gemm *g) {
    g->lda = g->ta ? g->m : g->k;
    g->ldb = g->tb ? g->k : g->n;
    g->ldy = g->n;
    if (g->batch > 1) {
        g->stride_a = g->m * g->k;
        g->stride_b = g->k * g->n;
        g->stride_y = g->m * g->n;
    }
}

static void free_plan(struct plan *p) {
    if (!p)
        return;
    cublasLtMatmulDescDestroy(p->desc);
    cublasLtMatrixLayoutDestroy(p->a);
    cublasLtMatrixLayoutDestroy(p->b);
    cublasLtMatrixLayoutDestroy(p->y);
    free(p);
}

void sl_cuda_gemms_close(struct sl_cuda_gemms *gemms) {
    if (!gemms)
        return;
    for (int i = 0; i < gemms->count; i++)
        free_plan(gemms->at[i]);
    free(gemms->at);
    free(gemms);
}

struct side { /* a matrix as the library expects it */
    int half; /* enum sl_half */
    int64_t rows, cols, ld, stride;
};

static sl_err make_layout(cublasLtMatrixLayout_t *out, const struct side *side, int64_t batch) {
    int32_t count = (int32_t)batch;
    SL_TRY(SL_CUBLAS(cublasLtMatrixLayoutCreate(out, sl_half_blas(side->half), (uint64_t)side->rows,
                                                (uint64_t)side->cols, side->ld)));
    if (batch <= 1)
        return SL_OK;
    SL_TRY(SL_CUBLAS(cublasLtMatrixLayoutSetAttribute(*out, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT,
                                                      &count, sizeof count)));
    return SL_CUBLAS(cublasLtMatrixLayoutSetAttribute(
        *out, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &side->stride, sizeof side->stride));
}

#define SET(desc_, attr_, value_)                                                                  \
    SL_TRY(SL_CUBLAS(cublasLtMatmulDescSetAttribute((desc_), (attr_), &(value_), sizeof(value_))))

static sl_err make_desc(const struct sl_cuda_device *cuda, struct plan *p) {
    static const cublasLtEpilogue_t tails[] = {
        [SL_GEMM_PLAIN] = CUBLASLT_EPILOGUE_DEFAULT,
        [SL_GEMM_BIAS] = CUBLASLT_EPILOGUE_BIAS,
        [SL_GEMM_GELU] = CUBLASLT_EPILOGUE_GELU_AUX,
        [SL_GEMM_GELU_BIAS] = CUBLASLT_EPILOGUE_GELU_AUX_BIAS,
        [SL_GEMM_DGELU] = CUBLASLT_EPILOGUE_DGELU,
    };
    const struct sl_gemm *g = &p->key;
    cublasComputeType_t compute =
        !g->half_in && cuda->tf32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    cublasOperation_t op_a = g->tb ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasOperation_t op_b = g->ta ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasLtEpilogue_t tail = tails[g->tail];
    SL_TRY(SL_CUBLAS(cublasLtMatmulDescCreate(&p->desc, compute, CUDA_R_32F)));
    SET(p->desc, CUBLASLT_MATMUL_DESC_TRANSA, op_a);
    SET(p->desc, CUBLASLT_MATMUL_DESC_TRANSB, op_b);
    SET(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE, tail);
    if (g->tail >= SL_GEMM_GELU) {
        int64_t ld = g->ldy;
        int32_t type = sl_half_blas(g->half_out);
        SET(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, ld);
        SET(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, type);
    }
    return SL_OK;
}

#define PREFER(prefer_, attr_, value_)                                                             \
    SL_TRY(SL_CUBLAS(                                                                              \
        cublasLtMatmulPreferenceSetAttribute((prefer_), (attr_), &(value_), sizeof(value_))))

/* How an algorithm splits the sums: the number of parts, and how it adds them. */
struct split {
    int32_t parts;
    uint32_t scheme;
};

static struct split split_of(const cublasLtMatmulAlgo_t *algo) {
    struct split split = {-1, 0};
    size_t written;
    if (cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_SPLITK_NUM, &split.parts,
                                             sizeof split.parts, &written) ||
        cublasLtMatmulAlgoConfigGetAttribute(algo, CUBLASLT_ALGO_CONFIG_REDUCTION_SCHEME,
                                             &split.scheme, sizeof split.scheme, &written))
        split.parts = -1;
    return split;
}

/* Keeps the heuristic's first algorithm, and those of the others that may give the same bits. */
static void keep_offers(struct plan *p, const cublasLtMatmulHeuristicResult_t *results, int count) {
    for (int i = 0; i < count; i++) {
        if (results[i].state != CUBLAS_STATUS_SUCCESS)
            continue;
        struct split first = split_of(p->offer_count ? &p->offers[0] : &results[i].algo);
        struct split own = split_of(&results[i].algo);
        if (!p->offer_count ||
            (own.parts >= 0 && own.parts == first.parts && own.scheme == first.scheme))
            p->offers[p->offer_count++] = results[i].algo;
    }
}

/* Chooses the algorithms. If the heuristic finds none, the shape is not supported, which is no
 * error. */
static sl_err choose(struct sl_cuda_device *cuda, struct plan *p,
                     cublasLtMatmulPreference_t prefer) {
    uint64_t workspace = (uint64_t)cuda->workspace_bytes;
    uint32_t schemes =
        CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
    uint32_t align = (uint32_t)p->key.align;
    cublasLtMatmulHeuristicResult_t results[OFFERS];
    int found = 0;
    PREFER(prefer, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace);
    PREFER(prefer, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, schemes);
    PREFER(prefer, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, align);
    PREFER(prefer, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, align);
    PREFER(prefer, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, align);
    PREFER(prefer, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, align);
    cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(cuda->blas, p->desc, p->a, p->b, p->y,
                                                           p->y, prefer, OFFERS, results, &found);
    keep_offers(p, results, status == CUBLAS_STATUS_SUCCESS ? found : 0);
    p->supported = p->offer_count > 0;
    p->algo = p->offers[0];
    p->tuned = p->offer_count < 2 || p->key.m * p->key.n * p->key.batch < ENOUGH;
    return SL_OK;
}

static sl_err make_plan(struct sl_cuda_device *cuda, struct plan *p) {
    const struct sl_gemm *g = &p->key;
    cublasLtMatmulPreference_t prefer;
    SL_TRY(make_desc(cuda, p));
    struct side a = {g->half_in, g->tb ? g->k : g->n, g->tb ? g->n : g->k, g->ldb, g->stride_b};
    struct side b = {g->half_in, g->ta ? g->m : g->k, g->ta ? g->k : g->m, g->lda, g->stride_a};
    struct side y = {g->half_out, g->n, g->m, g->ldy, g->stride_y};
    SL_TRY(make_layout(&p->a, &a, g->batch));
    SL_TRY(make_layout(&p->b, &b, g->batch));
    SL_TRY(make_layout(&p->y, &y, g->batch));
    SL_TRY(SL_CUBLAS(cublasLtMatmulPreferenceCreate(&prefer)));
    sl_err err = choose(cuda, p, prefer);
    cublasLtMatmulPreferenceDestroy(prefer);
    return err;
}

static sl_err find_plan(struct sl_cuda_device *cuda, const struct sl_gemm *gemm,
                        struct plan **out) {
    if (!cuda->gemms && !(cuda->gemms = calloc(1, sizeof *cuda->gemms)))
        sl_out_of_memory(sizeof *cuda->gemms);
    struct sl_cuda_gemms *all = cuda->gemms;
    for (int i = 0; i < all->count; i++)
        if (memcmp(&all->at[i]->key, gemm, sizeof *gemm) == 0) {
            *out = all->at[i];
            return SL_OK;
        }
    struct plan *p = calloc(1, sizeof *p);
    if (!p)
        sl_out_of_memory(sizeof *p);
    p->key = *gemm;
    sl_err err = make_plan(cuda, p);
    if (err != SL_OK) {
        free_plan(p);
        return err;
    }
    if (all->count == all->room) {
        all->room = all->room ? 2 * all->room : 16;
        all->at = sl_realloc(all->at, sizeof *all->at * (size_t)all->room);
    }
    all->at[all->count++] = *out = p;
    return SL_OK;
}

bool sl_cuda_gemm_supported(struct sl_cuda_device *cuda, const struct sl_gemm *gemm) {
    struct plan *plan = NULL;
    return find_plan(cuda, gemm, &plan) == SL_OK && plan->supported;
}

static sl_err multiply(struct sl_cuda_device *cuda, const struct plan *p,
                       const struct sl_gemm_io *io, const cublasLtMatmulAlgo_t *algo) {
    float one = 1;
    return SL_CUBLAS(cublasLtMatmul(cuda->blas, p->desc, &one, io->b, p->a, io->a, p->b, &io->beta,
                                    io->c ? io->c : io->y, p->y, io->y, p->y, algo, cuda->workspace,
                                    (size_t)cuda->workspace_bytes, io->stream));
}

/* ---- the fastest of those that give the same bits ---- */

static sl_err print_of(struct sl_cuda_device *cuda, const struct plan *p,
                       const struct sl_gemm_io *io, struct sl_fingerprint *out) {
    const struct sl_gemm *g = &p->key;
    int64_t size_bytes = g->half_out ? 2 : 4;
    struct sl_cuda_rows rows[2] = {{io->y, g->m, g->n * size_bytes, g->ldy * size_bytes,
                                    g->batch > 1 ? g->batch : 1, g->stride_y * size_bytes}};
    bool saves = g->tail == SL_GEMM_GELU || g->tail == SL_GEMM_GELU_BIAS;
    rows[1] = rows[0];
    rows[1].at = io->aux;
    return sl_cuda_fingerprint_take(cuda->print, rows, saves ? 2 : 1, io->stream, out);
}

/* Measures the shortest of a few times, in milliseconds, and the fingerprint of the result. */
static sl_err try_offer(struct sl_cuda_device *cuda, const struct plan *p,
                        const struct sl_gemm_io *io, int offer, float *least_ms,
                        struct sl_fingerprint *print) {
    SL_TRY(multiply(cuda, p, io, &p->offers[offer]));
    SL_TRY(print_of(cuda, p, io, print));
    for (int i = 0; i < TURNS; i++) {
        float ms;
        SL_TRY(SL_CUDA(cudaEventRecord(cuda->clock[0], io->stream)));
        SL_TRY(multiply(cuda, p, io, &p->offers[offer]));
        SL_TRY(SL_CUDA(cudaEventRecord(cuda->clock[1], io->stream)));
        SL_TRY(SL_CUDA(cudaEventSynchronize(cuda->clock[1])));
        SL_TRY(SL_CUDA(cudaEventElapsedTime(&ms, cuda->clock[0], cuda->clock[1])));
        *least_ms = i && *least_ms < ms ? *least_ms : ms;
    }
    return SL_OK;
}

/* Tunes a product. It does not if repeated runs would change its operands (it accumulates, or
 * overwrites an input), if a graph is being recorded, or if too few results are nonzero: 0 is the
 * sum of zeros in any order. In these cases the next call tries again. */
static sl_err tune(struct sl_cuda_device *cuda, struct plan *p, const struct sl_gemm_io *io) {
    enum cudaStreamCaptureStatus recording;
    struct sl_fingerprint first, print;
    float best_ms, ms;
    SL_TRY(SL_CUDA(cudaStreamIsCapturing(io->stream, &recording)));
    bool adds = io->beta != 0 && (!io->c || io->c == io->y);
    if (adds || io->aux == io->y || recording != cudaStreamCaptureStatusNone)
        return SL_OK;
    SL_TRY(try_offer(cuda, p, io, 0, &best_ms, &first));
    if (first.nonzero < ENOUGH)
        return SL_OK;
    best_ms = best_ms * (100 - GAIN_PERCENT) / 100;
    for (int i = 1; i < p->offer_count; i++) {
        if (try_offer(cuda, p, io, i, &ms, &print) != SL_OK)
            continue; /* the algorithm does not run; a broken device is detected below */
        if (print.sum == first.sum && print.nonzero == first.nonzero && ms < best_ms) {
            p->algo = p->offers[i];
            best_ms = ms;
        }
    }
    p->tuned = true;
    return SL_OK;
}

sl_err sl_cuda_gemm_run(struct sl_cuda_device *cuda, const struct sl_gemm *gemm,
                        const struct sl_gemm_io *io) {
    struct plan *p;
    SL_TRY(find_plan(cuda, gemm, &p));
    if (!p->supported)
        return sl_fail(SL_ERR_REFUSED, "cuBLAS has no product %lld x %lld x %lld of this kind",
                       (long long)gemm->m, (long long)gemm->n, (long long)gemm->k);
    if (gemm->tail == SL_GEMM_BIAS || gemm->tail == SL_GEMM_GELU_BIAS)
        SET(p->desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, io->bias);
    if (gemm->tail >= SL_GEMM_GELU)
        SET(p->desc, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, io->aux);
    if (!p->tuned)
        SL_TRY(tune(cuda, p, io));
    return multiply(cuda, p, io, &p->algo);
}
