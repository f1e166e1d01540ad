// What all pages share: the theme switch, times that age, failures of requests, plots and live parts.
import { drawPlots } from "./plots.js";
import { ago } from "./words.js";

const root = document.documentElement;

document.querySelector("[data-theme-switch]")?.addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("lakelog-theme", root.dataset.theme);
  document.dispatchEvent(new Event("theme"));
});

setInterval(() => {
  for (const time of document.querySelectorAll("time[data-ms]")) time.textContent = ago(Number(time.dataset.ms));
}, 1000);

const trouble = document.getElementById("trouble");
export function tell(why) {
  trouble.textContent = why;
  trouble.hidden = !why;
}
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful) return tell("");
  const answer = event.detail.xhr;
  if (answer.status === 401) location.reload();
  let why = "the dashboard does not answer; is it still running?";
  try { why = JSON.parse(answer.responseText).error; } catch { /* not an answer of ours */ }
  tell(why);
});

drawPlots();
for (const [mark, module] of [["[data-tail]", "./tail.js"], ["[data-terminal]", "./terminal.js"]]) {
  const place = document.querySelector(mark);
  if (place) import(module).then((part) => part.begin(place, tell));
}
