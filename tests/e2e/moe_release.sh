#!/usr/bin/env bash
# Mixtures of experts: every layout that gives the bits of one worker does so, with and without dropped
# tokens; the load-balance loss falls on text; memory is that of the plan, whatever the load; the shapes
# of the zoo are read; recompute is refused where a bias of the choice changes between the passes.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() { echo "FAILED: $*" >&2 && exit 1; }
tiny=V=256,T=32,L=3,C=32,H=4,K=2,F=48,E=4,A=2
train() { # NAME SETS OPTIONS
    "$SLUICE" train moe --models "$SRC_DIR/models" --set "$2" --batch 8 --micro 4 --lr 3e-3 --quiet --out "$work/$1" "${@:3}"
}

# 1. Eight layouts.
variant=0
for sets in $tiny $tiny,S=24,sigmoidal=1,dense=1,D=40 $tiny,capacity=1.25,renormalise=0; do
    layout=0
    while read -r -a options; do
        train "$variant-$layout" "$sets" --steps 3 "${options[@]}" >/dev/null
        "$SLUICE" compare "$work/$variant-0" "$work/$variant-$layout" >/dev/null || fail "$sets: ${options[*]} has other bits"
        layout=$((layout + 1))
    done <<'LAYOUTS'
--stages 1
--stages 2
--stages 3 --schedule gpipe
--stages 3 --schedule zb-h1
--stages 2 --recompute
--stages 4
--stages 1 --threads 2
--stages 4 --workers 2
LAYOUTS
    [ "$layout" = 8 ] || fail "only $layout layouts"
    variant=$((variant + 1))
done

# 2. The load on text: a router that begins with favourites learns to share. The token loss has no weight
#    here, so the log shows the load-balance loss (1: an equal load). Memory does not depend on the load.
mkdir "$work/skewed"
sed 's/^loss tokens = .*/& weight 0/' "$SRC_DIR/models/moe.model" >"$work/skewed/moe.model"
sed 's/gate.weight\[E, C\] ~ normal(0.02)/gate.weight[E, C] ~ normal(0.5)/' "$SRC_DIR/models/layers.model" >"$work/skewed/layers.model"
cat "$SRC_DIR/README.md" "$SRC_DIR"/docs/*.md >"$work/all.txt"
head -c 100000 "$work/all.txt" >"$work/text.txt"
loads() { # NAME STEPS OPTIONS
    "$SLUICE" train moe --set "V=256,T=32,L=3,C=32,H=4,K=2,F=48,E=8,A=2,balance=1" --batch 8 --lr 3e-3 --stages 2 \
        --data "$work/text.txt" --quiet --out "$work/$1" --steps "$2" "${@:3}" >/dev/null
}
loads skewed-run 60 --models "$work/skewed"
loads even-run 2 --models "$SRC_DIR/models"
sed -n 's/.*"loss": \([^,]*\),.*/\1/p' "$work/skewed-run/log.jsonl" |
    awk 'NR <= 5 { first += $1 / 5 } { last[NR % 5] = $1 } END { for (i in last) sum += last[i] / 5
        printf "load-balance loss on text: %.3f, after %d steps %.3f\n", first, NR, sum
        exit !(sum < first - 0.1) }' || fail "the load-balance loss does not fall"
bytes() { sed -n 's/.*"worker_bytes": \([0-9]*\).*/\1/p' "$work/$1/log.jsonl" | sort -u; }
[ "$(bytes skewed-run)" = "$(bytes even-run)" ] || fail "memory depends on the load: $(bytes skewed-run), $(bytes even-run)"

# 3. The bias that balances without a loss; recompute is refused by name.
train bias "$tiny,rate=0.001,balance=0" --steps 3 --stages 2 >/dev/null
if train refused "$tiny,rate=0.001" --steps 1 --recompute 2>"$work/err"; then fail "recompute with a changing bias"; fi
grep -q "gate.bias.*changes" "$work/err" || fail "the refusal does not name the state: $(cat "$work/err")"

# 4. The shapes of Mixtral and DeepSeek.
"$SLUICE" model moe --models "$SRC_DIR/models" >"$work/mixtral"
"$SLUICE" model deepseek-moe --models "$SRC_DIR/models" >"$work/deepseek"
grep -q "46,702,792,704" "$work/mixtral" || fail "moe has not Mixtral's 46.7 billion parameters"
grep -q "16,375,728,128" "$work/deepseek" || fail "deepseek-moe has not 16.4 billion parameters"
echo "ok"
