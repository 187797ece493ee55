#!/usr/bin/env bash
# Convergence of asynchronous training: every mode against the synchronous one, paired by seed, with equal
# tokens; bench/converge.study defines the runs. Finished runs are kept: the same command continues.
# Usage: ./dev bench converge [--quick] [--docs] [options of 'sluice study': --seeds N --jobs J --limit S ...]
#   --quick   a tenth of the steps, no tuning: minutes
#   --docs    write docs/results/convergence.md and docs/results/convergence.html (the curves);
#             --limit 0: from finished runs only; --time 60: measure step times too (8 cores)
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
sluice=${SLUICE:-$root/build/release/sluice}
out=$root/build/converge docs="" limit=5000 options=()
while [ $# -gt 0 ]; do
    case $1 in
    --quick) limit=240 out=$root/build/converge-quick options+=(--part 0.1 --no-tune --seeds 3) ;;
    --limit) limit=$2 && shift ;;
    --docs) docs=1 ;;
    *) options+=("$1") ;;
    esac
    shift
done
# AVX-512 gives the same bits on all CPUs that have it; AMX takes three times as long at these sizes
! grep -q avx512f /proc/cpuinfo || export SLUICE_ISA=${SLUICE_ISA:-avx512}
cd "$root" # the study's paths are relative, so that finished runs are found wherever the tree lies
[ -d ../shared/data ] || { echo "converge: ../shared/data with tinyshakespeare.txt and MNIST is missing" && exit 1; }
mkdir -p "$out"
"$sluice" study bench/converge.study --out "$out" --json --limit "$limit" "${options[@]}" >"$out/rows.json"
cat "$out/study.md"
python3 - "$out/rows.json" <<'END'
import json, sys
for r in json.load(open(sys.argv[1])):
    text = lambda v, n=3: "no" if v is None else "%.*f" % (n, v)
    print("RESULT bench=converge task=%s mode=%s rate=%g seeds=%d last=%s diff_pct=%s ci_pct=%s best=%s "
          "best_diff_pct=%s best_ci_pct=%s steps_to_target=%s sooner_simulated=%s" % (
              r["task"], r["mode"].replace(" ", "_"), r["rate"], r["seeds"], text(r["last"], 4),
              text(r["last_percent"]), text(r["last_interval"]), text(r["best"], 4), text(r["best_percent"]),
              text(r["best_interval"]), text(r["steps_to_target"], 0), text(r["sooner_simulated"])))
END
[ -z "$docs" ] || cp "$out/study.md" "$root/docs/results/convergence.md"
[ -z "$docs" ] || cp "$out/study.html" "$root/docs/results/convergence.html"
