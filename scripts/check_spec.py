"""Checks the specification of the commit protocol (``rfcs/spec``, RFC 22): no violation, and each planted bug is found.

``make spec`` calls it, after it has built the checker (``tla-checker``, which needs Rust's cargo). It explores states
breadth first, at most ``--states`` of each module. A planted bug is a value of the constant ``Bug``.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from time import perf_counter
from typing import Final

from rich.console import Console
from rich.table import Table

SPEC: Final = Path(__file__).parent.parent / "rfcs" / "spec"
CONSTANTS: Final[Mapping[str, Mapping[str, str]]] = {
    "Chain": {"Drivers": '{"a1","a2"}', "Sealers": '{"s","t"}', "Last": "2", "Numbers": "3"},
    "Lease": {"Writers": '{"v"}', "Helpers": '{"h","i"}', "Records": "5"},
    "Publish": {"Publishers": '{"p","q"}', "Versions": "1", "Attempts": "2", "Records": "6"},
}
"""Module → the bounds of its model."""
NO_BUG: Final = "none"
_BUG: Final = re.compile(r'Bug (?:=|#) "([^"]+)"')
_EXPLORED: Final = re.compile(r"(?:States explored|Reachable states): (\d+)")


def planted_bugs(module: str) -> list[str]:
    """The bugs that a module may have, in the order of its text."""
    return list(dict.fromkeys(_BUG.findall((SPEC / f"{module}.tla").read_text(encoding="utf-8"))))


def explore(checker: str, module: str, bug: str, states: int) -> tuple[int, str]:
    """Explores a module; returns the number of states, and the name of the violated invariant ("" if none is)."""
    constants = [word for item in {**CONSTANTS[module], "Bug": f'"{bug}"'}.items() for word in ("-c", "=".join(item))]
    command = [checker, str(SPEC / f"{module}.tla"), *constants, "--allow-deadlock", "--max-states", str(states)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    explored = _EXPLORED.search(done.stdout)
    if explored is None:
        raise SystemExit(f"{module}: {done.stdout[-2_000:]}{done.stderr[-2_000:]}")
    violated = re.search(r"Invariant \d+ \((\w+)\) violated", done.stdout)
    return int(explored[1]), "" if violated is None else violated[1]


def main() -> int:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checker", default="tla", help="the program tla of tla-checker")
    parser.add_argument("--states", type=int, default=200_000, help="the most states of a module")
    parser.add_argument("--module", choices=CONSTANTS, action="append", help="only this module (repeatable)")
    given = parser.parse_args()
    table, faults = Table("module", "planted bug", "states", "seconds", "found by"), 0
    for module in given.module or CONSTANTS:
        for bug in (NO_BUG, *planted_bugs(module)):
            start = perf_counter()
            states, violated = explore(given.checker, module, bug, given.states)
            faults += bool(violated) == (bug == NO_BUG)
            table.add_row(module, bug, f"{states:,}", f"{perf_counter() - start:.0f}", violated or "–")
    Console().print(table)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
