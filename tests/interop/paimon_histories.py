"""More tables made by Apache Paimon: merge engines, changed schemas, tags, branches, overwrites."""

from __future__ import annotations

import datetime as dt
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

from paimon_java import PaimonJava
from paimon_tables import MAKERS, Make, commits, maker, nullable


@maker("partition_of_two")
def _two_partitions(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
    columns = {"d": "DATE NOT NULL", "id": "INT NOT NULL", "v": "STRING", "region": "STRING NOT NULL"}
    options = {"bucket": "2", "partition.legacy-name": "false", "changelog-producer": "input"}
    paimon.create(str(warehouse), name, columns, ["region", "d", "id"], ["region", "d"], options)
    days = [dt.date(1969, 12, 31), dt.date(2024, 2, 29)]
    commits(
        paimon,
        warehouse,
        name,
        chance,
        lambda r: (r.choice(days), r.randrange(5), "v", r.choice(["eu west", "us:1", "é"])),
    )


@maker("key_of_three")
def _three_keys(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
    columns = {"a": "STRING", "v": "DOUBLE", "b": "BIGINT", "c": "DATE"}
    paimon.create(str(warehouse), name, columns, ["c", "a", "b"], (), {"bucket": "3", "bucket-key": "b"})
    days = [dt.date(1969, 12, 31), dt.date(2024, 2, 29)]
    commits(
        paimon, warehouse, name, chance,
        lambda r: (r.choice(["", "a", "é" * 9]), r.random(), r.randrange(-2, 2), r.choice(days)), 6, compact=(0, 1, 2),
    )  # fmt: skip


@maker("aggregates")
def _aggregates(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
    functions = {
        "s": ("BIGINT", "sum"), "p": ("DOUBLE", "product"), "mx": ("STRING", "max"), "mn": ("DATE", "min"),
        "lv": ("STRING", "last_value"), "ln": ("STRING", "last_non_null_value"), "fv": ("STRING", "first_value"),
        "fn": ("STRING", "first_non_null_value"), "la": ("STRING", "listagg"), "an": ("BOOLEAN", "bool_and"),
        "orr": ("BOOLEAN", "bool_or"), "dec": ("DECIMAL(12, 2)", "sum"), "f": ("FLOAT", "sum"),
        "ti": ("TINYINT", "sum"),
        "co": ({"type": "ARRAY", "element": "STRING"}, "collect"),
        "mm": ({"type": "MAP", "key": "STRING", "value": "INT"}, "merge_map"),
    }  # fmt: skip
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.la.list-agg-delimiter": "; "}
    options |= {f"fields.{n}.aggregate-function": f for n, (_, f) in functions.items()}
    options["fields.co.distinct"] = "true"
    columns = {"k": "INT", **{n: t for n, (t, _) in functions.items()}}
    paimon.create(str(warehouse), name, columns, ["k"], (), options)

    def row(r: random.Random) -> list[Any]:
        texts = [nullable(r.choice(["", "x", "yy"]), r) for _ in range(6)]
        return [
            r.randrange(5), nullable(r.randrange(-9, 9), r), nullable(r.choice([0.5, 2.0, -1.0]), r), texts[0],
            nullable(dt.date(2024, 1, r.randrange(1, 9)), r), *texts[1:], nullable(r.random() < 0.5, r),
            nullable(r.random() < 0.5, r), nullable(Decimal(r.randrange(999)).scaleb(-2), r),
            nullable(r.choice([0.5, 1.25]), r), nullable(r.randrange(3), r),
            nullable([r.choice("abc") for _ in range(r.randrange(3))], r), nullable({r.choice("xy"): 1}, r),
        ]  # fmt: skip

    commits(paimon, warehouse, name, chance, row, 6, 0, (0,))


@maker("aggregates_retracted")
def _retracted(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
    options = {"bucket": "1", "merge-engine": "aggregation", "fields.s.aggregate-function": "sum",
               "fields.c.aggregate-function": "collect", "fields.m.aggregate-function": "max",
               "fields.m.ignore-retract": "true", "fields.l.aggregate-function": "last_value"}  # fmt: skip
    columns = {"k": "INT", "s": "INT", "c": {"type": "ARRAY", "element": "STRING"}, "m": "INT", "l": "STRING"}
    paimon.create(str(warehouse), name, columns, ["k"], (), options)
    commits(
        paimon, warehouse, name, chance,
        lambda r: (r.randrange(4), r.randrange(9), [r.choice("abc")], r.randrange(9), nullable("l", r)), 6, 0.3, (0,),
    )  # fmt: skip


@maker("partial_groups")
def _groups(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
    options = {
        "bucket": "1", "merge-engine": "partial-update", "fields.g1,g2.sequence-group": "a,b",
        "fields.h.sequence-group": "c,d", "fields.c.aggregate-function": "sum",
        "fields.d.aggregate-function": "first_value", "fields.d.ignore-retract": "true",
    }  # fmt: skip
    columns = {
        "k": "INT",
        "a": "INT",
        "b": "STRING",
        "g1": "INT",
        "g2": "INT",
        "c": "INT",
        "d": "STRING",
        "h": "BIGINT",
        "plain": "STRING",
    }
    paimon.create(str(warehouse), name, columns, ["k"], (), options)

    def row(r: random.Random) -> list[Any]:
        n = [nullable(r.randrange(4), r) for _ in range(6)]
        return [r.randrange(4), n[0], nullable("b", r), n[1], n[2], n[3], nullable(f"d{r.randrange(9)}", r), n[4],
                nullable(f"p{r.randrange(9)}", r)]  # fmt: skip

    commits(paimon, warehouse, name, chance, row, 7, 0.2, (0,))


def _removing(**options: str) -> Make:
    def make(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
        given = {k.replace("__", ".").replace("_", "-"): v for k, v in options.items()}
        columns = {"k": "INT", "a": "INT", "g": "INT", "b": "STRING"}
        paimon.create(str(warehouse), name, columns, ["k"], (), {"bucket": "1", **given})
        commits(
            paimon, warehouse, name, chance,
            lambda r: (r.randrange(4), nullable(r.randrange(9), r), nullable(r.randrange(4), r), nullable("b", r)),
            7, 0.3, (0,),
        )  # fmt: skip

    return make


MAKERS |= {
    "partial_remove": _removing(merge_engine="partial-update", partial_update__remove_record_on_delete="true"),
    "partial_remove_group": _removing(
        merge_engine="partial-update", fields__g__sequence_group="a,b",
        partial_update__remove_record_on_sequence_group="g",
    ),
    "partial_ignore": _removing(merge_engine="partial-update", ignore_delete="true"),
    "aggregation_remove": _removing(merge_engine="aggregation", aggregation__remove_record_on_delete="true"),
    "first_row_ignore": _removing(merge_engine="first-row", ignore_delete="true"),
}  # fmt: skip


def _row(**fields: str) -> dict[str, Any]:
    return {"type": "ROW", "fields": [{"id": at, "name": n, "type": t} for at, (n, t) in enumerate(fields.items())]}


@maker("evolved")
def _evolved(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
    _evolve(paimon, warehouse, name, chance, ["id"], "parquet")


@maker("evolved_orc")
def _evolved_orc(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
    _evolve(paimon, warehouse, name, chance, [], "orc")


@maker("evolved_avro")
def _evolved_avro(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
    _evolve(paimon, warehouse, name, chance, ["id"], "avro")


def _evolve(
    paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random, keys: list[str], format_: str
) -> None:
    """Columns come, go, are renamed, moved and retyped, in rows inside of rows too."""
    columns = {
        "id": "INT", "i": "INT", "s": "STRING", "d": "DATE", "ts": "TIMESTAMP(6)", "dec": "DECIMAL(9, 2)",
        "f": "FLOAT", "b": "BOOLEAN", "bi": "BIGINT",
        "r": _row(x="INT", y="STRING"), "ar": {"type": "ARRAY", "element": _row(e="INT")},
    }  # fmt: skip
    options = {"bucket": "1" if keys else "-1", "file.format": format_}
    paimon.create(str(warehouse), name, columns, keys, (), options)
    change, where = paimon.change, str(warehouse)

    def old(i: int) -> list[Any]:
        return [i, i - 3, str(i * 7), dt.date(2024, 1, i + 1), f"2024-01-0{i + 1}T12:00:00.123456", Decimal(f"{i}.55"),
                i / 4, i % 2 == 0, i << 33, (i, f"y{i}"), [(i,)]]  # fmt: skip

    paimon.write(where, "g", name, [old(i) for i in range(5)], identifier=1)
    text, move = paimon.type_of("STRING"), paimon.paimon.schema.SchemaChange.Move

    def path(*names: str) -> Any:
        made = paimon.gateway.new_array(paimon.gateway.jvm.java.lang.String, len(names))
        for at, part in enumerate(names):
            made[at] = part
        return made

    paimon.alter(
        where, name,
        change.updateColumnType("i", paimon.type_of("BIGINT")), change.updateColumnType("s", paimon.type_of("INT")),
        change.updateColumnType("d", text), change.updateColumnType("ts", paimon.type_of("DATE")),
        change.updateColumnType("dec", paimon.type_of("DECIMAL(12, 4)")),
        change.updateColumnType("f", paimon.type_of("DOUBLE")), change.updateColumnType("b", text),
        change.updateColumnType("bi", paimon.type_of("INT")), change.renameColumn("s", "renamed"),
        change.addColumn("s", paimon.type_of("DOUBLE")), change.updateColumnPosition(move.first("f")),
        change.addColumn(path("r", "z"), paimon.type_of("DOUBLE"), None, None), change.dropColumn(path("r", "y")),
        change.updateColumnType(path("r", "x"), paimon.type_of("BIGINT"), False),
    )  # fmt: skip
    names = paimon.names(where, "g", name)
    values = {"id": 3, "i": 1 << 40, "renamed": -5, "d": "day", "ts": dt.date(1960, 1, 1), "dec": Decimal("9.1234"),
              "f": 1.1, "b": "text", "bi": 7, "r": (1 << 40, 2.5), "ar": [(1,), (None,)], "s": 0.5}  # fmt: skip
    paimon.write(where, "g", name, [[values[n] for n in names]], identifier=2)
    paimon.alter(where, name, change.dropColumn("renamed"), change.updateColumnType("i", text))
    paimon.alter(where, name, change.addColumn("renamed", text))
    names = paimon.names(where, "g", name)
    values |= {"id": 9, "i": "i", "renamed": "back"}
    paimon.write(where, "g", name, [[values[n] for n in names]], identifier=3, compact=(0,) if keys else ())


@maker("tags_and_branches")
def _tags(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
    where = str(warehouse)
    paimon.create(where, name, {"id": "INT", "v": "STRING"}, ["id"], (), {"bucket": "1"})
    commits(paimon, warehouse, name, chance, lambda r: (r.randrange(6), f"v{r.randrange(99)}"), 3)
    table = paimon.table(where, "g", name)
    table.createTag("one", 1)
    table.createTag("two", 2, paimon.gateway.jvm.java.time.Duration.ofDays(9))
    table.createBranch("dev", "two")
    table.createBranch("empty")
    paimon.alter(where, f"{name}$branch_dev", paimon.change.addColumn("w", paimon.type_of("INT")))
    paimon.write(where, "g", f"{name}$branch_dev", [(50, "branch", 5)])
    paimon.write(where, "g", name, [(60, "main")])


@maker("overwritten")
def _overwritten(paimon: PaimonJava, warehouse: Path, name: str, chance: random.Random) -> None:
    where = str(warehouse)
    columns = {"p": "INT", "id": "INT", "v": "STRING"}
    paimon.create(where, name, columns, ["p", "id"], ["p"], {"bucket": "2"})
    commits(paimon, warehouse, name, chance, lambda r: (r.randrange(3), r.randrange(9), "old"), 3)
    paimon.write(where, "g", name, [(1, 1, "new"), (1, 2, "new")], overwrite={"p": "1"})
    paimon.write(where, "g", name, [(2, 7, "dynamic")], overwrite={})
    paimon.write(where, "g", name, [(2, 8, "after")])
