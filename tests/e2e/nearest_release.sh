#!/usr/bin/env bash
# A misspelt name gets the right one suggested: every name of every registry with an extra letter, and every
# command, verb and option.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export SLUICE_MODELS=$SRC_DIR/models
count=0
# NAME STATUS ARGUMENTS...: fails with the status and suggests the name.
suggests() {
    local rc=0
    "$SLUICE" "${@:3}" >out 2>err </dev/null || rc=$?
    [ "$rc" = "$2" ] || fail "${*:3}: exit $rc, not $2: $(cat err)"
    grep -qE "did you mean '?${1//./\\.}'?\?" err || fail "${*:3}: no '$1' in: $(cat err)"
    [ ! -s out ] || fail "${*:3}: prints something"
    count=$((count + 1))
}
names() { "$SLUICE" list "$1" | awk '{ print $1 }'; }
for name in $(names models); do suggests "$name" 3 model "${name}x"; done
for name in $(names schedules); do
    suggests "$name" 2 sched --chain 4 --schedule "${name}x" --micro 4
    suggests "$name" 2 train mlp --stages 2 --schedule "${name}x" --steps 1
    suggests "$name" 2 plan mlp --machine laptop --schedule "${name}x"
done
for name in $(names policies); do suggests "$name" 2 train mlp --stages 2 --policy "${name}x" --steps 1; done
for name in $(names planners); do suggests "$name" 2 plan mlp --machine laptop --planner "${name}x"; done
for name in $(names optimizers); do
    suggests "$name" 2 train mlp --optimizer "${name}x" --steps 1
    suggests "$name" 2 plan mlp --machine laptop --optimizer "${name}x"
done
for name in $(names devices); do
    suggests "$name" 2 train mlp --device "${name}x" --steps 1
    suggests "$name" 2 machine discover --device "${name}x"
done
for name in $(names machines); do
    suggests "$name" 2 plan mlp --machine "${name}x"
    suggests "$name" 2 machine show "${name}x"
done
for name in $(names lr-schedules); do suggests "$name" 2 train mlp --lr-schedule "${name}x" --steps 1; done
for name in $(names transports); do suggests "$name" 2 train mlp --transport "${name}x" --steps 1; done
for name in $(names formats); do suggests "$name" 2 import "${name}x" file; done
for name in $(names data); do suggests "$name" 3 train mlp --data "${name}x:file" --steps 1; done
for name in $(names ops); do
    printf 'input x : float[B, 4]\nh = %sx(x)\nloss reduce_sum(h)\n' "$name" >x.model
    suggests "$name" 3 model x.model
done
for name in $("$SLUICE" list | awk '{ print $1 }'); do suggests "$name" 2 list "${name}x"; done
for name in check discover show; do suggests "$name" 2 machine "${name}x" y; done
for name in convert verify; do suggests "$name" 2 ckpt "${name}x" y; done
"$SLUICE" sched --chain 2 --schedule 1f1b --micro 2 -o x.sched --quiet >/dev/null
for name in csv dot json megatron torchtitan; do suggests "$name" 2 export x.plan --to "${name}x"; done
suggests T 2 model gpt-nano --set TT=3
for command in $("$SLUICE" --help | sed -n '/^commands:/,/^$/s/^  \([a-z]*\) .*/\1/p'); do
    suggests "$command" 2 "${command}x"
    for option in $("$SLUICE" "$command" --help | sed -n '/^options:/,$s/^  \(--[^ ]*\).*/\1/p'); do
        suggests "$option" 2 "$command" "${option}x"
    done
done
echo "count: $count names suggested"
