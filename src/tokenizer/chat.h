/* Chat templates turn a conversation into one text and tell which parts of it are answers.
 *
 * The templates are rows with names; Jinja is not interpreted. The template of a Hugging Face
 * folder is recognised by words in its text. */
#ifndef SL_TOKENIZER_CHAT_H
#define SL_TOKENIZER_CHAT_H

#include "tokenizer/tokenizer.h"

enum sl_chat_role { SL_CHAT_SYSTEM, SL_CHAT_USER, SL_CHAT_ASSISTANT };

struct sl_tokenizer_message {
    enum sl_chat_role role;
    struct sl_str content;
};

struct sl_tokenizer_chat {
    const struct sl_tokenizer_template *row; /* NULL: there is no template */
    char bos[64], eos[64];                   /* tokens; "": none */
    char system[256]; /* system message for a conversation without one; "": none */
};

/* Returns the name of template i; NULL after the last. */
const char *sl_tokenizer_template_name(int i);

/* Reads tokenizer_config.json and chat_template.jinja in the folder of the tokenizer (NULL: tokens
 * are bytes). `name` chooses a template; NULL or "": the folder's. A folder without template leaves
 * row NULL; a template that is not recognised is refused only if `needed`. */
SL_MUST_CHECK sl_err sl_tokenizer_chat_open(const char *tokenizer, const char *name, bool needed,
                                            struct sl_tokenizer_chat *out);
/* The same from texts; jinja may be empty. */
SL_MUST_CHECK sl_err sl_tokenizer_chat_read(const char *file, struct sl_str config,
                                            struct sl_str jinja, const char *name, bool needed,
                                            struct sl_tokenizer_chat *out);

bool sl_tokenizer_chat_role(struct sl_str name, enum sl_chat_role *out);

/* Appends the ids of a conversation to `out` and, for each, 1 to `answers` if it belongs to an
 * answer of the assistant (including the token that ends its turn), else 0. Refuses an order of
 * roles that the template does not have. */
SL_MUST_CHECK sl_err sl_tokenizer_chat_encode(const struct sl_tokenizer_chat *chat,
                                              const struct sl_tokenizer *tokenizer,
                                              const struct sl_tokenizer_message *messages,
                                              int64_t count, struct sl_tokens *out,
                                              struct sl_tokens *answers);
/* Appends the text that the ids stand for. */
SL_MUST_CHECK sl_err sl_tokenizer_chat_render(const struct sl_tokenizer_chat *chat,
                                              const struct sl_tokenizer_message *messages,
                                              int64_t count, struct sl_text *out);

#endif
