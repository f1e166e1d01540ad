"""Previews and streams have limits: neither a bomb, nor a wide table, nor many streams slow the pages of others."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dashboards import PASSWORD, RunningDashboard, csrf_of, running_dashboard
from lakelog import connect
from lakelog.errors import LakelogError, Unavailable
from lakelog.fileformat.avro_container import parse_container
from lakelog.logstore.base import Records
from lakelog.logstore.clients import appender_for
from lakelog.logstore.protocol.header import UNOWNED_HEADER
from lakelog.service.dashboard.live.terminals import Terminals
from lakelog.service.dashboard.previews.grid import Grid, RecordsRequest, RowsRequest
from lakelog.service.dashboard.previews.previews import Previews
from lakelog.service.dashboard.previews.reads import LISTED_TABLES
from lakelog.service.dashboard.routes.tables import Kind
from lakelog.service.terminal.execution import Execution
from lakelog.service.terminal.protocol.config import Limits
from lakelog.table.system import SYSTEM_TABLES

WIDE = 5_000
LOG = "'log-store.enabled' = 'true'"
_MB = 1_000_000


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of some kB that is 2 GB in memory, 5,000 columns, and a log."""
    place = tmp_path_factory.mktemp("previews")
    with connect(warehouse=str(place)) as lake:
        lake.sql("create table d.bomb (id bigint, text string)")
        lake.table("d.bomb").write(pa.table({"id": range(40), "text": [str(number) * 200 for number in range(40)]}))
        _make_bomb(next(place.glob("d.db/bomb/bucket-0/*.parquet")))
        lake.sql("create table d.avro (id bigint, text string) tblproperties ('file.format' = 'avro')")
        lake.table("d.avro").write(pa.table({"id": range(40), "text": ["text"] * 40}))
        _make_avro_bomb(next(place.glob("d.db/avro/bucket-0/*.avro")))
        lake.sql(f"create table d.wide ({', '.join(f'column_{n} int' for n in range(WIDE))})")
        for name, form in (("log", "arrow"), ("json", "debezium-json")):
            lake.sql(
                f"create table d.{name} (id bigint, name string, primary key (id)) "
                f"tblproperties ({LOG}, 'log-store.data-format' = '{form}')"
            )
            for start in (0, 10):
                lake.table(f"d.{name}").write(pa.table({"id": range(start, start + 10), "name": [f"n{start}"] * 10}))
    return place


@pytest.fixture(scope="module")
def dashboard(warehouse: Path, users_file: Path) -> Iterator[RunningDashboard]:
    with running_dashboard(warehouse) as found:
        yield found


def _make_bomb(file: Path) -> None:
    """Replaces a file of 40 rows by one with as many texts of 50 MB each, all of them one entry of a dictionary."""
    texts = pa.DictionaryArray.from_arrays(pa.array([0] * 40, pa.int32()), pa.array(["a" * 50 * _MB]))
    size = file.stat().st_size
    pq.write_table(pa.table({"id": range(40), "text": texts}), file, compression="zstd", store_schema=False)
    assert file.stat().st_size <= size + 100_000


def _make_avro_bomb(file: Path) -> None:
    """Replaces a file by one whose two blocks have 25 million records of NULLs each, 50 MB, which are GB as objects."""
    container = parse_container(file.read_bytes())
    file.write_bytes(replace(container, blocks=((25_000_000, bytes(50 * _MB)),) * 2).to_bytes("zstandard"))
    assert file.stat().st_size < 100_000


