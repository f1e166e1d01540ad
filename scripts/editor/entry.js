// What terminal.js needs of CodeMirror, bundled into static/vendor/codemirror.js.
export { EditorView, keymap } from "@codemirror/view";
export { Compartment, EditorState, Prec } from "@codemirror/state";
export { basicSetup } from "codemirror";
export { SQLDialect, sql } from "@codemirror/lang-sql";
export { HighlightStyle, syntaxHighlighting } from "@codemirror/language";
export { completeFromList, snippetCompletion } from "@codemirror/autocomplete";
export { setDiagnostics, lintGutter } from "@codemirror/lint";
export { indentWithTab } from "@codemirror/commands";
export { tags } from "@lezer/highlight";
