// What all pages share: the theme switch, times that age, failures of requests, copying, actions, plots, live parts.
import { drawPlots } from "./plots.js";
import { makeSorted } from "./sort.js";
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
  healing: "Unfinished writes of dead writers are taken back.", end_writer: "It cannot resume afterwards.", delete_tag: "Files that only it referenced are deleted.", delete_branch: "Files that only it referenced are deleted.",
  reset_consumer: "What only it needed may expire.", replay_rejected: "Rejected rows that fit by now are written.", expiry: "Expired snapshots are deleted permanently.",
  "partition-expiry": "Partitions past their expiration time are dropped.", "tag-expiry": "Tags past their retention are deleted.",
  "orphan-cleaning": "Files that no snapshot references are deleted.", compaction: "Due buckets are compacted.", "full-compaction": "All buckets are rewritten.",
};

// a button has its arguments in an attribute, a form in its fields
async function act(place) {
  const { table, kind } = place.dataset;
  const form = place.tagName === "FORM" ? place : null;
  const given = form ? Object.fromEntries(new FormData(form)) : JSON.parse(place.dataset.arguments || "{}");
  const button = form ? form.querySelector("button") : place;
  if (!confirm(`${button.textContent}: ${Object.values(given)[0] || table}? ${CONSEQUENCES[kind] ?? ""}`)) return;
  button.disabled = true;
  const headers = { accept: "application/json", "content-type": "application/json", "x-csrf-token": document.body.dataset.csrf ?? "" };
  const answer = await fetch("/api/v1/actions", { method: "POST", headers, body: JSON.stringify({ table, kind, arguments: given }) });
  const told = await answer.json();
  if (!answer.ok) {
    button.disabled = false;
    return tell(told.error);
  }
  const note = Object.assign(document.createElement("span"), { className: "running", role: "status", textContent: `${kind.replaceAll(/[-_]/g, " ")} started` });
  button.replaceWith(note);
  const ended = await outcome(told.id);
  note.textContent = `${ended.state}${ended.detail ? `: ${ended.detail}` : ""}`;
  note.className = ended.state === "failed" ? "bad" : "fine";
  if (form && ended.state !== "failed") location.reload();
}

async function outcome(number) {
  for (;;) {
    await new Promise((done) => setTimeout(done, 500));
    const answer = await fetch(`/api/v1/actions/${number}`, { headers: { accept: "application/json" } });
    const told = await answer.json();
    if (!answer.ok || told.state !== "running") return told;
  }
}
document.addEventListener("submit", (event) => {
  if (event.target.dataset.act === undefined) return;
  event.preventDefault();
  act(event.target);
});

document.addEventListener("click", (event) => {
  const button = event.target.closest("button");
  if (button?.dataset.copy !== undefined) copy(button);
  if (button?.dataset.act !== undefined) act(button);
});

drawPlots();
document.querySelectorAll("table[data-sorted]").forEach(makeSorted);
for (const [mark, module] of [["[data-tail]", "./tail.js"], ["[data-terminal]", "./terminal.js"]]) {
  const place = document.querySelector(mark);
  if (place) import(module).then((part) => part.begin(place, tell));
}
