#!/usr/bin/env bash
# Colours on a terminal; none with NO_COLOR (any value), on a dumb terminal or in a file. Progress lines only
# on a terminal, and none with --quiet.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
command -v script >/dev/null || { echo "SKIPPED: no script(1)" && exit 77; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
export SLUICE_MODELS=$SRC_DIR/models
unset NO_COLOR
count=0
colour=$'\033\\[[0-9;]*m' move=$'\033\\[[0-9]*[AJK]'
on_terminal() { # TERM ARGUMENTS...: what it writes to a terminal in `out`
    TERM=$1 LC_ALL=C.UTF-8 script -qec "$SLUICE ${*:2}" /dev/null >out </dev/null || fail "${*:2}: exit $?"
    count=$((count + 1))
}
train="train mlp --set W=16 --batch 4 --steps 200"
for args in "sim --chain 2 --schedule 1f1b --micro 2" "doctor --quick" "train mlp --set W=16 --batch 4 --stages 2 --steps 20 --dashboard"; do
    on_terminal xterm-256color "$args"
    grep -q "$colour" out || fail "$args: no colours on a terminal"
    NO_COLOR=1 on_terminal xterm-256color "$args"
    ! grep -q "$colour" out || fail "$args: colours with NO_COLOR"
    on_terminal dumb "$args"
    ! grep -q "$colour" out || fail "$args: colours on a poor terminal"
    # shellcheck disable=SC2086
    "$SLUICE" $args >out 2>&1 </dev/null
    ! grep -q $'\033' out || fail "$args: escapes in a file"
done
on_terminal xterm "$train"
grep -q "$move" out || fail "no line that replaces itself"
grep -q 'step .*left ' out || fail "no time that is left"
on_terminal xterm "profile mlp --set W=16 --rounds 1 --micro-batch 1,2 -o x.cost"
grep -q 'profile: micro-batch 2 (2 of 2), 1 worker, left ' out || fail "profile shows no time that is left"
on_terminal xterm "$train --quiet"
[ ! -s out ] || fail "--quiet says: $(cat out)"
"$SLUICE" train mlp --set W=16 --batch 4 --steps 200 >out 2>&1 </dev/null
[ "$(grep -c '^step ' out)" -lt 40 ] || fail "a log of $(grep -c '^step ' out) lines"
! grep -q $'\033\|\r' out || fail "a log with escapes"
echo "count: $count terminals"
