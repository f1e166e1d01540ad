"""Rows on stdout: what scripts may rely on."""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from click.testing import CliRunner

from lakelog import connect
from lakelog.cli.console.output import PRINTERS, CsvPrinter, JsonLinesPrinter, TablePrinter, first_rows
from lakelog.cli.main import lakelog as command

ALL_TYPES = pa.table(
    {
        "yes": pa.array([True, None]),
        "big": pa.array([2**63 - 1, None], pa.int64()),
        "real": pa.array([1.5, float("nan")], pa.float64()),
        "price": pa.array([Decimal("1234567890123456789012345678.0123456789"), None], pa.decimal128(38, 10)),
        "text": pa.array(['日本 "x"', None]),
        "bytes": pa.array([b"\x00\xff", None]),
        "day": pa.array([date(1969, 12, 31), None]),
        "clock": pa.array([time(23, 59, 59, 999000), None], pa.time32("ms")),
        "local": pa.array([datetime(2024, 2, 29, 12, 34, 56, 789123), None], pa.timestamp("us")),
        "instant": pa.array([datetime(2024, 2, 29, 12, tzinfo=UTC), None], pa.timestamp("us", tz="Asia/Tokyo")),
        "nanos": pa.array([1709210096123456789, None], pa.timestamp("ns")),
        "took": pa.array([timedelta(seconds=1), None], pa.duration("us")),
        "list": pa.array([[1.5, None, float("inf")], None], pa.list_(pa.float64())),
        "map": pa.array([[("k", Decimal("1.0"))], None], pa.map_(pa.string(), pa.decimal128(3, 1))),
        "pairs": pa.array([[(1, None)], None], pa.map_(pa.int32(), pa.string())),
        "struct": pa.array([{"x": 7, "y": b"z"}, None], pa.struct({"x": pa.int32(), "y": pa.binary()})),
    }
)


def printed(format_name: str, *results: pa.Table, limit: int | None = None) -> str:
    out = io.StringIO()
    printer = PRINTERS[format_name](out)
    for result in results:
        printer.print_result([result], limit)
    return out.getvalue()


def test_jsonl_is_one_object_a_row_that_keeps_every_digit() -> None:
    lines = printed("jsonl", ALL_TYPES).splitlines()
    assert [list(json.loads(line)) for line in lines] == [ALL_TYPES.column_names] * 2
    assert json.loads(lines[0]) == {
        "yes": True,
        "big": 9223372036854775807,
        "real": 1.5,
        "price": "1234567890123456789012345678.0123456789",
        "text": '日本 "x"',
        "bytes": "0x00ff",
        "day": "1969-12-31",
        "clock": "23:59:59.999000",
        "local": "2024-02-29T12:34:56.789123",
        "instant": "2024-02-29T12:00:00Z",
        "nanos": "2024-02-29T12:34:56.123456789",
        "took": "0:00:01",
        "list": [1.5, None, "Infinity"],
        "map": {"k": "1.0"},
        "pairs": [[1, None]],
        "struct": {"x": 7, "y": "0x7a"},
    }


def test_jsonl_keeps_all_columns_of_the_same_name() -> None:
    joined = pa.Table.from_arrays([pa.array([n]) for n in range(4)], names=["id", "id", "id_2", "id"])
    assert json.loads(printed("jsonl", joined)) == {"id": 0, "id_3": 1, "id_2": 2, "id_4": 3}


def test_a_null_is_null_and_nan_is_not() -> None:
    second = json.loads(printed("jsonl", ALL_TYPES).splitlines()[1])
    assert second.pop("real") == "NaN"
    assert set(second.values()) == {None}


@pytest.mark.parametrize("format_name", list(PRINTERS))
def test_a_result_without_rows_prints_without_failing(format_name: str) -> None:
    text = printed(format_name, ALL_TYPES.slice(0, 0))
    assert (text == "") is (format_name == "jsonl")


