#!/usr/bin/env bash
# Training over MPI against threads: checkpoints are byte-identical for synchronous and asynchronous
# schedules, on as many ranks as workers and on fewer; checkpoints move between ranks, threads and one
# worker; and the ways in which a job ends: an error or a signal on one rank, ranks that differ.
set -euo pipefail
# shellcheck source=tests/support/mpi.sh
. "$SRC_DIR/tests/support/mpi.sh"
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    [ ! -f "$work/err" ] || tail -n 20 "$work/err"
    exit 1
}
gpt=(gpt-nano --set "V=37,T=13,P=17,L=4,C=18,H=3,drop=0.1" --batch 8 --micro 4 --quiet)
mmt=(mmt --set "L=1,C=12,H=2,T=5,F=20,classes=7" --batch 8 --micro 4 --quiet)
compared=0
via=()
# same NAME RANKS ARGUMENTS...: runs on threads and on ranks write the same files.
same() {
    local name=$1 ranks=$2 out=$work/$1.$compared
    shift 2
    [ -d "$work/$name" ] || "$SLUICE" train "$@" --steps 5 --checkpoint-every 5 --out "$work/$name" 2>"$work/err" || fail "$name on threads"
    run_ranks "$ranks" "$SLUICE" train "$@" "${via[@]}" --steps 5 --checkpoint-every 5 --out "$out" 2>"$work/err" || fail "$name on $ranks ranks"
    diff -r "$work/$name/ckpt" "$out/ckpt" || fail "$name: $ranks ranks wrote another checkpoint"
    # Only times differ in the log.
    diff <(sed 's/, "ms".*//' "$work/$name/log.jsonl") <(sed 's/, "ms".*//' "$out/log.jsonl") ||
        fail "$name: $ranks ranks wrote another log"
    compared=$((compared + 1))
}
same 1f1b 4 "${gpt[@]}" --stages 4
same 1f1b 2 "${gpt[@]}" --stages 4
via=(--transport mpi-p2p)
same scaled 3 "${gpt[@]}" --stages 4 --loss-scale dynamic:start=1024,every=2
via=()
same 2bw 4 "${gpt[@]}" --stages 4 --schedule 2bw --clip 0
same verdict 3 "${gpt[@]}" --stages 4 --schedule stash --log-staleness --clip 0.05 --clip-scope global --loss-scale dynamic:start=1024,every=2 --eval-every 2 --eval-samples 8
grep -q '"stage": 3, .*"rmse_stale"' "$work/verdict/log.jsonl" || fail "no staleness in the log"
same mmt 2 "${mmt[@]}" --stages 6 --cut branches --workers 3 --schedule graph
if [ "${SL_TEST_FULL:-0}" = 1 ]; then
    # Every schedule of the registry: two runs on threads and two on ranks are equal.
    for schedule in $("$SLUICE" list schedules --json | sed -n 's/.*"name": "\([^"]*\)".*/\1/p' | grep -vx 'forward\|1f1b\|2bw'); do
        workers=4
        case $schedule in interleaved | zb-v | dualpipe-v) workers=2 ;; esac
        shape=("${gpt[@]}" --stages 4 --workers "$workers" --schedule "$schedule")
        case $schedule in chimera) shape=("${gpt[@]}" --stages 4 --schedule "$schedule") ;; esac
        same "$schedule" $workers "${shape[@]}"
        same "$schedule" 2 "${shape[@]}"
        via=(--transport mpi-p2p)
        same "$schedule" $((workers - 1)) "${shape[@]}"
        via=()
    done
    for schedule in 2bw stash vsync async paci; do
        same $schedule.alone 4 "${gpt[@]}" --stages 4 --schedule $schedule --verdict stage --clip 0
    done
fi
echo "count: checkpoints of ranks against threads $compared"

# Ranks whose threads share fewer CPUs than the host has print a note, once.
crowd=(train "${gpt[@]}" --stages 2 --steps 1 --threads 2)
said='^warning: rank 0: [0-9]* threads share 1 of .*--bind-to none'
if [ "$(nproc --all)" -gt 1 ] && [ "$(nproc)" = "$(nproc --all)" ]; then
    run_ranks 2 taskset -c 0 "$SLUICE" "${crowd[@]}" 2>"$work/err" || fail "ranks on one processor"
    [ "$(grep -c "$said" "$work/err")" = 1 ] || fail "two ranks on one processor do not say so once"
    run_ranks 2 "$SLUICE" "${crowd[@]}" 2>"$work/err" || fail "ranks on all processors"
    ! grep -q '^warning: rank' "$work/err" || fail "ranks that are not bound complain"
    if "$mpirun" --version | grep -q 'Open MPI'; then
        OMPI_MCA_hwloc_base_binding_policy=core run_ranks 2 "$SLUICE" "${crowd[@]}" 2>"$work/err" || fail "ranks bound to cores"
        [ "$(grep -c "$said" "$work/err")" = 1 ] || fail "ranks that Open MPI has bound do not say so once"
    fi
