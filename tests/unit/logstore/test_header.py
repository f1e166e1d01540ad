from __future__ import annotations

import orjson
import pyarrow as pa
import pytest

from lakelog.errors import Corrupt
from lakelog.logstore.protocol.control_records import abort_record, begin_record, commit_record
from lakelog.logstore.protocol.header import (
    ABORT,
    BEGIN,
    COMMIT,
    CORRECTION,
    DATA,
    FOREIGN,
    UNOWNED_HEADER,
    Header,
    are_of_attempts,
    are_unowned,
    as_foreign,
    decode_header,
    encode_header,
    foreign_records,
    of_kinds,
    parse_kinds,
    schema_ids,
)

WRITER = "0b5c7a1e-4c1c-4b0e-9d57-5a3a64b1d3f0"


def test_the_layout_never_changes() -> None:
    assert encode_header(DATA, "w", 7, "00ff") == b"1|d|w|7|00ff"
    assert encode_header(CORRECTION, "w", 7, "00ff", 42, -1) == b"1|x|w|7|00ff|42|-1"
    assert encode_header(CORRECTION, "w", 7, "00ff", 0, 0) == b"1|x|w|7|00ff|0|0"
    assert encode_header(DATA, "w", 7, "00ff", schema=3) == b"2|d|w|7|00ff|||3"
    assert encode_header(CORRECTION, "w", 7, "00ff", 42, -1, schema=3) == b"2|x|w|7|00ff|42|-1|3"
    assert begin_record("w", 7, "00ff").headers == b"1|b|w|7|00ff"
    assert commit_record("w", 7, ["a", "b"], 42).headers == b'1|c|w|7||||{"accepted":["a","b"],"first":42}'
    assert abort_record("w", 7).headers == b"1|a|w|7|"


@pytest.mark.parametrize(
    "header",
    [
        Header(DATA, WRITER, 0, "0123456789abcdef"),
        Header(DATA, WRITER, 2**62, "0123456789abcdef"),
        Header(CORRECTION, WRITER, 3, "0123456789abcdef", 2**62, 1),
        Header(CORRECTION, WRITER, 3, "0123456789abcdef", 0, -1),
        Header(CORRECTION, WRITER, 3, "0123456789abcdef", 0, 0),
        Header(DATA, WRITER, 3, "0123456789abcdef", schema=7),
        Header(CORRECTION, WRITER, 3, "0123456789abcdef", 5, -1, schema=12),
        Header(BEGIN, WRITER, 3, "0123456789abcdef"),
        Header(ABORT, WRITER, 3, ""),
    ],
)
def test_what_is_encoded_is_decoded(header: Header) -> None:
    is_correction = header.kind == CORRECTION
    reference = (header.ref, header.sign) if is_correction else (None, None)
    data = encode_header(header.kind, header.writer, header.epoch, header.attempt, *reference, schema=header.schema)
    assert decode_header(data, 0) == header


def test_the_extra_part_of_a_commit_may_hold_anything() -> None:
    data = encode_header(COMMIT, "w", 1, "", extra='{"note":"a|b"}')
    assert decode_header(data, 0).extra == '{"note":"a|b"}'
    extra = decode_header(bytes(commit_record("w", 1, ["a"], 5).headers), 0).extra
    assert orjson.loads(extra) == {"accepted": ["a"], "first": 5}


def test_control_records_have_neither_key_nor_value() -> None:
    for record in (begin_record("w", 1, "a"), commit_record("w", 1, ["a"], 0), abort_record("w", 1)):
        assert len(record) == 1
        assert record.keys.to_pylist() == record.values.to_pylist() == [None]


def test_kinds_of_many_headers_are_read_at_once() -> None:
    headers = pa.chunked_array([[b"1|d|w|0|a"] * 3, [b"1|x|w|0|a|0|-1", b"1|b|w|0|a"]], pa.binary())
    assert parse_kinds(headers).to_pylist() == ["d", "d", "d", "x", "b"]
    assert parse_kinds(pa.array([], pa.binary())).to_pylist() == []


@pytest.mark.parametrize("strange", [b"3|d|w|0|a", b"10|d|w|0|a"])
def test_a_header_of_another_version_is_an_error_that_says_so(strange: bytes) -> None:
    headers = pa.chunked_array([[b"1|d|w|0|a", strange]], pa.binary())
    with pytest.raises(Corrupt, match=r"offset 17 .*version"):
        decode_header(strange, 17)
    with pytest.raises(Corrupt, match="version"):
        parse_kinds(headers)
    with pytest.raises(Corrupt, match=r"offset 17 .*version"):
        foreign_records(pa.table({"offset": [16, 17], "header": headers}))


