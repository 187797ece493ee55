#!/usr/bin/env python3
"""Rebuilds the bugs of zoo.txt and shows which checker of Sluice catches them.

    zoo.py BUILD WORK [NAME...]     one line per bug: caught, or MISSED; exit status 1 if one is missed
    zoo.py --page                   docs/bugs-caught.md on standard output

Edits of a file, each of which must find exactly one line (a CSV: cell) that begins with A, in the list of worker W
(W.SEGMENT: in its prologue, period or epilogue; without W: anywhere):

    sub W: A => B      drop W: A      insert W: B => A     swap W: A => B     after W: A => B (A moves behind B)
    copy W: A => B (a copy of A behind B)
"""

import pathlib
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import schemata  # noqa: E402

TIMEOUT_S = 120


class Bug:
    def __init__(self, name):
        self.name, self.thread, self.bug, self.by, self.says = name, "", "", "", ""
        self.steps, self.edits, self.healthy, self.patches = [], [], [], []
        self.make = self.instead = None
        self.number = -1


def read_zoo(text):
    bugs, lets, bug = [], {}, None
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        if line.startswith("let "):
            name, _, value = line[4:].partition(" = ")
            lets["$" + name] = value
        elif line.startswith("["):
            bug = Bug(line[1:-1])
            bugs.append(bug)
        elif line[0] in "-+":
            add_patch_line(bug, line)
        else:
            add_field(bug, line, lets)
    return bugs


def add_patch_line(bug, line):
    expression = line[1] == "e"
    bug.patches[-1]["expression"] = expression
    bug.patches[-1]["old" if line[0] == "-" else "new"].append(line[2 + expression:])


def add_field(bug, line, lets):
    key, _, value = line.partition(": ")
    value = re.sub(r"\$\w+", lambda m: lets[m.group()], value)
    if key in ("thread", "bug", "by", "says", "make", "instead"):
        setattr(bug, key, value)
    elif key == "edit":
        bug.edits.append(value)
    elif key == "healthy":
        bug.healthy.append(value)
    elif key == "patch":
        bug.patches.append({"file": value, "old": [], "new": []})
    elif key in ("ok", "with", "run", "cut", "take", "flip", "truncate"):
        bug.steps.append((key, value))
    else:
        raise ValueError(f"{bug.name}: no such field: {key}")


# ---- edits ----

class Lines:
    """A schedule or plan as lines with the places that they belong to."""

    def __init__(self, path):
        self.csv = path.suffix == ".csv"
        text = path.read_text()
        if self.csv:
            self.rows = [row.split(",") for row in text.splitlines()]
            self.at = [[str(w), cell] for w, row in enumerate(self.rows) for cell in row]
        else:
            self.at, place = [], ""
            for line in text.splitlines():
                if line.startswith("worker "):
                    place = line.split()[1]
                elif line in ("prologue", "period", "epilogue"):
                    place = place.split(".")[0] + "." + line
                self.at.append([place, line])

    def text(self):
        if not self.csv:
            return "".join(line + "\n" for _, line in self.at)
        rows = [[cell for w, cell in self.at if w == str(r)] for r in range(len(self.rows))]
        return "".join(",".join(row) + "\n" for row in rows)

    def find(self, where, words):
        found = [i for i, (place, line) in enumerate(self.at)
                 if (line == words or line.startswith(words + " ")) and
                 (not where or place == where or place.startswith(where + "."))]
        if len(found) != 1:
            raise ValueError(f"{len(found)} lines '{words}' in '{where}'")
        return found[0]

    def edit(self, edit):
        head, _, rest = edit.partition(": ")
        kind, _, where = head.partition(" ")
        a, _, b = rest.partition(" => ")
        if kind == "sub":
            self.at[self.find(where, a)][1] = b
        elif kind == "drop":
            del self.at[self.find(where, a)]
        elif kind == "insert":
            i = self.find(where, b)
            self.at.insert(i + 1, [self.at[i][0], a])
        elif kind == "swap":
            i, j = self.find(where, a), self.find(where, b)
            self.at[i][1], self.at[j][1] = self.at[j][1], self.at[i][1]
        elif kind == "after":
            row = self.at.pop(self.find(where, a))
            self.at.insert(self.find(where, b) + 1, row)
        elif kind == "copy":
            row = list(self.at[self.find(where, a)])
            self.at.insert(self.find(where, b) + 1, row)
        else:
            raise ValueError(f"no such edit: {edit}")


# ---- patches ----

def squeeze(text):
    return re.sub(r"\s+", " ", text).strip()


def find_patch(text, patch):
    """Offsets of the old text, whatever its white space."""
    words = squeeze("\n".join(patch["old"])).split(" ")
    found = list(re.finditer(r"\s+".join(map(re.escape, words)), text))
    if len(found) != 1:
        raise SystemExit(f"zoo: {patch['file']} has changed: {len(found)} places match a patch of zoo.txt, write it "
                         f"anew: {' '.join(words)}")
    return found[0].span()


def mutants_of(bugs):
    files, number = {}, 0
    for bug in bugs:
        for patch in bug.patches:
            text = (ROOT / patch["file"]).read_text()
            start, end = find_patch(text, patch)
            bug.number = number
            new = " ".join(line.strip() for line in patch["new"])
            files.setdefault(patch["file"], []).append(
                schemata.Mutant(patch["file"], start, end, new, not patch["expression"], number))
        number += bool(bug.patches)
    return {file: schemata.render((ROOT / file).read_text(), list_) for file, list_ in files.items()}


