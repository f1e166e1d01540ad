// Follows a table's log: server-sent events, the newest rows on top.
import { visible } from "./words.js";

const ROWS = 200;

export function begin(place) {
  const button = place.querySelector("[data-switch]");
  const state = place.querySelector("[data-state]");
  const region = place.querySelector(".scroll");
  const head = place.querySelector("thead tr");
  const body = place.querySelector("tbody");
  let source = null;
  let seen = 0;

  function say(text, isLive) {
    state.textContent = text;
    state.classList.toggle("off", !isLive);
  }

  function stop(text) {
    source?.close();
    source = null;
    button.textContent = "Follow";
    button.setAttribute("aria-pressed", "false");
    say(text, false);
  }

  function show({ count, columns, rows }) {
    seen += count;
    region.hidden = false;
    if (head.childElementCount !== columns.length) {
      head.replaceChildren(...columns.map((name) => Object.assign(document.createElement("th"), { textContent: visible(name), scope: "col" })));
    }
    const kind = columns.indexOf("_row_kind");
    for (const row of rows) {
      const line = document.createElement("tr");
      row.forEach((value, at) => {
        const cell = line.insertCell();
        cell.textContent = value === null ? "null" : visible(typeof value === "object" ? JSON.stringify(value) : value);
        if (value === null) cell.className = "none";
        if (typeof value === "number") cell.className = "number";
        if (at === kind) cell.className = value.startsWith("+") ? "kind-plus" : "kind-minus";
      });
      body.prepend(line);
    }
    while (body.childElementCount > ROWS) body.lastElementChild.remove();
    say(`Following: ${seen.toLocaleString("en-US")} changes`, true);
  }

  button.addEventListener("click", () => {
    if (source) return stop(`Stopped after ${seen.toLocaleString("en-US")} changes`);
    seen = 0;
    source = new EventSource(place.dataset.tail);
    button.textContent = "Stop";
    button.setAttribute("aria-pressed", "true");
    say("Connecting", false);
    source.onopen = () => say("Following: no new rows yet", true);
    source.addEventListener("rows", (event) => show(JSON.parse(event.data)));
    source.addEventListener("trouble", (event) => stop(JSON.parse(event.data).why));
    source.onerror = () => source && source.readyState === EventSource.CLOSED && stop("Connection closed");
  });
  button.disabled = false;
}
