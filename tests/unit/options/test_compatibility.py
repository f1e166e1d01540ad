"""The words of Arctic, Amoro and Flink Table Store: every option of their tables is known, and means what is said."""

from __future__ import annotations

from pathlib import Path

import pytest

from lakelog.catalog.base import Identifier
from lakelog.errors import InvalidOption, NotAllowed
from lakelog.lake.lake import Lake
from lakelog.options.compatibility import INERT, with_defaults
from lakelog.options.log import shown_value
from lakelog.paimon.schema.changes import SetOption
from lakelog.service.terminal.guard.guarded_tables import GuardedTables
from lakelog.sql.runtime.statement import Privilege
from lakelog.sql.syntax.masking import without_secrets
from lakelog.table.model.log_options import ALL_OPTIONS, canonical_options

TABLE, READ, WRITE = "table", "read", "write"
SAME = ""

AMORO = [
    # properties of a table
    (TABLE, "log-store.enabled", "true", SAME),
    (TABLE, "log-store.enable", "true", "log-store.enabled"),
    (TABLE, "log-store.type", "kafka", SAME),
    (TABLE, "log-store.type", "pulsar", SAME),
    (TABLE, "log-store.address", "localhost:9092", SAME),
    (TABLE, "log-store.topic", "t", SAME),
    (TABLE, "log-store.data-format", "json", "log-store.data-format=debezium-json"),
    (TABLE, "log-store.data-version", "v1", SAME),
    (TABLE, "log-store.consistency-guarantee.enabled", "false", SAME),
    (TABLE, "log-store.consistency-guarantee.enable", "true", "log-store.consistency-guarantee.enabled"),
    (TABLE, "log-store.catch-up", "false", SAME),
    (TABLE, "log-store.catch-up-timestamp", "0", SAME),
    (TABLE, "log-store.kafka.compatible.enabled", "true", SAME),
    (TABLE, "properties.acks", "all", SAME),
    # hints of a read
    (READ, "mixed-format.read.mode", "file", "read.mode"),
    (READ, "arctic.read.mode", "log", "read.mode"),
    (READ, "scan.startup.mode", "latest", SAME),
    (READ, "scan.startup.mode", "earliest", SAME),
    (READ, "scan.startup.mode", "timestamp", SAME),
    (READ, "scan.startup.mode", "group-offsets", "scan.startup.mode=latest"),
    (READ, "scan.startup.mode", "specific-offsets", SAME),
    (READ, "scan.startup.timestamp-millis", "1700000000000", SAME),
    (READ, "scan.startup.specific-offsets", "partition:0,offset:42;partition:1,offset:300", SAME),
    (READ, "properties.group.id", "g", SAME),
    (READ, "log.consumer.changelog.modes", "all-kinds", SAME),
    (READ, "log.consumer.changelog.modes", "append-only", SAME),
    (READ, "source.parallelism", "4", SAME),
    (READ, "streaming", "true", SAME),
    (READ, "monitor-interval", "10 s", SAME),
    (READ, "start-snapshot-id", "3", "scan.snapshot-id"),
    # hints of a write
    (WRITE, "mixed-format.emit.mode", "auto", "emit.mode"),
    (WRITE, "mixed-format.emit.mode", "file,log", "emit.mode"),
    (WRITE, "arctic.emit.mode", "file", "emit.mode"),
    (WRITE, "arctic.emit.mode", "log", "emit.mode"),
    (
        WRITE,
        "mixed-format.emit.auto-write-to-logstore.watermark-gap",
        "1 min",
        "emit.auto-write-to-logstore.watermark-gap",
    ),
    (WRITE, "arctic.emit.auto-write-to-logstore.watermark-gap", "1 min", "emit.auto-write-to-logstore.watermark-gap"),
    (WRITE, "log.version", "v1", SAME),
    (WRITE, "sink.parallelism", "4", SAME),
    (WRITE, "write.distribution-mode", "hash", "write.shuffle=bucket"),
    (WRITE, "write.distribution-mode", "none", "write.shuffle"),
    (WRITE, "write.distribution.hash-mode", "primary-partition-key", SAME),
    # hints of a lookup join
    (READ, "dim-table.enabled", "true", SAME),
    (READ, "dim-table.enable", "true", "dim-table.enabled"),
    (READ, "lookup.cache.max-rows", "10000", SAME),
    (READ, "lookup.cache.ttl-after-write", "0", SAME),
    (READ, "lookup.reloading.interval", "10 s", "lookup.refresh-interval"),
    (READ, "rocksdb.auto-compactions", "false", SAME),
    (READ, "rocksdb.writing-threads", "5", SAME),
    (READ, "rocksdb.block-cache.capacity", "33554432", SAME),
    (READ, "rocksdb.block-cache.numShardBits", "-1", SAME),
]
"""Scope, option and value as their users write them, and what the option means here (SAME: it has the same name)."""

