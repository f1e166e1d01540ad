"""Prints the lowest supported version of each dependency, as requirements for pip: ``lowest_versions.py EXTRA…``.

Source: the lower bounds in pyproject.toml, of the package and of these extras.
"""

from __future__ import annotations

import re
import sys
import tomllib
from pathlib import Path

PROJECT = Path(__file__).parents[1] / "pyproject.toml"
_BOUND = re.compile(r"([\w.-]+)(\[[\w,-]+\])?[>=]=([\w.]+)")


def main() -> None:
    project = tomllib.loads(PROJECT.read_text(encoding="utf-8"))["project"]
    needed = [
        *project["dependencies"],
        *(one for extra in sys.argv[1:] for one in project["optional-dependencies"][extra]),
    ]
    for one in needed:
        found = _BOUND.match(one)
        if found is None:
            sys.exit(f"error: '{one}' in pyproject.toml has no lower bound")
        sys.stdout.write(f"{found[1]}{found[2] or ''}=={found[3]}\n")


if __name__ == "__main__":
    main()