NONE = [b"", b"hello", b"\xff\xfe", b"1|d|w|0", b"1|d|w|x|a", b"1|d|w|" + b"9" * 5_000 + b"|a", b"2|d|w|0|a"]
NONE += [b"2|d|w|0|a|||z", b"1|\xff|w|0|a", b"1|x|w|0|a|z|1", b"x" * 100_000]


@pytest.mark.parametrize("strange", NONE, ids=lambda strange: str(strange[:20]))
@pytest.mark.parametrize("copies", [1, 100])
def test_bytes_that_are_no_header_are_of_no_writer(strange: bytes, copies: int) -> None:
    headers = pa.chunked_array([[b"1|d|w|0|a", None, *[strange] * copies]], pa.binary())
    records = pa.table({"offset": range(len(headers)), "header": headers})
    places = foreign_records(records)
    assert places.tolist() == list(range(2, 2 + copies))
    known = as_foreign(records, places).column("header")
    assert decode_header(strange, 2).kind == decode_header(known[2].as_py(), 2).kind == FOREIGN
    assert parse_kinds(known).to_pylist() == ["d", "d", *[FOREIGN] * copies]


def test_a_record_without_a_header_or_a_writer_is_an_unowned_row() -> None:
    assert UNOWNED_HEADER == b"1|d||0|"
    headers = pa.chunked_array([[None, UNOWNED_HEADER, b"1|d|w|0|a"], [b"1|x|w|0|a|3|-1", b"1|b|w|0|a"]], pa.binary())
    assert parse_kinds(headers).to_pylist() == ["d", "d", "d", "x", "b"]
    assert are_unowned(headers).to_pylist() == [True, True, False, False, False]
    assert decode_header(None, 0) == decode_header(UNOWNED_HEADER, 0) == Header(DATA, "", 0, "")


def test_schema_ids_of_many_headers_are_read_at_once() -> None:
    plain, second = b"1|d|w|0|a", b"2|x|w|0|a|3|-1|12"
    named, unowned = b"2|d|w|0|b|||5", encode_header(DATA, "", 0, "", schema=5)
    headers = pa.chunked_array([[plain, named, named], [None, second, plain, unowned]], pa.binary())
    ids = schema_ids(headers)
    assert ids is not None
    assert ids.tolist() == [-1, 5, 5, -1, 12, -1, 5]
    assert schema_ids(pa.chunked_array([[None, plain], [plain]], pa.binary())) is None
    assert schema_ids(pa.array([], pa.binary())) is None
    assert are_unowned(headers).to_pylist() == [False, False, False, True, False, False, True]
    assert parse_kinds(headers).to_pylist() == ["d", "d", "d", "d", "x", "d", "d"]


def test_the_rows_of_an_attempt_are_found_whatever_schema_they_have() -> None:
    headers = pa.array([b"1|d|w|0|a", b"2|d|w|0|a|||5", b"2|d|w|1|a|||5", b"2|x|w|0|a|3|-1|5", None], pa.binary())
    assert are_of_attempts(headers, {("w", 0, "a")}).tolist() == [True, True, False, False, False]
    assert are_of_attempts(headers[:1], {("w", 0, "a")}).tolist() == [True]


@pytest.mark.parametrize("repeated", [1, 100])
@pytest.mark.parametrize("last", [None, b"1|", b"1|d|w|1|a", b"2|x|w|1|a|5|-1|3"])
def test_records_of_kinds_are_the_same_for_few_and_many(last: bytes | None, repeated: int) -> None:
    headers = [b"1|b|w|1|a", b"1|d|w|1|a", b"1|x|w|1|a|5|-1", b"1|c|w|1|", last] * repeated
    records = pa.table({"offset": pa.array(range(len(headers))), "header": pa.array(headers, pa.binary())})
    expected = [n for n, kind in enumerate(parse_kinds(records["header"]).to_pylist()) if kind in ("d", "x")]
    assert of_kinds(records, (DATA, CORRECTION))["offset"].to_pylist() == expected
    assert of_kinds(records.slice(0, 0), (DATA,)).num_rows == 0


@pytest.mark.parametrize("repeated", [1, 100])
def test_an_unknown_version_is_refused_whatever_the_kind(repeated: int) -> None:
    headers = pa.array([b"1|b|w|1|a"] * repeated + [b"3|d|w|1|a"], pa.binary())
    with pytest.raises(Corrupt, match="upgrade lakelog"):
        of_kinds(pa.table({"header": headers}), (COMMIT,))
