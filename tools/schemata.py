"""Mutant schemata: copies of sources that contain all mutants at once.

    Mutant(file, start, end, new, statement)   replaces code[start:end]
    render(text, mutants)                      the copy; the environment variable SL_MUTANT selects a mutant
    Build(build, work)                         compiles copies and links programs with the commands of the build

SL_MUTANT_SEEN names a file of SIZE bytes. A process sets byte N when it reaches mutant N, also when it is
killed later.
"""

import dataclasses
import json
import os
import pathlib
import shlex
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor

SIZE = 16384

RUNTIME = """#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int sl_mutant_on = -1;
unsigned char *sl_mutant_seen;
__attribute__((constructor)) static void begin(void) {
    const char *on = getenv("SL_MUTANT"), *seen = getenv("SL_MUTANT_SEEN");
    sl_mutant_on = on ? atoi(on) : -1;
    int fd = seen ? open(seen, O_RDWR | O_CLOEXEC) : -1;
    if (fd < 0)
        return;
    void *at = mmap(0, %d, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    sl_mutant_seen = at == MAP_FAILED ? 0 : at;
    close(fd);
}
""" % SIZE

PROLOGUE = """extern int sl_mutant_on;
extern unsigned char *sl_mutant_seen;
static inline int sl_mutant(int n) {
    if (sl_mutant_seen)
        sl_mutant_seen[n] = 1;
    return n == sl_mutant_on;
}
#line 1 "%s"
"""


@dataclasses.dataclass
class Mutant:
    file: str
    start: int
    end: int
    new: str  # "" for a statement: dropped
    statement: bool
    number: int = -1
    note: str = ""


def render(text, mutants):
    """Ranges are nested or apart. A mutant replaces the original text of its range."""
    groups = {}
    for m in mutants:
        groups.setdefault((m.start, -m.end, not m.statement), []).append(m)
    order = sorted(groups)

    def span(first, last, at):  # text[first:last] with the groups order[at:] inside it
        out, pos = [], first
        while at < len(order) and order[at][0] < last:
            start, end = order[at][0], -order[at][1]
            out.append(text[pos:start])
            inner, after = span(start, end, at + 1)
            out.append(choose(groups[order[at]], inner))
            pos, at = end, after
        out.append(text[pos:last])
        return "".join(out), at

    return span(0, len(text), 0)[0]


def choose(group, inner):
    if group[0].statement:
        text = "".join(f"if (sl_mutant({m.number})) {{ {m.new} }} else " for m in group)
        return f"{{ {text}{{ {inner} }} }}"
    text = "".join(f"sl_mutant({m.number}) ? ({m.new}) : " for m in group)
    return f"({text}({inner}))"


class Build:
    """Programs with the mutants in them, from a finished build."""

    def __init__(self, build, work, flags=()):
        """flags: further ones for the compiler and the linker."""
        self.flags = list(flags)
        self.build, self.work = pathlib.Path(build), pathlib.Path(work)
        commands = json.loads((self.build / "compile_commands.json").read_text())
        self.root = pathlib.Path(__file__).resolve().parent.parent
        self.commands = {c["file"]: c["command"] for c in commands if "sluice_objects" in c["command"]}
        self.objects = {}  # object in the build: object with mutants
        self.archive = None

    @staticmethod
    def missing(build):
        """What the machine lacks, or None."""
        for tool in ("cc", "ar", "ninja"):
            if not shutil.which(tool):
                return tool
        for name in ("compile_commands.json", "build.ninja", "sluice"):
            if not (pathlib.Path(build) / name).exists():
                return name
        return None

    def compile(self, copies, jobs=2):
        """copies: file relative to the root -> text."""
        self.work.mkdir(parents=True, exist_ok=True)
        (self.work / "mutant.c").write_text(RUNTIME)
        self._run(["cc", "-O1", "-c", "mutant.c", "-o", "mutant.o"])
        tasks = [self._task(file, text) for file, text in sorted(copies.items())]
        with ThreadPoolExecutor(jobs) as pool:
            list(pool.map(lambda argv: self._run(argv, self.build), tasks))

    def _task(self, file, text):
        source = self.work / "src" / pathlib.Path(file).relative_to("src")
        source.parent.mkdir(parents=True, exist_ok=True)
        new = PROLOGUE % file + text
        if not source.exists() or source.read_text() != new:
            source.write_text(new)
        argv = shlex.split(self.commands[str(self.root / file)])
        old, out = argv[argv.index("-o") + 1], str(source) + ".o"
        self.objects[old] = out
        argv = argv[:argv.index("-o")] + ["-O1", "-g0", "-w", *self.flags, "-I" + str((self.root / file).parent),
                                          "-o", out, "-c", str(source)]
        if "ccache" not in argv[0] and shutil.which("ccache"):
            argv.insert(0, "ccache")
        return [a for a in argv if a != "-Werror"]

    def _run(self, argv, cwd=None):
        run = subprocess.run(argv, cwd=cwd or self.work, capture_output=True, text=True, check=False)
        if run.returncode:
            raise RuntimeError(f"{argv[0]} ... {argv[-1]}:\n{run.stderr[-4000:]}")
        return run.stdout

    def _link_command(self, target):
        lines = self._run(["ninja", "-t", "commands", target], self.build).splitlines()
        return [a for a in shlex.split(lines[-1]) if a not in (":", "&&")]

    def link_program(self, out):
        """The program `sluice`."""
        argv = [self.objects.get(a, a) for a in self._link_command("sluice")]
        argv[argv.index("-o") + 1] = str(out)
        self._run(argv + [str(self.work / "mutant.o"), *self.flags], self.build)

    def link_test(self, target, out):
        if not self.archive:
            objects = [a for a in self._link_command("sluice") if a.endswith(".o")]
            objects = [self.objects.get(a, a) for a in objects if "sluice_cli.dir" not in a]
            self.archive = str(self.work / "libsluice_internal.a")
            pathlib.Path(self.archive).unlink(missing_ok=True)
            self._run(["ar", "qcs", self.archive, *objects, str(self.work / "mutant.o")], self.build)
        argv = [self.archive if a.endswith("libsluice_internal.a") else a
                for a in self._link_command(target)]
        argv[argv.index("-o") + 1] = str(out)
        self._run(argv + self.flags, self.build)


def environment(number=None, seen=None):
    env = dict(os.environ)
    env.pop("SL_MUTANT", None)
    env.pop("SL_MUTANT_SEEN", None)
    if number is not None:
        env["SL_MUTANT"] = str(number)
    if seen:
        env["SL_MUTANT_SEEN"] = str(seen)
    return env
