#!/usr/bin/env bash
# All that is measured about the speed of pipelines, in one command; prints RESULT lines.
#
#   ./dev bench pipeline_all [--quick] [--python PATH] [--cases 2bw,1f1b,torch,overhead,trace,async,graphs]
#
# With 16 cores or more: 8 stages of 2 threads; graphs of stages run. With fewer: 2 stages of 1 thread;
# graphs of stages are simulated from measured passes. 2bw and 1f1b: 50 steps in 5 rounds, each with its
# fill and drain, between bounds: 6 to 9 minutes each on 2 cores. torch (with --python): its schedules and
# ours, a few steps each, 5 minutes. async: 7 minutes, the others one each. --quick: a look at all of them
# in less than 6 minutes.
set -euo pipefail
cd "$SRC_DIR"
bench=$BUILD_DIR/bench
quick='' python='' cases=2bw,1f1b,torch,overhead,trace,async,graphs
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=yes ;;
    --python) python=${2:?--python PATH} && shift ;;
    --cases) cases=${2:?--cases a,b} && shift ;;
    *) echo "usage: ./dev bench pipeline_all [--quick] [--python PATH] [--cases a,b]" >&2 && exit 2 ;;
    esac
    shift
done
cores=$(nproc)
shape=(--stages 2 --threads 1)
[ "$cores" -lt 16 ] || shape=(--stages 8 --threads 2)
steps=(--rounds 5 --steps 10 --bound-steps 2) turn=60
[ -z "$quick" ] || { steps=(--steps 3 --bound-steps 1) && turn=5; }
asked() { [[ ,$cases, == *,$1,* ]]; }

echo "# $cores cores, $(uname -m), load $(cut -d' ' -f1-3 /proc/loadavg)"
for schedule in 2bw 1f1b; do
    ! asked $schedule || "$bench/pipeline" "${shape[@]}" --schedules $schedule "${steps[@]}"
done
if asked torch && [ "$python" ]; then
    "$bench/pipeline" "${shape[@]}" --steps 5 --bound-steps 1 --python "$python" --torch-steps 3
fi
if asked overhead; then
    "$bench/pipeline_overhead"
    if command -v mpirun >/dev/null && [ -e "$BUILD_DIR/libsluice_mpi.so" ]; then
        OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n 2 "$bench/pipeline_overhead" mpi
    fi
fi
! asked trace || "$bench/pipeline_trace" --seconds $turn
! asked async || "$bench/async_cost" --seconds $turn
! asked graphs || "$bench/pipeline_graphs"
echo "# load $(cut -d' ' -f1-3 /proc/loadavg)"
