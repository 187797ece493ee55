/* The GPUs of this host, from the CUDA runtime and NVML.
 *
 * NVML comes with the driver, not with the toolkit. It is loaded by name. If it is missing, the
 * links count as unknown. */
#include "device/cuda/cuda.h"

#include <dlfcn.h>
#include <stdio.h>

struct nvml {
    int (*init)(void);
    int (*shutdown)(void);
    int (*find)(const char *bus_id, void **out);
    int (*link_state)(void *gpu, unsigned link, unsigned *active);
    int (*link_version)(void *gpu, unsigned link, unsigned *version);
    int (*pcie_generation)(void *gpu, unsigned *out);
    int (*pcie_lanes)(void *gpu, unsigned *out);
};

/* Returns the bytes per second of one link, in one direction. */
static double nvlink_rate(unsigned version) { return version < 5 ? 25e9 : 50e9; }

static double pcie_rate(unsigned generation, unsigned lanes) {
    static const double lane[] = {0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9};
    return (int)generation < SL_COUNT(lane) ? lane[generation] * lanes : 0;
}

static bool load(void *library, struct nvml *out) {
    struct {
        const char *name;
        void *at;
    } entries[] = {
        {"nvmlInit_v2", &out->init},
        {"nvmlShutdown", &out->shutdown},
        {"nvmlDeviceGetHandleByPciBusId_v2", &out->find},
        {"nvmlDeviceGetNvLinkState", &out->link_state},
        {"nvmlDeviceGetNvLinkVersion", &out->link_version},
        {"nvmlDeviceGetMaxPcieLinkGeneration", &out->pcie_generation},
        {"nvmlDeviceGetMaxPcieLinkWidth", &out->pcie_lanes},
    };
    for (int i = 0; i < SL_COUNT(entries); i++)
        if (!(*(void **)entries[i].at = dlsym(library, entries[i].name)))
            return false;
    return true;
}

static void find_links(const struct nvml *nvml, int index, struct sl_device_facts *out) {
    enum { MAX_LINKS = 36 };
    char bus[32];
    void *gpu;
    unsigned generation = 0, lanes = 0, active = 0, version = 0;
    if (cudaDeviceGetPCIBusId(bus, sizeof bus, index) != cudaSuccess || nvml->find(bus, &gpu) != 0)
        return;
    if (nvml->pcie_generation(gpu, &generation) == 0 && nvml->pcie_lanes(gpu, &lanes) == 0)
        out->host_rate = out->peer_rate = pcie_rate(generation, lanes);
    for (unsigned link = 0; link < MAX_LINKS; link++)
        if (nvml->link_state(gpu, link, &active) == 0 && active &&
            nvml->link_version(gpu, link, &version) == 0) {
            out->peer_rate = out->peer_links ? out->peer_rate : 0;
            out->peer_rate += nvlink_rate(version);
            out->peer_links++;
        }
}

static double attribute(enum cudaDeviceAttr which, int index) {
    int value = 0;
    return cudaDeviceGetAttribute(&value, which, index) == cudaSuccess ? value : 0;
}

/* The kernels are built for compute capability 9. There a multiprocessor does 128 fp32 and 2048
 * bf16 multiply-adds per cycle. */
static void find_one(int index, struct sl_device_facts *out) {
    struct cudaDeviceProp prop;
    *out = (struct sl_device_facts){.processors = 0};
    if (cudaGetDeviceProperties(&prop, index) != cudaSuccess)
        return;
    snprintf(out->name, sizeof out->name, "%.63s", prop.name);
    out->memory_bytes = (int64_t)prop.totalGlobalMem;
    out->processors = prop.multiProcessorCount;
    out->stream = 2e3 * attribute(cudaDevAttrMemoryClockRate, index) *
                  attribute(cudaDevAttrGlobalMemoryBusWidth, index) / 8;
    double cycles = 1e3 * attribute(cudaDevAttrClockRate, index) * out->processors;
    if (prop.major == 9) {
        out->flops_fp32 = cycles * 256;
        out->flops_bf16 = cycles * 4096;
    }
}

int sl_cuda_list(struct sl_device_facts *out, int max) {
    struct nvml nvml;
    int count = 0;
    if (cudaGetDeviceCount(&count) != cudaSuccess)
        return 0;
    void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    bool linked = library && load(library, &nvml) && nvml.init() == 0;
    for (int i = 0; i < count && i < max; i++) {
        find_one(i, &out[i]);
        if (linked)
            find_links(&nvml, i, &out[i]);
    }
    if (linked)
        nvml.shutdown();
    if (library)
        dlclose(library);
    return count;
}
