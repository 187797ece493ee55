/* Records of encrypted connections: see tcp_seal.h. */
#include "comm/tcp_seal.h"

#include "base/arena.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 1 << 16, RECORD_MAX = TCP_RECORD_HEAD + TEXT_MAX + TCP_TAG };

struct way {
    unsigned char key[SL_SHA256_BYTES];
    uint64_t count; /* number of records so far */
    unsigned char record[RECORD_MAX];
    size_t have, at; /* bytes of the record; how many of them have been sent */
};

struct tcp_seal {
    struct way out, in;
    size_t pending;               /* bytes of text in the record that is being sent */
    unsigned char text[TEXT_MAX]; /* text of the last record that has arrived */
    size_t text_have, text_at;
};

sl_err sl_comm_tcp_seal_open(const unsigned char key[SL_COMM_KEY], const struct tcp_nonces *nonces,
                             bool calls, struct tcp_seal **out) {
    if (!sl_comm_tcp_aead_open())
        return sl_fail(SL_ERR_REFUSED, "--encrypt needs libsodium, which this build lacks (Debian "
                                       "package libsodium-dev)");
    struct tcp_seal *seal = sl_realloc(NULL, sizeof *seal);
    memset(seal, 0, sizeof *seal);
    sl_comm_tcp_prove(key, "seal caller", nonces, "", 0, calls ? seal->out.key : seal->in.key);
    sl_comm_tcp_prove(key, "seal answerer", nonces, "", 0, calls ? seal->in.key : seal->out.key);
    *out = seal;
    return SL_OK;
}

void sl_comm_tcp_seal_close(struct tcp_seal *seal) { free(seal); }

bool sl_comm_tcp_seal_is_full(const struct tcp_seal *seal) {
    return seal->text_at < seal->text_have;
}

static struct tcp_aead next(struct way *way) {
    struct tcp_aead aead = {.key = way->key, .head = way->record};
    for (int i = 0; i < 8; i++)
        aead.nonce[i] = (unsigned char)(way->count >> 8 * i);
    way->count++;
    return aead;
}

/* ---- sending ---- */

static void make_record(struct tcp_seal *seal, const struct iovec parts[2]) {
    unsigned char text[TEXT_MAX];
    struct way *way = &seal->out;
    size_t first = parts[0].iov_len < TEXT_MAX ? parts[0].iov_len : TEXT_MAX;
    size_t room = TEXT_MAX - first, second = parts[1].iov_len < room ? parts[1].iov_len : room;
    size_t size = first + second;
    if (first)
        memcpy(text, parts[0].iov_base, first);
    if (second)
        memcpy(text + first, parts[1].iov_base, second);
    for (int i = 0; i < TCP_RECORD_HEAD; i++)
        way->record[i] = (unsigned char)(size >> 8 * i);
    struct tcp_aead aead = next(way);
    sl_comm_tcp_aead_seal(&aead, way->record + TCP_RECORD_HEAD, text, size);
    way->have = TCP_RECORD_HEAD + size + TCP_TAG;
    way->at = 0;
    seal->pending = size;
}

ssize_t sl_comm_tcp_seal_send(struct tcp_seal *seal, int fd, const struct iovec parts[2]) {
    struct way *way = &seal->out;
    if (!seal->pending)
        make_record(seal, parts);
    while (way->at < way->have) {
        ssize_t put =
            send(fd, way->record + way->at, way->have - way->at, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (put < 0)
            return put;
        way->at += (size_t)put;
    }
    size_t size = seal->pending;
    seal->pending = 0;
    return (ssize_t)size;
}

/* ---- receiving ---- */

/* Receives more of a record; returns the result of recv. */
static ssize_t fill(struct way *way, int fd, size_t want) {
    while (way->have < want) {
        ssize_t got = recv(fd, way->record + way->have, want - way->have, MSG_DONTWAIT);
        if (got <= 0)
            return got;
        way->have += (size_t)got;
    }
    return 1;
}

static ssize_t open_record(struct tcp_seal *seal, int fd) {
    struct way *way = &seal->in;
    size_t size = 0;
    ssize_t got = fill(way, fd, TCP_RECORD_HEAD);
    if (got <= 0)
        return got;
    for (int i = 0; i < TCP_RECORD_HEAD; i++)
        size |= (size_t)way->record[i] << 8 * i;
    if (size > 0 && size <= TEXT_MAX) {
        got = fill(way, fd, TCP_RECORD_HEAD + size + TCP_TAG);
        if (got <= 0)
            return got;
        struct tcp_aead aead = next(way);
        if (sl_comm_tcp_aead_unseal(&aead, seal->text, way->record + TCP_RECORD_HEAD, size)) {
            way->have = 0;
            seal->text_at = 0;
            seal->text_have = size;
            return 1;
        }
    }
    errno = EBADMSG;
    return -1;
}

ssize_t sl_comm_tcp_seal_receive(struct tcp_seal *seal, int fd, void *bytes, size_t size) {
    if (!sl_comm_tcp_seal_is_full(seal)) {
        ssize_t got = open_record(seal, fd);
        if (got <= 0)
            return got;
    }
    size_t left = seal->text_have - seal->text_at, take = left < size ? left : size;
    memcpy(bytes, seal->text + seal->text_at, take);
    seal->text_at += take;
    return (ssize_t)take;
}
