// The explanation of one link: its probability, the parts of its score, and the walks that raise and lower it.

import { element, shareBar, signedBar, table } from "./dom.js";
import { dataTime, fixed, plural, printable, signed, whole } from "./format.js";

const SHOWN = 6; // walks of each kind
const SMALLEST = 0.0005; // contribution that is shown
const FULL_BAR = 1; // log-odds of a bar of full length, unless some are larger

/** @param {object} why The answer of /v1/explain. @param {string|null} unit Of its times. */
export function explanation(why, unit) {
  const walks = why.walks ?? [];
  const parts = contributions(why, unit);
  const largest = Math.max(FULL_BAR, ...walks.map((walk) => Math.abs(walk.contribution)), ...parts.map(([, value]) => Math.abs(value)));
  const shown = (sign) => walks.filter((walk) => sign * walk.contribution >= SMALLEST).slice(0, SHOWN);
  const [raised, lowered] = [shown(1), shown(-1)];
  const hidden = walks.length - raised.length - lowered.length;
  return element(
    "div",
    { class: "explanation" },
    element(
      "p",
      { class: "verdict" },
      element("b", {}, fixed(why.probability)),
      ` ± ${fixed(why.error)} `,
      element("span", { class: "faint" }, "probability that ", nodeName(why.src), " and ", nodeName(why.dst), ` link at ${dataTime(why.t, unit)}`),
    ),
    shareBar(why.probability),
    table(
      "Contributions to the log-odds",
      [{ title: "Part of the score" }, { title: "Log-odds", className: "number" }],
      [
        ...parts.map(([text, value]) => row(text, value, signedBar(value, largest))),
        element("tr", { class: "total" }, element("td", {}, "sum, before calibration"), element("td", { class: "number" }, signed(why.logit))),
      ],
    ),
    element(
      "div",
      { class: "walks" },
      walkList("Walks that raise the score", raised, why, unit, largest),
      walkList("Walks that lower the score", lowered, why, unit, largest),
    ),
    hidden > 0 ? element("p", { class: "faint" }, `${plural(hidden, "more distinct walk")} with smaller contributions.`) : null,
  );
}

function contributions(why, unit) {
  const rows = [["two nodes without history", why.base]];
  if (why.rates !== null && why.rates !== undefined) rows.push([past(why.past, unit), why.rates]);
  const additive = why.method === "additive";
  rows.push([`${plural(why.walks.length, "distinct walk")}${additive ? "" : ", each left out separately"}`, why.walked]);
  if (!additive) rows.push(["interaction between the parts", why.rest]);
  return rows;
}

function past({ src_links, dst_links, pair_links, pair_last }, unit) {
  const times = { 0: "never linked", 1: "linked once" }[pair_links] ?? `linked ${whole(pair_links)} times`;
  const last = pair_last === null ? "" : `, last ${dataTime(pair_last, unit)}`;
  return `past links: the pair ${times}${last}; ${whole(src_links)} and ${whole(dst_links)} links in total`;
}

function row(text, value, bar) {
  return element("tr", {}, element("td", {}, text), element("td", { class: "number" }, signed(value), bar));
}

function walkList(title, walks, why, unit, largest) {
  const items = walks.map((walk) =>
    element(
      "details",
      {},
      element("summary", {}, element("span", { class: "path" }, path(walk.nodes)), element("span", { class: "number" }, signed(walk.contribution)), signedBar(walk.contribution, largest)),
      element("p", { class: "faint" }, `${walk.meaning ? `${walk.meaning}; ` : ""}${walk.count} of ${why.num_walks} walks from `, nodeName(walk.nodes[0])),
      element("ol", {}, walk.links.map((link) => element("li", {}, nodeName(link.src), " → ", nodeName(link.dst), " ", element("span", { class: "faint" }, dataTime(link.t, unit))))),
    ),
  );
  return element("section", {}, element("h4", {}, title), items.length ? items : element("p", { class: "faint" }, "None."));
}

function path(nodes) {
  return nodes.flatMap((name, i) => (i ? [" → ", nodeName(name)] : [nodeName(name)]));
}

/** A name, isolated from the direction of the text around it. */
export function nodeName(name, className = "name") {
  const text = printable(name);
  return element("bdi", { class: className, title: text.length > 24 ? text : null }, text === "" ? "(empty name)" : text);
}