fi

# A run of two ranks continues as threads with another cut, then on three ranks, with an evaluation.
whole=(train "${gpt[@]}" --eval-every 3 --eval-samples 8 --checkpoint-every 3)
"$SLUICE" "${whole[@]}" --steps 9 --out "$work/whole" 2>"$work/err" || fail "one worker"
run_ranks 2 "$SLUICE" "${whole[@]}" --stages 2 --steps 3 --out "$work/moved" 2>"$work/err" || fail "two ranks"
"$SLUICE" "${whole[@]}" --stages 4 --steps 6 --resume --out "$work/moved" 2>"$work/err" || fail "four threads"
run_ranks 3 "$SLUICE" "${whole[@]}" --stages 3 --steps 9 --resume --out "$work/moved" 2>"$work/err" || fail "three ranks"
for file in "$work/whole/ckpt/step-00000009"/*.safetensors; do
    cmp "$file" "$work/moved/ckpt/step-00000009/$(basename "$file")" || fail "a moved run differs"
done
grep -c eval_loss "$work/moved/log.jsonl" | grep -qx 3 || fail "evaluations of a moved run"

# check prints the same over ranks, and refuses with its own exit status.
run_ranks 3 "$SLUICE" check "${gpt[@]}" --stages 3 --steps 2 >"$work/out" 2>"$work/err" || fail "check"
[ "$(grep -c 'bit for bit' "$work/out")" = 1 ] || fail "check must speak once"

# ends STATUS TEXT COMMAND...: the job exits with the status and prints the text once.
ends() {
    local want=$1 text=$2 status=0
    shift 2
    "$@" >"$work/out" 2>"$work/err" || status=$?
    [ $status = "$want" ] || fail "status $status, not $want: $*"
    [ "$(grep -c -- "$text" "$work/err")" = 1 ] || fail "not once in the output: $text"
}
ends 2 "5 ranks, but the pipeline has 4 workers" run_ranks 5 "$SLUICE" check "${gpt[@]}" --stages 4 --steps 1
ends 2 "need a pipeline" run_ranks 2 "$SLUICE" train "${gpt[@]}" --steps 1
ends 1 "holds a run already" run_ranks 2 "$SLUICE" train "${gpt[@]}" --stages 2 --steps 3 --out "$work/moved"
ends 1 "differ: options" run_ranks 1 "$SLUICE" check "${gpt[@]}" --stages 2 --steps 1 : -n 1 "$SLUICE" check "${gpt[@]}" --stages 2 --steps 2
cp "$SLUICE" "$BUILD_DIR/libsluice_mpi.so" "$work"
printf 'x' >>"$work/sluice"
ends 1 "differ: program" run_ranks 1 "$SLUICE" check "${gpt[@]}" --stages 2 --steps 1 : -n 1 "$work/sluice" check "${gpt[@]}" --stages 2 --steps 1

# One rank cannot read its data: all end with its error.
ends 3 "rank 1: .*none" run_ranks 1 "$SLUICE" train "${gpt[@]}" --stages 2 --steps 2 : -n 1 "$SLUICE" train "${gpt[@]}" --data "$work/none" --stages 2 --steps 2

# A killed rank ends the others: no hang, no success.
cat >"$work/die" <<TEXT
#!/bin/sh
if [ "\${OMPI_COMM_WORLD_RANK:-\${PMI_RANK:-0}}" = 1 ]; then
    "\$@" &
    pid=\$!
    until [ -e "$work/long/log.jsonl" ]; do sleep 0.05; done
    kill -KILL \$pid
    wait \$pid
else
    exec "\$@"
fi
TEXT
chmod +x "$work/die"
SL_TEST_PATIENCE=300
status=0
run_ranks 2 "$work/die" "$SLUICE" train "${gpt[@]}" --stages 2 --steps 1000000 --out "$work/long" >"$work/out" 2>"$work/err" || status=$?
case $status in 0 | 124) fail "a killed rank: status $status" ;; esac

# SIGTERM to one rank: all finish the step, save and exit with 0.
cat >"$work/stop" <<TEXT
#!/bin/sh
if [ "\${OMPI_COMM_WORLD_RANK:-\${PMI_RANK:-0}}" = 1 ]; then
    "\$@" &
    pid=\$!
    until grep -qs '"step": 16,' "$work/stopped/log.jsonl"; do sleep 0.05; done
    kill -TERM \$pid
    wait \$pid
else
    exec "\$@"
fi
TEXT
chmod +x "$work/stop"
run_ranks 2 "$work/stop" "$SLUICE" train "${gpt[@]}" --stages 2 --steps 1000000 --out "$work/stopped" >"$work/out" 2>"$work/err" || fail "SIGTERM to one rank"
step=$(tail -n 1 "$work/stopped/log.jsonl" | sed 's/.*"step": \([0-9]*\),.*/\1/')
[ -d "$work/stopped/ckpt/step-$(printf %08d "$step")" ] || fail "no checkpoint of step $step"
