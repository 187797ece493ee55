/* Chat templates: what they render (checked with Jinja against the templates of the models), which
 * tokens are answers, what is recognised and what is refused. */
#include "base/vec.h"
#include "support/data_files.h"
#include "tokenizer/chat.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct sl_tokenizer_message talk[] = {
    {SL_CHAT_SYSTEM, {"Be brief.", 9}},    {SL_CHAT_USER, {"Hi", 2}},
    {SL_CHAT_ASSISTANT, {"Hello!", 6}},    {SL_CHAT_USER, {"the gate?", 9}},
    {SL_CHAT_ASSISTANT, {"It opens.", 9}},
};

static const struct {
    const char *name, *text; /* of talk, or of talk without its system message */
    bool system;
} cases[] = {
    {"chatml",
     "<|im_start|>system\nBe "
     "brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
     "Hello!<|im_end|>\n<|im_start|>user\nthe gate?<|im_end|>\n<|im_start|>assistant\n"
     "It opens.<|im_end|>\n",
     true},
    {"gemma",
     "<bos><start_of_turn>user\nHi<end_of_turn>\n<start_of_turn>model\nHello!<end_of_turn>\n"
     "<start_of_turn>user\nthe gate?<end_of_turn>\n<start_of_turn>model\nIt opens.<end_of_turn>\n",
     false},
    {"llama2",
     "<s>[INST] <<SYS>>\nBe brief.\n<</SYS>>\n\nHi [/INST] Hello! </s><s>[INST] the gate? [/INST] "
     "It opens. </s>",
     true},
    {"llama3",
     "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
     "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant"
     "<|end_header_id|>\n\nHello!<|eot_id|><|start_header_id|>user<|end_header_id|>\n\nthe gate?"
     "<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nIt opens.<|eot_id|>",
     true},
    {"mistral", "<s>[INST] Hi [/INST]Hello!</s>[INST] the gate? [/INST]It opens.</s>", false},
};

static void test_render(void **state) {
    (void)state;
    for (int i = 0; i < SL_COUNT(cases); i++) {
        struct sl_tokenizer_chat chat;
        struct sl_text text = {0};
        int skip = cases[i].system ? 0 : 1;
        assert_string_equal(sl_tokenizer_template_name(i), cases[i].name);
        SL_TEST_OK(sl_tokenizer_chat_read("t", SL_STR(""), SL_STR(""), cases[i].name, true, &chat));
        SL_TEST_OK(sl_tokenizer_chat_render(&chat, talk + skip, SL_COUNT(talk) - skip, &text));
        assert_string_equal(text.at, cases[i].text);
        if (!cases[i].system)
            SL_TEST_FAILS(sl_tokenizer_chat_render(&chat, talk, SL_COUNT(talk), &text),
                          SL_ERR_INPUT, "'system'");
        sl_text_free(&text);
    }
    assert_null(sl_tokenizer_template_name(SL_COUNT(cases)));
}

/* The answers, decoded: each with the token that ends its turn. */
static void test_answers(void **state) {
    static const struct {
        const char *tokenizer, *name, *answers;
    } wanted[] = {
        {"qwen2", "chatml", "Hello!<|im_end|>It opens.<|im_end|>"},
        {"llama3", "llama3", "Hello!<|eot_id|>It opens.<|eot_id|>"},
        {"llama2", "mistral", "Hello!</s>It opens.</s>"},
    };
    (void)state;
    for (int i = 0; i < SL_COUNT(wanted); i++) {
        struct sl_tokenizer_chat chat;
        struct sl_tokenizer *t;
        struct sl_tokens ids = {0}, answers = {0}, kept = {0};
        struct sl_text text = {0};
        char path[4096];
        snprintf(path, sizeof path, "%s/tests/fixtures/tokenizers/%s.json", SL_TEST_SRC_DIR,
                 wanted[i].tokenizer);
        SL_TEST_OK(sl_tokenizer_open(path, &t));
        SL_TEST_OK(
            sl_tokenizer_chat_read("t", SL_STR(""), SL_STR(""), wanted[i].name, true, &chat));
        SL_TEST_OK(
            sl_tokenizer_chat_encode(&chat, t, talk + 1, SL_COUNT(talk) - 1, &ids, &answers));
        assert_int_equal(ids.count, answers.count);
        for (int64_t k = 0; k < ids.count; k++)
            if (answers.at[k])
                SL_PUSH(&kept, ids.at[k]);
        sl_text_put(&text, "");
        for (int64_t k = 0; k < kept.count; k++) {
            struct sl_str piece = sl_tokenizer_piece(t, kept.at[k]);
            sl_text_put_bytes(&text, piece.at, piece.length);
        }
        assert_string_equal(text.at, wanted[i].answers);
        sl_text_free(&text);
        SL_VEC_FREE(&ids);
        SL_VEC_FREE(&answers);
        SL_VEC_FREE(&kept);
        sl_tokenizer_close(t);
    }
}

static void test_recognise(void **state) {
    const struct sl_str config = SL_STR(
        "{\"bos_token\":{\"content\":\"<B>\",\"special\":true},\"eos_token\":\"<E>\",\"x\":[1],"
        "\"chat_template\":\"{{ bos_token }}[INST] {{ x }} [/INST]\"}");
    const struct sl_str qwen =
        SL_STR("{% if messages[0]['role'] != 'system' %}{{ '<|im_start|>system\\nYou are kind."
               "<|im_end|>\\n' }}{% endif %}");
    struct sl_tokenizer_chat chat;
    struct sl_text text = {0};
    (void)state;
    SL_TEST_OK(sl_tokenizer_chat_read("t", config, SL_STR(""), NULL, true, &chat));
    SL_TEST_OK(sl_tokenizer_chat_render(&chat, talk + 1, 2, &text));
    assert_string_equal(text.at, "<B>[INST] Hi [/INST]Hello!<E>");
    text.length = 0;
    SL_TEST_OK(sl_tokenizer_chat_read("t", SL_STR(""), qwen, "", true, &chat));
    SL_TEST_OK(sl_tokenizer_chat_render(&chat, talk + 1, 1, &text));
    assert_string_equal(text.at, "<|im_start|>system\nYou are kind.<|im_end|>\n<|im_start|>user\n"
                                 "Hi<|im_end|>\n");
    sl_text_free(&text);
    SL_TEST_FAILS(sl_tokenizer_chat_read("t", SL_STR(""), qwen, "jinja", true, &chat), SL_ERR_INPUT,
                  "'jinja' is not known");
    SL_TEST_FAILS(sl_tokenizer_chat_read("t", SL_STR(""), SL_STR("{{ own }}"), NULL, true, &chat),
                  SL_ERR_INPUT, "none of chatml");
    SL_TEST_FAILS(sl_tokenizer_chat_read("t", SL_STR(""), SL_STR(""), NULL, true, &chat),
                  SL_ERR_INPUT, "no chat template");
    SL_TEST_OK(sl_tokenizer_chat_read("t", SL_STR(""), SL_STR("{{ own }}"), NULL, false, &chat));
    assert_null(chat.row);
    SL_TEST_FAILS(sl_tokenizer_chat_read("t", SL_STR("{"), SL_STR(""), NULL, false, &chat),
                  SL_ERR_INPUT, "ends inside");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_render),
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_recognise),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
