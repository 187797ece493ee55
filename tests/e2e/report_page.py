"""What tests/e2e/report_page.sh does in the browser, over plain WebDriver HTTP."""

import base64
import json
import sys
import time
import urllib.error
import urllib.request

PORT, FOLDER, MICROS, SHOTS = sys.argv[1], sys.argv[2], int(sys.argv[3]), sys.argv[4]
ACTIONS = 1000 * (2 * MICROS + 1)  # of 1,000 workers: F, B and a STEP


def call(method, path, body=None):
    request = urllib.request.Request(
        f"http://127.0.0.1:{PORT}{path}",
        method=method,
        data=None if body is None else json.dumps(body).encode(),
        headers={"Content-Type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=300) as answer:
        return json.load(answer)["value"]


OPTIONS = {
    "args": ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1400,1000",
             "--disable-dev-shm-usage"],
}


def open_session(tries=3):
    """The driver gives a browser a minute to start; on a loaded machine it may need another."""
    try:
        return call("POST", "/session", {"capabilities": {"alwaysMatch": {
            "goog:chromeOptions": OPTIONS, "goog:loggingPrefs": {"browser": "ALL"}}}})["sessionId"]
    except urllib.error.HTTPError as error:
        if tries == 1:
            raise SystemExit(f"FAILED: no browser: {error.read().decode()[:500]}") from error
        return open_session(tries - 1)


session = open_session()
HERE = f"/session/{session}"
checks = 0


def js(code, *args):
    return call("POST", f"{HERE}/execute/sync", {"script": code, "args": list(args)})


def expect(what, got, want):
    global checks
    checks += 1
    if got != want:
        raise SystemExit(f"FAILED: {what}: {got!r}, expected {want!r}")


def shot(name):
    if SHOTS:
        with open(f"{SHOTS}/{name}.png", "wb") as file:
            file.write(base64.b64decode(call("GET", f"{HERE}/screenshot")))


def open_page(name):
    start = time.time()
    call("POST", f"{HERE}/url", {"url": f"file://{FOLDER}/{name}"})
    for _ in range(2400):
        if js("return document.documentElement.dataset.ready || ''"):
            return time.time() - start
        time.sleep(0.05)
    raise SystemExit(f"FAILED: {name} never becomes ready")


def settle():
    call("POST", f"{HERE}/execute/async", {
        "script": "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))",
        "args": []})


def pointer(*actions):
    call("POST", f"{HERE}/actions", {"actions": [{
        "type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"},
        "actions": list(actions)}]})


def centre(selector):
    box = js("const r = document.querySelector(arguments[0]).getBoundingClientRect();"
             "return [r.left + r.width / 2, r.top + r.height / 2]", selector)
    return {"type": "pointerMove", "duration": 0, "x": int(box[0]), "y": int(box[1])}


def click(selector):
    pointer(centre(selector), {"type": "pointerDown", "button": 0},
            {"type": "pointerUp", "button": 0})
    settle()


def no_errors(page):
    log = [e for e in call("POST", f"{HERE}/se/log", {"type": "browser"}) if e["level"] != "INFO"]
    expect(f"console of {page}", [e["message"] for e in log], [])