TABLE_STORE = [
    (TABLE, "log.system", "kafka", "log-store.type"),
    (TABLE, "kafka.bootstrap.servers", "localhost:9092", "log-store.address"),
    (TABLE, "kafka.topic", "t", "log-store.topic"),
    (TABLE, "kafka.acks", "all", "properties.acks"),
    (TABLE, "log.kafka.bootstrap.servers", "localhost:9092", "log-store.address"),
    (TABLE, "log.kafka.acks", "all", "properties.acks"),
    (TABLE, "log.system.partitions", "1", SAME),
    (TABLE, "log.system.replication", "1", SAME),
    (TABLE, "log.system.auto-register", "true", SAME),
    (TABLE, "log.system.auto-register-timeout", "1 min", SAME),
    (TABLE, "log.consistency", "transactional", SAME),
    (TABLE, "log.consistency", "eventual", SAME),
    (TABLE, "table-storage.log.consistency", "eventual", "log.consistency"),
    (TABLE, "table-storage.log.kafka.bootstrap.servers", "localhost:9092", "log-store.address"),
    (TABLE, "table-storage.file.format", "orc", "file.format"),
    (TABLE, "log.changelog-mode", "auto", SAME),
    (TABLE, "log.changelog-mode", "all", SAME),
    (TABLE, "log.changelog-mode", "upsert", SAME),
    (TABLE, "log.format", "debezium-json", "log-store.data-format"),
    (TABLE, "log.key.format", "json", SAME),
    (TABLE, "log.retention", "1 d", "log-store.retention"),
    (TABLE, "log.ignore-delete", "false", SAME),
    (READ, "log.scan", "full", "scan.startup.mode=latest-full"),
    (READ, "log.scan", "latest", "scan.startup.mode"),
    (READ, "log.scan", "from-timestamp", "scan.startup.mode=timestamp"),
    (READ, "log.scan.timestamp-millis", "1700000000000", "scan.startup.timestamp-millis"),
    (READ, "scan.mode", "latest-full", SAME),
    (READ, "scan.timestamp-millis", "1700000000000", SAME),
    (READ, "log.scan.remove-normalize", "true", "scan.remove-normalize"),
    (READ, "scan.remove-normalize", "true", SAME),
    (READ, "streaming-read-mode", "file", "read.mode"),
    (READ, "streaming-read-mode", "log", "read.mode"),
]


def _options(lake: Lake, name: str) -> dict[str, str]:
    return dict(lake.table(name).definition.options)


@pytest.mark.parametrize(("scope", "key", "value", "means"), [*AMORO, *TABLE_STORE])
def test_every_option_of_the_older_systems_is_known(scope: str, key: str, value: str, means: str) -> None:
    own, _, word = (means or key).partition("=")
    assert ALL_OPTIONS.canonical({key: value}, scope) == {own: word or value}
    if key in {option.key for option in INERT}:
        (option,) = (option for option in INERT if option.key == key)
        assert option.doc.startswith("No effect: ")


