"""Record batches by columns are what the plain reference (``record_batches``) reads and writes."""

from __future__ import annotations

import contextlib
import os
import struct
from dataclasses import replace
from unittest import mock

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakelog.errors import Corrupt, UnsupportedFeature
from lakelog.logstore.base import RECORDS_SCHEMA, Records
from lakelog.logstore.record_batch import decoder, encoder
from lakelog.logstore.record_batch.batch import RecordBatch, parse_batches
from lakelog.logstore.record_batch.compression import LZ4, NONE, SNAPPY, ZSTD, decompress
from lakelog.logstore.record_batch.decoder import decode
from lakelog.logstore.record_batch.encoder import encode
from record_batches import PlainRecord, crc32c, read_batch, write_batch

HEADER = b"1|d|0123456789abcdef|7|0123456789abcdef"
CODECS = [NONE, LZ4, ZSTD]

content = st.one_of(st.binary(max_size=20), st.integers(0, 70_000).map(lambda n: b"\x81" * n))
maybe = st.one_of(st.none(), content)


def records(keys: list[bytes | None], values: list[bytes | None], headers: bytes | list[bytes] = HEADER) -> Records:
    return Records(pa.array(keys, pa.large_binary()), pa.array(values, pa.large_binary()), headers)


def by_columns_from(few: int) -> contextlib.ExitStack:
    """The number of records up to which they are written and parsed one by one."""
    stack = contextlib.ExitStack()
    for module in (encoder, decoder):
        stack.enter_context(mock.patch.object(module, "_FEW", few))
    return stack


def own_header(headers: list[tuple[str, bytes | None]]) -> bytes | None:
    return next((value for name, value in headers if name == "lakelog" and value is not None), None)


def rows(plain: list[PlainRecord]) -> list[dict[str, object]]:
    """What ``decode`` should give for these records."""
    return [
        {"offset": r.offset, "timestamp_ms": r.time, "key": r.key, "value": r.value, "header": own_header(r.headers)}
        for r in plain
    ]


def parsed(data: bytes) -> RecordBatch:
    (batch,) = parse_batches(data)
    return batch


@given(
    pairs=st.lists(st.tuples(maybe, maybe), max_size=40),
    own_headers=st.booleans(),
    keyed=st.sampled_from(["some", "all", "none"]),
    codec=st.sampled_from(CODECS),
    max_bytes=st.sampled_from([200, 5_000, 1_000_000]),
    few=st.sampled_from([0, 10, 1000]),
)
def test_a_consumer_reads_what_was_encoded_and_so_do_the_columns(
    pairs: list[tuple[bytes | None, bytes | None]], own_headers: bool, keyed: str, codec: int, max_bytes: int, few: int
) -> None:
    keys = [None if keyed == "none" else k or b"k" if keyed == "all" else k for k, _ in pairs]
    values = [v for _, v in pairs]
    headers = [b"1|x|w|0|a|%d|-1" % n for n in range(len(pairs))] if own_headers else HEADER
    base, seen, columns = 5_000_000_000, [], []
    with by_columns_from(few):
        for batch in encode(records(keys, values, headers), 1_700_000_000_000, codec, max_bytes):
            data = replace(batch, base_offset=base).to_bytes()
            assert len(data) <= max_bytes or batch.count == 1
            seen += read_batch(data)
            columns += decode(parse_batches(data)).to_pylist()
            base = parsed(data).next_offset
    wanted = [
        PlainRecord(5_000_000_000 + n, 1_700_000_000_000, k, v, [("lakelog", headers[n] if own_headers else HEADER)])
        for n, (k, v) in enumerate(zip(keys, values, strict=True))
    ]
    assert seen == wanted
    assert columns == rows(wanted)


shapes = st.fixed_dictionaries(
    {
        "keyed": st.sampled_from(["all", "none", "some"]),
        "valued": st.sampled_from(["all", "all", "some", "first null"]),
        "headers": st.sampled_from(["none", "ours", "others", "mixed", "several", "null"]),
    }
)


@given(data=st.data(), shape=shapes, count=st.integers(1, 40), few=st.sampled_from([0, 1000]))
def test_batches_of_any_producer_are_read_as_record_by_record(
    data: st.DataObject, shape: dict[str, str], count: int, few: int
) -> None:
    choices: dict[str, list[list[tuple[str, bytes | None]]]] = {
        "none": [[]],
        "ours": [[("lakelog", HEADER)]],
        "others": [[("trace", b"x")]],
        "mixed": [[("lakelog", HEADER)], [], [("trace", b"x")]],
        "several": [[("trace", b"x"), ("lakelog", HEADER)], [("lakelog", HEADER), ("lakelog", b"2")]],
        "null": [[("lakelog", None)], [("lakelog", HEADER)]],
    }
    plain, offset, time = [], data.draw(st.integers(0, 2**40)), data.draw(st.integers(0, 2**41))
    base = offset
    for number in range(count):
        key = {"all": content, "none": st.none(), "some": maybe}[shape["keyed"]]
        is_null = shape["valued"] == "first null" and number == 0
        value = st.none() if is_null else maybe if shape["valued"] == "some" else content
        headers = data.draw(st.sampled_from(choices[shape["headers"]]))
        plain.append(PlainRecord(offset, time, data.draw(key), data.draw(value), headers))
        offset += data.draw(st.sampled_from([1, 1, 1, 300]))  # a compacted topic has gaps
        time += data.draw(st.integers(-1000, 70_000))
    codec = data.draw(st.sampled_from(["none", "gzip", "snappy", "lz4", "zstd"]))
    batch = parsed(write_batch(plain, base, codec))
    with by_columns_from(few):
        found = decode([batch])
    assert found.to_pylist() == rows(plain)
    assert found.schema == RECORDS_SCHEMA
    assert batch.next_offset == plain[-1].offset + 1


