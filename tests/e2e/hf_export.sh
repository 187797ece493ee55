#!/usr/bin/env bash
# Export of runs to folders of Hugging Face: reading the folder again gives the same tensors, config and
# outputs, for every architecture, in one file and in shards, also if the run's model was imported to a
# text; bf16 rounds; what does not fit is refused and leaves nothing.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() {
    echo "hf_export: $*" >&2
    exit 1
}
# shellcheck source=tests/support/commands.sh
. "$SRC_DIR/tests/support/commands.sh"
weights() { # RUN FILE
    sluice ckpt convert "$1" -o "$2"
}
fixtures=$SRC_DIR/tests/fixtures/hf
same_weights() { # FOLDER RUN: the folder starts with the weights of the run
    sluice train "$1" --data synthetic --steps 0 --batch 4 --out "$dir/got"
    sluice train "$1" --init "$2" --data synthetic --steps 0 --batch 4 --out "$dir/want"
    sluice ckpt convert "$dir/got" -o "$dir/got.safetensors"
    sluice ckpt convert "$dir/want" -o "$dir/want.safetensors"
    cmp "$dir/got.safetensors" "$dir/want.safetensors" || fail "the weights of $1 differ"
    rm -r "$dir/got" "$dir/want"
}
plain() { # CONFIG: without the type of the tensors
    sed 's/"b\{0,1\}float[0-9]*"/"T"/' "$1"
}

# ---- every architecture ----
models=0
for folder in "$fixtures"/*/; do
    model=$(basename "$folder")
    work=$dir/$model
    mkdir "$work"
    sluice train "$fixtures/$model" --data synthetic --steps 2 --batch 4 --out "$work/run"
    sluice export "$work/run" --to hf "$work/one"
    sluice export "$work/run" --to hf "$work/many" --shard-size 900B
    diff <(plain "$fixtures/$model/config.json") <(plain "$work/one/config.json") || fail "$model: config"
    grep -q '"dtype": "float32"' "$work/one/config.json" || fail "$model: type"
    [ "$(find "$work/many" -name 'model-0*.safetensors' | wc -l)" -gt 1 ] || fail "$model: no shards"
    same_weights "$work/one" "$work/run"
    same_weights "$work/many" "$work/run"
    for what in logits embeddings probabilities classes; do
        sluice predict "$work/run" --samples 7 --what "$what" -o "$work/run.npy"
        sluice predict "$work/one" --data synthetic --samples 7 --batch 3 --what "$what" -o "$work/one.npy"
        cmp "$work/run.npy" "$work/one.npy" || fail "$model: other $what"
    done
    models=$((models + 1))
done

# ---- a text made by import, bf16, a tokenizer, the order of files ----
sluice import hf "$fixtures/llama" -o "$dir/my.model"
sluice train "$dir/my.model" --data synthetic --steps 2 --batch 4 --out "$dir/text"
cmp <(cd "$dir" && "$SLUICE" export text --to hf text-out --json | grep -c written) <(echo 1) || fail "json"
same_weights "$dir/text-out" "$dir/text"
sluice export "$dir/text" --to hf "$dir/half" --dtype bf16
grep -q '"dtype": "bfloat16"' "$dir/half/config.json" || fail "the type of bf16"
sluice export "$dir/half" --to hf "$dir/wide"
sluice export "$dir/wide" --to hf "$dir/half2" --dtype bf16
cmp "$dir/half/model.safetensors" "$dir/half2/model.safetensors" || fail "bf16 through fp32"
cp -r "$fixtures/gpt2" "$dir/source"
echo '{}' >"$dir/source/tokenizer_config.json"
echo 'import os' >"$dir/source/modeling.py"
mkdir "$dir/empty"
sluice export "$dir/source" --to hf -o "$dir/empty"
cmp "$dir/source/tokenizer_config.json" "$dir/empty/tokenizer_config.json" || fail "tokenizer"
[ ! -e "$dir/empty/modeling.py" ] || fail "code is copied"
sluice train "$dir/source" --data synthetic --steps 1 --batch 4 --out "$dir/moved"
rm -r "$dir/source"

# ---- evaluation of all samples: 13 in micro-batches of 4 and one of 1, in one, one by one ----
for batch in 4 13 1; do
    sluice eval "$dir/text" --validation 13 --batch "$batch" --json
    grep -qF '"samples": 13' "$dir/log" || fail "eval: $(cat "$dir/log")"
    grep -E 'loss|accuracy' "$dir/log" | grep -oE '[0-9]+\.[0-9]{1,5}' >"$dir/eval-$batch"
done
cmp "$dir/eval-4" "$dir/eval-13" || fail "13 at once differ"
cmp "$dir/eval-4" "$dir/eval-1" || fail "one by one differ"

# ---- refusals ----
refused 1 "--source" export "$dir/moved" --to hf "$dir/no"
sluice export "$dir/moved" --to hf "$dir/yes" --source "$fixtures/gpt2"
refused 3 "no tensor fits the model" export "$dir/moved" --to hf "$dir/no" --source "$fixtures/llama"
refused 2 "is not empty" export "$dir/text" --to hf "$dir/half"
refused 2 "where to?" export "$dir/text" --to hf
refused 2 "expected fp32, bf16 or fp16" export "$dir/text" --to hf "$dir/no" --dtype fp64
[ ! -e "$dir/no" ] || fail "a refused export leaves a folder"
refused 2 "did you mean 'classes'" predict "$dir/text" --what clases
echo "count: $models models exported and read again, 7 refusals"
