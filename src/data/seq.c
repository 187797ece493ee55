/* Objectives over windows of tokens: next token, or masked tokens (BERT).
 *
 *   next     tokens  w0 w1 w2 w3      masked   tokens  w0 [M] w2 w3
 *            targets w1 w2 w3 w4               targets  -  w1  -  -      (- is the ignore value)
 *
 * Masking selects 15 % of the positions; 80 % of these become the mask token, 10 % a random token,
 * 10 % stay (Devlin et al. 2019, sec. 3.1). The selection is a function of (seed, number of the
 * sample in the run, position): different workers compute tokens and targets independently.
 */
#include "base/rng.h"
#include "data/source.h"

static const uint64_t mask_stream = 0x6d61736b; /* "mask" */

static sl_err bind_lengths(struct sl_data *data, int64_t length) {
    char text[SL_DATA_INPUT_TEXT];
    for (int i = 0; i < data->bound_count; i++) {
        struct sl_data_bound *bound = &data->bound[i];
        bool sequence = bound->role == SL_ROLE_TARGET || bound->role == SL_ROLE_TOKENS;
        if (sequence && (bound->numel != length || bound->want.dtype != SL_DATA_INT))
            return sl_fail(SL_ERR_INPUT,
                           "input %s of the model does not fit the set, which fills tokens and "
                           "targets int[B,%lld] of one length",
                           sl_data_input_text(&bound->want, text), (long long)length);
        if (bound->role == SL_ROLE_FEATURE || bound->role == SL_ROLE_IMAGE ||
            bound->role == SL_ROLE_MATCH)
            return sl_data_refuse(data, &bound->want);
        bound->in_seq = sequence;
    }
    return SL_OK;
}

/* Chooses the mask token: the spec's, else the tokenizer's, else the first unused id, else 0. */
static int64_t choose_mask_token(const struct sl_data *data, const struct sl_data_spec *spec,
                                 int64_t below) {
    static const char *const names[] = {"[MASK]", "<mask>", "<|mask|>"};
    if (spec->mask_token)
        return spec->mask_token;
    for (int i = 0; data->tokenizer && i < SL_COUNT(names); i++) {
        int32_t id = sl_tokenizer_find(data->tokenizer, sl_str(names[i]));
        if (id >= 0)
            return id;
    }
    int64_t vocab = data->tokenizer ? sl_tokenizer_vocab(data->tokenizer) : below;
    return vocab < below ? vocab : 0;
}

sl_err sl_data_seq_open(const struct sl_data *data, const struct sl_data_spec *spec,
                        const struct sl_data_bound *tokens, struct sl_seq *seq) {
    bool masked = data->objective == SL_DATA_MASKED;
    for (int i = 0; i < data->bound_count; i++) {
        enum sl_data_role role = data->bound[i].role;
        if (data->objective == SL_DATA_AUTO && (role == SL_ROLE_MASK || role == SL_ROLE_SEGMENT))
            masked = true;
    }
    int64_t below = tokens->want.below ? tokens->want.below : INT32_MAX;
    int64_t mask_token = choose_mask_token(data, spec, below);
    if (masked && (mask_token < 0 || mask_token >= below))
        return sl_data_bad_value(tokens, mask_token, "the mask token");
    *seq = (struct sl_seq){
        .length = tokens->numel,
        .masked = masked,
        .mask_token = (int32_t)mask_token,
        .draw_below = data->tokenizer ? sl_tokenizer_vocab(data->tokenizer) : below,
        .seed = data->seed,
    };
    if (seq->draw_below > below)
        seq->draw_below = below;
    return SL_OK;
}

sl_err sl_data_seq_bind(struct sl_data *data, const struct sl_data_spec *spec, struct sl_seq *seq) {
    for (int i = 0; i < data->bound_count; i++) {
        if (data->bound[i].role != SL_ROLE_TOKENS)
            continue;
        SL_TRY(bind_lengths(data, data->bound[i].numel));
        data->seq = seq;
        return sl_data_seq_open(data, spec, &data->bound[i], seq);
    }
    return sl_fail(SL_ERR_INPUT,
                   "the model has no input for tokens (an int input called tokens, ids, input_ids "
                   "or x); a set of kind %s offers %s",
                   data->kind->name, data->kind->offers);
}

/* Is position i masked, and how? One word of 32 random bits decides both. Call it with ascending i,
 * because four positions share a draw. */
static bool hides(const struct sl_seq *seq, uint64_t draw, int64_t i, struct sl_rng_block *block,
                  uint32_t *how) {
    if (i % 4 == 0)
        *block = sl_rng_draw(seq->seed, mask_stream ^ (draw << 32 | draw >> 32), (uint64_t)i / 4);
    *how = block->word[i % 4];
    return *how >> 16 < 9830; /* 15 % of 65536 */
}

/* Returns the position that is always masked, so that every sample has a target. */
static int64_t forced_position(const struct sl_seq *seq, uint64_t draw) {
    return sl_rng_below(seq->seed, mask_stream + 1, draw, seq->length);
}

void sl_data_seq_mask(const struct sl_seq *seq, const struct sl_data_bound *bound,
                      const struct sl_data_ask *ask) {
    int32_t *dst = ask->dst;
    int64_t forced = forced_position(seq, ask->draw);
    struct sl_rng_block block;
    for (int64_t i = 0; i < seq->length; i++) {
        uint32_t how;
        bool hidden = hides(seq, ask->draw, i, &block, &how) || i == forced;
        uint32_t tenth = (how & 0xffff) % 10;
        if (bound->role == SL_ROLE_TARGET)
            dst[i] = hidden ? dst[i] : bound->ignore;
        else if (hidden && tenth < 8)
            dst[i] = seq->mask_token;
        else if (hidden && tenth == 8)
            dst[i] = (int32_t)sl_rng_below(seq->seed, mask_stream + 2 + ask->draw, (uint64_t)i,
                                           seq->draw_below);
    }
}

int64_t sl_data_seq_masked_count(const struct sl_seq *seq, uint64_t draw) {
    int64_t count = 0, forced = forced_position(seq, draw);
    struct sl_rng_block block;
    uint32_t how;
    for (int64_t i = 0; i < seq->length; i++)
        count += hides(seq, draw, i, &block, &how) || i == forced;
    return count;
}
