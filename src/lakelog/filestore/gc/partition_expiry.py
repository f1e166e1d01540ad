"""Drops partitions that are older than ``partition.expiration-time`` (format sheet 12)."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from lakelog.errors import InvalidOption, InvalidRequest
from lakelog.filestore.commit.lost_race import LostRace, until_won
from lakelog.filestore.commit.request import CommitRequest, Overwrite
from lakelog.filestore.metadata.manifests import Manifests
from lakelog.io import clock
from lakelog.io.names import new_uuid
from lakelog.io.storage.storage_clock import storage_now_ms
from lakelog.options.option import Options
from lakelog.options.retention import (
    PARTITION_EXPIRATION_MAX,
    PARTITION_EXPIRATION_STRATEGY,
    PARTITION_EXPIRATION_TIME,
    PARTITION_TIMESTAMP_FORMATTER,
    PARTITION_TIMESTAMP_PATTERN,
)
from lakelog.paimon.metadata.manifest import ManifestEntry
from lakelog.paimon.metadata.snapshot import BATCH_COMMIT_IDENTIFIER, OVERWRITE, Snapshot
from lakelog.paimon.rows.partition import decode_partition
from lakelog.paimon.schema.schema import TableSchema

_LOG = logging.getLogger("lakelog.expire")
_DIRECTIVES: Final = {"y": "%Y", "u": "%Y", "M": "%m", "d": "%d", "H": "%H", "m": "%M", "s": "%S", "S": "%f"}
_DEFAULT: Final = re.compile(r"(\d{1,10})-(\d{1,2})-(\d{1,2})(?: (\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,9}))?)?")

Properties = Callable[[Snapshot | None], Mapping[str, str]]


@dataclass(frozen=True)
class PartitionRule:
    """The expiry rule of partitions: ``age`` after its time, or after its last change (``update-time``)."""

    age: timedelta
    strategy: str
    pattern: str | None
    formatter: str | None
    most: int

    @property
    def is_by_values(self) -> bool:
        """True if the age of a partition follows from its values, and a later change leaves it as it is."""
        return self.strategy == PARTITION_EXPIRATION_STRATEGY.default

    @staticmethod
    def of(given: Mapping[str, str], age: timedelta | None = None, strategy: str | None = None) -> PartitionRule | None:
        """The rule of a table's options, with an optional other age or strategy; None without a rule."""
        options = Options(given)
        age = options.get_typed(PARTITION_EXPIRATION_TIME) if age is None else age
        if age is None:
            return None
        return PartitionRule(
            age,
            options.need(PARTITION_EXPIRATION_STRATEGY) if strategy is None else strategy,
            options.get_typed(PARTITION_TIMESTAMP_PATTERN),
            options.get_typed(PARTITION_TIMESTAMP_FORMATTER),
            options.need(PARTITION_EXPIRATION_MAX),
        )


def pick_old_partitions(
    live: Iterable[ManifestEntry], schema: TableSchema, rule: PartitionRule, now: datetime
) -> list[bytes]:
    """The partitions (serialised rows) to drop, oldest first. Pure; ``now`` is wall clock without a zone.

    A partition without a parseable time (NULL, other text) stays. Raises InvalidOption for an unknown formatter.
    """
    changed: dict[bytes, float | None] = {}
    for entry in live:
        before, created = changed.get(entry.partition, 0), entry.file.creation_time_ms
        changed[entry.partition] = None if before is None or created is None else max(before, created)
    out = []
    for partition, changed_ms in changed.items():
        if rule.strategy == "update-time":
            time = None if changed_ms is None else datetime.fromtimestamp(changed_ms / 1000, UTC).replace(tzinfo=None)
        else:
            time = partition_time(decode_partition(partition, schema), schema.partition_keys, rule)
        if time is not None and time < now - rule.age:
            out.append((time, partition))
    return [partition for _, partition in sorted(out)[: rule.most]]


