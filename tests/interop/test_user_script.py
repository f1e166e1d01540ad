"""A user's script under pyright's strict mode, in an environment as a user has it: planted typos are found, no more."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-user" / "bin" / "python"
SCRIPT = """\
import polars as pl

import lakelog
from lakelog import Lake, Table

lake: Lake = lakelog.connect("./warehouse")
table: Table = lake.table("db.t")
rows = table.scan(colums=["id"]).to_arrow()
other = lake.tabel("db.t")
lake.sql("select 1").show(3)
lake.write(pl.DataFrame({"id": [1]}), "db.t")
frame: pl.DataFrame = table.scan(["id"], filter="id > 1").to_polars()
counts = table.update({"name": "upper(name)"}, where="id = 1")
stream = lake.read_stream("db.t").select("id")
query = lake.write_stream(stream, "db.u")
latest: pl.DataFrame = table.history(1).to_polars()
few = table.scan(filter=3)
session = lake.spark.tabel("db.t")
"""


def test_pyright_finds_the_typos_of_a_users_script_and_nothing_else(tmp_path: Path) -> None:
    (tmp_path / "user.py").write_text(SCRIPT)
    settings = {"typeCheckingMode": "strict", "pythonPlatform": "Linux"}
    (tmp_path / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [str(PYTHON), "-m", "pyright", "--outputjson", "--pythonpath", str(PYTHON), "user.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=250, check=False)
    found = json.loads(done.stdout)["generalDiagnostics"]
    errors = {(error["range"]["start"]["line"] + 1, error["rule"]) for error in found if error["severity"] == "error"}
    assert {(8, "reportCallIssue"), (9, "reportAttributeAccessIssue"), (17, "reportArgumentType")} <= errors
    # what follows from a typo is unknown in its line; no other line has an error
    assert {line for line, _ in errors} == {8, 9, 17, 18}, found
