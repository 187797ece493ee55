#!/usr/bin/env python3
"""Transfers and compute in a measured timeline (timeline.trace.json of `sluice train --trace`).

One RESULT line for messages: how long they took from the end of the pass that made them to their arrival,
and what part of that time their sender and their receiver spent computing. One for the sums of replicas:
how long they were under way, and what part of that time their worker, and any worker, spent in passes."""
import bisect
import json
import sys


def sums(spans, busy):
    """REDUCE with since_ns: the start of its sums."""
    passes = {}
    for e in spans:
        if e["cat"] in ("F", "B", "I", "W", "RECOMPUTE"):
            passes.setdefault(e["pid"], []).append((e["args"]["start_ns"], e["args"]["end_ns"]))
    for lane in passes.values():
        lane.sort()
    made = [(e["pid"], e["args"]["since_ns"], e["args"]["end_ns"]) for e in spans if e["args"].get("since_ns")]
    if not made:
        return
    whole = sum(b - a for _, a, b in made)
    own = sum(busy(passes.get(w, []), a, b) for w, a, b in made)
    some = sum(max(busy(lane, a, b) for lane in passes.values()) for _, a, b in made)
    print("RESULT bench=overlap sums=%d mean_us=%.1f own_worker_computes=%.3f some_worker_computes=%.3f" %
          (len(made), whole / len(made) / 1e3, own / whole, some / whole))


def main():
    events = json.load(open(sys.argv[1]))["traceEvents"]
    spans = [e for e in events if e.get("ph") == "X" and "start_ns" in e.get("args", {})]
    work, sends = {}, []
    for e in spans:
        a = e["args"]
        if e["cat"].startswith("SEND"):
            sends.append((e["pid"], e["tid"], a["start_ns"], a["end_ns"]))
        elif not e["cat"].startswith("RECV"):
            work.setdefault((e["pid"], e["tid"]), []).append((a["start_ns"], a["end_ns"]))
    for lane in work.values():
        lane.sort()

    def busy(lane, start, end):
        at = bisect.bisect_left(lane, (start, start)) - 1
        total = 0
        for a, b in lane[max(at, 0):]:
            if a >= end:
                break
            total += max(0, min(b, end) - max(a, start))
        return total

    sums(spans, busy)
    took = sorted(b - a for _, _, a, b in sends if b > a)
    if not took:
        sys.exit("overlap: the timeline has no messages")
    whole = sum(took)
    hidden = 0
    for _, _, a, b in sends:
        if b > a:
            hidden += max(busy(lane, a, b) for lane in work.values())
    everyone = sum(sum(busy(lane, a, b) for lane in work.values()) / len(work) for _, _, a, b in sends if b > a)
    print("RESULT bench=overlap messages=%d median_us=%.1f p90_us=%.1f longest_us=%.1f some_worker_computes=%.3f "
          "workers_computing=%.3f" % (len(took), took[len(took) // 2] / 1e3, took[len(took) * 9 // 10] / 1e3,
                                      took[-1] / 1e3, hidden / whole, everyone / whole))


main()
