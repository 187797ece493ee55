#!/usr/bin/env bash
# The watchdog names a stalled worker with rank, host, stage, action and micro-batch, and the workers that wait for
# it; on threads, on ranks over TCP and over MPI. A slow worker causes a warning and the run continues. MPI ranks that
# die or are stopped are named too, before mpirun ends the others.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
gpt=(gpt-nano --set "V=37,T=13,P=17,L=4,C=18,H=3,drop=0.1" --batch 8 --micro 4 --quiet --stages 3 --checkpoint-every 8)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_btl_base_warn_component_unused=0
declare -A started
# begin NAME COMMAND...: in the background; commands mostly wait.
begin() {
    local name=$1
    shift
    timeout 300 "$@" --out "$work/$name" >"$work/$name.out" 2>"$work/$name.err" &
    started[$name]=$!
}
# ends NAME STATUS TEXT...: each regular expression matches its output.
ends() {
    local name=$1 want=$2 status=0 text i
    shift 2
    wait "${started[$name]}" || status=$?
    if [ "$want" != any ] && [ $status != "$want" ]; then
        cat "$work/$name.err"
        echo "FAILED: $name: status $status, not $want"
        exit 1
    fi
    if [ $status = 0 ] && [ "$want" = any ]; then echo "FAILED: $name ended well" && exit 1; fi
    for text in "$@"; do
        grep -qE -- "$text" "$work/$name.err" && continue
        cat "$work/$name.err"
        echo "FAILED: $name does not say: $text"
        exit 1
    done
    for ((i = 0; i < 600; i++)); do # what was killed may take a moment to be gone
        pgrep -f -- "--out $work/$name\$" >/dev/null || break
        sleep 0.1
    done
    if [ "$i" = 600 ]; then echo "FAILED: $name: a process is left" && exit 1; fi
    "$SLUICE" ckpt verify "$work/$name" >/dev/null || { echo "FAILED: $name: its checkpoint does not load" && exit 1; }
    watched=$((watched + 1))
}
watched=0
forever=(train "${gpt[@]}" --steps 1000000)
begin threads-stall "$SLUICE" "${forever[@]}" --drill stall:1:600
begin tcp-stall "$SLUICE" launch -n 3 -- "${forever[@]}" --drill stall:2:601
begin tcp-die "$SLUICE" launch -n 3 -- "${forever[@]}" --drill die:1:602
begin tcp-fail "$SLUICE" launch -n 3 -- "${forever[@]}" --drill fail:1:603
# A sleep of 3 s: a warning after 1.6 s, no stall.
begin slow "$SLUICE" train "${gpt[@]}" --steps 40 --drill slow:1:604 --stall-timeout 8
begin whole "$SLUICE" train "${gpt[@]}" --steps 40
action="(F|B|STEP|SEND|RECV) of stage [^,;:]*(, micro-batch [0-9]+)?"
ends threads-stall 5 "worker 1 \(rank 0, host [^,]+, process [0-9]+\) is stalled: $action; not ended for" \
    "^  worker [02] .*, waits for .*worker 1" "^  worker 1 \(.*\): $action\$"
ends tcp-stall 5 "worker 2 \(rank 2, host [^,]+, process [0-9]+\) is stalled: $action; not ended for" \
    "^  worker [01] .*, waits for " "^  worker 2 \(rank 2, .*\): $action\$"
ends tcp-die 5 "rank 1 \(host [^,]+, process [0-9]+\) is lost: .*; it held stage [^ ]+ \(worker 1\)" "^  worker 1 \(rank 1, "
ends tcp-fail 4 "rank 1: this is a drill"
ends slow 0 "warning: slow: worker 1 \(.*\): $action, for "
ends whole 0
diff -r "$work/whole/ckpt" "$work/slow/ckpt" || { echo "FAILED: a slow run has other bytes" && exit 1; }
if command -v mpirun >/dev/null && [ -e "$BUILD_DIR/libsluice_mpi.so" ]; then
    begin mpi-die mpirun -n 3 "$SLUICE" "${forever[@]}" --drill die:1:605
    begin mpi-stop mpirun -n 3 "$SLUICE" "${forever[@]}" --drill stop:2:606
    begin mpi-stall mpirun -n 3 "$SLUICE" "${forever[@]}" --drill stall:0:607
    ends mpi-die any "rank 1 \(host [^,]+, process [0-9]+\) is lost: .*; it held stage [^ ]+ \(worker 1\)"
    ends mpi-stop any "rank 2 \(host [^,]+, process [0-9]+\) is lost: no sign of life .*; it held stage [^ ]+ \(worker 2\)"
    ends mpi-stall any "worker 0 \(rank 0, host [^,]+, process [0-9]+\) is stalled: $action; not ended for"
fi
echo "count: $watched runs watched"
