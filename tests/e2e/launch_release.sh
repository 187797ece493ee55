#!/usr/bin/env bash
# sluice launch: the conformance suite and training over TCP; ranks that die or are stopped are named, the
# job exits with 5, no process remains, and --restarts ends with the bytes of an undisturbed run.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    [ ! -f "$work/err" ] || tail -n 20 "$work/err"
    exit 1
}
counts=(3)
[ "${SL_TEST_FULL:-0}" != 1 ] || counts=(1 2 3 6)
for ranks in "${counts[@]}"; do
    SL_TEST_TRANSPORT=tcp timeout 300 "$SLUICE" launch -n "$ranks" --program "$BUILD_DIR/tests/unit.comm.conformance_mt" -- tcp >"$work/log" 2>&1 || {
        cat "$work/log"
        exit 1
    }
    grep -m1 '^count:' "$work/log" | sed "s/\$/ on $ranks ranks/"
done
SL_TEST_TRANSPORT=tcp timeout 600 "$SLUICE" launch -n 3 --program "$BUILD_DIR/tests/unit.pipe.wide_async_mt" -- tcp >"$work/log" 2>&1 || {
    cat "$work/log"
    exit 1
}
grep -m1 '^count:' "$work/log"

gpt=(gpt-nano --set "V=37,T=13,P=17,L=4,C=18,H=3,drop=0.1" --batch 8 --micro 4 --quiet)
compared=0
same() { # NAME RANKS ARGUMENTS...: threads and ranks leave the same checkpoint
    "$SLUICE" train "${gpt[@]}" "${@:3}" --steps 4 --out "$work/$1" 2>"$work/err" || fail "$1 on threads"
    timeout 300 "$SLUICE" launch -n "$2" -- train "${gpt[@]}" "${@:3}" --steps 4 --out "$work/$1.tcp" 2>"$work/err" || fail "$1 on $2 ranks"
    diff -r "$work/$1/ckpt" "$work/$1.tcp/ckpt" || fail "$1: $2 ranks wrote another checkpoint"
    compared=$((compared + 1))
}
same 1f1b 4 --stages 4
same 2bw 3 --stages 4 --schedule 2bw --clip 0
same wide 3 --stages 2 --replicas 2 --schedule 2bw
same stash 2 --stages 2 --replicas 2 --schedule stash --clip-scope global
echo "count: checkpoints of TCP ranks against threads $compared"

# A wrong command line is reported once, with its own status.
status=0
timeout 300 "$SLUICE" launch -n 3 -- train "${gpt[@]}" --stages 2 2>"$work/err" || status=$?
[ $status = 2 ] || fail "3 ranks for 2 workers: status $status"
[ "$(grep -c "3 ranks, but" "$work/err")" = 1 ] || fail "not said once"

# rank_pid RANK: process id of a rank of the launcher.
rank_pid() {
    local pid
    for pid in $(pgrep -P "$job"); do
        if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qx "SLUICE_RANK=$1"; then
            echo "$pid"
            return
        fi
    done
}
# start RUN OPTIONS...: starts three ranks in the background and waits for a checkpoint.
start() {
    timeout 300 "$SLUICE" launch -n 3 "${@:2}" -- train "${gpt[@]}" --stages 3 --steps "$steps" --checkpoint-every 8 --out "$1" 2>"$work/err" &
    outer=$!
    until [ -e "$1/ckpt/latest" ]; do
        kill -0 $outer 2>/dev/null || fail "the job ended before its first checkpoint"
        sleep 0.05
    done
    job=$(pgrep -P $outer)
}
injected=0
inject() { # SIGNAL RANK: it is named, the job ends with 5, no process is left, the checkpoint loads
    local pids victim status=0
    steps=1000000
    rm -rf "$work/bad"
    start "$work/bad"
    pids=$(pgrep -P "$job")
    victim=$(rank_pid "$2")
    kill -"$1" "$victim"
    wait $outer || status=$?
    [ $status = 5 ] || fail "$1 of rank $2: status $status"
    grep -q "rank $2 (host .*, process $victim) is lost" "$work/err" || fail "$1 of rank $2 is not named"
    grep -q "it held stage .* (worker $2)" "$work/err" || fail "$1 of rank $2: what it held is not said"
    for pid in $pids; do
        ! kill -0 "$pid" 2>/dev/null || fail "$1 of rank $2: process $pid is left"
    done
    "$SLUICE" ckpt verify "$work/bad" >/dev/null 2>"$work/err" || fail "$1 of rank $2: the checkpoint does not load"
    injected=$((injected + 1))
}
inject KILL 0
inject KILL 2
inject STOP 1
echo "count: injected faults named $injected"

# Killed and restarted: equals an undisturbed run.
steps=208
"$SLUICE" train "${gpt[@]}" --stages 3 --steps $steps --out "$work/whole" 2>"$work/err" || fail "undisturbed"
timeout 300 "$SLUICE" launch -n 3 --restarts 3 -- train "${gpt[@]}" --stages 3 --steps $steps --checkpoint-every 8 \
    --drill die:1:1500 --out "$work/again" 2>"$work/err" || fail "a killed job was not restarted"
grep -q "restart 1 of 3" "$work/err" || fail "the restart is not said"
diff -r "$work/whole/ckpt/step-00000208" "$work/again/ckpt/step-00000208" || fail "a restarted run has other bytes"

# SIGTERM to the launcher: all ranks save and exit with 0; SIGUSR1: with the status for a scheduler.
steps=1000000
start "$work/stopped"
kill -TERM "$job"
wait $outer || fail "SIGTERM to the launcher"
step=$(tail -n 1 "$work/stopped/log.jsonl" | sed 's/.*"step": \([0-9]*\),.*/\1/')
[ -d "$work/stopped/ckpt/step-$(printf %08d "$step")" ] || fail "no checkpoint of step $step"
status=0
timeout 300 "$SLUICE" launch -n 2 -- train "${gpt[@]}" --stages 2 --steps $steps --checkpoint-every 8 --requeue-exit 75 --out "$work/warned" 2>"$work/err" &
outer=$!
until [ -e "$work/warned/ckpt/latest" ]; do sleep 0.05; done
kill -USR1 "$(pgrep -P $outer)"
wait $outer || status=$?
[ $status = 75 ] || fail "SIGUSR1: status $status, not 75"
"$SLUICE" ckpt verify "$work/warned" >/dev/null 2>"$work/err" || fail "SIGUSR1: no good checkpoint"
