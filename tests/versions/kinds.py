"""The kinds of tables and logs that the matrix of versions crosses."""

from __future__ import annotations

from typing import Any, Final

KEYED: Final = "(id bigint, v string, primary key (id))"
PLAIN: Final = "(id bigint, v string)"
PARTITIONED: Final = "(id bigint, v string, p int, primary key (id, p)) partitioned by (p)"
LOG: Final = {"log-store.enabled": "true"}
JSON: Final = {"log-store.data-format": "debezium-json"}
FILES: Final = {**LOG, "log-store.type": "files"}
KINDS: Final[dict[str, tuple[str, dict[str, str]]]] = {
    "key": (KEYED, {"bucket": "2"}),
    "key, partitions": (PARTITIONED, {"bucket": "1"}),
    "key, deletion vectors": (KEYED, {"bucket": "2", "deletion-vectors.enabled": "true"}),
    "key, changelog": (KEYED, {"bucket": "2", "changelog-producer": "lookup"}),
    "key, aggregation": (KEYED, {"bucket": "2", "merge-engine": "aggregation", "fields.v.aggregate-function": "max"}),
    "key, partial-update": (KEYED, {"bucket": "2", "merge-engine": "partial-update"}),
    "key, first-row": (KEYED, {"bucket": "2", "merge-engine": "first-row"}),
    "key, embedded log": (KEYED, {"bucket": "2", **LOG}),
    "key, embedded log, json": (KEYED, {"bucket": "2", **LOG, **JSON}),
    "key, embedded log, partitions": (PARTITIONED, {"bucket": "1", **LOG}),
    "key, embedded log, deletion vectors": (KEYED, {"bucket": "2", **LOG, "deletion-vectors.enabled": "true"}),
    "key, embedded log, dynamic buckets": (KEYED, {"bucket": "-1", **LOG}),
    "key, embedded log of changes": (KEYED, {"bucket": "2", **LOG, "log.content": "changes"}),
    "key, log partitions": (KEYED, {"bucket": "4", **LOG, "log-store.partitions": "2"}),
    "key, log in files": (KEYED, {"bucket": "2", **FILES}),
    "no key": (PLAIN, {}),
    "no key, buckets": (PLAIN, {"bucket": "2", "bucket-key": "id"}),
    "no key, embedded log": (PLAIN, LOG),
    "no key, embedded log, json": (PLAIN, {**LOG, **JSON}),
    "no key, log in files": (PLAIN, FILES),
}
"""Name → columns and options of ``db.t``."""


def has_log(options: dict[str, str]) -> bool:
    """Whether a table of these options has a log."""
    return "log-store.enabled" in options


def rows_of(columns: str, step: int) -> list[dict[str, Any]]:
    """The rows of a step: two new keys, and one that the step before has."""
    rows: list[dict[str, Any]] = [{"id": number, "v": f"{step}-{number}"} for number in range(2 * step, 2 * step + 3)]
    return [{**row, "p": row["id"] % 2} for row in rows] if " p " in columns else rows
