// The figures of the service: tiles, accuracy, drift, latency and the alarm.

import { LineChart } from "./chart.js";
import { byId, element, numbersTable, paragraph, setText, span, svg, words } from "./dom.js";
import { NONE, brief, clock, dataTime, duration, fixed, milliseconds } from "./format.js";
import { percent, plural, printable, whole, withSign } from "./format.js";

const SCORERS = [
  { key: "model", label: "Model", short: "Model", className: "model" },
  { key: "shadow", label: "Shadow model", short: "Shadow", className: "shadow" },
  { key: "baseline", label: "Recency baseline", short: "Recency", className: "baseline" },
];
const METRICS = {
  mrr: { label: "MRR", higher: true, bounds: [0, 1] },
  log_loss: { label: "Log loss", higher: false, bounds: [0, Infinity] },
  ece: { label: "Calibration error", higher: false, bounds: [0, 1] },
};
const SHARES = [
  { key: "new_pairs", label: "Never-seen pairs", short: "Pairs", className: "model" },
  { key: "new_nodes", label: "New nodes", short: "Nodes", className: "baseline" },
];
const DRIFT = [
  { key: "new_pairs", label: "Never-seen pairs", format: percent },
  { key: "new_nodes", label: "New nodes", format: percent },
  { key: "ece", label: "Calibration error", format: fixed },
];
const REQUESTS = {
  links: "Add links",
  score: "Score",
  rank: "Rank",
  explain: "Explain",
  nodes: "Node",
};
const EMPTY = "No figures yet. The chart starts once enough links have been scored.";
const RATES = 60; // values of the sparkline
const IDLE = 10; // seconds without a new link that are worth mentioning
const RECENT_LAG = 7 * 86_400; // seconds; a longer lag means old data, not a slow stream
const PER_SECOND = { s: 1, ms: 1e3, us: 1e6, ns: 1e9 };

const accuracyChart = new LineChart(byId("accuracy-chart"), SCORERS, { height: 330, unit: "links" });
const driftChart = new LineChart(byId("drift-chart"), SHARES, { height: 160, unit: "links" });
const rates = [];
let growth = { links: null, at: 0 }; // the number of links, and since when
let points = null; // of the series
let unit = null; // of times

/** @param {object} status The answer of /v1/status. */
export function showStatus(status) {
  const { links, nodes, version, queue, model, accuracy, learning } = status;
  unit = status.unit ?? null;
  showRate(links, status.links_per_second);
  showLatency(status.latency ?? {});
  tile("queue", plural(queue?.links, "link"), `${plural(queue?.size, "pair")} to score`);
  byId("watermark").replaceChildren(...words(dataTime(status.watermark, unit)));
  setText(byId("watermark-more"), lag(status.watermark) ?? "time of the newest link");
  tile("history", `version ${whole(version)}`, `${plural(links, "link")}, ${plural(nodes, "node")}`);
  tile("model", model?.name ?? NONE, model?.version ? `weights ${model.version}` : "");
  showAccuracy(accuracy ?? {}, learning);
  showDrift(accuracy?.drift ?? {});
  showAlarm(accuracy?.alarm, accuracy?.alarm_since);
  showStreams(status.sources ?? []);
}

// Tiles

function tile(id, value, more) {
  setText(byId(id), value);
  setText(byId(`${id}-more`), more);
}

function showRate(links, rate) {
  if (links !== growth.links) growth = { links, at: Date.now() };
  const idle = (Date.now() - growth.at) / 1000;
  rates.push(rate ?? 0);
  if (rates.length > RATES) rates.shift();
  setText(byId("rate"), brief(rate));
  if (idle >= IDLE) setText(byId("rate-more"), `no new link for ${duration(idle)}`);
  else byId("rate-more").replaceChildren(...(rates.length > 2 ? [sparkline(rates)] : []));
}

function sparkline(values) {
  const [width, height, most] = [120, 16, Math.max(...values, 1e-9)];
  const corner = (value, i) => `${(i * width) / (RATES - 1)} ${height - 1 - (value / most) * (height - 2)}`;
  const label = `at most ${brief(most)} in the last two minutes`;
  return svg(
    "svg",
    { class: "sparkline", viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label },
    svg("path", { class: "line model", d: `M${values.map(corner).join("L")}` }),
  );
}

function lag(watermark) {
  if (!(unit in PER_SECOND) || watermark === null) return null;
  const seconds = Date.now() / 1000 - Number(watermark) / PER_SECOND[unit];
  return seconds >= 0 && seconds < RECENT_LAG ? `${duration(seconds)} before now` : null;
}

