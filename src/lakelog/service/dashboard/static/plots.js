// Figures over time: asks for a plot's data, draws it, and asks again every few seconds while the page is seen.
import uPlot from "./vendor/uplot.js";
import { AS } from "./words.js";

const EVERY_MS = 5000;
const HEIGHT = 170;
const HOUR_S = 3600;
const system = matchMedia("(prefers-color-scheme: dark)");
const COLOURS = { good: "--good", fair: "--fair", bad: "--bad" };
// marks at round values of a unit: two neighbours never have the same label
const S = 1000, MIN = 60 * S, H = 60 * MIN, D = 24 * H;
const TIMES = [1, 2, 5, 10, 20, 50, 100, 200, 500, S, 2 * S, 5 * S, 10 * S, 30 * S, MIN, 2 * MIN, 5 * MIN, 10 * MIN, 30 * MIN, H, 2 * H, 6 * H, 12 * H, D, 2 * D, 7 * D, 30 * D];
const WHOLE = [1, 2, 5].flatMap((one) => Array.from({ length: 16 }, (_, power) => one * 10 ** power)).sort((a, b) => a - b);
// the range of all plots, which is in the address: hours back from now, or from and to (ms since 1970); without either,
// the last hour, or less if there are no older data
const asked = new URLSearchParams(location.search);
const range = { hours: Number(asked.get("hours")) || null, from: Number(asked.get("from")) || null, to: Number(asked.get("to")) || null };
const span = () => (range.from ? (Date.now() - range.from) / (HOUR_S * 1000) : range.hours ?? 1);

function keepRange() {
  const address = new URL(location.href);
  for (const name of ["hours", "from", "to"]) {
    if (range[name]) address.searchParams.set(name, Math.round(range[name]));
    else address.searchParams.delete(name);
  }
  history.replaceState(history.state, "", address);
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function lineColour(name, at) {
  return colour(COLOURS[name] ?? `--line-${(at % 3) + 1}`);
}

function clock(seconds, wide) {
  const text = new Date(seconds * 1000).toISOString();
  return wide ? `${text.slice(5, 10)} ${text.slice(11, 16)}` : text.slice(11, 16);
}

function options(figure, names, width) {
  const say = AS[figure.dataset.unit] ?? String;
  const axis = { stroke: colour("--pico-muted-color"), grid: { stroke: colour("--pico-muted-border-color"), width: 1 }, ticks: { show: false } };
  const top = (high) => Math.max(1, (high ?? 0) * 1.1);
  return {
    width, height: HEIGHT, legend: { show: false }, cursor: { y: false, drag: { x: true, y: false } },
    tzDate: (seconds) => uPlot.tzDate(new Date(seconds * 1000), "Etc/UTC"),
    scales: { x: { time: true }, y: { range: (_, low, high) => [0, top(high)] } },
    axes: [
      { ...axis, space: span() > 24 ? 100 : 60, values: (_, marks) => marks.map((mark) => clock(mark, span() > 24)) },
      { ...axis, size: 70, space: 32, incrs: figure.dataset.unit === "ms" ? TIMES : WHOLE, values: (_, marks) => marks.map(say) },
    ],
    series: [{}, ...names.map((label, at) => ({ label, stroke: lineColour(label, at), width: 2, spanGaps: false, points: { show: figure.few, size: 5 } }))],
    hooks: {
      setCursor: [(plot) => legend(figure, plot.cursor.idx)],
      setSelect: [(plot) => {
        if (!plot.select.width) return;
        const [from, to] = [plot.select.left, plot.select.left + plot.select.width].map((at) => plot.posToVal(at, "x") * 1000);
        choose({ hours: null, from, to });
      }],
    },
  };
}

// the newest values, or those under the cursor, each with the colour of its line
function legend(figure, at) {
  const { names, values, times_ms: times } = figure.shown;
  const say = AS[figure.dataset.unit] ?? String;
  const last = figure.querySelector(".last");
  const index = at ?? times.length - 1;
  last.replaceChildren(...names.map((name, line) => {
    const key = document.createElement("span");
    key.className = "key";
    key.textContent = `${name}: ${say(values[line][index] ?? null)}`;
    key.style.setProperty("--key", lineColour(name, line));
    return key;
  }), at === null || at === undefined ? "" : ` at ${clock(times[index] / 1000, true)}`);
}

async function draw(figure) {
  const url = new URL(figure.dataset.plot, location.href);
  url.searchParams.set("hours", Math.min(1440, span()));
  const answer = await fetch(url, { headers: { accept: "application/json" } });
  if (!answer.ok) return;
  const shown = await answer.json();
  const { names, times_ms: times, values, from_ms: from, to_ms: to } = shown;
  figure.shown = shown;
  const canvas = figure.querySelector(".canvas");
  const isEmpty = !values.some((line) => line.some((value) => value !== null));
  canvas.hidden = isEmpty;
  if (isEmpty) {
    figure.plot?.destroy();
    figure.plot = null;
    figure.querySelector(".last").textContent = "No data in this range yet.";
    return;
  }
  const few = times.length < 3;
  const state = [document.documentElement.dataset.theme ?? "", system.matches, span() > 24, few, names].join();
  if (figure.state !== state) {
    figure.plot?.destroy();
    Object.assign(figure, { plot: null, state, few });
  }
  const data = [times.map((ms) => ms / 1000), ...values];
  if (figure.plot) figure.plot.setData(data, false);
  else figure.plot = new uPlot(options(figure, names, canvas.clientWidth), data, canvas);
  const first = range.from ?? (range.hours ? from : Math.max(from, Math.min(times[0], to - 5 * MIN)));
  figure.plot.setScale("x", { min: first / 1000, max: (range.to ?? to) / 1000 });
  legend(figure, figure.plot.cursor.idx);
}

let choose = () => {};

function press() {
  for (const button of document.querySelectorAll("[data-hours]")) button.setAttribute("aria-pressed", String(Number(button.dataset.hours) === range.hours));
}

export function drawPlots() {
  const figures = [...document.querySelectorAll("[data-plot]")];
  if (!figures.length) return;
  const all = () => document.hidden || figures.forEach((figure) => draw(figure));
  all();
  setInterval(all, EVERY_MS);
  document.addEventListener("theme", all);
  system.addEventListener("change", all);
  for (const button of document.querySelectorAll("[data-hours]")) {
    button.addEventListener("click", () => choose({ hours: Number(button.dataset.hours), from: null, to: null }));
  }
  for (const figure of figures) {
    figure.addEventListener("dblclick", () => choose({ hours: null, from: null, to: null }));
  }
  choose = (chosen) => {
    Object.assign(range, chosen);
    keepRange();
    press();
    all();
  };
  press();
  const resized = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) target.parentElement.plot?.setSize({ width: contentRect.width, height: HEIGHT });
  });
  for (const figure of figures) resized.observe(figure.querySelector(".canvas"));
}
