"""Keys in the order of a Java hash map."""

from __future__ import annotations

from lakelog.paimon.types.java_hash_order import in_hash_order, text_hash


def test_hashes_are_those_of_java() -> None:
    assert text_hash("") == 0
    assert text_hash("polygenelubricants") == 0x80000000


def test_options_come_as_paimon_shows_them() -> None:
    given = ["bucket", "changelog-producer", "changelog-producer.row-deduplicate"]
    assert in_hash_order(given) == ["bucket", "changelog-producer.row-deduplicate", "changelog-producer"]
