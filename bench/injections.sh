#!/usr/bin/env bash
# Fault injection: killed or stopped processes, stalled or failing workers, full memory and disk, cut links; on
# threads, on ranks over TCP and MPI, on one host and on namespaces. Checks for each fault: did the job end, was the
# failed process named and when, is a process left, does the last checkpoint load?
#     ./dev bench injections [--count N] [--jobs J] [--only PLACE/FAULT] [--write]
# --write puts the table into docs/results/failures.md. A hang is a job that has not ended 60 s after the injection; drills
# happen some steps later, so there the time counts from the last step.
set -euo pipefail
count=60 jobs=2 only="" write=0
while [ $# -gt 0 ]; do
    case $1 in
    --count) count=${2:?} && shift ;;
    --jobs) jobs=${2:?} && shift ;;
    --only) only=${2:?} && shift ;;
    --write) write=1 ;;
    *) echo "injections: unknown option $1" >&2 && exit 2 ;;
    esac
    shift
done
: "${SLUICE:?run it as ./dev bench injections}" "${SRC_DIR:?}" "${BUILD_DIR:?}"
work=$(mktemp -d)
ranks=3
patience=60
gpt=(gpt-nano --set "V=37,T=13,P=17,L=4,C=18,H=3,drop=0.1" --batch 8 --micro 4 --quiet --stages 3
    --steps 1000000 --checkpoint-every 8 --keep 2)
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_base_warn_component_unused=0 OMPI_MCA_hwloc_base_binding_policy=none

# ---- hosts of a lane: two namespaces with a link and own host names ----
# shellcheck source=tests/support/two_hosts.sh
. "$(dirname "$0")/../tests/support/two_hosts.sh"
make_lane() { # LANE
    make_hosts "sl-a$1-$$" "sl-b$1-$$" "10.$((78 + $1)).0"
}
drop_lanes() {
    local name
    for name in $(ip netns list 2>/dev/null | awk -v mark="-$$\$" '$1 ~ mark { print $1 }'); do
        ip netns del "$name" 2>/dev/null || true
    done
}
clean() {
    drop_lanes
    for mount in "$work"/disk*; do
        ! mountpoint -q "$mount" 2>/dev/null || umount -l "$mount"
    done
    rm -rf "$work"
}
trap clean EXIT
write_agents "$work"
# mpirun forwards the output of ranks up to 2 s late: ranks write to files here.
cat >"$work/say" <<'TEXT'
#!/bin/sh
exec "$@" 2>"$SL_SAY"
TEXT
chmod +x "$work/say"

# ---- available places and faults ----
places=(threads tcp)
if command -v mpirun >/dev/null && [ -e "$BUILD_DIR/libsluice_mpi.so" ]; then places+=(mpi); fi
if command -v ip >/dev/null && make_lane 90 2>/dev/null; then
    places+=(tcp-hosts)
    [[ " ${places[*]} " != *" mpi "* ]] || places+=(mpi-hosts)
else
    echo "no network namespaces: skipping cut links" >&2
fi
drop_lanes
disks=0
mkdir "$work/disk"
if mount -t tmpfs -o size=1m none "$work/disk" 2>/dev/null; then
    disks=1
    umount "$work/disk"
else
    echo "cannot mount a file system: skipping full disks" >&2
fi
rmdir "$work/disk"
cases=()
for place in "${places[@]}"; do
    faults=(kill stall memory fail)
    [ "$place" = threads ] || faults+=(stop)
    [ $disks = 0 ] || faults+=(disk)
    [[ $place != *hosts ]] || faults+=(cut)
    for fault in "${faults[@]}"; do
        [[ -n $only && $place/$fault != "$only" ]] || cases+=("$place/$fault")
    done