try:
    # a run that was traced
    FRAME = "const d = document.getElementById('timeline').contentDocument;"

    def open_run(name):
        took = open_page(name)
        for _ in range(2400):
            if js(FRAME + "return d && d.documentElement.dataset.ready || ''"):
                return took
            time.sleep(0.05)
        raise SystemExit(f"FAILED: the timeline of {name} never becomes ready")

    open_run("traced.html")
    headings = js("return [...document.querySelectorAll('h2')].map(h => h.textContent)")
    expect("sections", headings, ["Why it takes this long", "Predicted against measured", "Timeline",
                                  "Stages", "Memory per stage", "Time per action", "Time per op"])
    expect("boxes", js("return document.querySelectorAll('g.stage').length"), 3)
    expect("edges", js("return document.querySelectorAll('path.edge').length"), 2)
    expect("predicted and measured",
           js(FRAME + "return [...d.querySelectorAll('.panel h2')].map(h => h.textContent)"),
           ["forecast", "measured"])
    bars = js(FRAME + "return [...d.querySelectorAll('.panel')].map(p => p.querySelectorAll('rect.bar').length)")
    expect("as many actions predicted as measured", bars[0] == bars[1] > 0, True)
    rows = js("return [...document.querySelectorAll('table.bars')][0].innerText")
    stages = [line for line in open(f"{FOLDER}/traced.txt") if line.endswith("iB\n")]
    expect("stages of traced.txt", len(stages), 3)
    for line in stages:
        total = line.split("  ")[-1].strip()
        expect(f"memory {total} of the verifier is on the page", total in rows, True)
    axis = FRAME + "return d.querySelector('svg.axis').textContent"
    before = js(axis)
    js("document.getElementById('timeline').scrollIntoView()")  # what is not seen is not drawn
    settle()
    js(FRAME + "d.querySelector(\"button[title='zoom in']\").click()")
    for _ in range(2400):  # the frame draws when it is its turn
        if js(axis) != before:
            break
        time.sleep(0.05)
    expect("the timeline zooms", js(axis) != before, True)
    expect("a page to print", len(call("POST", f"{HERE}/print", {})) > 10000, True)
    shot("run-traced")
    no_errors("traced.html")

    took_run = open_run("thousand.html")
    expect("boxes", js("return document.querySelectorAll('g.stage').length"), 1000)
    expect("actions", js(FRAME + "return d.documentElement.dataset.ready"), str(2 * ACTIONS))
    expect("names are text", js("return document.querySelectorAll('p b b').length"), 0)
    shot("run-thousand")
    no_errors("thousand.html")

    # one schedule: 4 workers x 8 micro-batches x (F, B) and a STEP each
    open_page("one.html")
    expect("bars", js("return document.querySelectorAll('rect.bar').length"), 4 * (2 * 8 + 1))
    expect("bars of worker 2",
           js("return document.querySelectorAll('rect.bar[data-lane=\"2\"]').length"), 17)
    expect("detail is closed", js("return document.getElementById('detail').hidden"), True)
    pointer(centre("rect.bar[data-lane='3'][data-i='1']"))
    settle()
    expect("hover", js("return document.getElementById('tip').textContent.split('\\n')[0]"), "B 0")
    click("rect.bar[data-lane='3'][data-i='1']")
    expect("title of detail", js("return document.getElementById('detail-title').textContent"),
           "1f1b: B 0")
    rows = js("return Object.fromEntries([...document.querySelectorAll('#detail dl div')]"
              ".map(d => [d.children[0].textContent, d.children[1].textContent]))")
    expect("detail", {k: rows[k] for k in ("worker", "stage", "micro-batch", "start", "duration")},
           {"worker": "3", "stage": "s3", "micro-batch": "0", "start": "12 \u00b5s",
            "duration": "4 \u00b5s"})
    expect("selected", js("return document.querySelectorAll('rect.bar.sel').length"), 1)
    expect("others are dimmed", js("return document.querySelectorAll('rect.bar.dim').length"),
           4 * 17 - 8)
    shot("one")
    js("document.dispatchEvent(new KeyboardEvent('keydown', {key: 'Escape'}))")
    settle()
    expect("closed again", js("return document.getElementById('detail').hidden"), True)
    wide = "return document.querySelector('rect.bar').getBoundingClientRect().width"
    before = js(wide)
    click("button[title='zoom in']")
    expect("zoom in makes bars wider", js(wide) > before * 1.3, True)
    click("button[title='show everything']")
    expect("fit brings them back", abs(js(wide) - before) < 0.01, True)
    js("const i = document.querySelector('input[type=search]'); i.value = 'B s1';"
       "i.dispatchEvent(new Event('input'))")
    settle()
    expect("filter", js("return document.getElementById('found').textContent"), "8 found")
    js("const i = document.querySelector('input[type=search]'); i.value = '';"
       "i.dispatchEvent(new Event('input'))")
    for _ in range(3):
        click("button[title='step forward']")
    expect("third step", js("return document.getElementById('detail-title').textContent"),
           "at 6 \u00b5s")
    critical = js("return [...document.querySelectorAll('rect.bar.c')].length")
    expect("critical path is drawn", critical > 10, True)
    curves = "return [...document.querySelectorAll('path.mem')].filter(p => p.getAttribute('d')).length"
    expect("a memory curve under each lane", js(curves), 4)
    js("[...document.querySelectorAll('label')].find(l => l.textContent.includes('memory'))"
       ".querySelector('input').click()")
    settle()
    expect("memory curves are gone", js(curves), 0)
    no_errors("one.html")

    # two schedules on one scale
    open_page("two.html")
    expect("panels", js("return document.querySelectorAll('.panel').length"), 2)
    expect("verdict", js("return document.querySelector('.verdict').textContent.slice(0, 10)"),
           "zb-h1 is 1")
    click("button[title='switch theme']")
    expect("dark", js("return document.documentElement.dataset.theme"), "dark")
    shot("two-dark")
    click("button[title='stack or put side by side']")
    tops = js("return [...document.querySelectorAll('.panel')].map(p => p.getBoundingClientRect().top)")
    expect("side by side", tops[0] == tops[1], True)
    shot("two-columns")
    no_errors("two.html")

    # timelines of different lengths show and compare as many steps of each
    open_page("steps.html")
    expect("verdict by the step", js("return document.querySelector('.verdict').textContent"),
           "steps-3.trace.json takes as long as steps-1.trace.json: 33 \u00b5s against 33 \u00b5s")
    expect("as many steps",
           js("return [...document.querySelectorAll('.panel .soft')].some(e => e.textContent.includes('step 2 of 3'))"), True)
    no_errors("steps.html")

    # 1,000 lanes and (in the release build) 100,000 actions
    took = open_page("big.html")
    expect("actions", js("return document.documentElement.dataset.ready"), str(ACTIONS))
    expect("no bar element", js("return document.querySelectorAll('rect.bar').length"), 0)
    drawn = ("const c = document.querySelector('canvas'), d = c.getContext('2d')"
             ".getImageData(0, 0, c.width, c.height).data, seen = new Set();"
             "for (let i = 0; i < d.length; i += 4) seen.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]);"
             "return seen.has(0x4c9be8)")
    press = "document.dispatchEvent(new KeyboardEvent('keydown', {key: arguments[0]}))"
    for key in ["+"] * 8 + ["ArrowLeft"] * 250:
        js(press, key)
    settle()
    expect("canvas has forwards", js(drawn), True)
    shot("big-start")
    js(press, "0")
    settle()
    frame = js("const t = performance.now(); for (let i = 0; i < 5; i++) {"
               "document.dispatchEvent(new KeyboardEvent('keydown', {key: i % 2 ? '-' : '+'})); }"
               "return performance.now() - t")
    settle()
    js("document.querySelector('.scroll').scrollTop = 12000")
    settle()
    shot("big")
    click("canvas")
    no_errors("big.html")
    print(f"count: {checks} checks in the browser; 1000 lanes open in {took:.1f} s, "
          f"a run of 1000 stages in {took_run:.1f} s, five changes of view take {frame:.0f} ms")

    # the curves of a run: loss, gradient norm, learning rate, staleness of 4 stages
    open_page("run.html")
    expect("charts of staleness", js("return [...document.querySelectorAll('figcaption')]"
           ".filter(f => f.textContent.startsWith('stage ')).map(f => f.textContent).sort()[0]"),
           "stage 0, forward")
    expect("curves are lines", js("return [...document.querySelectorAll('path.line')]"
           ".every(p => /^M[0-9.]+ [0-9.]+L/.test(p.getAttribute('d')))"), True)
    pair = "[...document.querySelectorAll('figure')].find(f => f.textContent.includes('stage 0, forward'))"
    expect("predicted and stale", js(f"return [...{pair}.querySelectorAll('.curve')].map(c => c.dataset.name)"),
           ["stale to true", "predicted to true"])
    js(f"{pair}.scrollIntoView({{block: 'center'}}); {pair}.querySelector('svg').id = 'watched'")
    settle()
    pointer(centre("#watched"))
    settle()
    expect("values under the pointer", js("const t = document.getElementById('tip');"
           "return [t.hidden, t.textContent.split('\\n').length]"), [False, 3])
    shot("staleness")
    no_errors("run.html")

    # a study: curves with bands that the legend switches off
    open_page("study.html")
    expect("title of the study", js("return document.querySelector('h1').textContent"),
           "a study <b>for a test")
    expect("curves of the study", js("return document.documentElement.dataset.ready"), "2")
    expect("bands", js("return document.querySelectorAll('path.band').length"), 2)
    seen = "return [...document.querySelectorAll('.curve')].map(c => c.getClientRects().length > 0)"
    expect("both are seen", js(seen), [True, True])
    click(".legend button[data-i='1']")
    expect("one is off", js(seen), [True, False])
    expect("and says so", js("return document.querySelector(\".legend button[data-i='1']\")"
           ".getAttribute('aria-pressed')"), "false")
    expect("rows", js("return document.querySelectorAll('td:first-child').length"), 2)
    shot("study")
    no_errors("study.html")

    open_page("evil.html")
    expect("title as text", js("return document.querySelector('h2').textContent"),
           "</script><script>bad()</script>")
    no_errors("evil.html")
finally:
    call("DELETE", HERE)
