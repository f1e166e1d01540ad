"""Files of a job: the driver finds those that died with their attempt, and no others."""

from __future__ import annotations

import re
from pathlib import Path

import pyarrow as pa
import pytest

from lakelog import connect
from lakelog.errors import Unavailable
from lakelog.io.names import new_uuid
from lakelog.io.storage.local import LocalFileIO
from lakelog.table.commit.append import commit_append
from lakelog.table.model.attempt import AttemptResult
from lakelog.table.staging.job_files import JobFiles
from lakelog.table.staging.task_writer import TaskWriter


@pytest.fixture(params=["", "partitioned by (part)"])
def table(tmp_path, request):
    with connect(warehouse=str(tmp_path / "warehouse")) as lake:
        lake.sql(
            f"create table db.t (part int, id int, name string, primary key (part, id)) using lakelog {request.param} "
            "tblproperties ('bucket' = '2', 'changelog-producer' = 'input', 'write-only' = 'true')"
        )
        yield lake.table("db.t")


def attempt(table, job: JobFiles, lane: int = 0) -> AttemptResult:
    task = TaskWriter(table.logical, job.job, 0, lane, job=job)
    ids = pa.array(range(20_000), pa.int32())
    name = ["long enough for files: small runs travel inline".ljust(200, ".")] * len(ids)
    task.write(pa.record_batch({"part": pa.array([n % 2 for n in range(20_000)], pa.int32()), "id": ids, "name": name}))
    return task.finish()


def files(table) -> set[Path]:
    return {path for path in Path(table.logical.path).rglob("bucket-*/*") if path.is_file()}


def names_of(*results: AttemptResult) -> set[str]:
    return {f.file_name for result in results for run in result.runs for f in (*run.files, *run.changelog)}


def test_files_of_other_attempts_are_deleted_and_all_others_stay(table) -> None:
    job, other = JobFiles(new_uuid()), JobFiles(new_uuid())
    lost, accepted, beside = attempt(table, job), attempt(table, job), attempt(table, other)
    half = next(iter(files(table))).with_name(f".data-{job.new_names().uuid}-0.parquet.tmp")
    half.write_bytes(b"cut off")
    extra = next(iter(files(table))).with_name(f"{min(names_of(accepted))}.index")
    extra.write_bytes(b"of a file that counts")
    assert len(names_of(lost)) == len(names_of(accepted)) > 2
    commit_append(table.logical, job.job, [accepted])
    job.remove_uncommitted(table.logical, [accepted])
    assert {path.name for path in files(table)} == {*names_of(accepted, beside), extra.name}
    assert table.scan().to_arrow().num_rows == 20_000


def test_of_a_job_that_failed_nothing_stays(table) -> None:
    job, other = JobFiles(new_uuid()), JobFiles(new_uuid())
    attempt(table, job), attempt(table, job, lane=1)
    beside = attempt(table, other)
    job.remove_all(table.logical)
    assert {path.name for path in files(table)} == names_of(beside)
    assert re.fullmatch(r"data-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}-\d+\.parquet", max(names_of(beside)))


def test_a_storage_that_is_away_leaves_the_files_and_fails_nothing(table, monkeypatch, caplog) -> None:
    job = JobFiles(new_uuid())
    result = attempt(table, job)

    def away(*given: object) -> None:
        raise Unavailable("the storage is away")

    monkeypatch.setattr(LocalFileIO, "list", away)
    job.remove_all(table.logical)
    job.remove_uncommitted(table.logical, [result])
    assert "the storage is away" in caplog.text
    monkeypatch.undo()
    assert {path.name for path in files(table)} == names_of(result)
