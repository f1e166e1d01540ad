"""Bars of long steps on a terminal, and nothing in a pipe."""

import io
import subprocess
import sys
import threading
from pathlib import Path

import pyarrow as pa
import pytest

import lakelog
from lakelog.cli.console import bars
from lakelog.cli.console.bars import Bars
from lakelog.cli.console.process import SCREEN
from lakelog.io.metrics import METER, Step
from lakelog.service.row_files import export_rows, read_rows


class Terminal(io.StringIO):
    """A stream that is a terminal."""

    def isatty(self) -> bool:
        return True


def screen_of(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """A terminal as stderr, where each step has a bar at once. Called by the test itself, after pytest's capture."""
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(bars, "AFTER_S", 0.0)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    return terminal


def test_a_running_step_has_a_bar_with_what_is_done_until_it_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch)
    shown = Bars()
    with METER.step("export", "rows", 2_000, table="d.t") as step:
        step.advance(1_500)
        shown.draw()
        assert "export d.t" in screen.getvalue() and "1,500 of 2,000 rows" in screen.getvalue()
    shown.draw()
    assert screen.getvalue().endswith("\x1b[1A\x1b[2K")  # the line is cleared


def test_a_line_is_printed_while_no_bar_is_on_the_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = screen_of(monkeypatch)
    shown = Bars()
    shown.start()
    with METER.step("copy", "bytes", table="d.t"):
        shown.draw()
        with SCREEN.printing():
            before = len(screen.getvalue())
            other = threading.Thread(target=shown.draw)  # it waits for the line
            other.start()
            assert len(screen.getvalue()) == before
        other.join()
        assert "copy d.t" in screen.getvalue()[before:]
    shown.stop()


def test_a_prompt_has_bars_and_a_program_and_a_pipe_have_none(tmp_path: Path) -> None:
    text = (
        f"import lakelog, threading; lakelog.connect({str(tmp_path)!r}); print([t.name for t in threading.enumerate()])"
    )
    done = subprocess.run([sys.executable, "-i", "-c", text], input="", capture_output=True, text=True, check=True)
    assert "lakelog-bars" not in done.stdout  # stderr is a pipe
    tool = subprocess.run(
        [sys.executable, "-m", "lakelog", "tables", "--warehouse", str(tmp_path)], capture_output=True, text=True
    )
    assert "\x1b" not in tool.stderr


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow", "jsonl"])
def test_load_and_export_count_to_their_totals(tmp_path: Path, ending: str) -> None:
    lake = lakelog.connect(tmp_path / "w")
    table = lake.create_table("d.t", pa.schema([("id", pa.int64())]), primary_key=["id"])
    table.write(pa.table({"id": range(1_000)}))
    ended: list[Step] = []
    end = METER.listen(ended.append)
    file = tmp_path / f"rows.{ending}"
    if ending in ("parquet", "arrow"):
        assert export_rows(table.scan(), file, {}) == 1_000
    else:
        lines = [str(n) if ending == "csv" else f'{{"id": {n}}}' for n in range(1_000)]
        file.write_text("\n".join((["id"] if ending == "csv" else []) + lines) + "\n")
    assert sum(batch.num_rows for batch in read_rows(file, table.schema)) == 1_000
    end()
    counted = [step for step in ended if step.unit]
    assert [step.name for step in counted] == (["export", "load"] if ending in ("parquet", "arrow") else ["load"])
    assert all(step.total and step.done == step.total for step in counted)


def test_compaction_counts_the_rows_of_its_sorted_runs(tmp_path: Path) -> None:
    table = lakelog.connect(tmp_path).create_table("d.t", pa.schema([("id", pa.int64())]), primary_key=["id"])
    for start in (0, 500):
        table.write(pa.table({"id": range(start, start + 1_000)}))
    ended: list[Step] = []
    end = METER.listen(ended.append)
    table.compact()
    end()
    merge = next(step for step in ended if step.name == "merge")
    assert (merge.done, merge.total, merge.fields["runs"]) == (2_000, 2_000, 2)
    assert next(step for step in ended if step.name == "compaction").done == 1
