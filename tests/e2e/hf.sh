#!/usr/bin/env bash
# Folders of Hugging Face in place of models: import to a text, the same bits on 1, 2 and 4 stages,
# resume; weights from files, folders, shards and runs; what does not fit is listed; settings that are
# not implemented are refused by name.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "hf: $*" >&2
    exit 1
}
fixtures=$SRC_DIR/tests/fixtures/hf
train() { # NAME MODEL OPTIONS: trains and keeps the weights
    local name=$1
    shift
    "$SLUICE" train "$@" --data synthetic --steps 3 --batch 4 --micro 2 --out "$dir/$name" \
        >"$dir/$name.log" 2>&1 || fail "train $name: $(cat "$dir/$name.log")"
    "$SLUICE" ckpt convert "$dir/$name" -o "$dir/$name.safetensors" || fail "convert $name"
}
expect() { # STATUS TEXT COMMAND
    local status=$1 text=$2 rc=0
    shift 2
    "$SLUICE" "$@" >"$dir/out" 2>&1 || rc=$?
    [ "$rc" = "$status" ] || fail "$* exits $rc: $(cat "$dir/out")"
    grep -qF -- "$text" "$dir/out" || fail "'$text' is not in: $(cat "$dir/out")"
}

# ---- layouts, the imported text, resume ----
for model in gpt2 gemma2 bert vit; do
    sets="dropout=1"
    train "$model-1" "$fixtures/$model" --set "$sets"
    train "$model-2" "$fixtures/$model" --set "$sets" --stages 2
    train "$model-4" "$fixtures/$model" --set "$sets" --stages 4
    "$SLUICE" import hf "$fixtures/$model" -o "$dir/$model.model" >"$dir/summary" || fail "import"
    grep -q "parameters .* tensors" "$dir/summary" || fail "summary: $(cat "$dir/summary")"
    train "$model-t" "$dir/$model.model" --set "$sets"
    for other in 2 4 t; do
        cmp "$dir/$model-1.safetensors" "$dir/$model-$other.safetensors" || fail "$model-$other differs"
    done
done
train "gpt2-r" "$fixtures/gpt2"
"$SLUICE" train --resume --out "$dir/gpt2-r" --steps 6 >"$dir/resume" 2>&1 || fail "$(cat "$dir/resume")"
"$SLUICE" plan "$fixtures/llama" --devices 2 -o "$dir/llama.plan" >/dev/null || fail "plan"
"$SLUICE" train "$fixtures/llama" --plan "$dir/llama.plan" --steps 1 --batch 4 --micro 2 >/dev/null 2>&1 || fail "plan train"

# ---- weights: a run, a file, a folder; lists of what does not fit ----
small="V=19,T=7,P=9,L=2,C=8,H=2"
"$SLUICE" train gpt2 --set "$small" --init "$fixtures/gpt2" --steps 1 --batch 4 >"$dir/log" 2>&1 ||
    fail "prefix: $(cat "$dir/log")"
train zoo gpt2 --set "$small"
train again gpt2 --set "$small" --init "$dir/zoo"
train file gpt2 --set "$small" --init "$dir/zoo.safetensors"
cmp "$dir/again.safetensors" "$dir/file.safetensors" || fail "a run and its file differ"
expect 3 "12 tensors unused: h.1.attn" train gpt2 --set "${small/L=2/L=1}" --init "$dir/zoo"
expect 3 "12 tensors missing: h.2" train gpt2 --set "${small/L=2/L=3}" --init "$dir/zoo.safetensors"
expect 3 "2 tensors of another shape" train gpt2 --set "${small/V=19,T=7,P=9/V=23,T=7,P=8}" --init "$dir/zoo"
expect 3 "--init-partial" train gpt2 --set "${small/L=2/L=1}" --init "$dir/zoo"
expect 0 "12 tensors unused" train gpt2 --set "${small/L=2/L=1}" --init "$dir/zoo" --init-partial \
    --steps 1 --batch 4
expect 3 "no tensor fits" train lenet --init "$dir/zoo" --init-partial
mkdir "$dir/pickle" && touch "$dir/pickle/pytorch_model.bin"
expect 1 "pickled" train gpt2 --init "$dir/pickle"

# ---- settings that are not implemented ----
change() { # NAME FOLDER SED: a folder with a changed config.json
    mkdir -p "$dir/$1"
    cp "$fixtures/$2"/*.safetensors "$dir/$1/"
    sed "$3" "$fixtures/$2/config.json" >"$dir/$1/config.json"
    cmp -s "$fixtures/$2/config.json" "$dir/$1/config.json" && fail "$1: nothing changed"
    return 0
}
change act llama 's/"silu"/"xielu"/'
expect 1 "'hidden_act' is 'xielu'" model "$dir/act"
change rope llama 's/"llama3"/"longrope"/'
expect 1 "'rope_parameters.rope_type' is 'longrope'" model "$dir/rope"
change extra llama 's/"hidden_act"/"clever_norm": 3, "hidden_act"/'
expect 1 "'clever_norm' is 3: this setting is not implemented" model "$dir/extra"
change class bert 's/BertForMaskedLM/BertForPreTraining/'
expect 1 "BertForSequenceClassification" model "$dir/class"
change type gpt2 's/"gpt2"/"gpt3"/'
expect 1 "'gpt3'" model "$dir/type"
change cross gpt2 's/"add_cross_attention": false/"add_cross_attention": true/'
expect 1 "'add_cross_attention' is true" model "$dir/cross"
change heads llama 's/"num_attention_heads": 4/"num_attention_heads": 3/'
expect 1 "'num_key_value_heads'" model "$dir/heads"
echo "count: 4 models, 25 runs, 14 refusals"
