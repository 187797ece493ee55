#!/usr/bin/env bash
# Tasks of a Slurm step without MPI: the environment of srun --mpi=none is enough to train as ranks,
# with the same files as threads. Slurm is not needed: a loop sets the variables that srun sets.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
fail() {
    echo "FAILED: $*"
    tail -n 20 "$work"/err* 2>/dev/null || true
    exit 1
}
# srun N COMMAND...: exit status of the worst task. A unique job number separates tests.
srun() {
    local tasks=$1 rank status=0 pids=()
    shift
    for ((rank = 0; rank < tasks; rank++)); do
        SLURM_JOB_ID=$$ SLURM_STEP_ID=${step:-0} SLURM_PROCID=$rank SLURM_NTASKS=$tasks SLURM_STEP_NUM_TASKS=$tasks \
            SLURM_STEP_NODELIST=localhost timeout 300 "$@" >"$work/out$rank" 2>"$work/err$rank" &
        pids+=($!)
    done
    for pid in "${pids[@]}"; do
        wait "$pid" || { local s=$? && [ $s -le $status ] || status=$s; }
    done
    return $status
}
gpt=(gpt-nano --set "V=37,T=13,P=17,L=4,C=18,H=3,drop=0.1" --batch 8 --micro 4 --quiet)
"$SLUICE" train "${gpt[@]}" --stages 4 --steps 4 --out "$work/threads" 2>"$work/err" || fail "threads"
srun 3 "$SLUICE" train "${gpt[@]}" --stages 4 --steps 4 --out "$work/tasks" || fail "three tasks: status $?"
diff -r "$work/threads/ckpt" "$work/tasks/ckpt" || fail "tasks wrote another checkpoint"

# Nothing but a file that only this user can read lets a task in; it is gone when all tasks are there.
[ -z "$(find "$work/tasks" -name '.key*')" ] || fail "the key of the step is left behind"
step=5
mkdir "$work/stale" && echo an-old-secret-of-the-same-step >"$work/stale/.key-slurm-$$.5" && chmod 600 "$work/stale/.key-slurm-$$.5"
srun 2 "$SLUICE" train "${gpt[@]}" --stages 2 --steps 1 --out "$work/stale" || fail "a stale key: status $?"
step=6
status=0
srun 2 "$SLUICE" check "${gpt[@]}" --stages 2 --steps 2 || status=$?
[ $status = 1 ] || fail "no secret: status $status"
grep -q "ranks without a secret" "$work/err0" || fail "no secret: not said"
head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n' >"$work/key"
chmod 600 "$work/key"
export SLUICE_KEY_FILE=$work/key

# check prints once; a wrong number of tasks is refused once, with its own status.
step=1
srun 2 "$SLUICE" check "${gpt[@]}" --stages 2 --steps 2 || fail "check: status $?"
[ "$(cat "$work"/out* | grep -c 'bit for bit')" = 1 ] || fail "check must speak once"
step=2
status=0
srun 3 "$SLUICE" check "${gpt[@]}" --stages 2 --steps 2 || status=$?
[ $status = 2 ] || fail "three tasks for two workers: status $status"
[ "$(cat "$work"/err[0-9] | grep -c '3 ranks, but the pipeline has 2 workers')" = 1 ] || fail "not said once"

# One task, and a batch script outside of a step, run as plain processes.
SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=1 "$SLUICE" check "${gpt[@]}" --stages 2 --steps 2 >"$work/out" || fail "one task"
SLURM_PROCID=0 SLURM_NTASKS=8 "$SLUICE" check "${gpt[@]}" --stages 2 --steps 2 >"$work/out" || fail "a batch script"
