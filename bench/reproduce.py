"""Runs the claims of PipeDream-2BW, SpecTrain and GraphPipe and writes docs/reproduce.md (see reproduce.sh).

A row is a function in reproduce_rows.py or reproduce_graphpipe.py that runs `sluice` and returns its numbers. The part of the page before the
first row is kept: the tests execute it.
"""
import json
import os
import resource
import shlex
import subprocess
import sys
import tempfile
import time

MARK = "## Claims, figures and tables\n"


class Run:
    """Runs sluice, remembers the commands of the row in work and the answers to all of them."""

    def __init__(self, sluice):
        self.sluice, self.commands, self.known, self.root = os.path.abspath(sluice), [], {}, ""
        self.folder = tempfile.TemporaryDirectory()

    def file(self, name, text):
        """Writes a file that commands of the row read."""
        self.commands.append("printf '%s' >%s" % (text.replace("\n", "\\n"), name))
        with open(os.path.join(self.folder.name, name), "w") as file:
            file.write(text)

    def read(self, name):
        """Lines of a file that a command of the row wrote."""
        with open(os.path.join(self.folder.name, name)) as file:
            return file.read().splitlines()

    def plan(self, words, listed=True):
        """The JSON of `sluice plan WORDS`, with "user_s"; or {"refused": message}."""
        command = "plan " + words
        if listed:
            self.commands.append("sluice " + command)
        if command not in self.known:
            before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
            done = subprocess.run([self.sluice] + shlex.split(command) + ["--json", "--quiet"], capture_output=True, text=True,
                                  cwd=self.folder.name)
            user = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
            if done.returncode == 0:
                answer = json.loads(done.stdout)
            elif done.returncode == 1:
                answer = {"refused": done.stderr.strip().removeprefix("sluice: "), "samples_per_s": 0.0}
            else:
                raise SystemExit("reproduce: sluice %s: exit %d: %s" % (command, done.returncode, done.stderr))
            answer["user_s"] = user
            self.known[command] = answer
        return self.known[command]

    def speed(self, words):
        return self.plan(words)["samples_per_s"]

    def text(self, words):
        """The standard output of `sluice WORDS`."""
        self.commands.append("sluice " + words)
        if words not in self.known:
            self.known[words] = subprocess.run(
                [self.sluice] + shlex.split(words), capture_output=True, text=True, check=True, cwd=self.folder.name).stdout
        return self.known[words]

    def stored(self, page):
        """Lines of a page of docs/results."""
        with open(os.path.join(self.root, "docs", "results", page)) as file:
            return file.read().splitlines()


def cell(text):
    return str(text).replace("|", "\\|").replace("\n", " ")


def page(rows, results, seconds):
    out = [MARK, "Written by `./dev bench reproduce`; `./dev bench reproduce ROW` runs one row again. Times of models are roofline",
           "estimates for the machines that `sluice machine show` describes; every plan is simulated and fits into memory. Convergence rows",
           "read stored results and name their command. Verdicts: *reproduced*, *same shape* (same order or trend, other factor),",
           "*not reproduced*, *not possible here*.", ""]
    counts = {}
    for paper in dict.fromkeys(row["paper"] for row in rows):
        out += ["### " + paper, "", "| row | claim | paper | ours | verdict | reason |", "|---|---|---|---|---|---|"]
        for row in rows:
            if row["paper"] != paper:
                continue
            r = results[row["name"]]
            counts[r["verdict"]] = counts.get(r["verdict"], 0) + 1
            out.append("| " + " | ".join(cell(c) for c in (
                row["name"], row["claim"], row["published"], r["ours"], r["verdict"], r["reason"])) + " |")
        out.append("")
    out += ["%d rows: %s. The last complete run took %d s of processor time." % (
        len(rows), ", ".join("%d %s" % (n, v) for v, n in sorted(counts.items())), seconds), ""]
    for row in rows:
        if results[row["name"]].get("table"):
            out += ["### Table of " + row["name"], ""] + results[row["name"]]["table"] + [""]
    out += ["### Commands", "", "Every `sluice plan` also has `--json`.", ""]
    for row in rows:
        commands = list(dict.fromkeys(results[row["name"]]["commands"]))
        if commands:
            out += ["`%s`" % row["name"], "", "```"] + commands + ["```", ""]
    return "\n".join(out).rstrip("\n") + "\n"


def run_row(run, row):
    run.commands = []
    start = time.monotonic()
    result = row["run"](run)
    result["commands"] = run.commands
    print("%-24s %-18s paper: %s | ours: %s (%.1f s)" % (
        row["name"], result["verdict"], row["published"], result["ours"], time.monotonic() - start), flush=True)
    return result


def main():
    from reproduce_rows import ROWS
    import reproduce_graphpipe  # noqa: F401  adds its rows
    sluice, root, names = sys.argv[1], sys.argv[2], sys.argv[3:]
    write = "--write" in names or not names
    names = [n for n in names if n != "--write"]
    unknown = set(names) - {row["name"] for row in ROWS}
    if unknown:
        raise SystemExit("bench reproduce: no row %s; rows: %s" % (", ".join(sorted(unknown)), " ".join(r["name"] for r in ROWS)))
    run = Run(sluice)
    run.root = root
    results = {row["name"]: run_row(run, row) for row in ROWS if not names or row["name"] in names}
    if names:
        for name in names:
            print("\n".join(results[name]["commands"]))
        return
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    if write:
        path = os.path.join(root, "docs", "reproduce.md")
        with open(path) as file:
            head = file.read().split(MARK)[0]
        with open(path, "w") as file:
            file.write(head + page(ROWS, results, usage.ru_utime + usage.ru_stime))


if __name__ == "__main__":
    main()
