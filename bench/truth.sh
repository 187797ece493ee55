#!/usr/bin/env bash
# Predicted and measured steps: configurations that `sluice plan` plans from a profile, then run on threads
# and MPI. Every prediction is stored before its run starts; nothing is fitted to the runs.
#
# Usage: ./dev bench truth [--cores N[:SHARE[:FROM]]]... [--isa ISA] [--only MODEL]... [--transport T] [--workers N]... [--seconds S]
#                          [--profile S] [--runs N] [--rounds N] [--budget S] [--awake] [--keep DIR [--bytes]] [--look] [--results FILE]... [--write]
#   --cores N    workers x threads [2, or the number of cores]; may be repeated. N:SHARE[:FROM]: every SHAREth configuration,
#                starting with number FROM
#   --isa ISA    limit instructions to amx, avx512, avx2 or any; the speed of wider ones depends more on other load
#   --seconds S  target length of a run [1.5]; its second half counts
#   --profile S  length of a profile [1]; --rounds N: its minimum of micro-batches [15]
#   --runs N     runs per configuration [3], each predicted from a new profile; all configurations run once before any runs
#                again; the spread is the noise
#   --budget S   start no run after S seconds; a configuration counts with its finished runs
#   --awake      keep every core busy between runs with an idle-priority process; for virtual computers, whose host may move
#                cores that slept
#   --look       one more traced run per turn on threads: compare action times with their predictions
#   --keep DIR   keep cost tables, plans, predictions.jsonl and results.jsonl in DIR
#   --bytes      measure memory only, with the tables and the machine file in DIR; writes bytes.jsonl, an additional --results
#   --results F  run nothing; use results.jsonl of another machine; may be repeated
#   --write      write docs/results/forecasts.md
# Needs a quiet machine: about 15 minutes on 2 cores. A failed configuration is reported and the others continue.
# Exit status 1 if a goal is missed or a configuration failed.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
command -v python3 >/dev/null || { echo "bench truth: needs python3" && exit 77; }
export SLUICE=${SLUICE:-$root/build/release/sluice}
exec python3 "$root/bench/truth.py" --root "$root" "$@"
