// Figures as people read them; the same rules as words.py.
const UNITS = [[86400000, "d"], [3600000, "h"], [60000, "min"], [1000, "s"]];

export function duration(ms) {
  if (ms === null || ms === undefined) return "–";
  if (Math.abs(ms) < 1000) return `${ms.toFixed(0)} ms`;
  const [unit, name] = UNITS.find(([size]) => Math.abs(ms) >= size);
  const amount = ms / unit;
  return `${amount < 10 && name === "s" ? amount.toFixed(1) : amount.toFixed(0)} ${name}`;
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
  const units = ["bytes", "kB", "MB", "GB", "TB", "PB"];
  let at = 0;
  while (bytes >= 1000 && at < units.length - 1) { bytes /= 1000; at += 1; }
  return at === 0 ? `${bytes} bytes` : `${bytes.toFixed(1)} ${units[at]}`;
}

export const AS = {
  ms: duration, rows: count, records: count, files: count, tables: count, bytes: size, count, score: count,
  "records/s": (value) => (value === null ? "–" : `${count(value)}/s`),
};
