// A line chart: axes, direct labels, and the values of one point in the legend, by pointer or by keyboard.

import { element, span, svg } from "./dom.js";
import { compact } from "./format.js";

const MARGIN = { top: 22, right: 64, bottom: 24 };
const LETTER = 7; // pixels of a digit
const LABEL_HEIGHT = 14;
const TICK_WIDTH = 60; // pixels between two labels of the horizontal axis, at least

export class LineChart {
  /**
   * @param {HTMLElement} container
   * @param {{key: string, label: string, short: string, className: string}[]} lines
   * @param {{height: number, unit: string}} options `unit` is that of the horizontal axis.
   */
  constructor(container, lines, { height, unit }) {
    Object.assign(this, { container, lines, height, unit, points: [], selected: null, drawn: 0 });
    this.legend = element("div", { class: "legend" });
    this.plot = svg("svg", { tabindex: 0, role: "slider", "aria-orientation": "horizontal" });
    this.empty = element("p", { class: "empty" }, "Loading …");
    this.plot.toggleAttribute("hidden", true);
    container.append(this.legend, this.plot, this.empty);
    this.plot.addEventListener("pointermove", (event) => this.select(this.nearest(event)));
    this.plot.addEventListener("pointerdown", (event) => this.select(this.nearest(event)));
    this.plot.addEventListener("pointerleave", () => this.select(null));
    this.plot.addEventListener("keydown", (event) => this.move(event));
    this.plot.addEventListener("focus", () => {
      if (this.plot.matches(":focus-visible")) this.select(this.points.length - 1);
    });
    this.plot.addEventListener("blur", () => this.select(null));
    new ResizeObserver(() => container.clientWidth !== this.drawn && this.draw()).observe(container);
  }

  /**
   * @param {{x: number, values: Object<string, number|null>, note: string}[]} points In the order of x.
   * @param {{label: string, empty: string, bounds: [number, number], format: function}} scale
   *   Of the values: `format(value)` writes one, `format(value, decimals)` a label of the axis.
   */
  show(points, scale) {
    const chosen = this.points[this.selected]?.x;
    Object.assign(this, { points, scale });
    this.empty.textContent = scale.empty;
    this.selected = chosen === undefined ? -1 : points.findIndex(({ x }) => x === chosen);
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
    this.plot.setAttribute("viewBox", `0 0 ${width} ${this.height}`);
    this.plot.setAttribute("width", width);
    this.plot.setAttribute("height", this.height);
    this.setRanges(lines);
    const labels = this.ticks.map(({ label }) => label.length);
    this.margin = Math.max(...labels) * LETTER + 8;
    this.inner = {
      width: Math.max(width - this.margin - MARGIN.right, 40),
      height: this.height - MARGIN.top - MARGIN.bottom,
    };
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
    const room = Math.max((high - low) * 0.08, Math.abs(high) * 0.02, 0.005);
    [low, high] = [Math.max(low - room, least), Math.min(high + room, most)];
    const step = niceStep((high - low) / 4);
    [low, high] = [Math.floor(low / step + 1e-9) * step, Math.ceil(high / step - 1e-9) * step];
    this.y = { low: Math.max(low, least), high: Math.min(high, most) };
    const label = (value) => this.scale.format(value, decimalsOf(step));
    this.ticks = multiples(this.y.low, this.y.high, step).map((value) => ({ value, label: label(value) }));
    const [first, last] = [this.points[0].x, this.points.at(-1).x];
    this.x = first === last ? { low: first - 1, high: last + 1 } : { low: first, high: last };
  }

  left(x) {
    return this.margin + ((x - this.x.low) / (this.x.high - this.x.low)) * this.inner.width;
  }

  top(value) {
    return MARGIN.top + (1 - (value - this.y.low) / (this.y.high - this.y.low)) * this.inner.height;
  }

  drawAxes() {
    const right = this.margin + this.inner.width;
    const bottom = MARGIN.top + this.inner.height;
    this.plot.append(svg("text", { x: 0, y: 12 }, this.scale.label));
    for (const { value, label } of this.ticks) {
      const y = round(this.top(value));
      this.plot.append(
        svg("line", { class: "grid", x1: this.margin, x2: right, y1: y, y2: y }),
        svg("text", { x: this.margin - 6, y: y + 4, "text-anchor": "end" }, label),
      );
    }
    this.plot.append(
      svg("line", { class: "axis", x1: this.margin, x2: right, y1: bottom, y2: bottom }),
      svg("text", { x: right + 6, y: bottom + 17 }, this.unit),
    );
    const step = Math.max(niceStep(((this.x.high - this.x.low) * TICK_WIDTH) / this.inner.width), 1);
    for (const value of multiples(this.x.low, this.x.high, step)) {
      const x = round(this.left(value));
      if (x > right - 24) continue; // there is the unit
      this.plot.append(
        svg("line", { class: "axis", x1: x, x2: x, y1: bottom, y2: bottom + 4 }),
        svg("text", { x, y: bottom + 17, "text-anchor": "middle" }, compact(value)),
      );
    }
  }