# ---- running ----

class Zoo:
    def __init__(self, build, work):
        self.work = pathlib.Path(work)
        self.plain = pathlib.Path(build).resolve() / "sluice"
        self.program = self.work / "sluice"
        self.build = build

    def compile(self, bugs):
        build = schemata.Build(self.build, self.work / "build")
        build.compile(mutants_of(bugs))
        build.link_program(self.program)

    def call(self, arguments, folder, number=None):
        program = self.plain if number is None else self.program
        try:
            return subprocess.run([program, *shlex.split(arguments)], cwd=folder, capture_output=True,
                                  text=True, check=False, timeout=TIMEOUT_S, stdin=subprocess.DEVNULL,
                                  env=schemata.environment(number))
        except subprocess.TimeoutExpired:
            return subprocess.CompletedProcess(arguments, 124, "", "no end within the time limit")

    def must(self, arguments, folder, number=None):
        run = self.call(arguments, folder, number)
        if run.returncode:
            raise ValueError(f"fails without the bug: {arguments}: {(run.stderr or run.stdout).strip()}")

    def folder(self, bug, which):
        folder = self.work / "bugs" / bug.name / which
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        for name in ("tied.plan", "wide.plan", "steep.model"):
            shutil.copy(HERE / name, folder)
        return folder

    def prepare(self, bug, folder, sick):
        """The file of a schedule or plan, edited or not."""
        make = bug.instead if sick and bug.instead else bug.make
        name = "x.csv" if make and "-o x.csv" in make else "x.sched"
        if make:
            self.must(make if "-o " in make else make + " -o x.sched", folder)
        for key, value in bug.steps:
            if key == "take":
                name = "x.plan"
                shutil.copy(folder / value, folder / name)
        lines = Lines(folder / name) if bug.edits else None
        for edit in bug.edits if sick else bug.healthy:
            lines.edit(edit)
        if lines:
            (folder / name).write_text(lines.text())

    def damage(self, key, value, folder):
        path = folder / value.split()[0]
        if key == "cut":  # RUN COPY STEP: a copy of a run that ended after STEP
            run, copy, step = value.split()
            shutil.copytree(folder / run, folder / copy)
            for old in (folder / copy / "ckpt").glob("step-*"):
                if int(old.name[5:]) > int(step):
                    shutil.rmtree(old)
            return
        data = bytearray(path.read_bytes())
        if key == "flip":
            data[len(data) * 3 // 4] ^= 4
        else:
            del data[len(data) * 3 // 4:]
        path.write_bytes(data)

    def play(self, bug, which):
        """The run of the last command that failed, or None."""
        folder, sick = self.folder(bug, which), which == "sick"
        number = bug.number if bug.patches and sick else None
        prepared = False
        for key, value in bug.steps:
            if key == "ok":
                self.must(value, folder)
            elif key in ("flip", "truncate") and not sick:
                continue
            elif key in ("cut", "flip", "truncate"):
                self.damage(key, value, folder)
            elif key in ("with", "run"):
                if not prepared:
                    self.prepare(bug, folder, sick)
                prepared = True
                run = self.call(value, folder, number if number is not None else -1 if bug.patches else None)
                if run.returncode:
                    return run
        return None

    def try_bug(self, bug):
        """(caught, words)"""
        try:
            well = self.play(bug, "well") if bug.name != "other-data-on-resume" else None
            if well:
                return False, "the program without the bug fails: " + first_line(well)
            sick = self.play(bug, "sick")
        except (ValueError, OSError) as error:
            return False, f"broken: {error}"
        if not sick:
            return False, "no checker said anything"
        said = sick.stderr + sick.stdout
        if sick.returncode < 0 or sick.returncode == 124 or bug.says not in said:
            return False, f"exit status {sick.returncode}: {first_line(sick)}"
        return True, first_line(sick)


def first_line(run):
    lines = [line for line in (run.stderr + "\n" + run.stdout).splitlines() if line.strip()]
    return lines[0][:200] if lines else ""


def page(bugs, first):
    out = [(HERE / "page.md").read_text().rstrip(), "", "| bug | thread | caught by | at first |", "|---|---|---|---|"]
    for bug in bugs:
        repository, number = bug.thread.split("#")
        link = f"[{bug.thread}](https://github.com/{repository}/issues/{number})"
        out.append(f"| {bug.bug} | {link} | `{bug.by}` | {'missed' if bug.name in first else 'yes'} |")
    return "\n".join(out) + "\n"


def main(argv):
    bugs = read_zoo((HERE / "zoo.txt").read_text())
    if argv[1:] == ["--page"]:
        first = (HERE / "missed_at_first.txt").read_text().split()
        sys.stdout.write(page(bugs, first))
        return 0
    build, work, names = argv[1], argv[2], argv[3:]
    missing = schemata.Build.missing(build)
    if missing:
        print(f"skipped: {missing} is missing")
        return 77
    zoo = Zoo(build, work)
    zoo.compile(bugs)
    chosen = [bug for bug in bugs if not names or bug.name in names]
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(zoo.try_bug, chosen))
    for bug, (caught, words) in zip(chosen, results):
        print(f"{'caught' if caught else 'MISSED'} {bug.name} ({bug.by}): {words}")
    caught = sum(c for c, _ in results)
    print(f"count: {caught} of {len(chosen)} bugs caught")
    return 0 if caught == len(chosen) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv))
