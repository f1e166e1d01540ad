// The Terminal's editor: CodeMirror with SQL of Spark and lakelog, completion, and marks where a statement is wrong.
import {
  Compartment, EditorView, HighlightStyle, Prec, SQLDialect, basicSetup, keymap, setDiagnostics, snippetCompletion, sql, syntaxHighlighting, tags,
} from "./vendor/codemirror.js";

const KEYWORDS = `add after all alter analyze and anti array as asc between branch by cache call case cast catalog catalogs change clear column columns
 comment commit compact create cross current database databases dbproperties default delete desc describe distinct drop else end exists explain extended
 false first following for from full function functions grouping group having if in inner insert int interval into is join lateral left like limit
 map matched merge minus natural not null nulls of offset on options or order outer over overwrite partition partitioned partitions pivot preceding primary key
 procedure procedures qualify range refresh rename replace restore right rollup row rows schema select semi set show sort source struct system_time system_version
 table tables tablesample tag target tblproperties temporary then timestamp to true truncate unbounded union unique unset update use using values
 vacuum version view views watermark when where window with within write history detail optimize exclude recursive`;
const TYPES = "bigint binary boolean byte char date decimal double float int integer long short smallint string timestamp timestamp_ltz timestamp_ntz tinyint varchar variant";
const FUNCTIONS = "abs avg coalesce concat count current_date current_timestamp date_format date_trunc explode first_value from_json lag lead length lower max min rank regexp_replace round row_number size split substring sum to_date to_json to_timestamp trim upper";

const dialect = SQLDialect.define({
  keywords: KEYWORDS, types: TYPES, builtin: FUNCTIONS, identifierQuotes: "`", doubleQuotedStrings: true, backslashEscapes: true, hashComments: false,
});
const colours = HighlightStyle.define([
  { tag: tags.keyword, color: "var(--code-keyword)", fontWeight: "600" }, { tag: [tags.string, tags.special(tags.string)], color: "var(--code-string)" },
  { tag: [tags.number, tags.bool, tags.null], color: "var(--code-number)" }, { tag: [tags.lineComment, tags.blockComment], color: "var(--pico-muted-color)", fontStyle: "italic" },
  { tag: [tags.typeName, tags.standard(tags.name)], color: "var(--code-type)" },
]);
const theme = EditorView.theme({
  "&": { backgroundColor: "var(--pico-form-element-background-color)", color: "var(--pico-color)", border: "1px solid var(--pico-form-element-border-color)", borderRadius: "var(--pico-border-radius)", fontSize: "0.95rem" },
  "&.cm-focused": { outline: "2px solid var(--pico-primary)" },
  ".cm-content": { fontFamily: "var(--pico-font-family-monospace)", caretColor: "var(--pico-color)", minHeight: "8rem" },
  ".cm-scroller": { maxHeight: "50vh", overflow: "auto" },
  ".cm-cursor": { borderLeftColor: "var(--pico-color)" },
  ".cm-gutters": { backgroundColor: "transparent", color: "var(--pico-muted-color)", border: "none" },
  ".cm-activeLine, .cm-activeLineGutter": { backgroundColor: "var(--pico-muted-border-color)", opacity: "1" },
  "&.cm-focused .cm-selectionBackground, .cm-selectionBackground": { backgroundColor: "var(--code-selection) !important" },
  ".cm-tooltip": { backgroundColor: "var(--pico-card-background-color)", border: "1px solid var(--pico-muted-border-color)", color: "var(--pico-color)" },
  ".cm-tooltip-autocomplete ul li[aria-selected]": { backgroundColor: "var(--pico-primary-background)", color: "var(--pico-primary-inverse)" },
});

/** The editor in a place; `changed` is called with the text, `run` by Ctrl+Enter, `names` gives tables and columns. */
export function makeEditor(place, text, { changed, run, snippets, columnsOf }) {
  // within a shadow root the styles are sheets of the document's own making, which its security policy allows
  const shadow = place.attachShadow({ mode: "open" });
  const language = new Compartment();
  let tables = {};
  const asked = new Set();

  const statements = snippets.map(({ name, text: body }) => snippetCompletion(body.replaceAll("db.t", "${db.t}"), { label: body.split(/[\n(]/)[0].trim().slice(0, 50), detail: name, type: "text", boost: -1 }));
  const support = () => {
    const found = sql({ dialect, schema: tables, upperCaseKeywords: true });
    return [found, found.language.data.of({ autocomplete: (context) => {
      const word = context.matchBefore(/\w+/);
      const before = context.state.sliceDoc(0, word?.from ?? context.pos).trimEnd();
      return (word || context.explicit) && (!before || before.endsWith(";")) ? { from: word?.from ?? context.pos, options: statements } : null;
    } })];
  };

  // Tab moves the focus on, as everywhere on the page; Ctrl+] indents
  const view = new EditorView({
    doc: text, root: shadow, parent: shadow,
    extensions: [
      Prec.highest(keymap.of([{ key: "Mod-Enter", run: () => { run(); return true; } }])),
      basicSetup, language.of(support()), theme, syntaxHighlighting(colours), EditorView.lineWrapping,
      EditorView.contentAttributes.of({ "aria-label": "Statements", spellcheck: "false", autocapitalize: "off" }),
      EditorView.updateListener.of((update) => { if (update.docChanged) { changed(update.state.doc.toString()); learn(); } }),
    ],
  });

  function configure() {
    view.dispatch({ effects: language.reconfigure(support()) });
  }
  /** Asks for the columns of the tables that stand in the text. */
  function learn() {
    for (const [, name] of view.state.doc.toString().matchAll(/((?:[\w`]+\.)*[\w`]+)/g)) {
      const plain = name.replaceAll("`", "");
      if (!(plain in tables) || asked.has(plain) || asked.size > 100) continue;
      asked.add(plain);
      columnsOf(plain).then((columns) => { tables = { ...tables, [plain]: columns }; configure(); }, () => {});
    }
  }
  return {
    get text() { return view.state.doc.toString(); },
    get selected() { const { from, to } = view.state.selection.main; return view.state.sliceDoc(from, to); },
    set(more) { view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: more }, selection: { anchor: more.length } }); view.focus(); },
    setTables(names) { tables = Object.fromEntries(names.map((name) => [name, tables[name] ?? []])); configure(); learn(); },
    mark(line, column, message) {
      const at = this.place(line, column);
      view.dispatch(setDiagnostics(view.state, [{ from: at, to: this.end(at), severity: "error", message }]));
    },
    closeCompletion() { view.contentDOM.dispatchEvent(new KeyboardEvent("keydown", { key: "Escape", keyCode: 27 })); },
    clear() { view.dispatch(setDiagnostics(view.state, [])); },
    place(line, column) { const one = view.state.doc.line(Math.min(line, view.state.doc.lines)); return Math.min(one.to, one.from + column - 1); },
    end(at) { return at + Math.max(1, view.state.sliceDoc(at).search(/[\s,;()]|$/)); },
    goTo(line, column) { const at = this.place(line, column); view.dispatch({ selection: { anchor: at, head: Math.min(view.state.doc.length, this.end(at)) }, scrollIntoView: true }); view.focus(); },
  };
}
