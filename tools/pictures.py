#!/usr/bin/env python3
"""Redraws docs/pictures with the current program. tests/e2e/pictures_release.sh fails if that is due.

usage: tools/pictures.py [--run]     --run: also make the run anew that report.png shows
Needs build/release, and chromium with its driver for report.png.
"""

import base64
import collections
import hashlib
import json
import os
import pathlib
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import time
import urllib.request
import zlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
SLUICE = os.environ.get("SLUICE", str(ROOT / "build/release/sluice"))
PICTURES = ROOT / "docs/pictures"
FIXTURES = ROOT / "tests/fixtures"
RUN = "nano-run"  # in FIXTURES; the page's title
WIDTH, COLOURS = 1000, 128
MODEL = ["gpt-nano", "--models", str(ROOT / "models"), "--set", "T=32,C=64,H=4,L=4"]


def sluice(*args, **more):
    return subprocess.run([SLUICE, *args], check=True, **more)


# ---- terminal ----

def dashboard_args(folder):
    """The run whose last frame is drawn; tests/e2e/pictures_release.sh runs the same."""
    pathlib.Path(folder, "text.txt").write_bytes(b"".join(p.read_bytes() for p in sorted((ROOT / "docs").glob("*.md"))))
    return ["train", *MODEL, "--data", "text.txt", "--stages", "3", "--batch", "16", "--micro", "4", "--steps", "60",
            "--eval-every", "20", "--dashboard"]