def partition_time(values: Sequence[Any], keys: Sequence[str], rule: PartitionRule) -> datetime | None:
    """The time in the values of a partition; None if they contain none."""
    texts = {key: None if value is None else str(value) for key, value in zip(keys, values, strict=True)}
    if rule.pattern is None:
        text = texts[keys[0]]
    elif any(f"${key}" in rule.pattern and value is None for key, value in texts.items()):
        text = None
    else:
        longest_first = sorted(keys, key=len, reverse=True)
        names = "|".join(re.escape(key) for key in longest_first)
        text = re.sub(rf"\$({names})", lambda match: str(texts[match[1]]), rule.pattern)
    if text is None:
        return None
    directives = None if rule.formatter is None else _directives(rule.formatter)
    try:
        return _default_time(text) if directives is None else datetime.strptime(text, directives)
    except ValueError:
        _LOG.warning("no time can be read from partition value '%s': it is not dropped for its age", text)
        return None


@dataclass(frozen=True)
class PartitionExpiry:
    """Drops old partitions of one table with an empty overwrite."""

    manifests: Manifests
    latest: Callable[[], Snapshot | None]
    commit: Callable[[CommitRequest], Snapshot]

    def expire(self, rule: PartitionRule, properties: Properties | None = None) -> list[bytes]:
        """Drops the partitions that are old now; returns them. ``properties`` are copied into each commit.

        A partition that changes meanwhile is checked again before it is dropped. Raises InvalidRequest for a table
        without partitions, CommitConflict when others commit all the time.
        """
        schema = self.manifests.paths.schema
        if not schema.partition_keys:
            raise InvalidRequest(f"table {self.manifests.paths.table} is not partitioned, so no partition can expire")
        return until_won(self.manifests.paths.root, lambda: self._expired(rule, properties))

    def _expired(self, rule: PartitionRule, properties: Properties | None) -> list[bytes]:
        now = clock.local_now()
        if not self._old(self.latest(), rule, now):
            return []
        now = clock.local_time(storage_now_ms(self.manifests.io, self.manifests.paths.root))
        old = self._old(self.latest(), rule, now)
        if not old:
            return []

        def prepare(newest: Snapshot | None) -> Mapping[str, str]:
            if not set(old) <= set(self._old(newest, rule, now)):
                raise LostRace("other commits change its old partitions")
            return {} if properties is None else properties(newest)

        user, over = f"expire-partitions-{new_uuid()}", Overwrite(frozenset(old))
        self.commit(
            CommitRequest(user, BATCH_COMMIT_IDENTIFIER, OVERWRITE, prepare=prepare, first_try=True, overwrite=over)
        )
        return old

    def _old(self, snapshot: Snapshot | None, rule: PartitionRule, now: datetime) -> list[bytes]:
        return pick_old_partitions(self.manifests.live(snapshot), self.manifests.paths.schema, rule, now)


def _default_time(text: str) -> datetime:
    match = _DEFAULT.fullmatch(text)
    if match is None:
        raise ValueError(text)
    year, month, day, hour, minute, second = (int(part or 0) for part in match.groups()[:6])
    # parts outside of their range carry over, as in Java's lenient dates
    start = datetime(year + (month - 1) // 12, (month - 1) % 12 + 1, 1)
    fraction = int((match[7] or "0").ljust(6, "0")[:6])
    return start + timedelta(days=day - 1, hours=hour, minutes=minute, seconds=second, microseconds=fraction)


def _directives(formatter: str) -> str:
    """A format of Java's ``DateTimeFormatter``, converted for ``strptime``."""
    out = []
    for part in re.finditer(r"'((?:[^']|'')*)'|([A-Za-z])\2*|[^A-Za-z']", formatter):
        if part[2] is None:
            out.append((part[1] if part[1] is not None else part[0]).replace("''", "'").replace("%", "%%"))
        elif part[2] not in _DIRECTIVES:
            raise InvalidOption(
                f"option '{PARTITION_TIMESTAMP_FORMATTER.key}' = '{formatter}' has the unknown part '{part[0]}': use "
                "yyyy, MM, dd, HH, mm, ss, SSS and text in single quotes"
            )
        else:
            out.append("%y" if part[0] in ("yy", "uu") else _DIRECTIVES[part[2]])
    return "".join(out)
