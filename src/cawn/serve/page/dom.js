// Elements. Text from the server only ever becomes text nodes, never markup.

const SVG = "http://www.w3.org/2000/svg";

/** An element. `attributes` starting with "on" are listeners; those that are null, undefined or false are left out. */
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

/** Sets the text of an element, only if it changes: live regions are read aloud at every change. */
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Text in which each word stays on one line: the date and the clock time of "2024-01-31 12:00:00". */
export const words = (text) => text.split(" ").flatMap((word, i) => (i ? [" ", element("span", {}, word)] : [element("span", {}, word)]));

/** A table with a caption for screen readers. Columns are {title, className}; rows are <tr> elements. */
export function table(caption, columns, rows) {
  const head = columns.map(({ title, className, hidden }) =>
    element("th", { scope: "col", class: className }, hidden ? element("span", { class: "hidden" }, title) : title),
  );
  return element(
    "div",
    { class: "scroll" },
    element(
      "table",
      {},
      element("caption", { class: "hidden" }, caption),
      element("thead", {}, element("tr", {}, head)),
      element("tbody", {}, rows),
    ),
  );
}

/** A bar from 0 to a share of its track. */
export function shareBar(share, className = "raise") {
  const bar = element("i", { class: className });
  bar.style.width = `${100 * Math.min(Math.max(share, 0), 1)}%`;
  return element("span", { class: "track", "aria-hidden": "true" }, bar);
}

/** A bar from the middle of its track to the right, or to the left for a negative value. */
export function signedBar(value, largest) {
  const size = Math.min((50 * Math.abs(value)) / largest, 50);
  const bar = element("i", { class: value > 0 ? "raise" : "lower" });
  bar.style.width = `${size}%`;
  bar.style.left = `${value > 0 ? 50 : 50 - size}%`;
  return element("span", { class: "track signed", "aria-hidden": "true" }, bar);
}
