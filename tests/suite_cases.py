"""Statements that the suites of other systems ask, with the rows that they expect, from ``suites/*.sql``.

A case begins with ``--# title`` and runs in a database of its own. ``--> row`` lines are the rows of the statement
before them, in any order unless it has an ORDER BY; ``--> none`` means no rows. ``--! words`` is an error whose text
has these words. A script ends at such lines, and the case goes on behind them. A case with ``--? words`` is not right
here, and what is found instead has these words; one with ``--? with a log: words`` only if its tables have a log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

SUITES: Final = Path(__file__).parent / "suites"
WITH_LOG: Final = "with a log: "
RIGHT, REFUSED, WRONG = "right", "refused", "wrong"
_SETTING: Final = re.compile(r"^\s*set\s+([\w.]+)\s*=", re.IGNORECASE | re.MULTILINE)


@dataclass
class Step:
    """A script, and the rows of its last statement or the words of its error; neither: it just runs."""

    script: str
    rows: list[str] | None = None
    error: str | None = None


@dataclass
class Case:
    """The steps of one case."""

    suite: str
    title: str
    steps: list[Step] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def known_fault(self, has_log: bool) -> str | None:
        """Words of what is found instead of the right rows; None if the case is right."""
        for words in self.faults:
            _, is_of_log, after = words.rpartition(WITH_LOG)
            if has_log or not is_of_log:
                return after
        return None

    @property
    def settings(self) -> list[str]:
        """The settings of the session that the case changes."""
        return [name for step in self.steps for name in _SETTING.findall(step.script)]


def read_cases() -> list[Case]:
    """The cases of all suites."""
    found = []
    for path in sorted(SUITES.glob("*.sql")):
        for text in re.split(r"^--# ", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
            title, _, body = text.partition("\n")
            faults = [line.removeprefix("--? ") for line in body.splitlines() if line.startswith("--? ")]
            kept = "\n".join(line for line in body.splitlines() if not line.startswith("--? "))
            found.append(Case(path.stem, title.strip(), list(_steps(kept)), faults))
    return found


def _steps(body: str) -> Iterator[Step]:
    step = Step("")
    for line in body.splitlines():
        if line.startswith("--> "):
            step.rows = step.rows or []
            step.rows += [] if line == "--> none" else [line.removeprefix("--> ")]
        elif line.startswith("--! "):
            step.error = line.removeprefix("--! ")
        else:
            if step.rows is not None or step.error is not None:
                yield step
                step = Step("")
            step.script += line + "\n"
    if step.script.strip() or step.rows is not None:
        yield step


def verdict(case: Case, sql: Callable[[str], Any]) -> tuple[str, str]:
    """Runs a case in the current database: the verdict, and what was found where it is not right."""
    for step in case.steps:
        try:
            found = _rows(sql(step.script)) if step.script.strip() else []
        except Exception as failure:
            told = str(failure)
            if step.error is not None and step.error.lower() in told.lower():
                continue
            return REFUSED, f"{step.script.strip()[-200:]}\n{type(failure).__name__}: {told[:400]}"
        if step.error is not None:
            return WRONG, f"{step.script.strip()[-200:]}\nno error, expected: {step.error}"
        if step.rows is not None:
            last = step.script.strip().rstrip(";").rpartition(";")[2].lower()
            is_ordered = "order by" in last
            expected = step.rows
            if not is_ordered:
                found, expected = sorted(found), sorted(expected)
            if found != expected:
                return WRONG, f"{step.script.strip()[-200:]}\nfound {found}\nexpected {expected}"
    return RIGHT, ""


def _rows(result: Any) -> list[str]:
    if isinstance(result, list):
        result = result[-1] if result else None
    if result is None:
        return []
    table = result if isinstance(result, pa.Table) else result.toArrow()
    return [" | ".join(_text(value) for value in row.values()) for row in _by_position(table)]


def _by_position(table: pa.Table) -> Iterator[dict[int, Any]]:
    columns = [column.to_pylist() for column in table.columns]
    for at in range(table.num_rows):
        yield {i: column[at] for i, column in enumerate(columns)}


def _text(value: Any) -> str:
    if value is None:
        return "null"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, dict):
        return "{" + ", ".join(f"{k}: {_text(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        if value and all(isinstance(pair, tuple) for pair in value):
            return "{" + ", ".join(f"{_text(k)}: {_text(v)}" for k, v in sorted(value, key=str)) + "}"
        return "[" + ", ".join(_text(v) for v in value) + "]"
    return str(value)
