#!/usr/bin/env python3
"""Mutation test: how many changes of the source does the suite notice?

    ./dev bench mutants [--per-component N] [--seed S] [--seconds T] [--jobs J] [--only COMPONENT]
                        [--survivors] [--sanitize] [--try TEST,...] [--fresh] [--list] [--write]

Copies of the sources contain all mutants; an environment variable selects one (tools/schemata.py). One run of each
candidate test records which mutants it reaches. Then each mutant runs the tests that reach it, the fastest first,
until one fails, ends too late, or all pass: a survivor. Tests run in a process namespace of their own.

--seconds T      stop after T seconds; the next call continues (results are kept in build/mutants)
--survivors      run the survivors again, after new tests, also with further tests
--sanitize       the files with mutants are compiled with AddressSanitizer and UBSan, as in the preset dev
--try TEST,...   these tests on the survivors, whether they reach them or not
--fresh          forget results
--write          docs/results/mutants.md; reasons of survivors are in bench/mutants-survivors.txt
"""

import argparse
import glob
import hashlib
import json
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tools"))
import mutants as operators  # noqa: E402
import schemata  # noqa: E402

COMPONENTS = {
    "verifier": ["src/sched/verify*.c", "src/sched/deps.c", "src/sched/cut.c", "src/sched/order.c",
                 "src/sched/lag.c", "src/sched/shards.c", "src/sched/blocked.c"],
    "versions": ["src/lower/*.c", "src/pipe/step.c", "src/pipe/act.c", "src/pipe/global_step.c",
                 "src/pipe/reduce.c", "src/pipe/scale.c", "src/pipe/staleness.c"],
    "policies": ["src/optim/policy*.c", "src/pipe/policy.c", "src/run/policy.c"],
    "checkpoints": ["src/ckpt/*.c", "src/pipe/store.c", "src/pipe/resume.c"],
    "comm": ["src/comm/comm.c", "src/comm/crew.c", "src/comm/crowd.c", "src/comm/gate.c", "src/comm/job.c",
             "src/comm/key.c", "src/comm/post.c", "src/comm/post_channel.c", "src/comm/post_group.c",
             "src/comm/ring.c", "src/comm/tcp*.c", "src/comm/threads.c"],
    "launch": ["src/launch/*.c", "src/base/spawn.c"],
    "optimizers": ["src/optim/adam.c", "src/optim/lion.c", "src/optim/loss_scale.c", "src/optim/lr.c",
                   "src/optim/muon.c", "src/optim/norm.c", "src/optim/optim.c", "src/optim/sgd.c",
                   "src/optim/spec.c", "src/run/step.c"],
    "cursors": ["src/data/data.c", "src/data/open.c", "src/data/role.c", "src/data/seq.c", "src/run/feed.c",
                "src/run/train.c", "src/run/skip.c"],
}
BINARIES = (r"unit\.(ckpt|comm|cost|data|job|launch|optim|pipe|run|sched|schedules|base|decode|api)\..*|"
            r"table\.(optim|device_optim|cpu_optim_mt|device_2bw|sched_mutants|sched_rows|pipe_models|pipe_eval|"
            r"pipe_virtual_mt|frozen|models)|fuzz_(sched|csv_sched|ckpt_manifest|order|tcp|tcp_auth|tokens|idx|csv|"
            r"jsonl|job)")
SCRIPTS = ["golden/ckpt", "golden/list", "e2e/run_dir", "e2e/run_safety", "e2e/train_resume", "e2e/resume_options",
           "e2e/loss_scale", "e2e/async_resume", "e2e/async_stop", "e2e/sched", "e2e/own_schedule", "e2e/skip",
           "e2e/launch_release", "e2e/launch_end_release", "e2e/hosts_release", "e2e/sshd_release",
           "e2e/attack_release", "e2e/own_ranks_release", "e2e/bad_input", "e2e/tune", "e2e/reshard_release",
           "e2e/watch_release", "e2e/opaque", "e2e/srun_release", "e2e/jsonl", "e2e/faults_release"]
# Survivors also meet these.
MORE = ["golden/sched", "golden/help", "golden/sim", "e2e/run_guards", "e2e/hf", "e2e/hf_export", "e2e/generate",
        "e2e/tensor_parallel", "e2e/pipe_edges", "e2e/plans_run_release", "e2e/moe_release", "e2e/observe",
        "e2e/bf16", "e2e/export", "e2e/commands", "e2e/comfort", "e2e/study", "e2e/json", "e2e/mpi_train_release"]
