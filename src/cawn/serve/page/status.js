// The figures of the service: tiles, accuracy, drift, latency and the alarm.

import { LineChart } from "./chart.js";
import { byId, element, setText, svg, table, words } from "./dom.js";
import { NONE, brief, clock, dataTime, duration, fixed, milliseconds, percent, plural, whole } from "./format.js";

const MODELS = [
  { key: "model", label: "Model", short: "Model", className: "model" },
  { key: "shadow", label: "Shadow model", short: "Shadow", className: "shadow" },
  { key: "baseline", label: "Recency baseline", short: "Recency", className: "baseline" },
];
const METRICS = {
  mrr: { label: "MRR", higher: true, bounds: [0, 1] },
  log_loss: { label: "Log loss", higher: false, bounds: [0, Infinity] },
  calibration_error: { label: "Calibration error", higher: false, bounds: [0, 1] },
};
const SHARES = [
  { key: "new_pairs", label: "Never-seen pairs", short: "Pairs", className: "model" },
  { key: "new_nodes", label: "New nodes", short: "Nodes", className: "baseline" },
];
const REQUESTS = { links: "Add links", score: "Score", rank: "Rank", explain: "Explain", nodes: "Node" };
const RATES = 60; // values of the sparkline
const RECENT_LAG = 7 * 86400; // seconds; of older data, the distance to the clock says nothing
const PER_SECOND = { s: 1, ms: 1e3, us: 1e6, ns: 1e9 };

const NO_FIGURES = "No figures yet: they appear once enough links have arrived.";
const accuracyChart = new LineChart(byId("accuracy-chart"), MODELS, { height: 250, empty: NO_FIGURES });
const driftChart = new LineChart(byId("drift-chart"), SHARES, { height: 170, empty: NO_FIGURES });
const rates = [];
let growth = { links: null, at: 0 };
let points = [];

/** @param {object} status The answer of /v1/status. */
export function showStatus(status) {
  const model = typeof status.model === "object" && status.model ? status.model : { name: status.model };
  showRate(status);
  showLatency(status.latency ?? {});
  const queue = typeof status.queue === "object" && status.queue ? status.queue : { size: status.queue };
  tile("queue", whole(queue.size), queue.capacity ? `of ${whole(queue.capacity)}` : "waiting");
  byId("watermark").replaceChildren(...words(dataTime(status.watermark, status.unit)));
  setText(byId("watermark-more"), lag(status) ?? "time of the newest link");
  tile("history", `version ${whole(status.version)}`, `${plural(status.links, "link")}, ${plural(status.nodes, "node")}`);
  tile("model", model.name ?? NONE, modelFacts(model));
  showSummary(status.accuracy ?? {}, status.learning);
  showAlarm(status.accuracy?.alarm);
}

function tile(id, value, more) {
  setText(byId(id), value);
  setText(byId(`${id}-more`), more);
}

function showRate(status) {
  if (status.links !== growth.links) growth = { links: status.links, at: Date.now() };
  const idle = (Date.now() - growth.at) / 1000;
  setText(byId("rate"), brief(status.links_per_second));
  if (idle >= 10) setText(byId("rate-more"), `no new link for ${duration(idle)}`);
  rates.push(status.links_per_second ?? 0);
  if (rates.length > RATES) rates.shift();
  if (idle < 10 && rates.length > 1) byId("rate-more").replaceChildren(sparkline(rates));
}

