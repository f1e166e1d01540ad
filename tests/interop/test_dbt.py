"""The dbt project of the examples passes, as dbt's users run it: twice, with changes of its seeds and a model between.

dbt has an environment of its own (``.venv-user``), with lakelog as a user has it.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

import lakelog
from secrets_in_files import leaked

ROOT = Path(__file__).parents[2]
PYTHON = ROOT / ".venv-user" / "bin" / "python"


def dbt(project: Path, *arguments: str) -> str:
    """Runs a command of dbt in a copy of the project; returns what it printed."""
    environment = {name: value for name, value in os.environ.items() if name not in ("PYTHONPATH", "LAKELOG_WAREHOUSE")}
    command = [str(PYTHON), "run.py", *arguments]
    done = subprocess.run(command, cwd=project, env=environment, capture_output=True, text=True, timeout=900)
    assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.timeout(1800)
def test_the_project_passes_and_its_second_run_takes_only_what_is_new(tmp_path: Path) -> None:
    project = tmp_path / "dbt"
    shutil.copytree(ROOT / "examples" / "dbt", project)
    assert "PASS=15 WARN=0 ERROR=0 SKIP=0" in dbt(project, "build")
    seed, model = project / "seeds" / "orders.csv", project / "models" / "order_facts.sql"
    changed = seed.read_text().replace("1,1,30.5,", "1,1,31.5,").replace("4,3,99.9,", "4,3,100.9,")
    seed.write_text(changed + "5,2,7.5,2026-04-04 07:00:00\n")
    model.write_text(model.read_text().replace("c.city\n", "c.city, c.name\n"))
    assert "PASS=15 WARN=0 ERROR=0 SKIP=0" in dbt(project, "build")
    dbt(project, "docs", "generate")

    with lakelog.connect(project / "warehouse") as lake:
        facts = lake.table("shop.order_facts").scan(columns=["id", "amount", "name"]).to_arrow().to_pylist()
        days = lake.table("shop.daily_revenue").scan().to_arrow().to_pylist()
        totals = {row["name"]: row["total"] for row in lake.table("shop.customer_totals").scan().to_arrow().to_pylist()}
        described = lake.sql("describe shop.customer_totals").to_arrow().to_pylist()
    # order 1 is older than the newest of the first run: an incremental model does not read it again
    assert sorted((row["id"], row["amount"], row["name"]) for row in facts) == [
        (1, 30.5, None),
        (2, 20.0, None),
        (3, 12.25, None),
        (4, 100.9, "Sophie"),
        (5, 7.5, "Emmy"),
    ]
    assert [row["revenue"] for row in sorted(days, key=lambda row: row["day"])] == [50.5, 12.25, 100.9, 7.5]
    assert totals == {"Ada": 43.75, "Emmy": 27.5, "Sophie": 100.9}
    assert described[0] == {"col_name": "customer_id", "data_type": "bigint", "comment": "The customer's id."}
    catalog = json.loads((project / "target" / "catalog.json").read_text())
    assert leaked(project) == []
    columns = catalog["nodes"]["model.shop.order_facts"]["columns"]
    assert {name: column["type"] for name, column in columns.items()} == {
        "id": "bigint",
        "amount": "double",
        "ordered_at": "timestamp",
        "city": "string",
        "name": "string",
    }
