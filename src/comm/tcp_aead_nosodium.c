/* For builds without libsodium: there is no encryption. */
#include "comm/tcp_seal.h"

bool sl_comm_tcp_aead_open(void) { return false; }

void sl_comm_tcp_aead_seal(const struct tcp_aead *aead, unsigned char *out, const void *text,
                           size_t size) {
    (void)aead;
    (void)out;
    (void)text;
    (void)size;
}

bool sl_comm_tcp_aead_unseal(const struct tcp_aead *aead, void *text, const unsigned char *sealed,
                             size_t size) {
    (void)aead;
    (void)text;
    (void)sealed;
    (void)size;
    return false;
}
