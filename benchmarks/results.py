"""Results as JSON, one file per benchmark with the machine that it ran on, and the page that shows all of them.

usage: results.py [DIRECTORY]. Writes the page of docs/results, or of another directory, from its JSON files.
"""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, Final

from report import table_of

import lakelog

RESULTS: Final = Path(__file__).parents[1] / "docs" / "results"
PAGE: Final = "index.md"
_QUIET: Final = 0.1
"""Share of the cores that others may use on a machine that counts as quiet."""
_HEAD: Final = """# Results

What the benchmarks of this repository measured ([how](../benchmarks.md)). `make bench` writes a JSON file per benchmark
into this directory, and this page from all of them. On a loaded machine, trust CPU time and ratios, not the clock. CPU
is user and system time of all processes.
"""
_CELLS: Final = """Seconds by the clock / CPU seconds, and both as ratios to plain Parquet of the same Spark. Lower is
better. Scans of plain Parquet return every version of a row, because it merges nothing. See
[workload W](../benchmarks.md#workload-w) for the steps and the versions.

"""
_PARTS: Final = re.compile(r"_cpu_us$")


def busy_cores(seconds: float = 1.0) -> float:
    """The cores that other processes use now, measured for some seconds. Called before a benchmark begins."""
    before = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    time.sleep(seconds)
    after = Path("/proc/stat").read_text(encoding="ascii").split("\n", 1)[0].split()
    spent = [int(new) - int(old) for new, old in zip(after[1:], before[1:], strict=True)]
    return round((sum(spent) - spent[3] - spent[4]) / os.sysconf("SC_CLK_TCK") / seconds, 2)


def machine(busy: float) -> dict[str, Any]:
    """What a measurement depends on; ``busy`` are the cores that other processes used before the benchmark began."""
    return {
        "date": datetime.now(UTC).date().isoformat(),
        "commit": _git("rev-parse", "--short", "HEAD") + ("+" if _git("status", "--porcelain", "-uno") else ""),
        "processor": _processor(),
        "cores": os.cpu_count(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / (1 << 30)),
        "busy_cores": busy,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "lakelog": lakelog.__version__,
        **{name: found for name in ("pyspark", "pyarrow", "polars") if (found := _version(name))},
    }


def file_name(benchmark: str) -> str:
    """The name of the JSON file of a benchmark."""
    return f"{re.sub('[^a-z0-9]+', '-', benchmark.lower())}.json"


def write_results(directory: Path, measurements: Mapping[str, Any], busy: float) -> None:
    """Writes a JSON file per benchmark, name → measurements, and the page again."""
    directory.mkdir(parents=True, exist_ok=True)
    for name, found in measurements.items():
        text = json.dumps({"benchmark": name, "machine": machine(busy), "figures": found}, indent=1)
        (directory / file_name(name)).write_text(text + "\n", encoding="utf-8")
    write_page(directory)


def write_page(directory: Path) -> None:
    """Writes the page from the directory's JSON files."""
    (directory / PAGE).write_text(page(directory), encoding="utf-8")


def page(directory: Path) -> str:
    """The page of all JSON files of a directory, by name."""
    sections = []
    for path in sorted(directory.glob("*.json")):
        found = json.loads(path.read_text(encoding="utf-8"))
        if "benchmark" not in found:  # results of tests, which have pages of their own
            continue
        title = found["benchmark"][0].upper() + found["benchmark"][1:]
        is_workload = any("steps" in one for one in found["figures"].values() if isinstance(one, Mapping))
        tables = _CELLS + table_of(found["figures"]) if is_workload else _tables(found["figures"])
        drawn = path.with_suffix(".svg").name
        picture = f"![{title}]({drawn})\n\n" if (directory / drawn).exists() else ""
        sections.append(f"## {title}\n\n{_machine_line(found['machine'])}\n\n{picture}{tables}\n")
    return "\n".join([_HEAD, *sections])


def _machine_line(of: Mapping[str, Any]) -> str:
    if "others" in of:  # a remark in the file itself
        load, why = 0.0, of["others"]
    elif "busy_cores" in of:
        load, why = of["busy_cores"] / of["cores"], f"{of['busy_cores']} cores busy before"
    else:
        load, why = of["load"] / of["cores"], f"load average {of['load']}"
    packages = ", ".join(f"{name} {of[name]}" for name in ("lakelog", "pyspark", "pyarrow", "polars") if name in of)
    return (
        f"{of['date']}, commit `{of['commit']}`, {of['cores']} cores of {of['processor']}, {of['memory_gib']} GiB, "
        f"{'**loaded**' if load > _QUIET else 'quiet'} ({why}); Python {of['python']}, {packages}."
    )


def _tables(measurements: Mapping[str, Any]) -> str:
    """Markdown: measurements by name as rows, and below them a table for each measurement that consists of parts."""
    rows = measurements if all(isinstance(found, Mapping) for found in measurements.values()) else {"": measurements}
    plain = {name: {k: v for k, v in found.items() if not isinstance(v, Mapping)} for name, found in rows.items()}
    tables = [_table("", plain)] if any(plain.values()) else []
    for part in dict.fromkeys(k for found in rows.values() for k, v in found.items() if isinstance(v, Mapping)):
        parts = {name: found[part] for name, found in rows.items() if part in found}
        if all(not isinstance(v, Mapping) for found in parts.values() for v in found.values()):
            title = f"{_words(_PARTS.sub('', part))}: µs of CPU a row" if _PARTS.search(part) else _words(part)
            tables.append(_table(title, parts))
    return "\n\n".join(tables)


def _table(title: str, rows: Mapping[str, Mapping[str, Any]]) -> str:
    columns = list(dict.fromkeys(k for found in rows.values() for k in found))
    lines = [
        f"| {title} | " + " | ".join(map(_words, columns)) + " |",
        "|---" + "|---:" * len(columns) + "|",
        *(f"| {name} | " + " | ".join(_cell(found.get(k)) for k in columns) + " |" for name, found in rows.items()),
    ]
    return "\n".join(lines)


def _words(name: str) -> str:
    return name.replace("_", " ")


def _cell(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, list):
        return ", ".join(map(_cell, value))
    return f"{value:,}" if isinstance(value, int | float) else str(value)


def _git(*given: str) -> str:
    done = subprocess.run(["git", *given], cwd=Path(__file__).parent, capture_output=True, text=True, check=False)
    return done.stdout.strip() or ("" if given[0] == "status" else "unknown")


def _processor() -> str:
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        names = [line.partition(":")[2].strip() for line in file if line.startswith("model name")]
    return names[0] if names else platform.machine()


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


if __name__ == "__main__":
    write_page(Path(sys.argv[1]) if sys.argv[1:] else RESULTS)