function showLatency(latency) {
  const score = latency.score;
  tile("latency", milliseconds(score?.p50), score ? `p99 ${milliseconds(score.p99)}` : "no requests yet");
  const row = ([route, label]) => {
    const { p50, p99, count } = latency[route];
    return [label, milliseconds(p50), milliseconds(p99), whole(count)];
  };
  const rows = Object.entries(REQUESTS).filter(([route]) => latency[route]).map(row);
  const titles = ["Latest requests", "p50", "p99", "Number"];
  const empty = paragraph("empty", "No requests yet.");
  byId("latency-table").replaceChildren(rows.length ? numbersTable("Latency", titles, rows) : empty);
}

function showStreams(sources) {
  byId("streams").hidden = sources.length === 0;
  const row = ({ name, connected, last_error, warning, added, lag, rejected }) => {
    const trouble = last_error ?? warning ?? (connected ? null : "not connected");
    const label = span("stream", printable(name), trouble ? element("small", { class: "error" }, trouble) : null);
    return [label, whole(added), whole(lag), whole(rejected)];
  };
  const titles = ["Stream", "Added", "Lag", "Rejected"];
  byId("streams-table").replaceChildren(numbersTable("Streams", titles, sources.map(row)));
}

// Accuracy and drift

function showAccuracy(accuracy, learning) {
  const { scored, negatives } = accuracy.window ?? {};
  const sentences = ["Each link is predicted from the links before it."];
  if (scored) {
    const ranked = `each ranked among ${plural(negatives, "other destination")}`;
    sentences.push(`The table covers the last ${plural(scored, "scored link")}, ${ranked}.`);
  }
  if (learning?.enabled) {
    const times = learning.promotions ? `was promoted ${plural(learning.promotions, "time")}` : "has not been promoted";
    sentences.push(`The shadow model ${times}.`);
  }
  setText(byId("accuracy-note"), sentences.join(" "));
  const present = SCORERS.filter(({ key }) => accuracy[key]);
  byId("accuracy-table").replaceChildren(...(present.length ? [accuracyTable(accuracy, present)] : []));
}

function accuracyTable(accuracy, present) {
  const column = ([metric, { higher }]) => {
    const values = present.map(({ key }) => accuracy[key][metric]);
    const known = values.filter(Number.isFinite);
    const best = known.length > 1 ? Math[higher ? "max" : "min"](...known) : null;
    return present.map(({ key }, i) => figure(values[i], accuracy[key][`${metric}_error`], values[i] === best));
  };
  const columns = Object.entries(METRICS).map(column);
  const titles = Object.values(METRICS).map(({ label, higher }) => `${label}\u00a0${higher ? "↑" : "↓"}`);
  const rows = present.map(({ label }, i) => [label, ...columns.map((values) => values[i])]);
  return numbersTable("Accuracy", ["Scored by", ...titles], rows);
}

function figure(value, error, best) {
  const deviation = Number.isFinite(error) ? span("deviation", ` ± ${fixed(error)}`) : null;
  return span(best ? "best" : null, fixed(value), deviation);
}

function showDrift(drift) {
  const row = ({ key, label, format }) => {
    const { test, now, change } = drift[key];
    return [label, format(test), format(now), withSign(change, format)];
  };
  const rows = DRIFT.filter(({ key }) => drift[key]).map(row);
  const titles = ["Quantity", "In the test", "Now", "Change"];
  byId("drift-table").replaceChildren(...(rows.length ? [numbersTable("Drift since the test", titles, rows)] : []));
}

function showAlarm(alarm, since) {
  setText(byId("alarm"), alarm ? `Alarm${since ? ` since ${clock(Date.parse(since))}` : ""}: ${alarm}` : "");
  document.title = alarm ? "Alarm: cawn" : "cawn";
}

// Charts

/** @param {object} series The answer of /v1/series: points, oldest first. */
export function showSeries(series) {
  points = series.points;
  drawAccuracy();
  driftChart.show(points.map((point) => ({ ...place(point), values: point })), {
    label: "Share of arriving links",
    empty: EMPTY,
    bounds: [0, 1],
    format: percent,
  });
}

function drawAccuracy() {
  if (points === null) return;
  const metric = document.querySelector("input[name=metric]:checked").value;
  const { label, higher, bounds } = METRICS[metric];
  const values = (point) => Object.fromEntries(SCORERS.map(({ key }) => [key, point[key]?.[metric]]));
  accuracyChart.show(points.map((point) => ({ ...place(point), values: values(point) })), {
    label: `${label}, ${higher ? "higher" : "lower"} is better`,
    empty: EMPTY,
    bounds,
    format: (value, decimals = 3) => fixed(value, decimals),
  });
}

/** The position of a point on the horizontal axis, and its description. */
const place = ({ links, t }) => ({ x: links, note: `after ${plural(links, "link")}, ${dataTime(t, unit)}` });

byId("metrics").addEventListener("change", drawAccuracy);