LONGEST_S = 60  # a test that takes longer is no candidate
SANITIZE = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-ftrivial-auto-var-init=pattern"]
FIRST_S = 60  # tests of a mutant in the first round; --survivors, --try: six times that
# Tests that know the files of a component: they come first.
NEAR = {
    "verifier": r"unit\.sched\.|table\.sched|unit\.schedules|e2e\.sched",
    "versions": r"table\.sched|unit\.sched|unit\.pipe",
    "policies": r"unit\.sched\.policy|unit\.pipe\.(policy|delay|staleness|wide_async|async)|table\.device_2bw",
    "checkpoints": r"unit\.ckpt|e2e\.(run_dir|run_safety|train_resume)|golden\.ckpt|fuzz_ckpt",
    "comm": r"unit\.comm|fuzz_tcp|e2e\.(attack|faults|own_ranks)",
    "launch": r"unit\.launch|e2e\.(launch|hosts|sshd|own_ranks)|fuzz_order",
    "optimizers": r"unit\.optim|table\.(optim|device_optim|cpu_optim)|unit\.run\.scale",
    "cursors": r"unit\.data|fuzz_(tokens|idx|csv|jsonl)|unit\.run",
}


def pattern_of(old):
    """Old text with any white space between its words; group 1 is the part in [[ ]]."""
    parts = re.split(r"\[\[|\]\]", old) if "[[" in old else ["", old, ""]
    words = [r"\s*".join(map(re.escape, re.findall(r"\w+|\S", part))) for part in parts]
    return re.compile(r"\s*".join((words[0], f"({words[1]})", words[2])))


def hand_written():
    for line in (ROOT / "bench/mutants.txt").read_text().splitlines():
        if not line or line.startswith("#"):
            continue
        component, file, old, new = [field.strip().replace("\\|", "|") for field in re.split(r"(?<!\\)\|", line)]
        text = (ROOT / file).read_text()
        statement = old.startswith("-")
        found = list(pattern_of(old.lstrip("-") if statement else old).finditer(text))
        if len(found) != 1:
            raise SystemExit(f"mutants: {len(found)} places in {file} match: {old}")
        start, end = found[0].span(1)
        mutant = schemata.Mutant(file, start, end, new.lstrip("+").strip(), statement, note="by hand")
        yield component, "", mutant


def choose(arguments):
    """[(component, function, mutant)] in a fixed order."""
    chosen = list(hand_written())
    for component, patterns in COMPONENTS.items():
        files = sorted({f for p in patterns for f in glob.glob(p, root_dir=ROOT)})
        files = [f for f in files if not re.search(r"/(mpi|nccl|ipc|post_group_ipc)|_cuda\.c|_no\w+\.c", f)]
        found, names = [], {}
        for file in files:
            for name, operator, mutant in operators.find(file, (ROOT / file).read_text()):
                found.append((name, operator, mutant))
                names[id(mutant)] = name
        rng = random.Random(f"{arguments.seed} {component}")
        for mutant in operators.sample(found, arguments.per_component, rng):
            chosen.append((component, names[id(mutant)], mutant))
    unique, seen = [], set()
    for component, name, mutant in chosen:
        key = (mutant.file, mutant.start, mutant.end, mutant.new)
        if key not in seen:
            seen.add(key)
            mutant.number = len(unique)
            unique.append((component, name, mutant))
    return unique


def squeeze(text):
    return re.sub(r"\s+", " ", text).strip()


def describe(text, mutant):
    """`old` -> `new`, cut to the words around the change."""
    old, new = squeeze(text[mutant.start:mutant.end]), squeeze(mutant.new)
    if mutant.statement and not new:
        return f"`{old}` dropped"
    a = 0
    while a < min(len(old), len(new)) and old[a] == new[a]:
        a += 1
    b = 0
    while b < min(len(old), len(new)) - a and old[-1 - b] == new[-1 - b]:
        b += 1
    a, b = max(0, a - 25), max(0, b - 25)
    return f"`{old[a:len(old) - b]}` -> `{new[a:len(new) - b]}`"


