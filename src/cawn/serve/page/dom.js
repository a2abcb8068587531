// Elements. Text from the server only ever becomes text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element. Attributes that start with "on" are listeners; those that are null, undefined or false are left out. */
export function element(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS(SVG, tag), attributes, children);
}

function fill(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat().filter((child) => child !== null && child !== undefined));
  return node;
}

export const byId = (id) => document.getElementById(id);

export const paragraph = (className, ...children) => element("p", { class: className }, ...children);

export const span = (className, ...children) => element("span", { class: className }, ...children);

export const cell = (className, ...children) => element("td", { class: className }, ...children);

export const smallButton = (text, onclick) => element("button", { type: "button", class: "small", onclick }, text);

/** Sets the text of an element, only if it changes: live regions are read aloud at every change. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Elements for the words of a text, each of which stays on one line: a date and a clock time. */
export const words = (text) => text.split(" ").flatMap((word, i) => (i ? [" ", span(null, word)] : [span(null, word)]));

/** A table. Columns are {title, className, hidden}: hidden titles are for screen readers, as is the caption. */
export function table(caption, columns, rows) {
  const titles = columns.map(({ title, className, hidden }) =>
    element("th", { scope: "col", class: className }, hidden ? span("hidden", title) : title),
  );
  const parts = [
    element("caption", { class: "hidden" }, caption),
    element("thead", {}, element("tr", {}, titles)),
    element("tbody", {}, rows),
  ];
  return element("div", { class: "scroll" }, element("table", {}, parts));
}

/** A table whose first column has names and the others numbers. Rows are [name, ...cells]. */
export function numbersTable(caption, [first, ...titles], rows) {
  const columns = [{ title: first }, ...titles.map((title) => ({ title, className: "number" }))];
  const row = ([name, ...values]) =>
    element("tr", {}, element("th", { scope: "row" }, name), values.map((value) => cell("number", value)));
  return table(caption, columns, rows.map(row));
}

/** A bar from 0 to a share of its track. */
export function shareBar(share) {
  const bar = element("i", { class: "raise" });
  bar.style.width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  return element("span", { class: "track", "aria-hidden": "true" }, bar);
}

/** A bar from the middle of its track to the right, or to the left for a negative value. */
export function signedBar(value, largest) {
  const size = Math.min((50 * Math.abs(value)) / largest, 50);
  const bar = element("i", { class: value > 0 ? "raise" : "lower" });
  bar.style.width = `${size}%`;
  bar.style.left = `${value > 0 ? 50 : 50 - size}%`;
  return element("span", { class: "track", "aria-hidden": "true" }, bar);
}
