"""Finds banned words in the texts that users read (pages, options, metrics, commands, templates, errors and notices),
and in the names of the package's files, classes, functions and variables.

Each fault is one line ``file:line: word → replacement``; code blocks and inline code of pages do not count.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = Path("src") / "lakelog"
NOT_FOR_USERS: Final = ("ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md")

BANNED: Final = {
    r"tell(s|ing)?|told": "report, record, mark",
    r"gone|goes away": "dead, deleted, expired",
    r"anew": "again, from the start",
    r"whoever|nobody|no one|somebody": "name who acts",
    r"amid|owed?|owes": "partial, missing",
    r"look(s|ed|ing)?(?! (up|like)\b)": "read, check, maintain",
    r"behind(?! a proxy)|beside": "after, next to, outside",
    r"stands?|stood": "is, remains, runs",
    r"comes? (again|back|late|too late)": "retry, return, arrive late",
    r"(go|goes|went|going) on": "continue, resume",
    r"at work": "active, running",
    r"so (many|much)|so long(?! as)": "maximum, minimum, interval",
    r"unless given": "Default: …",
    r"may be repeated": "repeatable",
    r"figures": "statistics, metrics",
    r"what there is": "name the things",
    r"of then": "past",
    r"for ever|forever and": "without end",
    r"there (is|are) none": "no …",
    r"if need be": "if necessary",
    r'too(?=[.,;:"])': "also",
    r"patience|patient": "timeout, retry policy",
    r"(is|are) at it|lies in": "runs, is in",
    r"as (it|they) comes?": "in the order of …",
    r"be had": "unavailable",
    r"heard?|hears": "receive, report",
    r"put together": "build",
}
"""Word (a regular expression, any case) → field terms; only words that are wrong in every text that users read."""

RIDDLES: Final = {
    r"figures?": "stats, samples, results",
    r"gone|going": "deleted, expired, dead",
    r"looke?d?(?!_up)": "read, inspect, check, poll",
    r"patien(ce|t)": "timeout, retries",
    r"told|heard?": "on_…, receive, report",
    r"anew|amid|owed|lasting|sighting": "reset, partial, missing, persistent, observation",
    r"nobodys?|somebody|whoever": "unowned, owner",
}
"""The same of the words of a name; other words than above, because ``behind`` or ``stand_in`` may be part of a term."""
_PUBLISHED: Final = frozenset(("figures", "is_gone", "looked", "looked_ms"))
"""Fields of the service API's JSON, which stay."""
_NAMES: Final = tuple((re.compile(rf"(?<![a-z])(?:{word})(?![a-z])"), better) for word, better in RIDDLES.items())
_HUMP: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")

_PATTERNS: Final = (rf"(?P<w{at}>(?<![\w-])(?:{word})\b)" for at, word in enumerate(BANNED))
_WORDS: Final = re.compile("|".join(_PATTERNS).replace(" ", r"[\s\"]+"), re.IGNORECASE)
_REPLACEMENTS: Final = tuple(BANNED.values())
_FENCE: Final = re.compile(r"^( *)(```|~~~).*?^ *\2[ `~]*$", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"<!--.*?-->|`[^`]*`|\]\([^)]*\)|https?://\S+", re.DOTALL)
_TEMPLATE: Final = re.compile(r"\{[%#].*?[%#]\}|\{\{.*?\}\}|<code>.*?</code>|<[^>]*>", re.DOTALL)

_ERRORS: Final = ast.parse((ROOT / PACKAGE / "errors.py").read_text(encoding="utf-8")).body
_MESSAGES: Final = frozenset(
    (
        *(node.name for node in _ERRORS if isinstance(node, ast.ClassDef)),
        *("Action", "Blocker", "Finding", "error", "fail", "failed", "warned", "passed"),
        *("missing", "unavailable", "error_response", "warning", "info"),
    )
)
"""Functions and classes whose arguments are messages, besides what ``raise`` raises."""
_SENTENCE: Final = re.compile(r"[A-Za-z]{2,} [a-z]{2,}")
_QUOTED: Final = re.compile(r'"((?:[^"\\]|\\.)*)"')
_EXPRESSION: Final = re.compile(r"\{[^{}]*(?:\{[^{}]*\}[^{}]*)*\}")


def faults(text: str) -> Iterator[tuple[int, str, str]]:
    """Line, banned word and replacement, for each banned word in a text."""
    for found in _WORDS.finditer(text):
        at = next(index for index in range(len(BANNED)) if found[f"w{index}"])
        yield text.count("\n", 0, found.start()) + 1, " ".join(found[0].replace('"', " ").split()), _REPLACEMENTS[at]


def page_text(source: str) -> str:
    """A Markdown page with code, comments and link targets blanked."""
    return _blanked(_CODE, _blanked(_FENCE, source))


