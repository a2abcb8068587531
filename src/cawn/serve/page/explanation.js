// The explanation of one link: the answer, the parts of its score, and the walks that raise and lower it.

import { cell, element, paragraph, shareBar, signedBar, span, table } from "./dom.js";
import { dataTime, fixed, plural, printable, signed } from "./format.js";

const SHOWN = 6; // walks of each kind
const SMALLEST = 0.0005; // contribution that is shown
const FULL_BAR = 1; // log-odds of a bar of full length, unless some are larger
const LONG = 24; // characters of names that are shown in a sentence
const SHORT = 14; // and in a walk

/** @param {object} why The answer of /v1/explain. @param {string|null} unit Of its times. */
export function explanation(why, unit) {
  const sizes = [...why.walks, ...why.parts].map(({ contribution }) => contribution);
  const largest = Math.max(FULL_BAR, ...[why.base, why.logit, ...sizes].map(Math.abs));
  const shown = (sign) => why.walks.filter((walk) => sign * walk.contribution >= SMALLEST).slice(0, SHOWN);
  const [raised, lowered] = [shown(1), shown(-1)];
  const hidden = why.walks.length - raised.length - lowered.length;
  const walkList = (title, walks) => walksOf(title, walks, why, unit, largest);
  return element(
    "div",
    { class: "explanation" },
    paragraph("answer", printable(why.answer)),
    verdict(why),
    shareBar(why.probability),
    partTable(why, largest),
    paragraph("faint", notes(why)),
    element(
      "div",
      { class: "walks" },
      walkList("Walks that raise the score", raised),
      walkList("Walks that lower the score", lowered),
    ),
    hidden > 0 ? paragraph("faint", `${plural(hidden, "more distinct walk")} with smaller contributions.`) : null,
  );
}

function verdict({ probability, error, draws, prior }) {
  const assumed = `probability, assuming a prior of ${Number((100 * prior).toPrecision(3))} % positives`;
  const note = `${assumed}; mean over ${plural(draws, "walk sample")}`;
  return paragraph("verdict", element("b", {}, fixed(probability)), ` ± ${fixed(error, 4)} `, span("faint", note));
}

const background = (why) =>
  why.background === "strangers" ? "two strangers: nodes without any links" : "random pairs of nodes with earlier links";

function notes(why) {
  const compared = `Each part is compared with ${background(why)}.`;
  const added = "The values are Shapley values: base and parts add up to the log-odds before calibration.";
  return [compared, added, why.interaction_in_words].filter(Boolean).join(" ");
}

/** The base and the parts, largest first: [title, detail, value]. Those that contribute nothing are one row. */
function partRows(why) {
  const parts = [...why.parts].sort((a, b) => Math.abs(b.contribution) - Math.abs(a.contribution));
  const isLarge = ({ contribution }) => Math.abs(contribution) >= SMALLEST;
  const [large, small] = [parts.filter(isLarge), parts.filter((part) => !isLarge(part))];
  const rows = [["base", background(why), why.base]];
  rows.push(...large.map((part) => [part.title, partDetail(part), part.contribution]));
  if (small.length) {
    const sum = small.reduce((total, { contribution }) => total + contribution, 0);
    rows.push([small.map(({ title }) => title).join(", "), `less than ${SMALLEST} in absolute value`, sum]);
  }
  return rows;
}

function partDetail({ detail, counted, num_walks }) {
  if (!counted || !num_walks) return detail;
  return `${detail}; ${signed(counted)} of it from exact counts`;
}

function partTable(why, largest) {
  const row = ([title, detail, value]) =>
    element(
      "tr",
      {},
      cell("part", printable(title), element("small", {}, printable(detail))),
      cell("number", signed(value), signedBar(value, largest)),
    );
  const sum = cell("number", signed(why.logit), signedBar(why.logit, largest));
  const total = element("tr", { class: "total" }, cell(null, "= log-odds before calibration"), sum);
  const columns = [{ title: "Part of the score" }, { title: "Log-odds", className: "number" }];
  return table("Contributions to the log-odds", columns, [...partRows(why).map(row), total]);
}

function walksOf(title, walks, why, unit, largest) {
  const titles = Object.fromEntries(why.parts.map((part) => [part.name, part.title]));
  const step = ({ src, dst, t, time }) =>
    element("li", {}, shortName(src), " → ", shortName(dst), " ", span("faint", dataTime(time || t, unit)));
  const shape = ({ part, meaning, count }) =>
    `${titles[part] ?? part}${meaning ? `: ${meaning}` : ""}; ${count} of ${why.num_walks} walks from `;
  const item = ({ nodes, links, contribution, ...walk }) =>
    element(
      "details",
      {},
      element(
        "summary",
        {},
        span("path", nodes.flatMap((name, i) => [i ? " → " : "", nodeName(name, SHORT)])),
        span("number", signed(contribution)),
        signedBar(contribution, largest),
      ),
      paragraph("faint", shape(walk), shortName(nodes[0])),
      element("ol", {}, links.map(step)),
    );
  return element("section", {}, element("h4", {}, title), walks.length ? walks.map(item) : paragraph("faint", "None."));
}

/** A name, isolated from the direction of the text around it; `most` characters of it are shown, and all on hover. */
export function nodeName(name, most = Infinity) {
  const text = printable(name) || "(empty name)";
  const letters = [...text];
  const shown = letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
  return element("bdi", { title: text.length > SHORT ? text : null }, shown);
}

const shortName = (name) => nodeName(name, LONG);