def draw_dashboard(folder, svg=None):
    """The lines on the screen at the end."""
    env = dict(os.environ, TERM="xterm-256color", LC_ALL="C.UTF-8", SHOT_ROWS="16")
    env.pop("NO_COLOR", None)
    if svg:
        env["SHOT"] = str(svg)
    done = subprocess.run([sys.executable, str(ROOT / "tests/e2e/dashboard.py"), "110", "24", SLUICE, *dashboard_args(folder)],
                          cwd=folder, env=env, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout.splitlines()


# ---- the page ----

def make_run():
    """A traced run with a forecast; the files that a report reads are kept."""
    with tempfile.TemporaryDirectory() as folder:
        dashboard_args(folder)  # its text
        sluice("profile", *MODEL, "--data", "text.txt", "--micro-batch", "4", "--busy", "2", "--rounds", "15", "-o",
               "nano.cost", "--quiet", cwd=folder, stdout=subprocess.DEVNULL)
        sluice("train", *MODEL, "--data", "text.txt", "--stages", "4", "--workers", "2", "--schedule", "interleaved", "--batch", "16",
               "--micro", "4", "--steps", "62", "--eval-every", "10", "--cost", "nano.cost", "--trace", "--out", RUN, cwd=folder)
        shutil.rmtree(FIXTURES / RUN, ignore_errors=True)
        (FIXTURES / RUN).mkdir()
        for name in ("config.json", "log.jsonl", "model.model", "plan.plan", "forecast.json", "timeline.trace.json"):
            shutil.copy(pathlib.Path(folder, RUN, name), FIXTURES / RUN)


def page(folder):
    path = pathlib.Path(folder, "page.html")
    sluice("report", RUN, "-o", str(path), cwd=FIXTURES)
    return path


def digest(path):
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Browser:
    """The part of WebDriver that a picture needs."""

    def __init__(self):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        self.port = next(found.group(1) for found in (re.search(r"successfully on port (\d+)", line)
                                                      for line in self.driver.stdout) if found)
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", f"--window-size={WIDTH},900",
                            "--hide-scrollbars", "--disable-dev-shm-usage"]}
        answer = self.call("POST", "/session", {"capabilities": {"alwaysMatch": {"goog:chromeOptions": options}}})
        self.here = f"/session/{answer['sessionId']}"

    def call(self, method, path, body=None):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", method=method,
                                         data=None if body is None else json.dumps(body).encode(),
                                         headers={"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as answer:
            return json.load(answer)["value"]

    def js(self, code):
        return self.call("POST", f"{self.here}/execute/sync", {"script": code, "args": []})

    def cdp(self, command, **params):
        return self.call("POST", f"{self.here}/goog/cdp/execute", {"cmd": command, "params": params})

    def close(self):
        self.call("DELETE", self.here)
        self.driver.terminate()
        self.driver.wait()


def photograph(path):
    """The whole page as a PNG."""
    browser = Browser()
    try:
        browser.cdp("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "light"}])
        browser.call("POST", f"{browser.here}/url", {"url": f"file://{path}"})
        ready = ("const f = document.getElementById('timeline').contentDocument;"
                 "return !!(document.documentElement.dataset.ready && f && f.documentElement.dataset.ready)")
        while not browser.js(ready):
            time.sleep(0.05)
        browser.js("document.getElementById('timeline').contentWindow.dispatchEvent(new Event('resize'))")
        time.sleep(0.5)  # two frames, for the drawing
        size = browser.cdp("Page.getLayoutMetrics")["cssContentSize"]
        clip = dict(x=0, y=0, width=size["width"], height=size["height"], scale=1)
        return base64.b64decode(browser.cdp("Page.captureScreenshot", format="png", captureBeyondViewport=True,
                                            clip=clip)["data"])
    finally:
        browser.close()


# ---- PNG: fewer colours, and the digest of the page ----

def chunks(png):
    at = 8
    while at < len(png):
        length, kind = struct.unpack(">I4s", png[at:at + 8])
        yield kind, png[at + 8:at + 8 + length]
        at += 12 + length


def chunk(kind, data):
    return struct.pack(">I4s", len(data), kind) + data + struct.pack(">I", zlib.crc32(kind + data))


def pixels(png):
    """Width, height and rows of (r, g, b)."""
    parts = collections.defaultdict(bytes)
    for kind, data in chunks(png):
        parts[kind] += data
    width, height, depth, colour = struct.unpack(">IIBB", parts[b"IHDR"][:10])
    if depth != 8 or colour not in (2, 6):
        raise SystemExit("the browser's PNG is of another kind")
    step, raw, before, rows = (4 if colour == 6 else 3), zlib.decompress(parts[b"IDAT"]), None, []
    for y in range(height):
        start = y * (width * step + 1)
        line = unfilter(raw[start], bytearray(raw[start + 1:start + 1 + width * step]), before, step)
        rows.append([tuple(line[x:x + 3]) for x in range(0, width * step, step)])
        before = line
    return width, height, rows


def unfilter(kind, line, before, step):
    above = before or bytearray(len(line))
    for i in range(len(line) if kind else 0):
        left, up, corner = line[i - step] if i >= step else 0, above[i], above[i - step] if i >= step else 0
        guess = left + up - corner
        near = min(((abs(guess - left), 0, left), (abs(guess - up), 1, up), (abs(guess - corner), 2, corner)))[2]
        line[i] = (line[i] + (0, left, up, (left + up) // 2, near)[kind]) & 255
    return line


def reduce(png, note):
    width, height, rows = pixels(png)
    counts = collections.Counter(colour for row in rows for colour in row)
    palette = [colour for colour, _ in counts.most_common(COLOURS)]
    place = {colour: min(range(len(palette)), key=lambda i: sum((a - b) ** 2 for a, b in zip(colour, palette[i])))
             for colour in counts}
    raw = b"".join(b"\0" + bytes(place[colour] for colour in row) for row in rows)
    return (b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 3, 0, 0, 0)) +
            chunk(b"tEXt", b"page\0" + note.encode()) + chunk(b"PLTE", bytes(v for colour in palette for v in colour)) +
            chunk(b"IDAT", zlib.compress(raw, 9)) + chunk(b"IEND", b""))


def note_of(png):
    """The digest of the page that a picture shows; '' if there is none."""
    for kind, data in chunks(png):
        if kind == b"tEXt" and data.startswith(b"page\0"):
            return data[5:].decode()
    return ""


def main():
    if "--run" in sys.argv[1:]:
        make_run()
    sluice("report", "--chain", "4", "--schedule", "zb-h1", "--micro", "8", "--costs", "F=1us,I=1us,W=1us",
           "-o", str(PICTURES / "zb-h1.svg"))
    with tempfile.TemporaryDirectory() as folder:
        draw_dashboard(folder, PICTURES / "dashboard.svg")
        path = page(folder)
        (PICTURES / "report.png").write_bytes(reduce(photograph(path), digest(path)))
    for path in sorted(PICTURES.iterdir()):
        print(f"{path.relative_to(ROOT)}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
