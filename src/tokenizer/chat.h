/* Chat templates: a conversation as one text, and which parts of it are answers.
 *
 * The templates are rows with names; Jinja is not interpreted. The template of a folder of Hugging
 * Face is recognised by what its text contains.
 */
#ifndef SL_TOKENIZER_CHAT_H
#define SL_TOKENIZER_CHAT_H

#include "tokenizer/tokenizer.h"

enum sl_chat_role { SL_CHAT_SYSTEM, SL_CHAT_USER, SL_CHAT_ASSISTANT };

struct sl_tokenizer_message {
    enum sl_chat_role role;
    struct sl_str content;
};

struct sl_tokenizer_chat {
    const struct sl_tokenizer_template *row; /* NULL: none */
    char bos[64], eos[64];                   /* "": none */
    char system[256]; /* the message of a conversation that has none; "": none */
};

/* The templates by number, NULL at the end. */
const char *sl_tokenizer_template_name(int i);

/* Read tokenizer_config.json and chat_template.jinja beside the tokenizer (NULL: bytes). `name`
 * chooses a template; NULL or "": the folder's. A folder without template leaves row NULL; a
 * template that is not recognised is refused only with `needed`. */
SL_MUST_CHECK sl_err sl_tokenizer_chat_open(const char *tokenizer, const char *name, bool needed,
                                            struct sl_tokenizer_chat *out);
/* The same from texts; jinja may be empty. */
SL_MUST_CHECK sl_err sl_tokenizer_chat_read(const char *file, struct sl_str config,
                                            struct sl_str jinja, const char *name, bool needed,
                                            struct sl_tokenizer_chat *out);

bool sl_tokenizer_chat_role(struct sl_str name, enum sl_chat_role *out);

/* Append the ids of a conversation to `out` and, for each, 1 to `answers` if it belongs to an answer
 * of the assistant (the token that ends its turn included), else 0. Refuses an order of roles that
 * the template does not have. */
SL_MUST_CHECK sl_err sl_tokenizer_chat_encode(const struct sl_tokenizer_chat *chat,
                                              const struct sl_tokenizer *tokenizer,
                                              const struct sl_tokenizer_message *messages,
                                              int64_t count, struct sl_tokens *out,
                                              struct sl_tokens *answers);
/* Append the text that the ids stand for. */
SL_MUST_CHECK sl_err sl_tokenizer_chat_render(const struct sl_tokenizer_chat *chat,
                                              const struct sl_tokenizer_message *messages,
                                              int64_t count, struct sl_text *out);

#endif
