// Numbers, times and names as text.

export const NONE = "–";
const PER_SECOND = { s: 1n, ms: 1000n, us: 1000000n, ns: 1000000000n };
const COMPACT = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const DIGITS = new Intl.NumberFormat("en", { maximumSignificantDigits: 3 });
const WHOLE = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const DAY = new Intl.DateTimeFormat("en-GB", { day: "numeric", month: "short", year: "numeric" });
const CLOCK = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });

const isNumber = (value) => typeof value === "number" && Number.isFinite(value);

export const whole = (value) => (isNumber(value) ? WHOLE.format(value) : NONE);

/** 1,200 as 1.2K. */
export const compact = (value) => COMPACT.format(value);

/** Three significant digits, or all of a whole number: 0.412, 8.12, 812, 12,345. */
export const brief = (value) => (!isNumber(value) ? NONE : (Math.abs(value) >= 100 ? WHOLE : DIGITS).format(value));

export const fixed = (value, digits = 3) => (isNumber(value) ? value.toFixed(digits) : NONE);

export function withSign(value, format) {
  if (!isNumber(value)) return NONE;
  const size = format(Math.abs(value));
  return size === format(0) ? size : (value < 0 ? "−" : "+") + size;
}

export const signed = (value) => withSign(value, fixed);

/** A share as a percentage; `decimals` are those of the share. */
export const percent = (share, decimals = 3) =>
  isNumber(share) ? `${(100 * share).toFixed(Math.max(decimals - 2, 0))} %` : NONE;

/** Seconds as milliseconds. */
export const milliseconds = (seconds) => (isNumber(seconds) ? `${brief(1000 * seconds)} ms` : NONE);

export const plural = (count, one, many = `${one}s`) => `${whole(count)} ${count === 1 ? one : many}`;

/** A time of this computer's clock, from milliseconds; with the date, if that is not today. */
export function clock(at) {
  const isToday = new Date(at).toDateString() === new Date().toDateString();
  return isToday ? CLOCK.format(at) : `${DAY.format(at)} ${CLOCK.format(at)}`;
}

/** "8 s", "5 min", "3 h", "2 days" */
export function duration(seconds) {
  if (seconds < 90) return `${Math.max(Math.round(seconds), 0)} s`;
  if (seconds < 90 * 60) return `${Math.round(seconds / 60)} min`;
  if (seconds < 36 * 3600) return `${Math.round(seconds / 3600)} h`;
  return `${Math.round(seconds / 86400)} days`;
}

/** Whether a number is almost certainly a date, from 1979 to 2096. */
const isUnixSeconds = (t) => typeof t === "number" && t > 3e8 && t < 4e9;

/** A time of the data: a date if the data has dates (`unit`) or seems to, else a number. Large integers are text. */
export function dataTime(t, unit) {
  if (t === null || t === undefined) return NONE;
  if (typeof t === "string" && !/^-?\d+$/.test(t)) return t.replace(/(?<=^\d{4}-\d\d-\d\d)T/, " "); // as it was sent
  if (!(unit in PER_SECOND) && !isUnixSeconds(t)) return typeof t === "number" ? String(Number(t.toPrecision(15))) : t;
  const isFloat = typeof t === "number" && !Number.isInteger(t);
  const [seconds, fraction] = isFloat ? splitFloat(t) : splitTicks(BigInt(t), PER_SECOND[unit] ?? 1n);
  const date = new Date(Number(seconds) * 1000);
  return Number.isNaN(date.getTime()) ? String(t) : date.toISOString().replace("T", " ").replace(/\..*/, "") + fraction;
}

function splitFloat(t) {
  const micro = Math.round((t - Math.floor(t)) * 1e6);
  return splitTicks(BigInt(Math.floor(t)) * PER_SECOND.us + BigInt(micro), PER_SECOND.us);
}

/** Whole seconds, and the rest as a decimal fraction. */
function splitTicks(ticks, perSecond) {
  const rest = ((ticks % perSecond) + perSecond) % perSecond;
  const digits = String(rest).padStart(String(perSecond).length - 1, "0").replace(/0+$/, "");
  return [(ticks - rest) / perSecond, rest ? `.${digits}` : ""];
}

// Control characters, line separators, and format characters, which reorder or hide text.
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Zl}\p{Zp}]/gu;

/** A name with its invisible characters escaped. */
export const printable = (name) =>
  String(name).replace(INVISIBLE, (letter) => `\\u{${letter.codePointAt(0).toString(16)}}`);
