// The terminal: sends a text, follows what happens in it, draws results as they come.
import { makeEditor } from "./editor.js";
import { sortBy } from "./sort.js";
import { count, duration, visible } from "./words.js";

// of this user only; app.js removes those of others, and all of them on the page for the login
const TEXT = `lakelog-terminal-text:${document.body.dataset.user}`;
const HISTORY = `lakelog-terminal-history:${document.body.dataset.user}`;
const SECRET = /secret|pass|pwd|token|credential|(access|account|api|private|shared|encryption)[-._]?key|auth|bearer|cookie|signature|connection|jaas|\bsas\b|:\/\/[^/\s@]+@/i;
const KEPT = 50;
const SHOWN_ROWS = 1000;

function make(tag, attributes = {}, ...children) {
  const made = Object.assign(document.createElement(tag), attributes);
  made.append(...children);
  return made;
}

function shown(value) {
  if (value === null) return make("span", { className: "none", textContent: "null" });
  return visible(typeof value === "object" ? JSON.stringify(value) : value);
}

class Statement {
  constructor(url, number, told, goTo) {
    this.url = url;
    this.number = number;
    this.isStream = false;
    this.seen = 0;
    this.state = make("b", { textContent: "waiting" });
    this.facts = make("span");
    this.tools = make("span", { className: "tools" });
    this.body = make("div");
    const first = told.text.length > 200 ? `${told.text.slice(0, 200)}…` : told.text;
    this.place = make("article", { className: "result" }, make("header", {}, this.state, this.facts, this.tools), make("pre", {}, make("code", { textContent: first })), this.body);
    this.goTo = goTo;
  }

  hear(kind, data) {
    if (kind === "started") this.say("running");
    if (kind === "columns") this.columns(data.columns);
    if (kind === "rows") this.rows(data.rows);
    if (kind === "progress") this.say("running", data.tasks ? `${count(data.done)} of ${count(data.tasks)} tasks` : "");
    if (kind === "stream") this.stream(data);
    if (kind === "ended") this.end(data);
  }

  say(state, facts = "") {
    this.state.textContent = state;
    this.state.className = state === "failed" ? "bad" : state === "done" ? "good" : "";
    this.facts.textContent = facts;
  }

  columns(columns) {
    this.table = make("tbody");
    const head = make("tr", {}, ...columns.map(({ name, type }, at) => {
      const button = make("button", { type: "button", className: "quiet sort", textContent: name, title: `${type}: sort` });
      const cell = make("th", { scope: "col" }, button);
      button.addEventListener("click", () => sortBy(cell, at, (line) => line.values[at]));
      return cell;
    }));
    const region = make("div", { className: "scroll", tabIndex: 0, role: "region", ariaLabel: `rows of statement ${this.number + 1}` });
    region.append(make("table", {}, make("thead", {}, head), this.table));
    this.body.replaceChildren(region);
    this.kind = columns.findIndex(({ name }) => name === "_row_kind");
  }

  rows(rows) {
    this.seen += rows.length;
    const lines = rows.map((row) => {
      const line = make("tr");
      line.values = row;
      row.forEach((value, at) => {
        const cell = make("td", { className: typeof value === "number" ? "number" : "" }, shown(value));
        if (at === this.kind && value) cell.className = value.startsWith("+") ? "kind-plus" : "kind-minus";
        line.append(cell);
      });
      return line;
    });
    if (this.isStream) this.table?.prepend(...lines.reverse());
    else this.table?.append(...lines);
    while (this.table && this.table.childElementCount > SHOWN_ROWS) this.table.lastElementChild.remove();
    if (this.isStream) this.say("streaming", `${count(this.seen)} rows, newest first`);
  }

  stream(data) {
    if (!this.isStream) {
      this.isStream = true;
      const stop = make("button", { type: "button", className: "secondary", textContent: "Stop" });
      stop.addEventListener("click", () => this.stop(stop));
      this.tools.replaceChildren(stop);
    }
    const rate = data.rows_per_second ?? data.processed_rows_per_second;
    this.say("streaming", `${count(this.seen || data.rows)} rows${rate ? `, ${count(rate)} per second` : ""}`);
  }

  async stop(button) {
    button.disabled = true;
    await send(`${this.url}/streams/${this.number}/stop`, "POST");
  }

