"""Progress and figures, in a notebook and in a terminal, without other packages."""

import sys
import time


def _in_notebook():
    shell = sys.modules.get("IPython")
    return bool(shell and shell.get_ipython() and "IPKernelApp" in shell.get_ipython().config)


def curve(values, width=640, height=240, title="loss"):
    """A line chart as SVG."""
    points = [(i + 1, v) for i, v in enumerate(values) if v is not None and v == v]
    if not points:
        return "<p>no steps yet</p>"
    left, top, right, bottom = 56, 24, 12, 28
    low, high = min(v for _, v in points), max(v for _, v in points)
    span, last = (high - low) or 1.0, max(points[-1][0], 2)

    def x(step):
        return left + (width - left - right) * (step - 1) / (last - 1)

    def y(value):
        return top + (height - top - bottom) * (high - value) / span
    line = " ".join(f"{x(s):.1f},{y(v):.1f}" for s, v in points)
    ticks = "".join(
        f'<line x1="{left}" x2="{width - right}" y1="{y(v):.1f}" y2="{y(v):.1f}" stroke="#ddd"/>'
        f'<text x="{left - 6}" y="{y(v) + 4:.1f}" text-anchor="end">{v:.4g}</text>'
        for v in (low, low + span / 2, high))
    return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
            f'style="max-width:{width}px;width:100%;font:12px sans-serif" role="img">'
            f'<title>{title}</title><text x="{left}" y="14">{title}: {points[-1][1]:.4f} after step '
            f'{points[-1][0]}</text>{ticks}<polyline points="{line}" fill="none" stroke="#1668b8" '
            f'stroke-width="1.5"/><text x="{width - right}" y="{height - 8}" text-anchor="end">step '
            f'{last}</text></svg>')


class Progress:
    """A bar with the curve of the losses: drawn again at most four times a second."""

    def __init__(self):
        self.losses, self.steps, self.drawn, self.handle = [], 0, 0.0, None
        self.notebook = _in_notebook()

    @property
    def unknown(self):
        return not self.steps

    def show(self, event, steps):
        self.steps = steps or self.steps
        if event.kind != "step":
            return
        self.losses.append(event.loss)
        now = time.monotonic()
        if now - self.drawn < 0.25 and event.step < self.steps:
            return
        self.drawn = now
        if self.notebook:
            self._draw_html(event)
        elif sys.stderr.isatty():
            done = 24 * event.step // max(self.steps, 1)
            sys.stderr.write(f"\r[{'#' * done}{'.' * (24 - done)}] step {event.step}/{self.steps}  "
                             f"loss {event.loss:.4f} ")
            sys.stderr.flush()

    def _draw_html(self, event):
        from IPython.display import HTML, display
        html = HTML(f'<progress value="{event.step}" max="{self.steps}"></progress> step '
                    f'{event.step} of {self.steps}' + curve(self.losses))
        if self.handle is None:
            self.handle = display(html, display_id=True)
        else:
            self.handle.update(html)

    def end(self):
        if not self.notebook and sys.stderr.isatty():
            sys.stderr.write("\n")
