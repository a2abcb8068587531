// The explanation of one link: its probability, the parts of its score, and the walks that raise and lower it.

import { cell, element, paragraph, shareBar, signedBar, span, table } from "./dom.js";
import { dataTime, fixed, plural, printable, signed, whole } from "./format.js";

const SHOWN = 6; // walks of each kind
const SMALLEST = 0.0005; // contribution that is shown
const FULL_BAR = 1; // log-odds of a bar of full length, unless some are larger
const LONG = 24; // characters of names that are shown in a sentence
const SHORT = 14; // and in a walk

/** @param {object} why The answer of /v1/explain. @param {string|null} unit Of its times. */
export function explanation(why, unit) {
  const parts = contributions(why, unit);
  const sizes = [...why.walks.map((walk) => walk.contribution), ...parts.map(([, value]) => value)];
  const largest = Math.max(FULL_BAR, ...sizes.map(Math.abs));
  const shown = (sign) => why.walks.filter((walk) => sign * walk.contribution >= SMALLEST).slice(0, SHOWN);
  const [raised, lowered] = [shown(1), shown(-1)];
  const hidden = why.walks.length - raised.length - lowered.length;
  const walkList = (title, walks) => walksOf(title, walks, why, unit, largest);
  return element(
    "div",
    { class: "explanation" },
    verdict(why, unit),
    shareBar(why.probability),
    contributionTable(parts, why.logit, largest),
    element(
      "div",
      { class: "walks" },
      walkList("Walks that raise the score", raised),
      walkList("Walks that lower the score", lowered),
    ),
    hidden > 0 ? paragraph("faint", `${plural(hidden, "more distinct walk")} with smaller contributions.`) : null,
  );
}

function verdict({ src, dst, t, probability, error, draws }, unit) {
  const question = ["probability that ", shortName(src), " and ", shortName(dst), ` link at ${dataTime(t, unit)}`];
  if (draws) question.push(`, mean over ${plural(draws, "sample")} of walks`);
  return paragraph("verdict", element("b", {}, fixed(probability)), ` ± ${fixed(error, 4)} `, span("faint", question));
}

function contributions(why, unit) {
  const rows = [["two nodes without history", why.base]];
  if (why.rates !== null && why.rates !== undefined) rows.push([past(why.past, unit), why.rates]);
  const each = why.method === "additive" ? "" : ", each left out separately";
  rows.push([plural(why.walks.length, "distinct walk") + each, why.walked]);
  if (why.method !== "additive") rows.push(["interaction between the parts", why.rest]);
  return rows;
}

function past({ src_links, dst_links, pair_links, pair_last }, unit) {
  const times = { 0: "never linked", 1: "linked once" }[pair_links] ?? `linked ${whole(pair_links)} times`;
  const last = pair_last === null ? "" : `, last ${dataTime(pair_last, unit)}`;
  return `past links: the pair ${times}${last}; ${whole(src_links)} and ${whole(dst_links)} links in total`;
}

function contributionTable(parts, logit, largest) {
  const row = ([text, value]) =>
    element("tr", {}, cell(null, text), cell("number", signed(value), signedBar(value, largest)));
  const sum = element("tr", { class: "total" }, cell(null, "sum, before calibration"), cell("number", signed(logit)));
  const columns = [{ title: "Part of the score" }, { title: "Log-odds", className: "number" }];
  return table("Contributions to the log-odds", columns, [...parts.map(row), sum]);
}

function walksOf(title, walks, why, unit, largest) {
  const step = ({ src, dst, t }) =>
    element("li", {}, shortName(src), " → ", shortName(dst), " ", span("faint", dataTime(t, unit)));
  const shape = ({ meaning, count }) => `${meaning ? `${meaning}; ` : ""}${count} of ${why.num_walks} walks from `;
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
