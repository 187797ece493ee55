/* HOST:PORT and the addresses that it stands for. */
#include "base/address.h"

#include "base/text.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

static sl_err split(const char *text, const char *where, char host[SL_HOST_TEXT], char port[8]) {
    const char *colon = strrchr(text, ':'), *start = text, *end = colon;
    int64_t number = 0;
    if (colon && text[0] == '[' && colon > text + 1 && colon[-1] == ']') {
        start = text + 1;
        end = colon - 1;
    }
    if (!colon || end <= start || end - start >= SL_HOST_TEXT ||
        (start == text && memchr(text, ':', (size_t)(colon - text))))
        return sl_fail(SL_ERR_USAGE, "%s: '%s' is not HOST:PORT (or [IPV6]:PORT)", where, text);
    SL_TRY(sl_parse_int(colon + 1, where, &number));
    if (number < 1 || number > 65535)
        return sl_fail(SL_ERR_USAGE, "%s: port %lld is not between 1 and 65535", where,
                       (long long)number);
    snprintf(host, SL_HOST_TEXT, "%.*s", (int)(end - start), start);
    snprintf(port, 8, "%d", (int)number);
    return SL_OK;
}

static sl_err find(const char *text, const char *where, bool any, struct sl_addresses *out) {
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = any ? AI_PASSIVE : 0}, *found;
    char host[SL_HOST_TEXT], port[8];
    out->count = 0;
    SL_TRY(split(text, where, host, port));
    int code = getaddrinfo(any ? NULL : host, port, &hints, &found);
    if (code != 0)
        return sl_fail(SL_ERR_SYSTEM, "%s: cannot find the host: %s", text, gai_strerror(code));
    for (const struct addrinfo *at = found; at && out->count < SL_ADDRESSES_MAX; at = at->ai_next) {
        struct sl_address *address = &out->at[out->count];
        if (at->ai_addrlen > sizeof address->at)
            continue;
        *address = (struct sl_address){.length = at->ai_addrlen};
        memcpy(&address->at, at->ai_addr, at->ai_addrlen);
        out->count++;
    }
    freeaddrinfo(found);
    return out->count ? SL_OK : sl_fail(SL_ERR_SYSTEM, "%s: the host has no address", text);
}

sl_err sl_address_find(const char *text, const char *where, struct sl_addresses *out) {
    return find(text, where, false, out);
}

sl_err sl_address_find_any(const char *text, const char *where, struct sl_addresses *out) {
    return find(text, where, true, out);
}

bool sl_address_is_loopback(const struct sl_address *address) {
    if (address->at.ss_family == AF_INET6)
        return IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)&address->at)->sin6_addr);
    uint32_t ip = ntohl(((const struct sockaddr_in *)&address->at)->sin_addr.s_addr);
    return address->at.ss_family == AF_INET && ip >> 24 == 127;
}

void sl_address_set_port(struct sl_address *address, uint16_t port) {
    if (address->at.ss_family == AF_INET6)
        ((struct sockaddr_in6 *)&address->at)->sin6_port = htons(port);
    else
        ((struct sockaddr_in *)&address->at)->sin_port = htons(port);
}