@pytest.mark.slow
def test_an_avro_block_of_millions_of_records_takes_little_memory(dashboard: RunningDashboard) -> None:
    peaks, is_over = dict[int, int](), threading.Event()
    older = set(psutil.Process().children(recursive=True))  # Spark, for example, which another test has started

    def watch() -> None:
        while not is_over.wait(0.02):
            for child in set(psutil.Process().children(recursive=True)) - older:
                # The last reading counts: before it starts its program, a child has the peak of its parent.
                with suppress(OSError, StopIteration):
                    lines = Path(f"/proc/{child.pid}/status").read_text().splitlines()
                    peaks[child.pid] = int(next(line.split()[1] for line in lines if line.startswith("VmHWM"))) * 1024

    with dashboard.client() as client, ThreadPoolExecutor(1) as other:
        watching = other.submit(watch)
        answer = client.get("/api/v1/tables/d.avro/rows")
        is_over.set()
        watching.result()
    assert answer.status_code == 200, answer.text
    assert answer.json()["rows"][0] == [None, None]
    assert 0 < max(peaks.values()) < 1_000 * _MB, f"{max(peaks.values()) / _MB:.0f} MB"


@pytest.mark.slow
def test_a_bomb_takes_neither_the_memory_nor_the_time_of_the_server(dashboard: RunningDashboard) -> None:
    before, seconds = psutil.Process().memory_info().rss, list[float]()
    is_over = threading.Event()

    def ask() -> None:
        with dashboard.client() as client:
            while not is_over.wait(0.02):
                began = time.monotonic()
                client.get("/api/v1/catalogs")
                seconds.append(time.monotonic() - began)

    with dashboard.client() as client, ThreadPoolExecutor(1) as other:
        asking = other.submit(ask)
        answers = [client.get("/api/v1/tables/d.bomb/rows") for _ in range(3)]
        page = client.get("/tables/d.bomb/rows", headers={"accept": "text/html"})
        is_over.set()
        asking.result()
    assert {answer.status_code for answer in answers} == {503}
    assert answers[0].json()["error"].startswith("this preview ")  # of its memory, or on a busy machine of its time
    assert page.status_code == 200  # the page is there, and says so where the rows would be
    assert "this preview " in page.text
    assert psutil.Process().memory_info().rss - before < 100 * _MB
    assert max(seconds) < 60, "the server answers others meanwhile"


def test_a_wide_table_is_shown_page_by_page(dashboard: RunningDashboard) -> None:
    with dashboard.client(accept="text/html") as client:
        for tab in ("columns", "rows"):
            page = client.get(f"/tables/d.wide/{tab}?first_column=300")
            assert len(page.content) < 200_000
            assert "column_300" in page.text
            assert "column_400" not in page.text
            assert "Columns 301 to 400 of 5,000" in page.text
        found = client.get("/api/v1/tables/d.wide").json()
        assert (len(found["columns"]), found["column_count"]) == (1_000, WIDE)


@pytest.mark.parametrize("kind", LISTED_TABLES)
def test_every_system_table_is_shown(dashboard: RunningDashboard, kind: str) -> None:
    with dashboard.client(accept="text/html") as client:
        page = client.get(f"/tables/d.log/files?kind={kind}")
        assert "this preview" not in page.text
        found = client.get(f"/api/v1/tables/d.log/system/{kind}").json()
    for at, column in enumerate(found["columns"]):
        has_values = not found["rows"] or any(row[at] not in (None, "", "{}") for row in found["rows"])
        assert (f">{column.replace('_', ' ')}</th>" in page.text) == has_values
    rows_of = {"files": 2, "partitions": 1, "buckets": 1, "schemas": 1}
    assert len(found["rows"]) >= rows_of.get(kind, 0)


def test_an_internal_error_of_a_preview_is_reported_as_such(warehouse: Path) -> None:
    previews = Previews({"warehouse": str(warehouse)})
    with pytest.raises(LakelogError, match="failed inside the dashboard: TypeError"):
        asyncio.run(previews.grid(RowsRequest("d.log", "ten")))  # type: ignore[arg-type]
    previews.close()


def test_a_preview_has_a_time_limit(warehouse: Path) -> None:
    previews = Previews({"warehouse": str(warehouse)}, time_s=0.01)
    with pytest.raises(Unavailable, match="was not read within"):
        asyncio.run(previews.grid(RowsRequest("d.log", 10)))
    previews.close()


