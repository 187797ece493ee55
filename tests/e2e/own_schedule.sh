#!/usr/bin/env bash
# --schedule X.sched and X.csv: train, check, sim, report and sched use a schedule from a file; a run keeps it
# (schedule.sched), so that --resume, eval and report need no other file.
set -euo pipefail
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
cd "$work"
model=(gpt-nano --set "V=37,T=13,P=17,L=2,C=18,H=3,drop=0.1")
refuse() { # STATUS PATTERN ARGUMENTS...
    local rc=0
    "$SLUICE" "${@:3}" >/dev/null 2>"$work/err" || rc=$?
    [ $rc -eq "$1" ] || fail "${*:3}: exit $rc, not $1"
    grep -q -e "$2" "$work/err" || fail "${*:3}: the message is not '$2'"
}
has() { grep -q -e "$1" "$work/out" || fail "no '$1' in: $(cat "$work/out")"; }

# A file by hand: last in, first out on two stages, and a W that waits.
cat >lifo.csv <<'CSV'
0F0,0F1,0F2,0F3,0B3,0B2,0B1,0B0
1F0,1F1,1F2,1F3,1I3,1B2,1B1,1W3,1B0
CSV
"$SLUICE" sched --chain 4 --ranks 2 --schedule interleaved --micro 4 -o loop.csv --quiet >/dev/null
"$SLUICE" sched --chain 3 --schedule zb-h1 --micro 6 -o zb.sched --quiet >/dev/null
"$SLUICE" sched --chain 3 --schedule zb-h1 --micro 6 --passes -o passes.sched --quiet >/dev/null
"$SLUICE" sched --chain 3 --schedule 1f1b --micro 6 --comms -o comms.csv --quiet >/dev/null
for file in lifo.csv loop.csv zb.sched passes.sched comms.csv; do
    "$SLUICE" check "${model[@]}" --schedule $file --steps 3 >out 2>err || fail "check $file"
    has "are those of one worker, bit for bit"
    "$SLUICE" sim --schedule $file >out 2>err || fail "sim $file"
    has "critical path"
    "$SLUICE" report --schedule $file -o $file.svg 2>err || fail "report $file"
done

# torch takes losses in the order of forwards: another order is no file for its runtime.
printf '0F0,0F1,0F2,0B0,0B1,0B2\n1F0,1F2,1B2,1F1,1B1,1B0\n' >late.csv
"$SLUICE" sched --schedule late.csv -o again.csv >out 2>err || fail "sched late.csv"
grep -q "the last stage runs micro-batch 1 after 2: torch" err || fail "no warning: $(cat err)"
"$SLUICE" sched --schedule lifo.csv -o again.csv >out 2>err || fail "sched lifo.csv"
! grep -q torch err || fail "a warning: $(cat err)"