  end({ state, rows, elapsed_ms: elapsed, message, error, truncated }) {
    const facts = [duration(elapsed)];
    if (rows !== null && rows !== undefined) facts.push(`${count(rows)} ${rows === 1 ? "row" : "rows"}${truncated ? ", truncated" : ""}`);
    if (message) facts.push(message);
    this.say(state, facts.join(" · "));
    this.tools.replaceChildren();
    if (error) this.fail(error);
    else if (rows) {
      for (const format of ["csv", "json"]) this.tools.append(make("a", { href: `${this.url}/rows?statement=${this.number}&format=${format}`, textContent: format.toUpperCase(), download: "" }));
    }
  }

  fail(error) {
    const said = make("p", { className: "bad", role: "alert" }, error.line ? error.message.split("\n")[0] : error.message);
    if (error.line) {
      const there = make("button", { type: "button", className: "quiet", textContent: `line ${error.line}, column ${error.column}` });
      there.addEventListener("click", () => this.goTo(error.line, error.column));
      said.prepend(there, " ");
    }
    this.body.append(said);
  }
}

async function send(url, method, body) {
  const headers = { accept: "application/json", "x-csrf-token": document.body.dataset.csrf ?? "" };
  if (body) headers["content-type"] = "application/json";
  const answer = await fetch(url, { method, headers, body: body && JSON.stringify(body) });
  if (answer.status === 401) location.reload();
  const told = answer.status === 204 ? null : await answer.json();
  if (!answer.ok) throw new Error(told.error ?? JSON.stringify(told.detail));
  return told;
}

