// Numbers, times and names as text.

export const NONE = "–";
const PER_SECOND = { s: 1n, ms: 1000n, us: 1000000n, ns: 1000000000n };
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

export const whole = (value) => (isNumber(value) ? WHOLE.format(value) : NONE);

/** Three significant digits, thousands separated: 0.412, 8.12, 812, 12,345. */
export function brief(value) {
  if (!isNumber(value)) return NONE;
  if (Math.abs(value) >= 100 || value === 0) return WHOLE.format(value);
  return value.toPrecision(Math.abs(value) < 0.001 ? 1 : 3).replace(/\.?0+$/, (zeros, at, text) => (text.includes("e") ? zeros : ""));
}

export const fixed = (value, digits = 3) => (isNumber(value) ? value.toFixed(digits) : NONE);

export const signed = (value) => (isNumber(value) ? (value < 0 ? "−" : "+") + Math.abs(value).toFixed(3) : NONE);

export const percent = (share) => (isNumber(share) ? `${(100 * share).toFixed(share !== 0 && share < 0.1 ? 1 : 0)} %` : NONE);

/** Seconds as milliseconds. */
export const milliseconds = (seconds) => (isNumber(seconds) ? `${brief(1000 * seconds)} ms` : NONE);

export const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

/** A clock time of this computer, from milliseconds. */
export const clock = (at) => CLOCK.format(new Date(at));

/** "8 s", "5 min", "3 h", "2 days" */
export function duration(seconds) {
  if (seconds < 90) return `${Math.max(Math.round(seconds), 0)} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/** A time of the data: a date if the data has dates (`unit`), else the number. Large integers come as text. */
export function dataTime(t, unit) {
  if (t === null || t === undefined) return NONE;
  const perSecond = PER_SECOND[unit];
  if (perSecond === undefined) return typeof t === "number" && !Number.isInteger(t) ? String(Number(t.toPrecision(15))) : String(t);
  const [seconds, fraction] = split(t, perSecond);
  const date = new Date(Number(seconds) * 1000);
  if (Number.isNaN(date.getTime())) return String(t);
  return date.toISOString().slice(0, 19).replace("T", " ") + fraction;
}

function split(t, perSecond) {
  if (typeof t === "number" && !Number.isInteger(t)) {
    const seconds = Math.floor(t);
    return [seconds, (t - seconds).toFixed(6).slice(1).replace(/\.?0+$/, "")];
  }
  const ticks = BigInt(t);
  const rest = ((ticks % perSecond) + perSecond) % perSecond;
  const digits = String(perSecond).length - 1;
  return [(ticks - rest) / perSecond, rest ? `.${String(rest).padStart(digits, "0")}`.replace(/0+$/, "") : ""];
}

// Control characters, line separators and invisible characters that reorder or hide text.
const INVISIBLE = /[\p{Cc}\p{Cs}\p{Co}\p{Zl}\p{Zp}\u00ad\u061c\u180e\u200b\u200e\u200f\u202a-\u202e\u2060-\u206f\ufeff]/gu;

/** A name with its invisible characters escaped. */
export const printable = (name) =>
  String(name).replace(INVISIBLE, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`);