done
[ ${#cases[@]} -gt 0 ] || { echo "injections: nothing matches $only" >&2 && exit 2; }

# ---- one injection ----
# start PLACE RUN ARGUMENTS...: replaces this process by the job.
start() {
    local place=$1 run=$2 a=sl-a$lane-$$ b=sl-b$lane-$$
    shift 2
    local train=(train "${gpt[@]}" --out "$run" "$@")
    case $place in
    threads) exec "$SLUICE" "${train[@]}" ;;
    tcp) exec "$SLUICE" launch -n $ranks -- "${train[@]}" ;;
    mpi) SL_SAY=$name.pipe exec mpirun -n $ranks "$work/say" "$SLUICE" "${train[@]}" ;;
    tcp-hosts)
        exec "$SLUICE" launch -n $ranks --hosts "$a=10.$((78 + lane)).0.1,$b=10.$((78 + lane)).0.2" \
            --agent "$work/enter-exec" -- "${train[@]}"
        ;;
    mpi-hosts)
        exec "$work/enter-exec" "$a" mpirun --host "$a:2,$b:1" -n $ranks --mca plm_rsh_agent "$work/enter" \
            --mca oob_tcp_if_include wire --mca btl_tcp_if_include wire -x SL_SAY="$name.pipe" \
            "$work/say" "$SLUICE" "${train[@]}"
        ;;
    esac
}
processes() { pgrep -f -- "--out $1( |\$)" || true; }
# rank_pid RUN RANK
rank_pid() {
    local pid
    for pid in $(processes "$1"); do
        if tr '\0' '\n' <"/proc/$pid/environ" 2>/dev/null | grep -qxE "(SLUICE_RANK|OMPI_COMM_WORLD_RANK)=$2" &&
            [ "$(readlink "/proc/$pid/exe")" = "$(readlink -f "$SLUICE")" ]; then
            echo "$pid"
            return
        fi
    done
}
hurt() { # PLACE FAULT RUN VICTIM
    local place=$1 fault=$2 run=$3 victim=$4 pid
    case $fault in
    kill | stop)
        if [ "$place" = threads ]; then
            pid=$(processes "$run" | tail -n 1)
        else
            pid=$(rank_pid "$run" "$victim")
        fi
        kill "-${fault^^}" "$pid"
        ;;
    disk) head -c 64M /dev/zero >"$run/../full" 2>/dev/null || true ;;
    cut) ip -n "sl-a$lane-$$" link set wire down ;;
    esac
}
# naming PLACE FAULT VICTIM: the expected report of the survivors. Threads: a killed process has no survivors.
naming() {
    local place=$1 fault=$2 victim=$3
    case $place/$fault in
    threads/kill) echo "" ;;
    */memory) [ "$place" = threads ] || [ "$victim" = 0 ] && echo "memory|allocate" || echo "rank $victim( |:)" ;;
    */kill | */stop) echo "rank $victim \(.*\) is lost: .*it held stage .*\(worker $victim\)" ;;
    */cut) echo "rank [012] \(.*\) is lost: no sign of life.*it held stage" ;;
    */stall) echo "worker $victim \(.*\) is stalled: .* of stage" ;;
    */fail) echo "(rank $victim: )?this is a drill: the worker fails" ;;
    */disk) echo "No space left|full" ;;
    esac
}
# Prefix every line with its time in microseconds.
stamp() {
    local line
    while IFS= read -r line; do echo "${EPOCHREALTIME/[.,]/} $line"; done
}
# await JOB RUN PLACE/FAULT: false if it has not ended in time. With a cut link mpirun waits for its remote daemon;
# the end of the ranks counts there.
await() {
    local i steps=0 now
    for ((i = 0; i < patience * 10; i++)); do
        if [[ $3 == */@(stall|memory|fail) ]] && now=$(stat -c %s "$2/log.jsonl" 2>/dev/null) && [ "$now" != "$steps" ]; then
            steps=$now i=0
        fi
        kill -0 "$1" 2>/dev/null || return 0
        if [ "$3" = mpi-hosts/cut ] && ! ranks_left "$2"; then
            kill -KILL "$1"
            return 0
        fi
        sleep 0.1
    done
    return 1
}
ranks_left() { # RUN
    local pid
    for pid in $(processes "$1"); do
        [ "$(readlink "/proc/$pid/exe")" != "$(readlink -f "$SLUICE")" ] || return 0
    done
    return 1
}
# inject NUMBER PLACE FAULT: prints "PLACE FAULT ended named orphans readable ms ms_named"; times count from the
# injection; ms_named is - for drills and if no survivor can report.
inject() {
    local number=$1 place=$2 fault=$3 name=$work/$1 run victim status=0 ended=1 named=0 orphans=0 readable=0
    local extra=() begin job i pid stamper pattern first ms_named=-
    run=$name/run
    mkdir -p "$name"
    mkfifo "$name.pipe"
    stamp <"$name.pipe" >"$name.out" &
    stamper=$!
    victim=$((RANDOM % ranks))
    if [ "$fault" = disk ]; then
        mkdir "$work/disk$number"
        mount -t tmpfs -o size=8m none "$work/disk$number"
        run=$work/disk$number/run
    fi
    # Soon after the first checkpoint, at step 8: a step has about 30 actions.
    case $fault in stall | memory | fail) extra=(--drill "$fault:$victim:$((300 + RANDOM % 140))") ;; esac
    [[ $place != *hosts ]] || make_lane "$lane"
    (start "$place" "$run" "${extra[@]}") >"$name.pipe" 2>&1 &
    job=$!
    # Wait for the start before the clock runs: a loaded machine may start slowly.
    until [ -e "$run/ckpt/latest" ] || ! kill -0 $job 2>/dev/null; do sleep 0.05; done
    sleep "0.$((RANDOM % 9))"
    begin=${EPOCHREALTIME/[.,]/}
    hurt "$place" "$fault" "$run" "$victim" || true
    await $job "$run" "$place/$fault" || ended=0
    local ms=$(((${EPOCHREALTIME/[.,]/} - begin) / 1000))
    [ $ended = 1 ] || kill -KILL $job
    wait $job 2>/dev/null || status=$?
    [ $status != 0 ] || ended=0 # it must not have ended well
    # A killed process needs CPU time to exit.
    for ((i = 0; i < 30; i++)); do
        orphans=$(processes "$run" | wc -l)
        [ "$orphans" != 0 ] || break
        sleep 0.1
    done
    for pid in $(processes "$run"); do kill -KILL "$pid" 2>/dev/null || true; done
    # A remote daemon of mpirun may keep the pipe open but writes nothing more.
    for ((i = 0; i < 20; i++)); do
        kill -0 $stamper 2>/dev/null || break
        sleep 0.1
    done
    kill $stamper 2>/dev/null || true
    wait $stamper 2>/dev/null || true
    pattern=$(naming "$place" "$fault" "$victim")
    [[ -n $pattern ]] || named=1
    if [[ -n $pattern ]] && first=$(grep -m 1 -E "$pattern" "$name.out"); then
        named=1
        [[ $fault != @(kill|stop|cut|disk) ]] || ms_named=$(((${first%% *} - begin) / 1000))
    fi
    # No checkpoint is fine: a drill may come before the first one.
    if [ ! -e "$run/ckpt/latest" ] || "$SLUICE" ckpt verify "$run" >/dev/null 2>&1; then readable=1; fi
    if [ $ended = 0 ] || [ $named = 0 ] || [ "$orphans" != 0 ] || [ $readable = 0 ]; then
        echo "injection $number: $place $fault of $victim: status $status, ended $ended, named $named, orphans $orphans, readable $readable" >&2
        tail -n 12 "$name.out" >&2
    fi
    echo "$place $fault $ended $named $orphans $readable $ms $ms_named"
    [[ $place != *hosts ]] || { ip netns del "sl-a$lane-$$" && ip netns del "sl-b$lane-$$"; }
    [ "$fault" != disk ] || umount -l "$work/disk$number"
    rm -rf "$name" "$name.out" "$name.pipe"
}
for ((lane = 0; lane < jobs; lane++)); do
    (
        trap - EXIT
        RANDOM=$((lane + 1))
        for ((i = lane; i < count; i += jobs)); do
            case=${cases[i % ${#cases[@]}]}
            inject "$i" "${case%/*}" "${case#*/}"
        done
    ) >"$work/lane$lane" &
    lanes[lane]=$!
done
for ((lane = 0; lane < jobs; lane++)); do wait "${lanes[lane]}"; done

# ---- the table ----
table() {
    sort "$work"/lane* | awk '
        BEGIN { print "| where | what | injections | hangs | named | orphans | unreadable checkpoints | named after, s | over after, s |"
                print "|---|---|---|---|---|---|---|---|---|" }
        { key = $1 " | " $2; if (!(key in n)) order[++keys] = key
          n[key]++; hang[key] += 1 - $3; named[key] += $4; left[key] += $5; bad[key] += 1 - $6
          if ($7 > most[key]) most[key] = $7
          if ($8 != "-") { timed[key] = 1; if ($8 > late[key]) late[key] = $8; if ($8 > T8) T8 = $8 }
          if ($8 != "-" && $2 != "disk" && $8 > 5000) over++
          if ($8 != "-" && $1 ~ /^tcp/ && $7 - $8 > 5000) slow++
          N++; H += 1 - $3; M += $4; L += $5; B += 1 - $6; if ($7 > T) T = $7 }
        END { for (i = 1; i <= keys; i++) { k = order[i]
                printf "| %s | %d | %d | %d | %d | %d | %s | %.1f |\n", k, n[k], hang[k], named[k], left[k], bad[k],
                    timed[k] ? sprintf("%.2f", late[k] / 1000) : "", most[k] / 1000 }
              printf "| all | | %d | %d | %d (%.1f %%) | %d | %d | %.2f | %.1f |\n", N, H, M, 100 * M / N, L, B, T8 / 1000, T / 1000
              printf "RESULT bench=injections count=%d hangs=%d named=%d orphans=%d unreadable=%d named_over_5s=%d launch_over_5s_more=%d\n", N, H, M, L, B, over, slow >"/dev/stderr" }'
}
table >"$work/table"
cat "$work/table"
if [ $write = 1 ]; then
    awk -v table="$work/table" '
        /<!-- injections -->/ { print; while ((getline line < table) > 0) print line; skip = 1 }
        /<!-- end of injections -->/ { skip = 0 } !skip && !/<!-- injections -->/ { print }' \
        "$SRC_DIR/docs/results/failures.md" >"$work/document"
    cat "$work/document" >"$SRC_DIR/docs/results/failures.md"
fi
! grep -qE '^[^ ]+ [^ ]+ 0 |^[^ ]+ [^ ]+ 1 [01] [1-9]|^[^ ]+ [^ ]+ 1 [01] 0 0' "$work"/lane*
