// Figures as people read them; the same rules as lakelog/io/quantities.py.
const DURATIONS = [[1000, 1, "ms"], [120000, 1000, "s"], [7200000, 60000, "min"], [172800000, 3600000, "h"]];
const BYTES = ["bytes", "kB", "MB", "GB", "TB", "PB"];

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  const millis = Math.max(0, ms);
  const fits = ([end, length]) => Number((millis / length).toFixed(0)) < end / length;
  const [, length, unit] = DURATIONS.find(fits) ?? [0, 86400000, "d"];
  const amount = millis / length;
  return `${amount.toFixed(amount < 10 && length > 1 ? 1 : 0).replace(/\.0$/, "")} ${unit}`;
}

// characters that would change the order or the place of others, as escapes; the same as lakelog/options/names.py
const INVISIBLE = /[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
export function visible(text) {
  return String(text).replace(INVISIBLE, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);
}

export function ago(ms) {
  const past = Date.now() - ms;
  return past < 1000 ? "now" : `${duration(past)} ago`;
}

export function count(value) {
  return value === null || value === undefined ? "–" : value.toLocaleString("en-US", { maximumFractionDigits: 0 });
}

export function size(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  let [value, at] = [bytes.toFixed(0), 0];
  while (Number(value) >= 1000 && at < BYTES.length - 1) {
    at += 1;
    value = (bytes / 1000 ** at).toFixed(1);
  }
  return `${value} ${BYTES[at]}`;
}

export const AS = {
  ms: duration, rows: count, records: count, files: count, tables: count, bytes: size, count, score: count,
  "records/s": (value) => (value === null ? "–" : `${count(value)}/s`),
};
