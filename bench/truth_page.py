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
    """The error of each run against its own prediction."""
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
    """Errors of groups of rows with a common property."""
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
    """Variation of the computer's speed: run times of a turn over the fastest run of the same row, and their errors."""
    for turn in range(max(len(r["runs_s"]) for r in results)):
        rows = [r for r in results if len(r["runs_s"]) > turn]
        signed = [100 * (r["predictions_s"][turn] / r["runs_s"][turn] - 1) for r in rows]
        yield (str(turn + 1), str(len(rows)), "%.2f" % statistics.median(r["runs_s"][turn] / min(r["runs_s"]) for r in rows),
               "%+.1f %%" % statistics.median(signed), "%.1f %%" % statistics.median(map(abs, signed)),
               "%.1f %%" % quantile(list(map(abs, signed)), 0.95))


HOW = """Written by `./dev bench truth --write`. `sluice plan` planned every run from a profile that was measured just before with all
workers busy (`sluice profile --busy`). Every prediction was stored before its run started. No constant of the step time is
fitted to runs. %(where)s

- *Predicted* is the plan's `forecast_ns`: the schedule simulated with the measured pass times of every worker (`tempo` of the
  cost table).
- *Measured* and *predicted* are %(runs)s. A run counts with the median step of its second half, or without a flush (2bw, stash)
  with the mean time between steps there. *Noise* is slowest over fastest run.
- *Error* is the median over turns of predicted against measured in the same turn, because the speed of the computer changes
  between turns. It is in percent of the measured value; positive: the prediction is too high.
- *Memory* of threads: predicted by the plan; measured as the maximum of resident pages minus those of the empty process. Of
  ranks: predicted by each rank before its first step; sum over all ranks. Two constants come from runs of these and other
  models: 2.5 MiB per pipeline process and 0.19 MiB per rank.%(bytes)s
- The learning rate is 1e-6: stale weights on synthetic data diverge, and subnormal numbers take a CPU ten times as long.

"""


def table(head, rows):
    return ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"] + ["| " + " | ".join(r) + " |" for r in rows]


def places(results):
    """Number of rows by cores and instruction set."""
    count = {}
    for r in results:
        key = (r["workers"] * r["threads"], r.get("isa"), r.get("awake", False))
        count[key] = count.get(key, 0) + 1
    return " ".join("%d rows ran on %d core%s%s%s." % (
        n, cores, "s" if cores > 1 else "", ", kept busy between runs (`--awake`)" if awake else "",
        ", limited to %s (`--isa %s`), whose speed depends less on other load" % (isa, isa)
        if isa else "") for (cores, isa, awake), n in sorted(count.items(), key=lambda x: -x[0][0]))


def bytes_apart(results):
    cores = [r["bytes_cores"] for r in results if "bytes_cores" in r]
    return "\n  The memory of %d rows was measured separately, one run each on a computer with %s cores (`--bytes`)." % (
        len(cores), "/".join(map(str, sorted(set(cores))))) if cores else ""


def turns_of(results):
    runs = sorted({len(r["runs_s"]) for r in results})
    if runs[-1] == 1:
        return "of ONE run of every configuration with its own profile and prediction; a short slowdown of the computer\n" \
               "  affects only one of them"
    return "medians over %s runs of the same configuration and over their predictions, each from a new\n" \
           "  profile; all configurations ran their first turn before any ran its second" % (
               runs[0] if len(runs) == 1 else "%d to %d" % (runs[0], runs[-1]))


def by_action(results):
    """Medians over stages and rows: measured action times of traced runs against the table."""
    errors_of = {}
    for r in results:
        for kind, _, said, took in (x for turn in r.get("look", []) for x in turn):
            errors_of.setdefault((r["schedule"], kind), []).append(100 * (said / took - 1) if took else 0.0)
    return [(schedule, kind, str(len(e)), "%+.1f %%" % statistics.median(e),
             "%.1f %%" % statistics.median(map(abs, e))) for (schedule, kind), e in sorted(errors_of.items())]


def write_document(results, failed, path):
    s = summary(results)
    lines = ["# Predicted and measured steps", ""]
    lines += (HOW % {"where": places(results), "runs": turns_of(results), "bytes": bytes_apart(results)}).splitlines()
    lines += ["**%d configurations%s: error of the step time, median %.1f %%, 95th percentile %.1f %%, worst %.1f %%**"
              % (s["configurations"], " (%d more failed)" % len(failed) if failed else "", s["time_median"],
                 s["time_p95"], s["time_worst"]),
              "(goals: %.0f %% and %.0f %%). Single runs against their own predictions: median %.1f %%, 95th percentile %.1f %%."
              % (GOALS["time_median"], GOALS["time_p95"], s["single_median"], s["single_p95"]),
              "Median of all predictions of a row against the median of all its runs, regardless of turn:"
              " median %.1f %%, 95th percentile %.1f %%."
              % (s["apart_median"], s["apart_p95"]),
              "Noise: median %s, 95th percentile %s. Memory: within %.1f %%, at most %.1f %% below the measured value"
              % (percent(s["noise_median"]), percent(s["noise_p95"]), s["memory"],
                 s["memory_under"]),
              "(goals: %.0f %% and %.0f %%)." % (GOALS["memory"], GOALS["memory_under"]), "", "## Errors by group", ""]
    lines += table(("rows with", "number", "median, signed", "median", "95th percentile", "noise"),
                   [(n, str(c), "%+.1f %%" % m, "%.1f %%" % a, "%.1f %%" % q, percent(x))
                    for n, c, m, a, q, x in breakdown(results)])
    if len(results[0]["runs_s"]) > 1:
        lines += ["", "## Turns", "", "Single runs against their predictions. *Over the fastest*: relative to the fastest run of the "
                  "same row; 1.0 on a quiet computer.", ""]
        lines += table(("turn", "rows", "over the fastest", "median, signed", "median", "95th percentile"), by_turn(results))
    even = [100 * (r["even_s"] / r["measured_s"] - 1) for r in results]
    lines += ["", "Predicted with median pass times (the plan's `step_ns`, which planners compare): median %.1f %%, "
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