class Suite:
    def __init__(self, work, arguments):
        self.work, self.jobs, self.arguments = work, arguments.jobs, arguments
        self.build = pathlib.Path(os.environ["BUILD_DIR"])
        self.tests = {}  # name: command
        self.can_isolate = subprocess.run(["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "true"],
                                          capture_output=True, check=False).returncode == 0
        if not self.can_isolate:
            raise SystemExit("mutants: needs process namespaces (unshare --pid, as root): a mutant of the launcher "
                             "may signal any process")

    def link(self, build):
        bin_ = self.work / "bin"
        bin_.mkdir(exist_ok=True)
        build.link_program(bin_ / "sluice")
        names = sorted(p.name for p in (self.build / "tests").iterdir() if re.fullmatch(BINARIES, p.name))
        build.link_test("tests/" + names[0], bin_ / names[0])  # makes the archive
        with ThreadPoolExecutor(self.jobs) as pool:
            list(pool.map(lambda n: build.link_test("tests/" + n, bin_ / n), names))
        for name in names:
            corpus = [str(ROOT / "tests/fuzz/corpus" / name[5:])] if name.startswith("fuzz_") else []
            self.tests[name] = [str(bin_ / name), *corpus]
        more = MORE if self.arguments.survivors or self.arguments.tries else []
        for script in SCRIPTS + more:
            if (ROOT / "tests" / (script + ".sh")).exists():
                self.tests[script.replace("/", ".")] = ["bash", str(ROOT / "tests" / (script + ".sh"))]
        for module in self.build.glob("libsluice_*.so"):
            link = bin_ / module.name
            link.unlink(missing_ok=True)
            link.symlink_to(module)

    def run(self, test, timeout, number=None, seen=None):
        """passed, failed, late or skipped; seconds"""
        env = schemata.environment(number, seen)
        env.update(SLUICE=str(self.work / "bin/sluice"), SRC_DIR=str(ROOT), BUILD_DIR=str(self.build),
                   SL_PRESET="release", TMPDIR=str(self.work / "tmp"),
                   ASAN_OPTIONS="detect_stack_use_after_return=1:strict_string_checks=1:allocator_may_return_null=1")
        argv = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc", *self.tests[test]]
        start = time.monotonic()
        process = subprocess.Popen(argv, env=env, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL, start_new_session=True,
                                   preexec_fn=limit_files if self.arguments.sanitize else limit)
        try:
            status = process.wait(timeout)
            result = {0: "passed", 77: "skipped"}.get(status, "failed")
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            result = "late"
        return result, time.monotonic() - start


def limit():
    limit_files()
    resource.setrlimit(resource.RLIMIT_AS, (24 << 30, 24 << 30))


def limit_files():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 30, 4 << 30))


def try_tests(suite, tests, count):
    """As record_coverage, for tests that are run on every mutant; they pass without one."""
    rows = {}
    for test in tests:
        result, seconds = suite.run(test, 4 * LONGEST_S)
        if result != "passed":
            raise SystemExit(f"mutants: {test}: {result} without a mutant")
        rows[test] = (seconds, range(count))
    return rows


def record_coverage(suite):
    """test: (seconds, numbers of the mutants that it reaches)"""
    seen_dir = suite.work / "seen"
    seen_dir.mkdir(exist_ok=True)

    def one(test):
        seen = seen_dir / test
        seen.write_bytes(bytes(schemata.SIZE))
        result, seconds = suite.run(test, 4 * LONGEST_S, None, seen)
        numbers = [i for i, b in enumerate(seen.read_bytes()) if b]
        if result != "passed" or seconds > LONGEST_S:
            print(f"mutants: without {test}: {result} after {seconds:.1f} s", flush=True)
            return test, None
        return test, (seconds, numbers)

    with ThreadPoolExecutor(suite.jobs) as pool:
        return {test: row for test, row in pool.map(one, suite.tests) if row}


