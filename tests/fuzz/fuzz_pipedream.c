/* Inputs of pipedream: see peer_common.h. */
#include "fuzz/peer_common.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    return fuzz_peer("pipedream", data, size);
}
