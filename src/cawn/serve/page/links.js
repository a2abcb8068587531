// Tables of links whose rows open to an explanation, and the list of the newest links.

import { Problem, call } from "./api.js";
import { byId, cell, element, paragraph, setText, shareBar, smallButton, table, words } from "./dom.js";
import { explanation, nodeName } from "./explanation.js";
import { NONE, dataTime, fixed } from "./format.js";

const NEWEST = 20; // links that are listed
const canHover = matchMedia("(hover: hover)");
let shown = []; // links in the list
let waiting = null; // those of the last answer, while the list is in use

// Cells and rows

export const EXPLAIN_COLUMN = { title: "Explanation", className: "action", hidden: true };

/** A row with a button that explains the link {src, dst, t}; `cells` are those before the button. */
export function explainedRow(cells, { src, dst, t }, unit) {
  const button = smallButton("Explain", () => toggle(row, button, { src, dst, t }, unit));
  button.setAttribute("aria-expanded", "false");
  const row = element("tr", {}, cells, cell("action", button));
  return row;
}

export function nodeCell(name) {
  const open = (event) => {
    if (event.ctrlKey || event.metaKey || event.shiftKey) return; // opens another tab or window
    event.preventDefault();
    dispatchEvent(new CustomEvent("opennode", { detail: name }));
  };
  return cell("end", element("a", { href: nodeAddress(name), onclick: open }, nodeName(name)));
}

export const encodeName = (name) => encodeURIComponent(String(name).toWellFormed());

export const nodeAddress = (name) => `#node=${encodeName(name)}`;

export const timeCell = (t, unit) => cell("time", words(dataTime(t, unit)));

export function scoreCell(probability) {
  if (typeof probability !== "number") return cell("number", NONE);
  return cell("number score", fixed(probability), shareBar(probability));
}

/** An error, described to the user. */
export function describeProblem(error) {
  if (!(error instanceof Problem)) throw error;
  if (error.status === 401) dispatchEvent(new CustomEvent("tokenneeded"));
  return element("p", { class: "error", role: "status" }, error.message);
}

// Explanations

async function toggle(row, button, link, unit) {
  if (row.nextElementSibling?.classList.contains("detail")) return close(row, button);
  const box = element("div", { class: "box" }, paragraph("faint", "Computing the explanation …"));
  row.after(element("tr", { class: "detail" }, element("td", { colspan: row.cells.length }, box)));
  button.setAttribute("aria-expanded", "true");
  const closeAndReturn = () => {
    close(row, button);
    button.focus();
  };
  try {
    const why = await call("v1/explain", { body: link });
    const failed = element("span", { class: "error", role: "status" });
    const actions = [smallButton("Save as HTML", () => save(link, failed)), smallButton("Close", closeAndReturn)];
    box.replaceChildren(explanation(why.view, unit), paragraph("actions", actions, failed));
  } catch (error) {
    box.replaceChildren(describeProblem(error));
  }
}

function close(row, button) {
  row.nextElementSibling.remove();
  button.setAttribute("aria-expanded", "false");
  row.dispatchEvent(new CustomEvent("explanationclosed", { bubbles: true }));
}

/** Saves the page that the server makes of an explanation; it works without the server. */
async function save(link, failed) {
  const name = `${link.src} to ${link.dst}`.replace(/[^\p{L}\p{N}._ -]/gu, "_").slice(0, 80);
  try {
    const page = await call("v1/explain", { body: link, accept: "text/html" });
    const address = URL.createObjectURL(new Blob([page], { type: "text/html" }));
    element("a", { href: address, download: `${name}.html` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch (error) {
    setText(failed, error.message);
  }
}

// The newest links

/** @param {object[]} links Newest first. @param {string|null} unit Of their times. */
export function showNewest(links, unit) {
  waiting = { links: links.slice(0, NEWEST), unit };
  if (!inUse()) return draw();
  const newer = waiting.links.findIndex((link) => same(link, shown[0]));
  setText(byId("newest-note"), `Paused while in use, ${newer < 0 ? `${NEWEST} or more` : newer} newer`);
}

const same = (a, b) => b !== undefined && a.src === b.src && a.dst === b.dst && a.t === b.t;

function draw() {
  if (!waiting) return;
  const { links, unit } = waiting;
  shown = links;
  waiting = null;
  setText(byId("newest-note"), "");
  const empty = paragraph("empty", "No links have arrived since the server started.");
  byId("newest-table").replaceChildren(links.length ? newestTable(links, unit) : empty);
}

function newestTable(links, unit) {
  const row = (link) =>
    explainedRow(
      [timeCell(link.t, unit), nodeCell(link.src), nodeCell(link.dst), scoreCell(link.probability)],
      link,
      unit,
    );
  const columns = [
    { title: "Time", className: "time" },
    { title: "Source" },
    { title: "Destination" },
    { title: "Score", className: "number" },
    EXPLAIN_COLUMN,
  ];
  return table("The newest links, each with its score from the links before it", columns, links.map(row));
}

/** Rows must not move while the pointer or the keyboard focus is on them, or while an explanation is open. */
function inUse() {
  const list = byId("newest-table");
  if (list.querySelector(".detail") !== null) return true;
  return list.matches(":focus-within") || (canHover.matches && list.matches(":hover"));
}

const resume = () => setTimeout(() => inUse() || draw());
for (const name of ["pointerleave", "focusout", "explanationclosed"])
  byId("newest-table").addEventListener(name, resume);