def test_csv_can_be_read_back() -> None:
    rows = list(csv.reader(io.StringIO(printed("csv", ALL_TYPES))))
    assert rows[0] == ALL_TYPES.column_names
    assert rows[1][:4] == ["true", "9223372036854775807", "1.5", "1234567890123456789012345678.0123456789"]
    assert rows[1][4] == '日本 "x"'
    assert json.loads(rows[1][12]) == [1.5, None, "Infinity"]
    assert rows[2] == ["", "", "NaN", *[""] * 13]


def test_a_table_in_a_pipe_is_never_folded() -> None:
    wide = pa.table({"a": ["x" * 500], "n": [12]})
    text = printed("table", wide)
    assert "x" * 500 in text
    assert [line.split() for line in text.splitlines() if "x" in line] == [["x" * 500, "12"]]


def test_square_brackets_are_text_and_not_markup() -> None:
    assert "[bold]:smile:" in printed("table", pa.table({"a": ["[bold]:smile:"]}))


@pytest.mark.parametrize("printer", [JsonLinesPrinter, CsvPrinter, TablePrinter])
def test_the_limit_counts_rows_over_all_chunks_and_takes_no_chunk_too_many(printer: type[JsonLinesPrinter]) -> None:
    taken = []

    def chunks() -> Iterator[pa.Table]:
        for number in range(100):
            taken.append(number)
            yield pa.table({"n": [number, number]})

    out = io.StringIO()
    assert printer(out).print_result(chunks(), limit=3) == 3
    assert taken == [0, 1]


def test_first_rows_without_a_limit_are_all_rows() -> None:
    table = pa.table({"n": range(10)})
    assert sum(chunk.num_rows for chunk in first_rows([table, table], None)) == 20


class _Terminal(io.StringIO):
    """A stream that says that it is a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_narrow_terminal_shows_all_of_every_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    out, texts = _Terminal(), {name: [f"{name}{n}" for n in range(20)] for name in ("why", "todo")}
    rows = pa.table(
        {"table": ["shop.orders"], "need": ["healing"], "urgency": [90]}
        | {name: [" ".join(words)] for name, words in texts.items()}
    )
    TablePrinter(out).print_result([rows], None)
    lines = out.getvalue().splitlines()
    assert max(map(len, lines)) <= 80
    shown = out.getvalue().split()
    assert all([word for word in shown if word in words] == words for words in texts.values())


def test_a_terminal_without_room_for_all_columns_shows_them_in_longer_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")
    out = _Terminal()
    TablePrinter(out).print_result([pa.table({f"column_{n}": [f"value {n}"] for n in range(40)})], None)
    assert all(f"column_{n}" in out.getvalue() and f"value {n}" in out.getvalue() for n in range(40))


@pytest.mark.parametrize("columns", [200, 80, 40])
def test_a_narrow_terminal_shows_every_value_whole(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    why, what = "the newest snapshot is older than all others " * 3, "run: lakelog compact db.t --where 'p = 1'"
    rows = pa.table(
        {"needs": ["compaction"], "urgency": [90], "reason": [why], "what_to_do": [what], "table": ["db.t"]}
    )
    out = _Terminal()
    TablePrinter(out).print_result([rows])
    lines = re.sub(r"\x1b\[[0-9;]*m", "", out.getvalue()).splitlines()
    assert max(map(len, lines)) <= columns
    letters = sorted("".join(lines).replace(" ", ""))
    for value in (why, what, "what_to_do", "compaction", "90"):
        for letter in set(value) - {" "}:
            assert letters.count(letter) >= value.count(letter)


def test_rows_of_a_table_go_to_stdout_as_lines(tmp_path: Path) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql("create database d; create table d.t (id int, v string)")
        run = CliRunner().invoke
        arguments = ["export", "d.t", "-", "--warehouse", str(tmp_path)]
        assert run(command, arguments).output == "id,v\n"
        lake.table("d.t").write(pa.table({"id": pa.array([1], pa.int32()), "v": ["x"]}))
        assert run(command, arguments).output == "id,v\n1,x\n"
        assert run(command, [*arguments, "--format", "jsonl"]).output == '{"id":1,"v":"x"}\n'