function sparkline(values) {
  const [width, height] = [120, 14];
  const most = Math.max(...values, 1e-9);
  const steps = values.map((value, i) => `${((RATES - values.length + i) * width) / (RATES - 1)} ${height - 1 - (value / most) * (height - 2)}`);
  return svg(
    "svg",
    { class: "sparkline", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": `at most ${brief(most)} since this page was opened` },
    svg("path", { class: "line model", d: `M${steps.join("L")}` }),
  );
}

function showLatency(latency) {
  const score = latency.score;
  tile("latency", milliseconds(score?.p50), score ? `p99 ${milliseconds(score.p99)}` : "no requests yet");
  const rows = Object.entries(latency)
    .filter(([, times]) => times && typeof times === "object")
    .map(([name, times]) =>
      element(
        "tr",
        {},
        element("th", { scope: "row" }, REQUESTS[name] ?? name),
        [milliseconds(times.p50), milliseconds(times.p99), whole(times.count)].map((text) => element("td", { class: "number" }, text)),
      ),
    );
  const columns = ["p50", "p99", "Requests"].map((title) => ({ title, className: "number" }));
  byId("latency-table").replaceChildren(
    rows.length ? table("Latency by request", [{ title: "Request" }, ...columns], rows) : element("p", { class: "empty" }, "No requests yet."),
  );
}

function lag({ watermark, unit }) {
  if (!(unit in PER_SECOND) || watermark === null) return null;
  const seconds = Date.now() / 1000 - Number(watermark) / PER_SECOND[unit];
  return seconds >= 0 && seconds < RECENT_LAG ? `${duration(seconds)} before now` : null;
}

function modelFacts(model) {
  const facts = [];
  if (model.version !== undefined) facts.push(`version ${model.version}`);
  if (model.identity) facts.push(String(model.identity).slice(0, 8));
  return facts.join(" · ");
}

function showSummary(accuracy, learning) {
  const present = MODELS.filter(({ key }) => accuracy[key]);
  const covered = accuracy.links ? ` The table covers the last ${plural(accuracy.links, "link")}.` : "";
  const learned = learning?.enabled ? ` The shadow model keeps learning; it was promoted ${plural(learning.promotions ?? 0, "time")}.` : "";
  setText(byId("accuracy-note"), `Each link is scored before the model learns from it.${covered}${learned}`);
  if (present.length === 0) return byId("accuracy-table").replaceChildren();
  const best = Object.fromEntries(Object.entries(METRICS).map(([metric, { higher }]) => [metric, bestOf(present.map(({ key }) => accuracy[key][metric]), higher)]));
  const rows = present.map(({ key, label }) =>
    element(
      "tr",
      {},
      element("th", { scope: "row" }, label),
      Object.keys(METRICS).map((metric) => {
        const value = accuracy[key][metric];
        return element("td", { class: value === best[metric] && present.length > 1 ? "number best" : "number" }, fixed(value));
      }),
    ),
  );
  const columns = Object.values(METRICS).map(({ label, higher }) => ({ title: `${label} ${higher ? "↑" : "↓"}`, className: "number" }));
  byId("accuracy-table").replaceChildren(table("Accuracy of each model", [{ title: "Scored by" }, ...columns], rows));
}

function bestOf(values, higher) {
  const known = values.filter((value) => typeof value === "number");
  return known.length ? (higher ? Math.max(...known) : Math.min(...known)) : null;
}

function showAlarm(alarm) {
  const reason = typeof alarm === "object" ? alarm?.reason : alarm === true ? "the recency baseline is more accurate than the model" : alarm;
  const text = reason ? `Alarm${alarm.since ? ` since ${clock(alarm.since * 1000)}` : ""}: ${reason}` : "";
  setText(byId("alarm"), text);
}

/** @param {object} series The answer of /v1/series. */
export function showSeries(series) {
  points = series.points ?? [];
  drawAccuracy();
  const shares = points.map((point) => at(point, { new_pairs: point.new_pairs, new_nodes: point.new_nodes }));
  driftChart.show(shares, { label: "Drift over time", format: (share) => `${brief(100 * share)} %`, bounds: [0, 1] });
}

function drawAccuracy() {
  const metric = document.querySelector("input[name=metric]:checked").value;
  const { label, bounds } = METRICS[metric];
  const values = points.map((point) => at(point, Object.fromEntries(MODELS.map(({ key }) => [key, point[key]?.[metric]]))));
  accuracyChart.show(values, { label: `${label} over time`, format: (value, step) => fixed(value, step ? digitsOf(step) : 3), bounds });
}

const at = (point, values) => ({ at: point.at * 1000, values, note: point.links ? plural(point.links, "link") : "" });

const digitsOf = (step) => Math.max(0, Math.ceil(-Math.log10(step) - 1e-9) + (String(step).includes("25") ? 1 : 0));

byId("metrics").addEventListener("change", drawAccuracy);
