// The search for a node: its facts, its ranking and its latest links.

import { call } from "./api.js";
import { byId, cell, element, paragraph, setText, smallButton, table, words } from "./dom.js";
import { nodeName } from "./explanation.js";
import { dataTime, plural, printable, whole } from "./format.js";
import {
  EXPLAIN_COLUMN,
  describeProblem,
  encodeName,
  explainedRow,
  nodeAddress,
  nodeCell,
  scoreCell,
  timeCell,
} from "./links.js";

const LATEST = 10; // links of a node that are listed
let requests = 0;
let unit = null; // of times
let ranked = null; // version of the history that the ranking is from

/** @param {object} status The answer of /v1/status. */
export function noteStatus(status) {
  unit = status.unit ?? null;
  if (ranked === null || status.version === ranked || byId("node-note").childElementCount) return;
  byId("node-note").replaceChildren("New links have arrived. ", smallButton("Rank again", showAddressed));
}

async function show(name) {
  const request = ++requests;
  const query = { src: name, k: Number(byId("count").value) };
  setText(byId("node-status"), `Ranking the candidates of ${printable(name)}`);
  byId("node").setAttribute("aria-busy", "true");
  const [facts, ranking] = await Promise.allSettled([
    call(`v1/nodes?name=${encodeName(name)}`),
    call("v1/rank", { body: query }),
  ]);
  if (request !== requests) return; // another node was asked for in the meantime
  byId("node").removeAttribute("aria-busy");
  const part = ({ status, value, reason }, draw) => (status === "fulfilled" ? draw(value) : describeProblem(reason));
  byId("node-result").replaceChildren(
    element("h3", {}, nodeName(name)),
    part(facts, factList),
    part(ranking, rankingTable),
    ...(facts.value?.recent?.length ? [latestLinks(facts.value.recent)] : []),
  );
  byId("node-note").replaceChildren();
  ranked = ranking.value?.version ?? null;
  setText(byId("node-status"), `${plural(ranking.value?.ranking.length ?? 0, "candidate")} ranked`);
}

function factList({ known, links, first, last }) {
  if (!known) return paragraph("note", "This node is not in the network: it has no links yet.");
  const items = { Links: whole(links), First: dataTime(first, unit), Last: dataTime(last, unit) };
  const fact = ([title, value]) => element("div", {}, element("dt", {}, title), element("dd", {}, words(value)));
  return element("dl", { class: "facts" }, Object.entries(items).map(fact));
}

function rankingTable({ src, t, ranking, version }) {
  const row = ({ name, found, probability }, i) =>
    explainedRow(
      [cell("place number", String(i + 1)), nodeCell(name), cell("found", found ?? ""), scoreCell(probability)],
      { src, dst: name, t },
      unit,
    );
  const columns = [
    { title: "#", className: "place number" },
    { title: "Candidate" },
    { title: "Found by", className: "found" },
    { title: "Score", className: "number" },
    EXPLAIN_COLUMN,
  ];
  const title = element("h4", {}, `Most probable links at ${dataTime(t, unit)}, history version ${whole(version)}`);
  const empty = paragraph("empty", "There are no candidates.");
  return element("div", {}, title, ranking.length ? table("Ranking", columns, ranking.map(row)) : empty);
}

function latestLinks(links) {
  const row = (link) => explainedRow([timeCell(link.t, unit), nodeCell(link.src), nodeCell(link.dst)], link, unit);
  const columns = [{ title: "Time", className: "time" }, { title: "Source" }, { title: "Destination" }, EXPLAIN_COLUMN];
  const rows = links.slice(0, LATEST).map(row);
  return element("div", {}, element("h4", {}, "Latest links"), table("Latest links", columns, rows));
}

/** Shows the node that the address names, if it does. */
export function showAddressed() {
  const encoded = location.hash.match(/^#node=(.*)$/s)?.[1];
  if (encoded === undefined) return;
  try {
    byId("name").value = decodeURIComponent(encoded);
  } catch {
    return; // not an address that this page made
  }
  show(byId("name").value);
}

function open(name) {
  byId("name").value = String(name);
  history.pushState(null, "", nodeAddress(name));
  show(name);
  byId("node").scrollIntoView({ block: "nearest" });
}

byId("search").addEventListener("submit", (event) => {
  event.preventDefault();
  open(byId("name").value);
});
byId("count").addEventListener("change", () => requests && showAddressed());
addEventListener("opennode", ({ detail }) => open(detail));
addEventListener("popstate", showAddressed);
