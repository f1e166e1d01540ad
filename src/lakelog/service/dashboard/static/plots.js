// Figures over time: asks for a plot's data, draws it, and asks again every few seconds while the page is seen.
import uPlot from "./vendor/uplot.js";
import { AS } from "./words.js";

const EVERY_MS = 5000;
const HEIGHT = 170;
const system = matchMedia("(prefers-color-scheme: dark)");

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

function options(names, unit, width) {
  const say = AS[unit] ?? String;
  const axis = { stroke: colour("--pico-muted-color"), grid: { stroke: colour("--pico-muted-border-color"), width: 1 }, ticks: { show: false } };
  return {
    width, height: HEIGHT, legend: { live: true }, cursor: { y: false },
    scales: { y: { range: (_, low, high) => [Math.min(0, low ?? 0), (high ?? 1) * 1.1 || 1] } },
    axes: [axis, { ...axis, size: 70, values: (_, marks) => marks.map(say) }],
    series: [{ label: "time" }, ...names.map((label, at) => ({
      label, stroke: colour(`--line-${(at % 3) + 1}`), width: 2, spanGaps: false, points: { show: false },
      value: (_, value) => (value === null ? "–" : say(value)),
    }))],
  };
}

async function draw(figure) {
  const answer = await fetch(figure.dataset.plot, { headers: { accept: "application/json" } });
  if (!answer.ok) return;
  const { names, times_ms, values } = await answer.json();
  const data = [times_ms.map((ms) => ms / 1000), ...values];
  const canvas = figure.querySelector(".canvas");
  const last = figure.querySelector(".last");
  const say = AS[figure.dataset.unit] ?? String;
  last.textContent = times_ms.length ? names.map((name, at) => `${name} ${say(values[at].at(-1))}`).join(" · ") : "no figures yet: they come while the dashboard runs";
  const theme = (document.documentElement.dataset.theme ?? "") + system.matches;
  if (figure.plot && figure.theme === theme) {
    figure.plot.setData(data);
    return;
  }
  figure.plot?.destroy();
  figure.theme = theme;
  figure.plot = times_ms.length ? new uPlot(options(names, figure.dataset.unit, canvas.clientWidth), data, canvas) : null;
}

export function drawPlots() {
  const figures = [...document.querySelectorAll("[data-plot]")];
  if (!figures.length) return;
  const all = () => document.hidden || figures.forEach((figure) => draw(figure));
  all();
  setInterval(all, EVERY_MS);
  document.addEventListener("theme", all);
  system.addEventListener("change", all);
  const resized = new ResizeObserver((entries) => {
    for (const { target, contentRect } of entries) target.parentElement.plot?.setSize({ width: contentRect.width, height: HEIGHT });
  });
  for (const figure of figures) resized.observe(figure.querySelector(".canvas"));
}
