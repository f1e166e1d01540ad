"""Runs the cells of a notebook in order, as Jupyter does: ``notebooks.py NOTEBOOK [--write]``.

A cell's output is what it prints, and the value of its last expression. Raises AssertionError where the notebook shows
another output; with ``--write`` the notebook gets the new ones. It needs no Jupyter.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import os
import sys
from pathlib import Path
from typing import Any


def run_cell(source: str, where: str, names: dict[str, Any]) -> str:
    """Runs the code of a cell with the names of the cells before it; returns its output."""
    tree = ast.parse(source, where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, where, "exec"), names)
        value = None if last is None else eval(compile(ast.Expression(last.value), where, "eval"), names)
    return printed.getvalue() + ("" if value is None else f"{value!r}\n")


def run_notebook(path: Path, write: bool) -> None:
    """Runs the code cells of a notebook, and compares or replaces their outputs."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    names: dict[str, Any] = {"__name__": "__notebook__"}
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, cell in enumerate(cells, 1):
        found = run_cell("".join(cell["source"]), f"{path.name}, cell {number}", names)
        shown = "".join(line for output in cell["outputs"] for line in output["text"])
        if write:
            lines = found.splitlines(keepends=True)
            cell["outputs"] = [{"name": "stdout", "output_type": "stream", "text": lines}] if lines else []
            cell["execution_count"] = number
        elif found != shown:
            raise AssertionError(f"{path.name}, cell {number} gave\n{found}\nand the notebook shows\n{shown}")
    if write:
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    run_notebook(Path(sys.argv[1]), "--write" in sys.argv)
    sys.stdout.flush()
    os._exit(0)  # tails that a notebook leaves running end with it
