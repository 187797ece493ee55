"""The page that `./dev bench truth --write` writes; see truth.sh. Standard library only."""
import statistics

GOALS = {"time_median": 5.0, "time_p95": 12.0, "memory": 3.0, "memory_under": 1.0}


def quantile(values, share):
    values = sorted(values)
    return values[min(len(values) - 1, int(share * len(values)))]


def middle_and_end(values):
    return statistics.median(values), quantile(values, 0.95)


def known_noise(results):
    return [r["noise"] for r in results if r["noise"] is not None]


def middle(values):
    return statistics.median(values) if values else None


def percent(value):
    return "-" if value is None else "%.1f %%" % value


def single_errors(results):
    """Of each run against the prediction that was made for it."""
    return [100 * abs(said / took - 1) for r in results for said, took in zip(r["predictions_s"], r["runs_s"])]


def summary(results):
    step = [abs(r["time_error"]) for r in results]
    memory, noise = [r["memory_error"] for r in results], known_noise(results)
    single, apart = single_errors(results), [abs(r["apart_error"]) for r in results]
    return {"configurations": len(results), "time_median": statistics.median(step), "time_p95": quantile(step, 0.95),
            "time_worst": max(step), **dict(zip(("apart_median", "apart_p95"), middle_and_end(apart))), "single_median": statistics.median(single),
            "single_p95": quantile(single, 0.95), "noise_median": middle(noise), "noise_p95": quantile(noise, 0.95) if noise else None,
            "memory": max(map(abs, memory)),
            "memory_under": max(0.0, -min(memory))}


def breakdown(results):
    """Where errors come from: the same numbers for the rows that share something."""
    asked = [("schedule " + s, lambda r, s=s: r["schedule"] == s) for s in sorted({r["schedule"] for r in results})]
    asked += [("transport " + t, lambda r, t=t: r["transport"] == t) for t in ("threads", "mpi")]
    asked += [("recompute " + t, lambda r, t=t: r["recompute"] == t) for t in ("none", "all")]
    asked += [("%d x %d threads" % shape, lambda r, shape=shape: (r["workers"], r["threads"]) == shape)
              for shape in sorted({(r["workers"], r["threads"]) for r in results})]
    asked += [(m, lambda r, m=m: r["model"] == m) for m in dict.fromkeys(r["model"] for r in results)]
    asked += [("noise below 3 %", lambda r: (r["noise"] or 99) < 3),
              ("noise of 3 % and more", lambda r: (r["noise"] or 0) >= 3)]
    for name, holds in asked:
        rows = [r for r in results if holds(r)]
        if rows:
            signed = [r["time_error"] for r in rows]
            yield (name, len(rows), statistics.median(signed), statistics.median(map(abs, signed)),
                   quantile(list(map(abs, signed)), 0.95), middle(known_noise(rows)))


def by_turn(results):
    """How restless the computer was: what runs of a turn took over the quickest one of the same row, and their errors."""
    for turn in range(max(len(r["runs_s"]) for r in results)):
        rows = [r for r in results if len(r["runs_s"]) > turn]
        signed = [100 * (r["predictions_s"][turn] / r["runs_s"][turn] - 1) for r in rows]
        yield (str(turn + 1), str(len(rows)), "%.2f" % statistics.median(r["runs_s"][turn] / min(r["runs_s"]) for r in rows),
               "%+.1f %%" % statistics.median(signed), "%.1f %%" % statistics.median(map(abs, signed)),
               "%.1f %%" % quantile(list(map(abs, signed)), 0.95))


HOW = """Written by `./dev bench truth --write`. Every run was planned by `sluice plan` from a profile taken with all workers
busy just before (`sluice profile --busy`), its prediction was on disk before it began, and no constant of the step
time is fitted to runs. %(where)s

- *Predicted* is the plan's `forecast_ns`: the schedule played with every worker as fast, from pass to pass, as the profile
  saw that worker (the `tempo` of its table): a pipeline waits for whoever is slow.
- *Measured* and *predicted* are %(runs)s. Of each run, the median step of its second half, or without a flush (2bw,
  stash) the mean time from step to step there. *Noise* is how far runs are apart, the slowest from the fastest.
- *Error* is the median over turns of what was predicted against what was measured in the same turn: a computer that is half
  as fast for a minute is so for both.
- *Memory* of threads: what the plan says the process needs, against the pages that it held at most less those of the
  empty process. Of ranks: what each foretells before its first step, against the pages it held, all ranks together. What a
  pipeline's process maps beside one worker's (2.5 MiB) and what a rank keeps in small pieces (0.19 MiB) are constants that
  were set from runs of these models and of others.%(bytes)s
- The learning rate is 1e-6: stale weights on made-up data soon diverge, and a CPU takes ten times as long for the
  subnormal numbers that follow; no profile foresees that.
- Errors are in percent of what was measured; positive: the prediction is too high.

"""


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"] + ["| " + " | ".join(r) + " |" for r in rows]