class Bench:
    def __init__(self, arguments, chosen, suite, work):
        self.arguments, self.chosen, self.suite = arguments, chosen, suite
        self.state_path = work / "results.json"
        self.results = {}
        if self.state_path.exists() and not arguments.fresh:
            self.results = json.loads(self.state_path.read_text())
        self.coverage, self.lock = {}, threading.Lock()
        self.record = {}  # test: (mutants that it met, mutants that it killed)
        self.texts = {m.file: (ROOT / m.file).read_text() for _, _, m in chosen}

    def key(self, component, name, mutant):
        old = squeeze(self.texts[mutant.file][mutant.start:mutant.end])
        words = f"{mutant.file}|{name}|{old}|{squeeze(mutant.new)}"
        return hashlib.sha256(words.encode()).hexdigest()[:16]

    def reaching(self, component, mutant):
        """(seconds, test), the most promising first: short, near, and killers of other mutants."""
        def cost(row):
            tried, kills = self.record.get(row[1], (0, 0))
            near = 8 if re.match(NEAR[component], row[1]) else 1
            return (row[0] + 0.3) / ((kills + 0.3) / (tried + 2) * near)

        tests = [(row[0], test) for test, row in self.coverage.items() if mutant.number in row[1]]
        return sorted(tests, key=cost)

    def judge(self, row):
        component, name, mutant = row
        tests, spent = self.reaching(component, mutant), 0.0
        budget = 6 * FIRST_S if self.arguments.survivors or self.arguments.tries else FIRST_S
        result = {"state": "survived", "tests": len(tests), "by": "", "cut": False}
        for seconds, test in tests:
            if spent > budget:
                result["cut"] = True
                break
            state, took = self.suite.run(test, 10 * seconds + 10, mutant.number)
            spent += took
            tried, kills = self.record.get(test, (0, 0))
            self.record[test] = (tried + 1, kills + (state in ("failed", "late")))
            if state in ("failed", "late"):
                result.update(state="killed", by=test + (" (late)" if state == "late" else ""))
                break
        if not tests:
            result["state"] = "unreached"
        result["seconds"] = round(spent, 1)
        with self.lock:
            self.results[self.key(*row)] = result
            self.state_path.write_text(json.dumps(self.results, indent=1))
        if result["state"] != "killed":
            print(f"{result['state']}: {component} {mutant.file}:{self.line(mutant)} {name}: "
                  f"{describe(self.texts[mutant.file], mutant)}", flush=True)

    def line(self, mutant):
        return self.texts[mutant.file].count("\n", 0, mutant.start) + 1

    def todo(self):
        for row in self.chosen:
            if self.arguments.only and row[0] != self.arguments.only:
                continue
            old = self.results.get(self.key(*row))
            again = self.arguments.survivors or self.arguments.tries
            same = self.reasons().get(self.key(*row), "").startswith("equivalent")
            if not old or (again and old["state"] != "killed" and not same):
                yield row

    def run(self):
        end = time.monotonic() + self.arguments.seconds
        rows = list(self.todo())
        random.Random(1).shuffle(rows)
        with ThreadPoolExecutor(self.suite.jobs) as pool:
            list(pool.map(lambda row: self.judge(row) if time.monotonic() < end else None, rows))

    def reasons(self):
        path, reasons = ROOT / "bench/mutants-survivors.txt", {}
        for line in path.read_text().splitlines() if path.exists() else []:
            key, _, reason = line.partition(" ")
            reasons[key] = reason
        return reasons

    def report(self, out):
        reasons, total = self.reasons(), [0, 0, 0]
        rows = []
        for component in COMPONENTS:
            mine = [(r, self.results.get(self.key(*r))) for r in self.chosen if r[0] == component]
            done = [(r, x) for r, x in mine if x]
            killed = sum(x["state"] == "killed" for _, x in done)
            same = sum(x["state"] != "killed" and reasons.get(self.key(*r), "").startswith("equivalent")
                       for r, x in done)
            total = [total[0] + len(done), total[1] + killed, total[2] + same]
            rows.append((component, len(done), killed, same))
        rows.append(("all", *total))
        for name, count, killed, same in rows:
            share = 100 * killed / count if count else 0
            rest = 100 * killed / (count - same) if count > same else 0
            print(f"RESULT bench=mutants component={name} mutants={count} killed={killed} share={share:.1f} "
                  f"equivalent={same} share_without_equivalent={rest:.1f}", file=out)
        return rows


