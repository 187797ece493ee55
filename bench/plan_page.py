"""Writes RESULT lines of `./dev bench plan` into docs/results/planners.md. Sections without lines do not change.

    plan_page.py RESULTS PAGE
"""
import os
import re
import sys

HEAD = """# Planners: objectives and search times

Written by `./dev bench plan --write`. Objectives, steps and gaps are the same on every machine; seconds are those of the machine that
wrote the section. [published-claims.md](published-claims.md) explains differences from the papers.
"""


def fields(line):
    """'key=value' words, or the pairs of plan_peers after its two names."""
    words = line.split()[1:]
    if words[0] != "plan":
        return dict(w.split("=", 1) for w in words if "=" in w)
    row = {"claim": "peers", "model": words[1], "file": words[2]}
    rest = [w for w in words[3:] if w != "non-contiguous"]
    row["scattered"] = "non-contiguous" in words
    row.update(zip(rest[::2], rest[1::2]))
    return row


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"] + ["| " + " | ".join(r) + " |" for r in rows]


def number(text, shown="%.4g"):
    try:
        return shown % float(text)
    except (TypeError, ValueError):
        return text or "-"


def equal_or_better(row):
    """Published values have at least five digits."""
    try:
        return float(row["objective"]) <= float(row["published"]) * (1 + 5e-5)
    except ValueError:
        return True  # nothing was published


def peers(rows):
    compared = [r for r in rows if r["published"] != "-"]
    yield "%d of %d published objectives are reached or beaten." % (sum(map(equal_or_better, compared)), len(compared))
    for model in ("piper", "dnn-partitioning", "pipedream"):
        ratios = [float(r["ratio"]) for r in rows if r["model"] == model and r["ratio"] != "-" and not r["scattered"]]
        if ratios:
            yield "%s: %.0f to %.0f times as fast as the published program." % (model, min(ratios), max(ratios))
    yield ""
    yield from table(
        ("input", "devices", "objective", "published", "CPU s", "published CPU s", "times as fast", "gap"),
        [("%s %s%s" % (r["model"], r["file"], ", not contiguous" if r["scattered"] else ""), r.get("levels", r["k"]),
          r["objective"], r["published"], number(r["cpu_s"], "%.3f"), r["published_s"], r["ratio"],
          "optimal" if r["proven"] == "1" else "%.1f %%" % (100 * float(r["gap"]))) for r in rows])


def judge(rows):
    good = [r for r in rows if r.get("verdict") == "holds"]
    yield "`bench/plan_judge.py` evaluates the printed plans again, by itself: %d of %d are worth what they say." % (
        len(good), len(rows))


def graphpipe(rows):
    cases = {}
    for r in rows:
        cases.setdefault((r["model"], r.get("set", ""), int(r["devices"]), r["batch"]), {})[r["planner"]] = r
    names = ("pipedream-dp", "piper-dp", "graphpipe", "sluice")
    yield "Samples per second, simulated on Summit nodes under 1f1b; CPU seconds of the search in brackets."
    yield ""
    yield from table(("model", "devices", "batch") + names + ("sluice over the best sequential",), [
        ("%s %s" % (model, label) if label else model, str(devices), batch) + tuple(
            "%s (%s)" % (number(of[n]["samples_per_s"], "%.0f"), number(of[n]["cpu_s"], "%.2f"))
            if float(of[n]["samples_per_s"]) else "gives up" for n in names) +
        (number(of["sluice"]["over_sequential"], "%.2f"),) for (model, label, devices, batch), of in cases.items()
        if len(of) == len(names)])


def at_least(row, key):
    return ">" * (row["became"] == "stopped") + row[key]


