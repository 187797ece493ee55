#!/usr/bin/env bash
# All that is measured about the speed of pipelines, in one command; prints RESULT lines.
#
#   ./dev bench pipeline_all [--quick] [--python PATH]
#
# With 16 cores or more: 8 stages of 2 threads; graphs of stages run. With fewer: 2 stages of 1
# thread; graphs of stages are simulated from measured passes. --quick: fewer steps than the 50 that
# count, for a look of less than 6 minutes on 2 cores. --python: also torch's pipelines.
set -euo pipefail
cd "$SRC_DIR"
bench=$BUILD_DIR/bench
quick='' python=()
while [ $# -gt 0 ]; do
    case $1 in
    --quick) quick=yes ;;
    --python) python=(--python "${2:?--python PATH}") && shift ;;
    *) echo "usage: ./dev bench pipeline_all [--quick] [--python PATH]" >&2 && exit 2 ;;
    esac
    shift
done
cores=$(nproc)
if [ "$cores" -ge 16 ]; then
    shape=(--stages 8 --threads 2) simulate=0
else
    shape=(--stages 2 --threads 1) simulate=1
fi
if [ "$quick" ]; then
    steps=6 bound=2 turns=(--rounds 3 --steps 3 --set 'L=2,C=256')
else
    steps=50 bound=6 turns=(--rounds 7)
fi
echo "# $cores cores, $(uname -m), load $(cut -d' ' -f1-3 /proc/loadavg)"
"$bench/pipeline" "${shape[@]}" --cases gpt --steps $steps --bound-steps $bound "${python[@]}"
"$bench/pipeline_overhead"
if command -v mpirun >/dev/null && [ -e "$BUILD_DIR/libsluice_mpi.so" ]; then
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 mpirun -n 2 "$bench/pipeline_overhead" mpi
fi
"$bench/pipeline" --cases trace
"$bench/async_cost" "${shape[@]}" "${turns[@]}"
"$bench/pipeline_graphs" --simulate $simulate
echo "# load $(cut -d' ' -f1-3 /proc/loadavg)"
