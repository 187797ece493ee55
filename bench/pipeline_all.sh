#!/usr/bin/env bash
# All benches of pipeline speed in one command; prints RESULT lines.
#
#   ./dev bench pipeline_all [--quick] [--python PATH] [--cases 2bw,1f1b,torch,overhead,trace,async,graphs]
#
# With 16 cores or more: 8 stages of 2 threads; graphs of stages run. With fewer: 2 stages of 1 thread;
# graphs of stages are simulated from measured passes. 2bw and 1f1b: one run of 50 steps each, interleaved with the
# bound: 4 minutes each on 16 cores, 12 on 2. torch (with --python) is interleaved with 2bw: 2 minutes more.
# async: 7 minutes, the others one each. --quick: all of them in less than 6 minutes.
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
steps=(--steps 50) turn=60
[ -z "$quick" ] || { steps=(--steps 3 --turn-ms 300 --bound-ms 150) && turn=5; }
asked() { [[ ,$cases, == *,$1,* ]]; }

echo "# $cores cores, $(uname -m), load $(cut -d' ' -f1-3 /proc/loadavg)"
opponent=()
if asked torch && [ "$python" ]; then opponent=(--python "$python"); fi
! asked 2bw || "$bench/pipeline" "${shape[@]}" --schedules 2bw "${steps[@]}" "${opponent[@]}"
! asked 1f1b || "$bench/pipeline" "${shape[@]}" --schedules 1f1b "${steps[@]}"
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
