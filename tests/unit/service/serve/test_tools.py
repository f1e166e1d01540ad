"""An assistant reads tables by the Model Context Protocol, with its official client and a real process."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from mcp.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from lakelog.lake import Lake
from lakelog.service.serve.settings import ServeSettings
from lakelog.service.serve.tools import assistant_server

Call = Callable[..., Awaitable[Any]]


def ask(warehouse: Path, work: Callable[[Call], Awaitable[Any]]) -> Any:
    """Runs calls of tools against a server in this process. A refused call returns its words."""

    async def run() -> Any:
        async with Client(assistant_server(ServeSettings(str(warehouse)))) as client:

            async def call(name: str, **arguments: Any) -> Any:
                result = await client.call_tool(name, arguments)
                return result.content[0].text if result.is_error else result.structured_content

            return await work(call)

    return asyncio.run(run())


def test_an_assistant_finds_tables_and_reads_rows(lake: Lake, tmp_path: Path) -> None:
    async def work(call: Call) -> tuple[Any, ...]:
        tables = await call("list_tables")
        described = await call("describe_table", table="db.t")
        health = await call("table_health", table="db.t")
        rows = await call("query", sql="select name, count(*) n from db.t group by name order by name", limit=2)
        return tables, described, health, rows

    tables, described, health, rows = ask(tmp_path, work)
    assert tables["databases"]["db"] == ["t"]
    assert {"col_name": "id", "data_type": "bigint"}.items() <= described["rows"][0].items()
    assert health["table"] == "db.t" and health["score"] > 0 and health["findings"] == []
    assert rows == {
        "columns": {"name": "string", "n": "int64"},
        "rows": [{"name": None, "n": 1}, {"name": "milk", "n": 1}],
        "has_more": True,
    }


def test_changes_go_on_after_the_position_of_the_answer_before(lake: Lake, tmp_path: Path) -> None:
    async def work(call: Call) -> None:
        first = await call("changes_since", table="db.t")
        assert sorted(row["id"] for row in first["rows"]) == [1, 2, 3]
        lake.table("db.t").write(pa.table({"id": [4], "name": ["oil"]}))
        more = await call("changes_since", table="db.t", position=first["position"])
        assert [(row["id"], row["_row_kind"]) for row in more["rows"]] == [(4, "+I")]
        assert (await call("changes_since", table="db.t", position=more["position"]))["rows"] == []

    ask(tmp_path, work)


@pytest.mark.parametrize(
    ("tool", "arguments", "words"),
    [
        ("query", {"sql": "delete from db.t"}, "NotAllowed: DELETE FROM changes more"),
        ("query", {"sql": "drop table db.t"}, "NotAllowed"),
        ("query", {"sql": "insert into db.t values (9, 'x')"}, "NotAllowed"),
        ("query", {"sql": "select 1; select 2"}, "InvalidRequest: the text has 2 statements"),
        ("query", {"sql": "select 1", "limit": 1_001}, "limit = 1001: give 1 to 1,000"),
        ("query", {"sql": "select 1", "limit": 0}, "limit = 0"),
        ("query", {"sql": "select * from read_csv('/etc/passwd')"}, "read_csv"),
        ("query", {"sql": "select nme from db.t"}, "nme"),
        ("query", {"sql": "select * from db.t /*+ OPTIONS('scan.snapshot-id'='99') */"}, "99"),
        ("describe_table", {"table": "db.nothing"}, "NotFound"),
        ("describe_table", {"table": "db.t; drop table db.t"}, ""),
        ("changes_since", {"table": "db.t", "position": "/etc/passwd"}, "InvalidRequest: position"),
        ("changes_since", {"table": "db.t", "position": '{"log":"other","offsets":{}}'}, ""),
        ("table_health", {"table": "../db.t"}, ""),
        ("list_tables", {"database": "../.."}, ""),
    ],
)
def test_what_an_assistant_may_not_do_is_an_error_in_words(
    lake: Lake, tmp_path: Path, tool: str, arguments: dict[str, Any], words: str
) -> None:
    text = ask(tmp_path, lambda call: call(tool, **arguments))
    assert isinstance(text, str) and words in text and "Traceback" not in text and ".py" not in text, text
    assert lake.table("db.t").count() == 3


def test_an_answer_has_a_size(lake: Lake, tmp_path: Path) -> None:
    lake.table("db.t").write(pa.table({"id": [7, 8], "name": ["x" * 300_000, "y"]}))
    answer = ask(tmp_path, lambda call: call("query", sql="select name from db.t where id >= 7 order by id"))
    assert answer["rows"] == [] and answer["has_more"]


def test_the_command_speaks_over_standard_input_and_output(lake: Lake, tmp_path: Path) -> None:
    parameters = StdioServerParameters(
        command=sys.executable, args=["-m", "lakelog", "mcp", "--warehouse", str(tmp_path)]
    )

    async def run() -> Any:
        async with Client(stdio_client(parameters)) as client:
            tools = await client.list_tools()
            answer = await client.call_tool("query", {"sql": "select count(*) n from db.t"})
            return [tool.name for tool in tools.tools], answer.structured_content

    names, answer = asyncio.run(run())
    assert names == ["list_tables", "describe_table", "table_health", "query", "changes_since"]
    assert answer["rows"] == [{"n": 3}]


def test_a_system_table_has_its_own_columns(lake: Lake, tmp_path: Path) -> None:
    async def work(call: Call) -> Any:
        return await call("describe_table", table="db.t$tags")

    rows = ask(tmp_path, work)["rows"]
    assert [row["col_name"] for row in rows[:2]] == ["tag_name", "snapshot_id"]
    assert {"col_name": "name", "data_type": "db.t$tags", "comment": ""} in rows


def test_a_value_that_only_spark_computes_is_refused_in_words(lake: Lake, tmp_path: Path) -> None:
    async def work(call: Call) -> Any:
        return await call("query", sql="select cast('x' as int) from db.t")

    assert "UnsupportedFeature: a text as a number needs Spark" in ask(tmp_path, work)