@pytest.mark.slow
def test_slow_previews_of_one_user_do_not_keep_others_waiting(warehouse: Path) -> None:
    async def program() -> None:
        previews = Previews({"warehouse": str(warehouse)})
        await previews.grid(RowsRequest("d.log", 5))
        slow = [asyncio.create_task(previews.grid(RowsRequest("d.bomb", 40), "mallory")) for _ in range(4)]
        await asyncio.sleep(0)
        assert len((await previews.grid(RowsRequest("d.log", 5), "ada")).rows) == 5
        assert sum(not one.done() for one in slow) >= 2
        assert {type(one) for one in await asyncio.gather(*slow, return_exceptions=True)} == {Unavailable}
        previews.close()

    asyncio.run(program())


def test_the_overview_starts_the_processes_of_previews(
    dashboard: RunningDashboard, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[bool] = []
    monkeypatch.setattr(Previews, "warm", lambda _: started.append(True))
    with dashboard.client() as client:
        assert client.get("/", headers={"accept": "text/html"}).status_code == 200
    assert started, "the first Files or Rows page waits for the start"


@pytest.mark.slow
def test_previews_go_on_when_their_process_was_killed(warehouse: Path) -> None:
    async def program() -> None:
        previews = Previews({"warehouse": str(warehouse)})
        for _ in range(2):
            assert len((await previews.grid(RowsRequest("d.log", 5))).rows) == 5
            assert previews._readers._process is not None
            previews._readers._process.kill()
            previews._readers._process.wait()
        previews.close()

    asyncio.run(program())


FORMATS = pytest.mark.parametrize("table", ["d.log", "d.json"])


def previewed(warehouse: Path, *requests: RecordsRequest) -> list[list[dict[str, Any]]]:
    """The lines of some requests."""

    async def program() -> list[Grid]:
        return [await previews.grid(request) for request in requests]

    previews = Previews({"warehouse": str(warehouse)})
    grids = asyncio.run(program())
    previews.close()
    return [[dict(zip(grid.columns, row, strict=True)) for row in grid.rows] for grid in grids]


@FORMATS
def test_records_of_a_log_are_found_by_place_time_and_text(warehouse: Path, table: str) -> None:
    whole, none, one = previewed(
        warehouse,
        RecordsRequest(table, 0, 100),
        RecordsRequest(table, 0, 100, time_ms=2**42),
        RecordsRequest(table, 0, 100, text='"id":13'),
    )
    data = [line for line in whole if line["kind"] == "data"]
    assert [line["key"] for line in data] == [f'{{"id":{number}}}' for number in range(20)]
    assert data[13]["value"] == '{"before":null,"after":{"id":13,"name":"n10"},"op":"c"}'
    assert (none, one) == ([], [data[13]])
    assert all(line["writer"] and line["bytes"] > 0 for line in whole)
    assert len({line["offset"] for line in data}) == (2 if table == "d.log" else 20)
    if table == "d.log":
        assert [line["position"] for line in data] == [*range(10), *range(10)]
    from_there, last = previewed(
        warehouse,
        RecordsRequest(table, 0, 5, offset=data[13]["offset"], position=data[13].get("position", 0)),
        RecordsRequest(table, 0, 3),
    )
    assert from_there == whole[whole.index(data[13]) :][:5]
    assert last == whole[-3:]


def test_the_next_page_of_records_goes_on_within_a_record(dashboard: RunningDashboard, warehouse: Path) -> None:
    with connect(warehouse=str(warehouse)) as lake:
        lake.sql(f"create table d.packed (id int, primary key (id)) tblproperties ({LOG})")
        lake.table("d.packed").write(pa.table({"id": pa.array(range(250), pa.int32())}))
    seen, path = list[str](), "/tables/d.packed/log?bucket=0&start=offset&at=0"
    with dashboard.client(accept="text/html") as client:
        deadline = time.monotonic() + 120
        while (page := client.get(path)).status_code == 404:
            assert time.monotonic() < deadline
        for _ in range(3):
            seen += re.findall(r"<td>{&#34;id&#34;:(\d+)}</td>", page.text)
            found = re.search(r'href="(\?[^"#]*)#records">Next', page.text)
            if found is None:
                break
            page = client.get("/tables/d.packed/log" + found[1].replace("&amp;", "&"))
    assert [int(number) for number in seen] == list(range(250))


def test_updates_corrections_and_unreadable_records_of_a_packed_log(tmp_path: Path) -> None:
    with connect(warehouse=str(tmp_path)) as lake:
        lake.sql(
            f"create table d.all (id bigint, primary key (id)) tblproperties ({LOG}, 'log.changelog-mode' = 'all')"
        )
        table = lake.table("d.all")
        with table.writer() as writer:
            changes = {"id": [1, 2, 2, 1], "_row_kind": ["+I", "-U", "+U", "-D"]}
            writer.write(pa.table(changes, schema=pa.schema([("id", pa.int64()), ("_row_kind", pa.string())])))
        writer = table.writer()
        writer.write(pa.table({"id": [7]}))
        writer.flush()
        writer.abort()
        assert table.logical.log is not None
        appender = appender_for(table.logical.log)
        foreign = [pa.array([text], pa.large_binary()) for text in (b'{"id":9}', b"\xffgarbage")]
        appender.append(0, Records(foreign[0], foreign[1], UNOWNED_HEADER))
        appender.flush()
    lines, nine = previewed(tmp_path, RecordsRequest("d.all", 0, 100), RecordsRequest("d.all", 0, 100, text="9"))
    shown = [(line["kind"], line["value"]) for line in lines if line["value"]]
    assert shown == [
        ("data", '{"before":null,"after":{"id":1},"op":"c"}'),
        ("data", '{"before":{"id":2},"after":{"id":2},"op":"u"}'),
        ("data", '{"before":{"id":1},"after":null,"op":"d"}'),
        ("data", '{"before":null,"after":{"id":7},"op":"c"}'),
        ("correction", '{"before":{"id":7},"after":null,"op":"d"}'),
        ("data", "0x" + b"\xffgarbage".hex()),
    ]
    assert nine == lines[-1:]


class RunningText:
    """A terminal with one text that runs until the test ends."""

    def __init__(self) -> None:
        self.text = Execution(1, "select 1", None, None, Limits(), lambda _: None, lambda *_: None)

    def execution(self, number: int) -> Execution:
        return self.text


@pytest.mark.slow
def test_sixty_streams_do_not_slow_pages(tmp_path: Path, users_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running = RunningText()
    monkeypatch.setattr(Terminals, "need", lambda *_: running)
    with running_dashboard(tmp_path, users_file=users_file) as dashboard, ExitStack() as cleanup:
        sessions = [cleanup.enter_context(dashboard.log_in("rita", PASSWORD)) for _ in range(4)]
        streams = [
            cleanup.enter_context(sessions[n % 4].stream("GET", "/api/v1/terminal/texts/1/events")) for n in range(60)
        ]
        lines = [stream.iter_lines() for stream in streams]
        assert {next(line) for line in lines} == {": connected"}
        for _ in range(5):
            assert sessions[0].get("/api/v1/catalogs").status_code == 200

        running.text.begin()
        assert all("started" in next(text for text in line if text.startswith("data")) for line in lines)
        more = [sessions[0].stream("GET", "/api/v1/terminal/texts/1/events") for _ in range(2)]
        assert [cleanup.enter_context(one).status_code for one in more] == [200, 400]  # sixteen a session

        # a session that ends takes its streams along
        sessions[0].post("/logout", headers={"x-csrf-token": csrf_of(sessions[0].get("/"))})
        assert list(lines[0])[-1] == ""


def test_pages_list_system_tables_that_exist_and_their_address_takes_each() -> None:
    assert get_args(Kind) == tuple(LISTED_TABLES)
    assert set(LISTED_TABLES) <= set(SYSTEM_TABLES)
