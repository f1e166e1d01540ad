// What all pages share: the theme switch, times that age, failures of requests, copying, actions, plots, live parts.
import { drawPlots } from "./plots.js";
import { ago } from "./words.js";

const root = document.documentElement;

document.querySelector("[data-theme-switch]")?.addEventListener("click", () => {
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("lakelog-theme", root.dataset.theme);
  document.dispatchEvent(new Event("theme"));
});

// texts of the terminal belong to one user: after a logout, or for another user, none is left
const OWN = `:${document.body.dataset.user}`;
for (const key of Object.keys(localStorage)) {
  if (key.startsWith("lakelog-terminal-") && !(document.body.dataset.user && key.endsWith(OWN))) localStorage.removeItem(key);
}

setInterval(() => {
  for (const time of document.querySelectorAll("time[data-ms]")) time.textContent = ago(Number(time.dataset.ms));
}, 1000);

// a refresh keeps what the user has opened
if (window.Idiomorph) {
  Idiomorph.defaults.callbacks.beforeAttributeUpdated = (name, node) => !(name === "open" && node.tagName === "DETAILS");
}

const trouble = document.getElementById("trouble");
export function tell(why) {
  trouble.textContent = why;
  trouble.hidden = !why;
}
document.addEventListener("htmx:afterRequest", (event) => {
  if (event.detail.successful) return tell("");
  const answer = event.detail.xhr;
  if (answer.status === 401) location.reload();
  let why = "The dashboard does not respond. Check that it is running.";
  try { why = JSON.parse(answer.responseText).error; } catch { /* not an answer of ours */ }
  tell(why);
});

async function copy(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
  } catch { // no permission, or plain HTTP on another host
    const text = button.parentElement.querySelector("code");
    getSelection().selectAllChildren(text);
    document.execCommand("copy");
  }
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
}

const CONSEQUENCES = {
  healing: "Unfinished writes of dead writers are taken back.", "end-writer": "It cannot resume afterwards.", expiry: "Expired snapshots are deleted permanently.",
  "partition-expiry": "Partitions past their expiration time are dropped.", "tag-expiry": "Tags past their retention are deleted.",
  "orphan-cleaning": "Files that no snapshot references are deleted.", compaction: "Due buckets are compacted.", "full-compaction": "All buckets are rewritten.",
};

async function act(button) {
  const { table, kind, writer } = button.dataset;
  if (!confirm(`${button.textContent}: ${writer || table}? ${CONSEQUENCES[kind] ?? ""}`)) return;
  button.disabled = true;
  const headers = { accept: "application/json", "content-type": "application/json", "x-csrf-token": document.body.dataset.csrf ?? "" };
  const answer = await fetch("/api/v1/actions", { method: "POST", headers, body: JSON.stringify({ table, kind, writer }) });
  const told = await answer.json();
  if (!answer.ok) {
    button.disabled = false;
    return tell(told.error);
  }
  button.replaceWith(Object.assign(document.createElement("span"), { className: "running", textContent: `${kind.replace("-", " ")} started` }));
}

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.copy !== undefined) copy(button);
  if (button?.dataset.act !== undefined) act(button);
});

drawPlots();
for (const [mark, module] of [["[data-tail]", "./tail.js"], ["[data-terminal]", "./terminal.js"]]) {
  const place = document.querySelector(mark);
  if (place) import(module).then((part) => part.begin(place, tell));
}
