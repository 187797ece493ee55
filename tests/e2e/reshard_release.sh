#!/usr/bin/env bash
# Checkpoints move between cuts: saved by p stages, loaded by q, for p and q in {1,2,3,4,6,8} (some pairs;
# SL_TEST_FULL=1: all), and between a chain and a cut along branches. Loss and tensors after the next step equal
# those of a run that stayed, bit for bit.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    tail -n 5 "$work/err"
    exit 1
}
moved=0
train() { "$SLUICE" train "${model[@]}" --checkpoint-every 2 --quiet "$@" 2>"$work/err"; } # OPTIONS...
loss() { tail -n 1 "$1/log.jsonl" | sed 's/, "ms".*//'; }
# whole: one worker, from the start to step 3.
whole() {
    rm -rf "$work/whole"
    train --steps 3 --out "$work/whole" || fail "one worker"
}
# move NAME "CUT" "CUT": two steps with the first cut, one with the second.
move() {
    local run=$work/move a b
    read -ra a <<<"$2"
    read -ra b <<<"$3"
    rm -rf "$run"
    train "${a[@]}" --steps 2 --out "$run" || fail "$1: first cut"
    train "${b[@]}" --steps 3 --resume --out "$run" || fail "$1: second cut"
    [ "$(loss "$run")" = "$(loss "$work/whole")" ] || fail "$1: $(loss "$run"), not $(loss "$work/whole")"
    for file in "$work/whole/ckpt/step-00000003"/*.safetensors; do
        cmp "$file" "$run/ckpt/step-00000003/$(basename "$file")" || fail "$1: tensors differ"
    done
    moved=$((moved + 1))
}
model=(gpt-nano --set "V=37,T=13,P=17,L=8,C=18,H=3,drop=0.1" --batch 6 --micro 2)
counts=(1 2 3 4 6 8)
pairs=("1 8" "8 1" "2 3" "6 4" "3 8" "4 6")
if [ "${SL_TEST_FULL:-0}" = 1 ]; then
    pairs=()
    for p in "${counts[@]}"; do for q in "${counts[@]}"; do pairs+=("$p $q"); done; done
fi
whole
for pair in "${pairs[@]}"; do
    read -r p q <<<"$pair"
    move "$p to $q stages" "--stages $p" "--stages $q"
done
model=(mmt --set "L=1,C=12,H=2,T=5,F=20,classes=7" --batch 8 --micro 4)
branches="--stages 6 --cut branches --workers 3 --schedule graph"
whole
move "chain to branches" "--stages 3" "$branches"
move "branches to chain" "$branches" "--stages 2"
echo "count: checkpoints moved between cuts $moved"