def template_text(source: str) -> str:
    """A Jinja template with code, expressions and tags blanked."""
    return _blanked(_TEMPLATE, source)


def declared_text(source: str) -> str:
    """A module with everything blanked except descriptions, help texts and the docstrings of commands."""
    out = [""] * len(source.splitlines())
    for text in (text for node in ast.walk(ast.parse(source)) for text in _texts(node)):
        for number, line in enumerate((ast.get_source_segment(source, text) or "").splitlines(), text.lineno - 1):
            out[number] += f" {line}"
    return page_text("\n".join(out))


def message_text(source: str) -> str:
    """A module with everything blanked except its messages and all other strings of two or more words.

    Docstrings are not for users. An f-string and adjacent literals are one string.
    """
    tree = ast.parse(source)
    parts = [text for node in ast.walk(tree) if _is_message(node) for text in ast.walk(node) if _is_text(text)]
    docs = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    parts += [text for text in ast.walk(tree) if _is_text(text) and id(text) not in docs and _is_sentence(text)]
    lines = source.encode().split(b"\n")
    out = [""] * len(lines)
    for number, line in {one for text in parts if isinstance(text, ast.expr) for one in _lines_of(text, lines)}:
        out[number] += " ".join(f'{text}"' for text in _QUOTED.findall(line)) + " "
    prose = "\n".join(out)
    return page_text(_blanked(_EXPRESSION, prose))


def name_faults(path: Path, source: str) -> Iterator[tuple[int, str, str]]:
    """Line, name and replacement, for each banned word in the names that a module defines, and in its own."""
    found = [(1, path.stem), *(one for node in ast.walk(ast.parse(source)) for one in _names(node))]
    for line, name in dict.fromkeys(found):
        words = _HUMP.sub("_", name).lower()
        if name not in _PUBLISHED:
            yield from ((line, name, better) for pattern, better in _NAMES if pattern.search(words))


def _names(node: ast.AST) -> Iterator[tuple[int, str]]:
    if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
        yield node.lineno, node.name
    elif isinstance(node, ast.arg):
        yield node.lineno, node.arg
    elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.lineno, node.id
    elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
        yield node.lineno, node.attr


def _is_message(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call):
        return isinstance(node, ast.Raise)
    called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
    return called in _MESSAGES


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _lines_of(node: ast.expr, lines: Sequence[bytes]) -> Iterator[tuple[int, str]]:
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    for number in range(first, last + 1):
        end = node.end_col_offset if number == last else None
        yield number, lines[number][node.col_offset if number == first else 0 : end].decode()


def _is_sentence(node: ast.AST) -> bool:
    parts = (part.value for part in ast.walk(node) if isinstance(part, ast.Constant) and isinstance(part.value, str))
    return _SENTENCE.search("".join(parts)) is not None


def _texts(node: ast.AST) -> Iterable[ast.expr]:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        yield from node.args[{"Option": 3, "Metric": 2}.get(node.func.id, len(node.args)) :][:1]
    if isinstance(node, ast.Call):
        yield from (keyword.value for keyword in node.keywords if keyword.arg == "help")
    if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "_COMMANDS" and node.value is not None:
        yield node.value
    if isinstance(node, ast.FunctionDef) and re.search("command|group", "".join(map(ast.unparse, node.decorator_list))):
        yield from (one.value for one in node.body[:1] if isinstance(one, ast.Expr))


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    return pattern.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), text)


def texts(root: Path) -> Iterator[tuple[Path, str]]:
    """Every file with texts for users (path below ``root``), and its prose; each word is in its line."""
    declared = [*(root / PACKAGE / "options").rglob("*.py"), *(root / PACKAGE / "cli").rglob("*.py")]
    pages = [page for page in root.glob("*.md") if page.name not in NOT_FOR_USERS]
    for paths, prose in (
        ([*pages, *(root / "docs").rglob("*.md")], page_text),
        (declared, declared_text),
        ((root / PACKAGE).rglob("*.py"), message_text),
        ((root / PACKAGE / "service" / "dashboard" / "templates").glob("*.html"), template_text),
    ):
        for path in sorted(paths):
            yield path.relative_to(root), prose(path.read_text(encoding="utf-8"))


def main() -> None:
    """Fails with every fault below a directory, by default this checkout."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT
    found = [(path, fault) for path, text in texts(root) for fault in faults(text)]
    for path in sorted((root / PACKAGE).rglob("*.py")):
        own = path.relative_to(root)
        found += [(own, fault) for fault in name_faults(own, path.read_text(encoding="utf-8"))]
    lines = dict.fromkeys(f"{path}:{line}: {word} → {better}" for path, (line, word, better) in found)
    sys.exit("\n".join(lines) or 0)


if __name__ == "__main__":
    main()
