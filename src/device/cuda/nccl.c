/* Links between GPUs of different processes: NCCL. It is loaded by name, so neither building nor a
 * single GPU needs it.
 *
 * A link is a communicator of two ranks (of one rank for a loop) with its own stream. It only
 * sends and receives; comm/post_group.c adds, because the order of NCCL's sums depends on the
 * topology, and results must not. */
#include "device/cuda/cuda.h"
#include "device/nccl_link.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Declarations of nccl.h, which need not be installed. */
typedef struct ncclComm *comm_handle;
struct unique_id {
    char bytes[SL_NCCL_LINK_ID];
};
enum { NCCL_SUCCESS = 0, NCCL_IN_PROGRESS = 7, NCCL_INT8 = 0 };

static struct {
    int (*get_id)(struct unique_id *out);
    int (*init)(comm_handle *out, int ranks, struct unique_id id, int rank);
    int (*destroy)(comm_handle comm);
    int (*abort)(comm_handle comm);
    int (*async_error)(comm_handle comm, int *out);
    int (*send)(const void *bytes, size_t count, int type, int peer, comm_handle comm,
                cudaStream_t stream);
    int (*receive)(void *bytes, size_t count, int type, int peer, comm_handle comm,
                   cudaStream_t stream);
    int (*group_start)(void);
    int (*group_end)(void);
    const char *(*error_text)(int code);
} nccl;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static const char *why; /* why NCCL cannot be used; NULL: it is loaded */

static void load(void) {
    const struct {
        const char *name;
        void *at;
    } entries[] = {
        {"ncclGetUniqueId", &nccl.get_id},
        {"ncclCommInitRank", &nccl.init},
        {"ncclCommDestroy", &nccl.destroy},
        {"ncclCommAbort", &nccl.abort},
        {"ncclSend", &nccl.send},
        {"ncclRecv", &nccl.receive},
        {"ncclGroupStart", &nccl.group_start},
        {"ncclGroupEnd", &nccl.group_end},
        {"ncclGetErrorString", &nccl.error_text},
        {"ncclCommGetAsyncError", &nccl.async_error},
    };
    void *library = dlopen("libnccl.so.2", RTLD_NOW);
    why = library ? NULL : "libnccl.so.2 is not installed";
    for (int i = 0; library && i < SL_COUNT(entries); i++)
        if (!(*(void **)entries[i].at = dlsym(library, entries[i].name)))
            why = "libnccl.so.2 is older than 2.7, which brought sends and receives";
}

static const char *missing(void) {
    int count = 0;
    pthread_once(&once, load);
    if (why)
        return why;
    return cudaGetDeviceCount(&count) == cudaSuccess && count ? NULL
                                                              : "no GPU, or no driver for it";
}

static sl_err check(int code, const char *what) {
    if (code == NCCL_SUCCESS || code == NCCL_IN_PROGRESS)
        return SL_OK;
    return sl_fail(SL_ERR_PEER, "NCCL: %s: %s", what, nccl.error_text(code));
}

extern const struct sl_nccl_link_row sl_cuda_nccl_link_nccl;

enum { EVENTS = 64 };

struct sl_nccl_link_link {
    comm_handle comm;
    cudaStream_t stream;
    int device;
    cudaEvent_t events[EVENTS]; /* recorded after each of the last transfers */
    int64_t put, over;
};

static bool is_nccl_link(const void *memory) {
    struct cudaPointerAttributes found;
    if (cudaPointerGetAttributes(&found, memory) != cudaSuccess) {
        cudaGetLastError();
        return false;
    }
    return found.type == cudaMemoryTypeDevice;
}

static sl_err make_id(char id[SL_NCCL_LINK_ID]) {
    struct unique_id made;
    pthread_once(&once, load);
    if (why)
        return sl_fail(SL_ERR_SYSTEM, "NCCL: %s", why);
    SL_TRY(check(nccl.get_id(&made), "ncclGetUniqueId"));
    memcpy(id, made.bytes, SL_NCCL_LINK_ID);
    return SL_OK;
}

