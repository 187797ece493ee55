#!/usr/bin/env bash
# sluice train --dashboard on a terminal: the last frame remains, with curve, numbers and one lane per
# worker; a file gets plain lines. The weights equal those of a run without it.
set -euo pipefail
fail() { echo "FAILED: $*" && cat "$work/screen" && exit 1; }
command -v python3 >/dev/null || { echo "SKIPPED: no python3" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
: >"$work/screen"
args=(train gpt-nano --stages 3 --steps 10 --batch 6 --micro 3 --eval-every 5 --eval-samples 4)
on_terminal() { # NAME COMMAND...: the screen in $work/screen
    TERM=xterm-256color LC_ALL=C.UTF-8 python3 "$SRC_DIR/tests/e2e/dashboard.py" 100 30 "${@:2}" >"$work/screen" ||
        fail "$1: exit $?"
}
"$SLUICE" "${args[@]}" --out "$work/plain" --quiet
on_terminal colours "$SLUICE" "${args[@]}" --dashboard --out "$work/live"
"$SLUICE" compare "$work/plain" "$work/live" >"$work/said" || fail "the dashboard changes the weights: $(cat "$work/said")"
grep -q '^gpt-nano, 1f1b on 3 workers  .*step 10/10  100 %' "$work/screen" || fail "no head"
grep -q '^loss [0-9.]*  validation [0-9.]*  .* tokens/s  bubble [0-9.]* %  memory ' "$work/screen" || fail "no numbers"
[ "$(grep -c '^[0-2] |' "$work/screen")" = 3 ] || fail "not three lanes"
[ "$(grep -c '^gpt-nano, 1f1b' "$work/screen")" = 1 ] || fail "frames are left over"
grep -q -e '⠒⠒' -e '⠤⠤' -e '⠉⠉' -e '⣀⣀' -e '⠑⢄' "$work/screen" || fail "no curve"
grep -q '^step 5  validation loss' "$work/screen" || fail "the note is gone"
grep -q '^finished at step 10 of 10' "$work/screen" || fail "no end"

# One worker; no colours; a dumb terminal.
on_terminal one env NO_COLOR=1 "$SLUICE" train mlp --steps 4 --batch 4 --dashboard
grep -q '^mlp, one worker' "$work/screen" || fail "one worker"
TERM=dumb python3 "$SRC_DIR/tests/e2e/dashboard.py" 200 24 "$SLUICE" train mlp --steps 4 --batch 4 --dashboard >"$work/screen"
grep -q '^step 4/4  loss' "$work/screen" || fail "plain lines on a dumb terminal"
grep -q '^mlp, one worker' "$work/screen" && fail "a dashboard on a dumb terminal"
"$SLUICE" "${args[@]}" --dashboard >"$work/screen" 2>&1
grep -q '^step 10/10  loss' "$work/screen" || fail "plain lines in a file"
grep -q $'\033' "$work/screen" && fail "escapes in a file"
# Progress that is wider than the terminal stays on its line.
python3 "$SRC_DIR/tests/e2e/dashboard.py" 40 24 sh -c "'$SLUICE' plan gpt-nano --machine 1x4:mem=2G --batch 16 --micro 4 \
    --time-limit 1 -o '$work/x.plan' >'$work/plan.txt'" >"$work/screen" || fail "a plan on a narrow terminal"
echo "count: 5 terminals"
