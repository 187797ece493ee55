/* ChaCha20-Poly1305 (RFC 8439) with libsodium. */
#include "comm/tcp_seal.h"

#include <sodium.h>

bool sl_comm_tcp_aead_open(void) { return sodium_init() >= 0; }

void sl_comm_tcp_aead_seal(const struct tcp_aead *aead, unsigned char *out, const void *text,
                           size_t size) {
    crypto_aead_chacha20poly1305_ietf_encrypt(out, NULL, text, size, aead->head, TCP_RECORD_HEAD,
                                              NULL, aead->nonce, aead->key);
}

bool sl_comm_tcp_aead_unseal(const struct tcp_aead *aead, void *text, const unsigned char *sealed,
                             size_t size) {
    return crypto_aead_chacha20poly1305_ietf_decrypt(text, NULL, NULL, sealed, size + TCP_TAG,
                                                     aead->head, TCP_RECORD_HEAD, aead->nonce,
                                                     aead->key) == 0;
}
