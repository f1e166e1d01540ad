"""Tables of many kinds, made by Apache Paimon's Java core: what its users may hand to lakelog."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Callable, Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

from paimon_java import PaimonJava

Make = Callable[[PaimonJava, Path, str, random.Random], None]
MAKERS: dict[str, Make] = {}
"""Name of a kind of table → what makes one."""

KEY_TYPES = {
    "int": ("INT", lambda r: r.choice([-(2**31), -1, 0, 1, 7, 100, 2**31 - 1])),
    "bigint": ("BIGINT", lambda r: r.choice([-(2**63), -3, 0, 5, 1 << 40, 2**63 - 1])),
    "tinyint": ("TINYINT", lambda r: r.randrange(-128, 128)),
    "smallint": ("SMALLINT", lambda r: r.randrange(-300, 300)),
    "string": (
        "STRING",
        lambda r: r.choice(["", "a", "ab", "é日", "longer than seven", "~", "𝔘", "a/b=c%d", "\x00"]),
    ),
    "char": ("CHAR(4)", lambda r: r.choice(["abcd", "a", "", "zz z"])),
    "varchar": ("VARCHAR(9)", lambda r: r.choice(["x", "y" * 9, "é"])),
    "boolean": ("BOOLEAN", lambda r: r.random() < 0.5),
    "date": ("DATE", lambda r: dt.date(1970, 1, 1) + dt.timedelta(days=r.randrange(-40000, 40000, 5000))),
    "decimal": ("DECIMAL(9, 2)", lambda r: Decimal(r.randrange(-99999, 99999, 9999)).scaleb(-2)),
    "bigdecimal": ("DECIMAL(30, 5)", lambda r: Decimal(r.randrange(-(10**25), 10**25, 10**24)).scaleb(-5)),
    "time": ("TIME(3)", lambda r: dt.time(r.randrange(24), 59, 1, 1000 * r.randrange(3))),
    "timestamp3": ("TIMESTAMP(3)", lambda r: f"20{r.randrange(10, 20)}-02-03T04:05:06.789"),
    "timestamp6": ("TIMESTAMP(6)", lambda r: f"19{r.randrange(60, 80)}-02-03T04:05:06.000789"),
    "timestamp9": ("TIMESTAMP(9)", lambda r: f"20{r.randrange(10, 20)}-02-03T04:05:06.000789001"),
    "ltz": ("TIMESTAMP(6) WITH LOCAL TIME ZONE", lambda r: f"20{r.randrange(10, 20)}-02-03T04:05:06.000001"),
    "binary": ("BYTES", lambda r: bytes(r.choice([b"", b"\x00", b"\xff\x01", b"a" * 20]))),
}
"""Types that keys and partitions may have, with values that are hard in some way."""

NESTED = {
    "array": (
        {"type": "ARRAY", "element": "STRING"},
        lambda r: [r.choice(["x", None, "é"]) for _ in range(r.randrange(4))],
    ),
    "map": (
        {"type": "MAP", "key": "STRING", "value": "INT"},
        lambda r: {f"k{i}": r.choice([None, i]) for i in range(r.randrange(3))},
    ),
    "row": (
        {"type": "ROW", "fields": [
            {"id": 0, "name": "p", "type": "INT"},
            {"id": 1, "name": "q", "type": {"type": "ARRAY", "element": {"type": "ROW", "fields": [
                {"id": 2, "name": "deep", "type": "STRING"}, {"id": 3, "name": "n", "type": "DECIMAL(10, 2)"}]}}},
        ]},
        lambda r: (r.choice([None, 3]), [(r.choice(["d", None]), Decimal("1.25")) for _ in range(r.randrange(3))]),
    ),
    "map of maps": (
        {"type": "MAP", "key": "INT", "value": {"type": "MAP", "key": "STRING", "value": "BIGINT"}},
        lambda r: {i: {"a": i << 33} for i in range(r.randrange(3))},
    ),
    "array of arrays": (
        {"type": "ARRAY", "element": {"type": "ARRAY", "element": "INT"}},
        lambda r: [[1, None], [], [r.randrange(9)]][: r.randrange(4)],
    ),
}  # fmt: skip
VALUE_TYPES = {
    **KEY_TYPES,
    "float": ("FLOAT", lambda r: r.choice([0.0, -0.0, 1.5, float("nan"), float("inf"), -3.25])),
    "double": ("DOUBLE", lambda r: r.choice([0.0, -0.0, 1.5, float("nan"), float("-inf"), 1e300])),
    **NESTED,
}


def maker(name: str) -> Callable[[Make], Make]:
    """Registers a kind of table."""

    def register(make: Make) -> Make:
        MAKERS[name] = make
        return make

    return register


def nullable(value: Any, chance: random.Random) -> Any:
    """Sometimes NULL."""
    return None if chance.random() < 0.2 else value


def commits(
    paimon: PaimonJava,
    warehouse: Path,
    name: str,
    chance: random.Random,
    row: Callable[[random.Random], Sequence[Any]],
    count: int = 4,
    deletes: float = 0.15,
    compact: Sequence[int] = (),
    **write: Any,
) -> None:
    """Some commits of rows, with deletes when a key is given; some of them compact the buckets ``compact``."""
    for identifier in range(1, count + 1):
        rows = [row(chance) for _ in range(chance.randrange(3, 12))]
        kinds = ["-D" if chance.random() < deletes else chance.choice(["+I", "+U"]) for _ in rows]
        chosen = compact if identifier % 2 == 0 else ()
        paimon.write(str(warehouse), "g", name, rows, kinds, identifier, chosen, **write)


def _keyed(key: str) -> Make:
    def make(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
        kind, value = KEY_TYPES[key]
        paimon.create(str(warehouse), name, {"k": kind, "v": "STRING"}, ["k"], (), {"bucket": "2"})
        commits(paimon, warehouse, name, chance, lambda r: (value(r), f"v{r.randrange(99)}"), compact=(0, 1))

    return make


def _partitioned(key: str) -> Make:
    def make(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
        kind, value = KEY_TYPES[key]
        columns = {"id": "INT", "p": kind, "v": "STRING"}
        paimon.create(str(warehouse), name, columns, (), ["p"], {"bucket": "-1"})
        commits(paimon, warehouse, name, chance, lambda r: (r.randrange(9), nullable(value(r), r), "v"), deletes=0)

    return make


for _key in KEY_TYPES:
    MAKERS[f"key_{_key}"] = _keyed(_key)
    if _key != "binary":
        MAKERS[f"partition_{_key}"] = _partitioned(_key)


def _types(format_: str, **options: str) -> Make:
    def make(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
        types = {n: t for n, t in VALUE_TYPES.items() if not (format_ == "avro" and n == "timestamp9")}
        columns = {"id": "INT", **{n.replace(" ", "_"): t[0] for n, t in types.items()}}
        given = {"bucket": "1", "file.format": format_, **{k.replace("_", "-"): v for k, v in options.items()}}
        paimon.create(str(warehouse), name, columns, ["id"], (), given)

        def row(r: random.Random) -> list[Any]:
            return [r.randrange(9), *(nullable(value(r), r) for _, value in types.values())]

        commits(paimon, warehouse, name, chance, row, 3, compact=(0,))

    return make


for _format in ("parquet", "orc", "avro"):
    MAKERS[f"types_{_format}"] = _types(_format)


@maker("times_orc")
def _times_orc(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
    """Times that do not fit into 64 bits of nanoseconds, also those before 1582 that Paimon itself shifts."""
    times = ["0001-01-01T00:00", "1500-03-01T10:00", "1582-10-04T23:59:59.123", "1582-10-15T00:00:00.500"]
    times += ["1677-01-01T01:02:03", "1969-12-31T23:59:59.999", "2024-02-29T12:34:56.789", "9999-12-31T23:59:59.999"]
    zoned = "TIMESTAMP(6) WITH LOCAL TIME ZONE"
    columns = {"id": "INT", "t3": "TIMESTAMP(3)", "t6": "TIMESTAMP(6)", "z6": zoned}
    columns["a"] = {"type": "ARRAY", "element": "TIMESTAMP(3)"}
    paimon.create(str(warehouse), name, columns, ["id"], (), {"bucket": "1", "file.format": "orc"})

    def row(r: random.Random) -> Sequence[Any]:
        fine = f"{r.choice(times[4:])}{'001' if r.random() < 0.5 else ''}" if r.random() < 0.5 else r.choice(times)
        fine = fine if "." in fine else fine[:19]
        return r.randrange(9), nullable(r.choice(times), r), fine, nullable(r.choice(times), r), [r.choice(times), None]

    commits(paimon, warehouse, name, chance, row, compact=(0,))


def _simple(primary: bool = True, compact: Sequence[int] = (0,), count: int = 5, **options: str) -> Make:
    """A table of (id, v, n) with options (`__` for a dot, `_` for a dash)."""

    def make(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
        given = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
        given.setdefault("bucket", "1")
        columns = {"id": "INT", "v": "STRING", "n": "BIGINT"}
        paimon.create(str(warehouse), name, columns, ["id"] if primary else [], (), given)
        deletes = 0.15 if primary and given.get("merge-engine", "deduplicate") == "deduplicate" else 0

        def row(r: random.Random) -> tuple[Any, ...]:
            return r.randrange(12), nullable(r.choice(["", "a", "b" * 30, "é" * 20]), r), nullable(r.randrange(50), r)

        bucket_of = (lambda row: row[0] % 2) if primary and given["bucket"] == "-1" else None
        commits(paimon, warehouse, name, chance, row, count, deletes, compact, bucket_of=bucket_of)

    return make


MAKERS |= {
    "thin": _simple(data_file__thin_mode="true"),
    "stats_none": _simple(metadata__stats_mode="none"),
    "stats_full": _simple(metadata__stats_mode="full"),
    "stats_counts": _simple(metadata__stats_mode="counts"),
    "stats_dense": _simple(
        metadata__stats_mode="none", fields__v__stats_mode="full", metadata__stats_dense_store="true"
    ),
    "suffix": _simple(file__suffix__include__compression="true", file__compression="snappy"),
    "prefix": _simple(data_file__prefix="mine-", changelog_file__prefix="chg-", changelog_producer="input"),
    "directory": _simple(data_file__path_directory="inside/here"),
    "mixed_formats": _simple(file__format__per__level="0:avro,5:orc", file__compression__per__level="0:snappy,5:zstd"),
    "bloom": _simple(file_index__bloom_filter__columns="v,n"),
    "bloom_outside": _simple(file_index__bloom_filter__columns="v", file_index__in_manifest_threshold="1 b"),
    "manifest_snappy": _simple(manifest__compression="snappy"),
    "manifest_merged": _simple(count=9, manifest__merge_min_count="2"),
    "changelog_input": _simple(changelog_producer="input"),
    "changelog_lookup": _simple(changelog_producer="lookup"),
    "changelog_full": _simple(changelog_producer="full-compaction"),
    "changelog_full_same": _simple(changelog_producer="full-compaction", changelog_producer__row_deduplicate="true"),
    "changelog_lookup_same": _simple(changelog_producer="lookup", changelog_producer__row_deduplicate="true"),
    "vectors": _simple(deletion_vectors__enabled="true", count=7),
    "vectors64": _simple(deletion_vectors__enabled="true", deletion_vectors__bitmap64="true", count=7),
    "first_row": _simple(merge_engine="first-row", count=6),
    "first_row_lookup": _simple(merge_engine="first-row", changelog_producer="lookup", count=6),
    "sequence": _simple(sequence__field="n"),
    "sequence_two": _simple(sequence__field="n,v"),
    "sequence_down": _simple(sequence__field="n", sequence__field__sort_order="descending"),
    "sequence_vectors": _simple(sequence__field="n", deletion_vectors__enabled="true", count=6),
    "ignore_delete": _simple(ignore_delete="true"),
    "dynamic": _simple(bucket="-1", compact=()),
    "postponed": _simple(bucket="-2", compact=()),
    "write_only": _simple(write_only="true", compact=()),
    "append": _simple(primary=False, bucket="-1", compact=()),
    "append_bucketed": _simple(primary=False, bucket="2", bucket_key="n", compact=(0, 1)),
    "append_mod": _simple(primary=False, bucket="3", bucket_key="n", bucket_function__type="mod", compact=()),
    "row_tracking": _simple(primary=False, bucket="-1", row_tracking__enabled="true", compact=()),
    "partial_update": _simple(merge_engine="partial-update"),
    "partial_update_group": _simple(merge_engine="partial-update", fields__n__sequence_group="v"),
    "partial_update_lookup": _simple(merge_engine="partial-update", changelog_producer="lookup"),
    "aggregation_last": _simple(merge_engine="aggregation"),
    "aggregation_full": _simple(
        merge_engine="aggregation", fields__n__aggregate_function="sum", fields__v__aggregate_function="max",
        changelog_producer="full-compaction",
    ),
    "many_levels": _simple(count=14, num_sorted_run__compaction_trigger="3", compact=()),
    "retracted_sums": _simple(
        merge_engine="aggregation", fields__n__aggregate_function="sum", fields__v__aggregate_function="last_value",
    ),
    "rolled": _simple(count=8, target_file_size="1 b", compact=(0,)),
}  # fmt: skip
