/* The result of a comparison as text and as JSON. */
#include "base/json.h"
#include "ckpt/compare.h"

void sl_ckpt_compare_put(const struct sl_ckpt_comparison *all, struct sl_text *text) {
    char human[SL_HUMAN_BYTES];
    const struct sl_ckpt_difference *first = &all->first;
    if (!all->differing && sl_ckpt_same_place(all)) {
        sl_text_printf(text, "equal: step %lld, %lld tensors, %s\n",
                       (long long)sl_ckpt_step(all->a), (long long)all->tensors,
                       sl_human_bytes(all->size_bytes, human));
        return;
    }
    if (!sl_ckpt_same_place(all))
        sl_text_printf(text, "step %lld and %lld, seed %llu and %llu, cursor %lld and %lld\n",
                       (long long)sl_ckpt_step(all->a), (long long)sl_ckpt_step(all->b),
                       (unsigned long long)sl_ckpt_seed(all->a),
                       (unsigned long long)sl_ckpt_seed(all->b), (long long)sl_ckpt_cursor(all->a),
                       (long long)sl_ckpt_cursor(all->b));
    sl_text_printf(text, "%lld of %lld tensors differ\n", (long long)all->differing,
                   (long long)all->tensors);
    if (!all->differing)
        return;
    if (*first->reason)
        sl_text_printf(text, "first: '%s': %s\n", first->name, first->reason);
    else
        sl_text_printf(text, "first: '%s': %lld of %lld elements; element %lld is %.9g and %.9g\n",
                       first->name, (long long)first->elements, (long long)first->count,
                       (long long)first->first, first->a, first->b);
    if (all->largest_name)
        sl_text_printf(text, "largest difference: %.9g in '%s'\n", all->largest, all->largest_name);
}

void sl_ckpt_compare_json(const struct sl_ckpt_comparison *all, struct sl_text *text) {
    struct sl_json_out json = {.text = text, .indent = 2};
    const struct sl_ckpt_difference *first = &all->first;
    sl_json_open(&json, '{');
    sl_json_put_bool(&json, "equal", !all->differing && sl_ckpt_same_place(all));
    sl_json_put_bool(&json, "same_step_seed_cursor", sl_ckpt_same_place(all));
    sl_json_put_int(&json, "step_a", sl_ckpt_step(all->a));
    sl_json_put_int(&json, "step_b", sl_ckpt_step(all->b));
    sl_json_put_int(&json, "tensors", all->tensors);
    sl_json_put_int(&json, "bytes", all->size_bytes);
    sl_json_put_int(&json, "differing", all->differing);
    if (all->differing) {
        sl_json_put_string(&json, "first", first->name);
        sl_json_put_string(&json, "reason", *first->reason ? first->reason : "values");
        sl_json_put_int(&json, "first_elements", first->elements);
        sl_json_put_double(&json, "first_largest", first->largest);
        sl_json_put_double(&json, "largest", all->largest);
    }
    sl_json_close(&json, '}');
    sl_text_put(text, "\n");
}