PAGE = """# Mutants

`./dev bench mutants` changes the source and counts how many changes the suite notices. A mutant is one changed operator or constant, or
one dropped check, call or assignment. It is killed if a test fails or does not end.

{count} mutants, {hand} of them by hand (`bench/mutants.txt`: mutants that survived an earlier review), the others drawn with seed {seed},
{each} per component. All sources with mutants are compiled once; an environment variable selects the mutant. Tests that reach it run, the
fastest first. Functions that remove files are not changed, nor memory release, messages and assertions. Mutants that
survived were tried again with the files under AddressSanitizer and UBSan, as in the preset `dev`.

At the first run 280 of 333 were killed (84.1 %). The tests that were missing are there now.

| component | mutants | killed | share | equivalent | share of the others |
|---|---|---|---|---|---|
{table}

## Survivors

"equivalent": no input shows a difference. The others are differences that no test sees, with the reason.

| place | change | reason |
|---|---|---|
{survivors}
"""


def page(bench, arguments):
    rows = bench.report(sys.stdout)
    reasons = bench.reasons()
    table = "\n".join(f"| {n} | {c} | {k} | {100 * k / c if c else 0:.1f} % | {s} | "
                      f"{100 * k / (c - s) if c > s else 0:.1f} % |" for n, c, k, s in rows)
    survivors = []
    for row in bench.chosen:
        x = bench.results.get(bench.key(*row))
        if x and x["state"] != "killed":
            reason = reasons.get(bench.key(*row), "no test sees it")
            change = describe(bench.texts[row[2].file], row[2]).replace("|", "\\|")
            survivors.append(f"| {row[2].file[4:]}, {row[1]} | {change} | {reason} |")
    text = PAGE.format(count=rows[-1][1], hand=sum(m.note == "by hand" for _, _, m in bench.chosen),
                       seed=arguments.seed, each=arguments.per_component, table=table,
                       survivors="\n".join(survivors))
    (ROOT / "docs/results/mutants.md").write_text(text)


def main():
    parser = argparse.ArgumentParser(prog="./dev bench mutants")
    parser.add_argument("--per-component", type=int, default=40)
    parser.add_argument("--seed", type=int, default=31)
    parser.add_argument("--seconds", type=float, default=1e9)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only")
    parser.add_argument("--try", dest="tries", default="")
    for flag in ("survivors", "sanitize", "fresh", "list", "write"):
        parser.add_argument("--" + flag, action="store_true")
    arguments = parser.parse_args()
    work = ROOT / "build/mutants"
    work.mkdir(parents=True, exist_ok=True)
    chosen = choose(arguments)
    bench = Bench(arguments, chosen, None, work)
    if arguments.sanitize:
        work = work / "sanitize"
        work.mkdir(exist_ok=True)
    if arguments.list:
        for component, name, mutant in chosen:
            print(bench.key(component, name, mutant), component, f"{mutant.file}:{bench.line(mutant)}", name,
                  describe(bench.texts[mutant.file], mutant),
                  bench.results.get(bench.key(component, name, mutant), {}).get("state", "-"))
        return
    if arguments.write:
        page(bench, arguments)
        return
    missing = schemata.Build.missing(os.environ["BUILD_DIR"])
    if missing:
        raise SystemExit(f"mutants: {missing} is missing")
    shutil.rmtree(work / "tmp", ignore_errors=True)
    (work / "tmp").mkdir()
    suite = bench.suite = Suite(work, arguments)
    by_file = {}
    for _, _, mutant in chosen:
        by_file.setdefault(mutant.file, []).append(mutant)
    build = schemata.Build(os.environ["BUILD_DIR"], work, SANITIZE if arguments.sanitize else [])
    build.compile({f: schemata.render((ROOT / f).read_text(), ms) for f, ms in by_file.items()}, arguments.jobs)
    suite.link(build)
    stamp = hashlib.sha256("".join(bench.key(*r) for r in chosen).encode()).hexdigest()
    path = work / "coverage.json"
    kept = json.loads(path.read_text()) if path.exists() else {}
    if arguments.tries:
        bench.coverage = try_tests(suite, arguments.tries.split(","), len(chosen))
    elif kept.get("stamp") == stamp and not arguments.survivors:
        bench.coverage = kept["tests"]
    else:
        bench.coverage = record_coverage(suite)
        path.write_text(json.dumps({"stamp": stamp, "tests": bench.coverage}))
    print(f"mutants: {len(chosen)}, {len(bench.coverage)} tests", flush=True)
    bench.run()
    bench.report(sys.stdout)


if __name__ == "__main__":
    main()
