#!/usr/bin/env bash
# A schedule without a cut: two stages of a worker are never at the same step. Threads and ranks agree: without
# evaluations and checkpoints the run ends with the same bits, a signal ends it with status 1 and says why, and
# evaluations and checkpoints are refused before the first step. A signal to `launch` that comes before the ranks
# can handle it is a stop, not an error.
set -euo pipefail
command -v pgrep >/dev/null || exit 77 # procps
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
model=(gpt-nano --set "V=37,T=13,P=17,L=3,C=18,H=3" --quiet)
await_step() { # PID: it has said how it can end
    while kill -0 "$1" 2>/dev/null && ! grep -q 'no checkpoint before the last step' "$work/err"; do sleep 0.05; done
}
while read -r name steps words; do
    read -ra mode <<<"$words"
    options=("${model[@]}" "${mode[@]}")
    "$SLUICE" train "${options[@]}" --steps "$steps" --out "$work/$name-threads" 2>"$work/err" || fail "$name: threads"
    grep -q 'a signal ends the run without one: worker .* before other stages have made step n' "$work/err" || fail "$name: not announced"
    "$SLUICE" launch -n 2 -- train "${options[@]}" --steps "$steps" --out "$work/$name-ranks" 2>"$work/err" || fail "$name: ranks"
    "$SLUICE" compare "$work/$name-threads" "$work/$name-ranks" >"$work/out" || fail "$name: $(cat "$work/out")"
    for observe in eval checkpoint; do
        if "$SLUICE" train "${options[@]}" --steps "$steps" --$observe-every 3 --out "$work/refused" 2>"$work/err"; then fail "$name: $observe"; fi
        grep -q "^sluice: --$observe-every: worker .* cannot pause" "$work/err" || fail "$name: $observe"
        [ ! -e "$work/refused/ckpt/latest" ] || fail "$name: $observe: it has begun"
    done
    "$SLUICE" train "${options[@]}" --steps 3 --eval-every 3 --eval-samples 4 2>"$work/err" || fail "$name: an evaluation at the end"
    for way in "" "launch -n 2 --"; do
        : >"$work/err"
        # shellcheck disable=SC2086 # way is words
        "$SLUICE" $way train "${options[@]}" --steps 1000000 2>"$work/err" &
        pid=$!
        await_step "$pid"
        kill -TERM "$pid"
        code=0
        wait "$pid" || code=$?
        pid=
        [ "$code" = 1 ] || fail "$name: $way: status $code"
        grep -q 'a signal ended the run after its last checkpoint: worker' "$work/err" || fail "$name: $way: the message"
    done
done <<'MODES'
async 150 --schedule async --stages 4 --workers 2 --batch 4 --set tied=0
stash 150 --schedule stash --stages 4 --replicas 2 --micro 3 --batch 3 --clip-scope global
MODES

for i in 0 1 2 3 4 5; do
    "$SLUICE" launch -n 2 -- train "${model[@]}" --stages 2 --batch 4 --steps 10000000 --out "$work/early$i" 2>"$work/err" &
    pid=$!
    while kill -0 "$pid" 2>/dev/null && ! pgrep -P "$pid" >/dev/null; do :; done
    [ $((i % 2)) = 0 ] || while kill -0 "$pid" 2>/dev/null && [ ! -e "$work/early$i" ]; do :; done
    code=0
    kill -TERM "$pid"
    wait "$pid" || code=$?
    pid=
    [ "$code" = 0 ] || fail "an early signal: status $code"
done
echo "count: 2 modes without a cut on threads and ranks; 6 early signals"
