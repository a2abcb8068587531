// The explanation of one link: the answer, the parts of its score, and the walks that raise and lower it.

import { cell, element, paragraph, shareBar, signedBar, span, table } from "./dom.js";
import { dataTime, fixed, plural, printable, signed } from "./format.js";

const LONG = 24; // characters of names that are shown in a sentence
const SHORT = 14; // and in a walk

/** @param {object} view What /v1/explain shows of its answer. @param {string|null} unit Of its times. */
export function explanation(view, unit) {
  const walkList = (title, sign) => walksOf(title, sign, view, unit);
  return element(
    "div",
    { class: "explanation" },
    paragraph("answer", printable(view.answer)),
    verdict(view),
    shareBar(view.probability),
    barTable(view),
    paragraph("faint", view.notes),
    element(
      "div",
      { class: "walks" },
      walkList("Walks that raise the score", 1),
      walkList("Walks that lower the score", -1),
    ),
    view.hidden ? paragraph("faint", `${plural(view.hidden, "more distinct walk")} with smaller contributions.`) : null,
  );
}

function verdict({ probability, error, assumptions }) {
  const note = span("faint", `probability, ${assumptions}`);
  return paragraph("verdict", element("b", {}, fixed(probability)), ` ± ${fixed(error, 4)} `, note);
}

function barTable({ bars, total, scale }) {
  const number = (value) => cell("number", signed(value), signedBar(value, scale));
  const row = ({ title, detail, value }) =>
    element("tr", {}, cell("part", printable(title), element("small", {}, printable(detail))), number(value));
  const sum = element("tr", { class: "total" }, cell(null, total.title), number(total.value));
  const columns = [{ title: "Part of the score" }, { title: "Log-odds", className: "number" }];
  return table("Contributions to the log-odds", columns, [...bars.map(row), sum]);
}

/** The walks that raise the score, or lower it. */
function walksOf(title, sign, { walks, titles, num_walks, scale }, unit) {
  const shown = walks.filter(({ contribution }) => sign * contribution > 0);
  const step = ({ src, dst, time }) =>
    element("li", {}, shortName(src), " → ", shortName(dst), " ", span("faint", dataTime(time, unit)));
  const shape = ({ part, meaning, count }) =>
    `${titles[part] ?? part}${meaning ? `: ${meaning}` : ""}; ${count} of ${num_walks} walks from `;
  const item = ({ nodes, links, contribution, ...walk }) =>
    element(
      "details",
      {},
      element(
        "summary",
        {},
        span("path", nodes.flatMap((name, i) => [i ? " → " : "", nodeName(name, SHORT)])),
        span("number", signed(contribution)),
        signedBar(contribution, scale),
      ),
      paragraph("faint", shape(walk), shortName(nodes[0])),
      element("ol", {}, links.map(step)),
    );
  return element("section", {}, element("h4", {}, title), shown.length ? shown.map(item) : paragraph("faint", "None."));
}

/** A name, isolated from the direction of the text around it; `most` characters of it are shown, and all on hover. */
export function nodeName(name, most = Infinity) {
  const text = printable(name) || "(empty name)";
  const letters = [...text];
  const shown = letters.length > most ? `${letters.slice(0, most - 1).join("")}…` : text;
  return element("bdi", { title: text.length > SHORT ? text : null }, shown);
}

const shortName = (name) => nodeName(name, LONG);