# Every schedule of torch (tests/fixtures/make_torch_csv.py), in both dialects.
torch=0
for file in "$SRC_DIR"/tests/fixtures/torch_csv/*_p[23]_*.csv; do
    "$SLUICE" verify "$file" >out 2>err || fail "verify $file"
    "$SLUICE" check gpt-nano --set "V=11,T=5,P=7,L=9,C=6,H=2" --schedule "$file" --steps 2 >out 2>err || fail "check $file"
    has "are those of one worker, bit for bit"
    torch=$((torch + 1))
done

# The micro-batches are those of the file; other numbers are refused.
refuse 1 "has 6 micro-batches in stage 0 (s0); 12 samples in micro-batches of 4 make 3. Set --micro to 6" \
    train "${model[@]}" --schedule zb.sched --batch 12 --micro 3 --steps 1
refuse 2 "schedule 'zb-h1' has 3 stages, found 4" train "${model[@]}" --schedule zb.sched --stages 4 --steps 1
refuse 2 "schedule 'zb-h1' has 3 workers, found 2" train "${model[@]}" --schedule zb.sched --workers 2 --steps 1
refuse 3 "missing.sched" train "${model[@]}" --schedule missing.sched --steps 1
"$SLUICE" train "${model[@]}" --stages 4 --micro 6 --batch 6 --steps 1 --out plan 2>err
refuse 1 "is for 3 stages on 3 workers, the plan has 4 on 4" \
    train "${model[@]}" --schedule zb.sched --plan plan/plan.plan --steps 1

# A rank without passes does not take part; a plan has none.
printf '\n1F0,1F1,1B0,1B1\n\n0F0,0F1,0B0,0B1\n' >idle.csv
"$SLUICE" check "${model[@]}" --schedule idle.csv --steps 2 >out 2>err || fail "check idle.csv: $(cat err)"
has "2 stages on 2 workers.* bit for bit"
"$SLUICE" plan "${model[@]}" --machine 1x2:mem=4G,intra=10GB/s --batch 4 --schedule idle.csv -o idle.plan >out 2>err || fail "plan idle.csv"
sed 's/^workers 2/workers 3/' idle.plan | sed '/^schedule/d' >three.plan
refuse 1 "worker 2 of the plan has no stage" check "${model[@]}" --plan three.plan --schedule gpipe --steps 1

# A file for stages that the model does not have: the order of the passes cannot work.
printf '%s\n' 'sluice-sched 1' 'workers 2' 'stage a width 1 micro 1 on 0' 'stage b width 1 micro 1 on 1' \
    'program "apart" rule sync passes' 'samples 2 last 2 iters 1 reps 1' 'worker 0' period 'F a 0' 'B a 0' 'F a 1' 'B a 1' \
    'worker 1' period 'F b 1' 'B b 1' 'F b 0' 'B b 0' >apart.sched
"$SLUICE" verify apart.sched >out 2>err || fail "verify apart.sched"
refuse 1 "the model sends from stage s0 to s1, schedule 'apart' has no such edge: deadlock" \
    check "${model[@]}" --schedule apart.sched --steps 1

# A micro-batch size per stage: 3 and 4 of 8 samples. The sizes grow with the batch; a run keeps its schedule.
printf '%s\n' 'sluice-sched 1' 'workers 2' 'stage a width 1 micro 3 on 0' 'stage b width 1 micro 4 on 1' 'edge a b 4' \
    'program "sizes" rule sync passes' 'samples 8 last 8 iters 1 reps 1' 'worker 0' period 'F a 0' 'F a 1' 'F a 2' 'B a 0' \
    'B a 1' 'B a 2' 'worker 1' period 'F b 0' 'B b 0' 'F b 1' 'B b 1' >sizes.sched
"$SLUICE" check "${model[@]}" --schedule sizes.sched --batch 16 --steps 3 >out 2>err || fail "check sizes.sched"
has "bit for bit"
"$SLUICE" train "${model[@]}" --schedule sizes.sched --batch 16 --steps 4 --out sizes 2>err || fail "train sizes.sched"
"$SLUICE" train "${model[@]}" --schedule sizes.sched --batch 16 --steps 2 --out sized 2>err || fail "train sizes.sched"
"$SLUICE" train --resume --out sized --steps 4 2>err || fail "--resume with sizes: $(cat err)"
"$SLUICE" compare sizes sized >out 2>err || fail "a resumed run with sizes differs: $(cat out)"
"$SLUICE" verify sizes/schedule.sched >out 2>err || fail "the schedule of the run: $(cat err)"
refuse 2 "has several micro-batch sizes for 8 samples, and 12 is no multiple" \
    train "${model[@]}" --schedule sizes.sched --batch 12 --steps 1
refuse 2 "has up to 3 micro-batches, not 2" train "${model[@]}" --schedule sizes.sched --batch 8 --micro 2 --steps 1

# `plan` cuts the model for the file; the plan names it.
"$SLUICE" plan "${model[@]}" --machine 1x4:mem=4G,intra=10GB/s --batch 12 --schedule zb.sched -o cut.plan >out 2>err || fail "plan"
has "the best of [0-9]* cuts"
grep -q '^schedule "zb.sched"' cut.plan || fail "the plan does not name the file"
"$SLUICE" check "${model[@]}" --plan cut.plan --steps 3 >out 2>err || fail "check of the plan"
has "are those of one worker, bit for bit"
refuse 1 "has 3 workers, the machine 2 devices" plan "${model[@]}" --machine 1x2:mem=4G --schedule zb.sched
refuse 1 "no cut for schedule 'zb-h1' fits: worker" plan "${model[@]}" --machine 1x4:mem=100K --schedule zb.sched
refuse 2 "has 6 micro-batches, and 15 is no multiple" plan "${model[@]}" --machine 1x4:mem=4G --schedule zb.sched --batch 15

# With a micro-batch size per stage too; the sizes grow with the batch.
"$SLUICE" plan "${model[@]}" --machine 1x4:mem=4G,intra=10GB/s --batch 16 --schedule sizes.sched -o sizes.plan >out 2>err ||
    fail "plan of sizes: $(cat err)"
[ "$(grep '^stage' sizes.plan | cut -d ' ' -f 6 | paste -sd ' ')" = "6 8" ] || fail "sizes: $(grep '^stage' sizes.plan)"
"$SLUICE" check "${model[@]}" --plan sizes.plan --steps 2 >out 2>err || fail "check of the plan with sizes: $(cat err)"
has "bit for bit"
refuse 2 "has several micro-batch sizes for 8 samples, and 12 is no multiple" \
    plan "${model[@]}" --machine 1x4:mem=4G --schedule sizes.sched --batch 12
refuse 2 "has up to 3 micro-batches, found 2" plan "${model[@]}" --machine 1x4:mem=4G --schedule sizes.sched --micro 2

# A run holds its schedule: the file may be gone. An evaluation splits it into two pieces.
steps=(--steps 8 --eval-every 5 --seed 3)
cp zb.sched gone.sched
"$SLUICE" train "${model[@]}" --schedule gone.sched "${steps[@]}" --out whole 2>err
"$SLUICE" train "${model[@]}" --schedule gone.sched "${steps[@]/8/4}" --out part 2>err
rm gone.sched
grep -q '"schedule": "schedule.sched"' part/config.json || fail "config.json names the file"
"$SLUICE" train --resume --out part --steps 8 2>err || fail "--resume"
"$SLUICE" compare whole part >out 2>err || fail "a resumed run differs: $(cat out)"
"$SLUICE" eval part >out 2>err || fail "eval"
"$SLUICE" report part -o part.html 2>err || fail "report of the run"
"$SLUICE" train "${model[@]}" --batch 12 --micro 6 "${steps[@]}" --out one 2>err
"$SLUICE" compare one whole >out 2>err || fail "not the bits of one worker: $(cat out)"
# Another synchronous schedule keeps the bits, and replaces the copy.
"$SLUICE" train --resume --out part --steps 9 --schedule passes.sched 2>err || fail "another file"
"$SLUICE" train --resume --out part --steps 10 --schedule 1f1b 2>err || fail "a name"
[ ! -e part/schedule.sched ] || fail "an old schedule.sched is left"

# An asynchronous file states its rule and its period.
"$SLUICE" sched --chain 3 --schedule stash --micro 2 --iters 12 --passes -o async.sched --quiet >/dev/null
grep -q "rule stash" async.sched || fail "no rule in async.sched"
"$SLUICE" train "${model[@]}" --schedule async.sched --steps 9 --batch 4 --out async 2>err
"$SLUICE" train "${model[@]}" --stages 3 --schedule stash --micro 2 --steps 9 --batch 4 --out stash 2>err
"$SLUICE" compare stash async >out 2>err || fail "the file differs from the row: $(cat out)"
refuse 1 "had drained its pipeline" train --resume --out async --steps 12
"$SLUICE" train --resume --out async --steps 12 --allow-change 2>err || fail "resume of an asynchronous file"
refuse 1 "schedule was .* would not\|would not continue" train --resume --out async --steps 13 --schedule 1f1b
for scope in stage global; do
    "$SLUICE" check "${model[@]}" --schedule async.sched --batch 4 --steps 5 --clip-scope $scope >out 2>err || fail "check async.sched"
    has "are those of one process that keeps all weight versions, bit for bit"
done

# Files whose first repetitions read other versions than the later ones; a file without a period, for each
# number of steps up to its own; a global step that the file states; one worker that holds a tied parameter twice.
asynchronous() { # RULE ITERS REPS WORKER_OF_B
    printf '%s\n' 'sluice-sched 1' "workers $(($4 + 1))" 'stage a width 1 micro 1 on 0' "stage b width 1 micro 1 on $4" \
        'edge a b 4' "program \"own\" rule $1 passes" "samples 1 last 1 iters $2 reps $3"
}
{
    asynchronous stash 2 1 1
    printf '%s\n' 'worker 0' prologue 'F a 0' period 'F a 1' 'B a 0' epilogue 'B a 0' 'worker 1' period 'F b 0' 'B b 0' \
        epilogue 'F b 0' 'B b 0'
} >pipedream.sched
{
    asynchronous stash 2 0 1
    printf '%s\n' 'worker 0' prologue 'F a 0' 'F a 1' 'B a 0' 'B a 1' 'worker 1' prologue 'F b 0' 'B b 0' 'F b 1' 'B b 1'
} >two.sched
sed 's/rule stash/rule stash together/' pipedream.sched >together.sched
{
    asynchronous twobw 1 1 0
    printf '%s\n' 'worker 0' period 'F a 0' 'F b 0' 'B b 0' 'B a 0'
} >tied.sched
"$SLUICE" verify pipedream.sched >out 2>err || fail "verify pipedream.sched: $(cat err)"
for run in "pipedream.sched 1" "pipedream.sched 7" "two.sched 1" "two.sched 2"; do
    for scope in stage global; do
        "$SLUICE" check "${model[@]}" --schedule "${run% *}" --batch 1 --steps "${run#* }" --clip-scope $scope >out 2>err ||
            fail "check $run: $(cat err)"
    done
done
"$SLUICE" train "${model[@]}" --schedule two.sched --batch 1 --steps 2 --out two 2>err || fail "train two.sched: $(cat err)"
"$SLUICE" train "${model[@]}" --schedule together.sched --batch 1 --steps 2 --out together 2>err || fail "train: $(cat err)"
grep -q '"clip_scope": "global"' together/config.json || fail "the global step of the file is lost"
refuse 1 "stages s0 and s1 share parameter wte.weight and worker 0" \
    train "${model[@]}" --schedule tied.sched --batch 1 --steps 2
"$SLUICE" check "${model[@]}" --schedule tied.sched --batch 1 --steps 2 --clip-scope stage >out 2>err || fail "tied: $(cat err)"

# Files with a mark of UTF-8 and names in capitals; a plan names its file, and every command reads it.
printf '\xef\xbb\xbf0F0,0F1,0B0,0B1\n1F0,1B0,1F1,1B1\n' >marked.CSV
"$SLUICE" plan "${model[@]}" --machine 1x2:mem=4G,intra=10GB/s --batch 4 --schedule marked.CSV -o marked.plan >out 2>err ||
    fail "plan marked.CSV: $(cat err)"
for command in "verify marked.plan" "sim marked.plan" "sched marked.plan" "report marked.plan -o marked.html" \
    "check --plan marked.plan --steps 1"; do
    # shellcheck disable=SC2086
    "$SLUICE" $command >out 2>err || fail "$command: $(cat err)"
done
# A file given without --schedule states its schedule; --against plays another one for its plan.
refuse 2 "marked.CSV states its own schedule; leave out --iters" sim marked.CSV --iters 3
refuse 2 "marked.CSV states its own schedule; leave out --micro" report marked.CSV --micro 3 -o x.html
"$SLUICE" report marked.CSV --against gpipe -o against.html || fail "--against"
grep -q '<title>marked.CSV and gpipe' against.html || fail "--against: $(grep -o '<title>[^<]*' against.html)"
# Passes have no versions; without times they take those of a CSV.
sed 's/F a 0/F a 0 v 5/' pipedream.sched >versions.sched
refuse 3 "'v' does not belong to F in a file of passes" verify versions.sched
"$SLUICE" sim pipedream.sched >out 2>err || fail "sim pipedream.sched"
! has_none=$(grep 'passes 0 ns' out) || fail "passes without time: $has_none"
"$SLUICE" help check >out || fail "help check"
has "sluice check"
# Two traced runs on one page; what was measured is not built.
for run in first second; do
    "$SLUICE" train "${model[@]}" --stages 2 --batch 4 --micro 2 --steps 3 --trace --out $run --quiet 2>err || fail "$(cat err)"
done
"$SLUICE" report first second -o runs.html || fail "report of two runs"
refuse 2 "first was measured; leave out --schedule" report first --schedule 1f1b -o x.html
refuse 3 "two has no timeline to compare: train it with --trace" report two first -o x.html
echo "count: $((5 + torch)) files have the bits of one worker"
