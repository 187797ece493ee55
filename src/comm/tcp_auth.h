/* Mutual authentication of two ranks on a new connection, by challenge and response.
 *
 *     caller                                answerer
 *       hello: nonce A   ------------------->
 *                        <------------------- hello: nonce B
 *       proof: card, MAC("join", A, B, card)  -------->      checks, or closes
 *                        <------------------- proof: card, MAC("accept", A, B, both cards)
 *
 * A MAC is HMAC-SHA-256 with the key of the job. Nonces are fresh, so a recorded connection proves
 * nothing later; labels differ, so a proof cannot be sent back. A card describes a rank and its
 * process. The answerer proves nothing to a caller without the key. Rank 0 proves its table of
 * cards in the same way. Without --encrypt later messages are neither secret nor authenticated. */
#ifndef SL_COMM_TCP_AUTH_H
#define SL_COMM_TCP_AUTH_H

#include "base/sha256.h"
#include "comm/job.h"

#include <sys/socket.h>

enum { TCP_HOST_TEXT = 64, TCP_NONCE = 32 };

/* The process at the other end of a connection. */
struct sl_comm_tcp_who {
    int32_t rank, pid;
    char host[TCP_HOST_TEXT];
};

struct tcp_card {
    struct sl_comm_tcp_who who;
    int32_t ranks, encrypt;
    int32_t length, reserved;   /* length: of `at` */
    struct sockaddr_storage at; /* address at which the rank listens */
};

struct tcp_nonces {
    unsigned char caller[TCP_NONCE], answerer[TCP_NONCE];
};

struct tcp_hello {
    uint64_t magic; /* a fixed number; also detects another byte order */
    unsigned char nonce[TCP_NONCE];
};

struct tcp_proof {
    struct tcp_card card;
    unsigned char mac[SL_SHA256_BYTES];
};

enum tcp_talk_result { TCP_TALK_MORE, TCP_TALK_DONE, TCP_TALK_CLOSED, TCP_TALK_STRANGER };

/* The state of a connection until both ends have proved themselves. */
struct tcp_talk {
    int fd;
    bool calls;
    bool connecting; /* caller: connect() is in progress */
    bool has_hello;  /* the hello of the other end has arrived */
    struct tcp_nonces nonces;
    struct tcp_card own, other; /* other: has been checked once the result is TCP_TALK_DONE */
    union {
        struct tcp_hello hello;
        struct tcp_proof proof;
        char bytes[1];
    } in;
    size_t got;
};

/* Starts with a connected socket, or with one that is connecting. Draws the nonce. */
SL_MUST_CHECK sl_err sl_comm_tcp_talk_open(struct tcp_talk *talk, int fd, bool calls,
                                           const struct tcp_card *own);
/* Called when a caller's socket is connected. Returns false if it has been closed. */
bool sl_comm_tcp_talk_call(struct tcp_talk *talk);
/* Reads what has arrived, without waiting, and answers. */
enum tcp_talk_result sl_comm_tcp_talk_step(struct tcp_talk *talk,
                                           const unsigned char key[SL_COMM_KEY]);

/* Computes the MAC of bytes for a purpose ("table"), on the connection with these nonces. */
void sl_comm_tcp_prove(const unsigned char key[SL_COMM_KEY], const char *purpose,
                       const struct tcp_nonces *nonces, const void *bytes, size_t size,
                       unsigned char mac[SL_SHA256_BYTES]);

#endif