def alike(count: int, key: bytes | None = b"k") -> Records:
    return records([key] * count, [b'{"n":%d}' % n for n in range(count)])


def test_small_batches_are_parsed_together_in_the_order_of_their_offsets(monkeypatch: pytest.MonkeyPatch) -> None:
    """A log of micro-batches: a ``begin`` and some rows each, with and without keys, sometimes of another producer."""
    base, batches, wanted = 0, [], []
    for number in range(60):
        headers = [b"1|b|w|%d|a" % number] + [HEADER] * 9
        keys = [None] + [b"k" if number % 20 else None] * 9
        (batch,) = encode(records(keys, [None, *[b"%d" % number] * 9], headers), number)
        batches.append(replace(batch, base_offset=base))
        wanted += [(base + n, number, headers[n], keys[n]) for n in range(10)]
        base += 10
        if number % 7 == 0:
            batches += parse_batches(write_batch([PlainRecord(base, 3, b"k", b"v", [("a", b"b")] * 2)], base))
            wanted.append((base, 3, None, b"k"))
            base += 1
    calls: list[int] = []
    parse = decoder.parse_record
    monkeypatch.setattr(decoder, "parse_record", lambda *given: calls.append(1) or parse(*given))
    found = decode(batches)
    names = ("offset", "timestamp_ms", "header", "key")
    assert list(zip(*(found.column(name).to_pylist() for name in names), strict=True)) == wanted
    assert len(calls) < 3 * len(batches)  # not once a row


def test_a_crc_is_that_of_the_protocol() -> None:
    assert crc32c(b"123456789") == 0xE3069283  # RFC 3720
    data = encode(alike(20), 5)[0].to_bytes()
    assert struct.unpack_from(">I", data, 17)[0] == crc32c(data[21:])


def test_every_changed_byte_after_the_frame_is_detected() -> None:
    data = encode(alike(20), 5)[0].to_bytes()
    for at in range(17, len(data)):
        wrong = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(Corrupt, match="CRC"):
            list(parse_batches(wrong))


@pytest.mark.parametrize("codec", CODECS)
def test_records_that_are_damaged_before_the_crc_was_made_are_an_error(codec: int) -> None:
    (batch,) = encode(alike(200), 5, codec)
    for wrong in (
        replace(batch, payload=batch.payload[:-3]),
        replace(batch, payload=batch.payload[5:]),
        replace(batch, count=199),
        replace(batch, count=201),
    ):
        with pytest.raises(Corrupt, match="damaged"):
            decode(parse_batches(wrong.to_bytes()))


def test_a_fetch_may_end_within_a_batch() -> None:
    whole = b"".join(replace(b, base_offset=n).to_bytes() for n in (0, 20) for b in encode(alike(20), 5))
    assert [b.base_offset for b in parse_batches(whole)] == [0, 20]
    for end in (len(whole) - 1, len(whole) // 2 + 60, len(whole) // 2 + 3):
        assert [b.base_offset for b in parse_batches(whole[:end])] == [0]


def test_a_producers_numbers_are_kept_and_a_control_batch_shows_nothing() -> None:
    (batch,) = encode(alike(3), 5)
    numbered = replace(batch, producer_id=9, producer_epoch=2, base_sequence=77, base_offset=4)
    assert parsed(numbered.to_bytes()) == numbered
    assert not numbered.is_transactional
    control = parsed(write_batch([PlainRecord(7, 1, b"\0\0\0\1", b"\0\0")], 7, attributes=0x30))
    assert control.is_control and control.is_transactional
    assert decode([control]).num_rows == 0 and control.next_offset == 8


def test_a_topic_with_append_time_has_the_brokers_times() -> None:
    plain = [PlainRecord(n, 1000 + n, None, b"v") for n in range(20)]
    found = decode(parse_batches(write_batch(plain, 0, attributes=8)))
    assert set(found.column("timestamp_ms").to_pylist()) == {1019}


def test_messages_of_old_producers_and_unknown_codecs_are_named() -> None:
    data = bytearray(encode(alike(3), 5)[0].to_bytes())
    data[16] = 1
    with pytest.raises(UnsupportedFeature, match="format 1"):
        list(parse_batches(bytes(data)))
    with pytest.raises(UnsupportedFeature, match="codec 6"):
        decompress(b"x", 6)


def test_snappy_is_read_in_the_form_of_javas_client() -> None:
    blocks = [b"abc" * 100, b"def" * 100]
    packed = [pa.Codec("snappy").compress(b, asbytes=True) for b in blocks]
    java = b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(p)) + p for p in packed)
    assert decompress(java, SNAPPY) == b"".join(blocks)


def test_what_does_not_compress_is_stored_plain() -> None:
    (batch,) = encode(records([None], [os.urandom(4000)], b""), 5)
    assert batch.codec == NONE


def test_the_records_of_a_long_append_are_numbered_batch_by_batch() -> None:
    batches = encode(alike(200_000, None), 5)
    assert sum(b.count for b in batches) == 200_000 and len(batches) > 3
    assert decode([batches[1]]).column("offset").to_pylist() == list(range(batches[1].count))
