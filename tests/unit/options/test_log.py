from __future__ import annotations

from datetime import timedelta

import pytest

from lakelog.errors import InvalidOption
from lakelog.options.log import (
    COMMIT_INTERVAL,
    EMIT_MODE,
    LOG_ENABLED,
    LOG_OPTIONS,
    LOG_RETENTION,
    LOG_TYPE,
    READ_MODE,
    STARTUP_MODE,
    parse_specific_offsets,
)
from lakelog.options.option import Options


@pytest.mark.parametrize(
    ("old", "key", "value"),
    [
        ("log-store.enable", "log-store.enabled", "true"),
        ("kafka.bootstrap.servers", "log-store.address", "localhost:9092"),
        ("kafka.topic", "log-store.topic", "t"),
        ("log.system", "log-store.type", "kafka"),
        ("log.format", "log-store.data-format", "debezium-json"),
        ("log.retention", "log-store.retention", "1 d"),
        ("log-store.consistency-guarantee.enable", "log-store.consistency-guarantee.enabled", "true"),
        ("arctic.emit.mode", "emit.mode", "file,log"),
        ("mixed-format.emit.mode", "emit.mode", "auto"),
        ("arctic.read.mode", "read.mode", "log"),
        ("mixed-format.read.mode", "read.mode", "file"),
        ("streaming-read-mode", "read.mode", "log"),
    ],
)
def test_spellings_of_the_older_projects_are_understood(old: str, key: str, value: str) -> None:
    assert LOG_OPTIONS.canonical({old: value}) == {key: value}


def test_defaults() -> None:
    options = Options()
    assert options.need(LOG_ENABLED) is False
    assert options.get_typed(LOG_TYPE) is None
    assert options.get_typed(LOG_RETENTION) is None
    assert options.need(COMMIT_INTERVAL) == timedelta(seconds=1)
    assert (options.need(EMIT_MODE), options.need(READ_MODE), options.need(STARTUP_MODE)) == ("auto", "file", "latest")


def test_a_read_option_cannot_be_given_to_a_write_nor_a_table_option_to_a_read() -> None:
    assert LOG_OPTIONS.canonical({"read.mode": "log"}, "read") == {"read.mode": "log"}
    with pytest.raises(InvalidOption, match=r"read\.mode"):
        LOG_OPTIONS.canonical({"read.mode": "log"}, "write")
    with pytest.raises(InvalidOption, match=r"log-store\.enabled"):
        LOG_OPTIONS.canonical({"log-store.enabled": "true"}, "read")


def test_client_properties_pass_as_they_are() -> None:
    given = {"properties.security.protocol": "SASL_SSL", "properties.anything": "x"}
    assert LOG_OPTIONS.canonical(given, "table") == given


def test_a_wrong_key_or_value_is_named_with_a_correction() -> None:
    with pytest.raises(InvalidOption, match=r"did you mean 'log-store\.enabled'"):
        LOG_OPTIONS.canonical({"log-store.enabledd": "true"})
    with pytest.raises(InvalidOption, match=r"'emit\.mode' = 'both' must be one of"):
        LOG_OPTIONS.canonical({"emit.mode": "both"})


def test_specific_offsets() -> None:
    assert parse_specific_offsets("partition:0,offset:42;partition:1,offset:300") == {0: 42, 1: 300}
    assert parse_specific_offsets(" partition:0,offset:42; ") == {0: 42}


@pytest.mark.parametrize("text", ["", "0:42", "partition:0", "partition:a,offset:1", "partition:0,offset:"])
def test_specific_offsets_written_in_another_way_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(InvalidOption, match="write 'partition:0,offset:42"):
        parse_specific_offsets(text)