def published(rows):
    yield ("PipeDream's and Piper's own programs (msr-fiddle/pipedream, msr-fiddle/piper; fetched apart, not part of this tree) on GraphPipe's "
           "models, under their own cost models, 16 micro-batches. `>`: stopped then. Piper's refuses graphs with more than 40,000 downsets. "
           "*The model itself*: `sluice plan MODEL`, which cuts between operators, not layers, and simulates what it finds. *Gap*: of our objective to "
           "our own bound; where the published program came to no end there is nothing else to compare it with.")
    for of, against in (("ratio", "the same file"), ("model_ratio", "the model itself")):
        ratios = [float(r[of]) for r in rows if r[of] != "-"]
        if ratios:
            yield "Times as fast, %s: %.1f to %.0f and more." % (against, min(ratios), max(ratios))
    yield ""
    yield from table(
        ("program", "model", "devices", "nodes", "objective", "published", "gap", "published CPU s", "CPU s", "times as fast", "CPU s, the model itself",
         "times as fast"),
        [(r["program"], " ".join(filter(None, (r["model"], r.get("set")))), r["devices"],
          "%s layers" % r["layers"] if "layers" in r else "%s operators" % r["operators"], r["objective"],
          r["became"] if r["published"] == "-" else r["published"],
          "%.1f %%" % (100 * (float(r["objective"]) / float(r["lower_bound"]) - 1)),
          at_least(r, "published_s"), r["cpu_s"], at_least(r, "ratio"), r["model_cpu_s"], at_least(r, "model_ratio")) for r in rows])


def gib(row):
    return "%.1f" % (float(row["peak_bytes"]) / 2**30) if "peak_bytes" in row else "-"


def twobw(rows):
    by_rule = [r for r in rows if "rule" in r]
    free = [r for r in rows if "rule" not in r]
    yield "By the authors' rule: one pipeline, recomputation, each schedule with the largest micro-batch that fits and leaves as many of them as stages."
    yield ""
    yield from table(("model", "depth", "batch", "schedule", "micro-batch", "samples/s", "over 1f1b", "GiB", "search ms"),
                     [(r["model"], r["depth"], r["batch"], r["schedule"], r["micro"], number(r["samples_per_s"], "%.1f"),
                       r["over_flush"], gib(r), number(r["search_ms"], "%.1f")) for r in by_rule])
    yield ""
    yield ("Each schedule with what a planner chooses for it: `2bw` width, depth and micro-batch of equal stages, `sluice` any plan (one search, not five; "
           "`none`: the stages of 1f1b, one micro-batch at a time).")
    yield ""
    yield from table(("model", "machine", "batch", "planner", "schedule", "widths", "micro-batch", "samples/s", "GiB", "search ms, one thread", "all cores",
                      "CPU s"),
                     [(r["model"], r["machine"], r["batch"], r["planner"], r["schedule"], r.get("widths", ""), r.get("micro", ""),
                       number(r["samples_per_s"], "%.1f"), gib(r), number(r.get("search_ms"), "%.0f"),
                       number(r.get("search_ms_all_cores"), "%.0f"), r.get("cpu_s", "-"))
                      for r in free])


def scale(rows):
    yield from table(("problem", "threads", "step s", "gap to the lower bound", "search s", "CPU s"),
                     [(r["problem"], r["threads"], number(float(r["step_ns"]) * 1e-9), "%.0f %%" % (100 * float(r["gap"]) - 100),
                       number(float(r["search_ms"]) * 1e-3, "%.1f"), number(r["cpu_s"], "%.1f"))
                      for r in rows if "problem" in r and float(r["step_ns"])])
    yield ""
    for r in rows:
        if "growth_of" in r:
            yield "CPU time grows with the number of %s to the power %s (between the two largest %s)." % (
                r["growth_of"], r["growth_exponent"], r["between_largest"])
        elif "note" in r and r["threads"] == "1":
            yield "`%s`: %s" % (r["problem"], r["note"].replace("_", " "))


SECTIONS = [("peers", "The peers' own inputs", peers), ("judge", "Evaluated again", judge),
            ("graphpipe", "GraphPipe", graphpipe), ("published", "The published programs on GraphPipe's models", published),
            ("2bw", "PipeDream-2BW", twobw), ("scale", "Scale", scale)]


def main():
    results, page = sys.argv[1:3]
    with open(results) as file:
        rows = [fields(line) for line in file if line.startswith("RESULT ")]
    old = open(page).read() if os.path.exists(page) else ""
    text = HEAD
    for name, title, make in SECTIONS:
        mine = [r for r in rows if r.get("claim") == name]
        kept = re.search(r"\n## %s\n.*?(?=\n## |\Z)" % re.escape(title), old, re.S)
        if mine:
            text += "\n## %s\n\n`./dev bench plan %s`\n\n%s\n" % (title, name, "\n".join(make(mine)))
        elif kept:
            text += kept.group(0)
    with open(page, "w") as file:
        file.write(text)


if __name__ == "__main__":
    main()
