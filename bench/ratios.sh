#!/usr/bin/env bash
# Speed of two versions: ratios of the benches cpu, pipeline, sched, sim and plan_peers, in short forms.
#
#   ./dev bench ratios OLD_TREE NEW_TREE [--pairs N] [--seconds S] [--inputs FOLDER] [--only "cpu sim"]
#
# A tree is a source folder or a tarball of one. A tree without build/release/sluice is built first: only
# the program and these benches. One pair runs the old and the new version of a bench one after the other, in
# alternating order. A ratio is old time over new time of one pair; 1.02: the new version is 2 % faster. With
# several rows in a bench: sum of the times (sched, sim, plan_peers) or geometric mean (cpu, pipeline).
#
#   RESULT bench=ratios of=NAME pairs=N median= low= high= lowest= highest= goal=0.98 verdict=
#
# low and high are quartiles. Lines with row= are the ratios of one row of a bench. With 12 CPUs or more the
# benches run at the same time, each bound to its own CPUs. --pairs: N pairs (default 10), up to twice as
# many while there is time. --seconds: no pair ends later than about S seconds after the start
# (default 900). --inputs: folder or tarball planner-inputs (default ../shared/data/planner-inputs).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | grep -v '^set '; }
if [ $# -lt 2 ]; then
    usage >&2
    exit 2
fi
begin=$(date +%s)
work=$(mktemp -d -p "${SL_BENCH_DIR:-${TMPDIR:-/tmp}}" ratios.XXXXXX)
trap 'rm -rf "$work"' EXIT

# tree NAME PATH: makes $work/NAME/tree, a link or the unpacked tarball.
tree() {
    mkdir -p "$work/$1"
    if [ -d "$2" ]; then
        ln -s "$(cd "$2" && pwd)" "$work/$1/tree"
    else
        mkdir "$work/$1/tree"
        tar -xf "$2" -C "$work/$1/tree"
    fi
}

build() { # NAME JOBS: messages go to $work/NAME/log
    local to=$work/$1/tree
    if [ ! -x "$to/build/release/sluice" ] || [ ! -x "$to/build/release/bench/plan_peers" ]; then
        (cd "$to" && cmake --preset release &&
            cmake --build build/release -j "$2" --target sluice bench_pipeline bench_sched bench_sim \
                bench_plan_peers) >"$work/$1/log" 2>&1 || {
            tail -n 20 "$work/$1/log" >&2
            echo "bench ratios: cannot build $1" >&2
            return 1
        }
    fi
}

tree old "$1"
tree new "$2"
shift 2
inputs=$root/../shared/data/planner-inputs options=()
while [ $# -gt 0 ]; do
    case $1 in
    --inputs) inputs=${2:?--inputs needs a path} && shift ;;
    --pairs | --seconds | --only) options+=("$1" "${2:?$1 needs a value}") && shift ;;
    *) usage >&2 && exit 2 ;;
    esac
    shift
done
# plan_peers looks for its inputs beside SRC_DIR.
mkdir -p "$work/shared/data/planner-inputs" "$work/source"
if [ -d "$inputs" ]; then
    rmdir "$work/shared/data/planner-inputs"
    ln -s "$(cd "$inputs" && pwd)" "$work/shared/data/planner-inputs"
elif [ -f "$inputs" ]; then
    tar -xf "$inputs" -C "$work/shared/data/planner-inputs" --strip-components=1
fi

build old "$(nproc)" &
build new "$(nproc)"
wait $!
echo "# trees are built after $(($(date +%s) - begin)) s"
python3 "$root/bench/ratios.py" "$work" --begin "$begin" ${options[@]+"${options[@]}"}
