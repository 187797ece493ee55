#!/usr/bin/env bash
# A real Slurm: munge, slurmctld and two slurmd on this host. srun trains with the files of threads; a signal
# requeues a batch job, which continues with the same bits; a job array runs studies.
set -euo pipefail
for tool in munged slurmctld slurmd srun sbatch scontrol scancel unshare; do
    command -v "$tool" >/dev/null || { echo "SKIPPED: no $tool (Debian packages slurm-wlm, munge)" && exit 77; }
done
[ "$(id -u)" = 0 ] || { echo "SKIPPED: only root can start slurmd" && exit 77; }
# The names of the nodes are in a hosts file that only this test sees.
if [ "${SL_SLURM_INSIDE:-}" != 1 ]; then
    unshare --mount true 2>/dev/null || { echo "SKIPPED: no mount namespaces here" && exit 77; }
    exec env SL_SLURM_INSIDE=1 unshare --mount "$BASH" "$0"
fi
work=$(mktemp -d)
pids=()
stop() {
    [ ${#pids[@]} -eq 0 ] || kill "${pids[@]}" 2>/dev/null || true
    wait 2>/dev/null || true
    rm -rf "$work"
}
trap stop EXIT
fail() {
    echo "FAILED: $*"
    tail -n 15 "$work"/*.log "$work"/out* 2>/dev/null || true
    exit 1
}
until_true() { # SECONDS COMMAND...: looks every 0.2 s
    local end=$((SECONDS + $1))
    shift
    until "$@" 2>/dev/null; do
        [ $SECONDS -lt $end ] || return 1
        sleep 0.2
    done
}

{ cat /etc/hosts && echo "127.0.0.1 sl-one sl-two"; } >"$work/hosts"
mount --bind "$work/hosts" /etc/hosts || { echo "SKIPPED: cannot mount a file" && exit 77; }
chmod 755 "$work"
base=$((20000 + $$ % 9000))
host=$(hostname -s)
(umask 077 && head -c 128 /dev/urandom >"$work/munge.key")
munged --foreground --force --key-file="$work/munge.key" --socket="$work/munge.socket" --pid-file="$work/munge.pid" \
    --seed-file="$work/munge.seed" --num-threads=2 >"$work/munged.log" 2>&1 &
pids+=($!)
cat >"$work/slurm.conf" <<CONF
ClusterName=test
SlurmctldHost=$host(127.0.0.1)
SlurmctldPort=$base
AuthType=auth/munge
AuthInfo=socket=$work/munge.socket,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
StateSaveLocation=$work/state
SlurmdSpoolDir=$work/spool-%n
SlurmctldPidFile=$work/slurmctld.pid
SlurmdPidFile=$work/slurmd-%n.pid
SlurmctldLogFile=$work/slurmctld.log
SlurmdLogFile=$work/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SwitchType=switch/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=batch_sched_delay=0,sched_interval=2
ReturnToService=2
NodeName=sl-one NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 1)) CPUs=2 RealMemory=100
NodeName=sl-two NodeHostname=$host NodeAddr=127.0.0.1 Port=$((base + 2)) CPUs=2 RealMemory=100
PartitionName=all Nodes=ALL Default=YES MaxTime=10 State=UP
CONF
mkdir "$work/state"
export SLURM_CONF=$work/slurm.conf
until_true 10 test -S "$work/munge.socket" || { echo "SKIPPED: munged does not start: $(tail -n 2 "$work/munged.log")" && exit 77; }
slurmctld -D -i >"$work/out-ctld" 2>&1 &
pids+=($!)
for node in sl-one sl-two; do
    slurmd -D -N "$node" >"$work/out-$node" 2>&1 &
    pids+=($!)
done
both_idle() { [ "$(sinfo -h -N -o %T | grep -c idle)" = 2 ]; }
until_true 30 both_idle || { echo "SKIPPED: Slurm does not start here: $(tail -n 2 "$work"/out-* "$work"/*.log)" && exit 77; }

cd "$work"
gpt=(gpt-nano --set "V=37,T=13,P=17,L=4,C=18,H=3,drop=0.1" --batch 8 --micro 4 --quiet)
"$SLUICE" train "${gpt[@]}" --stages 4 --steps 5 --out threads || fail "threads"
timeout 120 srun -N2 -n2 "$SLUICE" train "${gpt[@]}" --stages 4 --steps 5 --out tasks >out-srun 2>&1 || fail "srun: status $?"
diff -r threads/ckpt tasks/ckpt || fail "srun wrote another checkpoint"

# A batch job is signalled in the middle, requeued and goes on.
steps=2000
run=("${gpt[@]}" --stages 3 --schedule zb-h1 --steps "$steps")
"$SLUICE" train "${run[@]}" --out undisturbed || fail "the undisturbed run"
cat >job.sh <<JOB
#!/bin/bash
srun "$SLUICE" train $(printf '%q ' "${run[@]}") --out requeued --resume --requeue-exit 75
status=\$?
echo "exit \$status" >>exits
[ \$status != 75 ] || scontrol requeue "\$SLURM_JOB_ID"
exit \$status
JOB
job=$(sbatch --parsable -N2 -n2 --requeue --open-mode=append -o out-job -e out-job job.sh) || fail "sbatch"
trained() { [ "$(grep -c '"loss"' requeued/log.jsonl)" -ge 20 ]; }
until_true 60 trained || fail "the job does not train"
scancel --signal=USR1 "$job" || fail "scancel"
ended() { [ "$(grep -c '^exit' exits)" = "$1" ]; }
until_true 60 ended 1 || fail "the signal does not end the step"
[ "$(cat exits)" = "exit 75" ] || fail "the job was not interrupted: $(cat exits)"
grep -q '"step": '"$steps"',' requeued/log.jsonl && fail "nothing was left to do"
until_true 120 ended 2 || fail "the job was not requeued: $(scontrol show job "$job")"
[ "$(tail -n 1 exits)" = "exit 0" ] || fail "the second part failed: $(cat exits)"
"$SLUICE" compare undisturbed requeued --quiet || fail "the requeued run has other bits"

# A job array: one study per task.
for i in 1 2; do
    cat >"s$i.study" <<STUDY
sluice-study 1
study s$i "an array"
train "--data synthetic --eval-samples 8 --models $SRC_DIR/models"
seeds $i
mode "1f1b" "--schedule 1f1b"
mode "2bw" "--schedule 2bw" against "1f1b"
task mlp "mlp" stages 2 steps 4 batch 4 micro 2 evals 2 rates 0.01
STUDY
done
# shellcheck disable=SC2016
array=$(sbatch --parsable --array=1-2 -n1 -o 'out-array-%a' --wrap "$SLUICE study s\$SLURM_ARRAY_TASK_ID.study --jobs 1 >table\$SLURM_ARRAY_TASK_ID && touch done\$SLURM_ARRAY_TASK_ID") ||
    fail "sbatch --array"
both_done() { [ -f done1 ] && [ -f done2 ]; }
until_true 120 both_done || fail "the array: $(scontrol show job "$array")"
for i in 1 2; do
    grep -q '^| 2bw | ' "table$i" || fail "table $i of the array"
done
echo "count: 2 nodes, 1 srun, 1 requeue, 2 studies of an array"
