#!/usr/bin/env bash
# sluice study: a small matrix with tuning. Finished runs are reused, changed ones run; a killed study
# continues to the same table; refusals state the reason.
set -euo pipefail
fail() { echo "FAILED: $*" && exit 1; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"
cat >x.study <<'END'
sluice-study 1
study delays "what a delay costs"
train "--data synthetic --eval-samples 8 --models {models}"
seeds 1 2 more 3
tune seed 9 10 part 0.5 drop 0.0001
mode "1f1b" "--schedule 1f1b" more
mode "2bw" "--schedule 2bw" against "1f1b" more
mode "vanilla" "--schedule async --verdict stage --clip 0" against "1f1b" split
task gpt "gpt-nano --set T=8,C=16,H=2,L=2" stages 2 steps 6 batch 4 micro 2 evals 3 rates 0.001 0.01
task mlp "mlp" stages 2 steps 4 batch 4 micro 2 evals 2 rates 0.01 modes "1f1b" "2bw"
claim gpt "2bw" within 1000 "anybody: it learns"
note "a small one"
END
study() { "$SLUICE" study x.study --set "models=$SRC_DIR/models" --jobs 2 "$@"; }

study --dry-run >runs
[ "$(wc -l <runs)" = $((12 + 2 * (3 + 2) + 2 + 2)) ] || fail "--dry-run: number of runs"
grep -q -- '--schedule async .*--batch 2 --micro 1 --steps 12 ' runs || fail "a split mode"

# killed: the same command continues
study >/dev/null 2>&1 & pid=$!
until [ -n "$(find x/cells -name log.jsonl 2>/dev/null)" ] || ! kill -0 $pid 2>/dev/null; do sleep 0.05; done
kill -KILL $pid 2>/dev/null || true # or it has ended already
wait $pid 2>/dev/null || true
study >table 2>notes || fail "$(cat notes)"
[ "$(grep -c '^| ' table)" = 16 ] || fail "rows: $(cat table)"
grep -q '^| vanilla | .* | 2 | ' table || fail "two seeds of vanilla: $(cat table)"
grep -q '^| 2bw | .* | 3 | ' table || fail "three seeds of 2bw: $(cat table)"
grep -q '^| anybody: it learns | reproduces |' table || fail "the claim: $(cat table)"
grep -q '^| 2bw | .*\*\*.* | [-+]' table || fail "the tuning: $(cat table)"
# one of two rates gets the second seed: 6 + 3 tuning runs
[ "$(grep -c '^| .*[0-9] (1) |.*\*\*\|^| .*\*\*.*[0-9] (1) |' table)" = 3 ] || fail "the race: $(cat table)"
grep -q '^| gpt | 17 | 17 | [0-9.]* | [0-9]* |$' table || fail "what it took: $(cat table)"
cmp -s table x/study.md || fail "study.md is not the table"
[ "$(grep -c '<g class="curve' x/study.html)" = 5 ] || fail "curves"
[ "$(find x/cells -name log.jsonl | wc -l)" = 23 ] || fail "cells"
[ -z "$(find x/cells -name ckpt)" ] || fail "checkpoints stayed"

# second call: only runs without a last evaluation run; one log is truncated here
find x/cells -name log.jsonl -printf '%p %T@\n' | sort >before
log=$(find x/cells -path '*gpt.2bw.seed1.*' -name log.jsonl)
head -c 300 "$log" >short && mv short "$log"
study >again 2>>notes
cost() { sed '/^## What it took/,$d' "$1"; } # what a run takes is never the same
cmp -s <(cost table) <(cost again) || fail "another table: $(diff table again)"
find x/cells -name log.jsonl -printf '%p %T@\n' | sort >after
[ "$(diff before after | grep -c '^>')" = 1 ] || fail "finished runs were run again"
# a cell equals a run of its command
eval "\"\$SLUICE\" $(head -1 runs | cut -d' ' -f2-) --quiet --out own"
losses() { grep -o '"eval_loss": [0-9.]*' "$1"/log.jsonl; }
losses own >a
losses "$(find x/cells -maxdepth 1 -type d -name 'gpt.1f1b.seed9.tune.*' -exec grep -l '"lr": 0.001,' {}/log.jsonl \; |
    head -1 | xargs dirname)" >b
cmp -s a b || fail "a cell has other losses than its command: $(paste a b)"

# measured step times, if every worker has a core
if [ "$(nproc)" -ge 2 ]; then
    study --time 4 >timed 2>>notes
    grep -q '^| vanilla | .*x | [0-9.]* | [0-9.]*x |$' timed || fail "measured times: $(cat timed)"
fi
sed 's/stages 2/stages 4096/' x.study >wide.study
status=0
"$SLUICE" study wide.study --set "models=$SRC_DIR/models" --time 4 >/dev/null 2>why || status=$?
{ [ $status = 2 ] && grep -q '4096 workers, and there are' why; } || fail "too few cores: $status $(cat why)"

# With --clip-scope stage, holders of a tied parameter wait for each other: the simulated step is longer.
for tied in "" tied; do
    cat >tie$tied.study <<END
sluice-study 1
study ties "what a tie costs"
train "--data synthetic --eval-samples 8 --models {models}"
seeds 1
target 900
mode "1f1b" "--schedule 1f1b"
mode "alone" "--schedule stash --verdict stage --clip 0" against "1f1b"
task gpt "gpt-nano --set T=8,C=16,H=2,L=2" stages 4 $tied steps 4 batch 4 micro 4 evals 2 rates 0.001
END
    "$SLUICE" study tie$tied.study --set "models=$SRC_DIR/models" --out ties --json 2>>notes |
        sed -n 's/.*"sooner_simulated": \([0-9.]*\).*/\1/p' | tail -1 >sooner$tied
done
awk 'NR == 1 { free = $1 } NR == 2 { exit !($1 >= 1 && $1 < 0.9 * free) }' sooner soonertied ||
    fail "a tie costs nothing: $(cat sooner soonertied)"

study --json --tasks gpt --seeds 1 >rows.json 2>>notes
grep -q '"last_interval": null' rows.json || fail "one seed has no interval"
sed -i 's/--schedule 2bw/--schedule 2bw --policy spectrain/' x.study
if study >/dev/null 2>why; then fail "an unsound mode was accepted"; fi
grep -q "spectrain.*does not go with" why || fail "the reason is not told: $(cat why)"
status=0
"$SLUICE" study x.study >/dev/null 2>why || status=$?
{ [ $status = 3 ] && grep -q '{models} is not known' why; } || fail "unknown let: $status $(cat why)"
