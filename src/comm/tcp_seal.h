/* Encryption of a connection ('--encrypt'): ChaCha20-Poly1305 of libsodium.
 *
 *     record: length of the text (4 bytes, little endian), the text encrypted, a tag of 16 bytes
 *
 * Each direction has a key of its own, derived from the key of the job and the nonces of the
 * connection, and counts its records: none can be changed, dropped, repeated or moved. The job's key
 * opens recorded connections; there is no forward secrecy.
 */
#ifndef SL_COMM_TCP_SEAL_H
#define SL_COMM_TCP_SEAL_H

#include "comm/tcp_auth.h"

#include <sys/types.h>
#include <sys/uio.h>

struct tcp_seal;

/* SL_ERR_REFUSED: built without libsodium. */
SL_MUST_CHECK sl_err sl_comm_tcp_seal_open(const unsigned char key[SL_COMM_KEY],
                                           const struct tcp_nonces *nonces, bool calls,
                                           struct tcp_seal **out);
void sl_comm_tcp_seal_close(struct tcp_seal *seal); /* NULL is fine */

/* Like sendmsg and recv on a socket that does not block. A record that does not fit into the socket
 * is EAGAIN; pass the same parts again later. A forged record is EBADMSG. */
ssize_t sl_comm_tcp_seal_send(struct tcp_seal *seal, int fd, const struct iovec parts[2]);
ssize_t sl_comm_tcp_seal_receive(struct tcp_seal *seal, int fd, void *bytes, size_t size);
/* Has text been opened that nobody has received? The socket may have nothing more to say. */
bool sl_comm_tcp_seal_is_full(const struct tcp_seal *seal);

/* tcp_aead_sodium.c, tcp_aead_nosodium.c. `head` (4 bytes) is authenticated with the text. */
enum { TCP_TAG = 16, TCP_AEAD_NONCE = 12, TCP_RECORD_HEAD = 4 };
struct tcp_aead {
    const unsigned char *key; /* 32 bytes */
    unsigned char nonce[TCP_AEAD_NONCE];
    const unsigned char *head;
};
bool sl_comm_tcp_aead_open(void); /* false: not in this build */
void sl_comm_tcp_aead_seal(const struct tcp_aead *aead, unsigned char *out, const void *text,
                           size_t size);
bool sl_comm_tcp_aead_unseal(const struct tcp_aead *aead, void *text, const unsigned char *sealed,
                             size_t size);

#endif