def places(results):
    """Where rows ran: by cores and instructions."""
    count = {}
    for r in results:
        key = (r["workers"] * r["threads"], r.get("isa"), r.get("awake", False))
        count[key] = count.get(key, 0) + 1
    return " ".join("%d rows ran on %d core%s%s%s." % (
        n, cores, "s" if cores > 1 else "", ", which were kept from sleeping between runs (`--awake`)" if awake else "",
        ", with instructions no better than %s (`--isa %s`): the clock of others' load shows less in them" % (isa, isa)
        if isa else "") for (cores, isa, awake), n in sorted(count.items(), key=lambda x: -x[0][0]))


def bytes_apart(results):
    cores = [r["bytes_cores"] for r in results if "bytes_cores" in r]
    return "\n  Those of %d rows were measured apart from the times, one run of each on a computer with %s cores (`--bytes`)." % (
        len(cores), "/".join(map(str, sorted(set(cores))))) if cores else ""


def turns_of(results):
    runs = sorted({len(r["runs_s"]) for r in results})
    if runs[-1] == 1:
        return "of ONE run of every configuration, with a profile and a prediction of its own: a single sitting, in which a\n" \
               "  slow moment of the computer is in one of the two and not in the other"
    return "medians over %s runs of the same configuration and over the predictions made for each of them, from a\n" \
           "  new profile every time; all configurations of a sitting took their first turn before any took its second" % (
               runs[0] if len(runs) == 1 else "%d to %d" % (runs[0], runs[-1]))


def by_action(results):
    """Medians over stages and rows: what actions took in traced runs, against what the table said of them."""
    errors_of = {}
    for r in results:
        for kind, _, said, took in (x for turn in r.get("look", []) for x in turn):
            errors_of.setdefault((r["schedule"], kind), []).append(100 * (said / took - 1) if took else 0.0)
    return [(schedule, kind, str(len(e)), "%+.1f %%" % statistics.median(e),
             "%.1f %%" % statistics.median(map(abs, e))) for (schedule, kind), e in sorted(errors_of.items())]


def write_document(results, failed, path):
    s = summary(results)
    lines = ["# Predicted against measured", ""]
    lines += (HOW % {"where": places(results), "runs": turns_of(results), "bytes": bytes_apart(results)}).splitlines()
    lines += ["**%d configurations%s: error of the step time, median %.1f %%, 95th percentile %.1f %%, worst %.1f %%**"
              % (s["configurations"], " (%d more failed)" % len(failed) if failed else "", s["time_median"],
                 s["time_p95"], s["time_worst"]),
              "(wanted: %.0f %% and %.0f %%). Single runs against their own predictions: median %.1f %%, 95th percentile %.1f %%."
              % (GOALS["time_median"], GOALS["time_p95"], s["single_median"], s["single_p95"]),
              "Counted as on this page before, medians of all predictions of a row against medians of all its runs, whichever turn:"
              " %.1f %% and %.1f %%."
              % (s["apart_median"], s["apart_p95"]),
              "Noise: median %s, 95th percentile %s. Memory: within %.1f %%, at most %.1f %% under"
              % (percent(s["noise_median"]), percent(s["noise_p95"]), s["memory"],
                 s["memory_under"]),
              "(wanted: %.0f %% and %.0f %%)." % (GOALS["memory"], GOALS["memory_under"]), "", "## Errors by cause", ""]
    lines += table(("rows with", "number", "median, signed", "median", "95th percentile", "noise"),
                   [(n, str(c), "%+.1f %%" % m, "%.1f %%" % a, "%.1f %%" % q, percent(x))
                    for n, c, m, a, q, x in breakdown(results)])
    if len(results[0]["runs_s"]) > 1:
        lines += ["", "## Turns", "", "Single runs against the predictions made for them. *Over the quickest*: of the same row; a quiet "
                  "computer has 1.0 in all turns.", ""]
        lines += table(("turn", "rows", "over the quickest", "median, signed", "median", "95th percentile"), by_turn(results))
    even = [100 * (r["even_s"] / r["measured_s"] - 1) for r in results]
    lines += ["", "Had every pass taken its median (the plan's `step_ns`, which planners compare): median %.1f %%, "
              "95th percentile %.1f %%, signed %+.1f %%." % (
                  statistics.median(map(abs, even)), quantile(list(map(abs, even)), 0.95), statistics.median(even))]
    if by_action(results):
        lines += ["", "## Actions of traced runs", ""]
        lines += table(("schedule", "action", "stages", "median, signed", "median"), by_action(results))
    lines += ["", "## All rows", ""]
    lines += table(("model", "workers x threads", "schedule", "micro-batches", "recompute", "transport", "predicted ms",
                    "measured ms", "error", "noise", "memory MiB", "error"),
                   [(r["model"], "%d x %d" % (r["workers"], r["threads"]), r["schedule"], str(r["micro"]), r["recompute"],
                     r["transport"], "%.2f" % (1e3 * r["predicted_s"]), "%.2f" % (1e3 * r["measured_s"]),
                     "%+.1f %%" % r["time_error"], percent(r["noise"]), "%.0f" % (r["predicted_bytes"] / 2**20),
                     "%+.1f %%" % r["memory_error"]) for r in results])
    if failed:
        lines += ["", "Failed: " + "; ".join("`%s`" % f["failed"] for f in failed) + "."]
    with open(path, "w") as file:
        file.write("\n".join(lines) + "\n")
