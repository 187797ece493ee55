/* Charts that answer: a legend that switches curves off, values under the pointer. */
(() => {
'use strict';
const tip = document.getElementById('tip');
const round = v => Math.abs(v) >= 1e-3 && Math.abs(v) < 1e6 ? String(+v.toPrecision(5)) : v.toExponential(3);

/* "x pixel y;..." to [{x, at, y}] */
const points = text => text.split(';').filter(Boolean).map(p => {
  const [x, at, y] = p.split(' ').map(Number);
  return { x, at, y };
});

function nearest(list, at) {
  let low = 0, high = list.length - 1;
  while (high - low > 1) {
    const mid = (low + high) >> 1;
    if (list[mid].at <= at) low = mid; else high = mid;
  }
  return Math.abs(list[low].at - at) <= Math.abs(list[high].at - at) ? list[low] : list[high];
}

function listen(figure) {
  const svg = figure.querySelector('svg'), cursor = figure.querySelector('.cursor');
  const curves = [...figure.querySelectorAll('.curve')]
    .map(g => ({ g, name: g.dataset.name, list: points(g.dataset.p) }));
  const isOn = c => c.list.length > 0 && !c.g.classList.contains('off');

  figure.querySelectorAll('.legend button').forEach(button => {
    const curve = curves[Number(button.dataset.i)];
    button.addEventListener('click', () => {
      const off = curve.g.classList.toggle('off');
      button.setAttribute('aria-pressed', String(!off));
    });
    const fade = faint => curves.forEach(c => c.g.classList.toggle('faint', faint && c !== curve));
    button.addEventListener('pointerenter', () => fade(true));
    button.addEventListener('pointerleave', () => fade(false));
  });

  svg.addEventListener('pointermove', event => {
    const box = svg.getBoundingClientRect(), on = curves.filter(isOn);
    const at = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    if (!on.length) return;
    const place = nearest(on[0].list, at);
    const lines = on.map(c => ({ name: c.name, y: nearest(c.list, place.at).y })).sort((a, b) => b.y - a.y);
    cursor.setAttribute('x1', place.at);
    cursor.setAttribute('x2', place.at);
    cursor.style.visibility = 'visible';
    tip.textContent = [round(place.x), ...lines.map(l => `${l.name}: ${round(l.y)}`)].join('\n');
    tip.hidden = false;
    tip.style.left = Math.max(4, Math.min(event.clientX + 14, innerWidth - tip.offsetWidth - 8)) + 'px';
    tip.style.top = Math.max(4, Math.min(event.clientY + 14, innerHeight - tip.offsetHeight - 8)) + 'px';
  });
  svg.addEventListener('pointerleave', () => {
    tip.hidden = true;
    cursor.style.visibility = 'hidden';
  });
  return curves.length;
}

/* The timelines are a page of their own: as high as they are, where that is no more than a window or two. */
const frame = document.getElementById('timeline');
if (frame) {
  const fit = most => () => {
    const inner = frame.contentDocument && frame.contentDocument.body;
    if (inner) frame.style.height = Math.max(420, Math.min(most, inner.scrollHeight + 4)) + 'px';
  };
  frame.addEventListener('load', fit(1100));
  fit(1100)();
  window.addEventListener('beforeprint', fit(1e5));
}

const count = [...document.querySelectorAll('figure.chart')].reduce((n, f) => n + listen(f), 0);
document.documentElement.dataset.ready = String(count || 'none');
})();
