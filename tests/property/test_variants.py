"""Random JSON goes through the log and files of a table as VARIANT, and is the same JSON afterwards."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lakelog
from depth import DEPTH
from json_texts import JSON_TEXTS, meaning
from lakelog.paimon.types.variant import json_texts

BATCHES = st.lists(
    st.lists(st.tuples(st.integers(0, 5), st.none() | JSON_TEXTS), min_size=1, max_size=6), min_size=1, max_size=3
)


@settings(max_examples=DEPTH.cases(50))
@given(batches=BATCHES)
@pytest.mark.parametrize("form", ["arrow", "debezium-json"])
def test_the_newest_json_of_a_key_comes_back(form: str, batches: list[list[tuple[int, str | None]]]) -> None:
    with tempfile.TemporaryDirectory() as place:
        lake = lakelog.connect(warehouse=str(Path(place) / "warehouse"))
        lake.sql(
            "create table t (id int, v variant, primary key (id)) with ('bucket' = '1', 'log-store.enabled' = 'true', "
            f"'log-store.data-format' = '{form}')"
        )
        table = lake.table("t")
        for batch in batches:
            ids, texts = zip(*batch, strict=True)
            table.write(pa.table({"id": pa.array(ids, pa.int32()), "v": lakelog.variant.from_json(texts)}))
        written = [row for batch in batches for row in batch]
        newest = {key: text and meaning(text) for key, text in written}
        tailed = pa.Table.from_batches(table.tail("earliest", stop="latest"))
        assert found(tailed) == [(key, text and meaning(text)) for key, text in written]
        table.seal()
        assert dict(found(table.scan(options={"read.mode": "file"}).to_arrow())) == newest
        table.compact()
        assert dict(found(table.scan().to_arrow())) == newest


def found(rows: pa.Table) -> list[tuple[int, object]]:
    texts = json_texts(rows.column("v").combine_chunks(), exact=True).to_pylist()
    return [(key, text and meaning(text)) for key, text in zip(rows.column("id").to_pylist(), texts, strict=True)]
