"""Types into an interactive shell on a terminal of its own, with the tab key, and runs what comes out.

usage: type_in_shell.py SCRIPT SHELL...; lines of SCRIPT: what is typed before the tab key, what the line
must have become, what is typed behind it, what must be printed then; parted by tabs. The first line is
the set-up, as it is.
"""

import os
import pty
import re
import select
import sys
import time

PATIENCE_S = 120  # a loaded machine, a sanitizer
MARK = "ready>"


class Shell:
    def __init__(self, argv):
        self.pid, self.terminal = pty.fork()
        if self.pid == 0:
            os.environ.update(TERM="dumb", COLUMNS="200")
            os.execvp(argv[0], argv)
        self.seen = ""

    def type(self, text):
        self.seen = ""
        os.write(self.terminal, text.encode())

    def wait(self, expected, what):
        end = time.monotonic() + PATIENCE_S
        while expected not in self.seen:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.terminal], [], [], left)[0]:
                raise SystemExit(f"FAILED: {what}: no {expected!r} in {self.seen!r}")
            try:
                got = os.read(self.terminal, 65536)
            except OSError:
                got = b""
            if not got:
                raise SystemExit(f"FAILED: {what}: the shell has ended: {self.seen!r}")
            self.seen += re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r|\x07|\x1b[=>]", "", got.decode(errors="replace"))

    def close(self):
        os.write(self.terminal, b"\x03\nexit\n")
        os.close(self.terminal)
        os.waitpid(self.pid, 0)


def main():
    setup, *lines = open(sys.argv[1]).read().splitlines()
    shell = Shell(sys.argv[2:])
    shell.type(setup + f"; PS1='{MARK[:3]}''{MARK[3:]} '\n")
    shell.wait(MARK, "the prompt")
    for line in lines:
        before, became, behind, printed = line.split("\t")
        shell.type(before + "\t")
        shell.wait(became, f"{before}<tab>")
        shell.type(behind + "\n")
        shell.wait(printed, became + behind)
        if MARK not in shell.seen.split(printed, 1)[1]:
            shell.wait(MARK, "the prompt again")
    shell.close()
    print(f"{os.path.basename(sys.argv[2])}: {len(lines)} lines typed")


main()
