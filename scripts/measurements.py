"""Keeps the numbers of pages equal to the measurements in ``docs/results``.

A measured number of a page has a comment that names its source, which no reader sees::

    An upsert took 0.61 s<!-- workload: lakelog.steps.upsert.wall -->, a fifth
    more<!-- … -->, or 1.1 times<!-- workload: lakelog.steps.upsert.wall / parquet.steps.upsert.wall -->.

Without an argument the pages are written again, each number with the digits that it has. ``--check`` (``make check``)
fails if one would change, if a comment names nothing, and if a number of ``PAGES`` with a unit of time or of a rate has
no comment. ``<!-- set -->`` marks one that is chosen, calculated or quoted, and says so in its sentence.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).parent.parent
RESULTS: Final = ROOT / "docs" / "results"
PAGES: Final = ("README.md", "docs/compare.md", "docs/costs.md")
_UNITS: Final = r"(?:s|ms|µs|times|rows (?:a|per) second|changes (?:a|per) second)"
_MARKED: Final = re.compile(r"(?P<shown>\d[\d,.-]*)(?P<between>[^\d<|]*)<!-- (?P<source>[\w-]+): (?P<paths>[^>]+?) -->")
_UNMARKED: Final = re.compile(rf"(?<![\w.`=/'-])\d[\d,.]* {_UNITS}\b(?!<!-- )")
_CODE: Final = re.compile(r"```.*?```|`[^`\n]*`", re.DOTALL)


class _NotMeasuredError(Exception):
    """A comment names a measurement that no file has."""


@cache
def _results(source: str) -> Any:
    path = RESULTS / f"{source}.json"
    if not path.exists():
        raise _NotMeasuredError(f"docs/results has no {path.name}")
    return json.loads(path.read_text(encoding="utf-8"))


def _value(source: str, path: str) -> Any:
    value, rest = _results(source), path
    if not any(rest.startswith(name) for name in value):
        value = value["figures"]
    while rest:
        # a name may have dots, as that of a version has
        name = next((name for name in value if rest == name or rest.startswith(f"{name}.")), None)
        if name is None:
            raise _NotMeasuredError(f"docs/results/{source}.json has no {path}")
        value, rest = value[name], rest[len(name) + 1 :]
    return value


def _shown(value: Any, like: str) -> str:
    """A value with the digits of the number that the page has."""
    if isinstance(value, str):
        return value
    decimals = len(like.partition(".")[2])
    return f"{round(value, decimals or (-3 if like.endswith(',000') else 0)):,.{decimals}f}"


def written(text: str) -> str:
    """A page with the numbers of the measurements. Raises _NotMeasuredError."""

    def number(match: re.Match[str]) -> str:
        above, slash, below = match["paths"].partition(" / ")
        value = _value(match["source"], above)
        if slash:
            value /= _value(match["source"], below)
        rest = match[0][len(match["shown"]) :]
        return f"{_shown(value, match['shown'])}{rest}"

    return _MARKED.sub(number, text)


def faults(page: Path) -> Iterator[str]:
    """What is wrong in a page, a line each."""
    text, name = page.read_text(encoding="utf-8"), page.relative_to(ROOT)
    try:
        if written(text) != text:
            yield f"{name}: numbers differ from docs/results: run make docs"
    except _NotMeasuredError as why:
        yield f"{name}: {why}"
    prose = _CODE.sub(lambda code: re.sub(r"[^\n]", " ", code[0]), text)
    for number, line in enumerate(prose.splitlines(), 1):
        for match in _UNMARKED.finditer(line):
            yield f"{name}:{number}: '{match[0]}' has no measurement: add a comment (scripts/measurements.py)"


def main() -> int:
    pages = [ROOT / name for name in PAGES]
    if "--check" in sys.argv[1:]:
        found = [fault for page in pages for fault in faults(page)]
        print("\n".join(found), end="\n" if found else "")  # noqa: T201
        return 1 if found else 0
    for page in pages:
        page.write_text(written(page.read_text(encoding="utf-8")), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