  drawLine({ key, className }) {
    const has = (i) => isValue(this.points[i]?.values[key]);
    let path = "";
    this.points.forEach(({ x, values }, i) => {
      if (!has(i)) return;
      const [left, top] = [round(this.left(x)), round(this.top(values[key]))];
      path += `${has(i - 1) ? "L" : "M"}${left} ${top}`;
      if (has(i - 1) || has(i + 1)) return;
      this.plot.append(svg("circle", { class: `dot ${className}`, cx: left, cy: top, r: 2.5 }));
    });
    this.plot.append(svg("path", { class: `line ${className}`, d: path }));
  }

  /** The short name of each line at its right end, moved apart where they would overlap. */
  drawLabels(lines) {
    const last = (key) => this.points.findLast(({ values }) => isValue(values[key])).values[key];
    const labels = lines.map((line) => ({ ...line, y: this.top(last(line.key)) })).sort((a, b) => a.y - b.y);
    const floor = MARGIN.top + this.inner.height;
    let limit = MARGIN.top;
    for (const label of labels) limit = (label.y = Math.max(label.y, limit)) + LABEL_HEIGHT;
    limit = floor;
    for (const label of labels.toReversed()) limit = (label.y = Math.min(label.y, limit)) - LABEL_HEIGHT;
    const x = this.margin + this.inner.width + 6;
    for (const { short, className, y } of labels)
      this.plot.append(svg("text", { class: `label ${className}`, x, y: round(y) + 4 }, short));
  }

  /** Shows the values of a point; of the last one, without a mark, if `index` is null. */
  select(index) {
    const shown = index ?? this.points.length - 1;
    const point = this.points[shown];
    if (!this.cursor || !point) return;
    this.selected = index;
    this.cursor.replaceChildren(...(index === null ? [] : this.mark(point)));
    this.writeLegend(point);
    const values = this.present.map(({ key, label }) => `${label} ${this.format(point.values[key])}`).join(", ");
    const state = { min: 1, max: this.points.length, now: shown + 1, text: `${point.note}: ${values}` };
    for (const [name, value] of Object.entries(state)) this.plot.setAttribute(`aria-value${name}`, value);
  }

  mark({ x, values }) {
    const left = round(this.left(x));
    const line = svg("line", { x1: left, x2: left, y1: MARGIN.top, y2: MARGIN.top + this.inner.height });
    const known = this.present.filter(({ key }) => isValue(values[key]));
    const dot = ({ key, className }) =>
      svg("circle", { class: `dot ${className}`, cx: left, cy: round(this.top(values[key])), r: 3.5 });
    return [line, ...known.map(dot)];
  }

  writeLegend({ values, note }) {
    const key = (className) =>
      svg(
        "svg",
        { class: "key", width: 22, height: 8, "aria-hidden": "true" },
        svg("path", { class: `line ${className}`, d: "M0 4H22" }),
      );
    const value = (line) => element("b", {}, this.format(values[line.key]));
    const item = (line) => span("item", key(line.className), line.label, value(line));
    this.legend.replaceChildren(...this.present.map(item), span("when", note));
  }

  format(value) {
    return isValue(value) ? this.scale.format(value) : "–";
  }

  nearest(event) {
    const x = event.clientX - this.plot.getBoundingClientRect().left;
    const distance = (i) => Math.abs(this.left(this.points[i].x) - x);
    return this.points.reduce((best, _, i) => (distance(i) < distance(best) ? i : best), 0);
  }

  move(event) {
    const last = this.points.length - 1;
    const now = this.selected ?? last;
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -10, PageUp: 10 };
    const target = { Home: 0, End: last }[event.key] ?? now + steps[event.key];
    if (Number.isNaN(target)) return; // another key
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

/** The number of decimals that multiples of `step` need. */
function decimalsOf(step) {
  const isWhole = (x) => Math.abs(x - Math.round(x)) < 1e-6;
  return [0, 1, 2, 3, 4, 5].find((digits) => isWhole(step * 10 ** digits)) ?? 6;
}

/** The multiples of `step` from `low` to `high`. */
function multiples(low, high, step) {
  const [first, last] = [Math.ceil(low / step - 1e-9), Math.floor(high / step + 1e-9)];
  return Array.from({ length: last - first + 1 }, (_, i) => (first + i) * step + 0); // + 0: never -0
}
