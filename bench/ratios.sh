#!/usr/bin/env bash
# Speed of two versions: ratios of the benches cpu, pipeline, sched, sim and plan_peers, in short forms.
#
#   ./dev bench ratios OLD_TREE NEW_TREE [--pairs N] [--seconds S] [--inputs FOLDER] [--only "cpu sim"]
#   ./dev bench ratios --pack TREE FILE.tar.gz
#
# A tree is a source folder, which is built, or a tarball: a packed tree with programs, or sources. --pack
# builds a source folder without optional libraries and packs the programs with their models, for another
# machine (bench/ratios.sh starts the bench there without ./dev).
#
# One pair runs the old and the new version of a bench one after the other, in alternating order. A ratio is old
# time over new time of one pair; 1.02: the new version is 2 % faster. With several rows in a bench: sum of the
# times (sched, sim, plan_peers) or geometric mean (cpu, pipeline).
#
#   RESULT bench=ratios of=NAME pairs=N median= low= high= lowest= highest= goal=0.98 verdict=
#
# low and high are quartiles. Lines with row= are the ratios of one row of a bench. With 12 CPUs or more the
# benches run at the same time, each bound to its own CPUs. --pairs: N pairs (default 10), up to twice as many
# while there is time. --seconds: no pair ends later than about S seconds after the start (default 900).
# --inputs: folder or tarball planner-inputs (default ../shared/data/planner-inputs).
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
usage() { sed -n '2,/^set /s/^# \{0,1\}//p' "$0" | grep -v '^set '; }
if [ $# -lt 2 ] || [ "$1 $#" = "--pack 2" ]; then
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

# build NAME FOLDER [OPTIONS]: only the program and the benches; messages go to $work/NAME/log.
build() {
    local name=$1 to=$2/build/release
    shift 2
    if [ ! -f "$to/build.ninja" ]; then
        [ ! -x "$to/sluice" ] || return 0 # a packed tree
        cmake -S "$to/../.." -B "$to" -G Ninja -DCMAKE_BUILD_TYPE=Release "$@" >"$work/$name/log" 2>&1 || fail_build "$name"
    fi
    cmake --build "$to" --target sluice bench_pipeline bench_sched bench_sim bench_plan_peers \
        >>"$work/$name/log" 2>&1 || fail_build "$name"
}

fail_build() { # NAME
    tail -n 20 "$work/$1/log" >&2
    echo "bench ratios: cannot build the $1 tree" >&2
    exit 1
}

if [ "$1" = --pack ]; then
    # A copy, so that the tree keeps its own build.
    mkdir -p "$work/pack/tree"
    tar -C "$2" --exclude=./build --exclude=./.git -cf - . | tar -C "$work/pack/tree" -xf -
    export CCACHE_BASEDIR=$work/pack/tree CCACHE_NOHASHDIR=1
    build pack "$work/pack/tree" -DSL_WITH_HWLOC=OFF -DSL_WITH_MPI=OFF -DSL_WITH_CUDA=OFF
    cd "$work/pack/tree"
    strip build/release/sluice build/release/bench/*
    tar -czf "$work/pack/file" models bench build/release/sluice build/release/bench
    cd - >/dev/null
    mv "$work/pack/file" "$3"
    exit 0
fi

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

build old "$work/old/tree" &
build new "$work/new/tree"
wait $!
echo "# trees are built after $(($(date +%s) - begin)) s"
python3 "$root/bench/ratios.py" "$work" --begin "$begin" ${options[@]+"${options[@]}"}
