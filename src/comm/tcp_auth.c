/* Mutual authentication of two ranks: see tcp_auth.h. */
#include "comm/tcp_auth.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

static const uint64_t magic = 0x32656369756c7301u;

void sl_comm_tcp_prove(const unsigned char key[SL_COMM_KEY], const char *purpose,
                       const struct tcp_nonces *nonces, const void *bytes, size_t size,
                       unsigned char mac[SL_SHA256_BYTES]) {
    struct sl_hmac hmac;
    char label[32] = "sluice tcp 2 ";
    strncat(label, purpose, sizeof label - strlen(label) - 1);
    sl_hmac_open(&hmac, key, SL_COMM_KEY);
    /* all labels have one length, so no label continues in a nonce */
    sl_hmac_add(&hmac, label, sizeof label);
    sl_hmac_add(&hmac, nonces->caller, TCP_NONCE);
    sl_hmac_add(&hmac, nonces->answerer, TCP_NONCE);
    sl_hmac_add(&hmac, bytes, size);
    sl_hmac_value(&hmac, mac);
}

static void prove_join(const struct tcp_talk *talk, const unsigned char key[SL_COMM_KEY],
                       unsigned char mac[SL_SHA256_BYTES]) {
    sl_comm_tcp_prove(key, "join", &talk->nonces, talk->calls ? &talk->own : &talk->other,
                      sizeof talk->own, mac);
}

static void prove_accept(const struct tcp_talk *talk, const unsigned char key[SL_COMM_KEY],
                         unsigned char mac[SL_SHA256_BYTES]) {
    struct tcp_card cards[2] = {talk->calls ? talk->own : talk->other,
                                talk->calls ? talk->other : talk->own};
    sl_comm_tcp_prove(key, "accept", &talk->nonces, cards, sizeof cards, mac);
}

/* Sends a few bytes; a new connection takes them at once. */
static bool put(const struct tcp_talk *talk, const void *bytes, size_t size) {
    return send(talk->fd, bytes, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size;
}

static unsigned char *own_nonce(struct tcp_talk *talk) {
    return talk->calls ? talk->nonces.caller : talk->nonces.answerer;
}

static bool put_hello(struct tcp_talk *talk) {
    struct tcp_hello hello = {.magic = magic};
    memcpy(hello.nonce, own_nonce(talk), TCP_NONCE);
    return put(talk, &hello, sizeof hello);
}

static bool put_proof(struct tcp_talk *talk, const unsigned char key[SL_COMM_KEY]) {
    struct tcp_proof proof = {.card = talk->own};
    if (talk->calls)
        prove_join(talk, key, proof.mac);
    else
        prove_accept(talk, key, proof.mac);
    return put(talk, &proof, sizeof proof);
}

sl_err sl_comm_tcp_talk_open(struct tcp_talk *talk, int fd, bool calls,
                             const struct tcp_card *own) {
    *talk = (struct tcp_talk){.fd = fd, .calls = calls, .connecting = calls, .own = *own};
    if (getrandom(own_nonce(talk), TCP_NONCE, 0) != TCP_NONCE)
        return sl_fail(SL_ERR_SYSTEM, "cannot draw a random number: %s", strerror(errno));
    return SL_OK;
}

bool sl_comm_tcp_talk_call(struct tcp_talk *talk) {
    talk->connecting = false;
    return put_hello(talk);
}

static enum tcp_talk_result hear_hello(struct tcp_talk *talk,
                                       const unsigned char key[SL_COMM_KEY]) {
    if (talk->in.hello.magic != magic)
        return TCP_TALK_STRANGER;
    memcpy(talk->calls ? talk->nonces.answerer : talk->nonces.caller, talk->in.hello.nonce,
           TCP_NONCE);
    talk->has_hello = true;
    talk->got = 0;
    bool sent = talk->calls ? put_proof(talk, key) : put_hello(talk);
    return sent ? TCP_TALK_MORE : TCP_TALK_CLOSED;
}

static enum tcp_talk_result hear_proof(struct tcp_talk *talk,
                                       const unsigned char key[SL_COMM_KEY]) {
    unsigned char mac[SL_SHA256_BYTES];
    talk->other = talk->in.proof.card;
    if (talk->calls)
        prove_accept(talk, key, mac);
    else
        prove_join(talk, key, mac);
    if (!sl_bytes_equal(mac, talk->in.proof.mac, sizeof mac))
        return TCP_TALK_STRANGER;
    talk->other.who.host[TCP_HOST_TEXT - 1] = 0;
    if (!talk->calls && !put_proof(talk, key))
        return TCP_TALK_CLOSED;
    return TCP_TALK_DONE;
}

enum tcp_talk_result sl_comm_tcp_talk_step(struct tcp_talk *talk,
                                           const unsigned char key[SL_COMM_KEY]) {
    for (;;) {
        size_t want = talk->has_hello ? sizeof talk->in.proof : sizeof talk->in.hello;
        ssize_t got = recv(talk->fd, talk->in.bytes + talk->got, want - talk->got, MSG_DONTWAIT);
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
            return TCP_TALK_MORE;
        if (got <= 0)
            return talk->has_hello && talk->calls ? TCP_TALK_STRANGER : TCP_TALK_CLOSED;
        talk->got += (size_t)got;
        if (talk->got < want)
            continue;
        if (talk->has_hello)
            return hear_proof(talk, key);
        enum tcp_talk_result result = hear_hello(talk, key);
        if (result != TCP_TALK_MORE)
            return result;
    }
}
