#!/usr/bin/env bash
# Kills training with SIGKILL at random moments and in the middle of saves, and resumes it each time: the
# last checkpoint equals that of an undisturbed run bit for bit, and the log has every step once. Then SIGTERM and
# Ctrl-C, and refusals of --out and --resume. SL_SEED=N repeats the moments of a run.
set -euo pipefail
kills=2
[ "${SL_TEST_FULL:-0}" = 1 ] && kills=50
seed=${SL_SEED:-$$}
RANDOM=$seed
echo "SL_SEED=$seed"
# shellcheck source=tests/support/workplace.sh
. "$SRC_DIR/tests/support/workplace.sh"
steps=60
model=(gpt-nano --set "V=37,T=13,P=17,L=2,C=18,H=3,drop=0.1" --batch 5 --micro 2 --quiet)
train() { # RUN STEPS [OPTIONS]
    "$SLUICE" train "${model[@]}" --out "$1" --steps "$2" "${@:3}" 2>"$work/err"
}
expect() { # STATUS WHAT COMMAND...
    local rc=0
    "${@:3}" >/dev/null || rc=$?
    [ "$rc" -eq "$1" ] || fail "$2: exit $rc, not $1"
}
# Every step of 1..STEPS once and in order.
check_log() { # RUN STEPS
    sed -n 's/^{"step": \([0-9]*\), "loss".*/\1/p' "$1/log.jsonl" | diff - <(seq "$2") >/dev/null ||
        fail "$1/log.jsonl does not hold each of the $2 steps once"
    [ "$(wc -l <"$1/log.jsonl")" -eq "$2" ] || fail "$1/log.jsonl has other lines too"
}
same() { # RUN RUN
    "$SLUICE" compare "$1" "$2" >"$work/compare" || fail "$2 is not $1: $(cat "$work/compare")"
    local dir
    dir=$(cut -d ' ' -f 1 "$1/ckpt/latest")
    diff -r "$1/ckpt/$dir" "$2/ckpt/$dir" >/dev/null || fail "$2/ckpt/$dir has other bytes than $1's"
}

# Start in the background, wait, kill. True if the process died of the signal.
kill_at() { # MOMENT
    local rc=0
    "$SLUICE" train "${model[@]}" --out "$work/killed" --steps $steps --checkpoint-every 2 --resume 2>"$work/err" &
    pid=$!
    case $1 in
    save) # as soon as one is seen; skip some, so that it is not always the first
        local skip=$((RANDOM % 8)) seen=""
        while kill -0 "$pid" 2>/dev/null; do
            local now=""
            now=$(compgen -G "$work/killed/ckpt/.tmp-*" || true)
            if [ -n "$now" ] && [ "$now" != "$seen" ]; then
                seen=$now
                skip=$((skip - 1))
                [ $skip -ge 0 ] || break
            fi
        done
        ;;
    *) sleep "$1" ;;
    esac
    kill -KILL "$pid" 2>/dev/null || true
    wait "$pid" 2>/dev/null || rc=$?
    pid=
    [ $rc -eq 137 ] || [ $rc -eq 0 ] || fail "the run ended with $rc by itself"
    [ $rc -eq 137 ]
}

start=$(date +%s%N)
train "$work/whole" $steps --checkpoint-every 2
took_ms=$((($(date +%s%N) - start) / 1000000 + 1))
check_log "$work/whole" $steps

done_kills=0 in_save=0 runs=0
while [ $done_kills -lt $kills ]; do
    rm -rf "$work/killed"
    in_run=0
    while [ $done_kills -lt $kills ] && [ $in_run -lt 5 ]; do
        in_run=$((in_run + 1))
        moment=save
        if [ $((RANDOM % 2)) -eq 0 ] || [ "$kills$done_kills" = 20 ]; then
            ms=$((RANDOM % took_ms))
            moment=$((ms / 1000)).$(printf %03d $((ms % 1000)))
        fi
        kill_at "$moment" || break
        done_kills=$((done_kills + 1))
        ! compgen -G "$work/killed/ckpt/.tmp-*" >/dev/null || in_save=$((in_save + 1))
    done
    train "$work/killed" $steps --checkpoint-every 2 --resume || fail "the last resume"
    runs=$((runs + 1))
    same "$work/whole" "$work/killed"
    check_log "$work/killed" $steps
    ! compgen -G "$work/killed/ckpt/.tmp-*" >/dev/null || fail "a torn save was left behind"
done

# SIGTERM and Ctrl-C: the step is finished and saved, the status is 0, --resume continues.
polite=0
for signal in TERM INT; do
    rm -rf "$work/stopped" "$work/long"
    # A shell without job control ignores SIGINT in background jobs; env restores it.
    env --default-signal=INT "$SLUICE" train "${model[@]}" --out "$work/stopped" --steps 100000000 2>"$work/err" &
    pid=$!
    until [ -s "$work/stopped/log.jsonl" ] || ! kill -0 "$pid" 2>/dev/null; do sleep 0.01; done
    kill -$signal "$pid" 2>/dev/null || true
    rc=0
    wait "$pid" || rc=$?
    pid=
    [ $rc -eq 0 ] || fail "SIG$signal: exit $rc"
    [ -f "$work/stopped/ckpt/latest" ] || fail "SIG$signal: nothing was saved"
    polite=$((polite + 1))
    many=$(($(wc -l <"$work/stopped/log.jsonl") + 20))
    train "$work/long" $many || fail "undisturbed"
    expect 0 "--resume after SIG$signal" train "$work/stopped" $many --resume
    same "$work/long" "$work/stopped"
    check_log "$work/stopped" $many
done

# Messages of --out and --resume.
cp -r "$work/whole" "$work/before"
mkdir "$work/whole/ckpt/.tmp-old-step-00000002" # killed while its last save cleared away
: >"$work/whole/ckpt/.tmp-latest"
expect 0 "--resume of a finished run" train "$work/whole" $steps --resume
diff -r "$work/before/ckpt" "$work/whole/ckpt" >/dev/null || fail "resuming a finished run wrote a checkpoint"
check_log "$work/whole" $steps
expect 0 "--resume of a run that is not there" train "$work/none/yet" 3 --resume
check_log "$work/none/yet" 3
expect 1 "an --out that holds a run" train "$work/whole" $steps
grep -q -- --resume "$work/err" || fail "the refusal does not mention --resume"
diff -r "$work/before/ckpt" "$work/whole/ckpt" >/dev/null || fail "a refused run was touched"
expect 3 "data that is not there" train "$work/a" 3 --data "$work/nosuch.txt"
: >"$work/empty.txt"
expect 3 "an empty data file" train "$work/b" 3 --data "$work/empty.txt"
printf 'abc' >"$work/short.f32"
expect 3 "a torn data file" train "$work/c" 3 --data "$work/short.f32"
for run in a b c; do
    [ ! -e "$work/$run" ] || fail "a refused run left $run behind"
done
echo "count: $done_kills SIGKILLs, $in_save of them inside a save, $runs runs, $polite polite stops"
