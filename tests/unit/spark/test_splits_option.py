from __future__ import annotations

import base64
import os
import pickle
import zlib
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import lakelog
from lakelog.errors import InvalidRequest
from lakelog.filestore.read.deletion_vectors import DeletionVectorRef
from lakelog.filestore.read.plan import Split
from lakelog.paimon.metadata.data_file import DataFileMeta, SimpleStats
from lakelog.spark.read.batch_reader import splits_of, splits_text


class _Command:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.path),)


def _text(value: object) -> str:
    return base64.b85encode(zlib.compress(pickle.dumps(value))).decode()


def test_a_pickle_in_the_option_runs_no_code(tmp_path: Path) -> None:
    made = tmp_path / "made"
    with pytest.raises(InvalidRequest, match="'splits' is not a plan of lakelog .*mkdir"):
        splits_of(_text((_Command(made),)))
    assert not made.exists()


@pytest.mark.parametrize("text", ["", "no plan", "\N{SNOWMAN}", base64.b85encode(zlib.compress(b"x")).decode()])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match="remove the option"):
        splits_of(text)


def test_splits_with_all_parts_come_back() -> None:
    stats = SimpleStats(b"a", b"b", (0, None))
    file = DataFileMeta("f", 1, 2, key_stats=stats, value_stats=stats, value_stats_cols=("n",))
    splits = (Split(b"p", 0, 1, (file,), True, 3, (b"run",), (DeletionVectorRef("v", 0, 1, 1),)),)
    assert splits_of(splits_text(splits)) == splits


def test_the_plan_of_a_table_comes_back(tmp_path: Path) -> None:
    with lakelog.connect(tmp_path) as lake:
        lake.write(pa.table({"n": [1, 2], "t": ["a", None]}), "t", create=True)
        splits = tuple(lake.table("t").scan().plan())
        assert splits and splits[0].files
        assert splits_of(splits_text(splits)) == splits
