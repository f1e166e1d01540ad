"""Which statements work on the tables of lakelog and of its peers: each of ``statements.sql`` is run in each system.

usage: statements.py [--systems lakelog,paimon,delta,iceberg] [--only REGEX] [--known FILE] [--json FILE] [--page FILE]

A cell is ``yes``, or the first words of the error. ``--known`` has the answers of an earlier run, of its ``--json``;
``--page`` writes docs/reference/statements.md.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from environments import ENVIRONMENTS

from lakelog.errors import LakelogError

SYSTEMS = ("lakelog", "paimon", "delta", "iceberg")
DOCUMENTED = "flink"
"""The column that is from the documents of Arctic's Flink connector: it needs a Flink of 2022."""
_HERE = Path(__file__).parent
_LIMIT_S = 3600.0
_PREFACE = """# Statements

<!-- Written by benchmarks/statements.py --page. -->

Which statements work on tables of lakelog, and of its peers: each of the {count} statements of
[benchmarks/statements.sql](../../benchmarks/statements.sql) was run in each system ({versions}), on new tables;
`{{t}}` and the like are explained there. lakelog's tables and Paimon's have a primary key, Delta and Iceberg know
none; lakelog, Paimon and Iceberg have a catalog of directories, Delta has Spark's own. A cell is `yes` when the
statement ran, not a judgement of what it did; `no` has the first words of the error. `none`: the system's documents
have no such statement, it was not run. The last column is what the documents of Arctic's Flink connector say.
`tests/spark/test_statements.py` holds lakelog's column to what it does.
"""


@dataclass(frozen=True)
class Statement:
    """One row of the table: how each system writes it (``""``: in the common way; none: it has no such statement)."""

    group: str
    title: str
    ways: Mapping[str, str | None]
    documented: str
    key: str

    @property
    def name(self) -> str:
        """Group and title."""
        return f"{self.group}: {self.title}"

    def of(self, system: str) -> str | None:
        """The text for a system."""
        return self.ways.get(system, self.ways.get(""))


def read_statements(path: Path = _HERE / "statements.sql") -> Iterator[Statement]:
    """All statements of the file, in order."""
    for number, part in enumerate(
        re.split(r"^--# (?=\w+ \|)", path.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    ):
        head, _, rest = part.partition("\n")
        group, _, title = head.partition(" | ")
        ways: dict[str, str | None] = {}
        documented = ""
        blocks = re.split(r"^--@ (.*)$", rest, flags=re.MULTILINE)
        for names, text in zip(["", *blocks[1::2]], blocks[::2], strict=True):
            systems, _, word = names.partition(":")
            if systems == DOCUMENTED:
                documented = word.strip()
            else:
                value = None if word.strip() == "none" else text.strip()
                ways.update({system.strip(): value for system in systems.split(",")})
        yield Statement(group, title, ways, documented, f"s{number}")


def answers_of(system: str, statements: list[Statement]) -> dict[str, str]:
    """Key → ``yes`` or the error, of all statements in one system; each on tables of its own."""
    environment = ENVIRONMENTS[system]
    try:
        python, jars = environment.python(), environment.jars()
    except LakelogError as why:
        return {s.key: f"not run: {why}" for s in statements}
    with tempfile.TemporaryDirectory() as directory:
        asked, answered = Path(directory) / "asked.json", Path(directory) / "answered.json"
        asked.write_text(json.dumps({s.key: s.of(system) for s in statements}), encoding="utf-8")
        command = [python, str(_HERE / "statements_side.py"), system, str(asked), str(answered), directory]
        done = subprocess.run(
            [*command, ",".join(map(str, jars))], capture_output=True, text=True, check=False, timeout=_LIMIT_S
        )
        if done.returncode:
            return {s.key: f"not run: {done.stderr.strip()[-200:]}" for s in statements}
        found: dict[str, str] = json.loads(answered.read_text(encoding="utf-8"))
        return found


def _known(files: list[Path], statements: list[Statement]) -> dict[str, dict[str, str]]:
    """Answers that earlier runs have kept by ``--json``."""
    keys = {s.name: s.key for s in statements}
    found: dict[str, dict[str, str]] = {}
    for file in files:
        for system, answers in json.loads(file.read_text(encoding="utf-8")).items():
            found[system] = {keys[name]: answer for name, answer in answers.items() if name in keys}
    return found


def _version(system: str) -> str:
    """A system with the version that ran."""
    jar = next((c for c in ENVIRONMENTS[system].coordinates), "")
    return f"{system} {jar.rpartition(':')[2]} on {ENVIRONMENTS[system].spark}".replace("==", " ") if jar else system


def page_of(statements: list[Statement], found: Mapping[str, Mapping[str, str]]) -> str:
    """The Markdown table: a row a statement, a column a system."""
    systems = list(found)
    of = {system: sum(answer == "yes" for answer in found[system].values()) for system in systems}
    lines = [_PREFACE.format(count=len(statements), versions=", ".join(map(_version, systems)))]
    lines += [f"| | {' | '.join(systems)} |", "|---" * (len(systems) + 1) + "|"]
    lines.append(f"| statements that work | {' | '.join(str(of[system]) for system in systems)} |")
    group = ""
    for statement in statements:
        if statement.group != group:
            group = statement.group
            lines += ["", f"## {group}", "", f"| | {' | '.join(systems)} | Arctic on Flink (documents) |"]
            lines.append("|---" * (len(systems) + 2) + "|")
        cells = [found[system].get(statement.key, "") for system in systems]
        lines.append(f"| {statement.title} | {' | '.join(cells)} | {statement.documented} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Runs the statements and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--systems", default=",".join(SYSTEMS))
    parser.add_argument("--only", default="")
    parser.add_argument("--known", type=Path, action="append", default=[])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--page", type=Path)
    given = parser.parse_args()
    statements = [s for s in read_statements() if re.search(given.only, s.title, re.IGNORECASE)]
    found: dict[str, dict[str, str]] = _known(given.known, statements)
    for system in (one for one in given.systems.split(",") if one not in found):
        print(f"{system} …", file=sys.stderr, flush=True)
        found[system] = answers_of(system, statements)
    page = page_of(statements, found)
    print(page)
    for system, answers in found.items():
        print(f"{system}: {sum(a == 'yes' for a in answers.values())} of {len(statements)}")
    if given.json:
        titles = {s.key: s.name for s in statements}
        named = {system: {titles[k]: v for k, v in answers.items()} for system, answers in found.items()}
        given.json.write_text(json.dumps(named, indent=1, ensure_ascii=False), encoding="utf-8")
    if given.page:
        given.page.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