def test_an_unknown_word_of_an_option_or_a_value_is_refused() -> None:
    for key, value, message in (
        ("log-store.data-version", "v2", "must be one of: v1"),
        ("log.key.format", "avro", "must be one of: json"),
        ("log.ignore-delete", "true", "must be one of: false"),
        ("table-storage.bukcet", "4", "did you mean 'bucket'"),
        ("table-storage.", "4", "unknown option 'table-storage.'"),
        ("kafka.", "4", "unknown option 'kafka.'"),
        ("lakelog.defaults", "paimon", "must be one of: flip-188, amoro"),
    ):
        with pytest.raises(InvalidOption, match=message):
            canonical_options({key: value}, "table")


def test_the_system_of_table_store_turns_the_log_on_or_off() -> None:
    on = {"log-store.enabled": "true", "log-store.type": "kafka"}
    assert canonical_options({"log.system": "kafka"}, "table") == on
    assert canonical_options({"table-storage.log.system": "kafka"}, "table") == on
    assert canonical_options({"log.system": "none"}, "table") == {"log-store.enabled": "false"}
    assert canonical_options({"log-store.type": "kafka"}, "table") == {"log-store.type": "kafka"}
    assert canonical_options({"log.system": "kafka", "log-store.enabled": "false"}, "table") == {
        "log-store.enabled": "false",
        "log-store.type": "kafka",
    }


def test_a_profile_sets_the_defaults_of_a_log_and_options_override_it() -> None:
    flip = with_defaults({"lakelog.defaults": "flip-188"}, has_log=True)
    assert flip == {
        "log-store.type": "kafka",
        "log-store.data-format": "debezium-json",
        "log.consistency": "transactional",
        "log.changelog-mode": "auto",
        "scan.startup.mode": "latest-full",
    }
    amoro = with_defaults({"lakelog.defaults": "amoro", "log.changelog-mode": "upsert"}, has_log=True)
    assert (amoro["log.consistency"], amoro["log.changelog-mode"]) == ("eventual", "upsert")
    pulsar = {"lakelog.defaults": "amoro", "log-store.address": "pulsar://localhost:6650"}
    assert "log-store.type" not in with_defaults(pulsar, has_log=True)
    assert with_defaults({"lakelog.defaults": "amoro", "bucket": "2"}, has_log=False) == {"bucket": "2"}
    assert with_defaults({"bucket": "2"}, has_log=True) == {"bucket": "2"}


def test_a_table_is_created_by_a_profile(lake: Lake) -> None:
    lake.sql(
        "create table d.t (id int, primary key (id)) with ('log.system' = 'embedded', 'lakelog.defaults' = 'flip-188')"
    )
    kept = _options(lake, "d.t")
    assert kept["log.consistency"] == "transactional" and kept["scan.startup.mode"] == "latest-full"
    assert (kept["log-store.enabled"], kept["log-store.type"]) == ("true", "embedded")
    assert "lakelog.defaults" not in kept
    with pytest.raises(InvalidOption, match=r"'lakelog\.defaults'.*rows of its log depend on it"):
        lake.sql("alter table d.t set tblproperties ('lakelog.defaults' = 'amoro')")


def test_a_profile_whose_log_has_servers_asks_for_their_address(lake: Lake) -> None:
    with pytest.raises(InvalidOption, match=r"'log-store\.address' is required"):
        lake.sql(
            "create table d.t (id int, primary key (id)) "
            "with ('log-store.enabled' = 'true', 'lakelog.defaults' = 'amoro')"
        )