export function begin(place, tell) {
  const url = place.dataset.terminal;
  const results = place.querySelector("[data-results]");
  const state = place.querySelector("[data-state]");
  const cancel = place.querySelector("[data-cancel]");
  const form = place.querySelector("[data-run]");
  const history = place.querySelector("[data-history]");
  let running = null;

  function keep(text) {
    if (SECRET.test(text)) localStorage.removeItem(TEXT);
    else localStorage.setItem(TEXT, text);
  }
  const snippet = place.querySelector("[data-snippet]");
  const snippets = [...snippet.options].slice(1).map((one) => ({ name: one.textContent, text: one.value }));
  const editor = makeEditor(place.querySelector("[data-editor]"), localStorage.getItem(TEXT) ?? "", {
    changed: keep, run: () => form.requestSubmit(), snippets,
    columnsOf: async (name) => (await send(`/api/v1/tables/${encodeURIComponent(whole(name))}`, "GET")).columns.map((one) => one.name),
  });

  // databases as a list, and the names that the editor completes
  let catalogs = [];
  const whole = (name) => (name.includes(".") ? name : `${form.database.value || "default"}.${name}`);
  function drawDatabases() {
    const catalog = catalogs.find(({ name }) => name === form.catalog.value);
    const kept = form.database.value;
    const names = (catalog?.databases ?? []).map(({ name }) => name);
    form.database.replaceChildren(make("option", { value: "", textContent: "Default database" }), ...names.map((name) => make("option", { value: name, textContent: name })));
    if (names.includes(kept)) form.database.value = kept;
    drawNames();
  }
  function drawNames() {
    const all = catalogs.flatMap(({ databases }) => databases.flatMap(({ tables }) => tables));
    const here = `${form.database.value || "default"}.`;
    editor.setTables([...all, ...all.filter((name) => name.startsWith(here)).map((name) => name.slice(here.length))]);
  }
  form.catalog.addEventListener("change", drawDatabases);
  form.database.addEventListener("change", drawNames);
  async function loadNames() {
    try { catalogs = await send("/api/v1/catalogs", "GET"); } catch (failure) { return tell(failure.message); }
    drawDatabases();
  }

  function past() {
    try { return JSON.parse(localStorage.getItem(HISTORY)) ?? []; } catch { return []; }
  }
  function drawHistory() {
    history.replaceChildren(make("option", { value: "", textContent: "History" }), ...past().map((one) => make("option", { value: one, textContent: one.slice(0, 60).replaceAll("\n", " ") })));
  }
  function append(more) {
    if (!more) return;
    const own = editor.text.trimEnd();
    editor.set(own ? `${own}${own.endsWith(";") ? "" : ";"}\n${more}` : more);
  }
  drawHistory();
  history.addEventListener("change", () => { append(history.value); history.value = ""; });
  snippet.addEventListener("change", (event) => { append(event.target.value); event.target.value = ""; });

  const goTo = (line, column) => editor.goTo(line, column);

  function follow(execution) {
    const own = `${url}/texts/${execution.id}`;
    const statements = new Map();
    const group = make("div");
    const mark = make("span", { hidden: true });
    mark.dataset.running = "";
    group.append(mark);
    results.prepend(group);
    running = { url: own };
    cancel.disabled = false;
    const source = new EventSource(`${own}/events`);
    source.addEventListener("happened", (message) => {
      const { kind, statement, data } = JSON.parse(message.data);
      if (kind === "waiting") state.textContent = `${data.why}: ${data.what_to_do}`;
      if (kind === "started" && statement === null) state.textContent = "running";
      if (kind === "parsed") {
        data.statements.forEach((told, number) => {
          const one = new Statement(own, number, told, goTo);
          statements.set(number, one);
          group.append(one.place);
        });
      }
      if (statement !== null) statements.get(statement)?.hear(kind, data);
      else if (kind === "ended" && data.error && !statements.size) { const one = new Statement(own, 0, { text: execution.text }, goTo); group.append(one.place); one.end(data); }
    });
    source.addEventListener("over", (message) => {
      source.close();
      mark.remove();
      const { state: how } = JSON.parse(message.data);
      state.textContent = how;
      if (running?.url === own) { running = null; cancel.disabled = true; }
      loadNames();
    });
  }

  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const selected = editor.selected.trim();
    const run = selected || editor.text;
    if (!run.trim()) return;
    tell("");
    editor.clear();
    editor.closeCompletion();
    state.textContent = "Sending";
    try {
      const execution = await send(`${url}/texts`, "POST", { text: run, catalog: form.catalog.value, database: form.database.value });
      const kept = execution.text; // without secrets
      localStorage.setItem(HISTORY, JSON.stringify([kept, ...past().filter((one) => one !== kept)].slice(0, KEPT)));
      drawHistory();
      follow(execution);
    } catch (failure) {
      state.textContent = "";
      tell(failure.message);
    }
  });
  cancel.addEventListener("click", async () => {
    if (!running) return;
    cancel.disabled = true;
    try { await send(`${running.url}/cancel`, "POST"); } catch (failure) { tell(failure.message); }
  });
  place.querySelector("[data-clear]").addEventListener("click", () => { for (const one of [...results.children]) if (!one.querySelector("[data-running]")) one.remove(); });

  // saved queries belong to the user, not to the browser
  const saved = place.querySelector("[data-saved]");
  let queries = {};
  async function loadQueries() {
    try { queries = await send(`${url}/queries`, "GET"); } catch (failure) { return tell(failure.message); }
    saved.replaceChildren(make("option", { value: "", textContent: "Saved queries" }), ...Object.keys(queries).map((name) => make("option", { value: name, textContent: name })));
  }
  saved.addEventListener("change", () => { if (saved.value) editor.set(queries[saved.value]); });
  place.querySelector("[data-save]").addEventListener("click", async () => {
    const name = prompt("Name of the query", saved.value)?.trim();
    if (!name) return;
    try { await send(`${url}/queries/${encodeURIComponent(name)}`, "PUT", { text: editor.text }); tell(""); } catch (failure) { return tell(failure.message); }
    await loadQueries();
    saved.value = name;
  });
  place.querySelector("[data-unsave]").addEventListener("click", async () => {
    if (!saved.value || !confirm(`Delete the saved query ${saved.value}?`)) return;
    try { await send(`${url}/queries/${encodeURIComponent(saved.value)}`, "DELETE"); } catch (failure) { return tell(failure.message); }
    await loadQueries();
  });
  loadQueries();
  place.querySelector("[data-end]").addEventListener("click", async () => {
    try { await send(url, "DELETE"); state.textContent = "Session ended. The next statement starts a new one."; } catch (failure) { tell(failure.message); }
  });
  loadNames();
  form.querySelector("[type=submit]").disabled = false;
}
