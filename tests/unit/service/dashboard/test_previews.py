"""Previews and streams have limits: neither a bomb, nor a wide table, nor many streams slow the pages of others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path

import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dashboards import PASSWORD, RunningDashboard, csrf_of, running_dashboard
from lakelog import connect
from lakelog.errors import LakelogError, Unavailable
from lakelog.fileformat.avro_container import parse_container
from lakelog.service.dashboard.live.terminals import Terminals
from lakelog.service.dashboard.previews.grid import RecordsRequest, RowsRequest
from lakelog.service.dashboard.previews.previews import Previews
from lakelog.service.dashboard.previews.reads import SYSTEM_TABLES
from lakelog.service.terminal.execution import Execution
from lakelog.service.terminal.protocol.config import Limits

WIDE = 5_000
_MB = 1_000_000


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file of some kB that is 2 GB in memory, 5,000 columns, and a log."""
    place = tmp_path_factory.mktemp("previews")
    with connect(warehouse=str(place)) as lake:
        lake.sql("create database d")
        lake.sql("create table d.bomb (id bigint, text string)")
        with lake.table("d.bomb").writer() as writer:
            writer.write(pa.table({"id": range(40), "text": [str(number) * 200 for number in range(40)]}))
        _make_bomb(next(place.glob("d.db/bomb/bucket-0/*.parquet")))
        lake.sql("create table d.avro (id bigint, text string) tblproperties ('file.format' = 'avro')")
        with lake.table("d.avro").writer() as writer:
            writer.write(pa.table({"id": range(40), "text": ["text"] * 40}))
        _make_avro_bomb(next(place.glob("d.db/avro/bucket-0/*.avro")))
        lake.sql(f"create table d.wide ({', '.join(f'column_{n} int' for n in range(WIDE))})")
        lake.sql(
            "create table d.log (id bigint, name string, primary key (id)) tblproperties ('log-store.enabled' = 'true')"
        )
        for start in (0, 10):
            with lake.table("d.log").writer() as writer:
                writer.write(pa.table({"id": range(start, start + 10), "name": [f"n{start}"] * 10}))
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
    """Replaces a file by one whose only block has 50 million records of NULLs, 100 MB, which are GB as objects."""
    container = parse_container(file.read_bytes())
    file.write_bytes(replace(container, blocks=((50_000_000, bytes(100 * _MB)),)).to_bytes("zstandard"))
    assert file.stat().st_size < 100_000


@pytest.mark.slow
def test_an_avro_block_of_millions_of_records_takes_little_memory(dashboard: RunningDashboard) -> None:
    most, is_over = [0], threading.Event()

    def watch() -> None:
        while not is_over.wait(0.02):
            for child in psutil.Process().children(recursive=True):
                with suppress(psutil.Error):
                    most.append(child.memory_info().rss)

    with dashboard.client() as client, ThreadPoolExecutor(1) as other:
        watching = other.submit(watch)
        answer = client.get("/api/v1/tables/d.avro/rows")
        is_over.set()
        watching.result()
    assert answer.status_code == 503, answer.text
    assert answer.json()["error"].startswith("this preview ")
    assert max(most) < 1_000 * _MB, f"{max(most) / _MB:.0f} MB"


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
    assert max(seconds) < 5


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


@pytest.mark.parametrize("kind", SYSTEM_TABLES)
def test_every_system_table_is_shown(dashboard: RunningDashboard, kind: str) -> None:
    with dashboard.client(accept="text/html") as client:
        page = client.get(f"/tables/d.log/files?kind={kind}")
        assert "this preview" not in page.text
        found = client.get(f"/api/v1/tables/d.log/system/{kind}").json()
    for column in found["columns"]:
        assert f">{column}<" in page.text
    rows_of = {"files": 2, "partitions": 1, "buckets": 1, "schemas": 1}
    assert len(found["rows"]) >= rows_of.get(kind, 0)


def test_an_internal_error_of_a_preview_is_reported_as_such(warehouse: Path) -> None:
    previews = Previews({"warehouse": str(warehouse)})
    with pytest.raises(LakelogError, match="failed inside the dashboard: TypeError"):
        asyncio.run(previews.grid(RowsRequest(7, 10)))  # type: ignore[arg-type]
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


@pytest.mark.parametrize(
    ("asked", "keys"),
    [
        (RecordsRequest("d.log", 0, 100), 20),
        (RecordsRequest("d.log", 0, 100, time_ms=2**42), 0),
        (RecordsRequest("d.log", 0, 100, key='"id":13'), 1),
    ],
)
def test_records_of_a_log_are_found_by_place_time_and_key(warehouse: Path, asked: RecordsRequest, keys: int) -> None:
    previews = Previews({"warehouse": str(warehouse)})
    found = asyncio.run(previews.grid(asked))
    previews.close()
    records = [dict(zip(found.columns, row, strict=True)) for row in found.rows]
    assert sum(record["kind"] == "data" for record in records) == keys, records
    assert all(record["writer"] for record in records)


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
        began = time.monotonic()
        for _ in range(5):
            assert sessions[0].get("/api/v1/catalogs").status_code == 200
        assert time.monotonic() - began < 5

        running.text.begin()
        assert all("started" in next(text for text in line if text.startswith("data")) for line in lines)
        more = [sessions[0].stream("GET", "/api/v1/terminal/texts/1/events") for _ in range(2)]
        assert [cleanup.enter_context(one).status_code for one in more] == [200, 400]  # sixteen a session

        # a session that ends takes its streams along
        sessions[0].post("/logout", headers={"x-csrf-token": csrf_of(sessions[0].get("/"))})
        assert list(lines[0])[-1] == ""
