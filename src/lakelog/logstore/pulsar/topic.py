"""A table's topic on Pulsar: partitioned, created with the table, identified by a unique property.

By default Pulsar retains no messages without a subscription, deletes inactive topics, creates topics on access, and
does not deduplicate retries of a producer. So lakelog sets policies of the topic: a retention, no deletion while
inactive, deduplication.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import quote

import pulsar

from lakelog.errors import AlreadyExists, InvalidOption, LakelogError, NotFound, Unavailable
from lakelog.io.clock import monotonic_s, sleep
from lakelog.io.names import new_uuid
from lakelog.logstore.base import LogLocation
from lakelog.logstore.pulsar.access import TIMEOUT_S, Access, Admin, translated_errors, unavailable
from lakelog.logstore.pulsar.packs import Entry
from lakelog.logstore.topic_identity import check_identity, identity_in, log_id_of, missing
from lakelog.options.log import LOG_RETENTION, LOG_TOPIC

_ID_PROPERTY: Final = "lakelog.log-id"
_METADATA: Final = "application/vnd.partitioned-topic-metadata+json"
_BASE_MARK: Final = "@"
_OWN_RETENTION_MINUTES: Final = 7 * 24 * 60
"""Retention if neither the table nor the namespace sets one; Kafka's default."""
_MINUTE_MS: Final = 60_000


@dataclass(frozen=True)
class PartitionState:
    """The current entries of a partition, from ``first`` to before ``end``; ``last`` is the newest, or None."""

    first: Entry
    end: Entry
    last: Entry | None


