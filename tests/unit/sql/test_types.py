from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import UnsupportedStatement
from lakelog.paimon.types.types import ArrayType, AtomicType, DataField, DataType, MapType, MultisetType, RowType
from lakelog.sql.syntax.type_parser import Dialect, parse_type_text, type_text


@pytest.mark.parametrize(
    ("text", "spark", "flink"),
    [
        ("timestamp", "TIMESTAMP(6) WITH LOCAL TIME ZONE", "TIMESTAMP(6)"),
        ("timestamp(3)", "TIMESTAMP(3) WITH LOCAL TIME ZONE", "TIMESTAMP(3)"),
        ("timestamp_ntz", "TIMESTAMP(6)", "TIMESTAMP(6)"),
        ("timestamp_ltz(9)", "TIMESTAMP(9) WITH LOCAL TIME ZONE", "TIMESTAMP(9) WITH LOCAL TIME ZONE"),
        ("binary", "BYTES", "BINARY(1)"),
        ("time", "TIME(3)", "TIME(0)"),
        ("decimal", "DECIMAL(10, 0)", "DECIMAL(10, 0)"),
        ("string not null", "STRING NOT NULL", "STRING NOT NULL"),
    ],
)
def test_a_type_means_what_it_means_in_its_dialect(text: str, spark: str, flink: str) -> None:
    assert parse_type_text(text).to_json() == spark
    assert parse_type_text(text, Dialect.FLINK).to_json() == flink


def test_struct_and_row_are_one_type() -> None:
    fields = [DataField(0, "a", AtomicType("INT", False), "x"), DataField(1, "b", AtomicType("DATE"))]
    for text in (
        "struct<a: int not null comment 'x', b: date>",
        "ROW<a INT NOT NULL 'x', b DATE>",
        "row(`a` int not null 'x', b date)",
    ):
        assert parse_type_text(text) == RowType(tuple(fields))


NO_TYPES = (
    "array<int", "array", "map<int>", "varchar(0)", "decimal(5, 6)", "int int", "void", "timestamp with time zone", "",
)  # fmt: skip


@pytest.mark.parametrize("text", NO_TYPES)
def test_an_invalid_type_is_refused_with_its_position(text: str) -> None:
    with pytest.raises(UnsupportedStatement, match="line 1, column"):
        parse_type_text(text)


ATOMIC = st.one_of(
    st.sampled_from(["BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "FLOAT", "DOUBLE", "DATE", "VARIANT"]).map(
        AtomicType
    ),
    st.builds(
        AtomicType,
        st.sampled_from(["CHAR", "VARCHAR", "BINARY", "VARBINARY"]),
        length=st.sampled_from([1, 20, 2147483647]),
    ),
    st.builds(AtomicType, st.sampled_from(["TIME", "TIMESTAMP", "TIMESTAMP_LTZ"]), precision=st.integers(0, 9)),
    st.integers(1, 38).flatmap(
        lambda p: st.builds(AtomicType, st.just("DECIMAL"), precision=st.just(p), scale=st.integers(0, p))
    ),
)


def nested(inner: st.SearchStrategy[DataType]) -> st.SearchStrategy[DataType]:
    part = st.builds(lambda kind, nullable: kind.with_nullable(nullable), inner, st.booleans())
    names = st.lists(st.text(min_size=1), min_size=1, max_size=3, unique=True)
    comments = st.none() | st.text(st.characters(blacklist_characters="\r\0", blacklist_categories=("Cs",)), min_size=1)
    rows = names.flatmap(
        lambda given: st.tuples(
            *(st.builds(DataField, st.just(i), st.just(n), part, comments) for i, n in enumerate(given))
        ).map(RowType)
    )
    return st.one_of(st.builds(ArrayType, part), st.builds(MultisetType, part), st.builds(MapType, part, part), rows)


@given(st.recursive(ATOMIC, nested, max_leaves=5))
def test_the_text_of_a_type_reads_back_as_the_type(kind: DataType) -> None:
    assert parse_type_text(type_text(kind)) == kind