def test_other_spellings_change_and_reset_an_option_of_a_table(lake: Lake) -> None:
    lake.sql("create table d.t (id int, primary key (id)) with ('log.system' = 'embedded')")
    lake.sql("alter table d.t set tblproperties ('log.scan' = 'full', 'table-storage.bucket' = '1')")
    assert _options(lake, "d.t")["scan.startup.mode"] == "latest-full"
    lake.sql("alter table d.t unset tblproperties ('log.scan')")
    assert "scan.startup.mode" not in _options(lake, "d.t")
    with pytest.raises(InvalidOption, match="rows of its log depend on it"):
        lake.sql("alter table d.t set tblproperties ('log.system' = 'kafka')")


SPELLINGS = ("properties.", "kafka.", "log.kafka.", "table-storage.kafka.", "table-storage.table-storage.properties.")


@pytest.mark.parametrize("prefix", SPELLINGS)
def test_a_user_s_statement_is_checked_under_every_spelling(tmp_path: Path, prefix: str) -> None:
    users = GuardedTables(str(tmp_path), {}, {}, Privilege.WRITE, False)
    for name, value, why in (
        ("pulsar.client.authParams", "file:/etc/passwd", "names a file on the server"),
        ("sasl.login.callback.handler.class", "evil.Class", "may load libraries"),
    ):
        given = {prefix + name: value}
        with pytest.raises(NotAllowed, match=why):
            users.canonical_options(given, "table")
        with pytest.raises(NotAllowed, match=why):
            users.alter_table(Identifier("d", "t"), [SetOption(key, value) for key, value in given.items()])
    with pytest.raises(NotAllowed, match="cannot be set for one statement"):
        users.canonical_options({prefix + "acks": "all"}, "read")


@pytest.mark.parametrize("prefix", SPELLINGS[1:])
def test_an_option_has_one_value_under_all_its_names(lake: Lake, tmp_path: Path, prefix: str) -> None:
    """The check of a user's statement would see one value, and the table would have the other."""
    lake.sql("create table d.t (id int, primary key (id)) with ('log.system' = 'embedded')")
    users = GuardedTables(str(tmp_path / "warehouse"), {}, {}, Privilege.WRITE, False)
    for one, other in (("properties.", prefix), (prefix, "properties.")):
        given = {
            one + "pulsar.client.authParams": "token:BEGIN",
            other + "pulsar.client.authParams": "file:/etc/passwd",
        }
        with pytest.raises((InvalidOption, NotAllowed)) as refused:
            users.alter_table(Identifier("d", "t"), [SetOption(key, value) for key, value in given.items()])
        assert "properties.pulsar.client.authParams" not in _options(lake, "d.t") and "BEGIN" not in str(refused.value)
        with pytest.raises(InvalidOption, match=r"two names of 'properties\.pulsar\.client\.authParams'"):
            canonical_options(given, "table")
    assert canonical_options({"properties.acks": "1", prefix + "acks": "1"}, "table") == {"properties.acks": "1"}


def test_what_lakelog_keeps_is_not_set_under_another_name(lake: Lake) -> None:
    lake.sql("create table d.t (id int, primary key (id)) with ('log.system' = 'embedded')")
    with pytest.raises(InvalidOption, match="reserved for lakelog"):
        lake.sql("alter table d.t set tblproperties ('table-storage.lakelog.log-id' = 'x')")


@pytest.mark.parametrize(
    "key",
    [
        "kafka.sasl.password",
        "log.kafka.sasl.username",
        "table-storage.kafka.ssl.key.pem",
        "table-storage.properties.x",
        "table-storage.s3.access-key",
    ],
)
def test_secrets_are_hidden_under_every_spelling(key: str) -> None:
    assert shown_value(key, "AAA") == "******"
    assert "AAA" not in without_secrets(f"create table t (a int) tblproperties ('{key}' = 'AAA')")


def test_an_address_is_shown_under_every_spelling() -> None:
    for key in ("kafka.bootstrap.servers", "log.kafka.topic", "table-storage.bucket", "kafka.acks"):
        assert shown_value(key, "x") == "x"
