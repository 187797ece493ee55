'use strict';
/* The timeline page. One time scale for all panels; small pictures are SVG elements, large ones are
   drawn on a canvas that is as high as the window and follows the scroll bar. */
(() => {
const data = JSON.parse(document.getElementById('data').textContent);
const KINDS = data.kinds, COLOURS = data.colours;
const W = 8, A = 9;                 /* numbers per bar, per arrow */
const DOM_MOST = 2500, LEFT = 82, BAR = 24, MEM = 14, GAP = 6;
const SVG = 'http://www.w3.org/2000/svg';
const ui = { memory: true, critical: true, messages: false, theme: 'light' };
const view = { t0: 0, t1: 1, end: 1, cursor: null, picked: null, filter: null };
const panels = [];

/* --- small helpers --- */
function el(tag, attrs, ...kids) {
  const e = document.createElement(tag);
  for (const k in attrs || {})
    k.startsWith('on') ? e.addEventListener(k.slice(2), attrs[k]) : k in e && k !== 'style' ? (e[k] = attrs[k]) : e.setAttribute(k, attrs[k]);
  e.append(...kids);
  return e;
}
function sv(tag, attrs, text) {
  const e = document.createElementNS(SVG, tag);
  for (const k in attrs) e.setAttribute(k, attrs[k]);
  if (text !== undefined) e.textContent = text;
  return e;
}
function time(ns) {
  const a = Math.abs(ns), u = a >= 1e9 ? [1e9, 's'] : a >= 1e6 ? [1e6, 'ms'] : a >= 1e3 ? [1e3, '\u00b5s'] : [1, 'ns'];
  return +(ns / u[0]).toPrecision(5) + ' ' + u[1];
}
function size(b) {
  const u = ['B', 'KiB', 'MiB', 'GiB', 'TiB'];
  let i = 0;
  while (b >= 1024 && i < 4) { b /= 1024; i++; }
  return +b.toPrecision(4) + ' ' + u[i];
}
const percent = x => (100 * x).toFixed(1) + ' %';
function mix(hex, part) { /* towards white */
  const c = [1, 3, 5].map(i => parseInt(hex.slice(i, i + 2), 16)).map(v => Math.round(v + (255 - v) * part));
  return '#' + c.map(v => v.toString(16).padStart(2, '0')).join('');
}
const css = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
function ticks(t0, t1, count) {
  const raw = (t1 - t0) / Math.max(count, 1), base = 10 ** Math.floor(Math.log10(raw || 1));
  const step = [1, 2, 5, 10].map(f => f * base).find(s => s >= raw) || base * 10, out = [];
  for (let t = Math.ceil(t0 / step) * step; t <= t1; t += step) out.push(t);
  return out;
}

/* --- a panel: its data --- */
class Panel {
  constructor(picture, number) {
    Object.assign(this, picture, { number });
    this.count = this.lanes.reduce((n, l) => n + l.length / W, 0);
    this.dom = this.count <= DOM_MOST;
    this.peak = this.lanes.map(l => { let m = 0; for (let i = 6; i < l.length; i += W) m = Math.max(m, l[i]); return m; });
    this.busy = this.lanes.map(l => { let s = 0; for (let i = 5; i < l.length; i += W) s += l[i]; return s; });
    this.most = Math.max(1, ...this.peak);
    this.shade = this.lanes.map(l => { /* chunks of a worker differ in brightness */
      const seen = new Set();
      for (let i = 1; i < l.length; i += W) seen.add(l[i]);
      const list = [...seen].sort((a, b) => a - b), map = new Map();
      list.forEach((s, i) => map.set(s, list.length > 1 ? 0.5 * i / (list.length - 1) : 0));
      return map;
    });
    this.fills = new Map();
    this.build();
  }
  fill(lane, i) {
    const l = this.lanes[lane], part = this.shade[lane].get(l[i + 1]), key = l[i] * 1000 + Math.round(part * 100);
    if (!this.fills.has(key)) this.fills.set(key, mix(COLOURS[l[i]], part));
    return this.fills.get(key);
  }
  get laneHeight() { return BAR + (ui.memory ? MEM : 0) + GAP; }
  get width() { return Math.max(50, this.scroll.clientWidth - LEFT - 4); }
  x(t) { return LEFT + (t - view.t0) / (view.t1 - view.t0) * this.width; }
  t(x) { return view.t0 + (x - LEFT) / this.width * (view.t1 - view.t0); }
  first(lane, t) { /* first bar of the lane that ends after t */
    const l = this.lanes[lane];
    let a = 0, b = l.length / W;
    while (a < b) { const m = (a + b) >> 1; l[m * W + 4] + l[m * W + 5] > t ? b = m : a = m + 1; }
    return a * W;
  }
  at(x, y) { /* what is under a point of the scrolled area */
    const lane = Math.floor(y / this.laneHeight);
    if (lane < 0 || lane >= this.lanes.length || x < LEFT) return null;
    const t = this.t(x), i = this.first(lane, t), l = this.lanes[lane];
    return i < l.length && l[i + 4] <= t ? { panel: this, lane, i } : { panel: this, lane, i: -1, t };
  }

  /* --- elements --- */
  build() {
    const idle = 1 - this.busy.reduce((a, b) => a + b, 0) / (this.end * this.lanes.length || 1);
    const stats = [['in all', time(this.end)], ['idle', percent(idle)],
      ...(this.sketch ? [] : [['largest peak', size(Math.max(0, ...this.peak))]]), ['workers', this.lanes.length], ['actions', this.count]];
    const [pass, weight, transfer, gap] = this.critical, total = pass + weight + transfer + gap;
    const parts = [[pass, COLOURS[0], 'passes'], [weight, COLOURS[8], 'reduce and step'], [transfer, '#c0392b', 'messages'], [gap, 'transparent', 'waiting']];
    const split = el('div', { className: 'split', title: parts.filter(p => p[0]).map(p => `${p[2]} ${percent(p[0] / total)}`).join(', ') });
    if (total) for (const p of parts) split.append(el('i', { style: `width:${100 * p[0] / total}%;background:${p[1]}` }));
    this.axis = sv('svg', { class: 'axis', 'aria-hidden': 'true' });
    this.scroll = el('div', { className: 'scroll', tabIndex: 0 });
    this.section = el('section', { className: 'panel' },
      el('h2', {}, this.title), el('div', { className: 'soft' }, this.detail + (this.measured ? ' (measured)' : ' (predicted)')),
      el('div', { className: 'stats' }, ...stats.map(([k, v]) => el('span', {}, el('span', { className: 'soft' }, k + ' '), el('b', {}, String(v))))),
      ...(total ? [el('div', { className: 'soft' }, `critical path: ${parts.filter(p => p[0]).map(p => `${p[2]} ${time(p[0])}`).join(', ')}`), split] : []),
      this.axis, this.scroll, this.table());
    if (this.dom) {
      this.svg = sv('svg', { role: 'img', 'aria-label': `${this.title}: ${this.count} actions on ${this.lanes.length} workers, ${time(this.end)}` });
      this.scroll.append(this.svg);
    } else {
      this.canvas = el('canvas', { 'aria-label': `${this.title}: drawing of ${this.count} actions; the table below has the numbers` });
      this.canvas.setAttribute('role', 'img');
      this.space = el('div', {});
      this.scroll.append(this.canvas, this.space);
      this.scroll.addEventListener('scroll', () => redraw());
    }
  }
  table() {
    const rows = this.lanes.map((l, i) => el('tr', {}, ...[`worker ${i}`, l.length / W, time(this.busy[i]), time(this.end - this.busy[i]),
      percent(1 - this.busy[i] / (this.end || 1)), ...(this.sketch ? [] : [size(this.peak[i])])].map(v => el('td', {}, String(v)))));
    return el('details', {}, el('summary', {}, `Numbers of ${this.lanes.length} workers`),
      el('table', {}, el('thead', {}, el('tr', {}, ...['worker', 'actions', 'busy', 'idle', 'idle share', ...(this.sketch ? [] : ['peak memory'])].map(h => el('th', { scope: 'col' }, h)))), el('tbody', {}, ...rows)));
  }

  dimmed(lane, i) {
    const l = this.lanes[lane];
    if (view.cursor !== null && l[i + 4] >= view.cursor) return true;
    if (view.filter && !view.filter(this, l, i)) return true;
    const p = view.picked;
    return p !== null && p.micro >= 0 && l[i + 2] !== p.micro;
  }
  picked(lane, i) { const p = view.picked; return p && p.panel === this && p.lane === lane && p.i === i; }

  drawAxis() {
    const w = this.scroll.clientWidth, out = [];
    for (const t of ticks(view.t0, view.t1, this.width / 110))
      out.push(sv('line', { class: 'tick', x1: this.x(t), x2: this.x(t), y1: 15, y2: 22 }), sv('text', { class: 'lab', x: this.x(t), y: 11, 'text-anchor': 'middle' }, time(t)));
    this.axis.setAttribute('viewBox', `0 0 ${w} 22`);
    this.axis.replaceChildren(...out);
  }
  curve(lane, y) { /* memory, as a list of points */
    const l = this.lanes[lane], points = [], base = y + BAR + MEM;
    const from = Math.max(0, this.first(lane, view.t0) - W);
    for (let i = from; i < l.length && l[i + 4] <= view.t1; i += W) {
      const h = base - l[i + 6] / this.most * (MEM - 1);
      const until = i + W < l.length ? l[i + W + 4] : this.end;
      points.push(this.x(l[i + 4]), h, this.x(until), h);
    }
    return points;
  }

  /* --- small: elements that are made once and moved --- */
  make() {
    const kids = [];
    this.items = [];
    this.clip = sv('svg', { x: LEFT, y: 0, overflow: 'hidden' });
    this.lanes.forEach((l, lane) => {
      kids.push(sv('text', { class: 'lab', x: 4, y: lane * this.laneHeight + BAR / 2 + 4 }, `worker ${lane}`));
      const idle = sv('rect', { class: 'idle', x: 0, y: lane * this.laneHeight, width: '100%', height: BAR });
      const mem = sv('path', { class: 'mem' });
      this.clip.append(idle, mem);
      this.items.push({ lane, mem });
      for (let i = 0; i < l.length; i += W) {
        const rect = sv('rect', { class: 'bar' + (l[i + 7] ? ' c' : ''), rx: 2, y: lane * this.laneHeight + 1, height: BAR - 2, fill: this.fill(lane, i), 'data-lane': lane, 'data-i': i / W });
        const num = sv('text', { class: 'num', y: lane * this.laneHeight + BAR / 2 + 4 }, l[i + 2] >= 0 ? l[i + 2] : '');
        this.clip.append(rect, num);
        this.items.push({ lane, i, rect, num });
      }
    });
    this.messages = sv('g', {});
    this.line = sv('line', { class: 'cursor', y1: 0 });
    this.clip.append(this.messages, this.line);
    this.svg.replaceChildren(...kids, this.clip);
    this.made = ui.memory;
  }
  drawDom() {
    if (this.made !== ui.memory) this.make();
    const w = this.scroll.clientWidth, h = this.lanes.length * this.laneHeight;
    this.svg.setAttribute('viewBox', `0 0 ${w} ${h}`);
    this.svg.setAttribute('height', h);
    this.svg.setAttribute('class', ui.critical ? 'crit' : '');
    this.clip.setAttribute('width', this.width);
    this.clip.setAttribute('height', h);
    for (const item of this.items) {
      if (item.mem) {
        const p = ui.memory ? this.curve(item.lane, item.lane * this.laneHeight) : [];
        let d = '';
        for (let i = 0; i < p.length; i += 2) d += `${i ? 'L' : 'M'}${(p[i] - LEFT).toFixed(1)} ${p[i + 1].toFixed(1)}`;
        const base = item.lane * this.laneHeight + BAR + MEM;
        item.mem.setAttribute('d', d && `${d}V${base}H${(p[0] - LEFT).toFixed(1)}Z`);
        continue;
      }
      const l = this.lanes[item.lane], i = item.i, x = this.x(l[i + 4]) - LEFT, bw = this.x(l[i + 4] + l[i + 5]) - LEFT - x;
      const dim = this.dimmed(item.lane, i);
      item.rect.setAttribute('x', x + 0.5);
      item.rect.setAttribute('width', Math.max(0.6, bw - 1));
      item.rect.classList.toggle('dim', dim);
      item.rect.classList.toggle('sel', !!this.picked(item.lane, i));
      item.num.setAttribute('x', x + bw / 2);
      item.num.classList.toggle('dim', dim);
      item.num.style.display = bw > 4 + 6.2 * item.num.textContent.length ? '' : 'none';
    }
    this.messages.replaceChildren(...this.arrowList(3000).map(i => {
      const [x1, y1, x2, y2] = this.arrowLine(i);
      return sv('line', { class: `msg${this.arrows[i + 8] & 1 ? ' g' : ''}${this.arrows[i + 8] & 2 ? ' c' : ''}`, x1: x1 - LEFT, y1, x2: x2 - LEFT, y2 });
    }));
    const c = view.cursor === null ? -9 : this.x(view.cursor) - LEFT;
    for (const k of ['x1', 'x2']) this.line.setAttribute(k, c);
    this.line.setAttribute('y2', h);
  }
  arrowLine(i) {
    const a = this.arrows, down = a[i + 1] > a[i];
    return [this.x(a[i + 5]), a[i] * this.laneHeight + (down ? BAR : 0), this.x(a[i + 7]), a[i + 1] * this.laneHeight + (down ? 0 : BAR)];
  }
  arrowList(most) {
    const a = this.arrows, out = [], p = view.picked;
    for (let i = 0; i < a.length && out.length < most; i += A) {
      if (a[i + 7] < view.t0 || a[i + 5] > view.t1) continue;
      const own = p && p.panel === this && p.micro >= 0 && a[i + 4] === p.micro;
      if (ui.messages || own || (ui.critical && a[i + 8] & 2)) out.push(i);
    }
    return out;
  }

  /* --- large: a canvas --- */
  drawCanvas() {
    const w = this.scroll.clientWidth, total = this.lanes.length * this.laneHeight;
    const h = Math.min(total, Math.round(window.innerHeight * 0.72)), scale = window.devicePixelRatio || 1;
    this.space.style.height = `${Math.max(0, total - h)}px`;
    this.canvas.style.height = `${h}px`;
    if (this.canvas.width !== w * scale || this.canvas.height !== h * scale) { this.canvas.width = w * scale; this.canvas.height = h * scale; }
    const g = this.canvas.getContext('2d'), top = this.scroll.scrollTop;
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, w, h);
    g.font = '11px system-ui,sans-serif';
    g.textBaseline = 'middle';
    const low = Math.max(0, Math.floor(top / this.laneHeight)), high = Math.min(this.lanes.length, Math.ceil((top + h) / this.laneHeight) + 1);
    const colours = { soft: css('--soft'), idle: css('--idle'), mem: css('--mem'), hot: css('--hot'), ink: css('--ink'), accent: css('--accent') };
    g.save();
    g.beginPath(); g.rect(LEFT, 0, this.width, h); g.clip();
    for (let lane = low; lane < high; lane++) this.canvasLane(g, lane, lane * this.laneHeight - top, colours);
    this.canvasArrows(g, top, h, colours);
    if (view.cursor !== null) { g.strokeStyle = colours.accent; g.beginPath(); g.moveTo(this.x(view.cursor), 0); g.lineTo(this.x(view.cursor), h); g.stroke(); }
    g.restore();
    g.textAlign = 'left';
    g.fillStyle = colours.soft;
    for (let lane = low; lane < high; lane++) g.fillText(`worker ${lane}`, 4, lane * this.laneHeight - top + BAR / 2);
  }
  canvasLane(g, lane, y, colours) {
    const l = this.lanes[lane];
    g.fillStyle = colours.idle;
    g.fillRect(LEFT, y, this.width, BAR);
    if (ui.memory) {
      const p = this.curve(lane, y);
      if (p.length) {
        g.globalAlpha = 0.45; g.fillStyle = colours.mem; g.beginPath(); g.moveTo(p[0], y + BAR + MEM);
        let last = -9, left = -1; /* points that fall into one pixel are left out, but not the last of them */
        for (let i = 0; i < p.length; i += 2) {
          if (p[i] - last <= 0.4 && i + 4 <= p.length) { left = i; continue; }
          if (left >= 0) g.lineTo(p[left], p[left + 1]);
          g.lineTo(p[i], p[i + 1]);
          last = p[i]; left = -1;
        }
        g.lineTo(p[p.length - 2], y + BAR + MEM); g.fill(); g.globalAlpha = 1;
      }
    }
    g.textAlign = 'center';
    let drawn = -9;
    for (let i = this.first(lane, view.t0); i < l.length && l[i + 4] < view.t1; i += W) {
      const x = this.x(l[i + 4]), bw = this.x(l[i + 4] + l[i + 5]) - x, hot = ui.critical && l[i + 7];
      if (bw < 0.5 && x - drawn < 0.5 && !hot) continue;
      drawn = x;
      g.globalAlpha = this.dimmed(lane, i) ? 0.16 : 1;
      g.fillStyle = this.fill(lane, i);
      g.fillRect(x, y + 1, Math.max(0.6, bw - (bw > 3 ? 1 : 0)), BAR - 2);
      if (hot) { g.strokeStyle = colours.hot; g.lineWidth = 2; g.strokeRect(x + 1, y + 2, Math.max(0.5, bw - 3), BAR - 4); }
      if (this.picked(lane, i)) { g.strokeStyle = colours.ink; g.lineWidth = 2; g.strokeRect(x + 1, y + 2, Math.max(1, bw - 3), BAR - 4); }
      if (l[i + 2] >= 0 && bw > 4 + 6.2 * String(l[i + 2]).length) { g.fillStyle = '#15181d'; g.fillText(l[i + 2], x + bw / 2, y + BAR / 2); }
    }
    g.globalAlpha = 1;
  }
  canvasArrows(g, top, h, colours) {
    for (const i of this.arrowList(4000)) {
      const [x1, y1, x2, y2] = this.arrowLine(i);
      if (Math.max(y1, y2) < top || Math.min(y1, y2) > top + h) continue;
      const hot = ui.critical && this.arrows[i + 8] & 2;
      g.strokeStyle = hot ? colours.hot : colours.soft;
      g.lineWidth = hot ? 2 : 0.7;
      g.setLineDash(this.arrows[i + 8] & 1 ? [3, 2] : []);
      g.beginPath(); g.moveTo(x1, y1 - top); g.lineTo(x2, y2 - top); g.stroke();
    }
    g.setLineDash([]);
  }
  draw() { this.drawAxis(); this.dom ? this.drawDom() : this.drawCanvas(); }
}

/* --- what is looked at --- */
let wanted = false;
function redraw() {
  if (wanted) return;
  wanted = true;
  requestAnimationFrame(() => { wanted = false; panels.forEach(p => p.draw()); });
}
function look(t0, t1) {
  const least = Math.max(view.end * 1e-7, 1e-3), span = Math.min(Math.max(t1 - t0, least), view.end);
  view.t0 = Math.min(Math.max(t0, 0), view.end - span);
  view.t1 = view.t0 + span;
  redraw();
}
function zoom(factor, t) {
  const at = t === undefined ? (view.t0 + view.t1) / 2 : t;
  look(at - (at - view.t0) * factor, at + (view.t1 - at) * factor);
}
function pan(part) { const d = (view.t1 - view.t0) * part; look(view.t0 + d, view.t1 + d); }

function describe(hit) {
  const p = hit.panel, l = p.lanes[hit.lane], i = hit.i;
  const name = KINDS[l[i]] + (l[i + 2] >= 0 ? ` ${l[i + 2]}` : '');
  return { name, rows: [['worker', hit.lane], ['stage', p.stages[l[i + 1]]], ...(l[i + 2] >= 0 ? [['micro-batch', l[i + 2]]] : []), ['weight version', l[i + 3]],
    ['start', time(l[i + 4])], ['end', time(l[i + 4] + l[i + 5])], ['duration', time(l[i + 5])], ...(p.sketch ? [] : [['memory of worker', size(l[i + 6])]]), ['on critical path', l[i + 7] ? 'yes' : 'no']] };
}
function fillDetail(title, rows) {
  detail.hidden = false;
  detail.replaceChildren(el('button', { className: 'close', onclick: () => choose(null), ariaLabel: 'close' }, '\u00d7'), el('b', { id: 'detail-title' }, title),
    el('dl', {}, ...rows.map(([k, v]) => el('div', {}, el('dt', {}, k), el('dd', {}, String(v))))));
}
function choose(hit) {
  if (!hit || hit.i < 0) { view.picked = null; detail.hidden = true; redraw(); return; }
  const l = hit.panel.lanes[hit.lane], d = describe(hit);
  view.picked = { ...hit, micro: l[hit.i + 2] };
  fillDetail(`${hit.panel.title}: ${d.name}`, d.rows);
  redraw();
}

/* --- stepping through --- */
let moments = null;
function allMoments() {
  if (moments) return moments;
  const set = new Set([0, view.end]);
  for (const p of panels) for (const l of p.lanes) for (let i = 4; i < l.length; i += W) set.add(l[i] + l[i + 1]);
  return moments = Float64Array.from(set).sort();
}
function step(by) {
  const all = allMoments(), now = view.cursor === null ? (by > 0 ? -1 : view.end + 1) : view.cursor;
  let a = 0, b = all.length;
  while (a < b) { const m = (a + b) >> 1; all[m] > now ? b = m : a = m + 1; }
  const i = by > 0 ? a : a - 1 - (all[a - 1] === now ? 1 : 0);
  setCursor(all[Math.min(Math.max(i, 0), all.length - 1)]);
}
function setCursor(t) {
  view.cursor = t;
  if (t === null) { detail.hidden = true; redraw(); return; }
  if (t < view.t0 || t > view.t1) look(t - (view.t1 - view.t0) / 2, t + (view.t1 - view.t0) / 2);
  const rows = [];
  for (const p of panels) for (let lane = 0; lane < Math.min(p.lanes.length, 16); lane++) {
    const i = p.first(lane, t - 1e-9), l = p.lanes[lane], on = i < l.length && l[i + 4] < t;
    rows.push([(panels.length > 1 ? p.title + ' ' : '') + 'worker ' + lane, on ? KINDS[l[i]] + ' ' + (l[i + 2] >= 0 ? l[i + 2] : '') : '\u2013']);
  }
  view.picked = null;
  fillDetail(`at ${time(t)}`, rows);
  redraw();
}
let player = null;
function play(button) {
  if (player) { clearInterval(player); player = null; button.textContent = 'Play'; return; }
  button.textContent = 'Pause';
  if (view.cursor === null || view.cursor >= view.end) setCursor(0);
  player = setInterval(() => { step(1); if (view.cursor >= view.end) play(button); }, 120);
}

/* --- filter: kinds, micro-batch numbers, stage names, separated by blanks --- */
function setFilter(text) {
  const words = text.trim().split(/\s+/).filter(Boolean);
  if (!words.length) { view.filter = null; note.textContent = ''; redraw(); return; }
  view.filter = (p, l, i) => words.every(w => KINDS[l[i]] === w.toUpperCase() || String(l[i + 2]) === w || p.stages[l[i + 1]] === w);
  let n = 0;
  for (const p of panels) for (const l of p.lanes) for (let i = 0; i < l.length; i += W) n += view.filter(p, l, i);
  note.textContent = `${n} found`;
  redraw();
}

/* --- page --- */
const detail = el('aside', { id: 'detail', hidden: true });
detail.setAttribute('aria-live', 'polite');
const tip = el('div', { id: 'tip' }), note = el('span', { className: 'soft', id: 'found' });
function toggle(name, text) {
  return el('label', {}, el('input', { type: 'checkbox', checked: ui[name], onchange: e => { ui[name] = e.target.checked; redraw(); } }), text);
}
function setTheme(name) { ui.theme = name; document.documentElement.dataset.theme = name; redraw(); }
function tools(main) {
  const used = new Set();
  for (const p of panels) for (const l of p.lanes) for (let i = 0; i < l.length; i += W) if (l[i + 5]) used.add(l[i]);
  const b = (text, label, run) => el('button', { type: 'button', ariaLabel: label, title: label, onclick: run }, text);
  const bar = el('div', { className: 'bar-tools' },
    el('div', { className: 'group' }, b('\u2212', 'zoom out', () => zoom(1.6)), b('+', 'zoom in', () => zoom(0.625)), b('Fit', 'show everything', () => look(0, view.end))),
    el('div', { className: 'group' }, b('\u25c2', 'step back', () => step(-1)), b('\u25b8', 'step forward', () => step(1)), b('Play', 'play from the start', e => play(e.target)), b('End', 'leave stepping', () => { if (player) clearInterval(player); player = null; setCursor(null); })),
    el('div', { className: 'group', style: 'gap:12px' }, toggle('critical', 'critical path'), toggle('memory', 'memory'), toggle('messages', 'messages')),
    el('div', { className: 'group' }, el('input', { type: 'search', placeholder: 'filter: B 3 s1', ariaLabel: 'filter by kind, micro-batch or stage', size: 14, oninput: e => setFilter(e.target.value) }), note),
    el('div', { className: 'legend' }, ...[...used].sort((x, y) => x - y).map(k => el('span', {}, el('i', { style: `background:${COLOURS[k]}` }), KINDS[k])), el('span', {}, el('i', { style: 'background:var(--mem);opacity:.45' }), 'memory')),
    el('div', { className: 'group' }, b('Light / dark', 'switch theme', () => setTheme(ui.theme === 'dark' ? 'light' : 'dark')),
      ...(panels.length > 1 ? [b('Side by side', 'stack or put side by side', e => { e.target.setAttribute('aria-pressed', main.classList.toggle('columns')); redraw(); })] : [])));
  return bar;
}
/* Optimizer steps of the first stage, on one of its workers. */
function steps(p) {
  const kind = KINDS.indexOf('STEP');
  return Math.max(...p.lanes.map(l => { let n = 0; for (let i = 0; i < l.length; i += W) n += l[i] === kind && l[i + 1] === 0; return n; }), 0);
}
/* Timelines of different numbers of steps are compared by the step. */
function verdict() {
  if (panels.length < 2) return '';
  const [a, b] = panels, [m, n] = [steps(a), steps(b)], each = m > 0 && n > 0 && m !== n;
  const [x, y] = each ? [a.end / m, b.end / n] : [a.end, b.end], d = y / x - 1;
  const word = Math.abs(d) < 1e-9 ? 'takes as long as' : d < 0 ? `is ${percent(-d)} faster than` : `is ${percent(d)} slower than`;
  const tail = each ? ` a step, over ${n} and ${m} steps` : m > 1 ? ` for ${m} steps` : '';
  return el('div', { className: 'verdict' }, `${b.title} ${word} ${a.title}: ${time(y)} against ${time(x)}${tail}`);
}

/* --- mouse, touch, keys --- */
function listen(p) {
  let down = null;
  const point = e => { const r = p.scroll.getBoundingClientRect(); return [e.clientX - r.left, e.clientY - r.top + p.scroll.scrollTop]; };
  p.scroll.addEventListener('wheel', e => {
    const scrolls = p.scroll.scrollHeight > p.scroll.clientHeight + 2;
    if (Math.abs(e.deltaX) > Math.abs(e.deltaY)) { pan(e.deltaX / 1000); e.preventDefault(); return; }
    if (scrolls && !e.ctrlKey && !e.metaKey) return;
    zoom(Math.exp(e.deltaY * 0.0018), p.t(point(e)[0]));
    e.preventDefault();
  }, { passive: false });
  p.scroll.addEventListener('pointerdown', e => { if (e.button === 0) down = { x: e.clientX, t0: view.t0, t1: view.t1, moved: false }; });
  window.addEventListener('pointermove', e => {
    if (!down) return;
    if (Math.abs(e.clientX - down.x) > 3) down.moved = true;
    if (!down.moved) return;
    document.body.classList.add('drag');
    const d = (down.x - e.clientX) / p.width * (down.t1 - down.t0);
    look(down.t0 + d, down.t1 + d);
  });
  window.addEventListener('pointerup', () => { document.body.classList.remove('drag'); setTimeout(() => { down = null; }); });
  p.scroll.addEventListener('click', e => { if (!down || !down.moved) choose(p.at(...point(e))); });
  p.scroll.addEventListener('dblclick', e => { const hit = p.at(...point(e)); if (hit && hit.i >= 0) { const l = p.lanes[hit.lane], c = l[hit.i + 4] + l[hit.i + 5] / 2, s = l[hit.i + 5] * 8; look(c - s, c + s); } });
  p.scroll.addEventListener('pointermove', e => {
    const hit = down && down.moved ? null : p.at(...point(e));
    if (!hit) { tip.style.display = 'none'; return; }
    const d = hit.i >= 0 ? describe(hit) : { name: 'idle', rows: [['worker', hit.lane], ['at', time(hit.t)]] };
    tip.textContent = d.name + '\n' + d.rows.map(r => `${r[0]}: ${r[1]}`).join('\n');
    tip.style.display = 'block';
    tip.style.left = `${Math.min(e.clientX + 14, window.innerWidth - tip.offsetWidth - 8)}px`;
    tip.style.top = `${e.clientY + 18 + tip.offsetHeight > window.innerHeight ? e.clientY - tip.offsetHeight - 10 : e.clientY + 18}px`;
  });
  p.scroll.addEventListener('pointerleave', () => { tip.style.display = 'none'; });
}
function keys(e) {
  if (e.target.tagName === 'INPUT' && e.target.type === 'search') return;
  const map = { '+': () => zoom(0.625), '=': () => zoom(0.625), '-': () => zoom(1.6), 0: () => look(0, view.end), ArrowLeft: () => pan(-0.15), ArrowRight: () => pan(0.15),
    n: () => step(1), p: () => step(-1), Escape: () => { setCursor(null); choose(null); } };
  if (map[e.key] && !e.ctrlKey && !e.metaKey) { map[e.key](); e.preventDefault(); }
}

function start() {
  const main = el('main', {});
  data.pictures.forEach((picture, i) => panels.push(new Panel(picture, i)));
  view.end = Math.max(1, ...panels.map(p => p.end));
  document.body.prepend(el('header', {}, el('h1', {}, panels.map(p => p.title).join(' and ')), el('span', { className: 'soft' }, 'drag to move, ', el('kbd', {}, 'Ctrl'), ' + wheel zooms, click for detail, ', el('kbd', {}, 'n'), ' ', el('kbd', {}, 'p'), ' step')),
    tools(main), verdict(), main, detail, tip);
  panels.forEach(p => { main.append(p.section); listen(p); });
  document.addEventListener('keydown', keys);
  window.addEventListener('resize', redraw);
  setTheme(window.matchMedia('(prefers-color-scheme: dark)').matches ? 'dark' : 'light');
  look(0, view.end);
  panels.forEach(p => p.draw());
  if (window.frameElement) document.body.classList.add('embedded');
  document.documentElement.dataset.ready = String(panels.reduce((n, p) => n + p.count, 0));
}
start();
})();
