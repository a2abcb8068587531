// Tables of links whose rows open to an explanation.

import { Problem, call } from "./api.js";
import { byId, element, setText, shareBar, table, words } from "./dom.js";
import { explanation, nodeName } from "./explanation.js";
import { NONE, dataTime, fixed } from "./format.js";

const canHover = matchMedia("(hover: hover)");
let held = null; // links that arrived while the list was in use

/** A row with a button that explains the link {src, dst, t}; `cells` are those before the button. */
export function explainedRow(cells, link, unit) {
  const button = element("button", { type: "button", class: "small", "aria-expanded": "false", onclick: () => toggle(row, button, link, unit) }, "Explain");
  const row = element("tr", {}, cells, element("td", { class: "action" }, button));
  return row;
}

async function toggle(row, button, link, unit) {
  if (row.nextElementSibling?.classList.contains("detail")) return close(row, button);
  const box = element("div", { class: "box" }, element("p", { class: "faint" }, "Computing the explanation …"));
  const cell = element("td", { colspan: row.cells.length }, box);
  row.after(element("tr", { class: "detail" }, cell));
  button.setAttribute("aria-expanded", "true");
  try {
    const why = await call("v1/explain", { body: link });
    const name = `${link.src} to ${link.dst}`.replace(/[^\p{L}\p{N}._ -]/gu, "_").slice(0, 80);
    const failed = element("span", { class: "error", role: "status" });
    const actions = element(
      "p",
      { class: "actions" },
      element("button", { type: "button", class: "small", onclick: () => save(link, name, failed) }, "Save as HTML"),
      element("button", { type: "button", class: "small", onclick: () => (close(row, button), button.focus()) }, "Close"),
      failed,
    );
    box.replaceChildren(explanation(why, unit), actions);
  } catch (error) {
    box.replaceChildren(problem(error));
  }
}

function close(row, button) {
  row.nextElementSibling.remove();
  button.setAttribute("aria-expanded", "false");
  row.dispatchEvent(new CustomEvent("explanationclosed", { bubbles: true }));
}

async function save(link, name, failed) {
  try {
    const page = await call("v1/explain", { body: link, accept: "text/html" });
    const address = URL.createObjectURL(new Blob([page], { type: "text/html" }));
    element("a", { href: address, download: `${name}.html` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 60_000);
  } catch (error) {
    setText(failed, error.message);
  }
}

/** What went wrong, for a reader. */
export function problem(error) {
  if (!(error instanceof Problem)) throw error;
  if (error.status === 401) dispatchEvent(new CustomEvent("tokenneeded"));
  return element("p", { class: "error", role: "status" }, error.message);
}

export function nodeLink(name) {
  return element("a", { href: nodeAddress(name), onclick: (event) => openNode(event, name) }, nodeName(name));
}

export const nodeAddress = (name) => `#node=${encodeURIComponent(String(name).toWellFormed())}`;

function openNode(event, name) {
  if (event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  dispatchEvent(new CustomEvent("opennode", { detail: name }));
}

export function score(probability) {
  if (typeof probability !== "number") return element("td", { class: "number" }, NONE);
  return element("td", { class: "number score" }, fixed(probability), shareBar(probability));
}

/** @param {object[]} links Newest first. @param {string|null} unit Of their times. */
export function showNewest(links, unit) {
  held = { links, unit };
  if (inUse()) return setText(byId("newest-note"), "Paused while in use");
  draw();
}

function draw() {
  if (!held) return;
  const { links, unit } = held;
  held = null;
  setText(byId("newest-note"), "");
  if (links.length === 0)
    return byId("newest-table").replaceChildren(element("p", { class: "empty" }, "No links have arrived since the server started."));
  const rows = links.map((link) =>
    explainedRow(
      [
        element("td", { class: "time" }, words(dataTime(link.t, unit))),
        element("td", { class: "end" }, nodeLink(link.src)),
        element("td", { class: "end" }, nodeLink(link.dst)),
        score(link.probability),
      ],
      { src: link.src, dst: link.dst, t: link.t },
      unit,
    ),
  );
  const columns = [
    { title: "Time", className: "time" },
    { title: "Source" },
    { title: "Destination" },
    { title: "Score", className: "number" },
    { title: "Explanation", className: "action", hidden: true },
  ];
  byId("newest-table").replaceChildren(table("The newest links and the scores they had before they arrived", columns, rows));
}

/** Rows must not move under the pointer, under the keyboard focus, or while an explanation is being read. */
function inUse() {
  const list = byId("newest-table");
  return list.querySelector(".detail") !== null || list.matches(":focus-within") || (canHover.matches && list.matches(":hover"));
}

const release = () => setTimeout(() => inUse() || draw());
byId("newest-table").addEventListener("pointerleave", release);
byId("newest-table").addEventListener("focusout", release);
byId("newest-table").addEventListener("explanationclosed", release);
