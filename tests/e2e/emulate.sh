#!/usr/bin/env bash
# train --emulate: the run directory of a pipeline, from one worker; checkpoints, --resume, refusals.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
cd "$work"
job=(gpt-nano --set "V=37,T=13,P=17,L=4,C=18,H=3,drop=0.1" --batch 6 --micro 3 --lr 3e-3 --clip 0.3
    --seed 7 --eval-every 4)
train() { "$SLUICE" train "$@" 2>"$work/err"; }
refuse() { # PATTERN ARGUMENTS...
    ! train "${@:2}" >/dev/null || fail "${*:2}: not refused"
    grep -q -e "$1" "$work/err" || fail "${*:2}: the message is not '$1': $(cat "$work/err")"
}
same() { # RUN RUN
    "$SLUICE" compare "$1" "$2" >"$work/compare" || fail "$2 is not $1: $(cat "$work/compare")"
}
losses() { grep -o '"step": [0-9]*, "[a-z_]*": [-0-9.e]*' "$1/log.jsonl"; } # and those of evaluations

number=0
while read -r options; do
    number=$((number + 1))
    read -ra given <<<"$options"
    train "${job[@]}" --stages 4 "${given[@]}" --steps 12 --out "pipe$number"
    train "${job[@]}" --stages 4 "${given[@]}" --steps 12 --out "one$number" --emulate
    grep -q "emulation: 4 stages" err || fail "the run does not say that it emulates"
    same "pipe$number" "one$number"
    [ "$(losses "pipe$number")" = "$(losses "one$number")" ] || fail "$options: other losses"
    [ "$(losses "one$number" | wc -l)" -ge 15 ] || fail "the log has too few lines"
    # From a checkpoint in the middle.
    train "${job[@]}" --stages 4 "${given[@]}" --steps 12 --out "part$number" --emulate --checkpoint-every 5 --keep 0
    train --resume --from-step 5 --out "part$number" || fail "$options: $(cat err)"
    same "one$number" "part$number"
done <<'END'
--schedule 2bw
--schedule async --policy spectrain --optimizer momentum
--schedule stash --clip-scope global --loss-scale dynamic:start=64,every=2
--schedule vsync --policy lr-rescale
--schedule async --policy pipemare --optimizer adamw
END
grep -q '"emulate": true' one2/config.json || fail "config.json does not show emulate"
# More stages than cores; also from a file of options.
train "${job[@]}" --stages 16 --schedule stash --steps 4 --out many
train "${job[@]}" --stages 16 --schedule stash --steps 4 --print-config --emulate >many.toml
grep -q '^emulate = true' many.toml || fail "--print-config lacks emulate"
train --config many.toml --out many_one
same many many_one

refuse "needs a pipeline" "${job[@]}" --emulate
refuse "replicas" "${job[@]}" --stages 2 --replicas 2 --schedule 2bw --emulate
refuse "tensor parallelism" "${job[@]}" --stages 2 --tp 3 --schedule 2bw --emulate
refuse "leave out --trace" "${job[@]}" --stages 2 --schedule 2bw --emulate --trace --out x
refuse "leave out --log-staleness" "${job[@]}" --stages 2 --schedule 2bw --emulate --log-staleness --out x
refuse "recomputes" "${job[@]}" --stages 3 --schedule async --recompute --emulate
# A pipeline does not continue an emulation by itself, nor the other way round.
"$SLUICE" train "${job[@]}" --stages 4 --schedule stash --steps 12 --out stop --checkpoint-every 5 --keep 0 --emulate 2>err
echo 'emulate = false' >pipeline.toml
refuse "emulate was true and is false" --resume --from-step 5 --out stop --config pipeline.toml
