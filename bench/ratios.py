"""Runs pairs of benches of two trees and prints RESULT lines: see bench/ratios.sh.

Usage: ratios.py WORK [--begin EPOCH] [--seconds S] [--pairs N] [--only NAMES]

WORK/old/tree and WORK/new/tree are built trees, WORK/source is the SRC_DIR of plan_peers.
"""

import argparse
import math
import os
import pathlib
import re
import statistics
import subprocess
import sys
import threading
import time

GOAL = 0.98
CPU_MODELS = "gpt-256 resnet18 mlp lstm"
TREES = ("old", "new")


def fields(line):
    return dict(re.findall(r"(\w+)=(\S+)", line))


def cpu_rows(lines):
    """{row: seconds}"""
    found = (fields(line) for line in lines if "bench=cpu" in line)
    return {f["model"]: 1 / float(f["sluice"]) for f in found}


def pipeline_rows(lines):
    found = (fields(line) for line in lines if "case=gpt" in line)
    return {f["schedule"]: 1 / float(f["tokens_s"]) for f in found}


def sched_rows(lines):
    found = (fields(line) for line in lines if "cpu_s=" in line)
    return {f["schedule"]: float(f["cpu_s"]) for f in found}


def sim_rows(lines):
    found = (fields(line) for line in lines if "cpu_s=" in line)
    return {f"{f['case']}-{f['schedule']}-{f['stages']}": float(f["cpu_s"]) for f in found}


def peers_rows(lines):
    """Lines of words: RESULT plan PLANNER FILE ... objective ... cpu_s SECONDS"""
    rows = {}
    for line in lines:
        match = re.match(r"RESULT plan (\S+ \S+ .*?) objective .* cpu_s (\S+)", line)
        if match:
            rows[match.group(1).replace(" ", "-")] = float(match.group(2))
    return rows


class Bench:
    def __init__(self, name, command, rows, cpus, mean):
        self.name = name
        self.command = command  # after the tree's folder
        self.read = rows
        self.cpus = cpus  # CPUs that it keeps busy
        self.mean = mean  # over rows: "sum" or "geometric"
        self.pairs = []  # [{tree: {row: seconds}}]
        self.error = ""

    def run(self, work, tree, pin):
        folder = work / tree / "tree"
        env = dict(os.environ, SRC_DIR=str(work / "source"), SLUICE=str(folder / "build/release/sluice"))
        said = subprocess.run(pin + self.command, cwd=folder, env=env, capture_output=True, text=True)
        lines = [line for line in said.stdout.splitlines() if line.startswith("RESULT")]
        if said.returncode:
            raise RuntimeError(f"{tree}: {said.stderr.strip()[-300:]}")
        return self.read(lines)

    def run_pair(self, work, pin):
        order = TREES if len(self.pairs) % 2 == 0 else TREES[::-1]
        pair = {tree: self.run(work, tree, pin) for tree in order}
        if not pair["old"] or not pair["new"]:
            raise RuntimeError("it printed no results (plan_peers: are its inputs there?)")
        self.pairs.append(pair)

    def row_ratios(self, pair):
        old, new = pair["old"], pair["new"]
        return {row: old[row] / new[row] for row in old if row in new and old[row] > 0 and new[row] > 0}

    def ratio(self, pair):
        rows = self.row_ratios(pair)
        if self.mean == "sum":
            return sum(pair["old"][row] for row in rows) / sum(pair["new"][row] for row in rows)
        return math.exp(statistics.fmean(math.log(ratio) for ratio in rows.values()))

    def put(self, pairs):
        if self.error:
            print(f"bench ratios: {self.name}: {self.error}", file=sys.stderr)
        if not self.pairs:
            return
        put(self.name, "", [self.ratio(pair) for pair in self.pairs], pairs)
        rows = [self.row_ratios(pair) for pair in self.pairs]
        for row in rows[0] if len(rows[0]) <= 8 else []:
            put(self.name, f" row={row}", [found[row] for found in rows if row in found], pairs)


def put(name, row, ratios, pairs):
    ratios = sorted(ratios)
    low, _, high = statistics.quantiles(ratios, n=4, method="inclusive") if len(ratios) > 1 else ratios * 3
    median = statistics.median(ratios)
    verdict = "few-pairs" if len(ratios) < pairs else "reached" if median >= GOAL else "missed"
    goal = "" if row else f" goal={GOAL} verdict={verdict}"
    print(f"RESULT bench=ratios of={name}{row} pairs={len(ratios)} median={median:.4f} low={low:.4f} high={high:.4f}"
          f" lowest={ratios[0]:.4f} highest={ratios[-1]:.4f}{goal}", flush=True)


def benches():
    built = "build/release/bench/"
    return [
        Bench("cpu", ["bench/cpu.sh", "--rounds", "1", "--steps", "2", "--threads", "4", "--models", CPU_MODELS],
              cpu_rows, 4, "geometric"),
        Bench("pipeline", [built + "pipeline", "--stages", "4", "--steps", "5", "--set", "L=4,C=256",
                           "--turn-ms", "200", "--bound-ms", "50"], pipeline_rows, 5, "geometric"),
        Bench("sched", [built + "sched", "--quick"], sched_rows, 1, "sum"),
        Bench("sim", [built + "sim"], sim_rows, 1, "sum"),
        Bench("plan_peers", [built + "plan_peers", "1"], peers_rows, 1, "sum"),
    ]


def run_stream(stream, work, pin, pairs, until):
    """Pairs of all benches of a stream in turn, at most 2 x `pairs`, until the deadline."""
    longest = 0.0  # seconds of one turn
    for turn in range(2 * pairs):
        start = time.time()
        if start + longest > until:
            return
        for bench in stream:
            if bench.error:
                continue
            try:
                bench.run_pair(work, pin)
            except (RuntimeError, OSError) as error:
                bench.error = str(error)
        longest = max(longest, time.time() - start)
        print(f"# {' '.join(bench.name for bench in stream)}: {turn + 1} pairs, {until - time.time():.0f} s"
              " left", flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("work", type=pathlib.Path)
    parser.add_argument("--begin", type=float, default=time.time())
    parser.add_argument("--seconds", type=float, default=900)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--only", default="")
    args = parser.parse_args()
    chosen = [bench for bench in benches() if not args.only or bench.name in args.only.split()]
    cpus = sorted(os.sched_getaffinity(0))
    until = args.begin + args.seconds
    if len(cpus) < 12:  # one after another
        run_stream(chosen, args.work, [], args.pairs, until)
    else:
        threads = []
        for bench in chosen:
            own, cpus = cpus[:bench.cpus], cpus[bench.cpus:]
            pin = ["taskset", "-c", ",".join(map(str, own))]
            threads.append(threading.Thread(target=run_stream, args=([bench], args.work, pin, args.pairs, until)))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for bench in chosen:
        bench.put(args.pairs)
    return 0 if all(len(bench.pairs) >= args.pairs for bench in chosen) else 1


if __name__ == "__main__":
    sys.exit(main())
