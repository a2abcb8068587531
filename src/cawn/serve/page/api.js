// The HTTP API of the server this page came from.

const KEY = "cawn-token";
const PATIENCE = 15_000; // milliseconds

export const token = {
  get: () => sessionStorage.getItem(KEY),
  set: (value) => sessionStorage.setItem(KEY, value),
  forget: () => sessionStorage.removeItem(KEY),
};

/** An answer that is not a success; `status` is 0 if there was no answer. */
export class Problem extends Error {
  constructor(status, message, body = null) {
    super(message);
    this.status = status;
    this.body = body;
  }
}

/** Sends a request and returns the answer's body; throws a Problem. */
export async function call(path, { body = null, accept = "application/json" } = {}) {
  const headers = { Accept: accept };
  if (token.get()) headers.Authorization = `Bearer ${token.get()}`;
  if (body) headers["Content-Type"] = "application/json";
  const options = { headers, cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(PATIENCE) };
  if (body) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  let response, text;
  try {
    response = await fetch(path, options);
    text = await response.text();
  } catch (error) {
    const late = error.name === "TimeoutError";
    throw new Problem(0, late ? "The server does not answer." : "The server cannot be reached.");
  }
  if (response.ok && accept !== "application/json") return text;
  let answer = null;
  try {
    answer = parse(text);
  } catch {
    if (response.ok) throw new Problem(response.status, "The response of the server is not JSON.");
  }
  if (response.ok) return answer;
  throw new Problem(response.status, answer?.detail || answer?.title || `Error ${response.status}`, answer);
}

/** JSON in which integers that a double would round stay text, so that names and times are sent back unchanged. */
export function parse(text) {
  return JSON.parse(text, (key, value, context) => (isRounded(value, context?.source) ? context.source : value));
}

const isRounded = (value, source) => Number.isInteger(value) && !Number.isSafeInteger(value) && /^-?\d+$/.test(source);
