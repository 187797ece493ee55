/* Encryption of a connection ('--encrypt'): ChaCha20-Poly1305 of libsodium.
 *
 *     record: length of the text (4 bytes, little endian), the text encrypted, a tag of 16 bytes
 *
 * Each direction has its own key, derived from the key of the job and the nonces of the
 * connection. It counts its records, so none can be changed, dropped, repeated or moved
 * unnoticed. Whoever has the job's key can decrypt recorded connections: there is no forward
 * secrecy. */
#ifndef SL_COMM_TCP_SEAL_H
#define SL_COMM_TCP_SEAL_H

#include "comm/tcp_auth.h"

#include <sys/types.h>
#include <sys/uio.h>

struct tcp_seal;

/* Prepares encryption of a connection. SL_ERR_REFUSED: built without libsodium. */
SL_MUST_CHECK sl_err sl_comm_tcp_seal_open(const unsigned char key[SL_COMM_KEY],
                                           const struct tcp_nonces *nonces, bool calls,
                                           struct tcp_seal **out);
void sl_comm_tcp_seal_close(struct tcp_seal *seal); /* seal may be NULL */

/* Like sendmsg and recv on a nonblocking socket. EAGAIN: the record does not fit into the socket;
 * pass the same parts again later. EBADMSG: a forged record. */
ssize_t sl_comm_tcp_seal_send(struct tcp_seal *seal, int fd, const struct iovec parts[2]);
ssize_t sl_comm_tcp_seal_receive(struct tcp_seal *seal, int fd, void *bytes, size_t size);
/* Is there decrypted text that nobody has received yet? The socket may have no more data, so it
 * would not be announced. */
bool sl_comm_tcp_seal_is_full(const struct tcp_seal *seal);

/* tcp_aead_sodium.c, tcp_aead_nosodium.c. The tag authenticates `head` (4 bytes) with the text. */
enum { TCP_TAG = 16, TCP_AEAD_NONCE = 12, TCP_RECORD_HEAD = 4 };
struct tcp_aead {
    const unsigned char *key; /* 32 bytes */
    unsigned char nonce[TCP_AEAD_NONCE];
    const unsigned char *head;
};
bool sl_comm_tcp_aead_open(void); /* false: this build has no encryption */
void sl_comm_tcp_aead_seal(const struct tcp_aead *aead, unsigned char *out, const void *text,
                           size_t size);
bool sl_comm_tcp_aead_unseal(const struct tcp_aead *aead, void *text, const unsigned char *sealed,
                             size_t size);

#endif
