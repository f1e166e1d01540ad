"""A directory with more objects than one answer of the store holds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from lakelog.io import file_io_for
from servers.s3_server import S3Server

pytestmark = pytest.mark.s3
COUNT = 1100


def test_it_is_listed_whole_and_deleted_whole(s3_server: S3Server) -> None:
    root = f"s3://{s3_server.new_bucket()}/t"
    io = file_io_for(root, s3_server.options)
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: io.write(f"{root}/many/{n:04}", b"1"), range(COUNT)))
    io.write(f"{root}/other", b"1")
    assert [s.name for s in io.list(f"{root}/many")] == [f"{n:04}" for n in range(COUNT)]
    io.delete_dir(f"{root}/many")
    assert [s.name for s in io.list(root)] == ["other"]
