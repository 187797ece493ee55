#!/usr/bin/env bash
# Training on a GPU against training on the CPU: ten steps of small models, loss within 1e-4 for fp32,
# 0.5 % for fp16, 2 % for bf16; two runs are bit-identical; synchronous pipelines equal one stage.
# Skipped without a GPU.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2 && exit 1; }
"$SLUICE" list devices | grep '^  cuda ' | grep -vq '(not here' || exit 77
# shellcheck source=tests/support/small_models.sh
. "$SRC_DIR/tests/support/small_models.sh"

near_the_cpu "fp32:1e-4 tf32:2e-3 bf16:2e-2" --device cuda
near_the_cpu "fp16:5e-3" --device cuda --loss-scale 1024 # by hand, so that no step is skipped
for dtype in fp32 bf16 fp16; do
    same_bytes $dtype --device cuda
done
# 100 steps of gpt-tiny: the same losses, and the loss falls.
curve() { # NAME OPTIONS OF TRAIN...: the loss of every step
    "$SLUICE" train gpt-tiny --models "$SRC_DIR/models" --set V=64,T=32,P=32,L=2,C=64,H=1 --batch 16 --steps 100 --lr 3e-3 \
        --quiet --out "$work/curve-$1" "${@:2}" >/dev/null
    sed -n 's/.*"loss": \([^,]*\),.*/\1/p' "$work/curve-$1/log.jsonl" >"$work/$1.curve"
}
curve cpu
for dtype in fp32:2e-3 bf16:5e-2 fp16:1e-2; do
    scale=none
    [ "${dtype%:*}" != fp16 ] || scale=1024
    curve "${dtype%:*}" --device cuda --dtype "${dtype%:*}" --loss-scale $scale
    paste "$work/cpu.curve" "$work/${dtype%:*}.curve" | awk -v t="${dtype#*:}" '
        NR == 1 { first = $2 }
        { d = ($1 - $2) / $1; d = d < 0 ? -d : d; worst = d > worst ? d : worst; last = $2 }
        END {
            printf "curve: %d steps, %g to %g, at most %.2g from the CPU\n", NR, first, last, worst
            exit !(NR == 100 && last < first / 2 && worst <= t)
        }' || fail "gpt-tiny learns another curve in ${dtype%:*}"
done
# fp16 with its defaults: the scale starts at 65536, steps may be skipped, and the loss falls as well.
curve dynamic --device cuda --dtype fp16
awk 'NR == 1 { first = $1 } { last = $1 } END { exit !(NR == 100 && last < first / 2) }' "$work/dynamic.curve" ||
    fail "gpt-tiny does not learn in fp16 with a dynamic loss scale"
grep -q '"loss_scale": 65536,' "$work/curve-dynamic/log.jsonl" || fail "fp16 begins without a loss scale"
echo "ok"
