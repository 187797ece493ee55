#!/usr/bin/env bash
# sluice sched and sluice verify: files, exit codes, garbage, truncated files.
set -euo pipefail
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

expect() { # STATUS WORDS COMMAND...
    local want=$1 words=$2 got=0
    shift 2
    "$@" >"$dir/out" 2>"$dir/err" || got=$?
    if [ "$got" != "$want" ] || ! grep -qF -- "$words" "$dir/out" "$dir/err"; then
        echo "expected exit $want and '$words', got $got from: $*" >&2
        cat "$dir/out" "$dir/err" >&2
        exit 1
    fi
}

for schedule in 1f1b 2bw async gpipe graph kfkb paci stash vsync zb-graph zb-h1 zb-h2; do
    expect 0 verified "$SLUICE" sched --dag 'a>b>d,a>c>d,a>d' --schedule "$schedule" --micro 3 \
        --iters 20 -o "$dir/$schedule.sched"
    expect 0 verified "$SLUICE" verify "$dir/$schedule.sched"
    expect 0 verified "$SLUICE" sched --dag 'a>b>d,a>c>d,a>d' --schedule "$schedule" --micro 3 \
        --iters 20 --passes -o "$dir/passes.sched"
    expect 0 '"verified": true' "$SLUICE" verify "$dir/passes.sched" --json
done
for schedule in chimera dualpipe-v interleaved zb-v; do
    expect 0 verified "$SLUICE" sched --chain 8 --schedule "$schedule" --micro 16 -o "$dir/x.sched"
    expect 0 verified "$SLUICE" verify "$dir/x.sched"
done

# Many actions: the verifier forgets what it has played.
expect 0 verified "$SLUICE" sched --chain 24 --schedule gpipe --micro 4000 -o "$dir/large.sched" --quiet
expect 0 verified "$SLUICE" verify "$dir/large.sched"
sed -i 's/^B s20 3999 /B s20 3998 /' "$dir/large.sched"
expect 1 'worker 20' "$SLUICE" verify "$dir/large.sched"

expect 1 'm >= 2p' "$SLUICE" sched --chain 8 --schedule dualpipe-v --micro 4
expect 1 'even number of stages' "$SLUICE" sched --chain 3 --schedule chimera --micro 4
expect 1 'too much' "$SLUICE" verify "$dir/2bw.sched" --memory 10
expect 2 "did you mean '1f1b'" "$SLUICE" sched --chain 3 --schedule 1f1c --micro 4
expect 2 'is missing' "$SLUICE" sched --chain 3 --schedule 1f1b
expect 3 'cannot feed itself' "$SLUICE" sched --dag 'a>a' --schedule 1f1b --micro 2
expect 3 'cycle' "$SLUICE" sched --dag 'a>b>a' --schedule 1f1b --micro 2

# sabotage: swap a backward of worker 1 and the send of its gradient
awk '/^worker 1$/ {on=1} on && /^B / && !held {held=$0; next} {print} held && !done && /^SEND/ {print held; done=1}' \
    "$dir/1f1b.sched" >"$dir/sabotage.sched"
expect 1 'worker 1' "$SLUICE" verify "$dir/sabotage.sched"

# A worker adds its part of a tied sum only after a pass whose input comes after the decision that needs the sum.
"$SLUICE" sched "$SRC_DIR/tests/zoo/tied.plan" --schedule stash --global-step --micro 2 --iters 6 -o "$dir/parts.sched" --quiet >"$dir/out"
awk '/^REDUCE b v 1 / {held = held $0 "\n"; next} {print} /^F b 3 / && held {printf "%s", held; held = ""}' \
    "$dir/parts.sched" >"$dir/late.sched"
[ "$(wc -l <"$dir/parts.sched")" = "$(wc -l <"$dir/late.sched")" ] || { echo "the edit lost lines" >&2 && exit 1; }
expect 0 verified "$SLUICE" verify "$dir/parts.sched"
expect 1 'deadlock: cycle of waits' "$SLUICE" verify "$dir/late.sched"

# vsync counts micro-batches of all stages alike.
cat >"$dir/vsync.sched" <<'TEXT'
sluice-sched 1
workers 2
stage a width 1 micro 1 on 0
stage b width 1 micro 2 on 1
edge a b 4
program "mine" rule vsync passes
samples 2 last 2 iters 2 reps 1
worker 0
prologue
F a 0
F a 1
period
F a 2
F a 3
B a 0
B a 1
B a 2
B a 3
worker 1
prologue
F b 0
period
B b 0
F b 1
B b 1
TEXT
expect 1 'rule vsync needs one micro-batch size' "$SLUICE" verify "$dir/vsync.sched"

# -o - prints only the schedule; lowering a file of passes obeys --memory
"$SLUICE" sched --chain 4 --schedule 1f1b --micro 6 --passes -o - >"$dir/passes.sched"
"$SLUICE" verify "$dir/passes.sched" --memory 12B >/dev/null
"$SLUICE" verify "$dir/passes.sched" --memory 11B >/dev/null
expect 1 'needs 11 B and has 10 B' "$SLUICE" verify "$dir/passes.sched" --memory 10B

size=$(wc -c <"$dir/2bw.sched")
for part in 1 10 100 500 $((size / 2)) $((size - 30)); do
    head -c "$part" "$dir/2bw.sched" >"$dir/short.sched"
    status=0
    "$SLUICE" verify "$dir/short.sched" >"$dir/out" 2>"$dir/err" || status=$?
    [ "$status" = 1 ] || [ "$status" = 3 ] || { echo "truncated at $part: exit $status" >&2; exit 1; }
done
head -c 100000 /dev/urandom >"$dir/garbage.sched"
expect 3 'garbage.sched:' "$SLUICE" verify "$dir/garbage.sched"
expect 3 'cannot open' "$SLUICE" verify "$dir/nothing.sched"
echo "sched: ok"