class PulsarTopic:
    """The topic of one location. Raises InvalidOption for options without a valid topic."""

    def __init__(self, location: LogLocation) -> None:
        self.location, self.access = location, Access(location)
        self.admin = Admin(self.access)
        domain, _, rest = location.topic.rpartition("://")
        parts = rest.split("/")
        if domain not in ("", "persistent") or len(parts) not in (1, 3) or not all(parts):
            raise InvalidOption(
                f"option '{LOG_TOPIC.key}' = '{location.topic}' is not the name of a persistent topic: write 'name', "
                "'tenant/namespace/name' or 'persistent://tenant/namespace/name'"
            )
        self._full = "/".join(parts if len(parts) == 3 else ["public", "default", parts[0]])
        self.path = "persistent/" + "/".join(quote(part, safe="") for part in self._full.split("/"))
        identity = identity_in(location) or ""
        #: the ledger from which entries are counted; a cluster numbers the ledgers of all its topics together
        self.base = int(identity.rpartition(_BASE_MARK)[2] or 0)

    def partition(self, bucket: int) -> str:
        """The client-side name of a bucket's partition."""
        return f"persistent://{self._full}-partition-{bucket}"

    def create(self, client: pulsar.Client, adopt: bool = False) -> LogLocation:
        """Creates the topic, or adopts an empty one of the same shape; returns the location with its identity.

        With ``adopt`` the topic must exist and may contain records. Raises NotFound if it does not.
        """
        location, identity, ours = self.location, new_uuid(), True
        shape = {"partitions": location.buckets, "properties": {_ID_PROPERTY: identity}}
        if adopt and self._metadata() is None:
            raise missing(location, "does not exist")
        try:
            self.admin.change("PUT", f"{self.path}/partitions", shape, _METADATA)
        except AlreadyExists:
            ours = False
            identity = self._adopt(identity, adopt)
        try:
            self._wake(client)
            first = min(state.first.ledger for state in self.states().values())
            self._keep()
        except BaseException:
            if ours:
                with contextlib.suppress(LakelogError):
                    self.drop()
            raise
        return replace(location, log_id=log_id_of(location.topic, f"{identity}{_BASE_MARK}{self.base + first}"))

    def drop(self) -> None:
        """Deletes the topic by force; does nothing if it does not exist or if another topic has its name."""
        with contextlib.suppress(NotFound):
            with contextlib.suppress(InvalidOption):  # another number of partitions, but this topic
                self.check()
            self.admin.change("DELETE", f"{self.path}/partitions?force=true")

    def check(self) -> None:
        """Raises NotFound if the topic was deleted or replaced, InvalidOption for another number of partitions."""
        self._check(self._metadata())

    def check_same(self) -> None:
        """Raises NotFound if the topic was deleted or replaced."""
        self._same(self._metadata())

    def _same(self, found: dict[str, Any] | None) -> dict[str, Any]:
        if found is None:
            raise missing(self.location, "does not exist")
        if identity_in(self.location) is not None:
            own = found.get("properties") or {}
            check_identity(self.location, f"{own.get(_ID_PROPERTY, '')}{_BASE_MARK}{self.base}")
        return found

    def _check(self, metadata: dict[str, Any] | None) -> None:
        location, found = self.location, self._same(metadata)
        if found["partitions"] != location.buckets:
            raise InvalidOption(
                f"topic '{location.topic}' has {found['partitions']} partitions, but the table has "
                f"{location.buckets} log partitions. For a new table, set 'log-store.partitions' = "
                f"'{found['partitions']}'. For an existing table, copy the rows "
                "into a new one"
            )

    def set_retention(self) -> None:
        """Sets the retention of the location; without one the namespace's retention, if it retains anything."""
        self.check()
        self._set_retention()

    def _set_retention(self) -> None:
        minutes = _OWN_RETENTION_MINUTES
        path = f"{self.path}/retention"
        if self.location.retention_ms is None:
            self._set("DELETE", path)
            policies = self.admin.get(f"{path}?applied=true")
            if policies and policies.get("retentionTimeInMinutes") and policies.get("retentionSizeInMB"):
                return
        else:
            minutes = max(1, -(-self.location.retention_ms // _MINUTE_MS))
        self._set("POST", path, {"retentionTimeInMinutes": minutes, "retentionSizeInMB": -1})

    def states(self, buckets: Sequence[int] | None = None) -> dict[int, PartitionState]:
        """Bucket → the current state of its partition. Raises as ``check``, and Unavailable."""
        chosen = range(self.location.buckets) if buckets is None else buckets
        stats = self.admin.get(f"{self.path}/partitioned-internalStats")
        if stats is None:
            raise missing(self.location, "does not exist")
        self._check(stats["metadata"])
        parts = stats["partitions"]
        return {bucket: self._state(bucket, parts.get(self.partition(bucket))) for bucket in chosen}

    def _state(self, bucket: int, stats: dict[str, Any] | None) -> PartitionState:
        if stats is None or "lastConfirmedEntry" not in stats:
            raise unavailable(
                self.location, f"partition {bucket} of topic '{self.location.topic}' is not served by any broker"
            )
        ledger, _, number = str(stats["lastConfirmedEntry"]).partition(":")
        confirmed = Entry(int(ledger) - self.base, int(number))
        held = sorted((int(part["ledgerId"]) - self.base, int(part["entries"])) for part in stats["ledgers"])
        if confirmed.ledger < 0:
            raise missing(self.location, "was recreated")
        closed = [Entry(ledger, entries - 1) for ledger, entries in held if entries and ledger < confirmed.ledger]
        last = confirmed if confirmed.number >= 0 else (closed[-1] if closed else None)
        end = confirmed.next
        first = Entry(held[0][0], 0) if held else end
        return PartitionState(min(first, end), end, last if last is not None and last >= first else None)

    def _metadata(self) -> dict[str, Any] | None:
        metadata = self.admin.get(f"{self.path}/partitions?checkAllowAutoCreation=false")
        return metadata if metadata and metadata["partitions"] else None

    def _adopt(self, identity: str, with_records: bool) -> str:
        location, metadata = self.location, self._metadata()
        count = metadata["partitions"] if metadata else 0
        if count != location.buckets:
            raise AlreadyExists(
                f"topic '{location.topic}' exists with {count} partitions, the table has {location.buckets} "
                f"log partitions: choose another '{LOG_TOPIC.key}', or set 'log-store.partitions' = '{max(count, 1)}'"
            )
        # a partition that was never used does not exist
        stats = [self.admin.get(f"{self.path}-partition-{bucket}/internalStats") for bucket in range(count)]
        if not with_records and any(state and state["numberOfEntries"] for state in stats):
            raise AlreadyExists(
                f"topic '{location.topic}' exists and holds records; a table needs its own topic: choose another "
                f"'{LOG_TOPIC.key}', or delete the topic"
            )
        known = ((metadata or {}).get("properties") or {}).get(_ID_PROPERTY)
        if known:
            return str(known)
        self.admin.change("PUT", f"{self.path}/properties", {_ID_PROPERTY: identity})
        return identity

    def _wake(self, client: pulsar.Client) -> None:
        """Makes the brokers begin a ledger for each partition, which also checks that clients can connect."""
        with translated_errors(self.location):
            for bucket in range(self.location.buckets):
                client.create_reader(self.partition(bucket), pulsar.MessageId.earliest).close()

    def _keep(self) -> None:
        """Sets the policies that prevent lost and duplicate records."""
        self._set_retention()
        inactive = {
            "inactiveTopicDeleteMode": "delete_when_no_subscriptions",
            "maxInactiveDurationSeconds": 60,
            "deleteWhileInactive": False,
        }
        self._set("POST", f"{self.path}/inactiveTopicPolicies", inactive)
        self._set("POST", f"{self.path}/deduplicationEnabled", True)

    def _set(self, method: str, path: str, body: object = None) -> None:
        """Sets a policy; retries for a new topic until the brokers find it."""
        deadline = monotonic_s() + TIMEOUT_S
        while True:
            try:
                self.admin.change(method, path, body)
                return
            except InvalidOption as refused:
                raise InvalidOption(
                    f"Pulsar at {self.location.address} does not allow topic policies, which a log needs "
                    f"('{LOG_RETENTION.key}', no deletion while inactive, deduplication): set "
                    f"topicLevelPoliciesEnabled=true on the brokers, and grant the right to change them ({refused})"
                ) from refused
            except (NotFound, Unavailable):
                if monotonic_s() > deadline:
                    raise
                sleep(0.05)
