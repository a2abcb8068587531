// A line chart: axes, direct labels, and the values of one point in the legend, by pointer or by keyboard.

import { element, svg } from "./dom.js";
import { clock } from "./format.js";

const MARGIN = { top: 8, right: 64, bottom: 24, left: 44 };
const LABEL_HEIGHT = 14;
const SECOND = 1000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;
const TIME_STEPS = [1, 2, 5, 10, 15, 30].map((n) => n * SECOND).concat(
  [1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  [1, 2, 3, 6, 12].map((n) => n * HOUR),
  [1, 2, 7, 14, 30, 90, 365].map((n) => n * DAY),
);

export class LineChart {
  /**
   * @param {HTMLElement} container
   * @param {{key: string, label: string, short: string, className: string}[]} lines
   * @param {{height: number, empty: string}} options `empty` is shown while there are no points.
   */
  constructor(container, lines, { height, empty }) {
    Object.assign(this, { container, lines, height, points: [], selected: null, drawn: 0 });
    this.legend = element("div", { class: "legend" });
    this.plot = svg("svg", { tabindex: 0, role: "slider", "aria-orientation": "horizontal" });
    this.empty = element("p", { class: "empty" }, empty);
    container.append(this.legend, this.plot, this.empty);
    this.plot.addEventListener("pointermove", (event) => this.select(this.nearest(event)));
    this.plot.addEventListener("pointerdown", (event) => this.select(this.nearest(event)));
    this.plot.addEventListener("pointerleave", () => this.select(null));
    this.plot.addEventListener("keydown", (event) => this.move(event));
    this.plot.addEventListener("focus", () => this.plot.matches(":focus-visible") && this.select(this.points.length - 1));
    this.plot.addEventListener("blur", () => this.select(null));
    new ResizeObserver(() => container.clientWidth !== this.drawn && this.draw()).observe(container);
  }

  /**
   * @param {{at: number, values: Object<string, number|null>, note: string}[]} points In the order of `at`, in milliseconds.
   * @param {{label: string, format: function(number): string, bounds: [number, number]}} scale
   */
  show(points, scale) {
    const chosen = this.selected === null ? null : this.points[this.selected]?.at;
    this.points = points;
    this.scale = scale;
    this.selected = chosen === null ? null : points.findIndex((point) => point.at === chosen);
    if (this.selected === -1) this.selected = null;
    this.draw();
  }

  /** Lines that have at least one value. */
  get present() {
    return this.lines.filter(({ key }) => this.points.some((point) => isValue(point.values[key])));
  }

  draw() {
    const width = (this.drawn = this.container.clientWidth);
    const lines = this.present;
    this.empty.hidden = lines.length > 0;
    this.plot.toggleAttribute("hidden", lines.length === 0);
    this.legend.hidden = lines.length === 0;
    this.plot.replaceChildren();
    if (lines.length === 0 || width === 0) return;
    this.inner = { width: Math.max(width - MARGIN.left - MARGIN.right, 40), height: this.height - MARGIN.top - MARGIN.bottom };
    this.plot.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.plot.setAttribute("width", width);
    this.plot.setAttribute("height", this.height);
    this.setRanges(lines);
    this.drawAxes();
    for (const line of lines) this.drawLine(line);
    this.drawLabels(lines);
    this.cursor = svg("g", { class: "cursor" });
    this.plot.append(this.cursor);
    this.plot.setAttribute("aria-label", this.scale.label);
    this.select(this.selected);
  }

  setRanges(lines) {
    const values = this.points.flatMap(({ values }) => lines.map(({ key }) => values[key]).filter(isValue));
    const [least, most] = this.scale.bounds;
    let [low, high] = [Math.min(...values), Math.max(...values)];
    const room = Math.max((high - low) * 0.08, Math.abs(high) * 0.02, 0.002);
    [low, high] = [Math.max(low - room, least), Math.min(high + room, most)];
    if (high <= low) [low, high] = [low - room, low + room];
    const step = niceStep((high - low) / 4);
    this.y = { low: Math.max(Math.floor(low / step) * step, least), high: Math.min(Math.ceil(high / step - 1e-9) * step, most), step };
    const first = this.points[0].at;
    const last = this.points.at(-1).at;
    this.x = first === last ? { low: first - MINUTE / 2, high: last + MINUTE / 2 } : { low: first, high: last };
  }

  left(at) {
    return MARGIN.left + ((at - this.x.low) / (this.x.high - this.x.low)) * this.inner.width;
  }

  top(value) {
    return MARGIN.top + (1 - (value - this.y.low) / (this.y.high - this.y.low)) * this.inner.height;
  }

  drawAxes() {
    const right = MARGIN.left + this.inner.width;
    const bottom = MARGIN.top + this.inner.height;
    for (let i = Math.ceil(this.y.low / this.y.step - 1e-9); i * this.y.step <= this.y.high + 1e-9; i++) {
      const value = i * this.y.step + 0; // never -0
      const y = round(this.top(value));
      this.plot.append(
        svg("line", { class: "grid", x1: MARGIN.left, x2: right, y1: y, y2: y }),
        svg("text", { x: MARGIN.left - 6, y: y + 4, "text-anchor": "end" }, this.scale.format(value, this.y.step)),
      );
    }
    this.plot.append(svg("line", { class: "axis", x1: MARGIN.left, x2: right, y1: bottom, y2: bottom }));
    const step = TIME_STEPS.find((size) => (this.x.high - this.x.low) / size <= this.inner.width / 90) ?? 365 * DAY;
    const shift = new Date(this.x.high).getTimezoneOffset() * MINUTE; // ticks at full local hours and days
    for (let at = Math.ceil((this.x.low - shift) / step) * step + shift; at <= this.x.high; at += step) {
      const x = round(this.left(at));
      this.plot.append(
        svg("line", { class: "axis", x1: x, x2: x, y1: bottom, y2: bottom + 4 }),
        svg("text", { x, y: bottom + 17, "text-anchor": "middle" }, tickLabel(at, step)),
      );
    }
  }

  drawLine({ key, className }) {
    let path = "";
    let joined = false;
    let alone = [];
    this.points.forEach((point, i) => {
      const value = point.values[key];
      if (isValue(value)) {
        path += `${joined ? "L" : "M"}${round(this.left(point.at))} ${round(this.top(value))}`;
        const next = this.points[i + 1]?.values[key];
        if (!joined && !isValue(next)) alone.push([this.left(point.at), this.top(value)]);
      }
      joined = isValue(value);
    });
    this.plot.append(svg("path", { class: `line ${className}`, d: path }));
    for (const [cx, cy] of alone) this.plot.append(svg("circle", { class: `dot ${className}`, cx: round(cx), cy: round(cy), r: 2.5 }));
  }

  /** The short name of each line at its right end, moved apart where they would overlap. */
  drawLabels(lines) {
    const labels = lines
      .map((line) => ({ ...line, y: this.top(this.points.findLast((point) => isValue(point.values[line.key])).values[line.key]) }))
      .sort((a, b) => a.y - b.y);
    const floor = MARGIN.top + this.inner.height;
    labels.forEach((label, i) => (label.y = Math.max(label.y, i ? labels[i - 1].y + LABEL_HEIGHT : MARGIN.top + 4)));
    for (let i = labels.length - 1, limit = floor; i >= 0; i--, limit -= LABEL_HEIGHT) labels[i].y = Math.min(labels[i].y, limit);
    for (const { short, className, y } of labels)
      this.plot.append(svg("text", { class: `label ${className}`, x: MARGIN.left + this.inner.width + 6, y: round(y) + 4 }, short));
  }

  /** Shows the values of a point; of the last one without a mark if `index` is null. */
  select(index) {
    if (!this.cursor) return;
    this.selected = index;
    const shown = index ?? this.points.length - 1;
    const point = this.points[shown];
    this.cursor.replaceChildren();
    if (index !== null && point) {
      const x = round(this.left(point.at));
      this.cursor.append(svg("line", { x1: x, x2: x, y1: MARGIN.top, y2: MARGIN.top + this.inner.height }));
      for (const { key, className } of this.present)
        if (isValue(point.values[key]))
          this.cursor.append(svg("circle", { class: `dot ${className}`, cx: x, cy: round(this.top(point.values[key])), r: 3.5 }));
    }
    this.writeLegend(point, index !== null);
    const text = this.present.map(({ key, label }) => `${label} ${this.format(point.values[key])}`).join(", ");
    for (const [name, value] of Object.entries({ min: 1, max: this.points.length, now: shown + 1, text: `${when(point.at)}: ${text}` }))
      this.plot.setAttribute(`aria-value${name}`, value);
  }

  writeLegend(point, chosen) {
    const items = this.present.map(({ key, label, className }) =>
      element(
        "span",
        { class: "item" },
        svg("svg", { class: "key", width: 22, height: 8, "aria-hidden": "true" }, svg("path", { class: `line ${className}`, d: "M0 4H22" })),
        label,
        element("b", {}, this.format(point.values[key])),
      ),
    );
    const note = point.note ? `${when(point.at)} · ${point.note}` : when(point.at);
    this.legend.replaceChildren(...items, element("span", { class: "when" }, chosen ? note : `latest · ${note}`));
  }

  format(value) {
    return isValue(value) ? this.scale.format(value) : "–";
  }

  nearest(event) {
    const at = this.plot.getBoundingClientRect();
    const distance = (point) => Math.abs(this.left(point.at) + at.left - event.clientX);
    return this.points.reduce((best, point, i) => (distance(point) < distance(this.points[best]) ? i : best), 0);
  }

  move(event) {
    const last = this.points.length - 1;
    const now = this.selected ?? last;
    const target = { ArrowLeft: now - 1, ArrowDown: now - 1, ArrowRight: now + 1, ArrowUp: now + 1, PageUp: now + 10, PageDown: now - 10, Home: 0, End: last }[event.key];
    if (target === undefined) return;
    event.preventDefault();
    this.select(Math.min(Math.max(target, 0), last));
  }
}

const isValue = (value) => typeof value === "number" && Number.isFinite(value);
const round = (x) => Math.round(x * 10) / 10;

/** 1, 2, 2.5 or 5 times a power of ten, at least `size`. */
function niceStep(size) {
  const power = 10 ** Math.floor(Math.log10(size));
  return power * [1, 2, 2.5, 5, 10].find((factor) => factor * power >= size * (1 - 1e-9));
}

function tickLabel(at, step) {
  const date = new Date(at);
  if (step >= DAY) return date.toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  return step >= MINUTE ? clock(at).slice(0, 5) : clock(at);
}

function when(at) {
  const today = new Date(at).toDateString() === new Date().toDateString();
  return today ? clock(at) : `${new Date(at).toLocaleDateString("en-GB", { day: "numeric", month: "short" })} ${clock(at)}`;
}