static void close_link(struct sl_nccl_link_link *link, bool abort) {
    if (!link)
        return;
    cudaSetDevice(link->device);
    if (link->comm && abort)
        nccl.abort(link->comm);
    if (link->stream && !abort)
        cudaStreamSynchronize(link->stream);
    if (link->comm && !abort)
        nccl.destroy(link->comm);
    for (int i = 0; i < EVENTS; i++)
        if (link->events[i])
            cudaEventDestroy(link->events[i]);
    if (link->stream)
        cudaStreamDestroy(link->stream);
    free(link);
}

static sl_err open_link(const char id[SL_NCCL_LINK_ID], enum sl_nccl_link_end end,
                        struct sl_nccl_link_link **out) {
    struct sl_nccl_link_link *link = calloc(1, sizeof *link);
    struct unique_id shared;
    sl_err err = SL_OK;
    if (!link)
        sl_out_of_memory(sizeof *link);
    memcpy(shared.bytes, id, SL_NCCL_LINK_ID);
    SL_TRY_OUT(SL_CUDA(cudaGetDevice(&link->device)));
    SL_TRY_OUT(SL_CUDA(cudaStreamCreateWithFlags(&link->stream, cudaStreamNonBlocking)));
    for (int i = 0; i < EVENTS; i++)
        SL_TRY_OUT(SL_CUDA(cudaEventCreateWithFlags(&link->events[i], cudaEventDisableTiming)));
    SL_TRY_OUT(check(nccl.init(&link->comm, end == SL_NCCL_LINK_LOOP ? 1 : 2, shared,
                               end == SL_NCCL_LINK_RECEIVES),
                     "ncclCommInitRank"));
    *out = link;
out:
    if (err != SL_OK)
        close_link(link, true);
    return err;
}

/* Waits until an event is free for one more transfer. */
static sl_err begin(struct sl_nccl_link_link *link) {
    SL_TRY(SL_CUDA(cudaSetDevice(link->device)));
    if (link->put - link->over == EVENTS)
        return SL_CUDA(cudaEventSynchronize(link->events[link->over++ % EVENTS]));
    return SL_OK;
}

static sl_err end(struct sl_nccl_link_link *link) {
    return SL_CUDA(cudaEventRecord(link->events[link->put++ % EVENTS], link->stream));
}

static sl_err send(struct sl_nccl_link_link *link, const void *bytes, int64_t size_bytes) {
    SL_TRY(begin(link));
    SL_TRY(check(nccl.send(bytes, (size_t)size_bytes, NCCL_INT8, 1, link->comm, link->stream),
                 "ncclSend"));
    return end(link);
}

static sl_err receive(struct sl_nccl_link_link *link, void *bytes, int64_t size_bytes) {
    SL_TRY(begin(link));
    SL_TRY(check(nccl.receive(bytes, (size_t)size_bytes, NCCL_INT8, 0, link->comm, link->stream),
                 "ncclRecv"));
    return end(link);
}

static sl_err loop(struct sl_nccl_link_link *link, void *to, const void *from, int64_t size_bytes) {
    SL_TRY(begin(link));
    SL_TRY(check(nccl.group_start(), "ncclGroupStart"));
    int sent = nccl.send(from, (size_t)size_bytes, NCCL_INT8, 0, link->comm, link->stream);
    int got = nccl.receive(to, (size_t)size_bytes, NCCL_INT8, 0, link->comm, link->stream);
    SL_TRY(check(nccl.group_end(), "ncclGroupEnd"));
    SL_TRY(check(sent, "ncclSend"));
    SL_TRY(check(got, "ncclRecv"));
    return end(link);
}

static sl_err look(struct sl_nccl_link_link *link, int64_t *over) {
    int failed = NCCL_SUCCESS;
    while (link->over < link->put) {
        cudaError_t status = cudaEventQuery(link->events[link->over % EVENTS]);
        if (status == cudaErrorNotReady)
            break;
        SL_TRY(SL_CUDA(status));
        link->over++;
    }
    *over = link->over;
    if (link->over == link->put)
        return SL_OK;
    SL_TRY(check(nccl.async_error(link->comm, &failed), "ncclCommGetAsyncError"));
    return check(failed, "a link broke while it was used");
}

const struct sl_nccl_link_row sl_cuda_nccl_link_nccl = {
    .name = "NCCL",
    .missing = missing,
    .is_nccl_link = is_nccl_link,
    .make_id = make_id,
    .open = open_link,
    .close = close_link,
    .send = send,
    .receive = receive,
    .loop = loop,
    .look = look,
};
