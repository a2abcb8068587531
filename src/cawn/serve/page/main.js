// Polls the server, and shows the state of the connection.

import { Problem, call, token } from "./api.js";
import { byId, element, setText, smallButton, span } from "./dom.js";
import { clock, duration, percent, whole } from "./format.js";
import { showNewest } from "./links.js";
import { noteStatus, showAddressed } from "./node.js";
import { showSeries, showStatus } from "./status.js";

const INTERVAL = 2_000; // milliseconds between two polls
const SERIES_INTERVAL = 10_000;
const LONGEST_WAIT = 30_000; // after failures
const STALE = 10_000;

let timer = null;
let asking = false;
let failures = 0;
let answeredAt = null; // when the server last answered
let nextAt = null;
let version = null; // of the history, when the newest links were shown
let seriesAt = -Infinity;
let wasReady = false;

async function poll() {
  if (asking || document.hidden) return;
  clearTimeout(timer);
  asking = true;
  try {
    await update();
    failures = 0;
    wait(INTERVAL);
  } catch (error) {
    failed(error);
  } finally {
    asking = false;
  }
}

function wait(milliseconds) {
  nextAt = Date.now() + milliseconds;
  timer = setTimeout(poll, milliseconds);
}

async function update() {
  const status = await call("v1/status");
  answeredAt = Date.now();
  if (status.ready === false) return showReplay(status);
  showNotice();
  setState("live", "Live");
  noteStatus(status);
  showStatus(status);
  if (!wasReady) showAddressed();
  wasReady = true;
  if (status.version !== version) {
    const show = ({ links }) => showNewest(links, status.unit ?? null);
    if (await refresh("newest-note", "v1/links/recent", show)) version = status.version;
  }
  if (Date.now() - seriesAt >= SERIES_INTERVAL) {
    await refresh("series-note", "v1/series", showSeries);
    seriesAt = Date.now();
  }
}

/** Updates one part of the page; false if the server refuses; this part then shows the error, and the others continue. */
async function refresh(note, path, show) {
  try {
    const answer = await call(path);
    setText(byId(note), "");
    show(answer);
    return true;
  } catch (error) {
    if (!(error instanceof Problem) || error.status === 0 || error.status === 401) throw error;
    setText(byId(note), error.message);
    return false;
  }
}

function failed(error) {
  if (!(error instanceof Problem)) {
    wait(LONGEST_WAIT);
    throw error;
  }
  if (error.status === 401) return askForToken();
  failures += 1;
  wait(Math.min(INTERVAL * 2 ** (failures - 1), LONGEST_WAIT));
  setState("lost", error.status ? `Error ${error.status}` : "Connection lost");
  const since = answeredAt === null ? "" : ` since ${clock(answeredAt)}. The values below are from then`;
  showNotice(error.status ? error.message : `No answer from the server${since}.`, () => [smallButton("Try now", poll)]);
}

function showReplay({ phase, loaded }) {
  if (phase === "stopping") {
    setState("replaying", "Stopping");
    return showNotice("The server is stopping.");
  }
  const { links, of } = loaded ?? {};
  setState("replaying", of ? `Starting, ${percent(links / of, 2)}` : "Starting");
  const progress = () => [element("progress", { id: "replay", "aria-label": "Links loaded" }), span("count")];
  showNotice("The server is loading its history. Scores will be available when it is done.", progress);
  if (!of) return;
  Object.assign(byId("replay"), { max: of, value: links });
  setText(byId("replay").nextSibling, `${whole(links)} of ${whole(of)} links`);
}

/** Shows a message above the values, and what `makeMore` returns beside it; a message that is shown already stays. */
function showNotice(text = "", makeMore = () => []) {
  if (byId("notice-text").textContent === text) return;
  setText(byId("notice-text"), text);
  byId("notice-more").replaceChildren(...makeMore());
}

function setState(state, text) {
  document.body.dataset.state = byId("state").dataset.state = state;
  setText(byId("state-text"), text);
}

/** The age of the values, every second; a server that has not answered for a while makes them stale. */
function showAge() {
  if (answeredAt === null) return;
  const age = Date.now() - answeredAt;
  if (age > STALE && document.body.dataset.state === "live") setState("stale", "Stale");
  const isLost = document.body.dataset.state === "lost";
  const next = isLost ? `, next try in ${duration((nextAt - Date.now()) / 1000)}` : "";
  setText(byId("updated"), age > 2 * INTERVAL ? `values from ${duration(age / 1000)} ago${next}` : "");
}

// Tokens

function askForToken() {
  setState("locked", "Token needed");
  if (token.get()) {
    setText(byId("token-reason"), "The server refused this token.");
    token.forget();
  }
  byId("forget").hidden = true;
  if (!byId("token-dialog").open) byId("token-dialog").showModal();
}

byId("token-form").addEventListener("submit", () => {
  token.set(byId("token").value.trim());
  byId("token").value = "";
  byId("forget").hidden = false;
  version = null;
  seriesAt = -Infinity;
  poll();
});
byId("token-dialog").addEventListener("cancel", (event) => event.preventDefault()); // nothing works without it
byId("forget").addEventListener("click", () => {
  token.forget();
  location.reload();
});
byId("forget").hidden = !token.get();

addEventListener("tokenneeded", askForToken);
addEventListener("online", poll);
document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : poll()));
setInterval(showAge, 1000);
poll();
