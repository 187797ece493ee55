"""Runs a command on a terminal of its own and prints what is on the screen at the end.

usage: dashboard.py COLUMNS ROWS COMMAND...; with SHOT=FILE.svg the screen is drawn too.
"""

import fcntl
import html
import os
import pty
import re
import struct
import sys
import termios

COLUMNS, ROWS = int(sys.argv[1]), int(sys.argv[2])


class Screen:
    """As much of a terminal as we use: \\r \\n, cursor up, erase line and below, colours."""

    def __init__(self):
        self.lines, self.row, self.column, self.paint = [{}], 0, 0, ""
        self.wrapped = 0

    def put(self, char):
        if self.column >= COLUMNS:
            self.wrapped += 1
            self.column = 0
            self.down()
        self.lines[self.row][self.column] = (char, self.paint)
        self.column += 1

    def down(self):
        self.row += 1
        while len(self.lines) <= self.row:
            self.lines.append({})

    def escape(self, numbers, letter):
        if letter == "m":
            self.paint = "" if numbers in ("", "0") else numbers
        elif letter == "A":
            top = max(0, len(self.lines) - ROWS)
            self.row = max(top, self.row - int(numbers or 1))
        elif letter in "KJ":
            line = self.lines[self.row]
            for column in [c for c in line if c >= self.column]:
                del line[column]
            if letter == "J":
                del self.lines[self.row + 1:]
        else:
            raise SystemExit(f"FAILED: unknown escape {numbers}{letter}")

    def feed(self, text):
        for match in re.finditer(r"\x1b\[([0-9;]*)([A-Za-z])|(\r)|(\n)|(.)", text):
            numbers, letter, back, down, char = match.groups()
            if letter:
                self.escape(numbers, letter)
            elif back:
                self.column = 0
            elif down:
                self.down()
            else:
                self.put(char)

    def text(self):
        return ["".join(line.get(c, (" ",))[0] for c in range(max(line, default=-1) + 1)).rstrip()
                for line in self.lines]

    @staticmethod
    def runs(line):
        """(column, text, paint) of neighbours that are painted alike; two blanks end a run."""
        found = []
        for x, (char, paint) in sorted(line.items()):
            last = found[-1] if found else None
            if last and last[0] + len(last[1]) == x and last[2] == paint and not (last[1] + char).endswith("  "):
                last[1] += char
            else:
                found.append([x, char, paint])
        return found

    def svg(self, rows):
        def colour(code, ground):
            found = re.search(ground + r";5;(\d+)", code)
            if not found:
                return None
            n = int(found.group(1))
            if n >= 232:
                level = 8 + 10 * (n - 232)
                return f"#{level:02x}{level:02x}{level:02x}"
            steps = [0, 95, 135, 175, 215, 255]
            n -= 16
            return "#%02x%02x%02x" % (steps[n // 36], steps[n // 6 % 6], steps[n % 6])
        lines = self.lines[-rows:]
        out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {COLUMNS * 8 + 16} {len(lines) * 17 + 16}" '
               f'font-family="DejaVu Sans Mono,Menlo,Consolas,monospace" font-size="13">'
               f'<rect width="100%" height="100%" rx="6" fill="#14171c"/>']
        for y, line in enumerate(lines):
            for x, text, paint in self.runs(line):
                back, wide = colour(paint, "48"), 8 * len(text)
                if back:
                    out.append(f'<rect x="{8 + x * 8}" y="{8 + y * 17}" width="{wide}.2" height="15" fill="{back}"/>')
                if text.strip():
                    ink = colour(paint, "38") or "#d7dae0"
                    out.append(f'<text x="{8 + x * 8}" y="{20 + y * 17}" fill="{ink}" textLength="{wide}" '
                               f'xml:space="preserve">{html.escape(text)}</text>')
        return "\n".join(out + ["</svg>\n"])


pid, terminal = pty.fork()
if pid == 0:
    fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    os.execvp(sys.argv[3], sys.argv[3:])
screen, rest = Screen(), b""
while True:
    try:
        got = os.read(terminal, 65536)
    except OSError:  # the other end is closed
        break
    if not got:
        break
    rest += got
    # Escapes and characters of several bytes may be cut anywhere.
    whole = re.match(rb"(?s)(?:[^\x1b\x80-\xff]|\x1b\[[0-9;]*[A-Za-z]|[\xc0-\xff][\x80-\xbf]+(?![\x80-\xbf])(?=.))*", rest).end()
    screen.feed(rest[:whole].decode())
    rest = rest[whole:]
screen.feed(rest.decode(errors="replace"))
code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
print("\n".join(screen.text()))
if "SHOT" in os.environ:
    with open(os.environ["SHOT"], "w") as file:
        file.write(screen.svg(int(os.environ.get("SHOT_ROWS", ROWS))))
if screen.wrapped:
    raise SystemExit(f"FAILED: {screen.wrapped} lines were wider than the terminal")
sys.exit(code)
