/* SHA-256 and HMAC: vectors of FIPS 180-4 (appendix of the 2002 edition) and RFC 4231. */
#include "base/sha256.h"

#include "base/err.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void expect(const unsigned char *got, const char *want) {
    char text[2 * SL_SHA256_BYTES + 1];
    for (int i = 0; i < SL_SHA256_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", got[i]);
    assert_string_equal(text, want);
}

static void hash(const char *text, size_t length, size_t piece, const char *want) {
    struct sl_sha256 h;
    unsigned char out[SL_SHA256_BYTES];
    sl_sha256_open(&h);
    for (size_t at = 0; at < length; at += piece)
        sl_sha256_add(&h, text + at, piece < length - at ? piece : length - at);
    sl_sha256_value(&h, out);
    expect(out, want);
}

static void test_hashes(void **state) {
    static const char two[] = "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq";
    char *million = malloc(1000000);
    (void)state;
    assert_non_null(million);
    memset(million, 'a', 1000000);
    hash("", 0, 1, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
    hash("abc", 3, 3, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    for (size_t piece = 1; piece <= 56; piece++)
        hash(two, 56, piece, "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
    for (size_t piece = 997; piece <= 1000000; piece *= 10)
        hash(million, 1000000, piece,
             "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
    free(million);
}

static void mac(const char *key, size_t key_length, const char *text, const char *want) {
    struct sl_hmac h;
    unsigned char out[SL_SHA256_BYTES];
    sl_hmac_open(&h, key, key_length);
    sl_hmac_add(&h, text, strlen(text) / 2);
    sl_hmac_add(&h, text + strlen(text) / 2, strlen(text) - strlen(text) / 2);
    sl_hmac_value(&h, out);
    expect(out, want);
}

static void test_hmac(void **state) {
    char key[131], text[51] = "";
    (void)state;
    memset(key, 0x0b, 20);
    mac(key, 20, "Hi There", "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7");
    mac("Jefe", 4, "what do ya want for nothing?",
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
    memset(key, 0xaa, sizeof key);
    memset(text, 0xdd, 50);
    mac(key, 20, text, "773ea91e36800e46854db8ebd09181a72959098b3ef8c122d9635514ced565fe");
    mac(key, 131, "Test Using Larger Than Block-Size Key - Hash Key First",
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

static void test_equal(void **state) {
    (void)state;
    assert_true(sl_bytes_equal("abc", "abd", 2));
    assert_false(sl_bytes_equal("abc", "abd", 3));
    assert_false(sl_bytes_equal("xbc", "abc", 3));
    assert_true(sl_bytes_equal("", "", 0));
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_hashes), cmocka_unit_test(test_hmac),
                                       cmocka_unit_test(test_equal)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
