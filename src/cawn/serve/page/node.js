// The search for a node: its facts, its ranking and its latest links.

import { call } from "./api.js";
import { byId, element, table, words } from "./dom.js";
import { nodeName } from "./explanation.js";
import { dataTime, plural, whole } from "./format.js";
import { explainedRow, nodeAddress, nodeLink, problem, score } from "./links.js";

let asked = 0;
let unit = null;

export const setUnit = (value) => (unit = value);

async function show(name) {
  const request = ++asked;
  const result = byId("node-result");
  const count = Number(byId("count").value);
  result.replaceChildren(element("p", { class: "faint" }, "Ranking …"));
  const [facts, ranking] = await Promise.allSettled([
    call(`v1/nodes?name=${encodeURIComponent(String(name).toWellFormed())}`),
    call("v1/rank", { body: { src: name, k: count } }),
  ]);
  if (request !== asked) return; // another node was asked for in the meantime
  result.replaceChildren(
    element("h3", { class: "wrap" }, nodeName(name, "name whole")),
    facts.status === "fulfilled" ? factList(facts.value) : problem(facts.reason),
    ranking.status === "fulfilled" ? rankingTable(ranking.value) : problem(ranking.reason),
    facts.status === "fulfilled" ? latestLinks(facts.value) : "",
  );
}

function factList(facts) {
  if (!facts.known) return element("p", { class: "note" }, "This node is not in the network: it has no links yet.");
  const items = [
    ["Links", whole(facts.links)],
    ["First", dataTime(facts.first, unit)],
    ["Last", dataTime(facts.last, unit)],
  ];
  return element("dl", { class: "facts" }, items.map(([title, value]) => element("div", {}, element("dt", {}, title), element("dd", {}, words(value)))));
}

function rankingTable({ src, t, ranking, version }) {
  const title = element("h4", {}, `Most probable links at ${dataTime(t, unit)}`);
  if (ranking.length === 0) return element("div", {}, title, element("p", { class: "empty" }, "There are no candidates."));
  const rows = ranking.map((ranked, i) =>
    explainedRow(
      [
        element("td", { class: "place number" }, String(i + 1)),
        element("td", { class: "end" }, nodeLink(ranked.name)),
        element("td", { class: "found" }, ranked.found ?? ""),
        score(ranked.probability),
      ],
      { src, dst: ranked.name, t },
      unit,
    ),
  );
  const columns = [
    { title: "#", className: "place number" },
    { title: "Candidate" },
    { title: "Found by", className: "found" },
    { title: "Score", className: "number" },
    { title: "Explanation", className: "action", hidden: true },
  ];
  return element("div", {}, title, table("Ranking", columns, rows), element("p", { class: "faint" }, `${plural(ranking.length, "candidate")}, history version ${whole(version)}`));
}

function latestLinks({ recent = [] }) {
  if (recent.length === 0) return "";
  const rows = recent.map((link) =>
    explainedRow(
      [element("td", { class: "time" }, words(dataTime(link.t, unit))), element("td", { class: "end" }, nodeLink(link.src)), element("td", { class: "end" }, nodeLink(link.dst))],
      { src: link.src, dst: link.dst, t: link.t },
      unit,
    ),
  );
  const columns = [{ title: "Time", className: "time" }, { title: "Source" }, { title: "Destination" }, { title: "Explanation", className: "action", hidden: true }];
  return element("div", {}, element("h4", {}, "Latest links"), table("Latest links of this node", columns, rows));
}

/** Shows the node named in the address, if there is one. */
export function showAddressed() {
  const encoded = location.hash.match(/^#node=(.*)$/s)?.[1];
  if (encoded === undefined) return;
  let name;
  try {
    name = decodeURIComponent(encoded);
  } catch {
    return; // not an address that this page made
  }
  byId("name").value = name;
  show(name);
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
byId("count").addEventListener("change", () => byId("node-result").childElementCount && show(byId("name").value));
addEventListener("opennode", ({ detail }) => open(detail));
addEventListener("popstate", showAddressed);
