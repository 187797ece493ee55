#!/usr/bin/env bash
# Predicted against measured: configurations that `sluice plan` plans from a profile, then really run on
# threads and MPI. Every prediction is in a file before its run starts; nothing is fitted to the runs.
#
# Usage: ./dev bench truth [--cores N[:SHARE[:FROM]]]... [--isa ISA] [--only MODEL]... [--transport T] [--workers N]... [--seconds S]
#                          [--profile S] [--runs N] [--rounds N] [--budget S] [--awake] [--keep DIR [--bytes]] [--look] [--results FILE]... [--write]
#   --cores N    workers x threads; default 2 (or what there is); several: rows of each in one sitting (of those behind the
#                first with every other number of workers). N:SHARE: every SHAREth configuration of them, from the first or
#                from FROM
#   --isa ISA    instructions no better than amx, avx512, avx2, any: the wider they are, the more their speed depends
#                on who else is on the computer
#   --seconds S  how long a run should take (default 1.5; its second half counts); --profile S: a profile (default 1); --rounds N: its
#                micro-batches at least (default 15)
#   --runs N     of the same configuration, each with a prediction from a new profile, all configurations before the next (default 3;
#                how far they are apart is the noise)
#   --budget S   begin no run after so many seconds; every configuration counts with the runs it has had
#   --awake      no core sleeps between runs (a process on each that yields to all): for virtual computers, whose host puts cores that
#                wake up anywhere
#   --look       one more run of each turn on threads, traced: which actions take longer than foretold
#   --keep DIR   leave cost tables, plans, predictions.jsonl and results.jsonl there
#   --bytes      run for memory only, with the tables and the machine file that are in DIR: bytes.jsonl, as one of the --results behind
#                those of the same rows; bytes do not depend on how fast a computer is
#   --results F  run nothing: the results.jsonl of another machine; of several, all rows
#   --write      write docs/results/forecasts.md
# Needs a quiet machine: about 15 minutes on 2 cores. A configuration that fails is named and the others go on.
# Exit status 1 when a goal is missed or something failed.
set -euo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
command -v python3 >/dev/null || { echo "bench truth: needs python3" && exit 77; }
export SLUICE=${SLUICE:-$root/build/release/sluice}
exec python3 "$root/bench/truth.py" --root "$root" "$@"
