#!/usr/bin/env bash
# A run is continued only with what it was made of: the hash in `latest`, the data's content, the graph of the model. Each
# guard is tested alone, with files whose names and sizes are the same.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
cd "$work"
gpt=(gpt-nano --set "V=256,T=13,P=17,L=1,C=12,H=3" --batch 4 --quiet)
refuse() { # STATUS WORDS ARGUMENTS...
    local rc=0
    "$SLUICE" "${@:3}" >out 2>err || rc=$?
    [ "$rc" -eq "$1" ] || fail "${*:3}: exit $rc, not $1"
    grep -qF -- "$2" err || fail "${*:3}: not '$2'"
}
for ((i = 0; i < 400; i++)); do printf 'word %d of the book. ' $((i * 7919 % 1000)); done >book.txt
"$SLUICE" train "${gpt[@]}" --data book.txt --steps 4 --checkpoint-every 2 --out run 2>err || fail "train"

# `latest` names a checkpoint and its hash. With another hash the checkpoint is not the one that was saved.
cp -r run other
read -r name hash <run/ckpt/latest
printf '%s %s\n' "$name" "$(tr 0-9a-f 1-9a-f0 <<<"$hash")" >other/ckpt/latest
refuse 3 "it is not the checkpoint that 'latest' names" eval other
refuse 3 "it is not the checkpoint that 'latest' names" ckpt convert other -o x.safetensors
"$SLUICE" train --resume --out other --steps 6 2>err >out || fail "resume with another hash"
grep -q "step-00000004: .*it is not the checkpoint that 'latest' names" err || fail "nothing was skipped"
grep -q 'resumed after step 2' err || fail "the older step was not taken"
"$SLUICE" ckpt ls run/ckpt/step-00000002 >out 2>err || fail "ls of one step"
grep -q '^ *2 ' out || fail "ls of one step: $(cat out)"
(cd run/ckpt && "$SLUICE" ckpt ls step-00000002) | grep -q '^ *2 ' || fail "ls of one step, relative"
(cd run/ckpt && "$SLUICE" ckpt verify step-00000002) >out || fail "verify of one step"
"$SLUICE" ckpt verify run/ckpt/step-00000002 --step 2 >out 2>err || fail "verify of one step by its number"
refuse 3 "no checkpoint of step 3" ckpt verify run/ckpt/step-00000002 --step 3

# The same file name and size, another byte.
sed -i 's/^word 0/Word 0/' book.txt
refuse 1 "was trained on other data" train --resume --out run --steps 6
sed -i 's/^Word 0/word 0/' book.txt

# The same tensors, another function: relu for tanh.
cat >net.model <<'M'
model net
input x : float[B, 3]
input label : int[B] < 2
param w[5, 3] ~ normal(0.3)
param v[2, 5] ~ normal(0.3)
loss cross_entropy(matmul(tanh(matmul(x, w, tb = 1)), v, tb = 1), label)
M
"$SLUICE" train net.model --batch 4 --steps 2 --out net --quiet 2>err || fail "train net"
sed 's/tanh/relu/' net.model >relu.model
cp net/model.model kept
sed -i 's/tanh/relu/g' net/model.model
refuse 3 "was written by another model" train --resume --out net --steps 4
cp kept net/model.model
"$SLUICE" train --resume --out net --steps 4 --quiet 2>err || fail "resume net"

# Weights from a file and from a folder: 25 floats.
"$SLUICE" ckpt convert net -o net.safetensors >out 2>err || fail "convert"
mkdir folder && cp net.safetensors folder/model.safetensors
for from in net.safetensors folder; do
    "$SLUICE" train net.model --batch 4 --steps 0 --init $from --out from.$from --quiet 2>err || fail "--init $from"
    "$SLUICE" ckpt convert from.$from -o again.safetensors >out 2>err || fail "convert from $from"
    cmp -s <(tail -c 100 net.safetensors) <(tail -c 100 again.safetensors) || fail "--init $from: other weights"
done
refuse 3 "No such file" train net.model --batch 4 --steps 1 --init absent.safetensors --out y
